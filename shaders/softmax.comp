#version 450
// SOFTMAX along any axis, in two passes. PASS_STATISTICS finds each slice's largest element and the sum of its
// exponentials; PASS_APPLY computes four consecutive elements of the output an invocation, wherever their slices are.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/indexing.glsl"
#include "include/math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;    // a workgroup takes a slice, not an invocation
layout(constant_id = 4) const uint LOCAL = 64;

#ifdef DTYPE_F32
layout(set = 0, binding = 0) readonly buffer Src { float src[]; };
#else
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
#endif
#ifdef PASS_STATISTICS
layout(set = 0, binding = 1) writeonly buffer Statistics { vec2 statistics[]; };
#else
layout(set = 0, binding = 1) readonly buffer Statistics { vec2 statistics[]; };
layout(set = 0, binding = 2) writeonly buffer Dst { LANES4 dst[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint statistics_offset;
#ifdef PASS_APPLY
    uint dst_offset;
    uint elements;
#endif
    uint count;     // of slices, or of fours
    uint length;    // of a slice
    uint inner;     // elements from one of a slice to the next
    float factor;   // beta, and the input's scale where it is quantised
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

float load(uint at) {
#ifdef DTYPE_F32
    return src[src_offset + at];
#else
    return float(LOAD_BYTE(src, src_offset, at, sign_mask));
#endif
}

#ifdef PASS_STATISTICS

shared float partial[LOCAL];

void main() {
    uint i = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    if (i >= count) return;    // whole workgroups where WIDE, so that the barriers below are uniform
    uint start = i / inner * length * inner + i % inner;
    uint first = WIDE ? gl_LocalInvocationID.x : 0, step = WIDE ? LOCAL : 1;

    float largest = uintBitsToFloat(0xff800000u);
    for (uint k = first; k < length; k += step) largest = max(largest, load(start + k * inner));
    if (WIDE) {
        partial[first] = largest;
        barrier();
        for (uint half_ = LOCAL / 2; half_ > 0; half_ /= 2) {
            if (first < half_) partial[first] = max(partial[first], partial[first + half_]);
            barrier();
        }
        largest = partial[0];
        barrier();
    }

    float sum = 0.0;
    for (uint k = first; k < length; k += step) sum += exact_exp((load(start + k * inner) - largest) * factor);
    if (WIDE) {
        partial[first] = sum;
        barrier();
        for (uint half_ = LOCAL / 2; half_ > 0; half_ /= 2) {
            if (first < half_) partial[first] += partial[first + half_];
            barrier();
        }
        sum = partial[0];
    }
    if (first == 0) statistics[statistics_offset / 2 + i] = vec2(largest, sum);
}

#else

float apply(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    uint slice = index / (length * inner) * inner + index % inner;
    vec2 of = statistics[statistics_offset / 2 + slice];
    return exact_exp((load(index) - of.x) * factor) / of.y;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 result = vec4(apply(4 * i), apply(4 * i + 1), apply(4 * i + 2), apply(4 * i + 3));
#ifdef DTYPE_F32
    dst[dst_offset / 4 + i] = result;
#else
    // The output's scale is 1 / 256 and its zero point the lowest step, always.
    dst[dst_offset + i] = pack_bytes(min(ivec4(round_half_away(result * 256.0)), ivec4(255)), sign_mask);
#endif
}

#endif
