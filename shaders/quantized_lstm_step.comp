#version 450
// A time step of QUANTIZED_LSTM without peepholes and layer normalisation. It adds the sums of the state to those of
// the input, which are already computed, with the four gates of a unit interleaved. Then it computes the new cell state
// and the output before a projection. A workgroup computes eight units of a batch, one per invocation along x.

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
    uint driven_offset;
    uint bias_offset;      // of all units, followed by the multipliers
    uint before_offset;
    uint after_offset;
    uint dst_offset;
    uint length;           // K
    uint sign_mask;
    int zero;
    int weight_zero;
    uint driven_row;       // of the first batch
    uint units;
    int cell_bits;         // integer bits of the cell state
    int cell_low;
    int cell_high;
    int mantissa;          // of the output
    int shift;
    int output_zero;       // subtracted from the output
};

#include "include/texels.glsl"
#include "include/byte_sums.glsl"
#include "include/fixed_point.glsl"
#include "include/lstm_units.glsl"

READ_VIEW(3, Driven, driven, ivec4)

ivec4 multiplier(uint number) { return bias_at((bias_offset >> 2) + units + number); }

#include "include/quantized_gates.glsl"

Unit next_unit(ivec4 products, ivec4 recurrent, int cell) {
    ivec4 sums = add_scaled(add_scaled(ivec4(0), 0u, products), 1u, recurrent);
    cell = next_cell(sums, cell);
    return Unit(cell + 32768, output_of(cell, sums.w) + 128);
}

void main() {
    uint row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * LANES;
    uint number = min(first + gl_LocalInvocationID.x, units - 1u);
    ivec4 recurrent = sums_of(row, gl_WorkGroupID.x);
    // Each line of the workgroup computes the units, because Mesa's compiler for VideoCore does not end if only one does.
    // `give` stores those of the first line.
    ivec4 products = driven_at((driven_offset >> 2) + (driven_row + row) * units + number);
    products += bias_at((bias_offset >> 2) + number);
    Unit unit = next_unit(products, recurrent, cell_before(row * units + number));
    give(unit, row, first, 0x80808080u);
}
