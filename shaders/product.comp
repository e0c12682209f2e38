#version 450
// Products: CONV_2D, GROUPED_CONV_2D and TRANSPOSE_CONV_2D on NHWC tensors as implicit matrix products, FULLY_CONNECTED
// and BATCH_MATMUL as convolutions of one tap. A row of the left matrix is the window of one output pixel, gathered
// from the input while the product runs; a column of the right one is a filter; K runs over the taps and, innermost,
// over the channels that a filter sees.
//
// A product may consist of equal parts (SPLIT), each with filters of its own: the groups of channels of GROUPED_CONV_2D;
// the batches of BATCH_MATMUL; and the phases of TRANSPOSE_CONV_2D, which are the output pixels that have the same
// remainders by the strides: the same taps reach them all, every stride-th of the filter's.
//
// Weights come packed (lowering/filters.py). For TILE_SUBGROUP and TILE_SHARED in blocks of 32 output channels of a
// part; in a block, in fours of steps of K; in a four, for eight lanes of four output channels each, as bytes four
// words, a byte for a step; as numbers of 32 bits first the steps 0 and 1 of every lane, then 2 and 3. Tails of
// channels are filled with zeros (zero points). For TILE_REGISTER they lie as BATCH_MATMUL's right operand does: output
// channels innermost, filled up to fours; steps of K around them.
//
// TILE_SUBGROUP is for drivers that run a subgroup of eight invocations as one SIMD vector (llvmpipe). There the cost
// is in loads, which are made lane by lane, also those from shared memory and those whose address is the same in
// all lanes. So every lane loads something else, of weights and of input, and the input goes to the other lanes by
// shuffles, which are single instructions. Floats are loaded by eights, as four numbers of 64 bits: that costs no
// more than four floats. A workgroup is one subgroup.
// TILE_SHARED stages both operands in shared memory, in a workgroup of 16 x 8 invocations that reads whole cache
// lines, and asks for no subgroup operations.
// TILE_REGISTER shares nothing: an invocation computes four output channels of a few pixels. It is for parts with few
// output channels, of which the other tiles would leave most of a block empty, and for few rows.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef TILE_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#ifndef DTYPE_Q8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#endif

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;
// Output pixels per workgroup, of TILE_REGISTER per invocation.
layout(constant_id = 3) const uint ROWS = 16;
// Channels that a load of input takes, a divisor of all: 1, 4 or, where the tile can load eight floats, 8.
layout(constant_id = 4) const uint SPAN = 4;
// A part has a multiple of four output channels.
layout(constant_id = 5) const bool VECTOR_STORES = true;
// What the product is split by.
layout(constant_id = 6) const uint SPLIT = 1;

const uint NOTHING = 1;
const uint CHANNELS = 2;
const uint PHASES = 3;
const uint BATCHES = 4;

const uint BLOCK = 32;               // output channels in a block of packed weights
const uint OUTSIDE = 0xffffffffu;    // the address of what is in the padding

READS(0, Src, src)
#ifdef IS_QUANTISED
#define WEIGHTS4 uvec4
#define LOADED4 uint
layout(set = 0, binding = 1) readonly buffer Weights { uvec4 weights[]; };
layout(set = 0, binding = 1) readonly buffer Weights_Words { uint weights_words[]; };
#else
// The weights of 16-bit floats are 32-bit ones too, and so is what is loaded of the input.
#define WEIGHTS4 ACC4
#define LOADED4 ACC4
layout(set = 0, binding = 1) readonly buffer Weights { ACC4 weights[]; };
#ifdef TILE_SUBGROUP
layout(set = 0, binding = 0) readonly buffer Src_Eights { u64vec4 src_eights[]; };
layout(set = 0, binding = 1) readonly buffer Weights_Eights { u64vec4 weights_eights[]; };
#endif
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
#ifdef DTYPE_Q8
    uint multipliers_offset;
#endif
    uint rows;    // output pixels of a part
    uint out_height;
    uint out_width;
    uint out_channels;    // of a part
    uint height;
    uint width;
    uint channels;    // of a pixel of the input
    uint depth;       // of them, those that a filter sees
    uint parts;
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
#ifdef TILE_REGISTER
    uint weight_sign_mask;
#endif
#endif
};

#define PIXEL_PARTS (SPLIT == CHANNELS ? parts : 1u)

#include "include/filter_output.glsl"

