#version 450
// One time step of a recurrent cell for all batches, or for a part of a batch: rows times packed weights, added to the
// contribution of the inputs (`driven`, computed before for all time steps), then
//
//   CELL_RNN   an activation: an RNN, an LSTM's projection, or only the sums of its gates
//   CELL_LSTM  the gates, the new cell state and the output of a cell without layer normalisation
//   CELL_GRU   the new state, in one dispatch if the reset gate scales the product of the state (RESET_AFTER). Otherwise
//              the first dispatch (GATES) gives the update gate, and the state times the reset gate; the second one
//              multiplies that by the candidate's weights, so its columns are units
//
// A workgroup computes a block of 32 columns for ROWS batches. With TILE_SHARED each invocation along x computes four
// columns, so together they read a whole line of weights. Invocations along y divide K among them, and their sums are
// added at the end.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 3) const uint ACTIVATION = 0;
layout(constant_id = 4) const bool ALIGNED = false;          // rows are vec4s of K
layout(constant_id = 5) const bool VECTOR_STORES = false;    // rows of dst are vec4s too
#ifdef CELL_LSTM
layout(constant_id = 6) const bool CIFG = false;
layout(constant_id = 7) const bool PEEPHOLE = false;
#endif
#ifdef CELL_GRU
layout(constant_id = 6) const bool RESET_AFTER = false;
layout(constant_id = 7) const bool GATES = false;
#endif
#if defined(TILE_SUBGROUP)
const uint MAX_ROWS = 16;
layout(constant_id = 8) const uint ROWS = 1;
#elif defined(BATCHES_ONE)
const uint ROWS = 1;
#else
const uint ROWS = 4;    // known to the compiler, because some unroll no other loops
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint driven_offset;
    uint dst_offset;
    uint rows;             // batches
    uint columns;          // of dst: units of an LSTM or a GRU, else sums
    uint length;           // K
    uint src_first;        // in elements, from one batch to the next src_stride
    uint src_stride;
    uint driven_first;     // in vec4s
    uint driven_stride;
    uint dst_first;
    uint dst_stride;
    float low;
    float high;
#ifdef CELL_LSTM
    uint before_offset;
    uint after_offset;
    uint parameters_offset;
    float cell_clip;
#endif
#ifdef CELL_GRU
    uint states_offset;
    uint updates_offset;
    uint states_first;     // in elements, from one batch to the next states_stride
    uint states_stride;
#endif
};

#include "include/texels.glsl"
#include "include/recurrent.glsl"

READ_VIEW(0, Src, src, float)
READ_VIEW(0, Src_Fours, src_vec4s, vec4)
PACKED(1, Weights, weights)
READ_VIEW(2, Driven, driven, vec4)
layout(set = 0, binding = 3) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 3) writeonly buffer Dst_Fours { vec4 dst_vec4s[]; };
#ifdef CELL_LSTM
// The cell state before and after the time step, [batch, unit].
READ_VIEW(4, Before, before, float)
layout(set = 0, binding = 5) writeonly buffer After { float after[]; };
READ_VIEW(6, Parameters, parameters, vec4)
#endif
#ifdef CELL_GRU
// The state before the time step, and the update gates [batch, unit].
READ_VIEW(4, States, states, float)
layout(set = 0, binding = 5) buffer Updates { float updates[]; };

float state_of(uint row, uint unit) { return states_at(states_offset + states_first + row * states_stride + unit); }
#endif

// Four elements of K of a row; elements past the end are zeros.
vec4 load_source(uint row, uint four) {
    uint at = src_offset + src_first + min(row, rows - 1u) * src_stride;
    uint k = 4u * four;
    if (ALIGNED) return k < length ? src_vec4s_at((at + k) >> 2) : vec4(0.0);
    vec4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = k + i < length ? src_at(at + k + i) : 0.0;
    return values;
}

