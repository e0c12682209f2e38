#version 450
// All time steps of a recurrent cell, or many of them. A workgroup handles one batch, and its invocations share the
// state in shared memory. The shader is for small cells, for which a dispatch per time step would cost more than the
// time step itself.
//
//   CELL_RNN   state = activation(driven + weights * state)
//   CELL_LSTM  with all options of an LSTM
//   CELL_GRU   with the reset gate before the product of the state, or behind it (RESET_AFTER)
//
// `driven` is the contribution of the inputs to the sums, computed before for all time steps. Without RECURRENT it has
// the complete sums of a time step, and the shader only computes layer normalisation and gates. That is for cells with
// weights that are too large to be read here.
//
// Each of QUADS invocations computes four columns (for an LSTM or a GRU: a unit), repeatedly if necessary. With TILE_SHARED,
// SLICES invocations divide K among them.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint QUADS = 8;         // a power of two
layout(constant_id = 4) const uint SLICES = 1;
layout(constant_id = 5) const uint HIDDEN = 1;        // vec4s of the state
layout(constant_id = 6) const uint VECTORS = 2;       // vec4s of the state, twice, and of all that follows
layout(constant_id = 7) const uint ACTIVATION = 0;
layout(constant_id = 8) const bool VECTOR_STORES = false;
#ifdef CELL_LSTM
layout(constant_id = 9) const bool CIFG = false;
layout(constant_id = 10) const bool PEEPHOLE = false;
layout(constant_id = 11) const bool NORM = false;
layout(constant_id = 12) const bool PROJECTION = false;
layout(constant_id = 13) const bool RECURRENT = true;
#else
const bool RECURRENT = true;
#endif
#ifdef CELL_GRU
layout(constant_id = 9) const bool RESET_AFTER = false;
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint driven_offset;
    uint dst_offset;
    uint time_steps;
    uint quads;            // vec4s of columns
    uint length;           // of a row of dst: the state
    uint src_first;        // in elements, from one batch to the next src_stride
    uint src_stride;
    uint driven_first;     // in vec4s, from one time step to the next driven_time_stride
    uint driven_time_stride;
    uint driven_stride;
    uint dst_first;
    uint dst_time_stride;
    uint dst_stride;
    float low;
    float high;
#ifdef CELL_LSTM
    uint before_offset;
    uint after_offset;
    uint parameters_offset;
    uint projection_offset;
    float cell_clip;
    float projection_clip;
#endif
#ifdef CELL_GRU
    uint projection_offset;
#endif
};

#include "include/texels.glsl"
#include "include/recurrent.glsl"

READ_VIEW(0, Src, src, float)
PACKED(1, Weights, weights)
layout(set = 0, binding = 2) buffer Driven { vec4 driven[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 3) writeonly buffer Dst_Fours { vec4 dst_vec4s[]; };
#ifdef CELL_LSTM
// The cell state before the first time step and after the last, [batch, unit].
READ_VIEW(4, Before, before, float)
layout(set = 0, binding = 5) buffer After { float after[]; };
// Four numbers for the gates of each unit: for the peephole, then weights and biases of the layer normalisation, each
// if it exists; then the projection's bias.
READ_VIEW(6, Parameters, parameters, vec4)
PACKED(7, Projection, projection)
#endif
#ifdef CELL_GRU
// The candidate's recurrent weights if the reset gate comes before their product.
PACKED(4, Projection, projection)
#endif

shared vec4 vectors[VECTORS];
shared vec4 partial_sums[QUADS * SLICES];

uint slot;     // of QUADS
uint slice;    // of SLICES

// Define times_<name>(first, vec4s, quad): a slice's part of the product of the `vec4s` vectors from `first` on with
// four columns of weights.
#ifdef TILE_SUBGROUP
#define TIMES(name)                                                                                \
    vec4 times_##name(uint first, uint vec4s, uint quad) {                                         \
        vec4 sum = vec4(0.0);                                                                      \
        for (uint chunk = 0; chunk < vec4s; chunk += LANES) {                                      \
            vec4 mine = chunk + slot < vec4s ? vectors[first + chunk + slot] : vec4(0.0);          \
            [[unroll]] for (uint from = 0; from < LANES; from++) {                                 \
                vec4 rows[4];                                                                      \
                LOAD_WEIGHTS(name, quad / LANES, vec4s, min(chunk + from, vec4s - 1u), slot, rows) \
                [[unroll]] for (uint k = 0; k < 4u; k++)                                           \
                    sum = multiply_add(subgroupShuffle(mine[k], from), rows[k], sum);              \
            }                                                                                      \
        }                                                                                          \
        return sum;                                                                                \
    }
