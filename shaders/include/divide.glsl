// Quotients of whole numbers by numbers that the host knows: products with what lowering/divide.py makes of the divisor,
// because integer division is the slowest thing there is.

#ifndef NNVK_DIVIDE_GLSL
#define NNVK_DIVIDE_GLSL

// n / d, for any n: the GEMM with 2^32 / d, rounded down, may be one too small.
uint divide(uint n, uint d, uint magic) {
    uint quotient, low;
    umulExtended(n, magic, quotient, low);
    return quotient + uint(n - quotient * d >= d);
}

#endif
