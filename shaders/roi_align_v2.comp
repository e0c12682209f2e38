#version 450
// ROI_ALIGN_V2: bilinear interpolation at the sampling points of a bin, and their mean, or the largest term among them.
// Regions may lie anywhere; points outside the feature map are 0. An invocation computes an element of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/extremes.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Src { float src[]; };
layout(set = 0, binding = 1) readonly buffer Rois { vec4 rois[]; };
layout(set = 0, binding = 2) readonly buffer Split { int split[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { float dst[]; };
FLAG_AS(4, Missing, missing)
FLAG_AS(5, Many, many)

layout(push_constant) uniform Push {
    uint src_offset;
    uint rois_offset;
    uint split_offset;
    uint dst_offset;
    uint missing_offset;
    uint many_offset;
    uint count;       // elements of the output
    uint batches;
    uint channels;
    uint height;      // of the feature map
    uint width;
    uint out_height;
    uint out_width;
    uint ratio;       // sampling points of a bin along an axis; 0: one for each element that it covers
    uint most;        // sampling points of a bin
    float scale;
    float offset;     // of the corners
    float least;      // extent of a region
};

// The elements on both sides of a point, and the weight of the second one. Returns whether the point lies on the map.
bool neighbours(float point, uint size, out uint below, out uint above, out float share) {
    bool inside = point >= -1.0 && point <= float(size);
    float last = float(size - 1u), place = inside ? clamp(point, 0.0, last) : 0.0;
    below = uint(floor(place));
    above = min(below + 1u, size - 1u);
    share = place - float(below);
    return inside;
}

float points(float pitch) { return ratio > 0u ? float(ratio) : pitch > 0.0 ? ceil(pitch) : 0.0; }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint bin_x = i % out_width, bin_y = i / out_width % out_height, plane = i / out_width / out_height;
    uint region = plane / channels, channel = plane % channels;
    vec4 box = rois[rois_offset / 4 + region] * scale - offset;
    int batch = split[split_offset + region];
    if (uint(batch) >= batches) {
        RAISE_AT(missing, region, batch)
        batch = 0;
    }
    float extent_x = larger(box.z - box.x, least), extent_y = larger(box.w - box.y, least);
    float pitch_x = exact_quotient(extent_x, float(out_width)), pitch_y = exact_quotient(extent_y, float(out_height));
    float columns = points(pitch_x), rows = points(pitch_y);
    if (!(rows * columns <= float(most))) {
        if (IS_FIRST(many)) many[many_offset + 1u] = region;
        rows = columns = 0.0;
    }
    float first_x = box.x + float(bin_x) * pitch_x, first_y = box.y + float(bin_y) * pitch_y;
    uint begin = src_offset + (uint(batch) * channels + channel) * height * width;
#ifdef KIND_MAX
    float result = uintBitsToFloat(0xff800000u);
#else
    float result = 0.0;
#endif
    for (int row = 0; row < int(rows); ++row) {
        uint top, bottom;
        float down;
        bool high = neighbours(first_y + exact_quotient((float(row) + 0.5) * pitch_y, rows), height, top, bottom, down);
        top = begin + top * width;
        bottom = begin + bottom * width;
        for (int column = 0; column < int(columns); ++column) {
            uint left, right;
            float along;
            float point = first_x + exact_quotient((float(column) + 0.5) * pitch_x, columns);
            bool inside = neighbours(point, width, left, right, along) && high;
            float up = 1.0 - down, back = 1.0 - along;
            float a = src[top + left] * (up * back), b = src[top + right] * (up * along);
            float c = src[bottom + left] * (down * back), d = src[bottom + right] * (down * along);
#ifdef KIND_MAX
            result = larger(result, inside ? larger(larger(a, b), larger(c, d)) : 0.0);
#else
            result += inside ? a + b + c + d : 0.0;
#endif
        }
    }
#ifdef KIND_MAX
    dst[dst_offset + i] = rows * columns > 0.0 ? result : 0.0;
#else
    dst[dst_offset + i] = exact_quotient(result, max(rows * columns, 1.0));
#endif
}
