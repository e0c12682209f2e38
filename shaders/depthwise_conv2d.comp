#version 450
// DEPTHWISE_CONV_2D on NHWC tensors. An invocation computes a tile of output pixels of four channels. The tile is a few
// rows high and is computed column by column from left to right. Loads dominate the cost, so an input value is loaded
// once for all windows of the tile that contain it. Neighbouring invocations compute neighbouring channels, then
// neighbouring tiles. The geometry is in specialisation constants, so windows stay in registers.
//
// Weights have NNAPI's order, (kernel height, kernel width, channels), with channels padded to vec4s.
//
// Bytes are multiplied as floats, which is fast on all devices: the sums of a window in registers are exact. The
// input's zero point is subtracted outside the loop: sum (a - za) (w - zw) = sum a (w - zw) - za sum (w - zw).
//
// ARITHMETIC_HALF multiplies 16-bit floats and sums a window in 16 bits. The host has scaled the weights by a power of
// two so that the sums cannot overflow.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#ifdef SUMS_WHOLE_CHECKED
#define CHECKED    // each invocation stores a check word, for depthwise_checksum.comp
#define CHECK_FACTOR(pixel) check_factor
uint check_factor;    // of the next results
#endif
#define MAY_DIVIDE_AS_FLOATS
#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint KERNEL_HEIGHT = 3;
layout(constant_id = 4) const uint KERNEL_WIDTH = 3;
layout(constant_id = 5) const uint STRIDE_Y = 1;
layout(constant_id = 6) const uint STRIDE_X = 1;
layout(constant_id = 7) const uint DILATION_Y = 1;
layout(constant_id = 8) const uint DILATION_X = 1;
// Output rows per invocation.
layout(constant_id = 9) const uint TILE_HEIGHT = 4;
// The window is too large for registers and is walked by loops; TILE_HEIGHT is 1.
layout(constant_id = 10) const bool WINDOW_LOOPS = false;
// The number of channels is a multiple of four, and the depth multiplier is 1.
layout(constant_id = 11) const bool VECTOR_LOADS = true;
// A pixel of floats has a multiple of four output channels.
layout(constant_id = 12) const bool VECTOR_STORES = true;
// Output columns per invocation, and the number of columns that are computed together: one, or all.
layout(constant_id = 13) const uint TILE_WIDTH = 4;
layout(constant_id = 14) const uint AT_ONCE = 1;
// The tile is computed line by line of the input. Beside the sums there are one input value and the weights of the rows
// of the filter that meet the line, where the other order has all weights and a whole column of inputs. A tile has
// at most MAX_SUMS pixels.
layout(constant_id = 44) const bool BY_LINES = false;

#ifdef DTYPE_Q8
// Bytes of the input and the output, and of the weights, are signed.
layout(constant_id = 56) const bool SIGNED = false;
layout(constant_id = 57) const bool WEIGHTS_SIGNED = false;
const uint sign_mask = SIGNED ? 0x80808080u : 0u;
const uint weight_sign_mask = WEIGHTS_SIGNED ? 0x80808080u : 0u;
#endif
// The parameters of outputs, which are many for bytes, are loaded after the sums, so that these have their registers.
#ifdef DTYPE_Q8
#define ENDS_LATE BY_LINES
#else
#define ENDS_LATE false
#endif

// The part of the input under one column of the tile.
const uint COLUMNS = (KERNEL_WIDTH - 1u) * DILATION_X + 1u;
const uint COLUMN_HEIGHT = (TILE_HEIGHT - 1u) * STRIDE_Y + (KERNEL_HEIGHT - 1u) * DILATION_Y + 1u;
const uint KEPT = COLUMNS > STRIDE_X ? COLUMNS - STRIDE_X : 0u;    // of it, columns that the next one shares
const uint MAX_TAPS = 25;
const uint MAX_COLUMNS = 9;
const uint MAX_COLUMN_HEIGHT = 12;
// With BY_LINES: the lines of the input under the tile, their width, and the pixels of the tile.
const uint LINES = BY_LINES ? COLUMN_HEIGHT : 0u, LINE_WIDTH = (TILE_WIDTH - 1u) * STRIDE_X + COLUMNS;
const uint SUMS = BY_LINES ? TILE_HEIGHT * TILE_WIDTH : 0u, MAX_SUMS = 4;

