#version 450
// RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR on NHWC tensors; a plane of an NCHW tensor is an image of one channel.
// The host computes the source of each output row and column, to the last bit. With VECTOR the number of channels is a
// multiple of four, and an invocation computes VEC4S vec4s of a pixel, evenly spaced. Otherwise it computes four
// consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VECTOR = true;
layout(constant_id = 4) const uint VEC4S = 1;

READS(0, Src, src)
#ifdef KIND_BILINEAR
layout(constant_id = 5) const bool FIXED = false;    // levels are interpolated in fixed point, as TensorFlow Lite does
#endif
// For every output row, then for every output column. Nearest: the number of pixels of an image of src before the row
// or column. Bilinear: the same for two neighbours, and the weight of the second one, a float or 1,024ths.
#ifdef KIND_BILINEAR
READ_VIEW(1, Taps, taps, uvec4)
#else
READ_VIEW(1, Taps, taps, uint)
#endif
WRITES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint taps_offset;
    uint dst_offset;
    uint count;       // of invocations
    uint elements;    // of the output
    uint image;       // pixels of an image of src
    uint out_height;
    uint out_width;
    uint channels;
    uint src_pitch;    // from a pixel to the next
    uint dst_pitch;
    uint magic_height;
    uint magic_width;
    uint magic_columns;    // elements of a pixel, or (VECTOR) invocations to it
#ifdef IS_QUANTISED
    uint sign_mask;
#endif
};

#ifdef KIND_BILINEAR

// The sources of an element of the output.
struct Point {
    uvec4 at;        // in src: top left, bottom left, top right, bottom right
    uvec2 weights;    // of the lower and of the right one
};

// `from` is the image, row, column and channel.
Point point_of(uvec4 from) {
    uvec4 row = taps_at(taps_offset / 4 + from.y), column = taps_at(taps_offset / 4 + out_height + from.z);
    uvec4 pixels = from.x * image + row.xyxy + column.xxyy;
    return Point(pixels * src_pitch + from.w, uvec2(row.z, column.z));
}

#ifdef IS_QUANTISED
#ifdef DTYPE_Q16
const int MIDDLE = 32768, HIGHEST = 65535;
#else
const int MIDDLE = 128, HIGHEST = 255;
#endif

// The sum of products with weights of 20 bits, in 2^20ths, halves away from level 0. Levels are split, because those of 16
// bits would exceed 32 bits.
ivec4 blend_fixed(ivec4 corners[4], ivec4 down, ivec4 along) {
    ivec4 weights[4] = ivec4[](
        (1024 - down) * (1024 - along), down * (1024 - along), (1024 - down) * along, down * along);
    ivec4 high = ivec4(0), low = ivec4(0);
    [[unroll]] for (uint k = 0; k < 4; ++k) {
        ivec4 level = corners[k] - MIDDLE;
        high += (level >> 8) * weights[k];
        low += (level & 255) * weights[k];
    }
    ivec4 whole = high + (low >> 8);    // of 256ths of the sum
    ivec4 is_negative = ivec4(lessThan(whole, ivec4(0)));
    low += (1 << 19) - is_negative;
    return clamp((high + (low >> 8) >> 12) + MIDDLE, 0, HIGHEST);
}
#endif

ACC4 blend(ACC4 corners[4], uvec4 down_bits, uvec4 along_bits) {
#ifdef IS_QUANTISED
    if (FIXED) return blend_fixed(corners, ivec4(down_bits), ivec4(along_bits));
#endif
    vec4 down = uintBitsToFloat(down_bits), along = uintBitsToFloat(along_bits);
    vec4 mixed = vec4(corners[0]) * (1.0 - down) * (1.0 - along);
    mixed = mixed + vec4(corners[1]) * down * (1.0 - along);
    mixed = mixed + vec4(corners[2]) * (1.0 - down) * along;
    mixed = mixed + vec4(corners[3]) * down * along;
#ifdef IS_QUANTISED
    return clamp(ivec4(floor(mixed + 0.5)), 0, HIGHEST);
#else
    return mixed;
#endif
}

// The four channels at a distance from a point's channels.
ACC4 four_of(Point point, uint further) {
    ACC4 corners[4];
    [[unroll]] for (uint k = 0; k < 4; ++k) corners[k] = LOAD4(src, (point.at[k] + further) / 4);
    return blend(corners, point.weights.xxxx, point.weights.yyyy);
}

ACC4 any_four(Point points[4]) {
    ACC4 corners[4];
    uvec4 down, along;
    [[unroll]] for (uint n = 0; n < 4; ++n) {
        [[unroll]] for (uint k = 0; k < 4; ++k) corners[k][n] = LOAD(src, points[n].at[k]);
        down[n] = points[n].weights.x;
        along[n] = points[n].weights.y;
    }
    return blend(corners, down, along);
}

#else

#define Point uint    // index in src

Point point_of(uvec4 from) {
    uint pixel = from.x * image + taps_at(taps_offset + from.y) + taps_at(taps_offset + out_height + from.z);
    return pixel * src_pitch + from.w;
}

ACC4 four_of(Point point, uint further) { return LOAD4(src, (point + further) / 4); }

ACC4 any_four(Point points[4]) { return GATHER4(src, uvec4(points[0], points[1], points[2], points[3])); }

#endif

// The coordinates of the next element.
uvec4 next(uvec4 at) {
    uint over = uint(++at.w == channels);
    at.w -= over * channels;
    at.z += over;
    over = uint(at.z == out_width);
    at.z -= over * out_width;
    at.y += over;
    over = uint(at.y == out_height);
    return uvec4(at.x + over, at.y - over * out_height, at.z, at.w);
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec3 magics = uvec3(magic_height, magic_width, magic_columns);
    if (VECTOR) {
        uint share = channels / (4 * VEC4S);    // invocations to a pixel
        uvec4 from = nhwc_coordinates(i, out_height, out_width, share, magics);
        uint first = nhwc_index(from.x, from.y, from.z, 0, out_height, out_width, dst_pitch) / 4 + from.w;
        from.w *= 4;
        Point point = point_of(from);
        [[unroll]] for (uint n = 0; n < VEC4S; ++n) STORE4(dst, first + n * share, four_of(point, 4 * n * share));
        return;
    }
    Point points[4];
    uvec4 from = nhwc_coordinates(4 * i, out_height, out_width, channels, magics);
    [[unroll]] for (uint n = 0; n < 4; ++n) {
        points[n] = point_of(from);
        from = mix(from, next(from), bvec4(4 * i + n + 1 < elements));    // the last four may not exist
    }
    STORE4(dst, i, any_four(points));
}
