// Elementary functions to within a few units in the last place. The exp and tanh of drivers may have larger errors,
// which Vulkan allows (3 + 2|x| ulp for exp) but NNAPI's tolerances do not.

#ifndef NNVK_MATH_GLSL
#define NNVK_MATH_GLSL

#include "special_values.glsl"

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 (Cephes, expf).
float exp_series(float r) {
    float p = 1.9875691500e-4;
    p = fma(p, r, 1.3981999507e-3);
    p = fma(p, r, 8.3334519073e-3);
    p = fma(p, r, 4.1665795894e-2);
    p = fma(p, r, 1.6666665459e-1);
    return fma(p, r, 5.0000001201e-1);
}

// e^r - 1 for |r| <= ln 2 / 2.
float expm1_near_0(float r) { return fma(exp_series(r) * r, r, r); }

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r, and 2^n through the exponent bits.
float exact_exp(float x) {
#ifdef DTYPE_F16
    // If the result has 16 bits, the driver's error does not show, except for -infinity and NaN.
    return is_nan(x) ? x : x < -87.0 ? 0.0 : exp(x);
#endif
    const float LOG2E = 1.44269504088896341;
    float bounded = clamp(x, -104.0, 89.0);
    float n = floor(bounded * LOG2E + 0.5);
    float r = bounded - n * 0.693359375;
    r = r + n * 2.12194440e-4;
    float p = expm1_near_0(r) + 1.0;
    // 2^n as two factors, because n alone may exceed the exponents of normal numbers.
    int whole = int(n);
    int part = whole / 2;
    float scaled = p * uintBitsToFloat(uint(part + 127) << 23) * uintBitsToFloat(uint(whole - part + 127) << 23);
    return is_nan(x) ? x : scaled;
}

// e^x - 1, also for small results.
float exact_expm1(float x) { return abs(x) < 0.34 ? expm1_near_0(x) : exact_exp(x) - 1.0; }

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
    p = fma(p, m, -1.1514610310e-1);
    p = fma(p, m, 1.1676998740e-1);
    p = fma(p, m, -1.2420140846e-1);
    p = fma(p, m, 1.4249322787e-1);
    p = fma(p, m, -1.6668057665e-1);
    p = fma(p, m, 2.0000714765e-1);
    p = fma(p, m, -2.4999993993e-1);
    p = fma(p, m, 3.3333331174e-1);
    float square = m * m;
    float result = p * m * square - float(n) * 2.12194440e-4 - 0.5 * square + m + float(n) * 0.693359375;
    if (x == INFINITY) return x;
    return x > 0.0 ? result : (x == 0.0 ? -INFINITY : NOT_A_NUMBER);
}

float exact_tanh(float x) {
    float size = abs(x);
    if (size < 0.625) {
        float square = x * x;
        float p = -5.70498872745e-3;
        p = fma(p, square, 2.06390887954e-2);
        p = fma(p, square, -5.37397155531e-2);
        p = fma(p, square, 1.33314422036e-1);
        p = fma(p, square, -3.33332819422e-1);
        return fma(p * square, x, x);
    }
    float result = 1.0 - 2.0 / (exact_exp(2.0 * size) + 1.0);
    return x < 0.0 ? -result : (is_nan(x) ? x : result);
}

// 1 - erf(z) for z >= 0: a polynomial of 1 / (1 + p z) times exp(-z^2), within 1.5e-7 (Abramowitz and Stegun, 7.1.26).
float erfc_of_magnitude(float z) {
    float t = 1.0 / (1.0 + 0.3275911 * z);
    float p = 1.061405429;
    p = fma(p, t, -1.453152027);
    p = fma(p, t, 1.421413741);
    p = fma(p, t, -0.284496736);
    p = fma(p, t, 0.254829592);
    return p * t * exact_exp(-z * z);
}