#ifdef IS_QUANTISED
const uint WEIGHT_VALUES = 4;    // in a word
#else
const uint WEIGHT_VALUES = 1;
#endif

struct Part {
    uint number;
    uint filters;    // the number of the part that has the same filters as this one
    uint source;     // index in src of the part's first value
    ivec2 origin;    // where in the input the window of the part's first output pixel begins; it may lie in the padding
    uvec2 size;      // output pixels
    uvec2 phase;     // of these the first in the output
    ivec2 step;      // in the input, from a tap to the next
    uvec2 taps;      // of a filter
    uvec2 first;     // of these the first in the filter, of which every stride-th counts
};

Part part_of(uint number) {
    uint source = src_offset * WORD_VALUES;
    if (SPLIT == CHANNELS) source += number * depth;
    if (SPLIT == BATCHES) source += number * height * width * channels;
    uvec2 taps = uvec2(kernel_height, kernel_width), size = uvec2(out_height, out_width);
    if (SPLIT != PHASES)
        return Part(number, number, source, -ivec2(pad_top, pad_left), size, uvec2(0u),
                    ivec2(dilation_y, dilation_x), taps, uvec2(0u));
    // Tap t of the filter takes element i of the input to element i * stride + t - pad of the output.
    uvec2 stride = uvec2(stride_y, stride_x);
    uint across = min(stride_x, out_width);
    uvec2 phase = uvec2(number / across, number % across);
    uvec2 reached = phase + uvec2(pad_top, pad_left);
    uvec2 first = reached % stride;
    taps = (max(taps, first) - first + stride - 1u) / stride;
    return Part(number, 0u, source, ivec2(reached / stride), (size + stride - 1u) / stride, phase, ivec2(-1),
                taps, first);
}

// Where the window of an output pixel begins in the input; y and x may lie in the padding.
struct Window {
    uint base;     // index in src of the image's first value, OUTSIDE where there is no such pixel
    int y;
    int x;
    uint pixel;    // index in dst, NO_PIXEL where there is no such pixel
};

Window window_of(Part part, uint row) {
    uvec4 at = nhwc_coordinates(row, part.size.x, part.size.y, 1u);
    bool exists = row < rows;
    uint pixel = SPLIT == BATCHES ? part.number * rows + row : row;
    ivec2 start = part.origin;
    if (SPLIT == PHASES) {
        uvec2 target = part.phase + at.yz * uvec2(stride_y, stride_x);
        exists = all(bvec3(exists, target.x < out_height, target.y < out_width));
        pixel = (at.x * out_height + target.x) * out_width + target.y;
        start += ivec2(at.yz);
    } else {
        start += ivec2(at.yz * uvec2(stride_y, stride_x));
    }
    return Window(mix(OUTSIDE, part.source + at.x * height * width * channels, exists), start.x, start.y,
                  mix(NO_PIXEL, pixel, exists));
}

// The index in src of the first channel of a part's tap, or OUTSIDE.
uint tap_address(Part part, Window window, uint down, uint right) {
    int y = window.y + int(down) * part.step.x;
    int x = window.x + int(right) * part.step.y;
    bool inside = all(bvec3(window.base != OUTSIDE, uint(y) < height, uint(x) < width));
    return mix(OUTSIDE, window.base + (uint(y) * width + uint(x)) * channels, inside);
}

// The number of a part's tap in the filter.
uint tap_number(Part part, uint down, uint right) {
    if (SPLIT != PHASES) return down * kernel_width + right;
    return (part.first.x + down * stride_y) * kernel_width + part.first.y + right * stride_x;
}

// What stands for four values outside.
LOADED4 padding() {
#ifdef IS_QUANTISED
    return (uint(input_zero) * 0x01010101u) ^ sign_mask;
#else
    return ACC4(0);
#endif
}

// Four steps of K of one pixel: channels c to c + 3 of the tap at an address.
LOADED4 load_input(uint address, uint c, LOADED4 outside) {
    bool inside = address != OUTSIDE;
    uint at = mix(0u, address + c, inside);
#ifdef IS_QUANTISED
    uint loaded = src[at >> 2];
    if (SPAN < 4u) loaded = join_words(loaded, src[min((at + 3u) >> 2, src_offset + last_word)], at);
    return mix(outside, loaded, inside);
#else
    if (SPAN >= 4u) return mix(outside, DECODE4(src_fours[at >> 2]), bvec4(inside));
    uint left = mix(0u, depth - c, inside);    // weights are 0 past the last channel, but 0 * inf is not
    uvec4 steps = uvec4(0u, 1u, 2u, 3u);
    uvec4 from = at + min(steps, uvec4(max(left, 1u) - 1u));
    ACC4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = LOAD_FROM_WITH(src, from[i], 0u);
    return mix(outside, values, lessThan(steps, uvec4(left)));
#endif
}

