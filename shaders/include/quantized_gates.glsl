// The gates of QUANTIZED_LSTM, with the four gates of a unit interleaved: from sums of GEMMs to the new cell state and
// the output.
//
// Include this after fixed_point.glsl and the push constants (cell_bits, cell_low, cell_high, mantissa, shift,
// output_zero), and after the declaration of `ivec4 multiplier(uint)`. That function returns the mantissas and the
// shifts of the four gates in turn, for sums of the input, of the state, of the peephole, and of the normalisation.

#ifndef NNVK_QUANTIZED_GATES_GLSL
#define NNVK_QUANTIZED_GATES_GLSL

layout(constant_id = 6) const bool CIFG = false;

ivec4 saturate16(ivec4 x) { return clamp(x, ivec4(INT16_MIN), ivec4(INT16_MAX)); }

// 16-bit numbers plus other numbers times the multipliers of their gates.
ivec4 add_scaled(ivec4 sums, uint row, ivec4 x) {
    ivec4 mantissas = multiplier(2u * row), shifts = multiplier(2u * row + 1u);
    ivec4 added;
    for (uint gate = 0; gate < 4u; gate++) added[gate] = scaled(x[gate], mantissas[gate], shifts[gate]);
    return saturate16(sums + clamp(added, ivec4(-1 << 17), ivec4(1 << 17)));
}

int next_cell(ivec4 gates, int cell) {
    gates = squashed_gates(gates);
    int write = CIFG ? INT16_MAX - gates.y : gates.x;
    int next = rounding_divide_by_pot(gates.y * cell, 15) + rounding_divide_by_pot(write * gates.z, 15 + cell_bits);
    return clamp(saturate16(next), cell_low, cell_high);
}

// a - b, clamped to 32 bits.
int saturating_subtract(int a, int b) {
    int difference = a - b;
    bool leaves = ((a ^ b) & (a ^ difference)) < 0;
    return leaves ? (a < 0 ? INT32_MIN : INT32_MAX) : difference;
}

// The output for a new cell state and the sum of the output gate.
int output_of(int cell, int gate) {
    int hidden = scaled(squash(gate, GATE_BITS, false) * squash(cell, cell_bits, true), mantissa, shift);
    return clamp(saturating_subtract(hidden, output_zero), -128, 127);
}

#endif
