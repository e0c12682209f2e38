#version 450
// BLOCK_QUANTIZED_FULLY_CONNECTED: products with weights of 4 bits, which are unpacked in registers. An invocation
// computes four outputs of ROWS rows. The eight invocations along x read a line of packed weights together
// (kernels/block_quantized.py). Invocations along y divide K of few rows among them, or take further rows.
//
// With TILE_SUBGROUP a workgroup is a subgroup of eight invocations, a SIMD vector of a CPU. Each of them loads other
// inputs, and they come to the others by shuffles, as in gemm/subgroup.glsl.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#include "include/tensors.glsl"
#include "include/indexing.glsl"

const uint QUADS = 8;           // invocations along x: four outputs each
const uint BLOCK = QUADS * 4;   // outputs in a block of packed weights
const uint MAX_SLICES = 16;     // of K
const uint MAX_ROWS = 8;
const uint WORD_LEVELS = 8;     // in a word
const uint WORDS = 4;           // of each output in a round

layout(local_size_x_id = 0, local_size_y_id = 1) in;
// A row of floats has a multiple of four outputs.
layout(constant_id = 3) const bool VECTOR_STORES = true;
layout(constant_id = 4) const uint ROWS = 1;    // of an invocation
// Invocations along y divide K among them.
layout(constant_id = 5) const uint SLICES = 1;
// Words of a block of levels; a constant, because integer division is slow.
layout(constant_id = 6) const uint BLOCK_WORDS = 4;
// The words of a round that have the same scales: 1, 2 or 4.
layout(constant_id = 10) const uint SAME = 4;
layout(constant_id = 7) const bool ZERO_POINTS = false;
// A row of the input is a multiple of four elements; and of all elements of a round.
layout(constant_id = 8) const bool VECTOR_LOADS = true;
layout(constant_id = 9) const bool WHOLE_ROUNDS = false;

READS(0, Src, src)
READ_VIEW(1, Weights, weights, uvec4)
#ifdef EPILOGUE_FUSED
READ_VIEW(6, Scales, scales, vec4)
READ_VIEW(7, Zeros, zeros, uvec4)
#else
READ_VIEW(4, Scales, scales, vec4)
READ_VIEW(5, Zeros, zeros, uvec4)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
    uint scales_offset;
    uint zeros_offset;
#ifdef EPILOGUE_FUSED
    uint extra_offset;
    uint parameters_offset;
#endif
    uint rows;
    uint inputs;         // K
    uint out_channels;
    uint out_blocks;     // of 32 outputs
    uint rounds;         // of 32 levels
    uint blocks;         // of levels in a row
    uint pitches;
    float low;
    float high;
};

#include "include/filter_output.glsl"

#ifndef TILE_SUBGROUP
shared vec4 partial_sums[MAX_SLICES - 1u][MAX_ROWS][QUADS];
#endif

// Four elements of a row from element k on; elements past the end are zeros.
vec4 load_input(uint row, uint k) {
    if (WHOLE_ROUNDS) return LOAD4_WITH(src, (row * inputs + k) >> 2, 0u);
    bvec4 exist = lessThan(uvec4(k) + uvec4(0u, 1u, 2u, 3u), uvec4(inputs));
    vec4 values;
    if (VECTOR_LOADS) {
        values = LOAD4_WITH(src, (row * inputs + min(k, inputs - 4u)) >> 2, 0u);
    } else {
        [[unroll]] for (uint i = 0; i < 4u; i++)
            values[i] = LOAD_WITH(src, row * inputs + min(k + i, inputs - 1u), 0u);
    }
    return mix(vec4(0.0), values, exist);
}

// The levels at a place of four words, less 8. With the highest bits inverted they are signed numbers.
const uint LESS_8 = 0x88888888u;
vec4 levels_at(uvec4 words, uint place) { return vec4(ivec4(words << (28u - 4u * place)) >> 28); }

uint from[MAX_ROWS];    // rows of the input; those past the last one repeat it
vec4 sums[MAX_ROWS];
vec4 scale, zero = vec4(0.0);
#ifdef TILE_SUBGROUP
vec4 loaded[MAX_ROWS];    // four of a round's 32 elements of each row, others in each lane
#endif

// Where this invocation's four outputs begin in what they read.
struct Lines {
    uint weights;
    uint scales;
    uint zeros;
};

// Add the products of word w of a round.
void add_word(Lines lines, uint round, uint w) {
    uint word = round * WORDS + w;
    if (w % SAME == 0u) {
        uint at = min(word / BLOCK_WORDS, blocks - 1u);
        scale = scales_at(lines.scales + at * QUADS);
        if (ZERO_POINTS) zero = levels_at(zeros_at(lines.zeros + at / WORD_LEVELS * QUADS) ^ LESS_8, at % WORD_LEVELS);
    }
    uvec4 words = weights_at(lines.weights + word * QUADS) ^ LESS_8;
    [[unroll]] for (uint half_word = 0; half_word < 2u; half_word++) {
        vec4 weights[4];
        [[unroll]] for (uint k = 0; k < 4u; k++) {
            vec4 level = levels_at(words, half_word * 4u + k);
            weights[k] = (ZERO_POINTS ? level - zero : level) * scale;
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
#ifdef TILE_SUBGROUP
            vec4 values = subgroupShuffle(loaded[r], w * 2u + half_word);
#else
            vec4 values = load_input(from[r], word * WORD_LEVELS + half_word * 4u);
#endif
            [[unroll]] for (uint k = 0; k < 4u; k++) sums[r] = multiply_add(values[k], weights[k], sums[r]);
        }
    }
}

void main() {
    uint quad = gl_LocalInvocationID.x, across = gl_LocalInvocationID.y;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint block = group % out_blocks, first = group / out_blocks * ROWS;
    uint slice = 0u;
    if (SLICES > 1u) slice = across;
    else first = first * gl_WorkGroupSize.y + across * ROWS;
    if (first >= rows && SLICES == 1u) return;
    Output target = output_of(block * BLOCK + quad * 4u);

    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        from[r] = min(first + r, rows - 1u);
        sums[r] = vec4(0.0);
    }
    Lines lines = Lines((weights_offset >> 2) + block * rounds * WORDS * QUADS + quad,
                        (scales_offset >> 2) + block * blocks * QUADS + quad,
                        (zeros_offset >> 2) + block * divide_up(blocks, WORD_LEVELS) * QUADS + quad);
    for (uint round = slice; round < rounds; round += SLICES) {
#ifdef TILE_SUBGROUP
        [[unroll]] for (uint r = 0; r < ROWS; r++) loaded[r] = load_input(from[r], (round * QUADS + quad) * 4u);
        [[unroll]] for (uint w = 0; w < WORDS; w++) add_word(lines, round, w);
#else
        // With few rows, loads of several words at once are worth the longer code.
        if (ROWS <= 2u) {
            [[unroll]] for (uint w = 0; w < WORDS; w++) add_word(lines, round, w);
        } else {
            [[dont_unroll]] for (uint w = 0; w < WORDS; w++) add_word(lines, round, w);
        }
#endif
    }
#ifndef TILE_SUBGROUP
    if (SLICES > 1u) {
        if (slice > 0u) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) partial_sums[slice - 1u][r][quad] = sums[r];
        }
        barrier();
        if (slice > 0u) return;
        for (uint other = 0; other < SLICES - 1u; other++) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] += partial_sums[other][r][quad];
        }
    }
#endif
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint pixel = mix(NO_PIXEL, first + r, first + r < rows);
        store_output(pixel, target, with_total(sums[r], TOTAL_FROM(target.bias)));
    }
}
