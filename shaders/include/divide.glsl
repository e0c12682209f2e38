// Quotients of integers by numbers that the host knows, as products with constants from lowering/divide.py, because
// integer division is the slowest operation.

#ifndef NNVK_DIVIDE_GLSL
#define NNVK_DIVIDE_GLSL

// With MAY_DIVIDE_AS_FLOATS the host may say that all numbers are below 2^24, to multiply them as floats. GPUs without a
// product of 64 bits compute that from products of 16 bits, which takes four times as long.
#ifdef MAY_DIVIDE_AS_FLOATS
layout(constant_id = 80) const bool DIVIDE_AS_FLOATS = false;
#else
const bool DIVIDE_AS_FLOATS = false;
#endif

// n / d, for any n: the product with 2^32 / d, or with the float 1 / d, rounded down, may be one too small.
uint divide(uint n, uint d, uint magic) {
    uint quotient, low;
    if (DIVIDE_AS_FLOATS) quotient = uint(float(n) * uintBitsToFloat(magic));
    else umulExtended(n, magic, quotient, low);
    return quotient + uint(n - quotient * d >= d);
}

// The integral part of n / by for numbers below 2^20, from 1 / by. It is exact, and cheaper than an integer division.
uint divided(uint n, float inverse) { return uint((float(n) + 0.5) * inverse); }

#endif
