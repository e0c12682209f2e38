#version 450
// The gates of QUANTIZED_16BIT_LSTM: from the sums of their products, four gates of a unit side by side, to the new cell
// state and the output. An invocation computes four consecutive units of all batches.

#extension GL_GOOGLE_include_directive : require

#include "include/fixed_point.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

const int CELL_BITS = 4;    // integer bits of the cell state

layout(set = 0, binding = 0) readonly buffer Sums { ivec4 sums[]; };
layout(set = 0, binding = 1) readonly buffer Bias { ivec4 bias[]; };
layout(set = 0, binding = 2) readonly buffer Before { uvec2 before[]; };
layout(set = 0, binding = 3) writeonly buffer After { uvec2 after[]; };
layout(set = 0, binding = 4) writeonly buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint sums_offset;
    uint bias_offset;
    uint before_offset;
    uint after_offset;
    uint dst_offset;
    uint count;       // of fours of units
    uint elements;    // units of all batches
    uint units;
    int mantissa;
    int shift;
};

int gate(int sum) { return saturate16(scaled(sum, mantissa, shift)); }

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 cells = unpack_shorts(before[(before_offset >> 1) + i], 0x80008000u) - 32768, results;
    for (uint k = 0; k < 4u; k++) {
        uint at = min(4u * i + k, elements - 1u);    // the last four may be more than there are
        ivec4 gates = sums[(sums_offset >> 2) + at] + bias[(bias_offset >> 2) + at % units];
        gates = squashed_gates(ivec4(gate(gates.x), gate(gates.y), gate(gates.z), gate(gates.w)));
        int cell = saturate16(rescale(multiply(gates.x, gates.z), 0, CELL_BITS) + multiply(gates.y, cells[k]));
        int squashed = squash(rescale(cell, CELL_BITS, GATE_BITS), GATE_BITS, true);
        cells[k] = cell;
        results[k] = clamp(rounding_divide_by_pot(multiply(gates.w, squashed), 8), -128, 127) + 128;
    }
    after[(after_offset >> 1) + i] = pack_shorts(cells + 32768, 0x80008000u);
    dst[dst_offset + i] = pack_bytes(results, 0u);
}
