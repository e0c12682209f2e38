#version 450
// GEMMs: CONV_2D, GROUPED_CONV_2D and TRANSPOSE_CONV_2D on NHWC tensors as implicit matrix products, and
// FULLY_CONNECTED and BATCH_MATMUL as convolutions of one tap. A row of the left matrix is the window of one output
// pixel, gathered from the input during the GEMM. A column of the right matrix is a filter. K runs over the taps and,
// innermost, over the channels of a filter.
//
// A GEMM may have equal parts (SPLIT) with separate filters: the groups of channels of GROUPED_CONV_2D, the batches of
// BATCH_MATMUL, or the phases of TRANSPOSE_CONV_2D. A phase is the set of output pixels with the same remainders modulo
// the strides. All of them use the same taps, every stride-th of the filter.
//
// Weights are packed (lowering/gemm/weights.py; for TILE_COOPERATIVE_MATRIX: lowering/gemm/tiles/cooperative_matrix.py).
// For TILE_SUBGROUP and TILE_SHARED, they are in blocks of 32 output channels of a part. A block consists of vec4s of
// K; a vec4 of K has eight lanes of four output channels each. Bytes take four words per lane, with a byte for each
// element of K. Numbers of 32 bits have elements 0 and 1 of K of every lane first, then 2 and 3. Missing channels are
// filled with zeros (zero points). TILE_REGISTER and TILE_QUADS also accept weights in order, like the right operand of
// BATCH_MATMUL: output channels innermost, padded to vec4s, and K outside.
//
// SUMS_SPLIT divides K among workgroups (include/gemm/split_k.glsl). With CHECKED, each invocation stores a check word for
// gemm_checksum.comp.
//
// A tile is the result of a workgroup and the way in which its invocations share loads. Each value of the axis TILE has a
// file in include/gemm/, which is included below, and a module in lowering/gemm/tiles/. All but TILE_COOPERATIVE_MATRIX
// multiply with include/gemm/arithmetic.glsl. gemm/strategies.py chooses one.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef ARITHMETIC_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif

#ifdef TILE_DEPTHWISE
#define TILE_SHARED    // whose input is computed
#endif
#ifdef SUMS_SPLIT_CHECKED
#define SUMS_SPLIT
#endif
#if defined(SUMS_WHOLE_CHECKED) || defined(SUMS_SPLIT_CHECKED)
#define CHECKED
#endif
#if defined(SUMS_SPLIT_CHECKED) && defined(EPILOGUE_FUSED)
#define BIASES_FOLLOW
#endif
#define MAY_DIVIDE_AS_FLOATS
#include "include/tensors.glsl"
#include "include/indexing.glsl"

#if defined(TILE_SUBGROUP) || defined(TILE_SHARED)
layout(local_size_x_id = 0, local_size_y_id = 1) in;
#else
layout(local_size_x_id = 0) in;
#endif
// Output pixels per workgroup; for TILE_REGISTER and TILE_QUADS per invocation.
layout(constant_id = 3) const uint ROWS = 16;
// Channels of a round, which divide all channels: 1, 4 or, if the tile supports it, 8 or 16.
layout(constant_id = 4) const uint SPAN = 4;
// A part has a multiple of four output channels.
layout(constant_id = 5) const bool VECTOR_STORES = true;
// A window may reach into the padding, or end before it.
layout(constant_id = 11) const bool PADDED = true;
// A filter has one tap, and windows are contiguous like the output pixels: CONV_2D with 1 x 1, and matrices.
layout(constant_id = 14) const bool ONE_TAP = false;
layout(constant_id = 15) const bool SIDE_BY_SIDE = false;
// Distances between windows, and between the taps of one.
layout(constant_id = 45) const uint STRIDE_Y = 1;
layout(constant_id = 46) const uint STRIDE_X = 1;
layout(constant_id = 47) const uint DILATION_Y = 1;
layout(constant_id = 48) const uint DILATION_X = 1;
// The dimension that divides the GEMM into parts.
layout(constant_id = 6) const uint SPLIT = 1;
// Workgroups go through all tiles of pixels for each block of output channels, not the other way round.
layout(constant_id = 49) const bool PIXELS_INSIDE = false;
// There are more workgroups in a dimension than the device can dispatch, so the dispatch is a long range in x and y.
layout(constant_id = 50) const bool FOLDED = false;
// For BATCHES: the number of matrices whose rows are interleaved in rows of the input, of weights in order, and of the
// output.
layout(constant_id = 33) const uint SOURCE_PARTS = 1;
layout(constant_id = 34) const uint WEIGHT_PARTS = 1;
layout(constant_id = 35) const uint TARGET_PARTS = 1;
#ifdef DTYPE_Q8
// Bytes of the input, the output and weights in order are signed. These are not push constants, because there are no
// more.
layout(constant_id = 12) const bool SIGNED = false;
layout(constant_id = 13) const bool WEIGHTS_SIGNED = false;
const uint sign_mask = SIGNED ? 0x80808080u : 0u;
const uint weight_sign_mask = WEIGHTS_SIGNED ? 0x80808080u : 0u;
#endif
// The channels of a filter if it has fewer than four, so that no more are loaded; otherwise 4.
layout(constant_id = 58) const uint FEW = 4;
#ifdef DTYPE_F16
// The input has 32-bit floats, which are clamped and converted to 16-bit floats when loaded; only for SPAN below 4.
layout(constant_id = 37) const bool FROM_FLOATS = false;
#else
const bool FROM_FLOATS = false;
#endif