READS(0, Src, src)
#ifdef IS_FLOAT
READ_VIEW(1, Weights, weights, WEIGHT4)
#else
READ_VIEW(1, Weights, weights, uint)
#endif
#ifdef DTYPE_Q8
#include "include/half_weights.glsl"    // then the bias has what is due to the input's zero point
READ_VIEW(1, Weights_Pairs, weights_pairs, uvec2)
READ_VIEW(1, Weights_Floats, weights_floats, vec4)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
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
#ifdef CHECKED
    uint checks_offset;
#endif
    uint batch;
    uint out_height;
    uint out_width;
    uint out_channels;
    uint height;
    uint width;
    uint channels;    // of a pixel of the input, or of the larger one that it is a part of
    uint depth_multiplier;
    int pad_top;
    int pad_left;
    uint magic_down;    // to divide by the tiles along the height and width of the output, and by its quads of channels
    uint magic_across;
    uint magic_quads;
    uint pitches;
    ACC low;
    ACC high;
#ifdef ARITHMETIC_HALF
    float weight_scale;    // the inverse of the scale of weights
#endif
#ifdef DTYPE_Q8
    int input_zero;
    int weight_zero;
    int output_zero;
#endif
};

#include "include/filter_output.glsl"

#ifdef CHECKED
#define STORE_CHECK checks[checks_offset + flat_invocation()] = checked_sum();
#define NEXT_RESULT(line, column) check_factor = position_factor(OF_LINES + (line)) * column_factor(column);
#else
#define STORE_CHECK
#define NEXT_RESULT(line, column)
#endif

// The types of the operands, and the beginning and end of sums. For 16-bit quantised values, the bias of up to 64 bits
// is added at the end.
#if defined(DTYPE_Q8)
#define FACTOR4 vec4
#define SUM_FROM(bias) (FLOAT_TOTALS ? vec4(bias) : vec4(0.0))
#define TOTAL_OF(sum) (target.bias + ivec4(sum))
#elif defined(DTYPE_Q16)
#define FACTOR4 ivec4
#define SUM_FROM(bias) ivec4(0)
#define TOTAL_OF(sum) narrow_total(sum)
#elif defined(ARITHMETIC_HALF)
#define FACTOR4 f16vec4
#define SUM_FROM(bias) f16vec4(0.0)
#define TOTAL_OF(sum) (target.bias + vec4(sum) * weight_scale)
#else
#define FACTOR4 ACC4
#define SUM_FROM(bias) (bias)
#define TOTAL_OF(sum) (sum)
#endif
#ifdef ARITHMETIC_HALF
#define FACTOR4_OF(four) native_float16(four)
#define WEIGHT_FACTOR4_OF(four) native_float16(four)
#else
#define FACTOR4_OF(four) DECODE4_WITH(four, 0u)
#define WEIGHT_FACTOR4_OF(four) FROM_WEIGHT4(four)
#endif

#if FOUR_WORDS == 4
#define WORDS_BOOL bvec4
#else
#define WORDS_BOOL bvec2
#endif

// The part of the input that an invocation reads: four channels of an image. Sizes are in elements, or in vec4s with
// VECTOR_LOADS.
struct Input {
    uint base;    // index of the image's first pixel; of VECTOR_LOADS of its first channel that is seen
    uint height;
    uint width;
    uint stride;    // from one pixel to the next,
    uint line;      // and from one line
    uvec4 channels;    // unless VECTOR_LOADS
#ifdef DTYPE_Q8
    uint sign_mask;
    uint padding;    // four zero points
#endif
};

Input input_of(uint image, uint quad) {
    uvec4 seen = min(quad * 4u + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u)) / depth_multiplier;
    uint stride = VECTOR_LOADS ? channels / 4u : channels, line = width * stride;
    uint base = (VECTOR_LOADS ? src_offset / FOUR_WORDS + quad : src_offset * WORD_VALUES) + image * height * line;
