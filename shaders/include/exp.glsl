// Exponentials with more than 32 bits, in fixed point, for results where the last bit decides: an overlap, the
// quantised value of a box, or the class that is drawn.

#ifndef NNVK_EXP_GLSL
#define NNVK_EXP_GLSL

#include "special_values.glsl"
#include "wide.glsl"

// 2^(j / 16) - 1.
const WIDE ROOTS[16] = WIDE[](
    WIDE(0x00000000u, 0x00000000u), WIDE(0x9890f62au, 0x0b5586cfu), WIDE(0xd517adceu, 0x172b83c7u),
    WIDE(0x5623866cu, 0x2387a6e7u), WIDE(0x1b7152dfu, 0x306fe0a3u), WIDE(0x2342235bu, 0x3dea64c1u),
    WIDE(0x62a271d4u, 0x4bfdad53u), WIDE(0x8542958du, 0x5ab07dd4u), WIDE(0xf3bcc909u, 0x6a09e667u),
    WIDE(0xb0186d7du, 0x7a11473eu), WIDE(0xaa0db5bau, 0x8ace5422u), WIDE(0x3f0901c8u, 0x9c49182au),
    WIDE(0xad3ad5e8u, 0xae89f995u), WIDE(0x5529c222u, 0xc199bdd8u), WIDE(0xba48725eu, 0xd5818dcfu),
    WIDE(0x490d9859u, 0xea4afa2au));

// A root by the four highest bits of a number. It is selected bit by bit, because some devices copy an array that is
// indexed.
WIDE root_of(uint number) {
    bvec2 a = bvec2((number >> 28 & 1u) != 0u), b = bvec2((number >> 29 & 1u) != 0u);
    bvec2 c = bvec2((number >> 30 & 1u) != 0u), d = bvec2((number >> 31) != 0u);
#define ROOT_OF_2(k) mix(ROOTS[k], ROOTS[k + 1], a)
#define ROOT_OF_4(k) mix(ROOT_OF_2(k), ROOT_OF_2(k + 2), b)
#define ROOT_OF_8(k) mix(ROOT_OF_4(k), ROOT_OF_4(k + 4), c)
    return mix(ROOT_OF_8(0), ROOT_OF_8(8), d);
}

// 2^f - 1 for f from 0 to 1, both as fractions of 2^64, to 60 bits: a root for the first four bits of f, and the series
// of e^(g ln 2 / 16) for the rest.
WIDE exp2_fraction(WIDE f) {
    WIDE g = shift_left(f, 4u);
    uint tail = 0x1bu;
    tail = 0x162cu + multiply(tail, g.y).y;
    tail = 0xffe60u + multiply(tail, g.y).y;
    tail = 0xa184898u + multiply(tail, g.y).y;
    WIDE sum = WIDE(0x761ff9e3u, 0x00000005u);
    sum = add(WIDE(multiply(tail, g.y).y, 0u), sum);
    sum = add(multiply_high(sum, g), WIDE(0x556df74au, 0x00000276u));
    sum = add(multiply_high(sum, g), WIDE(0x46b82506u, 0x0000e358u));
    sum = add(multiply_high(sum, g), WIDE(0xff058b1du, 0x003d7f7bu));
    sum = add(multiply_high(sum, g), WIDE(0x7d1cf79bu, 0x0b17217fu));
    sum = multiply_high(sum, g);
    WIDE root = root_of(f.y);
    return add(add(root, sum), multiply_high(root, sum));
}

const WIDE LOG2_E = WIDE(0x5c17f0bcu, 0xb8aa3b29u);    // times 2^63

// e^x, rounded to the nearest float except in one of many thousands of cases.
float rounded_exp(float x) {
    uint bits = floatBitsToUint(x), exponent = (bits >> 23) & 0xffu;
    if (is_nan(x)) return x;
    bool negative = (bits >> 31) != 0u;
    if (exponent >= 134u) return negative ? 0.0 : uintBitsToFloat(0x7f800000u);    // from 128 on
    // |x| times 2^57, times log2(e) times 2^63: the product times 2^56.
    WIDE size = WIDE(exponent == 0u ? 0u : (bits & 0x7fffffu) | 0x800000u, 0u);
    size = exponent >= 93u ? shift_left(size, exponent - 93u) : shift_right(size, min(93u - exponent, 63u));
    WIDE power = multiply_high(size, LOG2_E);
    int whole = int(power.y >> 24);
    WIDE fraction = shift_left(power, 8u);
    if (negative) {
        whole = is_zero(fraction) ? -whole : -whole - 1;
        fraction = subtract(WIDE(0u), fraction);
    }
    if (whole > 127) return uintBitsToFloat(0x7f800000u);
    uint mantissa = exp2_fraction(fraction).y;
    if (whole >= -126) return uintBitsToFloat((uint(whole + 127) << 23) + (mantissa >> 9) + ((mantissa >> 8) & 1u));
    uint shift = uint(-118 - whole);    // a subnormal number
    if (shift > 32u) return 0.0;
    mantissa = 0x80000000u | (mantissa >> 1);
    return uintBitsToFloat((shift < 32u ? mantissa >> shift : 0u) + ((mantissa >> (shift - 1u)) & 1u));
}

#endif
