#version 450
// A GEMM once more, to verify the results of other shaders (lowering/gemm/verification/exact.py). It shares
// no code of products with these: each invocation goes through all of K for ROWS pixels and four output channels, and
// reads filters as they lie in the operand. With LOADS_SHARED a workgroup is a subgroup of eight, which is a vector of
// a CPU: its invocations load the inputs of different pixels for each other.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef LOADS_SHARED
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;    // input channels of a part are whole vec4s
layout(constant_id = 9) const uint ROWS = 4;        // pixels of an invocation

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint bias_offset;
#ifdef IS_QUANTISED
    uint multipliers_offset;
#elif defined(IS_FLOAT)
    uint extra_offset;
#endif
    uint dst_offset;
    uint rows;    // pixels of a part
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
    uint src_part;          // from a part of the input to the next
    uint filter_first;      // element of the filters,
    uint filter_part;       // elements from a part of the filters to the next,
    uint filter_output;     // from an output channel,
    uint filter_tap;        // from a tap,
    uint filter_channel;    // and from an input channel
    uint dst_pitch;         // from a pixel of the results to the next
#ifdef IS_QUANTISED
    int input_zero;    // unsigned, as all levels
    int filter_zero;
    int output_zero;
#endif
    ACC low;
    ACC high;
};

#include "include/exact.glsl"
#include "include/windows.glsl"

#ifdef LOADS_SHARED
const uint SHARE = 8;    // invocations that load inputs for each other
#else
const uint SHARE = 1;
#endif
const uint LOADED = (ROWS + SHARE - 1u) / SHARE;    // pixels whose inputs an invocation loads

#ifdef LOADS_SHARED
// Inputs that another invocation has loaded.
#ifdef DTYPE_Q16
INPUT4 input_from(INPUT4 x, uint lane) { return Halves4(subgroupShuffle(x.low, lane), subgroupShuffle(x.high, lane)); }
#else
INPUT4 input_from(INPUT4 x, uint lane) { return subgroupShuffle(x, lane); }
#endif
#else
INPUT4 input_from(INPUT4 x, uint lane) { return x; }
#endif

// Four inputs of a pixel, from a channel of its part on; 0 in the padding, and past the last channel.
INPUT4 inputs_at(uint address, uint channel) {
    bool inside = address != OUTSIDE;
    uint from = mix(0u, address, inside);
    bvec4 exist = bvec4(inside);
    ACC4 levels;
    if (WIDE) {
        levels = LOAD4(src, from + channel >> 2);
    } else {
        levels = GATHER4(src, from + min(from_on(channel), uvec4(depth - 1u)));
        exist = bvec4(uvec4(exist) & uvec4(lessThan(from_on(channel), uvec4(depth))));
    }
    return input_of(mix(ACC4(0), less_zero(levels), exist));
}

struct Filters4 {
    TERM4 of_channel[4];    // for four output channels each
};

// The filters of a tap, from an input channel on.
Filters4 filters_of(Column column, uint tap, uint channel) {
    uint from = filter_first + column.part * filter_part + tap * filter_tap;
    uvec4 inputs = min(from_on(channel), uvec4(depth - 1u)) * filter_channel;
    uvec4 outputs = from + min(from_on(column.first), uvec4(out_channels - 1u)) * filter_output;
    Filters4 result;
    if (FILTER_WORDS == ALONG_CHANNELS) {
        TERM4 a = filter_word(outputs.x + channel), b = filter_word(outputs.y + channel);
        TERM4 c = filter_word(outputs.z + channel), d = filter_word(outputs.w + channel);
        [[unroll]] for (uint i = 0; i < 4u; i++) result.of_channel[i] = TERM4(a[i], b[i], c[i], d[i]);
    } else if (FILTER_WORDS == ALONG_OUTPUTS) {
        [[unroll]] for (uint i = 0; i < 4u; i++) result.of_channel[i] = filter_word(from + inputs[i] + column.first);
    } else {
        [[unroll]] for (uint i = 0; i < 4u; i++) result.of_channel[i] = filters_at_each(outputs + inputs[i]);
    }
    // Those past the last channel are 0, because the product of an infinity and 0 is NaN.
    if (!WIDE) {
        [[unroll]] for (uint i = 1; i < 4u; i++)
            result.of_channel[i] = mix(TERM4(0), result.of_channel[i], bvec4(channel + i < depth));
    }
    return result;
}

