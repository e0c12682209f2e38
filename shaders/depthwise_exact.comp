#version 450
// A convolution whose filters see a channel each once more, to verify the results of other shaders
// (lowering/gemm/verification/exact.py). It shares no code of products with these: each invocation goes through the
// windows of ROWS neighbouring pixels of a line for four output channels, and reads filters as they lie in the operand.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
// Each output channel has an input channel of its own, and all are whole vec4s.
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 9) const uint ROWS = 4;    // pixels of an invocation
layout(constant_id = 10) const uint KERNEL_WIDTH = 3;

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint bias_offset;
#ifdef IS_QUANTISED
    uint multipliers_offset;
#else
    uint extra_offset;
#endif
    uint dst_offset;
    uint rows;    // pixels
    uint out_channels;
    uint out_height;
    uint out_width;
    uint height;
    uint width;
    uint channels;            // of the input
    uint depth_multiplier;    // output channels of each of them
    uint kernel_height;
    int pad_top;
    int pad_left;
    uint filter_output;    // elements from an output channel of the filters to the next,
    uint filter_tap;       // and from a tap
    uint dst_pitch;        // from a pixel of the results to the next
#ifdef IS_QUANTISED
    int input_zero;        // unsigned, as all levels
    int filter_zero;
    int output_zero;
#endif
    ACC low;
    ACC high;
};

#include "include/exact.glsl"
#include "include/windows.glsl"

// The inputs of four output channels in a pixel; 0 in the padding.
INPUT4 inputs_at(uint pixel, Column column, bool inside) {
    uint from = mix(0u, pixel, inside) * channels;
    ACC4 levels;
    if (WIDE) levels = LOAD4(src, from + column.first >> 2);
    else levels = GATHER4(src, from + min(from_on(column.first), uvec4(out_channels - 1u)) / depth_multiplier);
    return input_of(mix(ACC4(0), less_zero(levels), bvec4(inside)));
}

TERM4 filters_of(Column column, uint tap) {
    uint from = tap * filter_tap;
    if (FILTER_WORDS == ALONG_OUTPUTS) return filter_word(from + column.first);
    return filters_at_each(from + min(from_on(column.first), uvec4(out_channels - 1u)) * filter_output);
}

// The inputs of a line that the windows of an invocation take.
const uint COLUMNS = (ROWS - 1u) * STRIDE_X + (KERNEL_WIDTH - 1u) * DILATION_X + 1u;

void main() {
    uint vec4s = divide_up(out_channels, 4u), tiles = divide_up(out_width, ROWS), lines = rows / out_width;
    uint index = flat_invocation(), tile = index / vec4s, line = tile / tiles, left = (tile - line * tiles) * ROWS;
    if (line >= lines) return;
    Column column = Column(0u, 4u * (index - tile * vec4s));
    ivec3 window = window_of(line * out_width + left);
    TOTAL4 totals[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) totals[r] = first_total(column);
    for (uint ky = 0u; ky < kernel_height; ky++) {
        TERM4 filters4[KERNEL_WIDTH];
        [[unroll]] for (uint kx = 0; kx < KERNEL_WIDTH; kx++) filters4[kx] = filters_of(column, ky * KERNEL_WIDTH + kx);
        uint y = uint(window.y) + ky * DILATION_Y, first = (uint(window.x) * height + y) * width;
        BLOCK4 blocks[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) blocks[r] = first_block(totals[r]);
        [[unroll]] for (uint at = 0; at < COLUMNS; at++) {
            uint x = uint(window.z) + at;
            INPUT4 inputs = inputs_at(first + x, column, y < height && x < width);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint behind = at - r * STRIDE_X, kx = behind / DILATION_X;    // not in the window if that is below 0
                if (kx < KERNEL_WIDTH) {
                    if (kx * DILATION_X == behind) blocks[r] = with_products(blocks[r], inputs, filters4[kx]);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) totals[r] = with_block(totals[r], blocks[r]);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (left + r < out_width) store(totals[r], column, line * out_width + left + r);
    }
}