const uint NOTHING = 1;
const uint CHANNELS = 2;
const uint PHASES = 3;
const uint BATCHES = 4;

const uint BLOCK = 32;               // output channels in a block of packed weights
const uint OUTSIDE = 0xffffffffu;    // the address of values in the padding

READS(0, Src, src)
#ifdef DTYPE_F16
READ_VIEW(0, Src_Floats, src_floats, float)
#endif
#ifdef WEIGHTS_ARE_BYTES
#define WEIGHTS4 uvec4
#define WEIGHTS_WORDS 4
READ_VIEW(1, Weights, weights, uvec4)
READ_VIEW(1, Weights_Words, weights_words, uint)
#else
#define WEIGHTS4 WEIGHT4
#define WEIGHTS_WORDS WEIGHT_WORDS
READ_VIEW(1, Weights, weights, WEIGHTS4)
#endif
#if FOUR_WORDS < 4 && (defined(DTYPE_Q8) || defined(STORED_ALONE))
#define HAS_WIDE_VIEW
const uint WIDE_SPAN = 16 / FOUR_WORDS;
READ_VIEW(0, Src_Wide, src_wide, uvec4)
#if WEIGHTS_WORDS == 2
READ_VIEW(1, Weights_Wide, weights_wide, uvec4)
#endif
#endif
// The loaded form of the input: 16-bit elements stay packed in words, which need one selection instead of two.
#define LOADED4 FOUR

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
#ifndef BIASES_FOLLOW
    uint bias_offset;
#endif
    uint dst_offset;
#ifdef IS_QUANTISED
    uint multipliers_offset;
#endif
#ifdef EPILOGUE_FUSED
    uint extra_offset;
#ifndef DTYPE_Q8
    uint parameters_offset;
#endif
#endif
#ifdef SUMS_SPLIT
    uint sums_offset;
    uint counters_offset;
#endif
#ifdef CHECKED
    uint checks_offset;
#endif
    uint rows;    // output pixels of a part
    uint out_height;
    uint out_width;
    uint out_channels;    // of a part
    uint height;
    uint width;
    uint channels;    // of a pixel of the input, or of the larger one that it is a part of
    uint depth;       // of them, those that a filter sees
    uint parts;
    uint kernel_height;
    uint kernel_width;
    int pad_top;
    int pad_left;
    uint magic_height;    // to divide by the height and width of a part's output
    uint magic_width;
    uint pitches;
#ifndef WEIGHTS_ARE_BYTES
    uint weights_pitch;    // elements of the larger rows that right matrices are column ranges of, or 0
#endif
#ifdef ARITHMETIC_INT8
    int weight_zero;
#endif
    ACC low;
    ACC high;
#ifdef ARITHMETIC_HALF
    float weight_scale;    // the inverse of the scale of weights
#ifdef SUMS_SPLIT
    float left_scale;    // the scale of stored sums
#endif
#endif
#ifdef DTYPE_Q8
    int input_zero;
    int weight_zero;
    int output_zero;
    uint last_word;    // of the input
