// 64-bit sums of products of 16-bit quantised values with bytes, and their conversion to the output's scale, with the
// bits of nnvk/ops/quant.py. 64-bit numbers are two words, so that no device needs a 64-bit type. An output channel has
// a factor and a right shift of its product with the sum (lowering/gemm/epilogue.py); for sums that are rounded
// TWICE it has a mantissa and a shift.

#ifndef NNVK_WIDE_SUMS_GLSL
#define NNVK_WIDE_SUMS_GLSL

#include "quant.glsl"

// A sum and its bias fit into 32 bits, or wrap around there.
layout(constant_id = 16) const bool NARROW_SUMS = false;
// Biases have 64 bits.
layout(constant_id = 17) const bool WIDE_BIAS = false;
layout(constant_id = 18) const uint ROUNDING = 0;

const uint TWICE = 0;    // as bytes
const uint SHORT = 1;    // halves up, by a factor of 15 bits; comes round
const uint ONCE = 2;     // halves up, of 48 bits, which saturate

struct Wide4 {
    ivec4 low;
    ivec4 high;
};

Wide4 narrow_total(ivec4 sum) { return Wide4(sum, sum >> 31); }

// 2^16 times one number, plus another number that is not negative.
Wide4 wide_total(ivec4 low, ivec4 high) {
    uvec4 carry;
    uvec4 sum = uaddCarry(uvec4(low), uvec4(high) << 16, carry);
    return Wide4(ivec4(sum), (high >> 16) + ivec4(carry));
}

Wide4 sum_of(Wide4 a, Wide4 b) {
    uvec4 carry;
    uvec4 low = uaddCarry(uvec4(a.low), uvec4(b.low), carry);
    return Wide4(ivec4(low), a.high + b.high + ivec4(carry));
}

Wide4 with_total(Wide4 a, Wide4 b) {
    if (NARROW_SUMS) return narrow_total(a.low + b.low);
    return sum_of(a, b);
}

// The low words of an arithmetic right shift by 1 to 63 bits.
ivec4 shifted(Wide4 x, ivec4 bits) {
    bvec4 far = greaterThan(bits, ivec4(31));
    ivec4 low = mix(x.low, x.high, far), high = mix(x.high, x.high >> 31, far);
    bits &= 31;
    return ivec4((uvec4(low) >> bits) | (uvec4(high) << 1 << (31 - bits)));
}

// Half of 2^bits, for 1 to 63 bits.
Wide4 half_unit(ivec4 bits) {
    ivec4 bit = ivec4(1) << ((bits - 1) & 31);
    bvec4 far = greaterThan(bits, ivec4(32));
    return Wide4(mix(bit, ivec4(0), far), mix(ivec4(0), bit, far));
}

Wide4 product_of(ivec4 a, ivec4 b) {
    Wide4 product;
    imulExtended(a, b, product.high, product.low);
    return product;
}

// The same for a number that is not negative and may have 32 bits.
Wide4 product_of(uvec4 a, ivec4 b) {
    uvec4 high, low;
    umulExtended(a, uvec4(b), high, low);
    return Wide4(ivec4(low), ivec4(high));
}

// An arithmetic right shift that saturates.
ivec4 saturated_shift(Wide4 x, ivec4 bits) {
    ivec4 result = shifted(x, bits), beyond = x.high >> min(bits, 31);
    return mix(beyond ^ 0x7fffffff, result, equal(beyond, result >> 31));
}

ivec4 rescaled(Wide4 sum, ivec4 factor, ivec4 bits) {
    if (ROUNDING == TWICE) return multiply_by_quantized_multiplier(sum.low, factor, bits);
    if (NARROW_SUMS || ROUNDING == SHORT) {
        Wide4 product;
        if (NARROW_SUMS) {
            product = product_of(sum.low, factor);
        } else {
            product = product_of(uvec4(sum.low), factor);
            product.high += sum.high * factor;
        }
        product = sum_of(product, half_unit(bits));
        return ROUNDING == ONCE ? saturated_shift(product, bits) : shifted(product, bits);
    }
    const int most = 0x7fff;    // of the high word of 48 bits
    sum.low = mix(sum.low, ivec4(-1), greaterThan(sum.high, ivec4(most)));
    sum.low = mix(sum.low, ivec4(1), lessThan(sum.high, ivec4(-most - 1)));
    sum.high = clamp(sum.high, -most - 1, most);
    sum.low = mix(sum.low, ivec4(1), bvec4(uvec4(equal(sum.high, ivec4(-most - 1))) & uvec4(equal(sum.low, ivec4(0)))));
    Wide4 low = sum_of(product_of(uvec4(sum.low & 0xffff), factor), half_unit(bits));
    low = Wide4(shifted(low, ivec4(16)), low.high >> 16);
    ivec4 top = sum.high << 16 | ivec4(uvec4(sum.low) >> 16);
    return saturated_shift(sum_of(product_of(top, factor), low), bits - 16);
}

#endif
