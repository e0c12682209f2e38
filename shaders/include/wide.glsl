// Unsigned 64-bit integers as pairs of words, the low one first, so that no device needs a 64-bit type.

#ifndef NNVK_WIDE_GLSL
#define NNVK_WIDE_GLSL

#define WIDE uvec2

WIDE add(WIDE a, WIDE b) {
    uint carry, low = uaddCarry(a.x, b.x, carry);
    return WIDE(low, a.y + b.y + carry);
}

WIDE subtract(WIDE a, WIDE b) {
    uint borrow, low = usubBorrow(a.x, b.x, borrow);
    return WIDE(low, a.y - b.y - borrow);
}

// The low 64 bits of a product.
WIDE multiply(WIDE a, WIDE b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return WIDE(low, high + a.x * b.y + a.y * b.x);
}

// All 64 bits of a product of 32-bit integers.
WIDE multiply(uint a, uint b) {
    uint high, low;
    umulExtended(a, b, high, low);
    return WIDE(low, high);
}

// The high 64 bits of a product, which may be up to 2 too small: the product of fractions of 2^64.
WIDE multiply_high(WIDE a, WIDE b) {
    WIDE result = multiply(a.y, b.y);
    result = add(result, WIDE(multiply(a.y, b.x).y, 0u));
    return add(result, WIDE(multiply(a.x, b.y).y, 0u));
}

// Shifts by 0 to 63 bits.
WIDE shift_left(WIDE a, uint n) {
    if (n >= 32u) return WIDE(0u, a.x << (n - 32u));
    return n == 0u ? a : WIDE(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
WIDE shift_right(WIDE a, uint n) {
    if (n >= 32u) return WIDE(a.y >> (n - 32u), 0u);
    return n == 0u ? a : WIDE((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}

// A right shift by 1 to 63 bits other than 32.
WIDE rotate(WIDE a, uint n) {
    if (n > 32u) a = a.yx;
    n &= 31u;
    return (a >> n) | (a.yx << (32u - n));
}

bool is_zero(WIDE a) { return (a.x | a.y) == 0u; }
bool is_less(WIDE a, WIDE b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

// The position of the highest bit that is set, from 0; -1 for 0.
int highest_bit(WIDE a) { return a.y != 0u ? 32 + findMSB(a.y) : findMSB(a.x); }

#endif
