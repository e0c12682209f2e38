// Hyperbolic functions and their inverses, and the cube root, to within 4 units in the last place.

#ifndef NNVK_HYPERBOLIC_GLSL
#define NNVK_HYPERBOLIC_GLSL

#include "circular.glsl"

const float LN2 = 0.693147182;

// e^x / 2 is finite for all numbers whose hyperbolic sine is.
float exact_sinh(float x) {
    float size = abs(x), square = x * x;
    if (size < 1.0) {
        float p = multiply_add(2.816951368e-6, square, 1.983615975e-4);
        p = multiply_add(multiply_add(p, square, 8.333350058e-3), square, 1.666666650e-1);
        return multiply_add(p * square, x, x);
    }
    float up = scaled_exp(size, -1);
    return is_nan(x) ? x : with_sign(up - (up < 1.0e9 ? quotient_of(0.25, up) : 0.0), x);
}

float exact_cosh(float x) {
    float up = scaled_exp(abs(x), -1);
    return is_nan(x) ? x : up + (up < 1.0e9 ? quotient_of(0.25, up) : 0.0);
}

float exact_asinh(float x) {
    float size = abs(x);
    if (is_nan(x) || size < 2.4e-4) return x;
    if (size > 1.0e9) return with_sign(exact_log(size) + LN2, x);
    float square = size * size;
    return with_sign(exact_log1p(size + quotient_of(square, 1.0 + nearest_root(1.0 + square))), x);
}

float exact_acosh(float x) {
    if (!(x >= 1.0)) return UNDEFINED;
    if (x > 1.0e9) return exact_log(x) + LN2;
    float over = x - 1.0;
    return exact_log1p(over + nearest_root(over * (over + 2.0)));
}

// Up to 1/2 a polynomial, beyond that ln((1 + x) / (1 - x)) / 2.
float exact_atanh(float x) {
    float size = abs(x), square = x * x;
    if (size < 0.5) {
        float p = 1.766903677e-1;
        p = multiply_add(p, square, 5.135880171e-2);
        p = multiply_add(p, square, 1.182371617e-1);
        p = multiply_add(p, square, 1.422276355e-1);
        p = multiply_add(p, square, 2.000251823e-1);
        p = multiply_add(p, square, 3.333330007e-1);
        return multiply_add(p * square, x, x);
    }
    if (!(size <= 1.0)) return UNDEFINED;
    if (size == 1.0) return with_sign(uintBitsToFloat(INFINITE), x);
    return with_sign(0.5 * exact_log1p(quotient_of(2.0 * size, 1.0 - size)), x);
}

// The cube root: e^(ln x / 3), and a step of Newton.
float exact_cbrt(float x) {
    float size = abs(x);
    if (is_nan(x) || is_infinite(x)) return x;
    if (size < 1.17549435e-38) return with_sign(0.0, x);
    float scale = size > 1.0e18 ? 1.0 / 4096.0 : size < 1.0e-18 ? 4096.0 : 1.0;
    float scaled = size * (scale * scale * scale);
    float root = exact_exp(exact_log(scaled) * 0.333333333);
    vec2 square = exact_product(root, root), cube = exact_product(square.x, root);
    root -= quotient_of((cube.x - scaled) + (cube.y + square.y * root), 3.0 * square.x);
    return with_sign(quotient_of(root, scale), x);
}

#endif
