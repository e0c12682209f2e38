// Remainders of floats, which are floats without rounding, and quotients that are rounded down.

#ifndef NNVK_REMAINDER_GLSL
#define NNVK_REMAINDER_GLSL

#include "quant.glsl"
#include "special_values.glsl"

// a - b trunc(a / b), with the sign of a: a long division of the significands, eight bits at a time.
float remainder(float a, float b) {
    uint sign = floatBitsToUint(a) & ~MAGNITUDE, x = floatBitsToUint(a) & MAGNITUDE, y = floatBitsToUint(b) & MAGNITUDE;
    if (x >= INFINITE || y > INFINITE || y == 0u) return uintBitsToFloat(0x7fc00000u);
    if (x < y) return a;
    uint x_exponent = max(x >> 23, 1u), y_exponent = max(y >> 23, 1u);
    uint rest = (x & 0x7fffffu) | (x < 0x800000u ? 0u : 0x800000u);
    uint divisor = (y & 0x7fffffu) | (y < 0x800000u ? 0u : 0x800000u);
    rest %= divisor;
    for (uint places = x_exponent - y_exponent; places > 0u && rest != 0u;) {
        uint step = min(places, 8u);
        rest = (rest << step) % divisor;
        places -= step;
    }
    if (rest == 0u) return uintBitsToFloat(sign);
    // The rest times 2^(y_exponent - 150), as a normal number or as a subnormal one.
    uint up = uint(23 - findMSB(rest));
    if (up >= y_exponent) return uintBitsToFloat(sign | (rest << (y_exponent - 1u)));
    return uintBitsToFloat(sign | (((y_exponent - up) << 23) + ((rest << up) & 0x7fffffu)));
}

// a - b floor(a / b), with the sign of b.
float floor_remainder(float a, float b) {
    float rest = remainder(a, b);
    bool differs = ((floatBitsToUint(rest) ^ floatBitsToUint(b)) & ~MAGNITUDE) != 0u;
    return differs && (floatBitsToUint(rest) & MAGNITUDE) != 0u ? rest + b : rest;
}

// The quotient, rounded to the nearest float, and that rounded down.
float floor_quotient(float a, float b) { return floor(exact_quotient(a, b)); }

#endif
