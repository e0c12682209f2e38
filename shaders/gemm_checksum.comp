#version 450
// Verifies a GEMM of bytes that stored check words (lowering/gemm/verification/checksum.py): the sum of the check words
// of some rows must be the sum that follows from the rows of the left matrix, the sums of the filters, and the results
// that lie in memory, each row times its factor. Results may be copied. A dispatch may verify several products
// (checksum_table.glsl). SLICES workgroups have a region (rows of a product), a part of K each; the last one
// compares. The first wrong sum is reported to the host: the number of the comparison, the first row, both sums.
//
// The left matrix is read as gemm.comp reads it, but all filters together are one here: each weight is the sum of the
// weights of all output channels times their factors. With ARITHMETIC_DOT, the word i of a vec4 of the filter has byte i of
// the weights of four channels. With SUMS_SUBGROUP a workgroup is a subgroup, a vector of a CPU.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef ARITHMETIC_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
#ifdef SUMS_SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#define MAY_DIVIDE_AS_FLOATS
#include "include/byte_dot.glsl"
#include "include/checksum.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint ROWS = 4;    // that an invocation has at once
layout(constant_id = 4) const bool ALONE = false;    // no invocations share a row
// Input channels that are loaded at once: 16, 4 or 1.
layout(constant_id = 5) const uint SPAN = 4;
// Rows of words are whole vec4s.
layout(constant_id = 6) const bool WIDE = false;
layout(constant_id = 7) const bool SIDE_BY_SIDE = false;
layout(constant_id = 8) const uint STRIDE_Y = 1;
layout(constant_id = 9) const uint STRIDE_X = 1;
layout(constant_id = 10) const uint DILATION_Y = 1;
layout(constant_id = 11) const uint DILATION_X = 1;
// An epilogue reads another tensor one for one.
layout(constant_id = 12) const bool HAS_EXTRA = false;
layout(constant_id = 14) const bool COPIES = true;
layout(constant_id = 15) const uint SLICES = 1;
// The columns of a window lie side by side and are loaded as one, 16 bytes of them at once, of which so many words are
// needed. 0: columns are loaded one by one.
layout(constant_id = 16) const uint LINE_WORDS = 0;

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
layout(set = 0, binding = 7) coherent buffer Counters { uint counters[]; };    // zero

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint computed_offset;
    uint checks_offset;
    uint extra_offset;
    uint dst_offset;
    uint flag_offset;
    uint counters_offset;
    uint regions;
    uint table;    // where the table of the products is in the filters
    uint products;
};

// A workgroup's product, as the table has it.
uint src_first;
uint filters_first;    // the constant part of all sums follows the filter
uint computed_first;
uint checks_first;
uint extra_first;
uint dst_first;
uint first_region;
uint rows;
uint words;    // of the results of a row
uint check_words;
uint region_rows;
uint region_checks;    // check words of a workgroup's rows; fewer for the last one
uint across;    // the logarithm of the neighbouring invocations that share a row
uint out_height;
uint out_width;
uint height;
uint width;
uint depth;
uint kernel_height;
uint kernel_width;
int pad_top;
int pad_left;
uint magic_height;    // to divide by the height and width of the output
uint magic_width;
uint last_word;    // of the input
int input_zero;
uint sign_mask;
uint number;    // of the comparison

const uint PRODUCT_VEC4S = 7;
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
    rows = words_of[1].w;
    words = words_of[2].x;
    check_words = words_of[2].y;
    region_rows = words_of[2].z;
    region_checks = words_of[2].w;
    across = words_of[3].x;
    out_height = words_of[3].y;
    out_width = words_of[3].z;
    height = words_of[3].w;
    width = words_of[4].x;
    depth = words_of[4].y;
    kernel_height = words_of[4].z >> 16;
    kernel_width = words_of[4].z & 0xffffu;
    pad_top = int(words_of[4].w);
    pad_left = int(words_of[5].x);
    magic_height = words_of[5].y;
    magic_width = words_of[5].z;
    last_word = words_of[5].w;
    input_zero = int(words_of[6].x);
    sign_mask = words_of[6].y;
    number = words_of[6].z;
    return fits;
}