ACC4 input_steps(LOADED4 loaded) {
#ifdef IS_QUANTISED
    return unpack_bytes(loaded, sign_mask) - input_zero;
#else
    return loaded;
#endif
}

#if defined(TILE_REGISTER)

const uint MAX_ROWS = 8;

// The weights of a step for four output channels.
ACC4 load_weights(uint at) {
#ifdef IS_QUANTISED
    return unpack_bytes(weights_words[at], weight_sign_mask) - weight_zero;
#else
    return weights[at];
#endif
}

// Neighbouring invocations take neighbouring output channels, then neighbouring pixels.
void main() {
    uint index = flat_invocation();
    uint fours = divide_up(out_channels, 4u);
    uint lines = divide_up(rows, ROWS);    // the pixels of an invocation are so far apart
    uint step = fours * PIXEL_PARTS;       // fours of weights from a step of K to the next
    uint number, line, four;
    if (SPLIT == CHANNELS) {
        line = index / step;
        number = (index - line * step) / fours;
        four = index - line * step - number * fours;
    } else {
        uint tile = index / fours;
        number = tile / lines;
        line = tile - number * lines;
        four = index - tile * fours;
    }
    if (number >= parts || line >= lines) return;

    Part part = part_of(number);
    LOADED4 outside = padding();
    Window windows[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) windows[r] = window_of(part, line + r * lines);
    Output target = output_of(SPLIT == CHANNELS ? number : 0u, four * 4u);
    ACC4 sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = target.bias;

    uint first = weights_offset * WEIGHT_VALUES / 4u + four;
    if (SPLIT == CHANNELS) first += number * fours;
    if (SPLIT == BATCHES) first += number * depth * fours;
    for (uint ky = 0; ky < part.taps.x; ky++) {
        for (uint kx = 0; kx < part.taps.y; kx++) {
            uint addresses[MAX_ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) addresses[r] = tap_address(part, windows[r], ky, kx);
            uint at = first + tap_number(part, ky, kx) * depth * step;
            for (uint c = 0; c < depth; c += 4u) {
                ACC4 inputs[MAX_ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    inputs[r] = input_steps(load_input(addresses[r], c, outside));
                [[unroll]] for (uint k = 0; k < 4u; k++) {
                    bool inside = any(bvec2(SPAN != 1u, c + k < depth));
                    ACC4 weight = mix(ACC4(0), load_weights(mix(first, at, inside)), bvec4(inside));
                    at += step;
                    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] += inputs[r][k] * weight;
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        store_output(windows[r].pixel, target, sums[r]);
}

#else

// Where a workgroup stands: in a part, and in it at a row and at a block of so many output channels.
struct Place {
    uint part;    // as many as there are, or more, past the last
    uint row;
    uint block;
};

Place place_of_group(uint block_channels) {
    uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint tiles = divide_up(rows, ROWS), blocks = divide_up(out_channels, block_channels);
    uint column = tile / tiles;
    uint part = SPLIT == NOTHING ? uint(column >= blocks) : column / blocks;
    return Place(part, (tile - column * tiles) * ROWS, column - part * blocks);
}

// The block of packed weights that is a part's first.
uint first_block(Part part) { return part.filters * divide_up(out_channels, BLOCK); }

#if defined(TILE_SUBGROUP)

const uint LANES = 8;
const uint MAX_ROWS = 32;
const uint MAX_GROUPS = MAX_ROWS / LANES;
const uint GROUPS = (ROWS + LANES - 1u) / LANES;    // rows are loaded in groups, one to a lane
const uint FOURS = SPAN == 8u ? 2u : 1u;            // fours of channels by one load of input

#ifndef IS_QUANTISED
#ifdef IS_FLOAT
#define AS_ACC4(words) uintBitsToFloat(words)
#else
#define AS_ACC4(words) ivec4(words)
#endif
ACC4 numbers(u64vec2 pairs) { return AS_ACC4(uvec4(unpack32(pairs.x), unpack32(pairs.y))); }
#endif

// Channels c to c + 3 and, if SPAN is 8, c + 4 to c + 7 of the tap at an address.
void load_fours(uint address, uint c, LOADED4 outside, out ACC4 first, out ACC4 second) {
#if FOUR_WORDS == 4
    if (SPAN == 8u) {
        bool inside = address != OUTSIDE;
        u64vec4 eight = src_eights[mix(0u, address + c, inside) >> 3];
        first = mix(outside, numbers(eight.xy), bvec4(inside));
        second = mix(outside, numbers(eight.zw), bvec4(inside));
        return;
    }
#endif
    first = input_steps(load_input(address, c, outside));
}

#ifdef IS_QUANTISED
const uint LOAD_VALUES = 16;    // that a load of weights takes
const uint FOUR_LOADS = 1;      // such loads for a four of steps of K
#else
const uint LOAD_VALUES = 8;
const uint FOUR_LOADS = 2;
#endif

// The weights of four steps for four output channels, by loads that begin at an index.
void load_weights(uint at, int zero, out ACC4 steps[4]) {
#ifdef IS_QUANTISED
    uvec4 words = weights[at];
    [[unroll]] for (uint k = 0; k < 4u; k++) steps[k] = ivec4((words >> (8u * k)) & 0xffu) - zero;
#else
    u64vec4 front = weights_eights[at];
    u64vec4 back = weights_eights[at + LANES];
    steps = ACC4[](numbers(front.xy), numbers(front.zw), numbers(back.xy), numbers(back.zw));
#endif
}

// Push constants are read before the first loop or branch, or they would be loaded lane by lane as well.
void main() {
    uint lane = gl_LocalInvocationID.x;
    Place place = place_of_group(BLOCK);
    if (place.part >= parts) return;
    Part part = part_of(place.part);
    LOADED4 outside = padding();
#ifdef IS_QUANTISED
    int zero = weight_zero;
#else
    int zero = 0;
#endif

    Window windows[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) windows[g] = window_of(part, place.row + g * LANES + lane);
    Output target = output_of(SPLIT == CHANNELS ? part.number : 0u, place.block * BLOCK + lane * 4u);
    ACC4 sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = target.bias;

    uint tap_loads = divide_up(depth, 4u) * FOUR_LOADS * LANES;
    uint block_loads = kernel_height * kernel_width * tap_loads;
    uint first = weights_offset * WEIGHT_VALUES / LOAD_VALUES + (first_block(part) + place.block) * block_loads + lane;
    uint at = first;
    for (uint ky = 0; ky < part.taps.x; ky++) {
        for (uint kx = 0; kx < part.taps.y; kx++) {
            uint addresses[MAX_GROUPS];
            [[unroll]] for (uint g = 0; g < GROUPS; g++) addresses[g] = tap_address(part, windows[g], ky, kx);
            if (SPLIT == PHASES) at = first + tap_number(part, ky, kx) * tap_loads;    // else one follows the other
            for (uint c = 0; c < depth; c += FOURS * 4u) {
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
    uint first_pixel = SPLIT == BATCHES ? part.number * rows + place.row : place.row;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint pixel = mix(NO_PIXEL, first_pixel + r, place.row + r < rows);
        if (SPLIT == PHASES) pixel = subgroupShuffle(windows[r / LANES].pixel, r % LANES);
        store_output(pixel, target, sums[r]);
    }
}

#else

const uint COLUMNS = 64;                 // output channels per workgroup, four to an invocation
const uint QUADS = COLUMNS / 4;          // and so invocations along x
const uint MAX_ROWS = 64;
const uint INVOCATION_ROWS = ROWS / 8;   // output pixels per invocation; invocations along y: 8
const uint STRETCH = 4;                  // fours of K per stage
const uint INVOCATIONS = QUADS * 8;

#ifdef IS_QUANTISED
shared uint stage_inputs[STRETCH][MAX_ROWS];
shared uvec4 stage_weights[STRETCH][QUADS];
const uint FOUR_WEIGHTS = 8;     // vectors that hold four steps of a block
#else
// Numbers of 32 bits are staged with K outermost, so that an invocation reads its pixels as vectors; one vector more to
// a line keeps the writers off each other's banks.
shared ACC stage_inputs[STRETCH * 4][MAX_ROWS + 4];
shared ACC4 stage_weights[STRETCH * 4][QUADS];
const uint FOUR_WEIGHTS = 32;
#endif
const uint BLOCK_WEIGHTS = STRETCH * FOUR_WEIGHTS;

void main() {
    uint column = gl_LocalInvocationID.x;
    uint line = gl_LocalInvocationID.y;
    uint invocation = line * QUADS + column;
    Place place = place_of_group(COLUMNS);
    if (place.part >= parts) return;
    Part part = part_of(place.part);

    ACC4 sums[MAX_ROWS / 8];
    Output target = output_of(SPLIT == CHANNELS ? part.number : 0u, place.block * COLUMNS + column * 4u);
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) sums[r] = target.bias;

    // Four neighbouring invocations read sixteen neighbouring channels of one pixel.
    uint load_quad = invocation % STRETCH;
    uint load_row = invocation / STRETCH;
    const uint LOAD_ROWS = INVOCATIONS / STRETCH;
    const uint LOADS = (ROWS + LOAD_ROWS - 1u) / LOAD_ROWS;
    Window windows[MAX_ROWS / (INVOCATIONS / STRETCH)];
    [[unroll]] for (uint i = 0; i < LOADS; i++) windows[i] = window_of(part, place.row + load_row + i * LOAD_ROWS);

    uint quads = divide_up(depth, 4u);    // fours of channels
    uint steps = part.taps.x * part.taps.y * quads;
    uint block_steps = kernel_height * kernel_width * quads;
    for (uint step = 0; step < steps; step += STRETCH) {
        uint tap = (step + load_quad) / quads;
        uint c = (step + load_quad) % quads * 4u;
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            uint address = OUTSIDE;
            if (step + load_quad < steps)
                address = tap_address(part, windows[i], tap / part.taps.y, tap % part.taps.y);
            LOADED4 loaded = load_input(address, c, padding());
            uint r = load_row + i * LOAD_ROWS;
            if (r < ROWS) {
#ifdef IS_QUANTISED
                stage_inputs[load_quad][r] = loaded;
#else
                [[unroll]] for (uint k = 0; k < 4u; k++) stage_inputs[load_quad * 4u + k][r] = loaded[k];
#endif
            }
        }
        // Weights, in the order in which they lie in two blocks of packed channels.
        for (uint i = invocation; i < 2u * BLOCK_WEIGHTS; i += INVOCATIONS) {
            uint side = i / BLOCK_WEIGHTS;
            uint from = i % BLOCK_WEIGHTS;
            uint block = place.block * (COLUMNS / BLOCK) + side;
            uint here = step + from / FOUR_WEIGHTS;
            bool inside = block * BLOCK < out_channels && here < steps;
            if (SPLIT == PHASES) {
                uint of = here / quads;
                here += (tap_number(part, of / part.taps.y, of % part.taps.y) - of) * quads;
            }
            uint at = ((first_block(part) + block) * block_steps + here) * FOUR_WEIGHTS + from % FOUR_WEIGHTS;
            WEIGHTS4 loaded = weights[(weights_offset >> 2) + (inside ? at : 0u)];
#ifdef IS_QUANTISED
            uint k = from / 8u;
            uint quad = from % 8u;
#else
            uint k = from / 16u * 2u + from % 2u;
            uint quad = from / 2u % 8u;
#endif
            stage_weights[k][side * (QUADS / 2u) + quad] = inside ? loaded : WEIGHTS4(0);
        }
        barrier();
        // Steps past the last one have zeros on the side of the input.
        [[unroll]] for (uint q = 0; q < STRETCH; q++) {
#ifdef IS_QUANTISED
            uvec4 words = stage_weights[q][column];
            ivec4 inputs[MAX_ROWS / 8];
            [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
                inputs[r] = input_steps(stage_inputs[q][line * INVOCATION_ROWS + r]);
            [[unroll]] for (uint k = 0; k < 4u; k++) {
                ivec4 weight = ivec4((words >> (8u * k)) & 0xffu) - weight_zero;
                [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) sums[r] += inputs[r][k] * weight;
            }
#else
            [[unroll]] for (uint k = 0; k < 4u; k++) {
                ACC4 weight = stage_weights[q * 4u + k][column];
                [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
                    sums[r] += stage_inputs[q * 4u + k][line * INVOCATION_ROWS + r] * weight;
            }
#endif
        }
        barrier();
    }
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        uint pixel = window_of(part, place.row + line * INVOCATION_ROWS + r).pixel;
        store_output(pixel, target, sums[r]);
    }
}

#endif
#endif
