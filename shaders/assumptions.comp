#version 450
// The assumptions of all shaders about a device and its compiler (docs/shaders.md): an expression of each kind, on
// operands that no compiler knows. nnvk/driver/vulkan/shaders/assumptions.py has the expected results.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/math.glsl"
#include "include/wide.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Src, src, uvec4)    // the bits of four operands
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;
};

ROUNDS(dst)

uint result(uvec4 bits) {
    float a = uintBitsToFloat(bits.x), b = uintBitsToFloat(bits.y), c = uintBitsToFloat(bits.z);
    uint way = bits.w;    // of several expressions of a kind
#if defined(KIND_ORDER)
    return floatBitsToUint((a + b) + c);
#elif defined(KIND_CONTRACTION)
    return floatBitsToUint(way == 0u ? a * b + c : way == 1u ? a * b - c : c - a * b);
#elif defined(KIND_MULTIPLY_ADD)
    return floatBitsToUint(multiply_add(a, b, c));
#elif defined(KIND_SPECIAL)
    uint found = uint(is_nan(a + b)) | uint(is_nan(a * b)) << 1 | uint(is_infinite(a * b)) << 2;
    return found | uint(a < b) << 3 | uint(a == b) << 4 | uint(!(a >= b)) << 5 | uint(!(a == a)) << 6;
#elif defined(KIND_SIGNED_ZERO)
    return floatBitsToUint(way == 0u ? a * b : way == 1u ? a + b : -a);
#elif defined(KIND_SUBNORMAL)
    return floatBitsToUint(a * b);
#elif defined(KIND_QUOTIENT)
    return floatBitsToUint(way == 0u ? a / b : way == 1u ? sqrt(a) : inversesqrt(a));
#elif defined(KIND_NEAREST_QUOTIENT)
    return floatBitsToUint(exact_quotient(a, b));
#elif defined(KIND_EXPONENTIAL)
    return floatBitsToUint(way == 0u ? exact_exp(a) : exact_tanh(a));
#elif defined(KIND_WHOLE)
    float whole = way == 0u ? floor(a) : way == 1u ? ceil(a) : way == 2u ? trunc(a) : round_half_away(a);
    return floatBitsToUint(way == 4u ? roundEven(a) : whole);
#elif defined(KIND_CONVERSION)
    if (way == 0u) return floatBitsToUint(float(int(bits.x)));
    if (way == 1u) return floatBitsToUint(float(bits.x));
    return uint(saturated_int(vec4(a)).x);
#elif defined(KIND_DIVISION)
    if (way == 0u) return bits.x / bits.y;
    if (way == 1u) return bits.x % bits.y;
    return uint(int(bits.x) / int(bits.y));
#elif defined(KIND_SHIFT)
    if (way == 0u) return bits.x << bits.y;
    if (way == 1u) return bits.x >> bits.y;
    if (way == 2u) return uint(int(bits.x) >> bits.y);
    return join_words(bits.x, bits.z, bits.y);
#elif defined(KIND_PRODUCT)
    uint high, low;
    umulExtended(bits.x, bits.y, high, low);
    int signed_high, signed_low;
    imulExtended(int(bits.x), int(bits.y), signed_high, signed_low);
    return way == 0u ? high : way == 1u ? low : way == 2u ? uint(signed_high) : uint(findMSB(bits.x));
#elif defined(KIND_ROUNDS)
    uint sum = 0u;
    for (uint i = 0u; i < bits.x; ++i) sum += i ^ bits.y;
    return sum;
#elif defined(KIND_ROUNDED)
    return floatBitsToUint(ROUNDED(ROUNDED(vec4(a * b)) + c).x);
#elif defined(KIND_PACKED)
    return pack_float16(vec4(a, b, a, b)).x;
#elif defined(KIND_UNPACKED)
    return floatBitsToUint(unpack_float16(uvec2(bits.x)).x);
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    dst[dst_offset + i] = result(src_at(src_offset / 4u + i));
}
