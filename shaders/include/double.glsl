// 64-bit floats in integer arithmetic, rounded to nearest, ties to even, for sums whose sign depends on the last bit.
// No device needs a 64-bit type. A number is its bits in two words. Subnormal numbers and overflow do not occur,
// because a product is of a 64-bit integer and a 32-bit float.

#ifndef NNVK_DOUBLE_GLSL
#define NNVK_DOUBLE_GLSL

#include "wide.glsl"

#define DOUBLE uvec2

const uint SPECIAL = 0x7ffu;    // the exponent of infinities and NaN
const DOUBLE NOT_A_NUMBER = DOUBLE(0u, 0x7ff80000u);

uint exponent_of(DOUBLE a) { return (a.y >> 20) & 0x7ffu; }
bool is_nan(DOUBLE a) { return exponent_of(a) == SPECIAL && (a.x | (a.y & 0xfffffu)) != 0u; }
bool is_positive(DOUBLE a) { return (a.y >> 31) == 0u && exponent_of(a) != 0u && !is_nan(a); }

// A number from a sign bit and a fraction of 2^64 from 1/2 on, times 2^(exponent + 1). The last bit of the fraction
// also stands for all bits after it.
DOUBLE rounded(uint sign, int exponent, WIDE fraction) {
    uint rest = fraction.x & 0x7ffu;
    WIDE bits = shift_right(fraction, 11u);
    bits.y += uint(exponent + 1022) << 20;
    bool is_up = rest > 0x400u || (rest == 0x400u && (bits.x & 1u) != 0u);
    bits = add(bits, WIDE(is_up ? 1u : 0u, 0u));
    bits.y |= sign;
    return bits;
}

// The number nearest to a 64-bit integer in two's complement.
DOUBLE double_of(WIDE integer) {
    uint sign = integer.y & 0x80000000u;
    if (sign != 0u) integer = subtract(WIDE(0u), integer);
    int top = highest_bit(integer);
    if (top < 0) return DOUBLE(0u);
    return rounded(sign, top, shift_left(integer, uint(63 - top)));
}

// The product of a finite number and a 32-bit float, given by its bits.
DOUBLE product(DOUBLE a, uint b) {
    uint sign = (a.y ^ b) & 0x80000000u, exponent = (b >> 23) & 0xffu, mantissa = b & 0x7fffffu;
    bool is_zero = exponent_of(a) == 0u;
    if (exponent == 0xffu) return mantissa != 0u || is_zero ? NOT_A_NUMBER : DOUBLE(0u, sign | 0x7ff00000u);
    if (exponent != 0u) mantissa |= 0x800000u;
    if (mantissa == 0u || is_zero) return DOUBLE(0u);
    int top = findMSB(mantissa), power = int(max(exponent, 1u)) - 127 - 23 + top + int(exponent_of(a)) - 1023;
    mantissa <<= 31 - top;
    WIDE whole = shift_left(WIDE(a.x, (a.y & 0xfffffu) | 0x100000u), 11u);
    WIDE low = multiply(whole.x, mantissa), high = add(multiply(whole.y, mantissa), WIDE(low.y, 0u));
    if ((high.y >> 31) != 0u) ++power;
    else {
        high = shift_left(high, 1u) | WIDE(low.x >> 31, 0u);
        low.x <<= 1;
    }
    if (low.x != 0u) high.x |= 1u;
    return rounded(sign, power, high);
}

DOUBLE sum(DOUBLE a, DOUBLE b) {
    if (is_less(WIDE(a.x, a.y & 0x7fffffffu), WIDE(b.x, b.y & 0x7fffffffu))) {
        DOUBLE other = a;
        a = b;
        b = other;
    }
    bool is_difference = ((a.y ^ b.y) >> 31) != 0u;
    if (exponent_of(a) == SPECIAL) return is_difference && exponent_of(b) == SPECIAL ? NOT_A_NUMBER : a;
    if (exponent_of(b) == 0u) return a;
    uint distance = exponent_of(a) - exponent_of(b);
    WIDE large = shift_left(WIDE(a.x, (a.y & 0xfffffu) | 0x100000u), 10u);
    WIDE small = shift_left(WIDE(b.x, (b.y & 0xfffffu) | 0x100000u), 10u);
    WIDE moved = shift_right(small, min(distance, 63u));
    if (shift_left(moved, min(distance, 63u)) != small) moved.x |= 1u;
    large = is_difference ? subtract(large, moved) : add(large, moved);
    int top = highest_bit(large);
    if (top < 0) return DOUBLE(0u);
    return rounded(a.y & 0x80000000u, int(exponent_of(a)) - 1023 + top - 62, shift_left(large, uint(63 - top)));
}

#endif
