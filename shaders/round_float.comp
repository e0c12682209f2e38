#version 450
// ROUND_FLOAT: the nearest numbers that a floating-point format with fewer bits has, ties to even. Whole numbers do all of
// the work, so that every device gives the same bits. An invocation rounds four elements.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Src, src, uvec4)
layout(set = 0, binding = 1) writeonly buffer Dst { uvec4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s
    uint shift;       // bits that the format's mantissa lacks
    uint first;       // exponent of the format's smallest normal number, as in the bits of a float
    float place;      // value of the last digit below it
    uint largest;     // bits of the largest number
    uint overflow;    // bits of the result for larger ones
};

const uint INFINITY = 0x7f800000u, NOT_A_NUMBER = 0x7fc00000u;

uvec4 halves_to_even(uvec4 numbers, uvec4 by) {
    return (numbers + ((uvec4(1u) << (by - 1u)) - 1u) + ((numbers >> by) & 1u)) >> by;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 bits = src_at(src_offset / 4 + i);
    uvec4 size = bits & 0x7fffffffu, exponent = size >> 23;
    uvec4 normal = halves_to_even(size, uvec4(shift)) << shift;
    uvec4 significand = (size & 0x7fffffu) | (min(exponent, 1u) << 23);
    exponent = max(exponent, 1u);
    uvec4 deeper = min(shift + (first - min(exponent, first)), 26u);
    uvec4 low = floatBitsToUint(vec4(halves_to_even(significand, deeper)) * place);
    uvec4 result = mix(normal, low, lessThan(exponent, uvec4(first)));
    result = mix(result, uvec4(overflow), greaterThan(result, uvec4(largest)));
    result = mix(result, uvec4(NOT_A_NUMBER), greaterThan(size, uvec4(INFINITY)));
    dst[dst_offset / 4 + i] = result | (bits & 0x80000000u);
}