const uint OUTSIDE = 0xffffffffu;    // the address of values in the padding

#include "include/checksum_verdict.glsl"

// The index in src of the first channel of a tap of the window of a row.
uint address_of(ivec3 window, uint ky, uint kx) {
    ivec2 at = window.yz + ivec2(ky * DILATION_Y, kx * DILATION_X);
    bool inside = all(lessThan(uvec2(at), uvec2(height, width)));
    uint address = ((uint(window.x) * height + uint(at.x)) * width + uint(at.y)) * depth;
    return mix(OUTSIDE, address, inside);
}

ivec3 window_of(uint row) {
    uint line = divide(row, out_width, magic_width), image = divide(line, out_height, magic_height);
    uvec2 at = uvec2(line - image * out_height, row - line * out_width);
    return ivec3(image, ivec2(at * uvec2(STRIDE_Y, STRIDE_X)) - ivec2(pad_top, pad_left));
}

// Adds what is due to the results in memory, and may copy them.
void add_words(inout uint due[ROWS], uint row[ROWS], bool exists[ROWS], uint lane, uint lanes) {
    uint results[ROWS], others[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) results[r] = others[r] = 0u;
    if (WIDE) {
        uint vec4s = words / 4u;
        for (uint i = lane; i < vec4s; i += lanes) {
            uvec4 factors = checksum_factor(4u * i + uvec4(0u, 1u, 2u, 3u));
            uvec4 result[ROWS], other[ROWS];    // all loads are under way together
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                result[r] = computed_wide_at(computed_first / 4u + row[r] * vec4s + i);
                if (HAS_EXTRA) other[r] = extra_wide_at(extra_first / 4u + row[r] * vec4s + i) ^ sign_mask;
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                results[r] += sum_of_products(result[r], factors);
                if (HAS_EXTRA) others[r] += sum_of_products(other[r], factors);
                if (COPIES && exists[r]) dst_wide[dst_first / 4u + row[r] * vec4s + i] = result[r];
            }
        }
    } else {
        for (uint i = lane; i < words; i += lanes) {
            uint factor = checksum_factor(i);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint at = row[r] * words + i, result = computed_at(computed_first + at);
                results[r] += factor * result;
                if (HAS_EXTRA) others[r] += factor * (extra_at(extra_first + at) ^ sign_mask);
                if (COPIES && exists[r]) dst[dst_first + at] = result;
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        due[r] += of_result(results[r]);
        if (HAS_EXTRA) due[r] += of_extra(others[r]);
    }
}

// The products of four channels, whose sum comes last.
#ifdef ARITHMETIC_DOT
uvec4 products_of(uint word, uvec4 filter4) { return dots_of_bytes(word ^ sign_mask, filter4); }
uint sum_of(uvec4 products) { return products.x + (products.y << 8) + (products.z << 16) + (products.w << 24); }
#else
uvec4 products_of(uint word, uvec4 filter4) { return uvec4(unpack_bytes(word, sign_mask)) * filter4; }
uint sum_of(uvec4 products) { return products.x + products.y + products.z + products.w; }
#endif

// Vec4s of channels that are loaded at once.
const uint TOGETHER = SPAN < 4u ? 1u : SPAN / 4u;

