// Common code of the shaders of recurrent cells: products of a row with packed weights, and the cell's output for the
// sums. All numbers are 32-bit floats.
//
// Weights are packed like filters (lowering/gemm/weights.py): in blocks of 32 columns, with eight lanes of four columns
// each. For an LSTM, the four columns of a lane are the gates of one unit: input, forget, cell, output. With CIFG the
// first gate is not used. For a GRU, they are the update gate, the reset gate, and the parts of the candidate that come
// from the input and from the state.
//
// TILE_SUBGROUP is for drivers that run a subgroup of eight invocations as one SIMD vector, as gemm.comp describes. A
// workgroup is one subgroup, and the common factor of all lanes goes from lane to lane by shuffles.
//
// Include this after the push constants (low, high; cell_clip of an LSTM) and specialisation constants (ACTIVATION;
// CIFG and PEEPHOLE).

#ifndef NNVK_RECURRENT_GLSL
#define NNVK_RECURRENT_GLSL

#include "activations.glsl"
#include "indexing.glsl"
#include "multiply_add.glsl"

const uint LANES = 8u;      // of a block of packed weights, four columns each

#define PACKED(BINDING, Block, name) READ_VIEW(BINDING, Block, name, vec4)

// The weights of four elements of K for the four columns of a lane.
#define LOAD_WEIGHTS(name, block, vec4s, four, lane, rows)                                             \
    {                                                                                                  \
        uint place = (name##_offset >> 2) + (((block) * (vec4s) + (four)) * 2u * LANES + (lane)) * 2u; \
        rows = vec4[](name##_at(place), name##_at(place + 1u), name##_at(place + 2u * LANES),          \
                       name##_at(place + 2u * LANES + 1u));                                            \
    }

#ifdef CELL_LSTM

// The results of a time step for a unit: its cell state, and its output before a projection.
struct Unit {
    float cell;
    float result;
};

// The new cell state from the complete sums of the gates.
float next_cell(vec4 sums, float cell) {
    float forget = exact_logistic(sums.y);
    float write = CIFG ? 1.0 - forget : exact_logistic(sums.x);
    return activate(forget * cell + write * activation(sums.z), -cell_clip, cell_clip);
}

float unit_result(float output_sum, float cell) { return exact_logistic(output_sum) * activation(cell); }

// A unit of a cell without layer normalisation. `peephole` has zeros if there is none.
Unit next_unit(vec4 sums, float cell, vec4 peephole) {
    if (PEEPHOLE) sums += vec4(peephole.xy * cell, 0.0, 0.0);
    float next = next_cell(sums, cell);
    if (PEEPHOLE) sums.w += peephole.w * next;
    return Unit(next, unit_result(sums.w, next));
}

#endif

#ifdef CELL_GRU

// The next state of a unit.
float blend(float update, float candidate, float state) { return (1.0 - update) * candidate + update * state; }

// The next state of a unit whose reset gate scales the product of the state, which is in `sums.w`. There the product of
// an infinite input and a weight of zero may be NaN, which does not matter beside its share of the candidate.
float next_state(vec4 sums, float state) {
    float candidate = is_infinite(sums.z) ? sums.z : sums.z + exact_logistic(sums.y) * sums.w;
    return blend(exact_logistic(sums.x), activation(candidate), state);
}

#endif

#endif
