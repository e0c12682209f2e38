// Bytes and halves of words, and quantised arithmetic exactly as in TensorFlow Lite's reference kernels.
//
// Quantised tensors are dense bytes or 16-bit values, read as little-endian 32-bit words, so no storage feature is
// needed. One variant serves signed and unsigned tensors. `sign_mask` is 0 for unsigned tensors. For signed tensors it
// has the highest bit of each value, which shifts values by 128 (32,768) to the unsigned range when words are unpacked,
// and back when they are packed. The host adds the same offset to the zero point and to clamping limits of a signed
// tensor.

#ifndef NNVK_QUANT_GLSL
#define NNVK_QUANT_GLSL

// For devices with 16-bit numbers: conversions from floats round to nearest, ties to even.
#ifdef NATIVE_16
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 16);
#endif

#include "reproducible.glsl"

// Four consecutive bytes, each in 0..255.
ivec4 unpack_bytes(uint word, uint sign_mask) {
    word ^= sign_mask;
    return ivec4(word & 0xffu, (word >> 8) & 0xffu, (word >> 16) & 0xffu, word >> 24);
}

// The word of four values that are already in 0..255.
uint pack_bytes(ivec4 v, uint sign_mask) {
    return (uint(v.x) | uint(v.y) << 8 | uint(v.z) << 16 | uint(v.w) << 24) ^ sign_mask;
}

// The same for 16-bit values, each in 0..65535.
ivec4 unpack_shorts(uvec2 words, uint sign_mask) {
    words ^= sign_mask;
    return ivec4(words.x & 0xffffu, words.x >> 16, words.y & 0xffffu, words.y >> 16);
}

uvec2 pack_shorts(ivec4 v, uint sign_mask) {
    return (uvec2(v.xz) | uvec2(v.yw) << 16) ^ sign_mask;
}

// The 16-bit value of `word` whose flat index in its tensor is `index` (0..65535).
int short_of(uint word, uint index) { return int((word >> ((index & 1u) << 4)) & 0xffffu); }

// 16-bit floats in words.
vec4 unpack_float16(uvec2 words) { return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y)); }
#ifdef NATIVE_16
f16vec4 native_float16(uvec2 words) { return f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y)); }
#endif
float half_of(uint word, uint index) { return unpackHalf2x16(word >> ((index & 1u) << 4)).x; }

// The bits of the nearest 16-bit floats, ties to even. A driver may choose how packHalf2x16 rounds.
uvec4 half_bits(vec4 x) {
    uvec4 bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    uvec4 normal = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    // Below 2^-14 the sum with 1/2 has the bits of the subnormal number at its end.
    uvec4 subnormal = floatBitsToUint(uintBitsToFloat(bits) + 0.5) - 0x3f000000u;
    uvec4 result = mix(normal, subnormal, lessThan(bits, uvec4(0x38800000u)));
    result = mix(result, uvec4(0x7c00u), greaterThanEqual(bits, uvec4(0x47800000u)));
    return sign | mix(result, uvec4(0x7e00u), greaterThan(bits, uvec4(0x7f800000u)));
}

// Numbers beyond the range of 16-bit floats become the largest ones; NaN stays NaN.
vec4 within_float16(vec4 x) {
    bvec4 is_number = lessThan(abs(x), vec4(uintBitsToFloat(0x7f800000u)));
    return mix(x, clamp(x, -65504.0, 65504.0), is_number);
}

uvec2 pack_float16(vec4 v) {
#ifdef NATIVE_16
    return uvec2(packFloat2x16(f16vec2(v.xy)), packFloat2x16(f16vec2(v.zw)));
#else
    uvec4 bits = half_bits(v);
    return bits.xz | bits.yw << 16;
#endif
}

// Four bytes of two's complement: -128..127.
ivec4 unpack_signed_bytes(uint word) {
    return ivec4(int(word << 24) >> 24, int(word << 16) >> 24, int(word << 8) >> 24, int(word) >> 24);
}

// The byte of `word` whose flat index in its tensor is `index` (0..255).
int byte_of(uint word, uint index) {
    return int((word >> ((index & 3u) << 3)) & 0xffu);
}

// The byte at a flat index of a `uint` view (READ_VIEW) in which a tensor begins at word `base`.
#define LOAD_BYTE(words, base, index, sign_mask) byte_of(words##_at((base) + ((index) >> 2)) ^ (sign_mask), (index))

uint join_words(uint low, uint high, uint index) {
    uint shift = (index & 3u) << 3;
    return (low >> shift) | (high << 1 << (31u - shift));
}

// Replace some bits of a word while other invocations replace other bits: each changes only its own bits.
#define REPLACE(word, shift, bits, value)            \
    {                                                \
        uint place = (shift), fresh = (value);       \
        atomicAnd(word, ~((bits) << place));         \
        atomicOr(word, (fresh & (bits)) << place);   \
    }

// gemmlowp's SaturatingRoundingDoublingHighMul for b >= 0 (a quantised multiplier's mantissa is never negative): a * b
// / 2^31, to nearest, ties upwards.
int rounding_doubling_high_mul(int a, int b) {
    int high;
    int low;
    imulExtended(a, b, high, low);
    uint rounded = uint(low) + 0x40000000u;
    high += rounded < 0x40000000u ? 1 : 0;
    return (high << 1) | int(rounded >> 31);
}