// Finish the sums: add the inputs' contribution, activate, and store.
void finish(uint row, uint quad, vec4 sums) {
    if (row >= rows) return;
#ifdef CELL_LSTM
    if (quad >= columns) return;
    sums += driven_at((driven_offset >> 2) + driven_first + row * driven_stride + quad);
    uint at = row * columns + quad;
    vec4 peeks = PEEPHOLE ? parameters_at((parameters_offset >> 2) + quad) : vec4(0.0);
    Unit unit = next_unit(sums, before_at(before_offset + at), peeks);
    after[after_offset + at] = unit.cell;
    dst[dst_offset + dst_first + row * dst_stride + quad] = unit.result;
#else
#ifdef CELL_GRU
    if (RESET_AFTER || GATES) {
        if (quad >= columns) return;
        if (RESET_AFTER) sums.z = 0.0;    // weights of zero, by which an infinite state is NaN
        sums += driven_at((driven_offset >> 2) + driven_first + row * driven_stride + quad);
        float state = state_of(row, quad);
        if (GATES) updates[updates_offset + row * columns + quad] = exact_logistic(sums.x);
        dst[dst_offset + dst_first + row * dst_stride + quad] =
            GATES ? exact_logistic(sums.y) * state : next_state(sums, state);
        return;
    }
#endif
    uint column = 4u * quad;
    if (column >= columns) return;
    sums += driven_at((driven_offset >> 2) + driven_first + row * driven_stride + quad);
    vec4 result = activation(sums);
#ifdef CELL_GRU
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        uint unit = min(column + i, columns - 1u);
        result[i] = blend(updates[updates_offset + row * columns + unit], result[i], state_of(row, unit));
    }
#endif
    uint at = dst_offset + dst_first + row * dst_stride + column;
    if (VECTOR_STORES) {
        dst_vec4s[at >> 2] = result;
    } else {
        [[unroll]] for (uint i = 0; i < 4u; i++)
            if (column + i < columns) dst[at + i] = result[i];
    }
#endif
}

#ifdef TILE_SUBGROUP

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint block = gl_WorkGroupID.x;
    uint first_row = gl_WorkGroupID.y * ROWS;
    uint vec4s = divide_up(length, 4u);
    vec4 sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = vec4(0.0);
    for (uint chunk = 0; chunk < vec4s; chunk += LANES) {
        // Each lane loads four other elements of K and shares them with all lanes.
        vec4 mine[MAX_ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) mine[r] = load_source(first_row + r, chunk + lane);
        [[unroll]] for (uint from = 0; from < LANES; from++) {
            vec4 rows[4];
            LOAD_WEIGHTS(weights, block, vec4s, min(chunk + from, vec4s - 1u), lane, rows)
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                [[unroll]] for (uint k = 0; k < 4u; k++)
                    sums[r] = multiply_add(subgroupShuffle(mine[r][k], from), rows[k], sums[r]);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) finish(first_row + r, block * LANES + lane, sums[r]);
}

#else

const uint SLICES = 16;    // invocations along y
shared vec4 partial_sums[SLICES][ROWS][LANES];

void main() {
    uint lane = gl_LocalInvocationID.x, slice = gl_LocalInvocationID.y;
    uint block = gl_WorkGroupID.x;
    uint first_row = gl_WorkGroupID.y * ROWS;
    uint vec4s = divide_up(length, 4u);
    vec4 sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = vec4(0.0);
    for (uint four = slice; four < vec4s; four += SLICES) {
        vec4 rows[4];
        LOAD_WEIGHTS(weights, block, vec4s, four, lane, rows)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            vec4 values = load_source(first_row + r, four);
            [[unroll]] for (uint k = 0; k < 4u; k++) sums[r] = multiply_add(values[k], rows[k], sums[r]);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) partial_sums[slice][r][lane] = sums[r];
    barrier();
    if (slice >= ROWS) return;
    vec4 sum = partial_sums[0][slice][lane];
    for (uint other = 1; other < SLICES; other++) sum += partial_sums[other][slice][lane];
    finish(first_row + slice, block * LANES + lane, sum);
}

#endif
