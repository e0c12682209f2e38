#version 450
// FULLY_CONNECTED of few rows: products of a matrix and a vector, limited by the loads of weights. A workgroup computes
// 32 outputs of one row. Each invocation along x computes four outputs, so together they read a whole line of packed
// weights (lowering/gemm/weights.py). Invocations along y divide K among them, and their sums are added at the end.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

const uint QUADS = 8;              // invocations along x: four outputs each
const uint MAX_SLICES = 16;        // invocations along y
const uint BLOCK = QUADS * 4;      // outputs in a block of packed weights

layout(local_size_x_id = 0, local_size_y_id = 1) in;
// A row of floats has a multiple of four outputs.
layout(constant_id = 3) const bool VECTOR_STORES = true;

READS(0, Src, src)
#ifdef WEIGHTS_ARE_BYTES
READ_VIEW(1, Weights, weights, uvec4)
#else
READ_VIEW(1, Weights, weights, WEIGHT4)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
#ifdef DTYPE_Q8
    uint multipliers_offset;
#endif
#ifdef EPILOGUE_FUSED
    uint extra_offset;
#ifndef DTYPE_Q8
    uint parameters_offset;
#endif
#endif
    uint inputs;     // K
    uint src_pitch;    // from a row to the next
    uint out_channels;
    uint pitches;
    ACC low;
    ACC high;
#ifdef ARITHMETIC_INT8
    int weight_zero;
#endif
#ifdef DTYPE_Q8
    uint sign_mask;
    int input_zero;
    int weight_zero;
    int output_zero;
#endif
};

#include "include/filter_output.glsl"
#ifdef WEIGHTS_ARE_BYTES
#include "include/packed_weights.glsl"
#endif

shared ACC4 partial_sums[MAX_SLICES][QUADS];

// Four elements of K; elements past the end are zeros.
ACC4 load_input(uint row, uint k) {
    ACC4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        uint at = row * src_pitch + min(k + i, inputs - 1u);
#ifdef IS_FLOAT
        values[i] = k + i < inputs ? LOAD(src, at) : ACC(0);
#else
        values[i] = k + i < inputs ? LOAD(src, at) - input_zero : ACC(0);
#endif
    }
    return values;
}

void main() {
    uint quad = gl_LocalInvocationID.x;
    uint slice = gl_LocalInvocationID.y;
    uint row = gl_WorkGroupID.x;
    uint vec4s = divide_up(inputs, 4u);
    ACC4 sum = ACC4(0);
    for (uint place = slice; place < vec4s; place += gl_WorkGroupSize.y) {
        ACC4 values = load_input(row, place * 4u);
        uint at = gl_WorkGroupID.y * vec4s + place;
#ifndef WEIGHTS_ARE_BYTES
        uint from = weights_offset / WEIGHT_WORDS + at * 4u * QUADS + quad * 2u;
        [[unroll]] for (uint k = 0; k < 4u; k++)
            sum = multiply_add(values[k], FROM_WEIGHT4(weights_at(from + k / 2u * 2u * QUADS + k % 2u)), sum);
#else
        uvec4 words = packed_weights_at((weights_offset >> 2) + at * QUADS + quad);
        [[unroll]] for (uint k = 0; k < 4u; k++)
            sum = multiply_add(values[k], ACC4(ivec4((words >> (8u * k)) & 0xffu) - weight_zero), sum);
#endif
    }
    partial_sums[slice][quad] = sum;
    barrier();
    if (slice > 0u) return;
    for (uint other = 1; other < gl_WorkGroupSize.y; other++) sum += partial_sums[other][quad];
    Output target = output_of(gl_WorkGroupID.y * BLOCK + quad * 4u);
    store_output(row, target, with_total(sum, TOTAL_FROM(target.bias)));
}
