#version 450
// The REDUCE family: one dimension of three, the middle one, is folded to parts of it, at last to a single one. An
// invocation computes four consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of fours of the output
    uint elements;    // of the output
    uint size;        // of the dimension
    uint parts;       // what becomes of it
    uint part;        // elements that go into one
    uint inner;       // elements inside the dimension
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
};

const uint BLOCK = 8;

ACC combine(ACC a, ACC b) {
#if defined(KIND_MAX)
    return larger(a, b);
#elif defined(KIND_MIN)
    return smaller(a, b);
#elif defined(KIND_PROD)
    return a * b;
#else
    return a + b;
#endif
}

ACC fold(uint index) {
    index = min(index, elements - 1);    // the last four may be more than there are
    uint row = index / inner;
    uint outer = row / parts;
    uint first = (row - outer * parts) * part;
    uint last = min(first + part, size);
    uint start = outer * size * inner + (index - row * inner);
    ACC result = LOAD(src, start + first * inner);
    uint k = first + 1;
    for (uint stop = min(first + BLOCK, last); k < stop; ++k) result = combine(result, LOAD(src, start + k * inner));
    while (k < last) {
        ACC block = LOAD(src, start + k * inner);    // sums of sums of few elements lose less than one long sum
        uint stop = min(k + BLOCK, last);
        for (++k; k < stop; ++k) block = combine(block, LOAD(src, start + k * inner));
        result = combine(result, block);
    }
    return result;
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 result = ACC4(fold(4 * i), fold(4 * i + 1), fold(4 * i + 2), fold(4 * i + 3));
    STORE4(dst, i, result);
}
