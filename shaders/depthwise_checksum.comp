#version 450
// Verifies a convolution of bytes whose filters see a channel each, as gemm_checksum.comp does: the sum of the check words
// of a rectangle of pixels must be the sum that follows from the inputs under it, the filters and the results that lie in
// memory. A pixel counts as often as the factors of its line and its column say. Results may be copied meanwhile.
//
// The factors of columns are multiplied by the inputs of a line, for each column of the filter; these sums are multiplied
// by the filter and the factors of lines. So an input is loaded once for all rows of the filter. Each weight is the sum of the
// weights of all output channels of an input channel, times their factors.

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
layout(constant_id = 5) const uint KERNEL_WIDTH = 3;
layout(constant_id = 6) const uint AT_ONCE = 3;    // columns of the filter that inputs are loaded for together
layout(constant_id = 8) const uint STRIDE_Y = 1;
layout(constant_id = 9) const uint STRIDE_X = 1;
layout(constant_id = 10) const uint DILATION_Y = 1;
layout(constant_id = 11) const uint DILATION_X = 1;
layout(constant_id = 12) const bool HAS_EXTRA = false;    // an epilogue reads another tensor one for one
// The tiles of an invocation of depthwise_conv2d.comp, and the neighbouring ones in a rectangle.
layout(constant_id = 13) const uint TILE_HEIGHT = 4;
layout(constant_id = 14) const uint TILE_WIDTH = 4;
layout(constant_id = 15) const uint TILES = 1;
layout(constant_id = 16) const bool COPIES = true;

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
    uint filters_offset;    // the constant part of all sums follows the filter
    uint computed_offset;
    uint checks_offset;
    uint extra_offset;
    uint dst_offset;
    uint flag_offset;
    uint words;    // of the results of a pixel
    uint batch;
    uint out_height;
    uint out_width;
    uint height;
    uint width;
    uint depth;
    uint kernel_height;
    int pad_top;
    int pad_left;
    uint last_word;    // of the input
    int input_zero;
    uint sign_mask;
    uint number;    // of the comparison
};

#include "include/checksum_verdict.glsl"

const uint MAX_AT_ONCE = 5;

// The results of a workgroup: lines of an image and columns, with the ends excluded.
struct Rectangle {
    uint image;
    uvec2 first;
    uvec2 end;
};

uint line_factor(Rectangle of, uint line) { return position_factor(OF_LINES + of.image * out_height + line); }

// Four channels of a line of the input.
struct Line {
    bool inside;
    uint first;    // the place of the first column, in words, or else in bytes
    uint pitch;
    uint padding;
};

Line line_of(Rectangle of, int y, uint word) {
    bool inside = uint(y) < height;
    uint pitch = WHOLE_WORDS ? depth / 4u : depth, start = (of.image * height + mix(0u, uint(y), inside)) * width * pitch;
    return Line(inside, start + (WHOLE_WORDS ? src_offset + word : 4u * word), pitch,
                (uint(input_zero) * 0x01010101u) ^ sign_mask);
}

// The levels of a column, those of the padding outside the image.
uvec4 levels_at(Line line, int x) {
    bool inside = all(bvec2(line.inside, uint(x) < width));
    uint at = line.first + mix(0u, uint(x) * line.pitch, inside), loaded;
    if (WHOLE_WORDS) loaded = src_at(at);
    else loaded = join_words(src_at(src_offset + (at >> 2)), src_at(src_offset + min((at + 3u) >> 2, last_word)), at);
    return uvec4(unpack_bytes(mix(line.padding, loaded, inside), sign_mask));
}

