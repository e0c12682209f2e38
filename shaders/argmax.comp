#version 450
// ARGMAX and ARGMIN: the position of the largest or smallest element along an axis, of equal ones the first. NaN is
// larger and smaller than all. An invocation searches for four consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
layout(set = 0, binding = 1) writeonly buffer Dst { ivec4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s of the output
    uint elements;    // of the output
    uint size;        // of the input along the axis
    uint inner;       // elements from one position along the axis to the next
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

// Where the search for an element of the output begins.
uint start(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    return index / inner * inner * size + index % inner;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 at = uvec4(start(4 * i), start(4 * i + 1), start(4 * i + 2), start(4 * i + 3));
    ACC4 best = GATHER4(src, at);
    ivec4 found = ivec4(0);
    for (int position = 1; position < int(size); ++position) {
        at += inner;
        ACC4 candidate = GATHER4(src, at);
#ifdef KIND_MAX
        bvec4 better = greaterThan(candidate, best);
#else
        bvec4 better = lessThan(candidate, best);
#endif
#ifdef IS_FLOAT
        better = bvec4(uvec4(better) | (uvec4(is_nan(candidate)) & uvec4(not(is_nan(best)))));
#endif
        best = mix(best, candidate, better);
        found = mix(found, ivec4(position), better);
    }
    dst[dst_offset / 4 + i] = found;
}
