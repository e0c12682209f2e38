#version 450
// Operations that map each byte by itself, by a table of 256 bytes that the host made with the operation's
// reference: exact by construction. An invocation maps the four bytes of a word.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) readonly buffer Table { uint table[]; };
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint table_offset;
    uint dst_offset;
    uint count;    // of words
};

int map(int x) { return LOAD_BYTE(table, table_offset, uint(x), 0u); }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 x = unpack_bytes(src[src_offset + i], 0u);
    dst[dst_offset + i] = pack_bytes(ivec4(map(x.x), map(x.y), map(x.z), map(x.w)), 0u);
}
