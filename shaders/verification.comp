#version 450
// Compares a tensor, word by word, with the result of a second computation of it. The first difference of an execution
// is reported to the host (lowering/verification.py): the number of the comparison, the place of the word, both words.
// Any two NaN are the same.

#extension GL_GOOGLE_include_directive : require

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint FLOAT_BITS = 0;    // the bits of elements that are floats

READ_VIEW(0, Computed, computed, uvec4)
READ_VIEW(1, Again, again, uvec4)
FLAG_AS(2, Flag, flag)
#ifdef ROWS_COUNTED
layout(set = 0, binding = 3) readonly buffer Rows { uint rows[]; };    // how many rows the tensor has
#endif

layout(push_constant) uniform Push {
    uint computed_offset;
    uint again_offset;
    uint flag_offset;
#ifdef ROWS_COUNTED
    uint rows_offset;
    uint most_rows;
#endif
    uint row_bytes;    // the bytes of a row, or of the tensor
    uint number;       // of the comparison
};

// Words with one and the same NaN in place of any.
uvec4 with_one_nan(uvec4 words) {
    if (FLOAT_BITS == 32) return mix(words, uvec4(0x7fc00000u), greaterThan(words & 0x7fffffffu, uvec4(0x7f800000u)));
    words = mix(words, words & 0xffff0000u | 0x7e00u, greaterThan(words & 0x7fffu, uvec4(0x7c00u)));
    return mix(words, words & 0xffffu | 0x7e000000u, greaterThan(words & 0x7fff0000u, uvec4(0x7c000000u)));
}

void main() {
#ifdef ROWS_COUNTED
    uint size = min(rows[rows_offset], most_rows) * row_bytes;
#else
    uint size = row_bytes;
#endif
    uint words = divide_up(size, 4u), count = divide_up(words, 4u), last = words - 1u;
    uint last_bits = ~0u >> 8u * (4u * words - size);
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
        uvec4 left = computed_at(computed_offset / 4u + i), right = again_at(again_offset / 4u + i);
        uvec4 place = i * 4u + uvec4(0u, 1u, 2u, 3u);
        uvec4 bits = mix(uvec4(~0u), uvec4(last_bits), equal(place, uvec4(last)));
        bits = mix(bits, uvec4(0u), greaterThan(place, uvec4(last)));
        uvec4 differing = (left ^ right) & bits;
        if (FLOAT_BITS > 0 && differing != uvec4(0u)) differing = (with_one_nan(left) ^ with_one_nan(right)) & bits;
        if (differing != uvec4(0u)) {
            uint word = differing.x != 0u ? 0u : differing.y != 0u ? 1u : differing.z != 0u ? 2u : 3u;
            if (IS_FIRST(flag)) {
                flag[flag_offset + 1u] = number;
                flag[flag_offset + 2u] = place[word];
                flag[flag_offset + 3u] = left[word];
                flag[flag_offset + 4u] = right[word];
            }
            return;
        }
    }
}