#endif
};

#ifdef WEIGHTS_ARE_BYTES
#include "include/packed_weights.glsl"
#else
#define packed_weights_at weights_at
#endif

// The distance in vec4s between rows of weights in order; a part has `vec4s` of each row.
uint weight_row(uint vec4s) {
    uint dense = (SPLIT == CHANNELS ? parts : WEIGHT_PARTS) * vec4s;
#ifdef WEIGHTS_ARE_BYTES
    return dense;
#else
    return weights_pitch == 0u ? dense : weights_pitch / 4u;
#endif
}

// No invocation of TILE_REGISTER has output channels past the last one.
layout(constant_id = 59) const bool WHOLE_COLUMNS = false;
#define ALL_STORED WHOLE_COLUMNS

#define PIXEL_PARTS (SPLIT == CHANNELS ? parts : TARGET_PARTS)
#define PARTS_ALIKE (SPLIT != CHANNELS)

// Bindings behind those of filter_output.glsl.
#if defined(EPILOGUE_FUSED)
#define FREE_BINDING 6
#elif defined(IS_QUANTISED)
#define FREE_BINDING 5
#else
#define FREE_BINDING 4
#endif
#ifdef SUMS_SPLIT
#define SUMS_BINDING FREE_BINDING
#define COUNTERS_BINDING (FREE_BINDING + 1)
#ifdef BIASES_FOLLOW
#define CHECKS_BINDING 2
#else
#define CHECKS_BINDING (FREE_BINDING + 2)
#endif
#endif

#if defined(TILE_DEPTHWISE) && defined(BIASES_FOLLOW)
uint depthwise_vec4s();
#define VEC4S_BEHIND_BIASES depthwise_vec4s()    // include/gemm/depthwise_windows.glsl
#endif
#include "include/filter_output.glsl"

#ifdef SUMS_SPLIT
// The form in which a K slice stores a vector of sums.
#if defined(ARITHMETIC_HALF)
#define LEFT uvec2
#define LEFT_WORDS 2
#elif defined(DTYPE_Q16)
#define LEFT TOTAL
#define LEFT_WORDS 8
#else
#define LEFT TOTAL
#define LEFT_WORDS 4
#endif
layout(set = 0, binding = SUMS_BINDING) coherent buffer Sums { LEFT left_sums[]; };
layout(set = 0, binding = COUNTERS_BINDING) coherent buffer Counters { uint counters[]; };    // zero
#endif

#ifdef WEIGHTS_ARE_BYTES
const uint WEIGHT_VALUES = 4;    // in a word
#else
const uint WEIGHT_VALUES = 4 / WEIGHTS_WORDS;
#endif

struct Part {
    uint number;
    uint filters;    // the number of the part that has the same filters as this one
    uint source;     // index in src of the part's first value
    ivec2 origin;    // the beginning of the window of the part's first output pixel, perhaps in the padding
    uvec2 size;      // output pixels
    uvec2 phase;     // of these the first in the output
    ivec2 pitch;     // in the input, from a tap to the next
    uvec2 taps;      // of a filter
    uvec2 first;     // of these the first in the filter, of which every stride-th counts
};

Part part_of(uint number) {
    uint source = src_offset * (FROM_FLOATS ? 1u : WORD_VALUES);
    if (SPLIT == CHANNELS) source += number * depth;
    if (SPLIT == BATCHES) source += number / SOURCE_PARTS * height * width * channels + number % SOURCE_PARTS * depth;
    uvec2 taps = ONE_TAP ? uvec2(1u) : uvec2(kernel_height, kernel_width), size = uvec2(out_height, out_width);
    if (SPLIT != PHASES)
        return Part(number, number, source, -ivec2(pad_top, pad_left), size, uvec2(0u),
                    ivec2(DILATION_Y, DILATION_X), taps, uvec2(0u));
    // Tap t of the filter maps element i of the input to element i * stride + t - pad of the output.
    uvec2 stride = uvec2(STRIDE_Y, STRIDE_X);
    uint across = min(STRIDE_X, out_width);
    uvec2 phase = uvec2(number / across, number % across);
    uvec2 reached = phase + uvec2(pad_top, pad_left);
    uvec2 first = reached % stride;
    taps = (max(taps, first) - first + stride - 1u) / stride;
    return Part(number, 0u, source, ivec2(reached / stride), (size + stride - 1u) / stride, phase, ivec2(-1),
                taps, first);
}

