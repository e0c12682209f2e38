// The comparison of products of floats with second ones within a bound on rounding errors
// (lowering/gemm/verification/bound.py). Include this after the tensor `flag` and the push constants; these have the
// geometry of the windows, the range of the activation and the number of the comparison.

#ifndef NNVK_BOUND_GLSL
#define NNVK_BOUND_GLSL

#include "special_values.glsl"
#include "windows.glsl"

// The device computes with infinities and NaNs as IEEE 754 says.
layout(constant_id = 11) const bool PRESERVES_SPECIAL = false;
// The biased exponent of the magnitude from which on another order of a sum may overflow: of 1e38, or of less if
// weights are scaled.
layout(constant_id = 14) const uint LARGEST_EXPONENT = 253u;

const uint LARGEST = LARGEST_EXPONENT << 23;
const float UNIT_ROUNDOFF = 5.9604645e-8;
const float SLACK = 1.02;           // for the terms of second order, and for the roundings of the bound itself
#ifdef DTYPE_F16
const float RESULT_ROUNDOFF = 4.8828125e-4;
const float LARGEST_RESULT = 65504.0;
const uint SMALLEST_NORMAL = 0x38800000u;    // devices may take smaller ones as 0
#else
const float RESULT_ROUNDOFF = 0.0;
const float LARGEST_RESULT = 3.4028235e38;
const uint SMALLEST_NORMAL = 0x00800000u;
#endif
const uint QUIET_NAN = 0x7fc00000u;

bvec4 are_finite(vec4 x) { return lessThan(floatBitsToUint(x) & MAGNITUDE, uvec4(INFINITE)); }

// The infinities and NaNs among the terms of a sum, which decide on the sum whatever their order is.
const uint ANY_NAN = 1u;
const uint POSITIVE = 2u;
const uint NEGATIVE = 4u;
const uint UNKNOWN = 8u;    // an infinity times a subnormal number, which may count as 0; inputs of the padding likewise

uvec4 classes_of(vec4 values) {
    uvec4 signed_ = mix(uvec4(POSITIVE), uvec4(NEGATIVE), greaterThan(floatBitsToUint(values), uvec4(MAGNITUDE)));
    return mix(mix(signed_, uvec4(ANY_NAN), is_nan(values)), uvec4(0u), are_finite(values));
}

// The same of products, one of whose factors is not finite.
uvec4 classes_of(vec4 left, vec4 right, bool inside) {
    uvec4 a = floatBitsToUint(left), b = floatBitsToUint(right), signs = a ^ b;
    a &= MAGNITUDE;
    b &= MAGNITUDE;
    uvec4 larger = max(a, b), smaller = min(a, b);
    uvec4 classes = mix(uvec4(POSITIVE), uvec4(NEGATIVE), greaterThan(signs, uvec4(MAGNITUDE)));
    classes = mix(classes, uvec4(UNKNOWN), lessThan(smaller, uvec4(SMALLEST_NORMAL)));
    classes = mix(classes, uvec4(ANY_NAN), equal(smaller, uvec4(0u)));
    classes = mix(classes, uvec4(ANY_NAN), greaterThan(larger, uvec4(INFINITE)));
    classes = mix(uvec4(UNKNOWN), classes, bvec4(inside));
    return mix(classes, uvec4(0u), lessThan(larger, uvec4(INFINITE)));
}

// The terms, as magnitudes, whose factors of 16 bits may count as 0.
vec4 lost_of(vec4 left, vec4 right) {
#ifdef DTYPE_F16
    uvec4 smaller = min(floatBitsToUint(left) & MAGNITUDE, floatBitsToUint(right) & MAGNITUDE);
    return mix(vec4(0.0), abs(left) * abs(right), lessThan(smaller, uvec4(SMALLEST_NORMAL)));
#else
    return vec4(0.0);
#endif
}

// Whether no result of those from an output channel on has to be compared once more: all are finite, and near.
bool are_all_near(bvec4 near, vec4 results, vec4 bounds, uint channel) {
    near = mix(bvec4(false), near, are_finite(results));
    near = mix(bvec4(false), near, are_finite(bounds));
    return all(mix(bvec4(true), near, lessThan(channel + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels))));
}

// How far rounding to the type of results may move sums, at most.
vec4 rounding_of(vec4 sums) { return RESULT_ROUNDOFF > 0.0 ? RESULT_ROUNDOFF * abs(sums) : vec4(0.0); }

// Sums that may be infinite once they are rounded, before another tensor is added.
uvec4 classes_of_rounded(vec4 sums, vec4 bounds) {
    if (RESULT_ROUNDOFF == 0.0) return uvec4(0u);
    return mix(uvec4(0u), uvec4(UNKNOWN), greaterThanEqual(abs(sums) + bounds, vec4(LARGEST_RESULT)));
}

// Whether a result is as far from the sum as the bound allows, or as the class of the sum says; `sum` becomes that.
bool is_right(float result, uint class_, float magnitude, float bound, inout float sum) {
    bool is_known = (floatBitsToUint(magnitude) & MAGNITUDE) < LARGEST;
    if (class_ == 0u) {
        sum = clamp(sum, low, high);
#ifdef DTYPE_F16
        // A sum past the largest number is stored as that or as infinity.
        bound += RESULT_ROUNDOFF * min(abs(sum), LARGEST_RESULT);
        if (is_nan(result)) return false;
        sum = clamp(sum, -LARGEST_RESULT, LARGEST_RESULT);
        return abs(clamp(result, -LARGEST_RESULT, LARGEST_RESULT) - sum) <= bound;
#else
        bool is_finite = (floatBitsToUint(result) & MAGNITUDE) < INFINITE;
        return !is_known || (is_finite && abs(result - sum) <= bound);
#endif
    }
    if (!PRESERVES_SPECIAL || (class_ & UNKNOWN) != 0u) return true;
    if ((class_ & ANY_NAN) != 0u || class_ == (POSITIVE | NEGATIVE)) {
        sum = uintBitsToFloat(QUIET_NAN);
        return is_nan(result);
    }
    sum = class_ == POSITIVE ? high : low;    // an activation ends there
    return !is_known || floatBitsToUint(result) == floatBitsToUint(sum);
}

// Reports the first wrong element of an execution to the host.
void report(uint place, float result, float due) {
    if (IS_FIRST(flag)) {
        flag[flag_offset + 1u] = number;
#ifdef DTYPE_F16
        uvec2 bits = half_bits(vec4(result, due, 0.0, 0.0)).xy << ((place & 1u) << 4);
        flag[flag_offset + 2u] = place >> 1;    // of the word that has the element
        flag[flag_offset + 3u] = bits.x;
        flag[flag_offset + 4u] = bits.y;
#else
        flag[flag_offset + 2u] = place;
        flag[flag_offset + 3u] = floatBitsToUint(result);
        flag[flag_offset + 4u] = floatBitsToUint(due);
#endif
    }
}

#endif
