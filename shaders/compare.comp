#version 450
// Comparisons of two tensors that broadcast, and LOGICAL_AND and LOGICAL_OR of truth values. An invocation writes four
// truth values, a byte each.

#extension GL_GOOGLE_include_directive : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/broadcast.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
#ifdef DTYPE_Q8
layout(constant_id = 3) const bool TRUTH = false;    // bytes are truth values: 0, or anything else for true
#endif

#ifdef DTYPE_Q8
layout(set = 0, binding = 0) readonly buffer Lhs { uint lhs[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { uint rhs[]; };
#else
layout(set = 0, binding = 0) readonly buffer Lhs { ACC lhs[]; };
layout(set = 0, binding = 1) readonly buffer Rhs { ACC rhs[]; };
#endif
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;        // of fours
    uint elements;
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
#ifdef DTYPE_Q8
    uint sign_mask;
    int lhs_zero;
    int rhs_zero;
    float lhs_scale;
    float rhs_scale;
#endif
};

#ifdef DTYPE_Q8
// Bytes are compared as the numbers that they stand for; all but 0 is true.
#define NUMBER float
int step_of(int value) { return TRUTH ? min(value, 1) : value; }
float load_lhs(uint at) { return float(step_of(LOAD_BYTE(lhs, lhs_offset, at, sign_mask)) - lhs_zero) * lhs_scale; }
float load_rhs(uint at) { return float(step_of(LOAD_BYTE(rhs, rhs_offset, at, sign_mask)) - rhs_zero) * rhs_scale; }
#else
#define NUMBER ACC
ACC load_lhs(uint at) { return lhs[lhs_offset + at]; }
ACC load_rhs(uint at) { return rhs[rhs_offset + at]; }
#endif

bool holds(NUMBER a, NUMBER b) {
#if defined(KIND_EQUAL)
    return a == b;
#elif defined(KIND_NOT_EQUAL)
    return a != b;
#elif defined(KIND_GREATER)
    return a > b;
#elif defined(KIND_GREATER_EQUAL)
    return a >= b;
#elif defined(KIND_LESS)
    return a < b;
#elif defined(KIND_LESS_EQUAL)
    return a <= b;
#elif defined(KIND_AND)
    return a != NUMBER(0) && b != NUMBER(0);
#elif defined(KIND_OR)
    return a != NUMBER(0) || b != NUMBER(0);
#endif
}

int truth(uint index) {
    uvec2 at = broadcast(min(index, elements - 1), uvec3(size_1, size_2, size_3),
                         uvec4(lhs_stride_0, lhs_stride_1, lhs_stride_2, lhs_stride_3),
                         uvec4(rhs_stride_0, rhs_stride_1, rhs_stride_2, rhs_stride_3));
    return int(holds(load_lhs(at.x), load_rhs(at.y)));
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    dst[dst_offset + i] = pack_bytes(ivec4(truth(4 * i), truth(4 * i + 1), truth(4 * i + 2), truth(4 * i + 3)), 0u);
}
