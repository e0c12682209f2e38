#version 450
// Places that rows of indices name: each row has an index of every one of some axes, which together are one axis
// (nnvk/driver/vulkan/lowering/places.py). An invocation finds the place of one row, and complains of indices out of range.

#extension GL_GOOGLE_include_directive : require

#include "include/flag.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Indices { int indices[]; };
layout(set = 0, binding = 1) readonly buffer Sizes { uvec2 sizes[]; };    // of each axis, and from index to index
layout(set = 0, binding = 2) writeonly buffer Dst { uint dst[]; };
FLAG(3)

layout(push_constant) uniform Push {
    uint indices_offset;
    uint sizes_offset;
    uint dst_offset;
    uint flag_offset;
    uint count;        // rows
    uint depth;        // axes
    uint first;        // number of the first axis
    uint per_batch;    // rows of a batch
    uint whole;        // places of a batch
    uint magic_per_batch;
};

void main() {
    uint row = flat_invocation();
    if (row >= count) return;
    uint place = divide(row, per_batch, magic_per_batch) * whole;
    bool inside = true;
    for (uint axis = 0; axis < depth; ++axis) {
        uvec2 size = sizes[sizes_offset / 2 + axis];
        int index = indices[indices_offset + row * depth + axis];
        uint at = uint(index) + (index < 0 ? size.x : 0u);
        if (at >= size.x) {
            inside = false;
            COMPLAIN_AT(flag, index, first + axis)
        }
        place += at * size.y;
    }
#ifdef GIVES_KEYS
    dst[dst_offset + row] = inside ? ~place : 0u;    // to be sorted: the first places first, what has none last
#else
    dst[dst_offset + row] = inside ? place : 0xffffffffu;
#endif
}
