// Elementary functions to within a few units in the last place. The exp and tanh of drivers may have larger errors,
// which Vulkan allows (3 + 2|x| ulp for exp) but NNAPI's tolerances do not.

#ifndef NNVK_MATH_GLSL
#define NNVK_MATH_GLSL

#include "extremes.glsl"
#include "multiply_add.glsl"

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 (Cephes, expf).
float exp_series(float r) {
    float p = 1.9875691500e-4;
    p = multiply_add(p, r, 1.3981999507e-3);
    p = multiply_add(p, r, 8.3334519073e-3);
    p = multiply_add(p, r, 4.1665795894e-2);
    p = multiply_add(p, r, 1.6666665459e-1);
    return multiply_add(p, r, 5.0000001201e-1);
}

// e^r - 1 for |r| <= ln 2 / 2.
float expm1_near_0(float r) { return multiply_add(exp_series(r) * r, r, r); }

// The n and the r with |r| <= ln 2 / 2 of x = n ln 2 + r, for numbers of at most 200.
float reduce_exponent(float x, out float r) {
    float n = floor(x * 1.44269504088896341 + 0.5);
    r = x - n * 0.693359375;
    r = r + n * 2.12194440e-4;
    return n;
}

// e^x 2^scale, for scales from -64 to 64: a polynomial for e^r, and 2^n through the exponent bits.
float scaled_exp(float x, int scale) {
    if (REPRODUCIBLE && x < -87.33654 - float(scale) * 0.693147182) return 0.0;    // a subnormal number
    float r, n = reduce_exponent(clamp(x, -200.0, 130.0), r);
    float p = expm1_near_0(r) + 1.0;
    // 2^n as two factors, because n alone may exceed the exponents of normal numbers.
    int whole = clamp(int(n) + scale, -250, 250);
    int part = whole / 2;
    float scaled = p * uintBitsToFloat(uint(part + 127) << 23) * uintBitsToFloat(uint(whole - part + 127) << 23);
    return is_nan(x) ? x : scaled;
}

float exact_exp(float x) {
#ifdef DTYPE_F16
    if (REPRODUCIBLE) return scaled_exp(x, 0);
    // If the result has 16 bits, the driver's error does not show, except for -infinity and NaN.
    return is_nan(x) ? x : x < -87.0 ? 0.0 : exp(x);
#endif
    return scaled_exp(x, 0);
}

// e^x - 1, also for small results: 2^n (e^r - 1) + 2^n - 1, of which only the sum is rounded.
float exact_expm1(float x) {
    float r, n = reduce_exponent(clamp(x, -30.0, 30.0), r);
    if (abs(n) > 24.0 || is_nan(x)) return scaled_exp(x, 0) - 1.0;
    float power = uintBitsToFloat(uint(int(n) + 127) << 23);
    return power * expm1_near_0(r) + (power - 1.0);
}

// ln x: x = 2^n m with m from sqrt(1/2) to sqrt(2), and a polynomial for ln m (Cephes, logf).
float exact_log(float x) {
    const float INFINITY = uintBitsToFloat(0x7f800000u), NOT_A_NUMBER = uintBitsToFloat(0x7fc00000u);
    bool tiny = x < 1.17549435e-38;
    uint bits = floatBitsToUint(tiny ? x * 16777216.0 : x);
    int n = int(bits >> 23) - (tiny ? 150 : 126);
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f000000u);
    if (m < 0.707106781) {
        m = m + m;
        n -= 1;
    }
    m -= 1.0;
    float p = 7.0376836292e-2;
    p = multiply_add(p, m, -1.1514610310e-1);
    p = multiply_add(p, m, 1.1676998740e-1);
    p = multiply_add(p, m, -1.2420140846e-1);
    p = multiply_add(p, m, 1.4249322787e-1);
    p = multiply_add(p, m, -1.6668057665e-1);
    p = multiply_add(p, m, 2.0000714765e-1);
    p = multiply_add(p, m, -2.4999993993e-1);
    p = multiply_add(p, m, 3.3333331174e-1);
    float square = m * m;
    float result = p * m * square - float(n) * 2.12194440e-4 - 0.5 * square + m + float(n) * 0.693359375;
    if (x == INFINITY) return x;
    if (REPRODUCIBLE && abs(x) < LEAST_NORMAL) return -INFINITY;
    return x > 0.0 ? result : (x == 0.0 ? -INFINITY : NOT_A_NUMBER);
}

