// Multiplication of sums of bytes by quantised multipliers, with fewer instructions than `multiply_by_quantized_multiplier`
// and the same results.

#ifndef NNVK_REQUANTISE_GLSL
#define NNVK_REQUANTISE_GLSL

#include "multiply_add.glsl"
#include "quant.glsl"

// The device has no instruction for the high word of a product.
layout(constant_id = 52) const bool HALF_PRODUCTS = false;

// A multiplier for numbers below 2^29, with a shift in -29..0, that needs one product. With t = floor(x mantissa /
// 2^30) and e = -shift, both roundings together give floor((t + 1 + 2^e) / 2^(e + 1)), and floor((t - 1 + 2^e) / 2^(e +
// 1)) for t < 0. If e is 0 there is only one rounding, which gives floor((t + 1) / 2).
struct Multiplier {
    ivec4 mantissa;
    ivec4 right;       // e + 1
    ivec4 rounding;
    ivec4 negative;    // the addend for t < 0
};

Multiplier small_multiplier(ivec4 mantissa, ivec4 shift) {
    ivec4 again = min(-shift, ivec4(1));    // 1 where there is a second rounding
    return Multiplier(mantissa, 1 - shift, 1 + (again << -shift), -2 * again);
}

// The same for one rounding, halves up: floor((t + 2^e) / 2^(e + 1)).
Multiplier small_multiplier_once(ivec4 mantissa, ivec4 shift) {
    return Multiplier(mantissa, 1 - shift, ivec4(1) << -shift, ivec4(0));
}

// floor(x mantissa / 2^30), for numbers below 2^29. The products of halves, of 15 or 16 bits, have less than 32 bits, and
// so have their sums.
ivec4 high_product(ivec4 x, ivec4 mantissa) {
    if (HALF_PRODUCTS) {
        ivec4 low = x & 0x7fff, high = x >> 15, low_by = mantissa & 0xffff, high_by = mantissa >> 16;
        ivec4 middle = (high * low_by + (low * low_by >> 15) >> 1) + low * high_by;
        return (high * high_by << 1) + (middle >> 14);
    }
    ivec4 t;
    ivec4 rest;
    imulExtended(x << 2, mantissa, t, rest);
    return t;
}

ivec4 rounded_product(ivec4 t, Multiplier by, bool nonnegative) {
    return (nonnegative ? t + by.rounding : t + by.rounding + (t >> 31 & by.negative)) >> by.right;
}

// With `nonnegative`, results below 0 may be 0 or -1.
ivec4 multiply_small(ivec4 x, Multiplier by, bool nonnegative) {
    return rounded_product(high_product(x, by.mantissa), by, nonnegative);
}

// `multiply_small` of x 2^20, for x in -511..511.
ivec4 multiply_small_level(ivec4 x, Multiplier by) {
    if (!HALF_PRODUCTS) return multiply_small(x << 20, by, false);
    ivec4 t = (x * (by.mantissa >> 16) << 6) + (x * (by.mantissa & 0xffff) >> 10);
    return rounded_product(t, by, false);
}

// A multiplier with a shift in -10..-2, for results that are bytes. It takes no product of more than 32 bits.
// lowering/gemm/epilogue.py has the floats.
//
// With p = x mantissa, e = -shift and h = 2^-(e + 1), both roundings together give floor(p / 2^(31 + e) + 1/2 + h), and
// floor(p / 2^(31 + e) + 1/2 - h) for x < 0. Floats give the first term with an error below ERROR. Where the integers for
// `below` and for `above` are the same, this is the result. Otherwise there is one change between them, and p is less
// than 2^31 from the multiple of 2^32 that it stands for. The result changes 2^30 before this multiple, or for x < 0 after
// it, so the low word of p says on which side it is. With one rounding h is 0, and the result changes at the multiple.
struct ByteMultiplier {
    ivec4 mantissa;
    vec4 scale;    // mantissa / 2^(31 + e)
    vec4 below;    // the results' zero point, and what the roundings add, less ERROR,
    vec4 above;    // and with ERROR
};

// Clamping to 0..1 is free, so results are fractions of the range: 0 is its least number and 1 its largest.
layout(constant_id = 64) const bool SATURATES = false;

// Floats rounded down to integers of low..high, a range of bytes, and clamped; with SATURATES fractions of it, rounded to
// nearest by the sum with 2^23. These are the lowest bytes of the elements, of which others may have bits with SATURATES.
ivec4 low_bytes_within(vec4 x, int low, int high) {
    if (SATURATES)
        return floatBitsToInt(multiply_add(clamp(x, 0.0, 1.0), vec4(float(high - low)), vec4(8388608.0 + float(low))));
    return ivec4(min(max(x, vec4(low)), vec4(float(high) + 0.5)));    // these have no sign, so this is the floor
}

