#version 450
// Comparisons of two tensors that broadcast, and LOGICAL_AND and LOGICAL_OR of truth values. An invocation writes four
// truth values, a byte each.

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
// Bytes are compared as the numbers that they stand for.
#define NUMBER float
float load_lhs(uint at) { return float(LOAD(lhs, at) - lhs_zero) * lhs_scale; }
float load_rhs(uint at) { return float(LOAD(rhs, at) - rhs_zero) * rhs_scale; }
#else
#define NUMBER ACC
ACC load_lhs(uint at) { return LOAD(lhs, at); }
ACC load_rhs(uint at) { return LOAD(rhs, at); }
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
