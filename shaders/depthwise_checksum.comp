#version 450
// Verifies a convolution of bytes whose filters see a channel each, as gemm_checksum.comp does: the sum of the check words
// of a rectangle of pixels must be the sum that follows from the inputs under it, the filters and the results that lie in
// memory. A pixel counts as often as the factors of its line and its column say. Results may be copied meanwhile.
//
// The factors of columns are multiplied by the inputs of a line, for each column of the filter; these sums are multiplied
// by the filter and the factors of lines. So an input is loaded once for all rows of the filter. Each weight is the sum of the
// weights of all output channels of an input channel, times their factors. A rectangle may be divided into blocks of channels.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUMS_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#include "include/checksum.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 4) const bool WHOLE_WORDS = true;    // input channels are whole words
layout(constant_id = 3) const uint KERNEL_HEIGHT = 3;
layout(constant_id = 5) const uint KERNEL_WIDTH = 3;
layout(constant_id = 6) const uint AT_ONCE = 3;    // columns of the filter that inputs are loaded for together
layout(constant_id = 8) const uint STRIDE_Y = 1;
layout(constant_id = 9) const uint STRIDE_X = 1;
layout(constant_id = 10) const uint DILATION_Y = 1;
layout(constant_id = 11) const uint DILATION_X = 1;
layout(constant_id = 12) const bool HAS_EXTRA = false;    // an epilogue reads another tensor one for one
layout(constant_id = 16) const bool COPIES = true;
// An invocation takes four words of channels at once, for several lines, and keeps the filter.
layout(constant_id = 17) const bool WIDE = false;
// Columns of results that an invocation loads inputs and results for together: up to 4.
layout(constant_id = 18) const uint COLUMNS = 1;

READ_VIEW(0, Src, src, uint)
READ_VIEW(0, Src_Wide, src_wide, uvec4)
READ_VIEW(1, Filters, filters, uint)
READ_VIEW(1, Filters_Vec4s, filters_vec4s, uvec4)
READ_VIEW(2, Computed, computed, uint)
READ_VIEW(2, Computed_Wide, computed_wide, uvec4)
READ_VIEW(3, Checks, checks, uint)
READ_VIEW(3, Checks_Wide, checks_wide, uvec4)
READ_VIEW(4, Extra, extra, uint)
READ_VIEW(4, Extra_Wide, extra_wide, uvec4)
layout(set = 0, binding = 5) writeonly buffer Dst { uint dst[]; };
layout(set = 0, binding = 5) writeonly buffer Dst_Wide { uvec4 dst_wide[]; };
FLAG_AS(6, Flag, flag)

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint computed_offset;
    uint checks_offset;
    uint extra_offset;
    uint dst_offset;
    uint flag_offset;
    uint regions;
    uint table;    // where the table of the products is in the filters
    uint products;
};

// A workgroup's product, as the table has it.
uint src_first;
uint filters_first;    // the constant parts of the sums of each word of results follow the filter
uint computed_first;
uint checks_first;
uint extra_first;
uint dst_first;
uint first_region;
uint words;    // of the results of a pixel
uint block;    // words of results of a block, a divisor of all, which are as many words of inputs; all if 0
uint tile_height;    // the tiles of an invocation of depthwise_conv2d.comp
uint tile_width;
uint tiles;    // neighbouring ones in a rectangle
uint tiles_down;    // lines of tiles in a rectangle
uint out_height;
uint out_width;
uint height;
uint width;
uint depth;
int pad_top;
int pad_left;
uint last_word;    // of the input
int input_zero;
uint sign_mask;
uint number;    // of the comparison

const uint PRODUCT_VEC4S = 6;
#include "include/checksum_table.glsl"

