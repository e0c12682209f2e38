#version 450
// Comparisons of two tensors that broadcast, and LOGICAL_AND and LOGICAL_OR of truth values. An invocation writes four
// truth values, each as a byte.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/broadcast.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READS(0, Lhs, lhs)
READS(1, Rhs, rhs)
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;        // of vec4s
    uint elements;
    uint size_1;       // the output's sizes except the outermost, folded to four dimensions
    uint size_2;
    uint size_3;
    uint magic_1;
    uint magic_2;
    uint magic_3;
    uint lhs_stride_0;
    uint lhs_stride_1;
    uint lhs_stride_2;
    uint lhs_stride_3;
    uint rhs_stride_0;
    uint rhs_stride_1;
    uint rhs_stride_2;
    uint rhs_stride_3;
#ifdef DTYPE_Q8
    uint sign_mask;
    int lhs_zero;
    int rhs_zero;
    float lhs_scale;
    float rhs_scale;
#endif
};

#ifdef DTYPE_Q8
// Bytes are compared as the numbers that they represent.
#define NUMBER4 vec4
#define NUMBERS(four, zero, scale) (vec4((four) - (zero)) * (scale))
#else
#define NUMBER4 ACC4
#define NUMBERS(four, zero, scale) (four)
#endif

bvec4 holds(NUMBER4 a, NUMBER4 b) {
#if defined(KIND_EQUAL)
    return equal(a, b);
#elif defined(KIND_NOT_EQUAL)
    return notEqual(a, b);
#elif defined(KIND_GREATER)
    return greaterThan(a, b);
#elif defined(KIND_GREATER_EQUAL)
    return greaterThanEqual(a, b);
#elif defined(KIND_LESS)
    return lessThan(a, b);
#elif defined(KIND_LESS_EQUAL)
    return lessThanEqual(a, b);
#elif defined(KIND_AND)
    return notEqual(a & b, NUMBER4(0));    // truth values are loaded as 0 or 1
#elif defined(KIND_OR)
    return notEqual(a | b, NUMBER4(0));
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 left, right;
    LOAD_OPERANDS(i, elements - 1, left, right)
    bvec4 results = holds(NUMBERS(left, lhs_zero, lhs_scale), NUMBERS(right, rhs_zero, rhs_scale));
    dst[dst_offset + i] = pack_bytes(ivec4(results), 0u);
}