// The place where the window of an output pixel begins in the input; y and x may lie in the padding.
struct Window {
    uint start;    // index in src, as if src had the padding too
    int y;         // an unreachable position if there is no such pixel
    int x;
    uint pixel;    // index in dst, NO_PIXEL where there is no such pixel
};

const int UNREACHED = -0x40000000;    // far above all images

// The index in dst of the first pixel that contains a part, and the number of the part in that pixel.
uint first_pixel(Part part) { return SPLIT == BATCHES ? part.number / TARGET_PARTS * rows : 0u; }
uint place_in_pixel(Part part) {
    return SPLIT == CHANNELS ? part.number : SPLIT == BATCHES ? part.number % TARGET_PARTS : 0u;
}

Window window_of(Part part, uint row, bool exists) {
    if (SIDE_BY_SIDE) {
        uint source = part.source + min(row, rows - 1u) * channels;
        return Window(source, 0, 0, mix(NO_PIXEL, first_pixel(part) + row, exists));
    }
    uint index = PADDED ? row : min(row, rows - 1u), line = divide(index, part.size.y, magic_width);
    uint image = divide(line, part.size.x, magic_height);
    uvec2 at = uvec2(line - image * part.size.x, index - line * part.size.y);
    uint pixel = first_pixel(part) + row;
    ivec2 start = part.origin;
    if (SPLIT == PHASES) {
        uvec2 target = part.phase + at * uvec2(STRIDE_Y, STRIDE_X);
        exists = all(bvec3(exists, target.x < out_height, target.y < out_width));
        pixel = (image * out_height + target.x) * out_width + target.y;
        start += ivec2(at);
    } else {
        start += ivec2(at * uvec2(STRIDE_Y, STRIDE_X));
    }
    uint first = part.source + ((image * height + uint(start.x)) * width + uint(start.y)) * channels;
    return Window(first, PADDED && !exists ? UNREACHED : start.x, start.y, mix(NO_PIXEL, pixel, exists));
}

Window window_of(Part part, uint row) { return window_of(part, row, row < rows); }

// The index in src of the first channel of a part's tap, or OUTSIDE.
uint tap_address(Part part, Window window, uint down, uint right) {
    if (SIDE_BY_SIDE) return window.start;
    uvec2 shift = uvec2(part.pitch) * uvec2(down, right);
    uint address = window.start + (shift.x * width + shift.y) * channels;    // wraps if a stride is negative
    if (!PADDED) return address;
    bool inside = all(lessThan(uvec2(window.y, window.x) + shift, uvec2(height, width)));
    return mix(OUTSIDE, address, inside);
}

// The number of a part's tap in the filter.
uint tap_number(Part part, uint down, uint right) {
    if (SPLIT != PHASES) return down * kernel_width + right;
    return (part.first.x + down * STRIDE_Y) * kernel_width + part.first.y + right * STRIDE_X;
}

// The value of four channels in the padding.
LOADED4 padding() {
#ifdef DTYPE_Q8
    return (uint(input_zero) * 0x01010101u) ^ sign_mask;
#else
    return LOADED4(0);
#endif
}

// One of two values, selected without a branch.
LOADED4 where(bool condition, LOADED4 loaded, LOADED4 otherwise) {
#ifdef DTYPE_Q8
    return mix(otherwise, loaded, condition);
#else
    [[unroll]] for (uint i = 0; i < loaded.length(); i++) loaded[i] = mix(otherwise[i], loaded[i], condition);
    return loaded;
#endif
}

