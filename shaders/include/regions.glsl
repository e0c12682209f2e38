// Four consecutive elements of the output of ROI_ALIGN and ROI_POOLING: their bins and regions.
//
// VEC4S_CHANNELS: four channels of one bin, so the parameters of a bin are single numbers. VEC4S_ANY: four bins,
// perhaps of several regions, so every parameter is a vec4.

#ifndef NNVK_REGIONS_GLSL
#define NNVK_REGIONS_GLSL

#include "indexing.glsl"
#include "tensors.glsl"

#ifdef VEC4S_CHANNELS
#define REAL float
#define INT int
#define ANY(x) (x)
#define MOST(x) (x)
#define LESS(a, b) ((a) < (b))
#define SAME(a, b) ((a) == (b))
#else
#define REAL vec4
#define INT ivec4
#define ANY(x) any(x)
#define MOST(v) max(max((v).x, (v).y), max((v).z, (v).w))
#define LESS(a, b) lessThan(a, b)
#define SAME(a, b) equal(a, b)
#endif

layout(set = 0, binding = 1) readonly buffer Regions { uvec4 regions[]; };

// Along both axes, in elements of the feature map: the start of the region, the distance between bins, the distance
// between sampling points, and the number of points of a bin. Then the number of the bin, and the element at the
// feature map's corner, of the channel.
REAL start_x, start_y, pitch_x, pitch_y, distance_x, distance_y;
INT ratio_x, ratio_y, bin_x, bin_y, mantissa, shift, corner;

// The coordinates in the output and in the feature map.
struct Sizes {
    uint elements, channels, out_height, out_width, height, width;
    bool nchw;
};

#ifdef VEC4S_CHANNELS
#define SET(to, value) to = value
#else
#define SET(to, value) to[n] = value
#endif

void find_bins(uint i, Sizes sizes, uint regions_offset) {
#ifdef VEC4S_ANY
    for (int n = 0; n < 4; ++n) {
        uint index = min(4 * i + uint(n), sizes.elements - 1);    // the last four may exceed the number of elements
#else
    {
        uint index = 4 * i;
#endif
        uvec4 place = sizes.nchw ? nchw_coordinates(index, sizes.out_height, sizes.out_width, sizes.channels)
                                 : nhwc_coordinates(index, sizes.out_height, sizes.out_width, sizes.channels);
        uint at = regions_offset / 4 + 3 * place.x;
        vec4 span = uintBitsToFloat(regions[at]);
        uvec4 points = regions[at + 1], rest = regions[at + 2];
        SET(start_x, span.x);
        SET(start_y, span.y);
        SET(pitch_x, span.z);
        SET(pitch_y, span.w);
        SET(distance_x, uintBitsToFloat(points.x));
        SET(distance_y, uintBitsToFloat(points.y));
        SET(ratio_x, int(points.z));
        SET(ratio_y, int(points.w));
        SET(bin_y, int(place.y));
        SET(bin_x, int(place.z));
        SET(mantissa, int(rest.y));
        SET(shift, int(rest.z));
        uint plane = sizes.height * sizes.width;
        SET(corner, int(sizes.nchw ? (rest.x * sizes.channels + place.w) * plane : rest.x * plane * sizes.channels + place.w));
    }
}

#ifdef VEC4S_CHANNELS
#define LOAD_ELEMENTS(name, at) LOAD4(name, uint(at) / 4u)
#else
#define LOAD_ELEMENTS(name, at) GATHER4(name, uvec4(at))
#endif

#endif