// The sum that is due to the inputs, as far as an invocation adds them up: some lines of some words of channels.
uint due_to_inputs(Rectangle of) {
    const uint KEPT = DILATION_X == 1u && AT_ONCE > STRIDE_X ? AT_ONCE - STRIDE_X : 0u;    // columns that results share
    uint vec4s = divide_up(depth, 4u), due = 0u;
    int top = int(of.first.x * STRIDE_Y) - pad_top, left = int(of.first.y * STRIDE_X) - pad_left;
    uint lines = (of.end.x - of.first.x - 1u) * STRIDE_Y + (kernel_height - 1u) * DILATION_Y + 1u;
    for (uint item = gl_LocalInvocationID.x; item < vec4s * lines; item += gl_WorkGroupSize.x) {
        uint behind = item / vec4s, word = item - behind * vec4s;
        Line line = line_of(of, top + int(behind), word);
        for (uint kx = 0; kx < KERNEL_WIDTH; kx += AT_ONCE) {
            uvec4 sums[MAX_AT_ONCE], levels[MAX_AT_ONCE];
            [[unroll]] for (uint i = 0; i < AT_ONCE; i++) sums[i] = uvec4(0u);
            int x = left + int(kx * DILATION_X);
            [[unroll]] for (uint i = 0; i < KEPT; i++) levels[i + STRIDE_X] = levels_at(line, x + int(i));
            for (uint column = of.first.y; column < of.end.y; column++) {
                uint factor = position_factor(column);
                [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
                    if (i < KEPT) levels[i] = levels[i + STRIDE_X];
                    else levels[i] = levels_at(line, x + int(i * DILATION_X));
                    sums[i] += factor * levels[i];
                }
                x += int(STRIDE_X);
            }
            // The line counts for each row of the filter that meets it below a result.
            for (uint ky = 0; ky < kernel_height; ky++) {
                uint above = behind - ky * DILATION_Y, y = of.first.x + above / STRIDE_Y, sum = 0u;    // may wrap
                bool exists = all(bvec3(behind >= ky * DILATION_Y, above % STRIDE_Y == 0u, y < of.end.x));
                [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
                    uint tap = ky * KERNEL_WIDTH + min(kx + i, KERNEL_WIDTH - 1u);
                    uint products = sum_of_products(sums[i], filters_vec4s_at(filters_offset / 4u + tap * vec4s + word));
                    sum += mix(0u, products, kx + i < KERNEL_WIDTH);
                }
                due += sum * mix(0u, line_factor(of, y), exists);
            }
        }
    }
    return due;
}

// The same for the results in memory, which it may copy, and for all that does not depend on data.
uint due_to_results(Rectangle of) {
    uint of_lines = 0u, of_columns = 0u;
    for (uint y = of.first.x; y < of.end.x; y++) of_lines += line_factor(of, y);
    for (uint x = of.first.y + gl_LocalInvocationID.x; x < of.end.y; x += gl_WorkGroupSize.x) of_columns += position_factor(x);
    uint due = of_lines * of_columns * filters_at(filters_offset + kernel_height * KERNEL_WIDTH * divide_up(depth, 4u) * 4u);
    uint items = words * (of.end.x - of.first.x);
    for (uint item = gl_LocalInvocationID.x; item < items; item += gl_WorkGroupSize.x) {
        uint down = item / words, word = item - down * words, y = of.first.x + down, sum = 0u;
        uint of_word = checksum_factor(OF_WORDS + word), of_extra = HAS_EXTRA ? checksum_factor(OF_EXTRA + word) : 0u;
        uint at = ((of.image * out_height + y) * out_width + of.first.y) * words + word;
        for (uint x = of.first.y; x < of.end.y; x++) {
            uint result = computed_at(computed_offset + at), both = of_word * result;
            if (HAS_EXTRA) both += of_extra * (extra_at(extra_offset + at) ^ sign_mask);
            if (COPIES) dst[dst_offset + at] = result;
            sum += position_factor(x) * both;
            at += words;
        }
        due += sum * line_factor(of, y);
    }
    return due;
}

void main() {
    uint tiles_x = divide_up(out_width, TILE_WIDTH), tiles_y = divide_up(out_height, TILE_HEIGHT);
    uint across = divide_up(tiles_x, TILES), group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint line = group / across, tile = (group - line * across) * TILES, image = line / tiles_y, down = line - image * tiles_y;
    if (image >= batch) return;
    uvec2 first = uvec2(down * TILE_HEIGHT, tile * TILE_WIDTH), most = uvec2(TILE_HEIGHT, TILES * TILE_WIDTH);
    Rectangle of = Rectangle(image, first, min(first + most, uvec2(out_height, out_width)));
    uint stored = sum_of_checks((line * tiles_x + tile) * words, (line * tiles_x + min(tile + TILES, tiles_x)) * words);
    compare(Sums(stored, due_to_results(of) + due_to_inputs(of)), (image * out_height + of.first.x) * out_width + of.first.y);
}
