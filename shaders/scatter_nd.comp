#version 450
// SCATTER_ND onto the initial output. Updates of one slice are combined with it in their order. The invocations of the
// first update do this, and find the others after it, because entries are sorted by coordinate (include/sort.glsl). If
// only the last update counts, last_writer.comp has dropped the coordinates of the others. An invocation writes CHUNK
// vec4s of consecutive elements, or CHUNK elements.

#extension GL_GOOGLE_include_directive : require

#include "include/extremes.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VEC4S = false;    // slices are whole vec4s
layout(constant_id = 4) const uint CHUNK = 1;

READS(0, Updates, updates)
#ifdef KIND_NONE
READ_VIEW(1, Coordinates, coordinates, uint)
#else
READ_VIEW(1, Entries, entries, uvec2)    // ~coordinate, number of the update
#endif
CHANGES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint updates_offset;
#ifdef KIND_NONE
    uint coordinates_offset;
#else
    uint entries_offset;
#endif
    uint dst_offset;
    uint count;     // of chunks of all updates
    uint rows;      // updates
    uint chunks;    // of an update
    uint magic_chunks;
};

ROUNDS(dst)

#ifdef KIND_NONE
const uint NOWHERE = 0xffffffffu;
#else

ACC4 combine(ACC4 before, ACC4 update) {
#if defined(KIND_MUL)
    return ROUNDED(before * update);
#elif defined(KIND_ADD)
    ACC4 result = before + update;
#if defined(DTYPE_BOOL)
    return min(result, 1);
#elif defined(DTYPE_B8)
    return result & 0xffu;
#elif defined(DTYPE_B16)
    return result & 0xffffu;
#else
    return ROUNDED(result);
#endif
#elif defined(KIND_MAX)
    return larger(update, before);
#else
    return smaller(update, before);
#endif
}

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = divide(i, chunks, magic_chunks), from = (i - row * chunks) * CHUNK, size = chunks * CHUNK;
#ifdef KIND_NONE
    uint coordinate = coordinates_at(coordinates_offset + row);
    if (coordinate == NOWHERE) return;
    for (uint k = 0; k < CHUNK; ++k) {
        uint to = coordinate * size + from + k, at = row * size + from + k;
        if (VEC4S) STORE4(dst, to, LOAD4(updates, at));
        else STORE(dst, to, LOAD(updates, at));
    }
#else
    uint first = entries_offset / 2, key = entries_at(first + row).x, end = row + 1;
    if (key == 0 || (row > 0 && entries_at(first + row - 1).x == key)) return;
    while (end < rows && entries_at(first + end).x == key) ++end;
    for (uint k = 0; k < CHUNK; ++k) {
        uint to = ~key * size + from + k;
        ACC4 value = VEC4S ? LOAD4(dst, to) : ACC4(LOAD(dst, to));
        for (uint entry = row; entry < end; ++entry) {
            uint at = entries_at(first + entry).y * size + from + k;
            value = combine(value, VEC4S ? LOAD4(updates, at) : ACC4(LOAD(updates, at)));
        }
        if (VEC4S) STORE4(dst, to, value);
        else STORE(dst, to, value.x);
    }
#endif
}
