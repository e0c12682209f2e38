#version 450
// HEATMAP_MAX_KEYPOINT: the peak of each heatmap and its place in the box. A workgroup searches the heatmaps of some
// keypoints of a box. Then the first invocation of each keypoint moves the peak to the top of the surface around it.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"
#include "include/sort.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool NCHW = false;
layout(constant_id = 4) const uint TOGETHER = 1;    // keypoints of a workgroup
layout(constant_id = 5) const uint LOCAL = 64;      // its invocations

const uint PARTS = LOCAL / TOGETHER;
const uint LEFT = 64;    // invocations whose results one invocation compares

READS(0, Src, src)
READ_VIEW(1, Boxes, boxes, vec4)
layout(set = 0, binding = 2) writeonly buffer Peaks { float peaks[]; };
layout(set = 0, binding = 3) writeonly buffer Places { vec2 places[]; };
FLAG(4)

layout(push_constant) uniform Push {
    uint src_offset;
    uint boxes_offset;
    uint peaks_offset;
    uint places_offset;
    uint flag_offset;
    uint count;        // of boxes
    uint size;         // of a heatmap, along each axis
    uint keypoints;
    float tolerance;
#ifdef IS_QUANTISED
    uint sign_mask;
    int zero;
    float scale;
#endif
};

const float FURTHEST = 1.5;    // elements by which a peak can be moved along an axis

shared uvec2 found[LOCAL];

uint element(uint box, uint keypoint, uint position) {
    return NCHW ? (box * keypoints + keypoint) * size * size + position : (box * size * size + position) * keypoints + keypoint;
}

float real(uint box, uint keypoint, uint y, uint x) {
    ACC value = LOAD(src, element(box, keypoint, y * size + x));
#ifdef IS_QUANTISED
    return float(value - zero) * scale;
#else
    return value;
#endif
}

// The peak of the second-order Taylor expansion through 3 x 3 elements: (x, y) relative to the middle element, and the
// height.
vec3 peak_of(float grid[9]) {
    float middle = grid[4];
    vec2 slope = vec2(grid[5] - grid[3], grid[7] - grid[1]) * 0.5;
    float xx = grid[3] - 2.0 * middle + grid[5], yy = grid[1] - 2.0 * middle + grid[7];
    float xy = (grid[8] - grid[6] - grid[2] + grid[0]) * 0.25;
    float product = xx * yy, determinant = product - xy * xy;
    float least = tolerance + tolerance * product;
    if (abs(determinant) < least) return vec3(0.0, 0.0, middle);
    vec2 moved = vec2(xy * slope.y - yy * slope.x, xy * slope.x - xx * slope.y);
    moved = vec2(exact_quotient(moved.x, determinant), exact_quotient(moved.y, determinant));
    float furthest = larger(abs(moved.x), abs(moved.y));
    float factor = furthest > FURTHEST ? exact_quotient(FURTHEST, furthest) : 1.0;
    moved = moved * factor;
    vec2 along = slope * moved;
    float bent = xx * moved.x * moved.x + 2.0 * xy * moved.x * moved.y + yy * moved.y * moved.y;
    float height = middle + (along.x + along.y) + bent * 0.5;
    return vec3(moved, height);
}

// An index mirrored at the edges.
uint mirrored(int index) { return index < 0 ? 1u : (uint(index) == size ? size - 2 : uint(index)); }

// Whether an element replaces the largest one so far. NaN is larger than all numbers; among equal elements the first
// one counts.
#ifdef IS_FLOAT
#define IS_BETTER(value, best) (!((value) <= (best)) && !is_nan(best))
#else
#define IS_BETTER(value, best) ((value) > (best))
#endif
#define CONSIDER(position)                                              \
    {                                                                   \
        ACC value = LOAD(src, first + (position) * stride);             \
        bool is_better = IS_BETTER(value, highest);                     \
        highest = is_better ? value : highest;                          \
        place = is_better ? (position) : place;                         \
    }

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    uint groups = divide_up(keypoints, TOGETHER), box = group / groups;
    if (box >= count) return;
    uint keypoint = (group - box * groups) * TOGETHER + lane % TOGETHER, part = lane / TOGETHER;
    uint first = element(box, keypoint, 0), stride = NCHW ? 1 : keypoints, all = size * size;
    uvec2 best = NO_ENTRY;
    if (keypoint < keypoints && part < all) {
        uint place = part, position = part + PARTS;
        ACC highest = LOAD(src, first + part * stride);
        for (; position + 3 * PARTS < all; position += 4 * PARTS) {
            CONSIDER(position)
            CONSIDER(position + PARTS)
            CONSIDER(position + 2 * PARTS)
            CONSIDER(position + 3 * PARTS)
        }
        for (; position < all; position += PARTS) CONSIDER(position)
        best = uvec2(key_of(highest), place);
    }
    found[lane] = best;
    barrier();
    for (uint width = LOCAL / 2; width >= LEFT; width /= 2) {
        if (lane < width && before(found[lane + width], found[lane])) found[lane] = found[lane + width];
        barrier();
    }
    if (part != 0 || keypoint >= keypoints) return;
    best = found[lane];
    for (uint k = lane + TOGETHER; k < min(LOCAL, LEFT); k += TOGETHER)
        if (before(found[k], best)) best = found[k];
    uint peak = min(best.y, size * size - 1), row = peak / size, column = peak - row * size;
    float grid[9];
    for (int k = 0; k < 9; ++k)
        grid[k] = real(box, keypoint, mirrored(int(row) + k / 3 - 1), mirrored(int(column) + k % 3 - 1));
    vec3 top = peak_of(grid);
    vec4 corners = boxes_at(boxes_offset / 4 + box);
    if (keypoint == 0 && !is_ordered(corners)) RAISE_FOR_BOX(flag, corners, box)
    vec2 place = vec2(column, row) + top.xy + 0.5;
    place = vec2(exact_quotient(place.x, float(size)), exact_quotient(place.y, float(size)));
    vec2 extent = corners.zw - corners.xy, pixel = place * extent + corners.xy;
    uint to = box * keypoints + keypoint;
    peaks[peaks_offset + to] = top.z;
    places[places_offset / 2 + to] = pixel;
}
