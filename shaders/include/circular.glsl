// Sine, cosine and tangent of any angle, and their inverses, to within 4 units in the last place.

#ifndef NNVK_CIRCULAR_GLSL
#define NNVK_CIRCULAR_GLSL

#include "math.glsl"

const float HALF_PI = 1.57079637, HALF_PI_LOW = -4.37113883e-8, PI = 3.14159274, PI_LOW = -8.74227766e-8;

#define UNDEFINED uintBitsToFloat(0x7fc00000u)

float with_sign(float size, float x) { return uintBitsToFloat(floatBitsToUint(size) | (floatBitsToUint(x) & ~MAGNITUDE)); }

// The quadrant, counted from the x axis, and the angle in it, from -pi/4 to pi/4, as a sum of two floats, of an angle of
// at least 0. It is the angle times 2/pi as an integer product, of which only the bits around the point matter (Payne and
// Hanek).
int reduce_angle(float size, out vec2 angle) {
    angle = vec2(size, 0.0);
    if (size < 0.7853981) return 0;
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
    // pi/2 * 2^-30 times the fraction, each a sum of two floats. Compilers take int(float(n)) for n, so bits divide it.
    int most = (fraction + 32) & ~63;
    float near = float(most), rest = float(fraction - most) + float(low) * 2.3283064365e-10;
    angle = exact_product(near, 1.4629181200e-09);
    angle.y += rest * 1.4629181200e-09 + near * -4.07094043e-17;
    return quadrant;
}

// The sine of an angle, and a number of quadrants more.
float sine(float x, int more) {
    if (is_nan(x) || is_infinite(x)) return UNDEFINED;
    vec2 angle;
    int quadrant = reduce_angle(abs(x), angle);
    // sin(-a) is -sin(a), and cos(-a) is cos(a).
    bool negative = more == 0 && (floatBitsToUint(x) >> 31) != 0u;
    quadrant += more;
    float square = angle.x * angle.x;
    float result;
    if ((quadrant & 1) == 0) {
        float p = multiply_add(multiply_add(-1.9515295891e-4, square, 8.3321608736e-3), square, -1.6666654611e-1);
        result = multiply_add(p * square, angle.x, angle.y) + angle.x;
    } else {
        float p = multiply_add(multiply_add(2.443315711809948e-5, square, -1.388731625493765e-3), square, 4.166664568298827e-2);
        result = (multiply_add(p * square, square, -angle.x * angle.y) - 0.5 * square) + 1.0;
    }
    return (quadrant & 2) != (negative ? 2 : 0) ? -result : result;
}

float exact_sin(float x) { return sine(x, 0); }
float exact_cos(float x) { return sine(x, 1); }

float exact_tan(float x) {
    if (is_nan(x) || is_infinite(x)) return UNDEFINED;
    vec2 angle;
    int quadrant = reduce_angle(abs(x), angle);
    float square = angle.x * angle.x;
    float p = 4.377592144e-3;
    p = multiply_add(p, square, 8.692682559e-5);
    p = multiply_add(p, square, 1.083782180e-2);
    p = multiply_add(p, square, 2.128143210e-2);
    p = multiply_add(p, square, 5.406005884e-2);
    p = multiply_add(p, square, 1.333266212e-1);
    p = multiply_add(p, square, 3.333334979e-1);
    float rest = multiply_add(p * square, angle.x, multiply_add(square, angle.y, angle.y));
    float tangent = angle.x + rest;
    if ((quadrant & 1) != 0) tangent = quotient_of(-1.0, tangent);
    return (floatBitsToUint(x) >> 31) != 0u ? -tangent : tangent;
}

// The arctangent of numbers from 0 to 1.
float atan_to_1(float x) {
    float square = x * x;
    float p = -1.793593847e-3;
    p = multiply_add(p, square, 1.091448081e-2);
    p = multiply_add(p, square, -3.117761265e-2);
    p = multiply_add(p, square, 5.795735917e-2);
    p = multiply_add(p, square, -8.403436629e-2);
    p = multiply_add(p, square, 1.095218109e-1);
    p = multiply_add(p, square, -1.426424079e-1);
    p = multiply_add(p, square, 1.999854820e-1);
    p = multiply_add(p, square, -3.333329909e-1);
    return multiply_add(p * square, x, x);
}

float exact_atan(float x) {
    float size = abs(x);
    if (is_nan(x)) return x;
    float rest = atan_to_1(size > 1.0 ? (size < 1.0e30 ? quotient_of(1.0, size) : 0.0) : size);
    return with_sign(size > 1.0 ? HALF_PI + (HALF_PI_LOW - rest) : rest, x);
}

// The angle of the point (x, y).
float exact_atan2(float y, float x) {
    float up = without_subnormals(abs(y)), right = without_subnormals(abs(x));
    if (is_nan(x) || is_nan(y)) return UNDEFINED;
    float less = min(up, right), more = max(up, right), ratio = 1.0;
    // A division by a very large or small number may be inexact.
    float scale = more > 1.0e19 ? 5.42101086242752217e-20 : more < 1.0e-19 ? 1.8446744073709552e19 : 1.0;
    if (REPRODUCIBLE) scale = 1.0;
    if (more == 0.0 || (is_infinite(more) && less != more)) ratio = 0.0;
    else if (less != more) ratio = quotient_of(less * scale, more * scale);
    float angle = atan_to_1(ratio);
    if (up > right) angle = HALF_PI + (HALF_PI_LOW - angle);
    if ((floatBitsToUint(x) >> 31) != 0u) angle = PI + (PI_LOW - angle);
    return with_sign(angle, y);
}

// The square root to within half a unit in the last place and a little, of a number from 1e-20 to 1e20, or of 0.
float nearest_root(float x) {
    if (REPRODUCIBLE) return nearest_square_root(x);
    float root = sqrt(x);
    vec2 square = exact_product(root, root);
    return x > 0.0 ? root - ((square.x - x) + square.y) / (2.0 * root) : x;
}

// asin(x) / x - 1 for x^2 <= 1/4.
float asin_series(float square) {
    float p = 4.216628628e-2;
    p = multiply_add(p, square, 2.417952637e-2);
    p = multiply_add(p, square, 4.547037406e-2);
    p = multiply_add(p, square, 7.495297651e-2);
    p = multiply_add(p, square, 1.666675248e-1);
    return p * square;
}

// asin(x) is pi/2 - 2 asin(sqrt((1 - x) / 2)).
float exact_asin(float x) {
    float size = abs(x);
    if (size <= 0.5) return multiply_add(asin_series(x * x), x, x);
    if (!(size <= 1.0)) return UNDEFINED;
    float square = 0.5 * (1.0 - size), root = nearest_root(square);
    float twice = 2.0 * root;
    return with_sign(HALF_PI + (HALF_PI_LOW - multiply_add(asin_series(square), twice, twice)), x);
}

float exact_acos(float x) {
    float size = abs(x);
    if (size <= 0.5) return HALF_PI + (HALF_PI_LOW - multiply_add(asin_series(x * x), x, x));
    if (!(size <= 1.0)) return UNDEFINED;
    float square = 0.5 * (1.0 - size), twice = 2.0 * nearest_root(square);
    float angle = multiply_add(asin_series(square), twice, twice);
    return x > 0.0 ? angle : PI + (PI_LOW - angle);
}

#endif
