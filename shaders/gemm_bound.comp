#version 450
// Verifies a GEMM of floats: computes each result once more, in another order and from other copies of the filters. A
// result is wrong if it is further from the second one than a bound on what roundings can have made of both
// (lowering/gemm_bound.py). The bound takes the sum of the magnitudes of all terms. The magnitudes of sums of some terms
// give a smaller bound at once, which nearly all results are within; only for others the magnitudes of terms are added
// up in a second loop. Results are copied meanwhile. The first wrong element of an execution is reported to the
// host: the number of the comparison, the place, both values.
//
// It shares no code of products with gemm.comp: each invocation goes through all of K for ROWS pixels and four output
// channels. Filters are [k][part][output channels padded to vec4s], or have the parts outermost.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/special_values.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;
// Input channels of a part, and output channels of one, are whole vec4s.
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const bool WIDE_RESULTS = false;
layout(constant_id = 5) const uint STRIDE_Y = 1;
layout(constant_id = 6) const uint STRIDE_X = 1;
layout(constant_id = 7) const uint DILATION_Y = 1;
layout(constant_id = 8) const uint DILATION_X = 1;

READ_VIEW(0, Src, src, float)
READ_VIEW(0, Src_Wide, src_wide, vec4)
READ_VIEW(1, Filters, filters, vec4)
READ_VIEW(2, Bias, bias, float)
READ_VIEW(3, Computed, computed, float)
READ_VIEW(3, Computed_Wide, computed_wide, vec4)
layout(set = 0, binding = 4) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 4) writeonly buffer Dst_Wide { vec4 dst_wide[]; };
FLAG_AS(5, Flag, flag)

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint bias_offset;
    uint computed_offset;
    uint dst_offset;
    uint flag_offset;
    uint rows;       // pixels of a part
    uint parts;
    uint out_channels;    // of a part
    uint out_height;
    uint out_width;
    uint height;
    uint width;
    uint channels;    // of a pixel of the input
    uint depth;       // of these, those of a part
    uint kernel_height;
    uint kernel_width;
    int pad_top;
    int pad_left;
    uint src_part;       // from a part to the next: of the input,
    uint filter_part;    // of the filters, in vec4s,
    uint bias_part;      // of the biases,
    uint dst_part;       // and of the results
    uint filter_step;    // from an element of K to the next, in vec4s
    uint dst_pitch;      // from a pixel of the results to the next
    float low;
    float high;
    float pad_steps;      // roundings of a sum besides those that its length tells (gemm_bound.py)
    float underflow;      // what may be lost below the smallest normal number
    uint number;          // of the comparison
};

const uint ROWS = 4;    // pixels of an invocation (gemm_bound.py)
const float UNIT_ROUNDOFF = 5.9604645e-8;
const float SLACK = 1.02;           // for the terms of second order, and for the roundings of the bound itself
const uint LARGEST = 0x7e967699u;    // 1e38: from there on, another order of a sum may overflow
const uint BLOCK = 8;                // vec4s of K that are added up by themselves

// Four inputs of a pixel, from a channel of its part on; 0 in the padding, and past the last channel.
vec4 inputs_at(uint address, uint channel, bool inside) {
    vec4 loaded;
    if (WIDE) {
        loaded = src_wide_at(src_offset + address + channel >> 2);
    } else {
        uvec4 at = src_offset + address + min(channel + uvec4(0u, 1u, 2u, 3u), uvec4(depth - 1u));
        loaded = vec4(src_at(at.x), src_at(at.y), src_at(at.z), src_at(at.w));
        loaded = mix(vec4(0.0), loaded, lessThan(channel + uvec4(0u, 1u, 2u, 3u), uvec4(depth)));
    }
    return mix(vec4(0.0), loaded, bvec4(inside));
}

// The inputs that a tap of the windows of some pixels takes.
struct Taps {
    uint addresses[ROWS];
    bool inside[ROWS];
};

Taps taps_of(ivec3 windows[ROWS], uint part, uint tap) {
    uint ky = tap / kernel_width, kx = tap - ky * kernel_width;
    Taps taps;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        ivec2 at = windows[r].yz + ivec2(ky * DILATION_Y, kx * DILATION_X);
        taps.inside[r] = all(lessThan(uvec2(at), uvec2(height, width)));
        at = mix(ivec2(0), at, bvec2(taps.inside[r]));
        taps.addresses[r] = ((uint(windows[r].x) * height + uint(at.x)) * width + uint(at.y)) * channels + part * src_part;
    }
    return taps;
}

// The filters of four elements of K. Inputs past the last channel are 0.
vec4[4] filters_of(uint from, uint tap, uint channel) {
    vec4 filter4[4];
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        filter4[i] = filters_at(from + (tap * depth + min(channel + i, depth - 1u)) * filter_step);
    }
    return filter4;
}

