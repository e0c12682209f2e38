// GEMMs of rows of bytes with packed weights (lowering/gemm/weights.py), with zero points subtracted, for the input and
// the state of a quantised cell. With BEHIND, a row consists of two tensors, one after the other. A workgroup computes
// 32 columns of a row. Each invocation along x computes four of them; invocations along y divide K among them, and
// their sums are added at the end.
//
// TILE_SUBGROUP is for drivers that run a subgroup of eight invocations as one SIMD vector, as gemm.comp describes. A
// workgroup is one subgroup, and the common factor of all lanes goes from lane to lane by shuffles.
//
// Bytes are multiplied as they are, and zero points are applied at the end: sum (a - za) (w - zw) is sum a w - zw sum a
// + due. The term due, n za zw - za sum w, is known for constant weights. Sums wrap around.
//
// This file declares bindings 0 to 2, and 3 with BEHIND. Include it after the size of workgroups and the push constants
// (length, sign_mask, zero, weight_zero, the tensors' offsets, and with BEHIND split, the part of a row in the first
// tensor).

#ifndef NNVK_BYTE_SUMS_GLSL
#define NNVK_BYTE_SUMS_GLSL

#include "byte_dot.glsl"
#include "indexing.glsl"
#include "quant.glsl"
#include "texels.glsl"

layout(constant_id = 3) const bool ALIGNED = false;    // rows of each tensor are whole words
layout(constant_id = 4) const bool DUE = false;        // the zero points' correction is known

READ_VIEW(0, Src, src, uint)
READ_VIEW(1, Weights, weights, uvec4)
READ_VIEW(2, Due, due, ivec4)

const uint LANES = 8;    // invocations along x

#ifdef BEHIND
READ_VIEW(3, Behind, behind, uint)
int load_byte(uint row, uint k) {
    return k < split ? LOAD_BYTE(src, src_offset, row * split + k, sign_mask)
                     : LOAD_BYTE(behind, behind_offset, row * (length - split) + k - split, sign_mask);
}
uint load_word(uint row, uint k) {
    return k < split ? src_at(src_offset + (row * split + k >> 2))
                     : behind_at(behind_offset + (row * (length - split) + k - split >> 2));
}
#else
int load_byte(uint row, uint k) { return LOAD_BYTE(src, src_offset, row * length + k, sign_mask); }
uint load_word(uint row, uint k) { return src_at(src_offset + (row * length + k >> 2)); }
#endif

// Four elements of K. Past the end, the weights equal their zero point.
uint load_levels(uint row, uint four) {
    uint k = 4u * four;
    if (ALIGNED) return load_word(row, k) ^ sign_mask;
    ivec4 levels;
    [[unroll]] for (uint i = 0; i < 4u; i++) levels[i] = load_byte(row, min(k + i, length - 1u));
    return pack_bytes(levels, 0u);
}

// Sums of raw bytes, and the sums that zero points are multiplied by.
struct Raw {
    uvec4 products;
    uint inputs;
    uvec4 weights;    // unless DUE
    uint vec4s;
};

// The sums with zero points subtracted.
ivec4 without_zero_points(Raw raw, uvec4 known) {
    uvec4 owed = DUE ? known : uint(zero) * (raw.vec4s * 4u * uint(weight_zero) - raw.weights);
    return ivec4(raw.products - uint(weight_zero) * raw.inputs + owed);
}

#ifdef TILE_SUBGROUP

// The sums of a row for the four columns of this lane in a block.
ivec4 sums_of(uint row, uint block) {
    uint lane = gl_LocalInvocationID.x, vec4s = divide_up(length, 4u);
    uint first = (weights_offset >> 2) + block * vec4s * LANES + lane;
    uvec4 known = DUE ? uvec4(due_at((due_offset >> 2) + block * LANES + lane)) : uvec4(0u);
    Raw raw = Raw(uvec4(0u), 0u, uvec4(0u), vec4s);
    for (uint chunk = 0; chunk < vec4s; chunk += LANES) {
        // Each lane loads four other elements of K and shares them with all lanes; elements past the end are zeros.
        uint mine = mix(0u, load_levels(row, min(chunk + lane, vec4s - 1u)), chunk + lane < vec4s);
        raw.inputs += dot_of_bytes(mine, ONES);
        [[unroll]] for (uint from = 0; from < LANES; from++) {
            uvec4 words = weights_at(first + min(chunk + from, vec4s - 1u) * LANES);
            raw.products += dots_of_bytes(subgroupShuffle(mine, from), words);
            if (!DUE) raw.weights += dots_of_bytes(mix(0u, ONES, chunk + from < vec4s), words);
        }
    }
    uint inputs = 0u;
    [[unroll]] for (uint from = 0; from < LANES; from++) inputs += subgroupShuffle(raw.inputs, from);
    raw.inputs = inputs;
    return without_zero_points(raw, known);
}

#else

const uint MAX_SLICES = 16;
#define SLICES gl_WorkGroupSize.y

shared ivec4 partial_sums[MAX_SLICES][LANES];

// The sums of a row for the four columns of this invocation in a block. The first invocation along y has the complete
// sums.
ivec4 sums_of(uint row, uint block) {
    uint lane = gl_LocalInvocationID.x, slice = gl_LocalInvocationID.y, vec4s = divide_up(length, 4u);
    uint first = (weights_offset >> 2) + block * vec4s * LANES + lane;
    uvec4 known = DUE && slice == 0u ? uvec4(due_at((due_offset >> 2) + block * LANES + lane)) : uvec4(0u);
    Raw raw = Raw(uvec4(0u), 0u, uvec4(0u), 0u);
    for (uint four = slice; four < vec4s; four += SLICES) {
        uint levels = load_levels(row, four);
        uvec4 words = weights_at(first + four * LANES);
        raw.products += dots_of_bytes(levels, words);
        raw.inputs += dot_of_bytes(levels, ONES);
        if (!DUE) raw.weights += dots_of_bytes(ONES, words);
        raw.vec4s++;
    }
    ivec4 sum = without_zero_points(raw, known);
    if (SLICES == 1u) return sum;
    partial_sums[slice][lane] = sum;
    barrier();
    if (slice == 0u)
        for (uint other = 1; other < SLICES; other++) sum += partial_sums[other][lane];
    return sum;
}

#endif

#endif