// ln(1 + x) for x >= 0, or -1 < x if that is no rounded sum: the logarithm of the rounded sum, and what rounding lost.
float exact_log1p(float x) {
    float sum = 1.0 + x;
    float lost = x - (sum - 1.0);
    return abs(sum) < 1.0e9 ? exact_log(sum) + quotient_of(lost, sum) : exact_log(sum);
}

float exact_tanh(float x) {
    float size = abs(x);
    if (size < 0.625) {
        float square = x * x;
        float p = -5.70498872745e-3;
        p = multiply_add(p, square, 2.06390887954e-2);
        p = multiply_add(p, square, -5.37397155531e-2);
        p = multiply_add(p, square, 1.33314422036e-1);
        p = multiply_add(p, square, -3.33332819422e-1);
        return multiply_add(p * square, x, x);
    }
    float result = 1.0 - quotient_of(2.0, exact_exp(2.0 * size) + 1.0);
    return x < 0.0 ? -result : (is_nan(x) ? x : result);
}

// The tail of the normal distribution beyond t >= 0, times e^(t^2 / 2).
float tail_ratio(float t) {
    float q = quotient_of(t - 3.0, t + 3.0);
    float p = 5.399194607e-5;
    p = multiply_add(p, q, 2.674376462e-5);
    p = multiply_add(p, q, -4.695282988e-4);
    p = multiply_add(p, q, -3.539205438e-4);
    p = multiply_add(p, q, 2.986835639e-3);
    p = multiply_add(p, q, 1.159258080e-3);
    p = multiply_add(p, q, -2.272509998e-2);
    p = multiply_add(p, q, 4.516416989e-2);
    p = multiply_add(p, q, -1.643250978e-2);
    p = multiply_add(p, q, -9.652676842e-2);
    p = multiply_add(p, q, 4.860557974e-1);
    return quotient_of(p, 1.0 + t);
}

float exact_erf(float x) {
    float size = abs(x);
    if (size < 1.0e-18) return x * 1.128379167;
    if (size < 1.0) {
        float square = x * x;
        float p = 7.853850963e-5;
        p = multiply_add(p, square, -8.010190391e-4);
        p = multiply_add(p, square, 5.188327303e-3);
        p = multiply_add(p, square, -2.685381172e-2);
        p = multiply_add(p, square, 1.128358514e-1);
        p = multiply_add(p, square, -3.761262582e-1);
        return multiply_add(multiply_add(p, square, 0.128379167), x, x);
    }
    float result = size > 6.0 ? 1.0 : 1.0 - 2.0 * tail_ratio(size * 1.41421356) * scaled_exp(-size * size, 0);
    return x < 0.0 ? -result : (is_nan(x) ? x : result);
}

const float TAIL_FROM = -40.0;                         // From there on down, weights are computed times 2^64, because a product
const float TAIL_SCALE = 5.42101086242752217e-20;      // with a subnormal number is none. 2^-64

// x times 2^-64. Where results are reproducible, a subnormal one is 0.
float from_tail(float x) {
    if (REPRODUCIBLE && abs(x) < 2.16840434e-19) return uintBitsToFloat(floatBitsToUint(x) & ~MAGNITUDE);
    return x * TAIL_SCALE;
}

// x times 0, for x < 0. Compilers fold such a product, even of infinity.
float vanished(float x) { return uintBitsToFloat(is_infinite(x) ? 0x7fc00000u : 0x80000000u); }

