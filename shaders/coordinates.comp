#version 450
// Flat coordinates that rows of indices select: each row has an index for each of some axes, which together are one axis
// (lowering/selection/coordinates.py). An invocation computes the coordinates of four rows, and raises a device
// assertion for indices out of range.

#extension GL_GOOGLE_include_directive : require

#include "include/flag.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool BATCHES = true;    // there are several

layout(set = 0, binding = 0) readonly buffer Indices { int indices[]; };
layout(set = 0, binding = 1) readonly buffer Sizes { uvec2 sizes[]; };    // of each axis, and from index to index
layout(set = 0, binding = 2) writeonly buffer Dst { uvec4 dst[]; };
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
    uint whole;        // coordinates of a batch
    uint magic_per_batch;
};

#include "include/coordinates.glsl"

void main() {
    uint i = flat_invocation();
    if (4 * i >= count) return;
    uvec4 coordinate;
    ivec2 wrong;
    for (int k = 0; k < 4; ++k) {
        uint row = min(4 * i + k, count - 1);    // the last may not exist
        coordinate[k] = coordinate_of(row, wrong);
        if (BATCHES && coordinate[k] != NOWHERE) coordinate[k] += divide(row, per_batch, magic_per_batch) * whole;
    }
    if (any(equal(coordinate, uvec4(NOWHERE)))) RAISE_AT(flag, wrong.x, wrong.y)
#ifdef GIVES_KEYS
    dst[dst_offset / 4 + i] = ~coordinate;    // sorted by coordinate, without a coordinate last
#else
    dst[dst_offset / 4 + i] = coordinate;
#endif
}
