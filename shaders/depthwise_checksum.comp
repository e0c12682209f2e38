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
// Columns of results that an invocation loads inputs and results for together: up to 4.
layout(constant_id = 18) const uint COLUMNS = 1;

READ_VIEW(0, Src, src, uint)
READ_VIEW(1, Filters, filters, uint)
READ_VIEW(1, Filters_Vec4s, filters_vec4s, uvec4)
READ_VIEW(2, Computed, computed, uint)
READ_VIEW(3, Checks, checks, uint)
READ_VIEW(4, Extra, extra, uint)
layout(set = 0, binding = 5) writeonly buffer Dst { uint dst[]; };
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
    tiles = words_of[2].w;
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

// Those of a block are apart in the tiles of a rectangle.
#define CHECK_PLACE(i) (block == 0u ? (i) : (i) / block * words + (i) % block)
#include "include/checksum_verdict.glsl"

const uint MAX_COLUMNS = 4, MAX_AT_ONCE = 5;

// The results of a workgroup: lines of an image and columns, with the ends excluded, and a block of channels.
struct Box {
    uint image;
    uvec2 first;
    uvec2 end;
    uint word;    // the first one of the block
};

uint line_factor(Box of, uint line) { return position_factor(OF_LINES + of.image * out_height + line); }

// Four channels of a line of the input.
struct Line {
    bool inside;
    uint first;    // the place of the first column, in words, or else in bytes
    uint pitch;
    uint padding;
};

Line line_of(Box of, int y, uint word) {
    bool inside = uint(y) < height;
    uint pitch = WHOLE_WORDS ? depth / 4u : depth, start = (of.image * height + mix(0u, uint(y), inside)) * width * pitch;
    return Line(inside, start + (WHOLE_WORDS ? src_first + word : 4u * word), pitch,
                (uint(input_zero) * 0x01010101u) ^ sign_mask);
}

// The levels of a column, those of the padding outside the image.
uvec4 levels_at(Line line, int x) {
    bool inside = all(bvec2(line.inside, uint(x) < width));
    uint at = line.first + mix(0u, uint(x) * line.pitch, inside), loaded;
    if (WHOLE_WORDS) loaded = src_at(at);
    else loaded = join_words(src_at(src_first + (at >> 2)), src_at(src_first + min((at + 3u) >> 2, last_word)), at);
    return uvec4(unpack_bytes(mix(line.padding, loaded, inside), sign_mask));
}

// The sum that is due to the inputs, as far as an invocation adds them up: some lines of some words of channels.
uint due_to_inputs(Box of) {
    // Neighbouring results share columns of inputs, if all of these are loaded. Those of COLUMNS results are PITCH apart.
    const bool SHARED = DILATION_X == 1u && AT_ONCE > STRIDE_X;
    const uint KEPT = SHARED ? AT_ONCE - STRIDE_X : 0u, PITCH = SHARED ? STRIDE_X : AT_ONCE;
    uint vec4s = divide_up(depth, 4u), due = 0u, words_in = block == 0u ? vec4s : block;
    int top = int(of.first.x * STRIDE_Y) - pad_top, left = int(of.first.y * STRIDE_X) - pad_left;
    uint lines = (of.end.x - of.first.x - 1u) * STRIDE_Y + (KERNEL_HEIGHT - 1u) * DILATION_Y + 1u;
    for (uint item = gl_LocalInvocationID.x; item < words_in * lines; item += gl_WorkGroupSize.x) {
        uint behind = item / words_in, word = of.word + item - behind * words_in;
        Line line = line_of(of, top + int(behind), word);
        for (uint kx = 0; kx < KERNEL_WIDTH; kx += AT_ONCE) {
            uvec4 sums[MAX_AT_ONCE], levels[MAX_COLUMNS * MAX_AT_ONCE];
            [[unroll]] for (uint i = 0; i < AT_ONCE; i++) sums[i] = uvec4(0u);
            int x = left + int(kx * DILATION_X);
            [[unroll]] for (uint i = 0; i < KEPT; i++) levels[COLUMNS * PITCH + i] = levels_at(line, x + int(i));
            for (uint column = of.first.y; column < of.end.y; column += COLUMNS) {
                [[unroll]] for (uint i = 0; i < KEPT; i++) levels[i] = levels[COLUMNS * PITCH + i];
                [[unroll]] for (uint i = 0; i < COLUMNS * PITCH; i++) {
                    uint from = SHARED ? KEPT + i : i / PITCH * STRIDE_X + i % PITCH * DILATION_X;
                    levels[KEPT + i] = levels_at(line, x + int(from));
                }
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    uint factor = mix(0u, column_factor(column + c), column + c < of.end.y);
                    [[unroll]] for (uint i = 0; i < AT_ONCE; i++) sums[i] += factor * levels[c * PITCH + i];
                }
                x += int(COLUMNS * STRIDE_X);
            }
            // The line counts for each row of the filter that meets it below a result.
            [[unroll]] for (uint ky = 0; ky < KERNEL_HEIGHT; ky++) {
                uint above = behind - ky * DILATION_Y, y = of.first.x + above / STRIDE_Y, sum = 0u;    // may wrap
                bool exists = all(bvec3(behind >= ky * DILATION_Y, above % STRIDE_Y == 0u, y < of.end.x));
                [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
                    uint tap = ky * KERNEL_WIDTH + min(kx + i, KERNEL_WIDTH - 1u);
                    uint products = sum_of_products(sums[i], filters_vec4s_at(filters_first / 4u + tap * vec4s + word));
                    sum += mix(0u, products, kx + i < KERNEL_WIDTH);
                }
                due += sum * mix(0u, line_factor(of, y), exists);
            }
        }
    }
    return due;
}