// Adds the products of some channels of a tap of rows, from the vec4 `four` on, with the filter that is the sum of all.
// That is zero past the last channel.
void add_products(inout uint due[ROWS], uint addresses[ROWS], uint tap, uint four) {
    uint padding = (uint(input_zero) * 0x01010101u) ^ sign_mask;
    uint from = filters_first / 4u + tap * divide_up(depth, 4u) + four;
    uvec4 filter4[4], loaded[ROWS];
    [[unroll]] for (uint w = 0; w < TOGETHER; w++) filter4[w] = filters_vec4s_at(from + w);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint at = mix(0u, addresses[r] + four * 4u, addresses[r] != OUTSIDE);
        if (SPAN == 16u) loaded[r] = src_wide_at(src_first / 4u + (at >> 4));
        else loaded[r].x = src_at(src_first + (at >> 2));
        if (SPAN < 4u) loaded[r].x = join_words(loaded[r].x, src_at(src_first + min((at + 3u) >> 2, last_word)), at);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uvec4 products = uvec4(0u), levels = mix(uvec4(padding), loaded[r], bvec4(addresses[r] != OUTSIDE));
        [[unroll]] for (uint w = 0; w < TOGETHER; w++) products += products_of(levels[w], filter4[w]);
        due[r] += sum_of(products);
    }
}

const bool BY_LINES = LINE_WORDS > 0u;

// The bytes of a word that are in first..end - 1. Its first byte is `at`.
uint bytes_below(int count) { return mix(~0u, (1u << 8u * uint(clamp(count, 0, 3))) - 1u, count < 4); }
uint bytes_within(int first, int end, int at) { return bytes_below(end - at) & ~bytes_below(first - at); }

// Adds the products of 16 bytes of all lines of the windows of rows, from a line on, with the filter that is the sum of all.
// That is zero past the last column.
void add_lines(inout uint due[ROWS], ivec3 windows[ROWS], uint ky, uint step, uint end, uint part) {
    uint padding = (uint(input_zero) * 0x01010101u) ^ sign_mask, bytes = kernel_width * depth, behind = 16u * part;
    uvec4 valid[ROWS];    // bytes of columns that exist
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        int first = max(-windows[r].z, 0) * int(depth), last = (int(width) - windows[r].z) * int(depth);
        [[unroll]] for (uint w = 0; w < LINE_WORDS; w++) valid[r][w] = bytes_within(first, last, int(behind + 4u * w));
    }
    for (; ky < end; ky += step) {
        uint from = filters_first / 4u + ky * divide_up(bytes, 16u) * 4u + behind / 4u;
        uvec4 filter4[4], low[ROWS], high[ROWS];
        int at[ROWS];
        bool inside[ROWS];
        [[unroll]] for (uint w = 0; w < LINE_WORDS; w++) filter4[w] = filters_vec4s_at(from + w);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            int y = windows[r].y + int(ky * DILATION_Y);
            inside[r] = uint(y) < height;
            int line = windows[r].x * int(height) + mix(0, y, inside[r]);
            at[r] = (line * int(width) + windows[r].z) * int(depth) + int(behind);    // may be in front of the first image
            ivec2 vec4s = clamp((at[r] >> 4) + ivec2(0, 1), 0, int(last_word / 4u));
            low[r] = src_wide_at(src_first / 4u + uint(vec4s.x));
            high[r] = src_wide_at(src_first / 4u + uint(vec4s.y));
        }
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            // The five words from the first byte on.
            bool by_two = (at[r] & 8) != 0, by_one = (at[r] & 4) != 0;
            uvec4 first = mix(low[r], uvec4(low[r].zw, high[r].xy), bvec4(by_two));
            uvec2 rest = mix(high[r].xy, high[r].zw, bvec2(by_two));
            uint words[5] = uint[](first.x, first.y, first.z, first.w, rest.x);
            words = uint[](mix(words[0], words[1], by_one), mix(words[1], words[2], by_one), mix(words[2], words[3], by_one),
                           mix(words[3], words[4], by_one), mix(rest.x, rest.y, by_one));
            uvec4 products = uvec4(0u);
            [[unroll]] for (uint w = 0; w < LINE_WORDS; w++) {
                uint loaded = join_words(words[w], words[w + 1u], uint(at[r]));
                uint exists = mix(0u, valid[r][w], inside[r]);
                products += products_of((loaded & exists) | (padding & ~exists), filter4[w]);
            }
            due[r] += sum_of(products);
        }
    }
}