#ifdef DTYPE_Q8
    return Input(base, height, width, stride, line, seen, sign_mask, uint(input_zero) * 0x01010101u);
#else
    return Input(base, height, width, stride, line, seen);
#endif
}

// The offset of a line of an image, or of a column of a line, from the first one. In the padding it is that of the
// first one.
struct Offset {
    uint behind;
    bool inside;
};

// The offset of the line or column that is `ahead` of another one.
Offset offset_of(int first, uint ahead, uint size, uint pitch) {
    bool inside = uint(first) + ahead < size;
    return Offset(mix(0u, uint(first) * pitch + ahead * pitch, inside), inside);
}

// Four values, or zeros (zero points) in the padding. It has no branch: it is unrolled many times, and SwiftShader's
// compiler tries every path through branches, including ?: and &&.
FACTOR4 load_input(Input from, Offset line, Offset column) {
    bool inside = all(bvec2(line.inside, column.inside));
    uint at = from.base + line.behind + column.behind;
#ifdef DTYPE_Q8
    uint word = 0u;
    if (VECTOR_LOADS) {
        word = src_vec4s_at(at) ^ from.sign_mask;
    } else {
        [[unroll]] for (uint i = 0; i < 4u; i++)
            word |= uint(LOAD_FROM_WITH(src, at + from.channels[i], from.sign_mask)) << (8u * i);
    }
    return vec4(unpack_bytes(mix(from.padding, word, inside), 0u));
#else
    FACTOR4 loaded;
    if (VECTOR_LOADS) {
        // Words are selected, because there are fewer words than values.
        loaded = FACTOR4_OF(mix(FOUR(0), src_vec4s_at(at), WORDS_BOOL(inside)));
    } else {
        uvec4 each = at + from.channels;
        loaded = FACTOR4(LOAD_FROM_WITH(src, each.x, 0u), LOAD_FROM_WITH(src, each.y, 0u), LOAD_FROM_WITH(src, each.z, 0u),
                         LOAD_FROM_WITH(src, each.w, 0u));
        loaded = mix(FACTOR4(0), loaded, bvec4(inside));
    }
#ifdef DTYPE_Q16
    loaded = loaded << 16 >> 16;
#endif
    return loaded;
#endif
}

// The weights at an index of vec4s.
FACTOR4 load_weights(uint at) {
#if defined(IS_FLOAT)
    return WEIGHT_FACTOR4_OF(weights_at(weights_offset / WEIGHT_WORDS + at));
#elif defined(DTYPE_Q16)
    return unpack_signed_bytes(weights_at(weights_offset + at));
#else
    if (WHOLE_FLOATS) return weights_floats_at(weights_offset / 4u + at);
    if (HALF_WEIGHTS) return unpack_weights(weights_pairs_at(weights_offset / 2u + at));
    return vec4(unpack_bytes(weights_at(weights_offset + at), weight_sign_mask) - weight_zero);
#endif
}

FACTOR4 load_weights(uint tap, uint quad) { return load_weights(tap * divide_up(out_channels, 4u) + quad); }

// The row of a filter that meets a line of the input under a tile, if the filter computes a row of the tile; and the
// column alike. It is at least the filter's size if there is none, so a loop from it on has one round or none, and no
// branch. These are macros, because values that come from functions are not known where loops are unrolled.
#define TAP_AT(ahead, dilation, size) ((ahead) % (dilation) * (size) + (ahead) / (dilation))
#define ROW_AT(line, row) TAP_AT((line) - (row) * STRIDE_Y, DILATION_Y, KERNEL_HEIGHT)
#define COLUMN_AT(place, column) TAP_AT((place) - (column) * STRIDE_X, DILATION_X, KERNEL_WIDTH)

void store_sum(uint pixel, Output target, FACTOR4 sum) {
#ifdef DTYPE_Q8
    if (FLOAT_TOTALS) {
        store_output(exists_in(pixel, target), pixel, target, sum, other_of(pixel, target));
        return;
    }
#endif
    store_output(pixel, target, TOTAL_OF(sum));
}

