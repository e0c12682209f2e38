#version 450
// A step of QUANTIZED_16BIT_LSTM: the sums of the gates, four of a unit side by side, then the new cell state and the
// output. A workgroup computes eight units of a batch, an invocation along x one.

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
    uint behind_offset;
    uint weights_offset;
    uint due_offset;
    uint bias_offset;
    uint before_offset;
    uint after_offset;
    uint dst_offset;
    uint length;           // K
    uint split;            // of them from src, the rest from behind
    uint sign_mask;
    int zero;
    int weight_zero;
    uint units;
    int mantissa;
    int shift;
};

#include "include/texels.glsl"
#include "include/byte_sums.glsl"
#include "include/fixed_point.glsl"

// No word of the cell state or the output holds units of two batches.
layout(constant_id = 5) const bool WHOLE_WORDS = false;

READ_VIEW(4, Bias, bias, ivec4)
READ_VIEW(5, Before, before, uint)
layout(set = 0, binding = 6) buffer After { uint after[]; };
layout(set = 0, binding = 7) buffer Dst { uint dst[]; };

const int CELL_BITS = 4;    // integer bits of the cell state

// A unit's new cell state and output, in the unsigned range.
struct Unit {
    int cell;
    int result;
};

int gate(int sum) { return saturate16(scaled(sum, mantissa, shift)); }

Unit next_unit(ivec4 sums, int cell) {
    ivec4 gates = squashed_gates(ivec4(gate(sums.x), gate(sums.y), gate(sums.z), gate(sums.w)));
    cell = saturate16(rescale(multiply(gates.x, gates.z), 0, CELL_BITS) + multiply(gates.y, cell));
    int squashed = squash(rescale(cell, CELL_BITS, GATE_BITS), GATE_BITS, true);
    return Unit(cell + 32768, clamp(rounding_divide_by_pot(multiply(gates.w, squashed), 8), -128, 127) + 128);
}

#ifdef TILE_SUBGROUP
#define OF_LANE(member, lane) subgroupShuffle(unit.member, (lane) % LANES)
#else
shared Unit neighbours[LANES];
#define OF_LANE(member, lane) neighbours[(lane) % LANES].member
#endif

void main() {
    uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * LANES;
    uint number = min(first + lane, units - 1u), at = row * units + number;
    bool computes = gl_LocalInvocationID.y == 0u;
    ivec4 sums = sums_of(row, gl_WorkGroupID.x) + bias_at((bias_offset >> 2) + number);
    Unit unit;
    if (computes) unit = next_unit(sums, (short_of(before_at(before_offset + (at >> 1)) ^ 0x80008000u, at)) - 32768);
    if (WHOLE_WORDS) {
#ifndef TILE_SUBGROUP
        if (computes) neighbours[lane] = unit;
        barrier();
#endif
        uint cells = uint(OF_LANE(cell, 2u * lane) | OF_LANE(cell, 2u * lane + 1u) << 16) ^ 0x80008000u;
        uint results = pack_bytes(ivec4(OF_LANE(result, 4u * lane), OF_LANE(result, 4u * lane + 1u),
                                        OF_LANE(result, 4u * lane + 2u), OF_LANE(result, 4u * lane + 3u)), 0u);
        at = row * units + first;
        if (computes && lane < LANES / 2u && first + 2u * lane < units) after[after_offset + (at >> 1) + lane] = cells;
        if (computes && lane < LANES / 4u && first + 4u * lane < units) dst[dst_offset + (at >> 2) + lane] = results;
    } else if (computes && first + lane < units) {
        REPLACE(after[after_offset + (at >> 1)], (at & 1u) << 4, 0xffffu, uint(unit.cell) ^ 0x8000u)
        REPLACE(dst[dst_offset + (at >> 2)], (at & 3u) << 3, 0xffu, uint(unit.result))
    }
}
