// x^y to within a few units in the last place, and exact if a float can represent it: 12^4 is 20736, which needs an
// error of less than half a unit before the last rounding. An error of the logarithm is multiplied by y, and an error
// of the exponential is the result's error. Both need more bits than a float has, so numbers are sums of two floats,
// the second one small.

#ifndef NNVK_POW_GLSL
#define NNVK_POW_GLSL

#include "math.glsl"

// ln x for a positive finite x.
vec2 precise_log(float x) {
    bool tiny = x < 1.17549435e-38;
    uint bits = floatBitsToUint(tiny ? x * 16777216.0 : x);
    float n = float(int(bits >> 23) - (tiny ? 151 : 127));
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356) {
        m *= 0.5;
        n += 1.0;
    }
    // ln m = 2 artanh t with t = (m - 1) / (m + 1). The low part follows from the rounding error of t.
    float over = m - 1.0, under = m + 1.0;
    float under_low = m - (under - 1.0);
    float t = quotient_of(over, under);
    vec2 back = exact_product(t, under);
    float t_low = quotient_of(((over - back.x) - back.y) - t * under_low, under);
    float square = t * t;
    float series = multiply_add(multiply_add(9.0909091e-2, square, 1.1111111e-1), square, 1.4285714e-1);
    series = multiply_add(multiply_add(series, square, 2.0e-1), square, 3.3333333e-1);
    float low = 2.0 * (t_low + t * square * series);
    // The high part of ln 2 has so few bits that n times it is exact.
    float whole = n * 0.693359375, part = 2.0 * t;
    float high = whole + part;
    float kept = high - whole;
    low = low + ((whole - (high - kept)) + (part - kept)) - n * 2.12194440e-4;
    float sum = high + low;
    float rest = low - (sum - high);
    return vec2(sum, rest);
}

float positive_pow(float x, float y) {
    const float INFINITY = uintBitsToFloat(0x7f800000u);
    if (x == 1.0 || y == 0.0) return 1.0;
    if (REPRODUCIBLE && x < LEAST_NORMAL) x = 0.0;
    if (x == 0.0 || is_infinite(x) || is_infinite(y)) return (x > 1.0) == (y > 0.0) ? INFINITY : 0.0;
    vec2 logarithm = precise_log(x);
    if (abs(logarithm.x * y) > 110.0) return (x > 1.0) == (y > 0.0) ? INFINITY : 0.0;
    vec2 exponent = exact_product(logarithm.x, y);
    float low = exponent.y + logarithm.y * y;
    float n = floor(exponent.x * 1.44269504 + 0.5);
    // The exponent minus n ln 2; the high part is subtracted without error.
    float large = exponent.x - n * 0.693359375, small = n * 2.12194440e-4 + low;
    float r = large + small;
    float of_small = r - large;
    float lost = (large - (r - of_small)) + (small - of_small);
    float sum = 1.0 + r;
    float power = sum + ((r - (sum - 1.0)) + (exp_series(r) * r * r + multiply_add(lost, r, lost)));
    int whole = int(n);
    int part = whole / 2;
    float scaled = uintBitsToFloat(uint(part + 127) << 23) * power;
    if (REPRODUCIBLE && whole < -99 && scaled < power_of_2(part - whole - 126)) return 0.0;    // a subnormal number
    return scaled * uintBitsToFloat(uint(whole - part + 127) << 23);
}

float exact_pow(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (is_nan(x) || is_nan(y)) return uintBitsToFloat(0x7fc00000u);
    float size = positive_pow(abs(x), y);
    if ((floatBitsToUint(x) >> 31) == 0u) return size;
    bool whole = is_infinite(y) || y == trunc(y);
    bool odd = abs(y) < 16777216.0 && abs(y - 2.0 * trunc(0.5 * y)) == 1.0;
    if (!whole && x < 0.0 && !is_infinite(x)) return uintBitsToFloat(0x7fc00000u);
    return odd ? -size : size;
}

#endif
