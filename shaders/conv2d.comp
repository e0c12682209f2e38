#version 450
// CONV_2D, and FULLY_CONNECTED as a convolution of one tap, on NHWC tensors: an implicit matrix product. A row
// of the left matrix is the window of one output pixel, gathered from the input while the product runs; a column
// of the right one is a filter; K runs over the taps and, innermost, over the input's channels.
//
// Weights come packed (kernels/filters.py): in blocks of 32 output channels; in a block, in fours of steps of K; in
// a four, for eight lanes of four output channels each, as bytes four words, a byte for a step; as floats first the
// steps 0 and 1 of every lane, then 2 and 3. Tails of channels are filled with zeros (zero points).
//
// TILE_CPU is for drivers that run a subgroup of eight invocations as one SIMD vector (llvmpipe). There the cost
// is in loads, which are made lane by lane, also those from shared memory and those whose address is the same in
// all lanes. So every lane loads something else, of weights and of input, and the input goes to the other lanes by
// shuffles, which are single instructions. Floats are loaded by eights, as four numbers of 64 bits: that costs no
// more than four floats. A workgroup is one subgroup.
// TILE_GPU stages both operands in shared memory, in a workgroup of 16 x 8 invocations that reads whole cache
// lines, and asks for no subgroup operations.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_CPU
#extension GL_KHR_shader_subgroup_shuffle : require
#ifndef DTYPE_Q8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#endif

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;
// Output pixels per workgroup.
layout(constant_id = 3) const uint ROWS = 16;
// Channels that a load of input takes, a divisor of all: 1, 4 or, where the tile can load eight floats, 8.
layout(constant_id = 4) const uint SPAN = 4;
// A pixel of floats has a multiple of four output channels.
layout(constant_id = 5) const bool VECTOR_STORES = true;

const uint BLOCK = 32;               // output channels in a block of packed weights
const uint OUTSIDE = 0xffffffffu;    // the address of what is in the padding

