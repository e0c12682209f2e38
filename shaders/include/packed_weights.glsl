// Packed weights of 8 bits (lowering/gemm/weights.py). All of them may be within 8 levels of their zero point: then
// each has four bits of memory, and a word of bytes lies in the lower or the upper halves of the bytes of a word.
//
// Included behind Push by shaders that have `weights` as uvec4s.

#ifndef NNVK_PACKED_WEIGHTS_GLSL
#define NNVK_PACKED_WEIGHTS_GLSL

layout(constant_id = 56) const bool FOUR_BITS = false;

READ_VIEW(1, Weights_Pairs, weights_pairs, uvec2)

#ifdef DTYPE_Q16
const int PACKED_ZERO = 128;
#else
#define PACKED_ZERO weight_zero
#endif

// The bytes of four output channels, with four elements of K each, at an index of `weights`.
uvec4 packed_weights_at(uint at) {
    if (!FOUR_BITS) return weights_at(at);
    uvec2 words = weights_pairs_at(at + (weights_offset >> 2));
    return (uvec4(words.x, words.x >> 4, words.y, words.y >> 4) & 0x0f0f0f0fu) + uint(PACKED_ZERO - 8) * 0x01010101u;
}

#endif