// The pixels of a line of a transposed convolution that are a stride from each other, which the same taps come to, are
// neighbours in a tile.
uint tiles_of_phase() { return divide_up(divide_up(out_width, STRIDE_X), ROWS); }
uint phases() { return min(STRIDE_X, out_width); }

// The tiles of a part.
uint count_of_tiles() { return TRANSPOSED ? rows / out_width * phases() * tiles_of_phase() : divide_up(rows, ROWS); }

// A pixel of a tile; `rows` if it does not exist.
uint pixel_of(uint tile, uint r) {
    if (!TRANSPOSED) return min(tile * ROWS + r, rows);
    uint all = phases() * tiles_of_phase(), line = tile / all, left = tile - line * all, phase = left / tiles_of_phase();
    uint x = phase + ((left - phase * tiles_of_phase()) * ROWS + r) * STRIDE_X;
    return x < out_width ? line * out_width + x : rows;
}

// Whether a tap of a transposed convolution comes to the pixels of a tile, of which one has this window.
bool is_reached(ivec3 window, uint ky, uint kx) {
    uvec2 apart = uvec2(window.yz - ivec2(ky, kx) + ivec2(kernel_height * STRIDE_Y, kernel_width * STRIDE_X));
    return all(equal(apart % uvec2(STRIDE_Y, STRIDE_X), uvec2(0u)));
}

void main() {
    uint vec4s = divide_up(out_channels, 4u), across = divide_up(vec4s, SHARE) * SHARE, tiles = count_of_tiles();
    uint index = flat_invocation(), every = index / across, vec = index - every * across, part = every / tiles;
    uint tile = every - part * tiles, lane = gl_LocalInvocationID.x % SHARE;
    if (part >= parts) return;
    // Invocations past the last vec4 load inputs for others.
    Column column = Column(part, 4u * min(vec, vec4s - 1u));
    ivec3 windows[LOADED];
    [[unroll]] for (uint g = 0; g < LOADED; g++) windows[g] = window_of(pixel_of(tile, g * SHARE + lane));
    ivec3 first_window = window_of(pixel_of(tile, 0u));
    TOTAL4 totals[ROWS];
    BLOCK4 blocks[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        totals[r] = first_total(column);
        blocks[r] = first_block(totals[r]);
    }
    uint terms = 0u;    // of blocks
    for (uint tap = 0u; tap < kernel_height * kernel_width; tap++) {
        uint ky = tap / kernel_width, kx = tap - ky * kernel_width, addresses[LOADED];
        [[unroll]] for (uint g = 0; g < LOADED; g++) addresses[g] = address_of(windows[g], ky, kx, channels, part * src_part);
        if (TRANSPOSED && !is_reached(first_window, ky, kx)) continue;
        for (uint first = 0u; first < depth; first += BLOCK) {
            uint end = min(first + BLOCK, depth);
            if (terms + end - first > BLOCK) {
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    totals[r] = with_block(totals[r], blocks[r]);
                    blocks[r] = first_block(totals[r]);
                }
                terms = 0u;
            }
            terms += end - first;
            for (uint channel = first; channel < end; channel += 4u) {
                Filters4 filters4 = filters_of(column, tap, channel);
                INPUT4 inputs[LOADED];
                [[unroll]] for (uint g = 0; g < LOADED; g++) inputs[g] = inputs_at(addresses[g], channel);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    INPUT4 x = input_from(inputs[r / SHARE], r % SHARE);
                    [[unroll]] for (uint i = 0; i < 4u; i++)
                        blocks[r] = with_products(blocks[r], repeated(x, i), filters4.of_channel[i]);
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint pixel = pixel_of(tile, r);
        if (vec < vec4s && pixel < rows) store(with_block(totals[r], blocks[r]), column, pixel);
    }
}
