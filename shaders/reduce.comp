#version 450
// The REDUCE family: fold the middle one of three dimensions to parts, and at last to a single element. An invocation
// computes four consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool ROWS = false;    // `inner` is a multiple of four: vec4s are folded side by side

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s of the output
    uint elements;    // of the output
    uint size;        // of the dimension
    uint parts;       // the number of parts that it is folded to
    uint part;        // elements that go into one
    uint inner;       // elements inside the dimension
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

const uint BLOCK = 8;

#if defined(KIND_MAX)
#define COMBINE(a, b) larger(a, b)
#elif defined(KIND_MIN)
#define COMBINE(a, b) smaller(a, b)
#elif defined(KIND_PROD)
#define COMBINE(a, b) ((a) * (b))
#else
#define COMBINE(a, b) ((a) + (b))
#endif

ACC load1(uint at) { return LOAD(src, at); }
ACC4 load4(uint at) { return LOAD4(src, at / 4); }

// The fold for an element of the output, or for four neighbours.
#define FOLD(type, load)                                                                                   \
    type fold(uint index, type result) {                                                                   \
        uint row = index / inner;                                                                          \
        uint outer = row / parts;                                                                          \
        uint first = (row - outer * parts) * part;                                                         \
        uint last = min(first + part, size);                                                               \
        uint start = outer * size * inner + (index - row * inner);                                         \
        result = load(start + first * inner);                                                              \
        uint k = first + 1;                                                                                \
        for (uint stop = min(first + BLOCK, last); k < stop; ++k)                                          \
            result = COMBINE(result, load(start + k * inner));                                             \
        while (k < last) {                                                                                 \
            type block = load(start + k * inner); /* sums of sums of few elements lose less than a long one */ \
            uint stop = min(k + BLOCK, last);                                                              \
            for (++k; k < stop; ++k) block = COMBINE(block, load(start + k * inner));                      \
            result = COMBINE(result, block);                                                               \
        }                                                                                                  \
        return result;                                                                                     \
    }

FOLD(ACC, load1)
FOLD(ACC4, load4)

// The last four may exceed the number of elements.
ACC fold1(uint index) { return fold(min(index, elements - 1), ACC(0)); }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 result;
    if (ROWS) result = fold(4 * i, ACC4(0));
    else result = ACC4(fold1(4 * i), fold1(4 * i + 1), fold1(4 * i + 2), fold1(4 * i + 3));
    STORE4(dst, i, result);
}
