#version 450
// Operations that map each byte by a table of 256 bytes. The host computes the table with the operation's reference, so
// results are exact by construction. An invocation maps the four bytes of a word.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Src, src, uint)
READ_VIEW(1, Table, table, uint)
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint table_offset;
    uint dst_offset;
    uint count;    // of words
    uint row;          // words of a row, where tensors are COLUMNS,
    uint magic_row;
    uint src_pitch;    // and from a row to the next
    uint dst_pitch;
};

#include "include/strided_view.glsl"

int map(int x) { return LOAD_BYTE(table, table_offset, uint(x), 0u); }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 x = unpack_bytes(src_at(src_offset + vec4_within(i, src_pitch)), 0u);
    dst[dst_offset + vec4_within(i, dst_pitch)] = pack_bytes(ivec4(map(x.x), map(x.y), map(x.z), map(x.w)), 0u);
}