// The sum that is due to some rows.
uint due_to(uint row[ROWS], bool exists[ROWS], uint lane, uint lanes, uint always) {
    uint due[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) due[r] = lane == 0u ? always : 0u;
    add_words(due, row, exists, lane, lanes);
    uint addresses[ROWS], vec4s = divide_up(depth, 4u);
    if (SIDE_BY_SIDE) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) addresses[r] = row[r] * depth;
        for (uint four = lane * TOGETHER; four < vec4s; four += lanes * TOGETHER) add_products(due, addresses, 0u, four);
    } else {
        ivec3 windows[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) windows[r] = window_of(row[r]);
        // Invocations that share a row also share its taps, so that few loads of one wait for each other.
        uint loads = BY_LINES ? divide_up(kernel_width * depth, 16u) : divide_up(vec4s, TOGETHER);
        uint of_tap = min(loads, lanes), taps = lanes / of_tap, first_tap = lane / of_tap;
        uint end = lane < of_tap * taps ? kernel_height * (BY_LINES ? 1u : kernel_width) : 0u;
        uint first_load = lane - first_tap * of_tap;
        if (BY_LINES) {
            for (uint load = first_load; load < loads; load += of_tap) add_lines(due, windows, first_tap, taps, end, load);
        } else {
            for (uint tap = first_tap; tap < end; tap += taps) {
                uint ky = tap / kernel_width;
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    addresses[r] = address_of(windows[r], ky, tap - ky * kernel_width);
                for (uint load = first_load; load < loads; load += of_tap)
                    add_products(due, addresses, tap, load * TOGETHER);
            }
        }
    }
    uint sum = 0u;
    [[unroll]] for (uint r = 0; r < ROWS; r++) sum += mix(0u, position_factor(row[r]), exists[r]) * due[r];
    return sum;
}

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, region = group / SLICES, slice = group % SLICES;
    if (region >= regions) return;
    if (!take_product(product_of(region))) return;    // the host misses a comparison
    // Rows side by side, and the invocations of each.
    uint shared_by = ALONE ? 0u : across, down = gl_WorkGroupSize.x >> shared_by, lanes = SLICES << shared_by;
    uint own = gl_LocalInvocationID.x >> shared_by;
    uint lane = (slice << shared_by) + gl_LocalInvocationID.x - (own << shared_by);
    uint place = region - first_region, first = place * region_rows, last = min(first + region_rows, rows) - 1u;
    Sums sums = Sums(0u, 0u);
    uint of_line = BY_LINES ? divide_up(kernel_width * depth, 16u) * 4u : kernel_width * divide_up(depth, 4u);    // vec4s
    uint always = filters_at(filters_first + kernel_height * of_line * 4u);
    for (uint next = first; next <= last; next += down * ROWS) {
        uint row[ROWS];
        bool exists[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            uint at = next + own + r * down;
            row[r] = min(at, last);
            exists[r] = at <= last;
        }
        sums.due += due_to(row, exists, lane, lanes, always);
    }
    uint checks_end = min((place + 1u) * region_checks, check_words), of_slice = divide_up(region_checks, SLICES);
    uint own_checks = min(place * region_checks + slice * of_slice, checks_end);
    sums.stored = sum_of_checks(own_checks, min(of_slice, checks_end - own_checks));
    add_up(sums);
    if (gl_LocalInvocationID.x != 0u) return;
    if (SLICES > 1u) {
        uint at = counters_offset + 3u * region;
        atomicAdd(counters[at], sums.stored);
        atomicAdd(counters[at + 1u], sums.due);
        memoryBarrierBuffer();
        if (atomicAdd(counters[at + 2u], 1u) != SLICES - 1u) return;
        memoryBarrierBuffer();
        sums = Sums(atomicExchange(counters[at], 0u), atomicExchange(counters[at + 1u], 0u));
        counters[at + 2u] = 0u;
    }
    compare(sums, place, first);
}
