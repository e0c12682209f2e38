#version 450
// SOFTMAX of 16-bit quantised values along any axis, with TensorFlow Lite's bits: exponentials and a reciprocal by
// tables with interpolation (nnvk/ops/interpolated.py). PASS_STATISTICS finds each slice's largest element, the
// reciprocal of its sum, and the shift of products with it; an invocation handles a slice. PASS_APPLY computes four
// consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#define DTYPE_Q16
#include "include/indexing.glsl"
#include "include/slices.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
READ_VIEW(1, Exponentials, exponentials, int)
#ifdef PASS_STATISTICS
READ_VIEW(2, Reciprocals, reciprocals, int)
layout(set = 0, binding = 3) writeonly buffer Statistics { ivec4 statistics[]; };
#else
READ_VIEW(2, Statistics, statistics, ivec4)
WRITES(3, Dst, dst)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint exponentials_offset;
#ifdef PASS_STATISTICS
    uint reciprocals_offset;
    uint statistics_offset;
#else
    uint statistics_offset;
    uint dst_offset;
    uint elements;
    uint magic_inner;
    uint magic_length;
#endif
    uint count;     // of slices, or of vec4s
    uint length;    // of a slice
    uint inner;     // elements from one of a slice to the next
    int mantissa;   // the multiplier of differences
    int shift;
};

// The interpolation between an entry of a table and the next one.
#define INTERPOLATED(table, number)                                                                                      \
    ((table)[table##_offset + uint(256 + ((number) >> 7))] +                                                             \
     ((((table)[table##_offset + uint(257 + ((number) >> 7))] - (table)[table##_offset + uint(256 + ((number) >> 7))]) * \
           ((number) & 127) +                                                                                            \
       64) >>                                                                                                            \
      7))

// The signed value of an element.
int signed_level(uint at) { return (LOAD_WITH(src, at, 0u) << 16) >> 16; }

// exp of a difference that is not above 0.
int power(int difference) {
    int scaled = multiply_by_quantized_multiplier(difference, mantissa, shift);
    int number = clamp(scaled + 32767, -32768, 32767);
    return INTERPOLATED(exponentials, number);
}

#ifdef PASS_STATISTICS

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint start = slice_start(i, length, inner);
    int largest = -32768;
    for (uint k = 0; k < length; ++k) largest = max(largest, signed_level(start + k * inner));
    int sum = 0;
    for (uint k = 0; k < length; ++k) sum += power(signed_level(start + k * inner) - largest);
    int headroom = 31 - findMSB(sum);
    // The sum as a number from 1 to 2, in units of 2^-16.
    int up = headroom - 1;
    int fraction = up >= 14 ? sum << (up - 14) : (sum + (1 << (13 - up))) >> (14 - up);
    int number = clamp(fraction - (1 << 15) - (1 << 16), -32768, 32767);
    statistics[statistics_offset / 4 + i] = ivec4(largest, INTERPOLATED(reciprocals, number), 31 - headroom, 0);
}

#else

int element(uint index, uint slice) {
    ivec4 of = statistics_at(statistics_offset / 4 + slice);
    int product = power(signed_level(index) - of.x) * of.y;    // both have 15 bits
    return clamp((product + (1 << (of.z - 1))) >> of.z, 0, 32767);
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 slices = slices_of_four(i, elements, Slicing(inner, length, uvec2(magic_inner, magic_length)));
    uvec4 at = min(4 * i + uvec4(0, 1, 2, 3), elements - 1);    // the last four may exceed the number of elements
    ivec4 result = ivec4(element(at.x, slices.x), element(at.y, slices.y), element(at.z, slices.z), element(at.w, slices.w));
    STORE4_WITH(dst, i, result, 0u);
}

#endif
