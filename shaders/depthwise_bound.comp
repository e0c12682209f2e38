#version 450
// Verifies a convolution of floats whose filters see a channel each: computes each result once more and compares it as
// gemm_bound.comp does. Sums are short, so that the bound takes the magnitudes of all terms at once. Results are copied
// meanwhile.
//
// It shares no code of products with depthwise_conv2d.comp: each invocation goes through the windows of ROWS neighbouring
// pixels of a line for four output channels. Filters are [tap][output channels padded to vec4s].

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
// Each output channel has an input channel of its own, and all are whole vec4s.
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const bool WIDE_RESULTS = false;       // output channels are whole vec4s
layout(constant_id = 15) const bool PADDED_RESULTS = false;    // and are padded to them in memory
layout(constant_id = 9) const uint ROWS = 4;                // pixels of an invocation
layout(constant_id = 10) const uint KERNEL_WIDTH = 3;

READS(0, Src, src)
READ_VIEW(1, Filters, filters, WEIGHT4)
READ_VIEW(2, Bias, bias, float)
READS(3, Computed, computed)
WRITES(4, Dst, dst)
FLAG_AS(5, Flag, flag)

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint bias_offset;
    uint computed_offset;
    uint dst_offset;
    uint flag_offset;
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
    float low;
    float high;
    float steps;        // roundings of a sum
    float underflow;    // what may be lost below the smallest normal number
    uint number;        // of the comparison
};

#include "include/bound.glsl"

// The inputs of four output channels in a pixel.
vec4 inputs_at(uint pixel, uint column) {
    uint from = pixel * channels;
    if (WIDE) return LOAD4_WITH(src, from + column >> 2, 0u);
    uvec4 at = from + min(column + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u)) / depth_multiplier;
    return GATHER4_WITH(src, at, 0u);
}

vec4 biases_of(uint column) {
    uvec4 at = bias_offset + min(column + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u));
    return vec4(bias_at(at.x), bias_at(at.y), bias_at(at.z), bias_at(at.w));
}

// The place of the first of the four results of a pixel.
uint place_of(uint row, uint column) {
    return row * (PADDED_RESULTS ? divide_up(out_channels, 4u) * 4u : out_channels) + column;
}

vec4 results_at(uint row, uint column) {
    uint at = place_of(row, column);
    if (WIDE_RESULTS) return LOAD4_WITH(computed, at >> 2, 0u);
    return GATHER4_WITH(computed, at + min(uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - column - 1u)), 0u);
}

void copy(uint row, uint column, vec4 results) {
    uint at = place_of(row, column);
    if (WIDE_RESULTS) STORE4_WITH(dst, at >> 2, results, 0u);
#ifdef STORED_ALONE
    uint count = WIDE_RESULTS ? 0u : min(4u, out_channels - column);
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        if (i < count) STORE(dst, at + i, results[i]);
    }
#endif
}

// Compares the results of a pixel, whose terms may be infinite or NaN.
void check_row(uint row, uint column) {
    vec4 start = biases_of(column), sum = mix(vec4(0.0), start, are_finite(start)), magnitude = abs(sum), lost = vec4(0.0);
    uvec4 classes = classes_of(start);
    ivec3 window = window_of(row);
    uint filter_at = filters_offset / WEIGHT_WORDS + column / 4u;
    for (uint ky = 0u; ky < kernel_height; ky++) {
        for (uint kx = 0u; kx < KERNEL_WIDTH; kx++) {
            uint pixel = address_of(window, ky, kx, 1u, 0u);
            bool inside = pixel != OUTSIDE;
            vec4 inputs = mix(vec4(0.0), inputs_at(mix(0u, pixel, inside), column), bvec4(inside));
            vec4 filter4 = FROM_WEIGHT4(filters_at(filter_at));
            uvec4 found = classes_of(inputs, filter4, inside);
            classes |= found;
            bvec4 is_term = equal(found, uvec4(0u));
            inputs = mix(vec4(0.0), inputs, is_term);
            filter4 = mix(vec4(0.0), filter4, is_term);
            sum = fma(inputs, filter4, sum);
            magnitude += abs(inputs) * abs(filter4);
            lost += lost_of(inputs, filter4);
            filter_at += divide_up(out_channels, 4u);
        }
    }
    vec4 bound = steps * UNIT_ROUNDOFF * magnitude + underflow + lost, results = results_at(row, column);
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        float due = sum[i];
        bool is_wrong = !is_right(results[i], classes[i], magnitude[i], bound[i], due);
        if (column + i < out_channels && is_wrong) report(row * out_channels + column + i, results[i], due);
    }
}

// The inputs of a line that the windows of an invocation take.
const uint COLUMNS = (ROWS - 1u) * STRIDE_X + (KERNEL_WIDTH - 1u) * DILATION_X + 1u;

void main() {
    uint vec4s = divide_up(out_channels, 4u), tiles = divide_up(out_width, ROWS), lines = rows / out_width;
    uint index = flat_invocation(), tile = index / vec4s, vec = index - tile * vec4s, line = tile / tiles;
    uint left = (tile - line * tiles) * ROWS, column = 4u * vec, filter_at = filters_offset / WEIGHT_WORDS + vec;
    if (line >= lines) return;
    ivec3 window = window_of(line * out_width + left);
    vec4 start = biases_of(column), sums[ROWS], magnitudes[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sums[r] = start;
        magnitudes[r] = abs(start);
    }
    for (uint ky = 0u; ky < kernel_height; ky++) {
        vec4 filter4[KERNEL_WIDTH];
        [[unroll]] for (uint kx = 0; kx < KERNEL_WIDTH; kx++) filter4[kx] = FROM_WEIGHT4(filters_at(filter_at + kx * vec4s));
        filter_at += KERNEL_WIDTH * vec4s;
        uint y = uint(window.y) + ky * DILATION_Y, first = (uint(window.x) * height + mix(0u, y, y < height)) * width;
        [[unroll]] for (uint at = 0; at < COLUMNS; at++) {
            uint x = uint(window.z) + at;
            bool inside = y < height && x < width;
            vec4 inputs = mix(vec4(0.0), inputs_at(first + mix(0u, x, inside), column), bvec4(inside));
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint behind = at - r * STRIDE_X, kx = behind / DILATION_X;    // not in the window if that is below 0
                if (kx < KERNEL_WIDTH) {
                    if (kx * DILATION_X == behind) {
                        sums[r] = fma(inputs, filter4[kx], sums[r]);
                        magnitudes[r] = fma(abs(inputs), abs(filter4[kx]), magnitudes[r]);
                    }
                }
            }
        }
    }
    uint far = 0u;    // a bit for each pixel with a result that is not within the bound
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = line * out_width + min(left + r, out_width - 1u);
        vec4 results = results_at(row, column), bound = steps * UNIT_ROUNDOFF * magnitudes[r] + underflow;
        if (left + r < out_width) copy(row, column, results);
        vec4 due = clamp(sums[r], vec4(low), vec4(high));
        bvec4 near = lessThanEqual(abs(results - due), bound + rounding_of(due));
        if (!are_all_near(near, results, bound, column)) far |= 1u << r;
    }
    far &= ~0u >> 32u - min(out_width - left, ROWS);
    while (far != 0u) {
        uint r = findLSB(far);
        far &= far - 1u;
        check_row(line * out_width + left + r, column);
    }
}