void main() {
    uint index = flat_invocation(), vec4s = divide_up(out_channels, 4u), tiles = divide_up(rows, ROWS);
    uint tile = index / vec4s, vec = index - tile * vec4s, part = tile / tiles;
    tile -= part * tiles;
    if (part >= parts) return;
    uint column = 4u * vec, last = out_channels - 1u;
    uvec4 columns = min(column + uvec4(0u, 1u, 2u, 3u), uvec4(last)), biases = bias_offset + part * bias_part + columns;
    vec4 start = vec4(bias_at(biases.x), bias_at(biases.y), bias_at(biases.z), bias_at(biases.w));

    ivec3 windows[ROWS];
    vec4 sums[ROWS], magnitudes[ROWS], bounds[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(tile * ROWS + r, rows - 1u), line = row / out_width, image = line / out_height;
        windows[r] = ivec3(image, (line - image * out_height) * STRIDE_Y, (row - line * out_width) * STRIDE_X);
        windows[r] -= ivec3(0, pad_top, pad_left);
        sums[r] = start;
        magnitudes[r] = abs(start);
        bounds[r] = vec4(0.0);
    }
    uint from = filters_offset / 4u + part * filter_part + vec, taps = kernel_height * kernel_width;
    for (uint tap = 0u; tap < taps; tap++) {
        Taps inputs = taps_of(windows, part, tap);
        for (uint first = 0u; first < depth; first += 4u * BLOCK) {
            vec4 blocks[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) blocks[r] = vec4(0.0);
            uint end = min(first + 4u * BLOCK, depth);
            for (uint channel = first; channel < end; channel += 4u) {
                vec4 filter4[4] = filters_of(from, tap, channel);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    vec4 x = inputs_at(inputs.addresses[r], channel, inputs.inside[r]);
                    [[unroll]] for (uint i = 0; i < 4u; i++) blocks[r] += x[i] * filter4[i];
                }
            }
            float steps = float(end - first) * UNIT_ROUNDOFF;
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                sums[r] += blocks[r];
                bounds[r] += steps * magnitudes[r];
                magnitudes[r] += abs(blocks[r]);
            }
        }
    }

    vec4 results[ROWS];
    bool are_near = true;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = tile * ROWS + r, at = min(row, rows - 1u) * dst_pitch + part * dst_part + column;
        uint from_result = computed_offset + at;
        if (WIDE_RESULTS) {
            results[r] = computed_wide_at(from_result >> 2);
            if (row < rows) dst_wide[dst_offset + at >> 2] = results[r];
        } else {
            uint count = min(4u, out_channels - column);
            [[unroll]] for (uint i = 0; i < 4u; i++) {
                results[r][i] = computed_at(from_result + min(i, count - 1u));
                if (row < rows && i < count) dst[dst_offset + at + i] = results[r][i];
            }
        }
        sums[r] = clamp(sums[r], vec4(low), vec4(high));
        vec4 bound = bounds[r] + pad_steps * UNIT_ROUNDOFF * magnitudes[r];
        bvec4 is_finite = lessThan(floatBitsToUint(results[r]) & MAGNITUDE, uvec4(INFINITE));
        bvec4 is_known = lessThan(floatBitsToUint(bound) & MAGNITUDE, uvec4(INFINITE));
        are_near = are_near && all(is_finite) && all(is_known) && all(lessThanEqual(abs(results[r] - sums[r]), bound));
    }
    if (are_near) return;

    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        magnitudes[r] = abs(start);
        bounds[r] = vec4(0.0);
    }
    for (uint tap = 0u; tap < taps; tap++) {
        Taps inputs = taps_of(windows, part, tap);
        for (uint channel = 0u; channel < depth; channel += 4u) {
            vec4 filter4[4] = filters_of(from, tap, channel);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                vec4 x = inputs_at(inputs.addresses[r], channel, inputs.inside[r]);
                [[unroll]] for (uint i = 0; i < 4u; i++) magnitudes[r] += abs(x[i]) * abs(filter4[i]);
                // Each partial sum is rounded by at most its magnitude times the unit roundoff.
                bounds[r] += 4.0 * UNIT_ROUNDOFF * magnitudes[r];
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = tile * ROWS + r;
        vec4 bound = SLACK * (bounds[r] + pad_steps * UNIT_ROUNDOFF * magnitudes[r]) + underflow;
        [[unroll]] for (uint i = 0; i < 4u; i++) {
            bool is_finite = (floatBitsToUint(results[r][i]) & MAGNITUDE) < INFINITE;
            bool is_near = is_finite && abs(results[r][i] - sums[r][i]) <= bound[i];
            bool is_known = (floatBitsToUint(magnitudes[r][i]) & MAGNITUDE) < LARGEST;
            if (row < rows && column + i < out_channels && is_known && !is_near && IS_FIRST_COMPLAINT(flag)) {
                flag[flag_offset + 1u] = number;
                flag[flag_offset + 2u] = row * dst_pitch + part * dst_part + column + i;
                flag[flag_offset + 3u] = floatBitsToUint(results[r][i]);
                flag[flag_offset + 4u] = floatBitsToUint(sums[r][i]);
            }
        }
    }
}