#else
#define TIMES(name)                                                                               \
    vec4 times_##name(uint first, uint vec4s, uint quad) {                                        \
        vec4 sum = vec4(0.0);                                                                     \
        for (uint four = slice; four < vec4s; four += SLICES) {                                   \
            vec4 rows[4], values = vectors[first + four];                                         \
            LOAD_WEIGHTS(name, quad / LANES, vec4s, four, quad % LANES, rows)                     \
            [[unroll]] for (uint k = 0; k < 4u; k++) sum = multiply_add(values[k], rows[k], sum); \
        }                                                                                         \
        return sum;                                                                               \
    }
#endif

TIMES(weights)
#if defined(CELL_LSTM) || defined(CELL_GRU)
TIMES(projection)
#endif

// The sum of the slices' parts, in the first slice.
vec4 sum_of_slices(vec4 part) {
    if (SLICES == 1u) return part;
    partial_sums[slice * QUADS + slot] = part;
    barrier();
    if (slice == 0u)
        for (uint other = 1; other < SLICES; other++) part += partial_sums[other * QUADS + slot];
    barrier();
    return part;
}

// Write four numbers to the next state and the output. The padding of the state stays 0, whatever the sums for it are,
// because 0 * inf is not 0.
void give_four(uint quad, vec4 result, uint next, uint at) {
    uint column = 4u * quad;
    vectors[next + quad] = mix(vec4(0.0), result, lessThan(column + uvec4(0u, 1u, 2u, 3u), uvec4(length)));
    if (VECTOR_STORES) {
        dst_vec4s[(at + column) >> 2] = result;
    } else {
        [[unroll]] for (uint i = 0; i < 4u; i++)
            if (column + i < length) dst[at + column + i] = result[i];
    }
}

#ifdef CELL_LSTM

// The sum over all units of the numbers of the first slice.
vec4 sum_of_units(vec4 part) {
    if (slice == 0u) partial_sums[slot] = part;
    barrier();
    for (uint half_ = QUADS / 2u; half_ > 0u; half_ /= 2u) {
        if (slice == 0u && slot < half_) partial_sums[slot] += partial_sums[slot + half_];
        barrier();
    }
    vec4 sum = partial_sums[0];
    barrier();
    return sum;
}

vec4 parameter(uint section, uint unit) {
    return parameters_at((parameters_offset >> 2) + section * quads + unit);
}

// Sums normalised to mean 0 and variance 1.
vec4 normalised(vec4 sums, vec4 mean, vec4 variance) { return quotient_of(sums - mean, square_root(variance + 1e-8)); }

// Write a unit's result: to the input of the projection, or to the next state and the output.
void give(uint unit, float result, uint next, uint at) {
    if (PROJECTION) {
        vectors[2u * HIDDEN + (unit >> 2)][unit & 3u] = result;
    } else {
        if (RECURRENT) vectors[next + (unit >> 2)][unit & 3u] = result;
        dst[at + unit] = result;
    }
}

// Compute the units of a cell with layer normalisation; their sums are in `driven`. Gates need statistics of all units,
// and the output gate needs the new cell state of its unit.
void normalise_units(uint sums_at, bool is_first, uint cells_at, uint next, uint at) {
    const uint WEIGHTS = PEEPHOLE ? 1u : 0u, BIAS = WEIGHTS + 1u;
    vec4 part = vec4(0.0);
    for (uint unit = slot; slice == 0u && unit < quads; unit += QUADS) {
        vec4 sums = driven[sums_at + unit];
        float cell = is_first ? before_at(before_offset + cells_at + unit) : after[after_offset + cells_at + unit];
        if (PEEPHOLE) {
            sums.xy += parameter(0u, unit).xy * cell;
            driven[sums_at + unit] = sums;
        }
        part += sums;
    }
    vec4 mean = quotient_of(sum_of_units(part), vec4(quads));
    part = vec4(0.0);
    for (uint unit = slot; slice == 0u && unit < quads; unit += QUADS) {
        vec4 centred = driven[sums_at + unit] - mean;
        part += centred * centred;
    }
    vec4 variance = quotient_of(sum_of_units(part), vec4(quads));
    part = vec4(0.0);
    for (uint unit = slot; slice == 0u && unit < quads; unit += QUADS) {
        vec4 sums = driven[sums_at + unit];
        float cell = is_first ? before_at(before_offset + cells_at + unit) : after[after_offset + cells_at + unit];
        vec4 gates = normalised(sums, mean, variance) * parameter(WEIGHTS, unit) + parameter(BIAS, unit);
        float next_ = next_cell(gates, cell);
        after[after_offset + cells_at + unit] = next_;
        if (PEEPHOLE) sums.w += parameter(0u, unit).w * next_;
        driven[sums_at + unit] = PEEPHOLE ? sums : vec4(gates);
        part.w += sums.w;
    }
    if (PEEPHOLE) {
        mean = quotient_of(sum_of_units(part), vec4(quads));
        part = vec4(0.0);
        for (uint unit = slot; slice == 0u && unit < quads; unit += QUADS) {
            float centred = driven[sums_at + unit].w - mean.w;
            part.w += centred * centred;
        }
        variance = quotient_of(sum_of_units(part), vec4(quads));
    }
    for (uint unit = slot; slice == 0u && unit < quads; unit += QUADS) {
        vec4 gates = driven[sums_at + unit];
        if (PEEPHOLE)
            gates = normalised(gates, mean, variance) * parameter(WEIGHTS, unit) + parameter(BIAS, unit);
        give(unit, unit_result(gates.w, after[after_offset + cells_at + unit]), next, at);
    }
}

