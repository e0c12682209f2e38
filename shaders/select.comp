#version 450
// SELECT: elements of one tensor where a truth value holds, and of another tensor elsewhere. An invocation selects four
// elements.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Condition, condition, uint)
READS(1, Lhs, lhs)
READS(2, Rhs, rhs)
WRITES(3, Dst, dst)

layout(push_constant) uniform Push {
    uint condition_offset;
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;    // of vec4s
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    bvec4 holds = notEqual(unpack_bytes(condition_at(condition_offset + i), 0u), ivec4(0));
    STORE4(dst, i, mix(LOAD4(rhs, i), LOAD4(lhs, i), holds));
}
