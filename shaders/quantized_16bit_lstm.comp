#version 450
// A time step of QUANTIZED_16BIT_LSTM: the sums of the gates, with the four gates of a unit interleaved, then the new
// cell state and the output. A workgroup computes eight units of a batch, one per invocation along x.
//
// The input and the state are multiplied together. With INPUT_DRIVEN, the contribution of the input is already
// computed.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef ARITHMETIC_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif

layout(local_size_x_id = 0, local_size_y_id = 1) in;

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint due_offset;
#ifdef INPUT_DRIVEN
    uint driven_offset;
#else
    uint behind_offset;
#endif
    uint bias_offset;
    uint before_offset;
    uint after_offset;
    uint dst_offset;
    uint length;           // K
#ifdef INPUT_DRIVEN
    uint driven_row;       // of the first batch
#else
    uint split;            // elements from src; the others are from behind
#endif
    uint sign_mask;
    int zero;
    int weight_zero;
    uint units;
    int mantissa;
    int shift;
};

#ifndef INPUT_DRIVEN
#define BEHIND
#endif
#include "include/texels.glsl"
#include "include/byte_sums.glsl"
#include "include/fixed_point.glsl"
#include "include/lstm_units.glsl"

#ifdef INPUT_DRIVEN
READ_VIEW(3, Driven, driven, ivec4)
ivec4 products_of(uint row, uint unit) { return driven_at((driven_offset >> 2) + (driven_row + row) * units + unit); }
#else
ivec4 products_of(uint row, uint unit) { return ivec4(0); }
#endif

const int CELL_BITS = 4;    // integer bits of the cell state

int gate(int sum) { return saturate16(scaled(sum, mantissa, shift)); }

Unit next_unit(ivec4 sums, int cell) {
    ivec4 gates = squashed_gates(ivec4(gate(sums.x), gate(sums.y), gate(sums.z), gate(sums.w)));
    cell = saturate16(rescale(multiply(gates.x, gates.z), 0, CELL_BITS) + multiply(gates.y, cell));
    int squashed = squash(rescale(cell, CELL_BITS, GATE_BITS), GATE_BITS, true);
    return Unit(cell + 32768, clamp(rounding_divide_by_pot(multiply(gates.w, squashed), 8), -128, 127) + 128);
}

void main() {
    uint row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * LANES;
    uint number = min(first + gl_LocalInvocationID.x, units - 1u);
    ivec4 sums = sums_of(row, gl_WorkGroupID.x) + products_of(row, number) + bias_at((bias_offset >> 2) + number);
    Unit unit;
    if (gl_LocalInvocationID.y == 0u) unit = next_unit(sums, cell_before(row * units + number));
    give(unit, row, first, 0u);
}
