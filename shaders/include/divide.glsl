// Quotients of integers by numbers that the host knows, as products with constants from lowering/divide.py, because
// integer division is the slowest operation.

#ifndef NNVK_DIVIDE_GLSL
#define NNVK_DIVIDE_GLSL

// n / d, for any n: the product with 2^32 / d, rounded down, may be one too small.
uint divide(uint n, uint d, uint magic) {
    uint quotient, low;
    umulExtended(n, magic, quotient, low);
    return quotient + uint(n - quotient * d >= d);
}

#endif
