#version 450
// Operations that map each 16-bit quantised value by a table of 65,536 entries. The host computes the table with the
// operation's reference, so results are exact by construction. An invocation maps four values.

#extension GL_GOOGLE_include_directive : require

#define DTYPE_B16
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
READS(1, Table, table)
WRITES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint table_offset;
    uint dst_offset;
    uint count;    // of vec4s
    uint row;          // vec4s of a row, where tensors are COLUMNS,
    uint magic_row;
    uint src_pitch;    // and from a row to the next
    uint dst_pitch;
};

#include "include/strided_view.glsl"

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 x = LOAD4(src, vec4_within(i, src_pitch));
    STORE4(dst, vec4_within(i, dst_pitch), GATHER4(table, x));
}