// x times the share of a normal distribution that is below x; at -infinity, the limit of that product.
float gelu(float x) {
    float size = abs(x);
    if (is_nan(x) || size > 20.0) return is_nan(x) || x > 0.0 ? x : -0.0;
    vec2 square = exact_product(size, size);
    bool is_far = 0.5 * square.x > -TAIL_FROM;
    float tail = tail_ratio(size) * scaled_exp(-0.5 * square.x, is_far ? 64 : 0);
    tail -= tail * (0.5 * square.y);
    if (is_far) return x > 0.0 ? x : from_tail(x * tail);
    if (size < 0.5) return without_subnormals(x * (0.5 + 0.5 * exact_erf(x * 0.70710678)));
    return x * (x > 0.0 ? 1.0 - tail : tail);
}

float exact_logistic(float x) {
    float tail = exact_exp(-abs(x));
    return quotient_of(x >= 0.0 ? 1.0 : tail, 1.0 + tail);
}

// x times the logistic function of a number that is the sum of two floats.
float gated(float x, vec2 y) {
    if (is_nan(x) || abs(y.x) > 190.0) return is_nan(x) || y.x > 0.0 ? x : vanished(x);
    float tail = scaled_exp(-abs(y.x), y.x < TAIL_FROM ? 64 : 0);
    tail -= tail * (y.x < 0.0 ? -y.y : y.y);
    if (y.x < TAIL_FROM) return from_tail(x * tail);
    float share = quotient_of(tail, 1.0 + tail);
    float below = tail > 0.25 ? share : tail - tail * share;    // fewer roundings
    return without_subnormals(x * (y.x >= 0.0 ? quotient_of(1.0, 1.0 + tail) : below));
}

// x logistic(alpha x)
float swish(float x, float alpha) {
    float y = alpha * x;
    return gated(x, abs(y) > 1.0e-6 && abs(x) < 1.0e30 ? exact_product(alpha, x) : vec2(y, 0.0));
}

// x / 2 (1 + tanh(y / 2)) is x logistic(y), where y is about x sqrt(8 / pi).
float gelu_by_tanh(float x) {
    if (is_nan(x) || abs(x) > 100.0) return is_nan(x) || x > 0.0 ? x : -0.0;
    vec2 square = exact_product(x, x), cube = exact_product(square.x, 0.044715);
    cube.y += square.y * 0.044715 + square.x * 1.54614449e-9;    // what the float 0.044715 lacks
    float sum = 1.0 + cube.x;
    float rest = (1.0 - (sum - cube.x)) + (cube.x - (sum - (sum - cube.x))) + cube.y;
    vec2 weighted = exact_product(x, sum);
    weighted.y += x * rest;
    vec2 y = exact_product(weighted.x, 1.59576917);
    y.y += weighted.y * 1.59576917 - weighted.x * 4.53406804e-8;
    return gated(x, y);
}

// ln(1 + e^x)
float softplus(float x) { return is_nan(x) ? x : max(x, 0.0) + exact_log1p(scaled_exp(-abs(x), 0)); }

// x tanh(ln(1 + e^x)): with e = e^x the hyperbolic tangent is 1 - 2 / d, and e - e (e e + e) / d, of d = e (e + 2) + 2.
float mish(float x) {
    if (is_nan(x) || abs(x) > 190.0) return is_nan(x) || x > 0.0 ? x : vanished(x);
    float e = scaled_exp(min(x, 20.0), x < TAIL_FROM ? 64 : 0);
    if (x < TAIL_FROM) return from_tail(x * e);
    float d = e * (e + 2.0) + 2.0;
    return without_subnormals(x * (x < 0.0 ? e - e * quotient_of(e * e + e, d) : 1.0 - quotient_of(2.0, d)));
}

// x, or a factor times e^x - 1 where x is negative.
float elu(float x, float factor) {
    return is_nan(x) || x >= 0.0 ? x : smaller(without_subnormals(factor * exact_expm1(x)), 0.0);
}

float hard_swish(float x) { return x >= 3.0 ? x : quotient_of(x * clamp(x + 3.0, 0.0, 6.0), 6.0); }

#endif
