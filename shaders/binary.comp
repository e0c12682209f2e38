#version 450
// Arithmetic on two tensors that broadcast: ADD, SUB, MUL and DIV with a fused activation, and others. An invocation
// computes four consecutive elements of the output. The quantised inputs of MAXIMUM and MINIMUM already have the
// output's scale.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/activation.glsl"
#include "include/broadcast.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"
#include "include/requantise.glsl"
#if defined(KIND_POW)
#include "include/pow.glsl"
#elif defined(KIND_ATAN2)
#include "include/circular.glsl"
#elif defined(KIND_FLOOR_DIV) || defined(KIND_FLOOR_MOD) || defined(KIND_FMOD)
#include "include/remainder.glsl"
#endif

#if defined(KIND_ADD) || defined(KIND_SUB) || defined(KIND_MUL) || defined(KIND_DIV)
#define FUSED
#endif
#if defined(IS_QUANTISED) && !defined(KIND_MAX) && !defined(KIND_MIN)
#define RESCALED
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const bool STRIDED = false;    // the output is columns of a larger tensor

READS(0, Lhs, lhs)
READS(1, Rhs, rhs)
WRITES(2, Dst, dst)

layout(push_constant) uniform Push {
    uint lhs_offset;
    uint rhs_offset;
    uint dst_offset;
    uint count;        // of vec4s
    uint elements;
    uint size_1;       // the output's sizes except the outermost, folded to four dimensions
    uint size_2;
    uint size_3;
    uint magic_1;
    uint magic_2;
    uint magic_3;
    uint lhs_stride_0;
    uint lhs_stride_1;
    uint lhs_stride_2;
    uint lhs_stride_3;
    uint rhs_stride_0;
    uint rhs_stride_1;
    uint rhs_stride_2;
    uint rhs_stride_3;
    uint dst_pitch;    // from a row of size_3 elements to the next, where the output is COLUMNS
#ifdef FUSED
    ACC low;
    ACC high;
#endif
#ifdef IS_QUANTISED
    uint sign_mask;
#endif
#ifdef RESCALED
    int lhs_zero;
    int rhs_zero;
    int dst_zero;
    int lhs_mantissa;    // of ADD and SUB; of PRELU for positive inputs
    int lhs_shift;
    int rhs_mantissa;    // of ADD and SUB
    int rhs_shift;
    int dst_mantissa;    // of PRELU for negative inputs' products with alpha
    int dst_shift;
#endif
};

#ifdef RESCALED

#ifdef DTYPE_Q16
const int FRACTION = 15;
const bool SMALL = false;
#else
const int FRACTION = 20;
// Multipliers are in the range of `multiply_small`, and so are numbers.
layout(constant_id = 7) const bool SMALL = false;
#endif

// The multipliers are built from push constants before the first branch: after it, llvmpipe loads push constants lane
// by lane.
struct Scale {
    int mantissa;
    int shift;
    Multiplier small;
};
Scale lhs_scale, rhs_scale, dst_scale;

Scale scale_of(int mantissa, int shift) {
    Scale scale = Scale(mantissa, shift, Multiplier(ivec4(0), ivec4(0), ivec4(0), ivec4(0)));
    if (SMALL) scale.small = small_multiplier(ivec4(mantissa), ivec4(shift));
    return scale;
}

// x 2^FRACTION by a multiplier, for levels less their zero point.
ivec4 rescaled_level(ivec4 x, Scale by) {
    if (SMALL) return multiply_small_level(x, by.small);
    return multiply_by_quantized_multiplier(x << FRACTION, by.mantissa, by.shift);
}

ivec4 rescaled(ivec4 x, Scale by) {
    if (SMALL) return multiply_small(x, by.small, false);
    return multiply_by_quantized_multiplier(x, by.mantissa, by.shift);
}

// The zero points are already subtracted from the inputs.
ivec4 combine(ivec4 a, ivec4 b) {
#if defined(KIND_MUL)
    return rescaled(a * b, dst_scale);
#elif defined(KIND_PRELU)
    ivec4 positive = rescaled(a, lhs_scale);
    ivec4 negative = rescaled(a * b, dst_scale);
    return mix(positive, negative, lessThan(a, ivec4(0)));
#else
    // Both inputs are first converted to a common scale, with 20 bits of fraction, or 15.
    ivec4 left = rescaled_level(a, lhs_scale);
    ivec4 right = rescaled_level(b, rhs_scale);
#ifdef KIND_SUB
    right = -right;
#endif
    return rescaled(left + right, dst_scale);
#endif
}

#else

#define EACH(function, a, b) \
    vec4(function((a).x, (b).x), function((a).y, (b).y), function((a).z, (b).z), function((a).w, (b).w))

#ifdef KIND_DIV
vec4 quotient(vec4 a, vec4 b) { return quotient_of(a, b); }

// The quotient, rounded down; 0 if the divisor is 0. Divisors of -1 are separate, because -2^31 / -1 is undefined.
ivec4 quotient(ivec4 a, ivec4 b) {
    bvec4 special = lessThan(uvec4(b + 1), uvec4(2u));    // -1 or 0
    ivec4 divisor = mix(b, ivec4(1), special);
    ivec4 towards_zero = a / divisor;
    ivec4 rest = a - towards_zero * divisor;
    ivec4 down = ivec4(notEqual(rest, ivec4(0))) & ivec4(lessThan(rest ^ divisor, ivec4(0)));
    return mix(towards_zero - down, a * b, special);
}
#endif

ACC4 combine(ACC4 a, ACC4 b) {
#if defined(KIND_ADD)
    return a + b;
#elif defined(KIND_SUB)
    return a - b;
#elif defined(KIND_MUL)
    return a * b;
#elif defined(KIND_DIV)
    return quotient(a, b);
#elif defined(KIND_MAX)
    return larger(a, b);
#elif defined(KIND_MIN)
    return smaller(a, b);
#elif defined(KIND_POW)
    return EACH(exact_pow, a, b);
#elif defined(KIND_ATAN2)
    return EACH(exact_atan2, a, b);
#elif defined(KIND_FLOOR_DIV)
    return EACH(floor_quotient, a, b);
#elif defined(KIND_FLOOR_MOD)
    return EACH(floor_remainder, a, b);
#elif defined(KIND_FMOD)
    return EACH(remainder, a, b);
#elif defined(KIND_PRELU)
    return mix(a, a * b, lessThan(a, ACC4(0)));
#endif
}

#endif

ACC4 finish(ACC4 x) {
#ifdef RESCALED
    x += dst_zero;
#endif
#if defined(FUSED)
    return activate(x, low, high);
#elif defined(DTYPE_Q8)
    return clamp(x, 0, 255);
#elif defined(DTYPE_Q16)
    return clamp(x, 0, 65535);
#else
    return x;
#endif
}

void main() {
    uint i = flat_invocation();
#ifdef RESCALED
    lhs_scale = scale_of(lhs_mantissa, lhs_shift);
    rhs_scale = scale_of(rhs_mantissa, rhs_shift);
    dst_scale = scale_of(dst_mantissa, dst_shift);
#endif
    if (i >= count) return;
    ACC4 left, right;
    LOAD_OPERANDS(i, elements - 1, left, right)
    uint to = i;
    if (STRIDED) to += divide(4 * i, size_3, magic_3) * ((dst_pitch - size_3) / 4);
#ifdef RESCALED
    left -= lhs_zero;
    right -= rhs_zero;
#endif
    STORE4(dst, to, finish(combine(left, right)));
}
