#version 450
// Conversion of 64-bit integers, which are two words in two tensors: from 32-bit floats, to 32-bit floats, and to
// 32-bit integers with a device assertion for numbers that do not fit. An invocation converts four elements.

#extension GL_GOOGLE_include_directive : require

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/texels.glsl"
#include "include/wide.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool HAS_HIGH = true;    // else the high words follow from the low ones
layout(constant_id = 4) const bool IS_UNSIGNED = false;

#ifdef KIND_FROM_FLOAT
READ_VIEW(0, Src, src, uvec4)
layout(set = 0, binding = 1) writeonly buffer Low { uvec4 low[]; };
layout(set = 0, binding = 2) writeonly buffer High { uvec4 high[]; };
#else
READ_VIEW(0, Low, low, uvec4)
READ_VIEW(1, High, high, uvec4)
layout(set = 0, binding = 2) writeonly buffer Dst { uvec4 dst[]; };
#endif
#ifdef KIND_TO_INT
FLAG(3)
#endif

layout(push_constant) uniform Push {
#ifdef KIND_FROM_FLOAT
    uint src_offset;
    uint low_offset;
    uint high_offset;
#else
    uint low_offset;
    uint high_offset;
    uint dst_offset;
#endif
#ifdef KIND_TO_INT
    uint flag_offset;
#endif
    uint count;       // of vec4s
    uint elements;
};

const uint TOP = 0x80000000u;
const int FRACTION = 23;    // bits of a float's fraction

WIDE with_sign(WIDE a, bool is_negative) { return is_negative ? subtract(WIDE(0u), a) : a; }

#if defined(KIND_FROM_FLOAT)
// The integral part. Numbers that do not fit, and NaN, become the lowest integer.
WIDE whole(uint bits) {
    int exponent = int(bits >> FRACTION & 0xffu) - 127;
    if (exponent < 0) return WIDE(0u);
    if (exponent >= 63) return WIDE(0u, TOP);
    WIDE digits = WIDE((bits & ((1u << FRACTION) - 1u)) | (1u << FRACTION), 0u);
    digits = exponent < FRACTION ? shift_right(digits, uint(FRACTION - exponent))
                                 : shift_left(digits, uint(exponent - FRACTION));
    return with_sign(digits, int(bits) < 0);
}
#elif defined(KIND_TO_FLOAT)
// The bits of the nearest float, ties to even.
uint real(WIDE number) {
    bool is_negative = int(number.y) < 0;
    WIDE size = with_sign(number, is_negative);
    int top = highest_bit(size);
    if (top < 0) return 0u;
    uint bits;
    if (top <= FRACTION) {
        bits = size.x << uint(FRACTION - top);
    } else {
        uint shift = uint(top - FRACTION);
        WIDE kept = shift_right(size, shift), rest = subtract(size, shift_left(kept, shift));
        WIDE half_way = shift_left(WIDE(1u, 0u), shift - 1u);
        bool is_up = is_less(half_way, rest) || (rest == half_way && (kept.x & 1u) == 1u);
        bits = kept.x + uint(is_up);
    }
    // The leading digit is implicit, and carries over into the exponent.
    return (uint(top + 127) << FRACTION) + (bits - (1u << FRACTION)) + (is_negative ? TOP : 0u);
}
#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
#ifdef KIND_FROM_FLOAT
    uvec4 bits = src_at(src_offset / 4 + i), lows, highs;
    for (int k = 0; k < 4; ++k) {
        WIDE number = whole(bits[k]);
        lows[k] = number.x;
        highs[k] = number.y;
    }
    low[low_offset / 4 + i] = lows;
    high[high_offset / 4 + i] = highs;
#else
    uvec4 lows = low_at(low_offset / 4 + i), highs = uvec4(ivec4(lows) >> 31), results = lows;
    if (HAS_HIGH) highs = high_at(high_offset / 4 + i);
    for (int k = 0; k < 4; ++k) {
#ifdef KIND_TO_FLOAT
        results[k] = real(WIDE(lows[k], highs[k]));
#else
        bool fits = highs[k] == uint(int(lows[k]) >> 31) && !(IS_UNSIGNED && int(highs[k]) < 0);
        if (!fits && 4 * i + k < elements) RAISE_AT(flag, highs[k] + (lows[k] >> 31), lows[k])
#endif
    }
    dst[dst_offset / 4 + i] = results;
#endif
}