// gemmlowp's RoundingDivideByPOT: x / 2^exponent, to nearest, ties away from zero; exponent in 0..31.
int rounding_divide_by_pot(int x, int exponent) {
    int mask = int((1u << exponent) - 1u);
    int threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + ((x & mask) > threshold ? 1 : 0);
}

// x * 2^left. Intermediate results of more than 31 bits exceed every 8-bit range in the end; clamping prevents a
// wrap-around.
int shift_left(int x, int left) {
    int most = 0x7fffffff >> (left + sign(left));
    return clamp(x, -most, most) << left;
}
ivec4 shift_left(ivec4 x, ivec4 left) {
    ivec4 most = ivec4(0x7fffffff) >> (left + sign(left));
    return clamp(x, -most, most) << left;
}

// x * mantissa / 2^31 * 2^shift. A positive shift is to the left.
int multiply_by_quantized_multiplier(int x, int mantissa, int shift) {
    return rounding_divide_by_pot(rounding_doubling_high_mul(shift_left(x, max(shift, 0)), mantissa),
                                  max(-shift, 0));
}

// The same with one rounding, halves up.
ivec4 multiply_once_by_quantized_multiplier(ivec4 x, ivec4 mantissa, ivec4 shift) {
    ivec4 high;
    ivec4 low;
    ivec4 right = max(-shift, ivec4(0));
    imulExtended(shift_left(x, max(shift, ivec4(0))), mantissa, high, low);
    // Half of 2^(31 + right), of which the low word has bits up to right = 1 only.
    uvec4 half_low = mix(uvec4(0u), uvec4(0x40000000u) << min(right, ivec4(1)), lessThan(right, ivec4(2)));
    ivec4 half_high = mix(ivec4(1) << max(right - 2, ivec4(0)), ivec4(0), lessThan(right, ivec4(2)));
    uvec4 rounded = uvec4(low) + half_low;
    high += half_high + ivec4(lessThan(rounded, half_low));
    ivec4 doubled = (high << 1) | ivec4(rounded >> 31);
    return mix(high >> max(right - 1, ivec4(0)), doubled, equal(right, ivec4(0)));
}

ivec4 rounding_doubling_high_mul(ivec4 a, ivec4 b) {
    ivec4 high;
    ivec4 low;
    imulExtended(a, b, high, low);
    uvec4 rounded = uvec4(low) + 0x40000000u;
    high += ivec4(lessThan(rounded, uvec4(0x40000000u)));
    return (high << 1) | ivec4(rounded >> 31);
}

ivec4 rounding_divide_by_pot(ivec4 x, ivec4 exponent) {
    ivec4 mask = ivec4((uvec4(1u) << exponent) - 1u);
    return (x >> exponent) + ivec4(greaterThan(x & mask, (mask >> 1) - (x >> 31)));
}

ivec4 multiply_by_quantized_multiplier(ivec4 x, ivec4 mantissa, ivec4 shift) {
    return rounding_divide_by_pot(rounding_doubling_high_mul(shift_left(x, max(shift, ivec4(0))), mantissa),
                                  max(-shift, ivec4(0)));
}

ivec4 multiply_by_quantized_multiplier(ivec4 x, int mantissa, int shift) {
    return multiply_by_quantized_multiplier(x, ivec4(mantissa), ivec4(shift));
}

// The float nearest to a / b. Vulkan allows a division an error of 2.5 units in the last place, which moves ties. The
// remainder of `a` is exact: the product is computed from halves (Dekker), because fma need not round only once.
vec4 exact_quotient(vec4 a, vec4 b) {
    if (REPRODUCIBLE) return nearest_quotient(a, b);
    vec4 quotient = a / b;
    vec4 q_far = 4097.0 * quotient, b_far = 4097.0 * b;
    vec4 q_high = q_far - (q_far - quotient), b_high = b_far - (b_far - b);
    vec4 q_low = quotient - q_high, b_low = b - b_high;
    vec4 product = quotient * b;
    vec4 error = q_low * b_low - (((product - q_high * b_high) - q_low * b_high) - q_high * b_low);
    vec4 corrected = quotient + (a - product - error) / b;
    return mix(corrected, quotient, is_nan(corrected));
}
vec4 exact_quotient(vec4 a, float b) { return exact_quotient(a, vec4(b)); }
float exact_quotient(float a, float b) { return exact_quotient(vec4(a), vec4(b)).x; }

// Round to nearest, ties away from zero, as std::round. (floor(x + 0.5) is wrong just below a half.)
float round_half_away(float x) {
    float whole = trunc(x);
    return abs(x - whole) >= 0.5 ? whole + sign(x) : whole;
}

vec4 round_half_away(vec4 x) {
    vec4 whole = trunc(x);
    return whole + sign(x) * step(0.5, abs(x - whole));
}

// Convert numbers other than NaN to integers. The conversion of numbers beyond 32 bits is undefined; here they become
// the largest or smallest integer.
ivec4 saturated_int(vec4 x) {
    ivec4 result = ivec4(clamp(x, -2147483648.0, 2147483520.0));
    result = mix(result, ivec4(0x7fffffff), greaterThanEqual(x, vec4(2147483648.0)));
    return mix(result, ivec4(0x80000000), lessThan(x, vec4(-2147483648.0)));
}

#endif
