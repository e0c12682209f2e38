#version 450
// The parts of QUANTIZED_SVDF behind the sums over the input, which a GEMM has computed.
//
// STEP_STATE: the memory of each filter moves on by one place, and the newest sum comes behind it. An invocation
// computes four consecutive levels of 16 bits.
// STEP_RESULT: a unit sums what RANK neighbouring filters remember, with their weights over time. An invocation computes
// four consecutive units of the result.

#extension GL_GOOGLE_include_directive : require

#include "include/texels.glsl"
#include "include/fixed_point.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

#ifdef STEP_STATE
READ_VIEW(0, Sums, sums, int)
READ_VIEW(1, Before, before, uint)
layout(set = 0, binding = 2) writeonly buffer Dst { uvec2 dst[]; };
#else
READ_VIEW(0, State, state, uint)
READ_VIEW(1, Weights, weights, uint)
READ_VIEW(2, Bias, bias, int)
layout(set = 0, binding = 3) writeonly buffer Dst { uint dst[]; };
#endif

layout(push_constant) uniform Push {
#ifdef STEP_STATE
    uint sums_offset;
    uint before_offset;
#else
    uint state_offset;
    uint weights_offset;
    uint bias_offset;
#endif
    uint dst_offset;
    uint count;       // of vec4s
    uint elements;    // of the output
    uint width;       // filters, or units, of a batch
    uint memory;      // of a filter
#ifdef STEP_STATE
    uint sums_row;    // elements from one batch to the next
#else
    uint rank;
    int zero;         // moved to the unsigned range
#endif
    int mantissa;
    int shift;
};

// A level of 16 bits, with its sign.
#define SHORT(name, at) (int(name##_at(name##_offset + ((at) >> 1)) << (16u - (((at) & 1u) << 4))) >> 16)

#ifdef STEP_STATE
int result(uint at) {
    uint filter_ = at / memory, place = at - filter_ * memory, batch = filter_ / width;
    if (place + 1u < memory) return SHORT(before, at + 1u) + 32768;
    int sum = sums_at(sums_offset + batch * sums_row + (filter_ - batch * width));
    return saturate16(scaled(sum, mantissa, shift)) + 32768;
}
#else
int result(uint at) {
    uint batch = at / width, unit = at - batch * width;
    uint values = at * rank * memory, factors = unit * rank * memory;
    int sum = bias_at(bias_offset + unit);
    for (uint k = 0; k < rank * memory; k++) sum += SHORT(state, values + k) * SHORT(weights, factors + k);
    return clamp(saturate16(scaled(sum, mantissa, shift)) + zero, 0, 255);
}
#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 results;
    for (uint k = 0; k < 4u; k++) results[k] = result(min(4u * i + k, elements - 1u));
#ifdef STEP_STATE
    dst[(dst_offset >> 1) + i] = pack_shorts(results, 0x80008000u);
#else
    dst[dst_offset + i] = pack_bytes(results, 0x80808080u);
#endif
}