// Four elements of K of one pixel: channels c + next to c + next + 3 of the tap at an address; arbitrary values if the
// address is OUTSIDE. `next` is a constant below SPAN, or 0; it costs nothing.
LOADED4 load_anything(uint address, uint c, uint next) {
    uint at = PADDED ? mix(0u, address + c, address != OUTSIDE) : address + c;
#ifdef DTYPE_Q8
    uint loaded = src_at((at >> 2) + next / 4u);
    return SPAN < 4u ? join_words(loaded, src_at(min((at + 3u) >> 2, src_offset + last_word)), at) : loaded;
#else
    if (SPAN >= 4u) return src_vec4s_at((at >> 2) + next / 4u);
    uint left = FEW < 4u ? FEW : depth - c;    // weights are 0 past the last channel, but 0 * inf is not
#if FOUR_WORDS == 4
    uvec4 offsets = uvec4(0u, 1u, 2u, 3u), from = at + min(offsets, uvec4(left - 1u));
    ACC4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = LOAD_FROM_WITH(src, from[i], 0u);
    return mix(ACC4(0), values, lessThan(offsets, uvec4(left)));
#else
#ifdef DTYPE_F16
    if (FROM_FLOATS) {
        uvec4 offsets = uvec4(0u, 1u, 2u, 3u), from = at + min(offsets, uvec4(left - 1u));
        vec4 values;
        [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = src_floats_at(from[i]);
        return HIDDEN(pack_float16(mix(vec4(0.0), within_float16(values), lessThan(offsets, uvec4(left)))));
    }
#endif
    uint last = (at + min(left, 4u) - 1u) >> 1;
    uint words[3];
    [[unroll]] for (uint i = 0; i < 3u; i++) words[i] = FEW < 4u && i == 2u ? 0u : src_at(min((at >> 1) + i, last));
    uvec2 even = uvec2(words[0], words[1]);
    uvec2 bits = mix(even, even >> 16 | uvec2(words[1], words[2]) << 16, bvec2((at & 1u) != 0u));
    return bits & uvec2(left == 1u ? 0xffffu : ~0u, left >= 4u ? ~0u : left == 3u ? 0xffffu : 0u);
#endif
#endif
}

// The same, with the value of the padding if the address is OUTSIDE.
LOADED4 load_input(uint address, uint c, uint next, LOADED4 outside) {
    LOADED4 loaded = load_anything(address, c, next);
    return PADDED ? where(address != OUTSIDE, loaded, outside) : loaded;
}

// The position of a workgroup: its part, and the row and the block of output channels in it.
struct Place {
    uint tile;
    uint k_slice;    // of K
    uint part;    // as many as there are, or more, past the last
    uint row;
    uint block;
#ifdef CHECKED
    uint checks;    // the place of the workgroup among those that store check words, with those of a tile of pixels together
#endif
};

// The position of a workgroup that computes this number of output channels and pixels. In a dispatch x is the block of
// channels, with its K slices innermost, y the tile of pixels, or the other way round with PIXELS_INSIDE, and z the part.
Place place_of_group(uint channels, uint pixels, uint split_k) {
    uint tiles = divide_up(rows, pixels), blocks = divide_up(out_channels, channels);
    uint inside = PIXELS_INSIDE ? tiles : blocks, outside = PIXELS_INSIDE ? blocks : tiles;
    uvec3 at = gl_WorkGroupID;
    if (FOLDED) {
        uint group = at.y * gl_NumWorkGroups.x + at.x, line = group / (inside * split_k), part = line / outside;
        at = uvec3(group - line * (inside * split_k), line - part * outside, part);
    }
    uint x = at.x / split_k, tile = (at.z * outside + at.y) * inside + x;
    uint down = PIXELS_INSIDE ? x : at.y, block = PIXELS_INSIDE ? at.y : x;
    return Place(tile, at.x - x * split_k, at.z, down * pixels, block
#ifdef CHECKED
        , (down * parts + at.z) * blocks + block
#endif
    );
}

// The end of an invocation that stores a check word, behind others if there are any.
#ifdef CHECKED
#ifdef TILE_DEPTHWISE
#define FIRST_CHECK (checks_offset + 2u * depthwise_words())
#else
#define FIRST_CHECK checks_offset
#endif
#define STORE_CHECK(place)                                                                         \
    if (place.part < parts) checks[FIRST_CHECK + place.checks * gl_WorkGroupSize.x * gl_WorkGroupSize.y + \
                                   gl_LocalInvocationIndex] = checked_sum();
#else
#define STORE_CHECK(place)
#endif

// The first block of packed weights of a part.
uint first_block(Part part) { return part.filters * divide_up(out_channels, BLOCK); }

#include "include/gemm/{TILE}.glsl"
