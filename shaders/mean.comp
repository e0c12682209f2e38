#version 450
// MEAN over any axes. The kept dimensions and the reduced ones are folded to at most four each. An invocation
// computes four consecutive elements of the output, or (WIDE) a workgroup computes them together.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const uint LOCAL = 64;

#ifdef DTYPE_F32
layout(set = 0, binding = 0) readonly buffer Src { float src[]; };
#else
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
#endif
layout(set = 0, binding = 1) writeonly buffer Dst { LANES4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;      // of fours of the output
    uint elements;   // of the output
    uint reduced;    // elements that go into one
    uint keep_size_1;
    uint keep_size_2;
    uint keep_size_3;
    uint keep_stride_0;
    uint keep_stride_1;
    uint keep_stride_2;
    uint keep_stride_3;
    uint fold_size_1;
    uint fold_size_2;
    uint fold_size_3;
    uint fold_stride_0;
    uint fold_stride_1;
    uint fold_stride_2;
    uint fold_stride_3;
#ifdef DTYPE_Q8
    uint sign_mask;
    int zero;
#endif
};

shared ACC4 partial[LOCAL];

uint kept(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    uint z = index % keep_size_3;
    index /= keep_size_3;
    uint y = index % keep_size_2;
    index /= keep_size_2;
    return index / keep_size_1 * keep_stride_0 + index % keep_size_1 * keep_stride_1 + y * keep_stride_2 + z * keep_stride_3;
}

uint folded(uint index) {
    uint z = index % fold_size_3;
    index /= fold_size_3;
    uint y = index % fold_size_2;
    index /= fold_size_2;
    return index / fold_size_1 * fold_stride_0 + index % fold_size_1 * fold_stride_1 + y * fold_stride_2 + z * fold_stride_3;
}

#ifdef DTYPE_F32

vec4 load(uvec4 at) { return vec4(src[at.x], src[at.y], src[at.z], src[at.w]); }
uvec4 base(uvec4 at) { return at + src_offset; }
void finish(uint i, vec4 sum) { dst[dst_offset / 4 + i] = sum / float(reduced); }

#else

ivec4 load(uvec4 at) {
    return ivec4(LOAD_BYTE(src, src_offset, at.x, sign_mask), LOAD_BYTE(src, src_offset, at.y, sign_mask),
                 LOAD_BYTE(src, src_offset, at.z, sign_mask), LOAD_BYTE(src, src_offset, at.w, sign_mask))
        - zero;
}
uvec4 base(uvec4 at) { return at; }
// Rounded about the zero point, halves away from it.
void finish(uint i, ivec4 sum) {
    ivec4 mean = (abs(sum) + int(reduced) / 2) / int(reduced);
    dst[dst_offset + i] = pack_bytes(clamp(mean * sign(sum) + zero, 0, 255), sign_mask);
}

#endif

void main() {
    uint i = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    if (i >= count) return;    // whole workgroups where WIDE, so that the barriers below are uniform
    uvec4 at = base(uvec4(kept(4 * i), kept(4 * i + 1), kept(4 * i + 2), kept(4 * i + 3)));
    ACC4 sum = ACC4(0);
    uint first = WIDE ? gl_LocalInvocationID.x : 0, step = WIDE ? LOCAL : 1;
    for (uint k = first; k < reduced; k += step) sum += load(at + folded(k));
    if (WIDE) {
        partial[first] = sum;
        barrier();
        for (uint half_ = LOCAL / 2; half_ > 0; half_ /= 2) {
            if (first < half_) partial[first] += partial[first + half_];
            barrier();
        }
        if (first != 0) return;
        sum = partial[0];
    }
    finish(i, sum);
}