// Whether the table is as it should be.
bool take_product(uint product) {
    uvec4 words_of[PRODUCT_VEC4S];
    bool fits = load_product(product, words_of);
    src_first = src_offset + words_of[0].x;
    filters_first = filters_offset + words_of[0].y;
    computed_first = computed_offset + words_of[0].z;
    checks_first = checks_offset + words_of[0].w;
    extra_first = extra_offset + words_of[1].x;
    dst_first = dst_offset + words_of[1].y;
    first_region = words_of[1].z;
    words = words_of[1].w;
    block = words_of[2].x;
    tile_height = words_of[2].y;
    tile_width = words_of[2].z;
    tiles = words_of[2].w & 0xffffu;
    tiles_down = words_of[2].w >> 16;
    out_height = words_of[3].x;
    out_width = words_of[3].y;
    height = words_of[3].z;
    width = words_of[3].w;
    depth = words_of[4].x;
    pad_top = int(words_of[4].y);
    pad_left = int(words_of[4].z);
    last_word = words_of[4].w;
    input_zero = int(words_of[5].x);
    sign_mask = words_of[5].y;
    number = words_of[5].z;
    return fits;
}

// The words of a rectangle: those of a tile, the tiles of a line, and other tiles from a line to the next.
struct Shape {
    uint of_tile;
    uint tiles;
    uint skipped;
    vec2 inverses;    // of the first two
};
Shape shape;

// The place of a check word. Those of a block are apart in the tiles of a rectangle, and so are its lines of tiles.
uint check_place(uint i) {
    uint tile = divided(i, shape.inverses.x), line = divided(tile, shape.inverses.y);
    return (tile + line * shape.skipped) * words + i - tile * shape.of_tile;
}
#define CHECK_PLACE(i) check_place(i)
#include "include/checksum_verdict.glsl"

// llvmpipe unrolls loops over arrays of these sizes, but not over those that are only as large as is needed.
const uint MAX_COLUMNS = 4, MAX_AT_ONCE = 5, MAX_WORDS = 4, MAX_TAPS = 25;
const uint WORDS = WIDE ? 4u : 1u;    // of channels of an invocation
const uint TAPS = KERNEL_HEIGHT * KERNEL_WIDTH, KEPT_WEIGHTS = WIDE ? MAX_TAPS * MAX_WORDS : 1u;

// The results of a workgroup: lines of an image and columns, with the ends excluded, and a block of channels.
struct Box {
    uint image;
    uvec2 first;
    uvec2 end;
    uint word;    // the first one of the block
};

uint line_factor(Box of, uint line) { return position_factor(OF_LINES + of.image * out_height + line); }

// Four channels of a line of the input, or with WIDE 16.
struct Line {
    bool inside;
    uint first;    // the place of the first column, in vec4s, in words, or else in bytes
    uint pitch;
    uint padding;
};

Line line_of(Box of, int y, uint word) {
    bool inside = uint(y) < height;
    uint pitch = WIDE ? depth / 16u : WHOLE_WORDS ? depth / 4u : depth;
    uint start = (of.image * height + mix(0u, uint(y), inside)) * width * pitch;
    uint first = WIDE ? (src_first + word) / 4u : WHOLE_WORDS ? src_first + word : 4u * word;
    return Line(inside, start + first, pitch, (uint(input_zero) * 0x01010101u) ^ sign_mask);
}

// The words of a column, those of the padding outside the image.
uvec4 words_at(Line line, int x) {
    bool inside = all(bvec2(line.inside, uint(x) < width));
    uint at = line.first + mix(0u, uint(x) * line.pitch, inside);
    uvec4 loaded = uvec4(0u);
    if (WIDE) loaded = src_wide_at(at);
    else if (WHOLE_WORDS) loaded.x = src_at(at);
    else loaded.x = join_words(src_at(src_first + (at >> 2)), src_at(src_first + min((at + 3u) >> 2, last_word)), at);
    return mix(uvec4(line.padding), loaded, bvec4(inside));
}

// The weights of a word of channels for a tap of the filter.
uvec4 weights_of(uint tap, uint word) { return filters_vec4s_at(filters_first / 4u + tap * divide_up(depth, 4u) + word); }