READS(0, Src, src)
#ifdef IS_FLOAT
// The weights of 16-bit floats are 32-bit ones too, and so is what is loaded of the input.
#define WEIGHTS4 vec4
#define LOADED4 vec4
layout(set = 0, binding = 1) readonly buffer Weights { vec4 weights[]; };
#ifdef TILE_CPU
layout(set = 0, binding = 0) readonly buffer Src_Eights { u64vec4 src_eights[]; };
layout(set = 0, binding = 1) readonly buffer Weights_Eights { u64vec4 weights_eights[]; };
#endif
#else
#define WEIGHTS4 uvec4
#define LOADED4 uint
layout(set = 0, binding = 1) readonly buffer Weights { uvec4 weights[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
#ifdef DTYPE_Q8
    uint multipliers_offset;
#endif
    uint rows;    // batch * out_height * out_width
    uint out_height;
    uint out_width;
    uint out_channels;
    uint height;
    uint width;
    uint channels;
    uint kernel_height;
    uint kernel_width;
    uint stride_y;
    uint stride_x;
    uint dilation_y;
    uint dilation_x;
    int pad_top;
    int pad_left;
    ACC low;
    ACC high;
#ifdef DTYPE_Q8
    uint sign_mask;
    int input_zero;
    int weight_zero;
    int output_zero;
    uint last_word;    // of the input
#endif
};

#include "include/filter_output.glsl"

#ifdef IS_FLOAT
const uint WEIGHT_VALUES = 1;    // in a word
#else
const uint WEIGHT_VALUES = 4;
#endif

// Where the window of an output pixel begins in the input; y and x may lie in the padding.
struct Window {
    uint base;    // index in src of the image's first value, OUTSIDE past the last row
    int y;
    int x;
};

Window window_of(uint row) {
    uvec4 at = nhwc_coordinates(row, out_height, out_width, 1u);
    return Window(row < rows ? src_offset * WORD_VALUES + at.x * height * width * channels : OUTSIDE,
                  int(at.y * stride_y) - pad_top, int(at.z * stride_x) - pad_left);
}

// The index in src of the first channel of the tap that is so far down and right in a window, or OUTSIDE.
uint tap_address(Window window, uint down, uint right) {
    int y = window.y + int(down);
    int x = window.x + int(right);
    bool inside = window.base != OUTSIDE && uint(y) < height && uint(x) < width;
    return inside ? window.base + (uint(y) * width + uint(x)) * channels : OUTSIDE;
}

// What stands for four values outside.
LOADED4 padding() {
#ifdef IS_FLOAT
    return vec4(0.0);
#else
    return (uint(input_zero) * 0x01010101u) ^ sign_mask;
#endif
}

// Four steps of K of one pixel: channels c to c + 3 of the tap at an address.
LOADED4 load_input(uint address, uint c, LOADED4 outside) {
    bool inside = address != OUTSIDE;
    uint at = inside ? address + c : 0u;
#ifdef IS_FLOAT
    if (SPAN >= 4u) return mix(outside, DECODE4(src_fours[at >> 2]), bvec4(inside));
    uint left = inside ? channels - c : 0u;    // weights are 0 past the last channel, but 0 * inf is not
    uvec4 steps = uvec4(0u, 1u, 2u, 3u);
    uvec4 from = at + min(steps, uvec4(max(left, 1u) - 1u));
    vec4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = LOAD_FROM_WITH(src, from[i], 0u);
    return mix(outside, values, lessThan(steps, uvec4(left)));
#else
    uint loaded = src[at >> 2];
    if (SPAN < 4u) loaded = join_words(loaded, src[min((at + 3u) >> 2, src_offset + last_word)], at);
    return inside ? loaded : outside;
#endif
}

ACC4 input_steps(LOADED4 loaded) {
#ifdef IS_FLOAT
    return loaded;
#else
    return unpack_bytes(loaded, sign_mask) - input_zero;
#endif
}

#ifdef TILE_CPU

const uint LANES = 8;
const uint MAX_ROWS = 32;
const uint MAX_GROUPS = MAX_ROWS / LANES;
const uint GROUPS = (ROWS + LANES - 1u) / LANES;    // rows are loaded in groups, one to a lane
const uint FOURS = SPAN == 8u ? 2u : 1u;            // fours of channels by one load of input

#ifdef IS_FLOAT
vec4 floats(u64vec2 pairs) { return uintBitsToFloat(uvec4(unpack32(pairs.x), unpack32(pairs.y))); }
#endif

// Channels c to c + 3 and, if SPAN is 8, c + 4 to c + 7 of the tap at an address.
void load_fours(uint address, uint c, LOADED4 outside, out ACC4 first, out ACC4 second) {
#ifdef DTYPE_F32
    if (SPAN == 8u) {
        bool inside = address != OUTSIDE;
        u64vec4 eight = src_eights[(inside ? address + c : 0u) >> 3];
        first = mix(outside, floats(eight.xy), bvec4(inside));
        second = mix(outside, floats(eight.zw), bvec4(inside));
        return;
    }
#endif
    first = input_steps(load_input(address, c, outside));
}

#ifdef IS_FLOAT
const uint LOAD_VALUES = 8;     // that a load of weights takes
const uint FOUR_LOADS = 2;      // such loads for a four of steps of K
#else
const uint LOAD_VALUES = 16;
const uint FOUR_LOADS = 1;
#endif

// The weights of four steps for four output channels, by loads that begin at an index.
void load_weights(uint at, int zero, out ACC4 steps[4]) {
#ifdef IS_FLOAT
    u64vec4 front = weights_eights[at];
    u64vec4 back = weights_eights[at + LANES];
    steps = vec4[](floats(front.xy), floats(front.zw), floats(back.xy), floats(back.zw));
#else
    uvec4 words = weights[at];
    [[unroll]] for (uint k = 0; k < 4u; k++) steps[k] = ivec4((words >> (8u * k)) & 0xffu) - zero;
#endif
}

// Push constants are read before the first loop or branch, or they would be loaded lane by lane as well.
void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * ROWS;
    uvec2 taps = uvec2(kernel_height, kernel_width);
    uvec2 dilation = uvec2(dilation_y, dilation_x);
    LOADED4 outside = padding();
#ifdef IS_FLOAT
    int zero = 0;
#else
    int zero = weight_zero;
#endif

    Window windows[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) windows[g] = window_of(first_row + g * LANES + lane);
    Output target = output_of(gl_WorkGroupID.y * BLOCK + lane * 4u);
    ACC4 sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = target.bias;

    uint fours = taps.x * taps.y * divide_up(channels, 4u);
    uint at = weights_offset * WEIGHT_VALUES / LOAD_VALUES + gl_WorkGroupID.y * fours * FOUR_LOADS * LANES + lane;
    for (uint ky = 0; ky < taps.x; ky++) {
        for (uint kx = 0; kx < taps.y; kx++) {
            uint addresses[MAX_GROUPS];
            [[unroll]] for (uint g = 0; g < GROUPS; g++)
                addresses[g] = tap_address(windows[g], ky * dilation.x, kx * dilation.y);
            for (uint c = 0; c < channels; c += FOURS * 4u) {
                ACC4 inputs[2][MAX_GROUPS];
                [[unroll]] for (uint g = 0; g < GROUPS; g++)
                    load_fours(addresses[g], c, outside, inputs[0][g], inputs[1][g]);
                [[unroll]] for (uint four = 0; four < FOURS; four++) {
                    ACC4 weight[4];
                    load_weights(at, zero, weight);
                    at += FOUR_LOADS * LANES;
                    // Row by row, not step by step: there are more sums than registers, and so each is fetched and
                    // put away once for four steps.
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        [[unroll]] for (uint k = 0; k < 4u; k++)
                            sums[r] += subgroupShuffle(inputs[four][r / LANES][k], r % LANES) * weight[k];
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        if (first_row + r < rows) store_output(first_row + r, target, sums[r]);
}

#else

const uint COLUMNS = 64;                 // output channels per workgroup, four to an invocation
const uint QUADS = COLUMNS / 4;          // and so invocations along x
const uint MAX_ROWS = 64;
const uint INVOCATION_ROWS = ROWS / 8;   // output pixels per invocation; invocations along y: 8
const uint STRETCH = 4;                  // fours of K per stage
const uint INVOCATIONS = QUADS * 8;

#ifdef IS_FLOAT
// Floats are staged with K outermost, so that an invocation reads its pixels as vectors; one vector more to a
// line keeps the writers off each other's banks.
shared float stage_inputs[STRETCH * 4][MAX_ROWS + 4];
shared vec4 stage_weights[STRETCH * 4][QUADS];
const uint FOUR_WEIGHTS = 32;    // vectors that hold four steps of a block
#else
shared uint stage_inputs[STRETCH][MAX_ROWS];
shared uvec4 stage_weights[STRETCH][QUADS];
const uint FOUR_WEIGHTS = 8;
#endif
const uint BLOCK_WEIGHTS = STRETCH * FOUR_WEIGHTS;

void main() {
    uint column = gl_LocalInvocationID.x;
    uint line = gl_LocalInvocationID.y;
    uint invocation = line * QUADS + column;
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * ROWS;
    uint first_channel = gl_WorkGroupID.y * COLUMNS;
    uint channel = first_channel + column * 4u;

    ACC4 sums[MAX_ROWS / 8];
    Output target = output_of(channel);
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) sums[r] = target.bias;

    // Four neighbouring invocations read sixteen neighbouring channels of one pixel.
    uint load_quad = invocation % STRETCH;
    uint load_row = invocation / STRETCH;
    const uint LOAD_ROWS = INVOCATIONS / STRETCH;
    const uint LOADS = (ROWS + LOAD_ROWS - 1u) / LOAD_ROWS;
    Window windows[MAX_ROWS / (INVOCATIONS / STRETCH)];
    [[unroll]] for (uint i = 0; i < LOADS; i++) windows[i] = window_of(first_row + load_row + i * LOAD_ROWS);

    uint quads = divide_up(channels, 4u);    // fours of channels
    uint steps = kernel_height * kernel_width * quads;
    for (uint step = 0; step < steps; step += STRETCH) {
        uint tap = (step + load_quad) / quads;
        uint c = (step + load_quad) % quads * 4u;
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            uint address = OUTSIDE;
            if (step + load_quad < steps)
                address = tap_address(windows[i], tap / kernel_width * dilation_y, tap % kernel_width * dilation_x);
            LOADED4 loaded = load_input(address, c, padding());
            uint r = load_row + i * LOAD_ROWS;
            if (r < ROWS) {
#ifdef IS_FLOAT
                [[unroll]] for (uint k = 0; k < 4u; k++) stage_inputs[load_quad * 4u + k][r] = loaded[k];
#else
                stage_inputs[load_quad][r] = loaded;
#endif
            }
        }
        // Weights, in the order in which they lie in two blocks of packed channels.
        for (uint i = invocation; i < 2u * BLOCK_WEIGHTS; i += INVOCATIONS) {
            uint side = i / BLOCK_WEIGHTS;
            uint from = i % BLOCK_WEIGHTS;
            uint block = first_channel / BLOCK + side;
            bool inside = block * BLOCK < out_channels && step + from / FOUR_WEIGHTS < steps;
            uint at = inside ? (block * steps + step) * FOUR_WEIGHTS + from : 0u;
            WEIGHTS4 loaded = weights[(weights_offset >> 2) + at];
#ifdef IS_FLOAT
            uint k = from / 16u * 2u + from % 2u;
            uint quad = from / 2u % 8u;
#else
            uint k = from / 8u;
            uint quad = from % 8u;
#endif
            stage_weights[k][side * (QUADS / 2u) + quad] = inside ? loaded : WEIGHTS4(0);
        }
        barrier();
        // Steps past the last one have zeros on the side of the input.
        [[unroll]] for (uint q = 0; q < STRETCH; q++) {
#ifdef IS_FLOAT
            [[unroll]] for (uint k = 0; k < 4u; k++) {
                vec4 weight = stage_weights[q * 4u + k][column];
                [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
                    sums[r] += stage_inputs[q * 4u + k][line * INVOCATION_ROWS + r] * weight;
            }
#else
            uvec4 words = stage_weights[q][column];
            ivec4 inputs[MAX_ROWS / 8];
            [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
                inputs[r] = input_steps(stage_inputs[q][line * INVOCATION_ROWS + r]);
            [[unroll]] for (uint k = 0; k < 4u; k++) {
                ivec4 weight = ivec4((words >> (8u * k)) & 0xffu) - weight_zero;
                [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) sums[r] += inputs[r][k] * weight;
            }
#endif
        }
        barrier();
    }
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        uint row = first_row + line * INVOCATION_ROWS + r;
        if (row < rows) store_output(row, target, sums[r]);
    }
}

#endif
