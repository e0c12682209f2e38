#version 450
// AXIS_ALIGNED_BBOX_TRANSFORM: refine a box by the deltas of a class. There is an invocation for each box and class.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 1) readonly buffer Deltas { vec4 deltas[]; };
layout(set = 0, binding = 2) readonly buffer Split { int split[]; };
layout(set = 0, binding = 3) readonly buffer Images { vec2 images[]; };
layout(set = 0, binding = 4) writeonly buffer Dst { vec4 dst[]; };
FLAG_AS(5, Outside, outside)
FLAG_AS(6, Unordered, unordered)

layout(push_constant) uniform Push {
    uint rois_offset;
    uint deltas_offset;
    uint split_offset;
    uint images_offset;
    uint dst_offset;
    uint outside_offset;
    uint unordered_offset;
    uint count;      // of boxes times classes
    uint classes;
    uint batches;
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint region = i / classes;
    vec4 box = rois[rois_offset / 4 + region];
    int batch = split[split_offset + region];
    if (uint(batch) >= batches) {
        RAISE_AT(outside, region, batch)
        batch = 0;
    }
    if (!is_ordered(box)) RAISE_FOR_BOX(unordered, box, region)
    dst[dst_offset / 4 + i] = refine(box, deltas[deltas_offset / 4 + i], images[images_offset / 2 + uint(batch)]);
}