#endif

#ifdef CELL_GRU
// Vectors without RESET_AFTER: the state times the reset gate, and the update gate.
const uint RESET = 2u * HIDDEN, UPDATE = 3u * HIDDEN;
#endif

void main() {
    uint batch = gl_WorkGroupID.x;
    uint invocation = gl_LocalInvocationID.x;
    slot = invocation % QUADS;
    slice = invocation / QUADS;
    if (RECURRENT) {
        for (uint i = invocation; i < VECTORS; i += QUADS * SLICES) {
            vec4 values = vec4(0.0);
            for (uint k = 0; k < 4u; k++)
                if (4u * i + k < length) values[k] = src_at(src_offset + src_first + batch * src_stride + 4u * i + k);
            vectors[i] = values;
        }
        barrier();
    }
    uint sums_at = (driven_offset >> 2) + driven_first + batch * driven_stride;
    uint at = dst_offset + dst_first + batch * dst_stride;
    uint now = 0u;
    for (uint time_step = 0; time_step < time_steps; time_step++) {
        uint next = HIDDEN - now;
        for (uint first = 0; first < quads; first += QUADS) {
            uint quad = first + slot;
            vec4 sums = vec4(0.0);
            if (RECURRENT) sums = sum_of_slices(times_weights(now, HIDDEN, min(quad, quads - 1u)));
            if (slice == 0u && quad < quads) {
#ifdef CELL_GRU
                if (RESET_AFTER) sums.z = 0.0;    // weights of zero, by which an infinite state is NaN
#endif
                sums += driven[sums_at + quad];
#ifdef CELL_LSTM
                if (NORM) {
                    if (RECURRENT) driven[sums_at + quad] = sums;
                } else {
                    uint cell_at = batch * quads + quad;
                    float cell = time_step == 0u ? before_at(before_offset + cell_at) : after[after_offset + cell_at];
                    vec4 peeks = PEEPHOLE ? parameter(0u, quad) : vec4(0.0);
                    Unit unit = next_unit(sums, cell, peeks);
                    after[after_offset + cell_at] = unit.cell;
                    give(quad, unit.result, next, at);
                }
#elif defined(CELL_GRU)
                float state = vectors[now + (quad >> 2)][quad & 3u];
                if (RESET_AFTER) {
                    float result = next_state(sums, state);
                    vectors[next + (quad >> 2)][quad & 3u] = result;
                    dst[at + quad] = result;
                } else {
                    vectors[RESET + (quad >> 2)][quad & 3u] = exact_logistic(sums.y) * state;
                    vectors[UPDATE + (quad >> 2)][quad & 3u] = exact_logistic(sums.x);
                }
#else
                vec4 result = activation(sums);
                give_four(quad, result, next, at);
#endif
            }
        }
#ifdef CELL_LSTM
        if (NORM) normalise_units(sums_at, time_step == 0u, batch * quads, next, at);
        if (PROJECTION) {
            barrier();
            uint bias_at = (parameters_offset >> 2) + ((PEEPHOLE ? 1u : 0u) + (NORM ? 2u : 0u)) * quads;
            for (uint first = 0; first < HIDDEN; first += QUADS) {
                uint quad = first + slot;
                vec4 sums = times_projection(2u * HIDDEN, VECTORS - 2u * HIDDEN, min(quad, HIDDEN - 1u));
                sums = sum_of_slices(sums);
                if (slice == 0u && quad < HIDDEN) {
                    vec4 result = activate(sums + parameters_at(bias_at + quad), -projection_clip, projection_clip);
                    give_four(quad, result, next, at);
                }
            }
        }
#endif
#ifdef CELL_GRU
        if (!RESET_AFTER) {
            barrier();
            for (uint first = 0; first < HIDDEN; first += QUADS) {
                uint quad = first + slot;
                vec4 sums = sum_of_slices(times_projection(RESET, HIDDEN, min(quad, HIDDEN - 1u)));
                if (slice == 0u && quad < HIDDEN) {
                    vec4 result;
                    [[unroll]] for (uint i = 0; i < 4u; i++) {
                        float candidate = activation(sums[i] + driven[sums_at + min(4u * quad + i, quads - 1u)].z);
                        result[i] = blend(vectors[UPDATE + quad][i], candidate, vectors[now + quad][i]);
                    }
                    give_four(quad, result, next, at);
                }
            }
        }
#endif
        barrier();
        now = next;
        sums_at += driven_time_stride;
        at += dst_time_stride;
    }
}