// The error is at most 1e-6, and relative to the size near 0.
float exact_erf(float x) {
    float size = abs(x);
    if (size < 0.5) {
        float square = x * x;
        float p = -8.548327e-4;
        p = fma(p, square, 5.223978e-3);
        p = fma(p, square, -2.686617e-2);
        p = fma(p, square, 1.128379e-1);
        p = fma(p, square, -3.761264e-1);
        return x * fma(p, square, 1.128379167);
    }
    float result = 1.0 - erfc_of_magnitude(size);
    return x < 0.0 ? -result : (is_nan(x) ? x : result);
}

// max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, which is exact where 1 + erf would be near 0. Beyond 100 the last term is 0,
// and squares are still finite.
float gelu(float x) {
    float size = min(abs(x), 100.0);
    float lost = 0.5 * size * erfc_of_magnitude(size * 0.70710678);
    return is_nan(x) ? x : max(x, 0.0) - lost;
}

float exact_logistic(float x) {
    float tail = exact_exp(-abs(x));
    return (x >= 0.0 ? 1.0 : tail) / (1.0 + tail);
}

// x / 2 (1 + tanh(y)) is x logistic(2 y), where y is about x sqrt(2 / pi). Beyond 100 cubes overflow.
float gelu_by_tanh(float x) {
    float size = clamp(x, -100.0, 100.0);
    float y = 0.7978845608 * (size + 0.044715 * size * size * size);
    return is_nan(x) ? x : (x < -100.0 ? 0.0 : x * exact_logistic(2.0 * y));
}

// The quadrant, counted from the x axis, and the angle in it, from -pi/4 to pi/4, of an angle of at least pi/4. It is
// the angle times 2/pi as an integer product, of which only the bits around the point matter (Payne and Hanek).
int reduce_angle(float size, out float angle) {
    uint bits = floatBitsToUint(size);
    uint exponent = (bits >> 23) - 126u, mantissa = (bits << 8) | 0x80000000u;
    uint first = exponent >> 5, shift = exponent & 31u;
    // Four words of 2/pi, from `first` on. They are selected one by one, because indexed arrays are slow.
    uvec4 words = uvec4(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u);
    words = mix(words, uvec4(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u), bvec4(first == 1u));
    words = mix(words, uvec4(0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u), bvec4(first == 2u));
    words = mix(words, uvec4(0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u), bvec4(first == 3u));
    words = mix(words, uvec4(0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x4f10e410u), bvec4(first == 4u));
    uvec3 part = words.xyz;
    if (shift != 0u) part = (part << shift) | (words.yzw >> (32u - shift));
    uint high, low, lowest, carry;
    umulExtended(mantissa, part.z, lowest, low);
    umulExtended(mantissa, part.y, high, low);
    low = uaddCarry(low, lowest, carry);
    high += carry + mantissa * part.x;
    // Two bits of quadrant, then its fraction as a signed number: past a half it belongs to the next quadrant.
    int quadrant = int(high >> 30) + int((high >> 29) & 1u);
    int fraction = int(high << 2) >> 2;
    angle = (float(fraction) + float(low) * 2.3283064365e-10) * 1.4629180793e-9;    // 2^-32; pi/2 * 2^-30
    return quadrant;
}

float exact_sin(float x) {
    float size = abs(x), angle = size;
    if (is_nan(x) || is_infinite(x)) return uintBitsToFloat(0x7fc00000u);
    int quadrant = size < 0.7853981 ? 0 : reduce_angle(size, angle);
    float square = angle * angle;
    float result;
    if ((quadrant & 1) == 0) {
        float p = fma(fma(-1.9515295891e-4, square, 8.3321608736e-3), square, -1.6666654611e-1);
        result = fma(p * square, angle, angle);
    } else {
        float p = fma(fma(2.443315711809948e-5, square, -1.388731625493765e-3), square, 4.166664568298827e-2);
        result = fma(p * square, square, -0.5 * square) + 1.0;
    }
    return (quadrant & 2) != (x < 0.0 ? 2 : 0) ? -result : result;
}

float hard_swish(float x) { return x * clamp(x + 3.0, 0.0, 6.0) / 6.0; }

#endif