// The sum that is due to the inputs, as far as an invocation adds them up: some lines of some words of channels.
uint due_to_inputs(Box of) {
    // Neighbouring results share columns of inputs, if all of these are loaded. Those of COLUMNS results are PITCH apart.
    const bool SHARED = DILATION_X == 1u && AT_ONCE > STRIDE_X;
    const uint KEPT = SHARED ? AT_ONCE - STRIDE_X : 0u, PITCH = SHARED ? STRIDE_X : AT_ONCE;
    uint due = 0u, words_in = (block == 0u ? divide_up(depth, 4u) : block) / WORDS;
    int top = int(of.first.x * STRIDE_Y) - pad_top, left = int(of.first.y * STRIDE_X) - pad_left;
    uint lines = (of.end.x - of.first.x - 1u) * STRIDE_Y + (KERNEL_HEIGHT - 1u) * DILATION_Y + 1u, shares = lines;
    if (WIDE) {
        // As few invocations share the lines of a word as fill a vector.
        shares = 1u;
        while (shares < gl_WorkGroupSize.x && words_in * shares % gl_WorkGroupSize.x != 0u) shares *= 2u;
    }
    for (uint item = gl_LocalInvocationID.x; item < words_in * shares; item += gl_WorkGroupSize.x) {
        uint behind = item / words_in, word = of.word + (item - behind * words_in) * WORDS;
        uvec4 filter4[KEPT_WEIGHTS];
        if (WIDE) {
            [[unroll]] for (uint tap = 0; tap < TAPS; tap++)
                [[unroll]] for (uint w = 0; w < WORDS; w++) filter4[tap * WORDS + w] = weights_of(tap, word + w);
        }
        do {
            Line line = line_of(of, top + int(behind), word);
            for (uint kx = 0; kx < KERNEL_WIDTH; kx += AT_ONCE) {
                uvec4 sums[MAX_AT_ONCE * MAX_WORDS], loaded[MAX_COLUMNS * MAX_AT_ONCE];
                [[unroll]] for (uint i = 0; i < AT_ONCE * WORDS; i++) sums[i] = uvec4(0u);
                int x = left + int(kx * DILATION_X);
                [[unroll]] for (uint i = 0; i < KEPT; i++) loaded[COLUMNS * PITCH + i] = words_at(line, x + int(i));
                for (uint column = of.first.y; column < of.end.y; column += COLUMNS) {
                    [[unroll]] for (uint i = 0; i < KEPT; i++) loaded[i] = loaded[COLUMNS * PITCH + i];
                    [[unroll]] for (uint i = 0; i < COLUMNS * PITCH; i++) {
                        uint from = SHARED ? KEPT + i : i / PITCH * STRIDE_X + i % PITCH * DILATION_X;
                        loaded[KEPT + i] = words_at(line, x + int(from));
                    }
                    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                        uint factor = column_factor_below(of.end.y, column + c);
                        [[unroll]] for (uint i = 0; i < AT_ONCE * WORDS; i++)
                            sums[i] += factor * uvec4(unpack_bytes(loaded[c * PITCH + i / WORDS][i % WORDS], sign_mask));
                    }
                    x += int(COLUMNS * STRIDE_X);
                }
                // The line counts for each row of the filter that meets it below a result.
                [[unroll]] for (uint ky = 0; ky < KERNEL_HEIGHT; ky++) {
                    uint above = behind - ky * DILATION_Y, y = of.first.x + above / STRIDE_Y, sum = 0u;    // may wrap
                    bool exists = all(bvec3(behind >= ky * DILATION_Y, above % STRIDE_Y == 0u, y < of.end.x));
                    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
                        uint tap = ky * KERNEL_WIDTH + min(kx + i, KERNEL_WIDTH - 1u), products = 0u;
                        [[unroll]] for (uint w = 0; w < WORDS; w++)
                            products += sum_of_products(
                                sums[i * WORDS + w], WIDE ? filter4[min(tap, TAPS - 1u) * WORDS + w] : weights_of(tap, word));
                        sum += mix(0u, products, kx + i < KERNEL_WIDTH);
                    }
                    due += sum * mix(0u, line_factor(of, y), exists);
                }
            }
            behind += shares;
        } while (WIDE && behind < lines);
    }
    return due;
}

// Words of results, or of another tensor, at a place in words.
uvec4 results_at(uint at) { return WIDE ? computed_wide_at(at / 4u) : uvec4(computed_at(at), 0u, 0u, 0u); }
uvec4 others_at(uint at) { return (WIDE ? extra_wide_at(at / 4u) : uvec4(extra_at(at), 0u, 0u, 0u)) ^ sign_mask; }
uvec4 factors_of(uint word) {
    return WIDE ? checksum_factor(word + uvec4(0u, 1u, 2u, 3u)) : uvec4(checksum_factor(word), 0u, 0u, 0u);
}

