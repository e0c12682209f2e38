#version 450
// RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR on NHWC tensors; a plane of an NCHW one is an image of one channel. The
// host says what an output row or column is made of: it knows the positions to the last bit. An invocation computes four
// consecutive elements of the output: four channels of a pixel where there is a multiple of four (VECTOR), else whatever
// four come.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VECTOR = true;

READS(0, Src, src)
// Of every output row, then of every output column. Nearest: where in an image of src the row or column begins. Bilinear:
// the same of two neighbours, and the weight of the second one.
#ifdef KIND_BILINEAR
layout(set = 0, binding = 1) readonly buffer Taps { uvec4 taps[]; };
#else
layout(set = 0, binding = 1) readonly buffer Taps { uint taps[]; };
#endif
WRITES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint taps_offset;
    uint dst_offset;
    uint count;       // of fours
    uint elements;    // of the output
    uint image;       // elements of an image of src
    uint out_height;
    uint out_width;
    uint channels;
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

#ifdef KIND_BILINEAR

struct Point {
    uvec4 at;        // in src: top left, bottom left, top right, bottom right
    vec2 weights;    // of the lower and of the right one
};

Point point_of(uint index) {
    uvec4 pixel = nhwc_coordinates(index, out_height, out_width, channels);
    uvec4 row = taps[taps_offset / 4 + pixel.y], column = taps[taps_offset / 4 + out_height + pixel.z];
    uint first = pixel.x * image + pixel.w;
    return Point(first + row.xyxy + column.xxyy, uintBitsToFloat(uvec2(row.z, column.z)));
}

ACC4 blend(ACC4 corners[4], vec4 down, vec4 along) {
    precise vec4 mixed = vec4(corners[0]) * (1.0 - down) * (1.0 - along);
    mixed = mixed + vec4(corners[1]) * down * (1.0 - along);
    mixed = mixed + vec4(corners[2]) * (1.0 - down) * along;
    mixed = mixed + vec4(corners[3]) * down * along;
#ifdef IS_QUANTISED
    return clamp(ivec4(floor(mixed + 0.5)), 0, 255);
#else
    return mixed;
#endif
}

ACC4 resized(uint i) {
    ACC4 corners[4];
    if (VECTOR) {
        Point point = point_of(4 * i);
        for (uint k = 0; k < 4; ++k) corners[k] = LOAD4(src, point.at[k] / 4);
        return blend(corners, point.weights.xxxx, point.weights.yyyy);
    }
    vec4 down, along;
    for (uint n = 0; n < 4; ++n) {
        Point point = point_of(min(4 * i + n, elements - 1));    // the last four may be more than there are
        for (uint k = 0; k < 4; ++k) corners[k][n] = LOAD(src, point.at[k]);
        down[n] = point.weights.x;
        along[n] = point.weights.y;
    }
    return blend(corners, down, along);
}

#else

uint nearest(uint index) {
    uvec4 pixel = nhwc_coordinates(index, out_height, out_width, channels);
    return pixel.x * image + taps[taps_offset + pixel.y] + taps[taps_offset + out_height + pixel.z] + pixel.w;
}

ACC4 resized(uint i) {
    if (VECTOR) return LOAD4(src, nearest(4 * i) / 4);
    uint last = elements - 1;    // the last four may be more than there are
    uvec4 at = uvec4(nearest(4 * i), nearest(min(4 * i + 1, last)), nearest(min(4 * i + 2, last)),
                     nearest(min(4 * i + 3, last)));
    return GATHER4(src, at);
}

#endif

void main() {
    uint i = flat_invocation();
    if (i < count) STORE4(dst, i, resized(i));
}
