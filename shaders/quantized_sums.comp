#version 450
// Sums of products of rows of bytes with packed weights (lowering/filters.py), less their zero points: what a quantised
// cell makes of its input and of its state. A row may be of two tensors, one behind the other. A workgroup computes 32
// columns of a row: its invocations along x take four each, those along y share K out and add up in the end.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 3) const bool ALIGNED = false;    // rows of both tensors are whole words

layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) readonly buffer Behind { uint behind[]; };
layout(set = 0, binding = 2) readonly buffer Weights { uvec4 weights[]; };
layout(set = 0, binding = 3) writeonly buffer Dst { ivec4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint behind_offset;
    uint weights_offset;
    uint dst_offset;
    uint length;           // K
    uint split;            // of them from src, the rest from behind
    uint quads;            // fours of columns
    uint sign_mask;
    int zero;              // of rows, moved to the unsigned range
    int weight_zero;
};

const uint LANES = 8;
const uint SLICES = 16;

shared ivec4 partial_sums[SLICES][LANES];

int load_byte(uint row, uint k) {
    return k < split ? LOAD_BYTE(src, src_offset, row * split + k, sign_mask)
                     : LOAD_BYTE(behind, behind_offset, row * (length - split) + k - split, sign_mask);
}

// Four steps of K. Past the last one the weights are their zero point.
ivec4 load_steps(uint row, uint k) {
    if (ALIGNED) {
        uint word = k < split ? src[src_offset + (row * split + k >> 2)]
                              : behind[behind_offset + (row * (length - split) + k - split >> 2)];
        return unpack_bytes(word, sign_mask);
    }
    ivec4 steps;
    [[unroll]] for (uint i = 0; i < 4u; i++) steps[i] = load_byte(row, min(k + i, length - 1u));
    return steps;
}

void main() {
    uint lane = gl_LocalInvocationID.x, slice = gl_LocalInvocationID.y;
    uint block = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    uint fours = divide_up(length, 4u);
    ivec4 sum = ivec4(0);
    for (uint four = slice; four < fours; four += SLICES) {
        ivec4 steps = load_steps(row, four * 4u) - zero;
        uvec4 words = weights[(weights_offset >> 2) + (block * fours + four) * LANES + lane];
        [[unroll]] for (uint k = 0; k < 4u; k++) sum += steps[k] * (ivec4((words >> (8u * k)) & 0xffu) - weight_zero);
    }
    partial_sums[slice][lane] = sum;
    barrier();
    uint quad = block * LANES + lane;
    if (slice > 0u || quad >= quads) return;
    for (uint other = 1; other < SLICES; other++) sum += partial_sums[other][lane];
    dst[(dst_offset >> 2) + row * quads + quad] = sum;
}
