// Elementary functions to within a few units in the last place. Drivers' own exp and tanh may be as careless as
// Vulkan allows (3 + 2|x| ulp for exp), which NNAPI's tolerances do not.

#ifndef NNVK_MATH_GLSL
#define NNVK_MATH_GLSL

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for e^r (Cephes, expf), and 2^n through the exponent bits.
float exact_exp(float x) {
    const float LOG2E = 1.44269504088896341;
    float bounded = clamp(x, -104.0, 89.0);
    float n = floor(bounded * LOG2E + 0.5);
    precise float r = bounded - n * 0.693359375;
    r = r + n * 2.12194440e-4;
    float p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    p = p * r * r + r + 1.0;
    // 2^n in two factors, because n alone may lie outside the exponents of normal numbers.
    int whole = int(n);
    int part = whole / 2;
    float scaled = p * uintBitsToFloat(uint(part + 127) << 23) * uintBitsToFloat(uint(whole - part + 127) << 23);
    return isnan(x) ? x : scaled;
}

float exact_tanh(float x) {
    float size = abs(x);
    if (size < 0.625) {
        float square = x * x;
        float p = -5.70498872745e-3;
        p = p * square + 2.06390887954e-2;
        p = p * square - 5.37397155531e-2;
        p = p * square + 1.33314422036e-1;
        p = p * square - 3.33332819422e-1;
        return p * square * x + x;
    }
    float result = 1.0 - 2.0 / (exact_exp(2.0 * size) + 1.0);
    return x < 0.0 ? -result : (isnan(x) ? x : result);
}

float exact_logistic(float x) {
    float tail = exact_exp(-abs(x));
    return (x >= 0.0 ? 1.0 : tail) / (1.0 + tail);
}

#endif
