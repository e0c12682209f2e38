// Axis-aligned boxes (x1, y1, x2, y2) in pixels of the image, with the reference's results to the bit.

#ifndef NNVK_BOXES_GLSL
#define NNVK_BOXES_GLSL

#include "exp.glsl"
#include "extremes.glsl"
#include "flag.glsl"
#include "quant.glsl"
#include "special_values.glsl"

// Whether x1 <= x2 and y1 <= y2; false with NaN.
bool is_ordered(vec4 box) { return box.x <= box.z && box.y <= box.w; }

// Raise a device assertion with four numbers and an index.
#define RAISE_FOR_BOX(name, box, index)                                         \
    if (IS_FIRST(name)) {                                                       \
        for (int axis = 0; axis < 4; ++axis)                                    \
            name[name##_offset + 1u + axis] = floatBitsToUint((box)[axis]);     \
        name[name##_offset + 5u] = uint(index);                                 \
    }

// A box moved and stretched by deltas (dx, dy, log dw, log dh), within an image of (height, width).
vec4 refine(vec4 box, vec4 deltas, vec2 image) {
    vec2 size = box.zw - box.xy;
    vec2 centre = (box.xy + box.zw) * 0.5 + deltas.xy * size;
    vec2 half_size = vec2(rounded_exp(deltas.z), rounded_exp(deltas.w)) * size * 0.5;
    vec4 corners = vec4(centre - half_size, centre + half_size);
    return smaller(larger(corners, vec4(0.0)), image.yxyx);
}

// The intersection and the union of two boxes, whose corners may be in any order.
vec2 overlap_areas(vec4 a, vec4 b) {
    vec2 sides = max(min(a.zw, b.zw) - max(a.xy, b.xy), 0.0);
    vec2 a_size = a.zw - a.xy, b_size = b.zw - b.xy;
    float intersection = sides.x * sides.y;
    float united = a_size.x * a_size.y + b_size.x * b_size.y - intersection;
    return vec2(intersection, united);
}

// Intersection over union, NaN if both boxes are empty.
float overlap(vec4 a, vec4 b) {
    vec2 areas = overlap_areas(a, b);
    return exact_quotient(areas.x, areas.y);
}

// The same, but the overlap of a box without area is 0.
vec2 overlap_areas_or_0(vec4 a, vec4 b) {
    vec2 a_size = a.zw - a.xy, b_size = b.zw - b.xy;
    bool is_empty = a_size.x * a_size.y <= 0.0 || b_size.x * b_size.y <= 0.0;
    return is_empty ? vec2(0.0, 1.0) : overlap_areas(a, b);
}

// Whether a number is at least a threshold or, with `above`, larger. The bits are compared: if a device flushed a
// subnormal threshold to 0, boxes without overlap would reach it.
bool is_at_least(float x, float threshold, bool above) {
    ivec2 ordered = floatBitsToInt(vec2(x, threshold));
    ordered = mix(ordered, ivec2(0x80000000) - ordered, lessThan(ordered, ivec2(0)));
    bool compare = !is_nan(x) && !is_nan(threshold);
    return compare && (ordered.x > ordered.y || (!above && ordered.x == ordered.y));
}

// Whether the quotient of two areas is at least the threshold or, with `above`, larger. The areas are divided only if
// the last bits decide, in a loop, because some devices compute both sides of an if.
bool reach(vec2 areas, float threshold, bool above) {
    float limit = threshold * areas.y;
    bool result = areas.x >= limit;
    for (bool unsure = !(limit > 1e-30 && abs(areas.x - limit) > 1e-6 * limit); unsure; unsure = false) {
        result = is_at_least(exact_quotient(areas.x, areas.y), threshold, above);
    }
    return result;
}

#endif
