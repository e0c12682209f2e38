#version 450
// AVERAGE_POOL_2D, L2_POOL_2D and MAX_POOL_2D on NHWC tensors. An invocation computes four consecutive elements of the
// output. With VECTOR, the number of channels is a multiple of four, and these are four channels of one pixel. For
// large windows several invocations compute them together (fold.glsl).

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/activation.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"
#define FOLD_LANES_ID 4
#include "include/fold.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool VECTOR = true;
layout(constant_id = 6) const bool HAS_PADDING = false;    // elements of one value around the input, which count too

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s
    uint elements;    // of the output
    uint height;
    uint width;
    uint channels;
    uint src_pitch;    // from a pixel to the next
    uint dst_pitch;
    uint out_height;
    uint out_width;
    uint filter_height;
    uint filter_width;
    uint stride_y;
    uint stride_x;
    uint pad_top;
    uint pad_left;
    uint magic_height;
    uint magic_width;
    uint magic_channels;
    uint above;          // rows around the input, with HAS_PADDING
    uint below;
    uint before;         // and columns
    uint after;
    ACC padding_value;
    ACC low;
    ACC high;
#ifdef IS_QUANTISED
    uint sign_mask;
#endif
};

// The part between two places that lies inside the given rows and columns.
ivec4 within(ivec2 start, ivec2 end, ivec2 size) {
    start = max(start, ivec2(0));
    return ivec4(start, max(start, min(end, size)));
}

uint area_of(ivec4 part) { return uint(part.z - part.x) * uint(part.w - part.y); }

// The part of the input under an output pixel's window: rows x to z and columns y to w (ends excluded). `area` is the
// number of elements that count.
uvec4 window(uint y, uint x, out uint area) {
    ivec2 start = ivec2(y * stride_y, x * stride_x) - ivec2(pad_top, pad_left);
    ivec2 end = start + ivec2(filter_height, filter_width);
    ivec2 size = ivec2(height, width), first = ivec2(0);
    if (HAS_PADDING) {
        first = ivec2(above, before);
        area = area_of(within(start, end, size + first + ivec2(below, after)));
    }
    ivec4 part = within(start - first, end - first, size);
    if (!HAS_PADDING) area = area_of(part);
    return uvec4(part);
}

#ifdef KIND_L2
#define ENTRY(x) ((x) * (x))
#else
#define ENTRY(x) (x)
#endif

ACC4 load4(uint at) {
    ACC4 loaded = LOAD4(src, at / 4);
    return ENTRY(loaded);
}

ACC load1(uint at) {
    ACC loaded = LOAD(src, at);
    return ENTRY(loaded);
}

#ifdef IS_FLOAT
#define LOWEST uintBitsToFloat(0xff800000u)    // minus infinity
vec4 mean(vec4 sum, uvec4 area) { return quotient_of(sum, vec4(area)); }
#else
#define LOWEST 0
#ifdef DTYPE_Q16
#define MIDDLE 32768
#else
#define MIDDLE int(sign_mask & 128u)
#endif
// Halves are rounded away from level 0, which is MIDDLE for signed tensors.
ivec4 mean(ivec4 sum, uvec4 areas) {
    ivec4 area = ivec4(areas);
    ivec4 about = sum - MIDDLE * area;
    return sign(about) * ((abs(about) + area / 2) / area) + MIDDLE;
}
#endif

#ifdef KIND_MAX
#define FIRST ACC(LOWEST)
#define FOLD(a, b) larger(a, b)
#define PADDING(type, count) type(padding_value)
#define RESULT(folded, areas) without_negative_zero(folded)
#else
#define FIRST ACC(0)
#define FOLD(a, b) ((a) + (b))
#define PADDING(type, count) type(ENTRY(padding_value) * ACC(count))
#ifdef KIND_L2
#define RESULT(folded, areas) square_root(mean(folded, areas))
#else
#define RESULT(folded, areas) mean(folded, areas)
#endif
#endif

// The fold of the results of `load` under an output pixel's window, or of this invocation's share of them, and the size
// of the window. With shared windows four elements are loaded together, because loads take long; elements past the end
// are FIRST.
#define POOL(type, load)                                                                                \
    type pool(uvec4 at, type folded, out uint area) {                                                   \
        uvec4 part = window(at.y, at.z, area);                                                          \
        uint wide = part.w - part.y, inside = (part.z - part.x) * wide;                                 \
        if (LANES > 1) {                                                                                \
            for (uint k = own_share(count); k < inside; k += 4 * LANES) {                               \
                type some[4];                                                                           \
                [[unroll]] for (uint j = 0; j < 4; ++j) {                                               \
                    uint l = min(k + j * LANES, inside - 1), y = wide == width ? 0u : l / wide;         \
                    uvec2 place = uvec2(part.x + y, part.y + l - y * wide);                             \
                    some[j] = load(nhwc_index(at.x, place.x, place.y, at.w, height, width, src_pitch)); \
                    if (k + j * LANES >= inside) some[j] = type(FIRST);                                 \
                }                                                                                       \
                folded = FOLD(folded, FOLD(FOLD(some[0], some[1]), FOLD(some[2], some[3])));            \
            }                                                                                           \
        } else {                                                                                        \
            for (uint y = part.x; y < part.z; ++y) {                                                    \
                type line = type(FIRST); /* sums of sums of few elements lose less than one long sum */ \
                for (uint x = part.y; x < part.w; ++x)                                                  \
                    line = FOLD(line, load(nhwc_index(at.x, y, x, at.w, height, width, src_pitch)));    \
                folded = FOLD(folded, line);                                                            \
            }                                                                                           \
        }                                                                                               \
        bool counts = HAS_PADDING && area > inside && own_lane() == 0;                                  \
        if (counts) folded = FOLD(folded, PADDING(type, area - inside));                                \
        return folded;                                                                                  \
    }

POOL(ACC4, load4)
POOL(ACC, load1)

void main() {
    uint i = own_four();
    if (LANES == 1 && i >= count) return;
    uint four = min(i, count - 1);    // an invocation without elements continues, so that the barriers are uniform
    uvec3 magics = uvec3(magic_height, magic_width, magic_channels);
    ACC4 result;
    uvec4 areas;
    uint to = i;
    if (VECTOR) {
        uint area;
        uvec4 at = nhwc_coordinates(4 * four, out_height, out_width, channels, magics);
        to = nhwc_index(at.x, at.y, at.z, at.w, out_height, out_width, dst_pitch) / 4;
        result = pool(at, ACC4(FIRST), area);
        areas = uvec4(area);
    } else {
        for (uint k = 0; k < 4; ++k) {
            uint area;
            uint index = min(4 * four + k, elements - 1);    // the last four may exceed the number of elements
            result[k] = pool(nhwc_coordinates(index, out_height, out_width, channels, magics), FIRST, area);
            areas[k] = area;
        }
    }
    FOLD_LANES(result, FOLD)
    if (i < count && own_lane() == 0) STORE4(dst, to, activate(RESULT(result, areas), low, high));
}
