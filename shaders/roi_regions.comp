#version 450
// The regions of ROI_ALIGN and ROI_POOLING: check each region and convert it to elements of the feature map. There is
// an invocation for each region.

#extension GL_GOOGLE_include_directive : require

#include "include/boxes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 1) readonly buffer Split { int split[]; };
layout(set = 0, binding = 2) writeonly buffer Regions { uvec4 regions[]; };    // three of each; see include/regions.glsl
FLAG_AS(3, Missing, missing)
FLAG_AS(4, Unordered, unordered)
FLAG_AS(5, Outside, outside)

layout(push_constant) uniform Push {
    uint rois_offset;
    uint split_offset;
    uint regions_offset;
    uint missing_offset;
    uint unordered_offset;
    uint outside_offset;
    uint count;        // of regions
    uint batches;
    float right;       // the last places on the feature map
    float bottom;
    float scale_x;     // elements of the feature map in a pixel
    float scale_y;
    float bins_x;      // elements of the output
    float bins_y;
#ifdef KIND_ALIGN
    uint ratio_x;      // sampling points of a bin; 0: one for each element that it covers
    uint ratio_y;
    float factor;      // of quantised sums of a single point
#endif
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 box = rois[rois_offset / 4 + i];
    vec4 scaled = box * vec4(scale_x, scale_y, scale_x, scale_y);
    int batch = split[split_offset + i];
    if (uint(batch) >= batches) {
        RAISE_AT(missing, i, batch)
        batch = 0;
    }
    if (!is_ordered(box)) RAISE_FOR_BOX(unordered, box, i)
    vec4 last = vec4(right, bottom, right, bottom);
    if (!all(greaterThanEqual(scaled, vec4(0.0))) || !all(lessThanEqual(scaled, last))) {
        RAISE_FOR_BOX(outside, box, i)
        scaled = vec4(0.0);
    }
    vec2 bins = vec2(bins_x, bins_y);
#ifdef KIND_ALIGN
    vec2 start = scaled.xy, size = max(scaled.zw - start, 1.0);
    vec2 pitch = vec2(exact_quotient(size.x, bins.x), exact_quotient(size.y, bins.y));
    vec2 ratio = mix(ceil(pitch), vec2(ratio_x, ratio_y), greaterThan(uvec2(ratio_x, ratio_y), uvec2(0)));
    vec2 distance = vec2(exact_quotient(pitch.x, ratio.x), exact_quotient(pitch.y, ratio.y));
    // The multiplier's 24 bits as a fraction of 2^31, and a shift to the left.
    float real = exact_quotient(factor, ratio.x * ratio.y);
    uint bits = floatBitsToUint(real);
    int mantissa = int((bits & 0x7fffffu) | 0x800000u) << 7, shift = int(bits >> 23) - 126;
    if (shift < -31) mantissa = shift = 0;
    if (real >= 536870912.0) {
        mantissa = 0x7fffffff;
        shift = 29;
    }
#else
    vec2 start = round_half_away(vec4(scaled)).xy, end = round_half_away(vec4(scaled)).zw;
    vec2 size = max(end - start + 1.0, 1.0);
    vec2 pitch = vec2(exact_quotient(size.x, bins.x), exact_quotient(size.y, bins.y));
    vec2 ratio = vec2(0.0), distance = vec2(0.0);
    int mantissa = 0, shift = 0;
#endif
    uint to = regions_offset / 4 + 3 * i;
    regions[to] = floatBitsToUint(vec4(start, pitch));
    regions[to + 1] = uvec4(floatBitsToUint(distance), uvec2(ratio));
    regions[to + 2] = uvec4(batch, mantissa, shift, 0);
}