// The same for the results in memory, which it may copy, and for all that does not depend on data.
uint due_to_results(Box of) {
    uint constants = filters_first + KERNEL_HEIGHT * KERNEL_WIDTH * divide_up(depth, 4u) * 4u, due = 0u;
    uint words_out = block == 0u ? words : block, items = words_out * (of.end.x - of.first.x);
    for (uint item = gl_LocalInvocationID.x; item < items; item += gl_WorkGroupSize.x) {
        uint down = item / words_out, word = of.word + item - down * words_out, y = of.first.x + down, sum = 0u;
        uint of_word = checksum_factor(OF_WORDS + word), of_extra = HAS_EXTRA ? checksum_factor(OF_EXTRA + word) : 0u;
        uint at = ((of.image * out_height + y) * out_width + of.first.y) * words + word, always = filters_at(constants + word);
        for (uint x = of.first.y; x < of.end.y; x += COLUMNS) {
            uint result[MAX_COLUMNS], other[MAX_COLUMNS];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                uint from = at + min(c, of.end.y - 1u - x) * words;
                result[c] = computed_at(computed_first + from);
                if (HAS_EXTRA) other[c] = extra_at(extra_first + from) ^ sign_mask;
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                bool exists = x + c < of.end.y;
                uint all_of_it = of_word * result[c] + always;
                if (HAS_EXTRA) all_of_it += of_extra * other[c];
                sum += mix(0u, column_factor(x + c), exists) * all_of_it;
                if (COPIES && exists) dst[dst_first + at + c * words] = result[c];
            }
            at += COLUMNS * words;
        }
        due += sum * line_factor(of, y);
    }
    return due;
}

void main() {
    uint region = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (region >= regions) return;
    if (!take_product(product_of(region))) return;    // the host misses a comparison
    uint tiles_x = divide_up(out_width, tile_width), tiles_y = divide_up(out_height, tile_height);
    uint across = divide_up(tiles_x, tiles), words_of_block = block == 0u ? words : block, blocks = words / words_of_block;
    uint place = region - first_region, rectangle = place / blocks;
    uint line = rectangle / across, tile = (rectangle - line * across) * tiles, image = line / tiles_y;
    uint word = (place - rectangle * blocks) * block;
    uvec2 first = uvec2((line - image * tiles_y) * tile_height, tile * tile_width);
    uvec2 most = uvec2(tile_height, tiles * tile_width);
    Box of = Box(image, first, min(first + most, uvec2(out_height, out_width)), word);
    uint own_tiles = min(tiles, tiles_x - tile);
    uint stored = sum_of_checks((line * tiles_x + tile) * words + word, own_tiles * words_of_block);
    Sums sums = Sums(stored, due_to_results(of) + due_to_inputs(of));
    add_up(sums);
    if (gl_LocalInvocationID.x == 0u) compare(sums, place, (image * out_height + of.first.x) * out_width + of.first.y);
}
