#version 450
// SCATTER_ND of few updates onto the initial output. Only the last update of a coordinate counts. An invocation writes
// CHUNK vec4s of consecutive elements of an update, or CHUNK elements, unless a later update has the same coordinate.

#extension GL_GOOGLE_include_directive : require

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VEC4S = false;    // slices are whole vec4s
layout(constant_id = 4) const uint CHUNK = 1;

READS(0, Updates, updates)
layout(set = 0, binding = 1) readonly buffer Indices { int indices[]; };
layout(set = 0, binding = 2) readonly buffer Sizes { uvec2 sizes[]; };    // of each axis, and from index to index
CHANGES(3, Dst, dst)
FLAG(4)

layout(push_constant) uniform Push {
    uint updates_offset;
    uint indices_offset;
    uint sizes_offset;
    uint dst_offset;
    uint flag_offset;
    uint count;     // of chunks of all updates
    uint rows;      // updates
    uint depth;     // axes
    uint first;     // number of the first axis
    uint chunks;    // of an update
    uint magic_chunks;
};

#include "include/coordinates.glsl"

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = divide(i, chunks, magic_chunks), from = (i - row * chunks) * CHUNK, size = chunks * CHUNK;
    ivec2 wrong, ignored;
    uint coordinate = coordinate_of(row, wrong);
    if (coordinate == NOWHERE) {
        RAISE_AT(flag, wrong.x, wrong.y)
        return;
    }
    for (uint later = row + 1; later < rows; ++later)
        if (coordinate_of(later, ignored) == coordinate) return;
    for (uint k = 0; k < CHUNK; ++k) {
        uint to = coordinate * size + from + k, at = row * size + from + k;
        if (VEC4S) STORE4(dst, to, LOAD4(updates, at));
        else STORE(dst, to, LOAD(updates, at));
    }
}
