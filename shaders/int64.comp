#version 450
// Arithmetic and comparison of 64-bit integers with broadcasting. Each integer is two words in two tensors. An
// invocation computes four elements.

#extension GL_GOOGLE_include_directive : require

#define DTYPE_I32
#include "include/tensors.glsl"
#include "include/broadcast.glsl"
#include "include/indexing.glsl"
#include "include/wide.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 7) const bool LHS_WIDE = true;    // the tensor has high words; else they follow from the low ones
layout(constant_id = 8) const bool RHS_WIDE = true;

READS(0, Low0, low0)
READS(1, High0, high0)
READS(2, Low1, low1)
READS(3, High1, high1)
#ifdef KIND_COMPARE
layout(set = 0, binding = 4) writeonly buffer Dst { ivec4 dst[]; };
#else
layout(set = 0, binding = 4) writeonly buffer Low { ivec4 low[]; };
layout(set = 0, binding = 5) writeonly buffer High { ivec4 high[]; };
#endif

layout(push_constant) uniform Push {
    uint low0_offset;
    uint high0_offset;
    uint low1_offset;
    uint high1_offset;
#ifdef KIND_COMPARE
    uint dst_offset;
#else
    uint low_offset;
    uint high_offset;
#endif
    uint count;        // of vec4s
    uint elements;
    uint size_1;       // the output's sizes except the outermost, folded to four dimensions
    uint size_2;
    uint size_3;
    uint magic_1;
    uint magic_2;
    uint magic_3;
    uint lhs_stride_0;
    uint lhs_stride_1;
    uint lhs_stride_2;
    uint lhs_stride_3;
    uint rhs_stride_0;
    uint rhs_stride_1;
    uint rhs_stride_2;
    uint rhs_stride_3;
};

#ifdef KIND_DIV
WIDE negated(WIDE a) { return subtract(WIDE(0u), a); }
WIDE magnitude(WIDE a) { return mix(a, negated(a), bvec2(int(a.y) < 0)); }

// The quotient, rounded towards 0; 0 if the divisor is 0.
WIDE quotient(WIDE a, WIDE b) {
    bool is_negative = int(a.y ^ b.y) < 0, is_nothing = is_zero(b);
    a = magnitude(a);
    b = magnitude(b);
    WIDE rest = WIDE(0u), result = WIDE(0u);
    for (int bit = 0; bit < 64; ++bit) {
        rest = WIDE((rest.x << 1) | (a.y >> 31), (rest.y << 1) | (rest.x >> 31));
        a = WIDE(a.x << 1, (a.y << 1) | (a.x >> 31));
        uint fits = 1u - uint(is_less(rest, b));
        rest = subtract(rest, b * fits);
        result = WIDE((result.x << 1) | fits, (result.y << 1) | (result.x >> 31));
    }
    return mix(mix(result, negated(result), bvec2(is_negative)), WIDE(0u), bvec2(is_nothing));
}
#endif

WIDE computed(WIDE a, WIDE b) {
#if defined(KIND_ADD)
    return add(a, b);
#elif defined(KIND_SUB)
    return subtract(a, b);
#elif defined(KIND_MUL)
    return multiply(a, b);
#elif defined(KIND_DIV)
    return quotient(a, b);
#elif defined(KIND_COMPARE)
    const uint top = 0x80000000u;    // order with a sign is that without one, moved by half the range
    WIDE left = WIDE(a.x, a.y ^ top), right = WIDE(b.x, b.y ^ top);
    return WIDE(uint(int(is_less(right, left)) - int(is_less(left, right))), 0u);
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 left = min(4 * i + uvec4(0, 1, 2, 3), uvec4(elements - 1)), right = left;    // the last may not exist
    if (!CONTIGUOUS) {
        for (int k = 0; k < 4; ++k) {
            uvec2 at = PLACES(left[k]);
            left[k] = at.x;
            right[k] = at.y;
        }
    }
    ivec4 low_a = GATHER4(low0, left), low_b = GATHER4(low1, right), high_a = low_a >> 31, high_b = low_b >> 31;
    if (LHS_WIDE) high_a = GATHER4(high0, left);
    if (RHS_WIDE) high_b = GATHER4(high1, right);
    ivec4 lows, highs;
    for (int k = 0; k < 4; ++k) {
        WIDE result = computed(WIDE(low_a[k], high_a[k]), WIDE(low_b[k], high_b[k]));
        lows[k] = int(result.x);
        highs[k] = int(result.y);
    }
#ifdef KIND_COMPARE
    dst[dst_offset / 4 + i] = lows;
#else
    low[low_offset / 4 + i] = lows;
    high[high_offset / 4 + i] = highs;
#endif
}
