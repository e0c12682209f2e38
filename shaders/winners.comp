#version 450
// The last of several rows that name one place (lowering/selection/places.py). PASS_CLEAR resets the owners of
// places. In PASS_CLAIM rows claim their places, and the last row wins. PASS_DROP drops the places of the other rows.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

const uint NOWHERE = 0xffffffffu;

#ifdef PASS_DROP
layout(set = 0, binding = 0) buffer Places { uint places[]; };
layout(set = 0, binding = 1) readonly buffer Owners { uint owners[]; };
#else
layout(set = 0, binding = 0) readonly buffer Places { uint places[]; };
layout(set = 0, binding = 1) buffer Owners { uint owners[]; };
#endif

layout(push_constant) uniform Push {
    uint places_offset;
    uint owners_offset;
    uint count;    // rows
};

void main() {
    uint row = flat_invocation();
    if (row >= count) return;
    uint place = places[places_offset + row];
    if (place == NOWHERE) return;
#if defined(PASS_CLEAR)
    owners[owners_offset + place] = 0;
#elif defined(PASS_CLAIM)
    atomicMax(owners[owners_offset + place], row + 1);
#else
    if (owners[owners_offset + place] != row + 1) places[places_offset + row] = NOWHERE;
#endif
}
