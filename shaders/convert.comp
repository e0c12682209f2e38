#version 450
// Conversion to another data type: QUANTIZE, DEQUANTIZE, CAST, and conversions around operations that compute in
// another type. An element represents (number - src_zero) * src_scale, or * the scale of its channel. It is rounded to
// the nearest number of the target: halves away from zero, with TO_EVEN to the even number, or with TRUNCATE towards
// zero. The result saturates. NaN becomes the largest number, with TO_EVEN the lowest, and with TRUNCATE 0. An
// invocation converts four elements.

#extension GL_GOOGLE_include_directive : require

#if defined(SRC_F32)
#define DTYPE_F32
#elif defined(SRC_F16)
#define DTYPE_F16
#elif defined(SRC_I32)
#define DTYPE_I32
#elif defined(SRC_Q8)
#define DTYPE_Q8
#elif defined(SRC_Q16)
#define DTYPE_Q16
#endif

#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool TRUNCATE = false;
layout(constant_id = 4) const bool SATURATE = false;    // numbers beyond 16-bit floats, too
layout(constant_id = 5) const bool TO_EVEN = false;

READS(0, Src, src)
#if defined(DST_F32)
layout(set = 0, binding = 1) writeonly buffer Dst { vec4 dst[]; };
#elif defined(DST_I32)
layout(set = 0, binding = 1) writeonly buffer Dst { ivec4 dst[]; };
#elif defined(DST_Q8)
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Dst { uvec2 dst[]; };
#endif
#ifdef SCALES_CHANNEL
READ_VIEW(2, Scales, scales, float)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;    // of vec4s
    uint row;          // vec4s of a row, where tensors are COLUMNS,
    uint magic_row;
    uint src_pitch;    // and from a row to the next
    uint dst_pitch;
    int src_zero;
#ifdef SCALES_CHANNEL
    uint scales_offset;
    uint channels;
    uint inner;    // elements from one channel to the next
#else
    float src_scale;
#endif
#if defined(SRC_Q8) || defined(SRC_Q16)
    uint sign_mask;
#endif
#if defined(DST_I32) || defined(DST_Q8) || defined(DST_Q16)
    float dst_scale;
    int dst_zero;
#endif
#if defined(DST_Q8) || defined(DST_Q16)
    uint dst_mask;
    int low;
    int high;
#endif
};

#include "include/strided_view.glsl"

#ifdef SCALES_CHANNEL
vec4 scale(uint i) {
    uvec4 channel = (4 * i + uvec4(0, 1, 2, 3)) / inner % channels;
    channel += scales_offset;
    return vec4(scales_at(channel.x), scales_at(channel.y), scales_at(channel.z), scales_at(channel.w));
}
#else
float scale(uint i) { return src_scale; }
#endif

vec4 real(uint i) {
#ifdef IS_FLOAT
    return LOAD4(src, vec4_within(i, src_pitch));
#else
    return vec4(LOAD4(src, vec4_within(i, src_pitch)) - src_zero) * scale(i);
#endif
}

#if defined(DST_I32) || defined(DST_Q8) || defined(DST_Q16)
ivec4 whole(vec4 x) {
    x = exact_quotient(x, dst_scale);
    if (TRUNCATE) {
        x = mix(trunc(x), vec4(0.0), is_nan(x));
    } else if (TO_EVEN) {
        x = mix(roundEven(x), vec4(-2147483648.0), is_nan(x));
    } else {
        x = mix(round_half_away(x), vec4(2147483648.0), is_nan(x));
    }
    return saturated_int(x);
}

#if !defined(DST_I32)
ivec4 levels(vec4 x) {
    return clamp(clamp(whole(x), -0x40000000, 0x40000000) + dst_zero, low, high);
}
#endif
#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint to = vec4_within(i, dst_pitch);
#if defined(DST_F32)
    dst[dst_offset / 4 + to] = real(i);
#elif defined(DST_F16)
    vec4 x = real(i);
    if (SATURATE) x = within_float16(x);
    dst[dst_offset / 2 + to] = pack_float16(x);
#elif defined(DST_I32)
    dst[dst_offset / 4 + to] = whole(real(i));
#elif defined(DST_Q8)
    dst[dst_offset + to] = pack_bytes(levels(real(i)), dst_mask);
#elif defined(DST_Q16)
    dst[dst_offset / 2 + to] = pack_shorts(levels(real(i)), dst_mask);
#endif
}
