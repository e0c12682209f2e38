#version 450
// The last of several rows with one coordinate (lowering/selection/coordinates.py). PASS_CLEAR resets the owners of
// coordinates. In PASS_CLAIM rows claim coordinates, and the last row wins. PASS_DROP drops those of the other rows.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

const uint NOWHERE = 0xffffffffu;

#ifdef PASS_DROP
layout(set = 0, binding = 0) buffer Coordinates { uint coordinates[]; };
layout(set = 0, binding = 1) readonly buffer Owners { uint owners[]; };
#else
layout(set = 0, binding = 0) readonly buffer Coordinates { uint coordinates[]; };
layout(set = 0, binding = 1) buffer Owners { uint owners[]; };
#endif

layout(push_constant) uniform Push {
    uint coordinates_offset;
    uint owners_offset;
    uint count;    // rows
};

void main() {
    uint row = flat_invocation();
    if (row >= count) return;
    uint coordinate = coordinates[coordinates_offset + row];
    if (coordinate == NOWHERE) return;
#if defined(PASS_CLEAR)
    owners[owners_offset + coordinate] = 0;
#elif defined(PASS_CLAIM)
    atomicMax(owners[owners_offset + coordinate], row + 1);
#else
    if (owners[owners_offset + coordinate] != row + 1) coordinates[coordinates_offset + row] = NOWHERE;
#endif
}