// The same for the results in memory, which it may copy, and for all that does not depend on data.
uint due_to_results(Box of) {
    uint constants = filters_first + KERNEL_HEIGHT * KERNEL_WIDTH * divide_up(depth, 4u) * 4u, due = 0u;
    uint words_out = (block == 0u ? words : block) / WORDS, items = words_out * (of.end.x - of.first.x);
    // Invocations share the columns of a line of a word, if there are more of them than such lines.
    uint own = of.end.y - of.first.y, shares = 1u;
    if (!WIDE) {
        own = divide_up(divide_up(own, max(gl_WorkGroupSize.x / items, 1u)), COLUMNS) * COLUMNS;
        shares = divide_up(of.end.y - of.first.y, own);
    }
    for (uint item = gl_LocalInvocationID.x; item < items * shares; item += gl_WorkGroupSize.x) {
        uint share = WIDE ? 0u : item / items, of_line = item - share * items, down = of_line / words_out;
        uint word = of.word + (of_line - down * words_out) * WORDS, y = of.first.x + down;
        uint first = of.first.y + share * own, end = min(first + own, of.end.y);
        uint at = ((of.image * out_height + y) * out_width + first) * words + word, columns = 0u, always = 0u;
        [[unroll]] for (uint w = 0; w < WORDS; w++) always += filters_at(constants + word + w);
        uvec4 sum = uvec4(0u), sum_of_others = uvec4(0u);
        for (uint x = first; x < end; x += COLUMNS) {
            uvec4 result[MAX_COLUMNS], other[MAX_COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                uint from = at + min(c, of.end.y - 1u - x) * words;
                result[c] = results_at(computed_first + from);
                if (HAS_EXTRA) other[c] = others_at(extra_first + from);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                bool exists = x + c < of.end.y;
                uint factor = column_factor_below(of.end.y, x + c);
                columns += factor;
                sum += factor * result[c];
                if (HAS_EXTRA) sum_of_others += factor * other[c];
                if (COPIES && exists) {
                    if (WIDE) dst_wide[(dst_first + at + c * words) / 4u] = result[c];
                    else dst[dst_first + at + c * words] = result[c].x;
                }
            }
            at += COLUMNS * words;
        }
        uint all_of_it = always * columns + of_result(sum_of_products(sum, factors_of(word)));
        if (HAS_EXTRA) all_of_it += of_extra(sum_of_products(sum_of_others, factors_of(word)));
        due += all_of_it * line_factor(of, y);
    }
    return due;
}

void main() {
    uint region = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (region >= regions) return;
    if (!take_product(product_of(region))) return;    // the host misses a comparison
    uint tiles_x = divide_up(out_width, tile_width), tiles_y = divide_up(out_height, tile_height);
    uint lines_y = divide_up(tiles_y, tiles_down);    // of rectangles
    uint across = divide_up(tiles_x, tiles), words_of_block = block == 0u ? words : block, blocks = words / words_of_block;
    uint place = region - first_region, rectangle = place / blocks;
    uint line = rectangle / across, tile = (rectangle - line * across) * tiles, image = line / lines_y;
    uint word = (place - rectangle * blocks) * block;
    uint down = (line - image * lines_y) * tiles_down;
    uvec2 first = uvec2(down * tile_height, tile * tile_width), most = uvec2(tiles_down * tile_height, tiles * tile_width);
    Box of = Box(image, first, min(first + most, uvec2(out_height, out_width)), word);
    uint own_tiles = min(tiles, tiles_x - tile), checks_of = own_tiles * min(tiles_down, tiles_y - down) * words_of_block;
    shape = Shape(words_of_block, own_tiles, tiles_x - own_tiles, 1.0 / vec2(words_of_block, own_tiles));
    uint stored = sum_of_checks(((image * tiles_y + down) * tiles_x + tile) * words + word, checks_of);
    Sums sums = Sums(stored, due_to_results(of) + due_to_inputs(of));
    add_up(sums);
    if (gl_LocalInvocationID.x == 0u) compare(sums, place, (image * out_height + of.first.x) * out_width + of.first.y);
}