// Values from push constants are computed before the first loop or branch: after it, llvmpipe loads push constants lane
// by lane.
void main() {
    uint quads = divide_up(out_channels, 4u);
    uint tiles_x = divide_up(out_width, TILE_WIDTH);
    uint tiles_y = divide_up(out_height, TILE_HEIGHT);
    uvec4 tile = nhwc_coordinates(flat_invocation(), tiles_y, tiles_x, quads,
                                   uvec3(magic_down, magic_across, magic_quads));
    uint out_y = tile.y * TILE_HEIGHT;
    uint out_x = tile.z * TILE_WIDTH;
    uint right = min(out_x + TILE_WIDTH, out_width);
    uint bottom = out_height;
    uint out_line = tile.x * out_height + out_y;    // of all images
    uint line_pixels = out_width;
    int y = int(out_y * STRIDE_Y) - pad_top;
    int x = int(out_x * STRIDE_X) - pad_left;
    bool exists = tile.x < batch;
    Input source = input_of(exists ? tile.x : 0u, tile.w);
    Output target;
    if (!ENDS_LATE) target = output_of(tile.w * 4u);

#ifndef ARITHMETIC_HALF
    if (WINDOW_LOOPS) {
        if (!exists) return;
        for (; out_x < right; out_x++, x += int(STRIDE_X)) {
            TOTAL sum = TOTAL_OF(SUM_FROM(target.bias));
            for (uint ky = 0; ky < KERNEL_HEIGHT; ky++) {
                Offset line = offset_of(y, ky * DILATION_Y, source.height, source.line);
                for (uint kx = 0; kx < KERNEL_WIDTH; kx++) {
                    Offset column = offset_of(x, kx * DILATION_X, source.width, source.stride);
                    FACTOR4 value = load_input(source, line, column);
                    FACTOR4 weight = load_weights(ky * KERNEL_WIDTH + kx, tile.w);
#ifdef DTYPE_Q8
                    sum += ivec4((HALF_WEIGHTS ? value : value - float(input_zero)) * weight);    // there may be too many for exact floats
#else
                    sum = with_total(sum, TOTAL_OF(value * weight));
#endif
                }
            }
            NEXT_RESULT(out_line, out_x)
            store_output(out_line * line_pixels + out_x, target, sum);
        }
        STORE_CHECK
        return;
    }
#endif

    FACTOR4 window[MAX_TAPS];
    if (!BY_LINES) {
        [[unroll]] for (uint tap = 0; tap < KERNEL_HEIGHT * KERNEL_WIDTH; tap++) window[tap] = load_weights(tap, tile.w);
    }
#ifdef DTYPE_Q8
    ivec4 due = ivec4(0);
    if (!HALF_WEIGHTS) {
        vec4 taps = vec4(0.0);
        [[unroll]] for (uint tap = 0; tap < KERNEL_HEIGHT * KERNEL_WIDTH; tap++)
            taps += BY_LINES ? load_weights(tap, tile.w) : window[tap];
        due = input_zero * ivec4(taps);
    }
    if (!ENDS_LATE) target.bias -= due;
#endif
    if (!exists) return;
    if (BY_LINES) {
        FACTOR4 sums[MAX_SUMS];
#ifdef DTYPE_Q8
        if (ENDS_LATE && FLOAT_TOTALS) target.bias = output_of(tile.w * 4u).bias;
#endif
        [[unroll]] for (uint n = 0; n < SUMS; n++) sums[n] = SUM_FROM(target.bias);
        uint weights_of[MAX_SUMS];    // of the next row of the filter, of each row of the tile
        [[unroll]] for (uint r = 0; r < TILE_HEIGHT; r++) weights_of[r] = tile.w;
        [[unroll]] for (uint row = 0; row < LINES; row++) {
            Offset line = offset_of(y, row, source.height, source.line);
            [[unroll]] for (uint r = 0; r < TILE_HEIGHT; r++) {
                [[unroll]] for (uint ky = ROW_AT(row, r); ky < KERNEL_HEIGHT; ky += KERNEL_HEIGHT) {
                    [[unroll]] for (uint kx = 0; kx < KERNEL_WIDTH; kx++) {
                        window[ky * KERNEL_WIDTH + kx] = load_weights(weights_of[r]);
                        weights_of[r] += quads;
                    }
                }
            }
            [[unroll]] for (uint column = 0; column < LINE_WIDTH; column++) {
                FACTOR4 value = load_input(source, line, offset_of(x, column, source.width, source.stride));
                [[unroll]] for (uint n = 0; n < SUMS; n++) {
                    uint r = n / TILE_WIDTH, a = n % TILE_WIDTH;
                    [[unroll]] for (uint ky = ROW_AT(row, r); ky < KERNEL_HEIGHT; ky += KERNEL_HEIGHT) {
                        [[unroll]] for (uint kx = COLUMN_AT(column, a); kx < KERNEL_WIDTH; kx += KERNEL_WIDTH)
                            sums[n] = multiply_add(value, window[ky * KERNEL_WIDTH + kx], sums[n]);
                    }
                }
            }
        }
#ifdef DTYPE_Q8
        if (ENDS_LATE) target = output_of(tile.w * 4u);
        if (ENDS_LATE) target.bias -= due;
#endif
        [[unroll]] for (uint n = 0; n < SUMS; n++) {
            uvec2 pixel = uvec2(out_y + n / TILE_WIDTH, out_x + n % TILE_WIDTH);
            bool stored = all(lessThan(pixel, uvec2(bottom, right)));
            uint place = (out_line + n / TILE_WIDTH) * line_pixels + pixel.y;
            NEXT_RESULT(out_line + n / TILE_WIDTH, pixel.y)
            store_sum(mix(NO_PIXEL, place, stored), target, sums[n]);
        }
        STORE_CHECK
        return;
    }
    Offset lines[MAX_COLUMN_HEIGHT];
    [[unroll]] for (uint row = 0; row < COLUMN_HEIGHT; row++) lines[row] = offset_of(y, row, source.height, source.line);
    FACTOR4 columns[MAX_COLUMNS][MAX_COLUMN_HEIGHT];
    [[unroll]] for (uint column = 0; column < KEPT; column++) {
        Offset place = offset_of(x, column, source.width, source.stride);
        [[unroll]] for (uint row = 0; row < COLUMN_HEIGHT; row++)
            columns[STRIDE_X + column][row] = load_input(source, lines[row], place);
    }
    [[dont_unroll]] for (; out_x < right; x += int(AT_ONCE * STRIDE_X)) {
        [[unroll]] for (uint i = 0; i < AT_ONCE; i++, out_x++) {
            [[unroll]] for (uint column = 0; column < COLUMNS; column++) {
                Offset place = offset_of(x, i * STRIDE_X + column, source.width, source.stride);
                [[unroll]] for (uint row = 0; row < COLUMN_HEIGHT; row++)
                    columns[column][row] = column < KEPT ? columns[column + STRIDE_X][row] : load_input(source, lines[row], place);
            }
            [[unroll]] for (uint r = 0; r < TILE_HEIGHT; r++) {
                FACTOR4 sum = SUM_FROM(target.bias);    // sums of 16-bit values stay far below 32 bits
                [[unroll]] for (uint ky = 0; ky < KERNEL_HEIGHT; ky++)
                    [[unroll]] for (uint kx = 0; kx < KERNEL_WIDTH; kx++)
                        sum = multiply_add(columns[kx * DILATION_X][r * STRIDE_Y + ky * DILATION_Y],
                                           window[ky * KERNEL_WIDTH + kx], sum);
                bool stored = all(lessThan(uvec2(out_y + r, out_x), uvec2(bottom, right)));
                NEXT_RESULT(out_line + r, out_x)
                store_sum(mix(NO_PIXEL, (out_line + r) * line_pixels + out_x, stored), target, sum);
            }
        }
        if (AT_ONCE == TILE_WIDTH) break;
    }
    STORE_CHECK
}
