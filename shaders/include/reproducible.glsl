// Floats whose bits are the same on every device (docs/reproducible.md). Vulkan rounds additions and multiplications
// correctly. It does not round quotients and roots so: they are corrected here by the exact remainder.

#ifndef NNVK_REPRODUCIBLE_GLSL
#define NNVK_REPRODUCIBLE_GLSL

#include "special_values.glsl"

layout(constant_id = 70) const bool REPRODUCIBLE = false;

const float LEAST_NORMAL = 1.17549435e-38;    // of the normal numbers; subnormal ones count as zero

// a * b without error (Dekker).
vec2 exact_product(float a, float b) {
    float p = a * b;
    float at = a * 4097.0, bt = b * 4097.0;
    float ah = at - (at - a), bh = bt - (bt - b);
    float al = a - ah, bl = b - bh;
    float error = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return vec2(p, error);
}

// a - b c for a product near a.
float remainder_of(float a, float b, float c) {
    vec2 product = exact_product(b, c);
    return (a - product.x) - product.y;
}

float power_of_2(int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

// The float nearest to a / b. Both are scaled to numbers from 1 to 2, so that the quotient has a step of 2^-23 and its
// remainder is exact; a quotient is never in the middle of two floats.
float nearest_quotient(float a, float b) {
    uint top = floatBitsToUint(a) & MAGNITUDE, bottom = floatBitsToUint(b) & MAGNITUDE;
    uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & ~MAGNITUDE;
    int exponent = int(top >> 23) - int(bottom >> 23);
    float n = uintBitsToFloat((top & 0x7fffffu) | 0x3f800000u), d = uintBitsToFloat((bottom & 0x7fffffu) | 0x3f800000u);
    if (n < d) {
        n += n;
        exponent--;
    }
    float q = clamp(n / d, 1.0, 1.99999988);
    q = clamp(q + remainder_of(n, q, d) / d, 1.0, 1.99999988);
    float rest = remainder_of(n, q, d), half_step = 5.9604644775390625e-8 * d;    // 2^-24
    if (rest > half_step) q += 1.1920929e-7;
    else if (rest < -half_step) q -= 1.1920929e-7;
    if (top > INFINITE || bottom > INFINITE) return uintBitsToFloat(0x7fc00000u);
    bool none = top < 0x800000u, by_none = bottom < 0x800000u;
    if (none && by_none || top == INFINITE && bottom == INFINITE) return uintBitsToFloat(0x7fc00000u);
    if (none || bottom == INFINITE || exponent < -126) return uintBitsToFloat(sign);
    if (by_none || top == INFINITE || exponent > 127) return uintBitsToFloat(sign | INFINITE);
    return uintBitsToFloat(sign | uint(exponent + 127) << 23 | (floatBitsToUint(q) & 0x7fffffu));
}

// The float nearest to the square root, likewise: of a number from 1 to 4, whose root has a step of 2^-23.
float nearest_square_root(float x) {
    uint bits = floatBitsToUint(x);
    if ((bits & MAGNITUDE) < 0x800000u) return uintBitsToFloat(bits & ~MAGNITUDE);
    if (bits >= INFINITE) return bits == INFINITE ? x : uintBitsToFloat(0x7fc00000u);
    int exponent = int(bits >> 23) - 127, halved = exponent >> 1;
    float m = uintBitsToFloat((bits & 0x7fffffu) | uint(127 + (exponent & 1)) << 23);
    float root = clamp(sqrt(m), 1.0, 1.99999988);
    root = clamp(root + 0.5 * remainder_of(m, root, root) / root, 1.0, 1.99999988);
    float rest = remainder_of(m, root, root), step = 1.1920929e-7 * root;
    if (rest > step) root += 1.1920929e-7;
    else if (rest <= -step) root -= 1.1920929e-7;
    return root * power_of_2(halved);
}

#define EACH_OF_4(function, a, b) \
    vec4(function(a.x, b.x), function(a.y, b.y), function(a.z, b.z), function(a.w, b.w))
vec4 nearest_quotient(vec4 a, vec4 b) { return EACH_OF_4(nearest_quotient, a, b); }
float quotient_of(float a, float b) { return REPRODUCIBLE ? nearest_quotient(a, b) : a / b; }
vec4 quotient_of(vec4 a, vec4 b) { return REPRODUCIBLE ? nearest_quotient(a, b) : a / b; }
float square_root(float x) { return REPRODUCIBLE ? nearest_square_root(x) : sqrt(x); }
vec4 square_root(vec4 x) {
    return REPRODUCIBLE ? vec4(square_root(x.x), square_root(x.y), square_root(x.z), square_root(x.w)) : sqrt(x);
}
float inverse_square_root(float x) { return REPRODUCIBLE ? nearest_quotient(1.0, nearest_square_root(x)) : inversesqrt(x); }
vec4 inverse_square_root(vec4 x) {
    return REPRODUCIBLE ? nearest_quotient(vec4(1.0), square_root(x)) : inversesqrt(x);
}

// 0 in place of a subnormal number, which not all devices keep.
float without_subnormals(float x) {
    uint bits = floatBitsToUint(x);
    return REPRODUCIBLE && (bits & MAGNITUDE) < 0x800000u ? uintBitsToFloat(bits & ~MAGNITUDE) : x;
}

// 0 in place of -0, so that zeros change nothing that were added before. Compilers fold x + 0.
float without_negative_zero(float x) { return REPRODUCIBLE && floatBitsToUint(x) == ~MAGNITUDE ? 0.0 : x; }
vec4 without_negative_zero(vec4 x) {
    return REPRODUCIBLE ? mix(x, vec4(0.0), equal(floatBitsToUint(x), uvec4(~MAGNITUDE))) : x;
}
int without_negative_zero(int x) { return x; }
ivec4 without_negative_zero(ivec4 x) { return x; }

#endif
