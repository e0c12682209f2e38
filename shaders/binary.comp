#version 450
// Arithmetic on two tensors that broadcast; ADD, SUB, MUL and DIV with a fused activation. An invocation computes four
// consecutive elements of the output. The quantised inputs of MAXIMUM and MINIMUM are in the output's scale already.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/activation.glsl"
#include "include/broadcast.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"
#ifdef KIND_POW
#include "include/pow.glsl"
#endif

#if defined(KIND_ADD) || defined(KIND_SUB) || defined(KIND_MUL) || defined(KIND_DIV)
#define FUSED
#endif
#if defined(DTYPE_Q8) && !defined(KIND_MAX) && !defined(KIND_MIN)
#define RESCALED
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool CONTIGUOUS = true;    // both inputs have the output's shape

#ifdef DTYPE_Q8
layout(set = 0, binding = 0) readonly buffer Lhs { uint lhs[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { uint rhs[]; };
#else
layout(set = 0, binding = 0) readonly buffer Lhs { ACC lhs[]; };
layout(set = 0, binding = 0) readonly buffer LhsVectors { ACC4 lhs_vectors[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { ACC rhs[]; };
layout(set = 0, binding = 1) readonly buffer RhsVectors { ACC4 rhs_vectors[]; };
#endif
layout(set = 0, binding = 2) writeonly buffer Dst { LANES4 dst[]; };

layout(push_constant) uniform Push {
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;        // of fours
    uint size_1;       // the output's sizes but for the outermost, folded to four dimensions
    uint size_2;
    uint size_3;
    uint lhs_stride_0;
    uint lhs_stride_1;
    uint lhs_stride_2;
    uint lhs_stride_3;
    uint rhs_stride_0;
    uint rhs_stride_1;
    uint rhs_stride_2;
    uint rhs_stride_3;
#ifdef FUSED
    ACC low;
    ACC high;
#endif
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
#ifdef RESCALED
    int lhs_zero;
    int rhs_zero;
    int dst_zero;
    int lhs_mantissa;    // of ADD and SUB; of PRELU for positive inputs
    int lhs_shift;
    int rhs_mantissa;    // of ADD and SUB
    int rhs_shift;
    int dst_mantissa;    // of PRELU for negative inputs' products with alpha
    int dst_shift;
#endif
};

#ifdef RESCALED

// Inputs are centred at their zero points.
ivec4 combine(ivec4 a, ivec4 b) {
#if defined(KIND_MUL)
    return multiply_by_quantized_multiplier(a * b, dst_mantissa, dst_shift);
#elif defined(KIND_PRELU)
    ivec4 positive = multiply_by_quantized_multiplier(a, lhs_mantissa, lhs_shift);
    ivec4 negative = multiply_by_quantized_multiplier(a * b, dst_mantissa, dst_shift);
    return mix(positive, negative, lessThan(a, ivec4(0)));
#else
    // Both inputs go to a common scale first, with 20 bits of fraction.
    ivec4 left = multiply_by_quantized_multiplier(a << 20, lhs_mantissa, lhs_shift);
    ivec4 right = multiply_by_quantized_multiplier(b << 20, rhs_mantissa, rhs_shift);
#ifdef KIND_SUB
    right = -right;
#endif
    return multiply_by_quantized_multiplier(left + right, dst_mantissa, dst_shift);
#endif
}

#else

ACC4 combine(ACC4 a, ACC4 b) {
#if defined(KIND_ADD)
    return a + b;
#elif defined(KIND_SUB)
    return a - b;
#elif defined(KIND_MUL)
    return a * b;
#elif defined(KIND_DIV)
    return a / b;
#elif defined(KIND_MAX)
    return larger(a, b);
#elif defined(KIND_MIN)
    return smaller(a, b);
#elif defined(KIND_POW)
    return vec4(exact_pow(a.x, b.x), exact_pow(a.y, b.y), exact_pow(a.z, b.z), exact_pow(a.w, b.w));
#elif defined(KIND_PRELU)
    return mix(a, a * b, lessThan(a, ACC4(0)));
#endif
}

#endif

#ifdef DTYPE_Q8

#ifndef RESCALED
const int lhs_zero = 0, rhs_zero = 0, dst_zero = 0;
#endif

ivec4 load_lhs(uvec4 at) {
    return ivec4(LOAD_BYTE(lhs, lhs_offset, at.x, sign_mask), LOAD_BYTE(lhs, lhs_offset, at.y, sign_mask),
                 LOAD_BYTE(lhs, lhs_offset, at.z, sign_mask), LOAD_BYTE(lhs, lhs_offset, at.w, sign_mask))
        - lhs_zero;
}

ivec4 load_rhs(uvec4 at) {
    return ivec4(LOAD_BYTE(rhs, rhs_offset, at.x, sign_mask), LOAD_BYTE(rhs, rhs_offset, at.y, sign_mask),
                 LOAD_BYTE(rhs, rhs_offset, at.z, sign_mask), LOAD_BYTE(rhs, rhs_offset, at.w, sign_mask))
        - rhs_zero;
}

uint finish(ivec4 x) {
#ifdef FUSED
    return pack_bytes(activate(x + dst_zero, low, high), sign_mask);
#else
    return pack_bytes(clamp(x + dst_zero, 0, 255), sign_mask);
#endif
}

#else

ACC4 load_lhs(uvec4 at) {
    at += lhs_offset;
    return ACC4(lhs[at.x], lhs[at.y], lhs[at.z], lhs[at.w]);
}

ACC4 load_rhs(uvec4 at) {
    at += rhs_offset;
    return ACC4(rhs[at.x], rhs[at.y], rhs[at.z], rhs[at.w]);
}

ACC4 finish(ACC4 x) {
#ifdef FUSED
    return activate(x, low, high);
#else
    return x;
#endif
}

#endif

uvec2 addresses(uint index) {
    return broadcast(index, uvec3(size_1, size_2, size_3), uvec4(lhs_stride_0, lhs_stride_1, lhs_stride_2, lhs_stride_3),
                     uvec4(rhs_stride_0, rhs_stride_1, rhs_stride_2, rhs_stride_3));
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 result;
    if (CONTIGUOUS) {
#ifdef DTYPE_Q8
        result = combine(unpack_bytes(lhs[lhs_offset + i], sign_mask) - lhs_zero,
                         unpack_bytes(rhs[rhs_offset + i], sign_mask) - rhs_zero);
#else
        result = combine(lhs_vectors[lhs_offset / 4 + i], rhs_vectors[rhs_offset / 4 + i]);
#endif
    } else {
        uvec2 a = addresses(4 * i), b = addresses(4 * i + 1), c = addresses(4 * i + 2), d = addresses(4 * i + 3);
        result = combine(load_lhs(uvec4(a.x, b.x, c.x, d.x)), load_rhs(uvec4(a.y, b.y, c.y, d.y)));
    }
#ifdef DTYPE_Q8
    dst[dst_offset + i] = finish(result);
#else
    dst[dst_offset / 4 + i] = finish(result);
#endif
}
