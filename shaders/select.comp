#version 450
// SELECT: elements of one tensor where a truth value holds, of another where not. An invocation chooses four.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/quant.glsl"

#ifdef DTYPE_Q8
#define FOUR uint
#else
#define FOUR uvec4
#endif

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Condition { uint condition[]; };
layout(set = 0, binding = 1) readonly buffer Lhs { FOUR lhs[]; };
layout(set = 0, binding = 2) readonly buffer Rhs { FOUR rhs[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { FOUR dst[]; };

layout(push_constant) uniform Push {
    uint condition_offset;
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;    // of fours
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    bvec4 holds = notEqual(unpack_bytes(condition[condition_offset + i], 0u), ivec4(0));
#ifdef DTYPE_Q8
    ivec4 first = unpack_bytes(lhs[lhs_offset + i], 0u), second = unpack_bytes(rhs[rhs_offset + i], 0u);
    dst[dst_offset + i] = pack_bytes(mix(second, first, holds), 0u);
#else
    dst[dst_offset / 4 + i] = mix(rhs[rhs_offset / 4 + i], lhs[lhs_offset / 4 + i], holds);
#endif
}
