#version 450
// The gates of a QUANTIZED_LSTM with peepholes or layer normalisation. The inputs are the sums of the GEMMs, with the
// four gates of a unit interleaved; the results are the new cell state and the output before a projection. A workgroup
// handles a batch, because layer normalisation needs all its units.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/fixed_point.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint LOCAL = 64;    // a power of two
layout(constant_id = 4) const bool PEEPHOLE = false;
layout(constant_id = 5) const bool NORM = false;

// Sums of the input's GEMM, then intermediate values of a unit between two loops; and sums of the state's GEMM.
layout(set = 0, binding = 0) buffer Driven { ivec4 driven[]; };
READ_VIEW(1, Recurrent, recurrent, ivec4)
READ_VIEW(2, Bias, bias, ivec4)
// 16-bit parameters for the gates of each unit: for the peephole, then for the layer normalisation, each if it exists.
READ_VIEW(3, Parameters, parameters, uvec2)
READ_VIEW(4, Multipliers, multipliers, ivec4)
READ_VIEW(5, Before, before, uint)
layout(set = 0, binding = 6) buffer After { uint after[]; };
layout(set = 0, binding = 7) buffer Dst { uint dst[]; };

layout(push_constant) uniform Push {
    uint driven_offset;
    uint recurrent_offset;
    uint bias_offset;
    uint parameters_offset;
    uint multipliers_offset;
    uint before_offset;
    uint after_offset;
    uint dst_offset;
    uint units;
    int cell_bits;      // integer bits of the cell state
    int cell_low;
    int cell_high;
    int mantissa;       // of the output
    int shift;
    int output_zero;    // subtracted from the output
};

shared ivec4 partial_sums[LOCAL];
shared uvec4 partial_low[LOCAL];
shared uvec4 partial_high[LOCAL];

uint invocation;

ivec4 parameter(uint section, uint unit) {
    return unpack_shorts(parameters_at((parameters_offset >> 1) + section * units + unit), 0x80008000u) - 32768;
}

ivec4 multiplier(uint number) { return multipliers_at((multipliers_offset >> 2) + number); }

#include "include/quantized_gates.glsl"

// The sums of the gates of a unit, without the output gate's peephole.
ivec4 sums_of(uint at, uint unit, int cell) {
    ivec4 products = driven[(driven_offset >> 2) + at];
    if (!NORM) products += bias_at((bias_offset >> 2) + unit);
    ivec4 sums = add_scaled(ivec4(0), 0u, products);
    sums = add_scaled(sums, 1u, recurrent_at((recurrent_offset >> 2) + at));
    return PEEPHOLE ? add_scaled(sums, 2u, parameter(0u, unit) * ivec4(cell, cell, 0, 0)) : sums;
}

// The output gate's sum, with its peephole.
int output_sum(int sum, uint unit, int cell) {
    return PEEPHOLE ? add_scaled(ivec4(0, 0, 0, sum), 2u, parameter(0u, unit) * ivec4(0, 0, 0, cell)).w : sum;
}

// --- layer normalisation -----------------------------------------------------------------------------------------

// The mean over all units, with 10 bits of fraction, and the multiplier of the differences from the mean.
struct Moments {
    ivec4 mean;
    ivec4 mantissa;
    ivec4 shift;
};

// a / b, rounded towards zero.
int divide(int a, int b) { return a < 0 ? -(-a / b) : a / b; }

// The moments from sums of numbers and 64-bit sums of their squares.
Moments moments_of(ivec4 sums, uvec4 low, uvec4 high) {
    Moments moments;
    int size = int(units);
    for (int gate = 0; gate < 4; gate++) {
        int whole = divide(sums[gate], size);
        int mean = whole * 1024 + divide((sums[gate] - whole * size) * 1024, size);
        // The mean of the squares minus the square of the mean, with 20 bits of fraction.
        uint squares_high, squares_low, square_high, square_low, borrow;
        umulExtended(low[gate], (1u << 20) / units, squares_high, squares_low);
        squares_high += high[gate] * ((1u << 20) / units);
        umulExtended(uint(abs(mean)), uint(abs(mean)), square_high, square_low);
        uint variance_low = usubBorrow(squares_low, square_low, borrow);
        int variance_high = int(squares_high - square_high - borrow);
        int variance = variance_high < 0 ? 0 : (variance_high << 12) | int(variance_low >> 20);
        int mantissa_, shift_;
        inverse_square_root(variance, mantissa_, shift_);
        moments.mean[gate] = mean;
        moments.mantissa[gate] = mantissa_;
        moments.shift[gate] = shift_;
    }
    return moments;
}