// The bytes themselves.
ivec4 whole_bytes(ivec4 low_bytes) { return SATURATES ? low_bytes & 0xff : low_bytes; }

// The product with x, of less than 2^29, plus the zero point, clamped to low..high, as `low_bytes_within`. `x_float` is the float nearest to x. With `nonnegative`,
// results below the zero point may be larger, up to it. `once`: there is one rounding.
ivec4 multiply_to_low_bytes(ivec4 x, vec4 x_float, ByteMultiplier by, int low, int high, bool nonnegative, bool once) {
    const int CHANGE = 1 << 30;
    ivec4 change = nonnegative ? ivec4(-CHANGE) : mix(ivec4(-CHANGE), ivec4(CHANGE), lessThan(x, ivec4(0)));
    if (once) change = ivec4(0);
    bvec4 reached = greaterThanEqual(x * by.mantissa, change);
    vec4 below = multiply_add(x_float, by.scale, by.below), above = multiply_add(x_float, by.scale, by.above);
    return low_bytes_within(mix(below, above, reached), low, high);
}

ivec4 multiply_to_bytes(ivec4 x, vec4 x_float, ByteMultiplier by, int low, int high, bool nonnegative, bool once) {
    return whole_bytes(multiply_to_low_bytes(x, x_float, by, low, high, nonnegative, once));
}

// The word of the bytes of `low_bytes_within`.
uint pack_low_bytes(ivec4 v, uint sign_mask) {
    if (!SATURATES) return pack_bytes(v, sign_mask);
    // The bits of 2^23 are in the highest byte of each element, and only those of the first one stay.
    return uint(v.x ^ v.y << 8 ^ v.z << 16 ^ v.w << 24) ^ (sign_mask ^ 0x4b000000u);
}

// A proof of bytes, whatever formula gave them: they are no further from real numbers than roundings can be. Numbers are
// larger here by the tolerance, so that no difference has a sign, and the bits of floats are in the order of their values.
struct Bounds {
    ivec2 limits;      // the bits of the least and the largest byte, and the tolerance
    uint tolerance;    // the bits of twice the tolerance
};

Bounds bounds_within(int low, int high, float tolerance) {
    return Bounds(floatBitsToInt(vec2(low, high) + tolerance), floatBitsToUint(2.0 * tolerance));
}

// Whether one of four bytes is too far from its number. The numbers have the tolerance, and are clamped here.
bool is_beyond(Bounds of, vec4 numbers, ivec4 bytes) {
    vec4 clamped = intBitsToFloat(min(max(floatBitsToInt(numbers), of.limits.x), of.limits.y));
    uvec4 difference = floatBitsToUint(clamped - vec4(bytes));
    uvec2 most = max(difference.xy, difference.zw);
    return max(most.x, most.y) > of.tolerance;
}

// The real number of a quantised multiplier.
float real_scale(int mantissa, int shift) { return float(mantissa) * uintBitsToFloat(uint(shift + 96) << 23); }
vec4 real_scale(ivec4 mantissa, ivec4 shift) { return vec4(mantissa) * uintBitsToFloat(uvec4(shift + 96) << 23); }

// How far roundings move the product with a quantised multiplier, which is a byte. The last rounding moves it by 1/2. If
// there is a shift to the right, another one comes before it, and the shift divides its error. Floats have errors of less
// than 2^-12, as those of `ByteMultiplier`.
float error_of(int shift) { return 0.500244140625 + mix(0.0, uintBitsToFloat(uint(shift + 126) << 23), shift < 0); }

// The numbers that bytes of scaled sums are compared with.
struct ByteBounds {
    vec4 scale;
    float zero;    // the results' zero point, and the tolerance
    Bounds bounds;
};

ByteBounds byte_bounds(ivec4 mantissa, ivec4 shift, int zero, int low, int high) {
    float most = max(max(error_of(shift.x), error_of(shift.y)), max(error_of(shift.z), error_of(shift.w)));
    return ByteBounds(real_scale(mantissa, shift), float(zero) + most, bounds_within(low, high, most));
}

// `x_float` are the floats nearest to the sums.
bool is_beyond(ByteBounds of, vec4 x_float, ivec4 bytes) {
    return is_beyond(of.bounds, multiply_add(x_float, of.scale, vec4(of.zero)), bytes);
}

#endif
