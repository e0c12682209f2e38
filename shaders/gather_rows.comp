#version 450
// GATHER of rows that are whole quads of words, for any element type. The tensor has (outer, size, quads); the indices
// select along the middle dimension. An invocation copies CHUNK consecutive quads and checks its index.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/divide.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint CHUNK = 1;
layout(constant_id = 4) const bool OUTER = true;    // there is an outer dimension
layout(constant_id = 5) const bool WRAPS = false;   // indices below 0 count from the end

READ_VIEW(0, Src, src, uvec4)
READ_VIEW(1, Indices, indices, int)
layout(set = 0, binding = 2) writeonly buffer Dst { uvec4 dst[]; };
#ifdef INDICES_CHECKED
FLAG(3)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint indices_offset;
    uint dst_offset;
#ifdef INDICES_CHECKED
    uint flag_offset;
#endif
    uint count;       // of chunks of the output
    uint taken;       // indices
    uint size;
    uint chunks;      // of a row
    uint magic_chunks;
    uint magic_taken;
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = divide(i, chunks, magic_chunks), outer = OUTER ? divide(row, taken, magic_taken) : 0;
    int index = indices_at(indices_offset + row - outer * taken);
    uint found = uint(index) + (WRAPS && index < 0 ? size : 0u);
    bool is_there = found < size;
#ifdef INDICES_CHECKED
    if (!is_there) RAISE(index)
#endif
    uint from = src_offset / 4 + (is_there ? ((outer * size + found) * chunks + i - row * chunks) * CHUNK : 0);
    uint to = dst_offset / 4 + i * CHUNK;
    for (uint k = 0; k < CHUNK; ++k) dst[to + k] = is_there ? src_at(from + k) : uvec4(0);
}