// The moments of all units, from the sums of each invocation.
Moments moments_of_all(ivec4 sums, uvec4 low, uvec4 high) {
    partial_sums[invocation] = sums;
    partial_low[invocation] = low;
    partial_high[invocation] = high;
    barrier();
    for (uint half_ = LOCAL / 2u; half_ > 0u; half_ /= 2u) {
        if (invocation < half_) {
            uvec4 carry;
            partial_sums[invocation] += partial_sums[invocation + half_];
            partial_low[invocation] = uaddCarry(partial_low[invocation], partial_low[invocation + half_], carry);
            partial_high[invocation] += partial_high[invocation + half_] + carry;
        }
        barrier();
    }
    Moments moments = moments_of(partial_sums[0], partial_low[0], partial_high[0]);
    barrier();
    return moments;
}

// (x * weight + bias) / 1024, half away from zero, clamped to 32 bits.
int weigh(int x, int weight, int bias_) {
    int high, low_;
    imulExtended(x, weight, high, low_);
    uint carry;
    uint low = uaddCarry(uint(low_), uint(bias_), carry);
    high += (bias_ >> 31) + int(carry);
    bool negative = high < 0;
    if (negative) {
        low = ~low + 1u;
        high = ~high + (low == 0u ? 1 : 0);
    }
    low = uaddCarry(low, 512u, carry);
    high += int(carry);
    int result = high >= 512 ? INT32_MAX : (high << 22) | int(low >> 10);
    return negative ? -result : result;
}

// The normalised sum of a unit's gate.
int normalised(int sum, uint gate, Moments moments, uint unit) {
    int centred = scaled(1024 * sum - moments.mean[gate], moments.mantissa[gate], moments.shift[gate]);
    int weight = parameter(PEEPHOLE ? 1u : 0u, unit)[gate];
    int reduced = weigh(centred, weight, bias_at((bias_offset >> 2) + unit)[gate]);
    return saturate16(scaled(reduced, multiplier(6u)[gate], multiplier(7u)[gate]));
}

// --- units -------------------------------------------------------------------------------------------------------

int cell_before(uint at) { return short_of(before_at(before_offset + (at >> 1)) ^ 0x80008000u, at) - 32768; }

// Rows need not end at words, so neighbours share a word.
void give(uint at, int cell, int gate) {
    REPLACE(after[after_offset + (at >> 1)], (at & 1u) << 4, 0xffffu, uint(cell))
    REPLACE(dst[dst_offset + (at >> 2)], (at & 3u) << 3, 0xffu, uint(output_of(cell, gate)))
}

void main() {
    invocation = gl_LocalInvocationID.x;
    uint first = gl_WorkGroupID.x * units, driven_first = (driven_offset >> 2) + first;
    ivec4 sum = ivec4(0);
    uvec4 low = uvec4(0), high = uvec4(0), carry;
    for (uint unit = invocation; unit < units; unit += LOCAL) {
        ivec4 sums = sums_of(first + unit, unit, cell_before(first + unit));
        driven[driven_first + unit] = sums;
        sum += sums;
        low = uaddCarry(low, uvec4(sums * sums), carry);
        high += carry;
    }
    Moments moments;
    if (NORM) moments = moments_of_all(sum, low, high);
    sum = ivec4(0);
    low = high = uvec4(0);
    for (uint unit = invocation; unit < units; unit += LOCAL) {
        ivec4 sums = driven[driven_first + unit], gates = sums;
        if (NORM)
            for (uint gate = CIFG ? 1 : 0; gate < 3u; gate++) gates[gate] = normalised(sums[gate], gate, moments, unit);
        int cell = next_cell(gates, cell_before(first + unit));
        sums = ivec4(cell, 0, 0, output_sum(sums.w, unit, cell));
        driven[driven_first + unit] = sums;
        sum.w += sums.w;
        low.w = uaddCarry(low.w, uint(sums.w * sums.w), carry.w);
        high.w += carry.w;
    }
    if (NORM && PEEPHOLE) moments = moments_of_all(sum, low, high);    // the output gate's know the new cell states
    for (uint unit = invocation; unit < units; unit += LOCAL) {
        ivec4 sums = driven[driven_first + unit];
        give(first + unit, sums.x, NORM ? normalised(sums.w, 3u, moments, unit) : sums.w);
    }
}
