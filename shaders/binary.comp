#version 450
// ADD, SUB and MUL of two tensors that broadcast, with a fused activation. An invocation computes four consecutive
// elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/activation.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool CONTIGUOUS = true;    // both inputs have the output's shape

#ifdef DTYPE_F32
layout(set = 0, binding = 0) readonly buffer Lhs { float lhs[]; };
layout(set = 0, binding = 0) readonly buffer LhsVectors { vec4 lhs_vectors[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { float rhs[]; };
layout(set = 0, binding = 1) readonly buffer RhsVectors { vec4 rhs_vectors[]; };
#else
layout(set = 0, binding = 0) readonly buffer Lhs { uint lhs[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { uint rhs[]; };
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
    ACC low;
    ACC high;
#ifdef DTYPE_Q8
    uint sign_mask;
    int lhs_zero;
    int rhs_zero;
    int dst_zero;
    int lhs_mantissa;    // of ADD and SUB
    int lhs_shift;
    int rhs_mantissa;
    int rhs_shift;
    int dst_mantissa;
    int dst_shift;
#endif
};

// Where the operands of output element `index` are.
uvec2 addresses(uint index) {
    uint x = index % size_3;
    uint row = index / size_3;
    uint y = row % size_2;
    uint plane = row / size_2;
    uvec4 at = uvec4(plane / size_1, plane % size_1, y, x);
    return uvec2(at.x * lhs_stride_0 + at.y * lhs_stride_1 + at.z * lhs_stride_2 + at.w * lhs_stride_3,
                 at.x * rhs_stride_0 + at.y * rhs_stride_1 + at.z * rhs_stride_2 + at.w * rhs_stride_3);
}

#ifdef DTYPE_F32

ACC4 combine(vec4 a, vec4 b) {
#if defined(KIND_ADD)
    return a + b;
#elif defined(KIND_SUB)
    return a - b;
#else
    return a * b;
#endif
}

vec4 load_lhs(uvec4 at) {
    at += lhs_offset;
    return vec4(lhs[at.x], lhs[at.y], lhs[at.z], lhs[at.w]);
}

vec4 load_rhs(uvec4 at) {
    at += rhs_offset;
    return vec4(rhs[at.x], rhs[at.y], rhs[at.z], rhs[at.w]);
}

vec4 finish(vec4 x) { return activate(x, low, high); }

#else

ACC4 combine(ivec4 a, ivec4 b) {
#ifdef KIND_MUL
    return multiply_by_quantized_multiplier(a * b, dst_mantissa, dst_shift);
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

uint finish(ivec4 x) { return pack_bytes(activate(x + dst_zero, low, high), sign_mask); }

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 result;
    if (CONTIGUOUS) {
#ifdef DTYPE_F32
        result = combine(lhs_vectors[lhs_offset / 4 + i], rhs_vectors[rhs_offset / 4 + i]);
#else
        result = combine(unpack_bytes(lhs[lhs_offset + i], sign_mask) - lhs_zero,
                         unpack_bytes(rhs[rhs_offset + i], sign_mask) - rhs_zero);
#endif
    } else {
        uvec2 a = addresses(4 * i), b = addresses(4 * i + 1), c = addresses(4 * i + 2), d = addresses(4 * i + 3);
        result = combine(load_lhs(uvec4(a.x, b.x, c.x, d.x)), load_rhs(uvec4(a.y, b.y, c.y, d.y)));
    }
#ifdef DTYPE_F32
    dst[dst_offset / 4 + i] = finish(result);
#else
    dst[dst_offset + i] = finish(result);
#endif
}
