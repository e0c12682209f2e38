#version 450
// Verifies a GEMM of bytes whose results were stored with check words (lowering/checksum.py), row by row: the sum of the
// check words of a row must be the sum that follows from the row of the left matrix, the sums of the filters, and the
// results that lie in memory. Results are copied meanwhile. The first wrong row of an execution is reported to the host:
// the number of the comparison, the row, both sums.
//
// The left matrix is read as gemm.comp reads it, but all filters together are one here: each weight is the sum of the
// weights of all output channels times their factors.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define MAY_DIVIDE_AS_FLOATS
#include "include/checksum.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/quant.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;
// Rows of an invocation, and the neighbouring invocations that share them, a power of two.
layout(constant_id = 3) const uint ROWS = 4;
layout(constant_id = 4) const uint ACROSS = 1;
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
    uint filters_offset;    // the constant part of all sums follows the filter
    uint computed_offset;
    uint checks_offset;
    uint extra_offset;
    uint dst_offset;
    uint flag_offset;
    uint rows;
    uint words;    // of the results of a row
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
};

const uint OUTSIDE = 0xffffffffu;    // the address of values in the padding

shared uvec2 parts_of_sums[ACROSS == 1u ? 1u : gl_WorkGroupSize.x * ROWS];

// The sums of the check words of rows and the sums that are due, as far as an invocation knows them.
struct Sums {
    uint stored;
    uint due;
};

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

// Adds what is due to the results in memory and the check words, and copies the results.
void add_words(inout Sums sums[ROWS], uint row[ROWS], uint lane) {
    if (WIDE) {
        uint vec4s = words / 4u;
        for (uint i = lane; i < vec4s; i += ACROSS) {
            uvec4 places = 4u * i + uvec4(0u, 1u, 2u, 3u), factors = checksum_factor(OF_WORDS + places);
            uvec4 of_extra = HAS_EXTRA ? checksum_factor(OF_EXTRA + places) : uvec4(0u);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint at = min(row[r], rows - 1u) * vec4s + i;
                uvec4 result = computed_wide_at(computed_offset / 4u + at), check = checks_wide_at(checks_offset / 4u + at);
                sums[r].stored += check.x + check.y + check.z + check.w;
                sums[r].due += sum_of_products(result, factors);
                if (HAS_EXTRA) sums[r].due += sum_of_products(extra_wide_at(extra_offset / 4u + at) ^ sign_mask, of_extra);
                if (row[r] < rows) dst_wide[dst_offset / 4u + at] = result;
            }
        }
    } else {
        for (uint i = lane; i < words; i += ACROSS) {
            uint factor = checksum_factor(OF_WORDS + i), of_extra = HAS_EXTRA ? checksum_factor(OF_EXTRA + i) : 0u;
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint at = min(row[r], rows - 1u) * words + i, result = computed_at(computed_offset + at);
                sums[r].stored += checks_at(checks_offset + at);
                sums[r].due += factor * result;
                if (HAS_EXTRA) sums[r].due += of_extra * (extra_at(extra_offset + at) ^ sign_mask);
                if (row[r] < rows) dst[dst_offset + at] = result;
            }
        }
    }
}

uint products_of(uint word, uvec4 filter4) { return sum_of_products(uvec4(unpack_bytes(word, sign_mask)), filter4); }

// Vec4s of channels that are loaded at once.
const uint TOGETHER = SPAN < 4u ? 1u : SPAN / 4u;

// Adds the products of some channels of a tap of rows, from the vec4 `four` on, with the filter that is the sum of all.
// That is zero past the last channel.
void add_products(inout Sums sums[ROWS], uint addresses[ROWS], uint tap, uint four) {
    uint padding = (uint(input_zero) * 0x01010101u) ^ sign_mask;
    uint from = filters_offset / 4u + tap * divide_up(depth, 4u) + four;
    uvec4 filter4[4];
    [[unroll]] for (uint w = 0; w < TOGETHER; w++) filter4[w] = filters_vec4s_at(from + w);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        bool inside = addresses[r] != OUTSIDE;
        uint at = mix(0u, addresses[r] + four * 4u, inside);
        if (SPAN == 16u) {
            uvec4 loaded = mix(uvec4(padding), src_wide_at(src_offset / 4u + (at >> 4)), bvec4(inside));
            [[unroll]] for (uint w = 0; w < 4u; w++) sums[r].due += products_of(loaded[w], filter4[w]);
        } else {
            uint loaded = src_at(src_offset + (at >> 2));
            if (SPAN < 4u) loaded = join_words(loaded, src_at(src_offset + min((at + 3u) >> 2, last_word)), at);
            sums[r].due += products_of(mix(padding, loaded, inside), filter4[0]);
        }
    }
}

void main() {
    const uint GROUPS = gl_WorkGroupSize.x / ACROSS;
    uint lane = gl_LocalInvocationID.x % ACROSS, own = gl_LocalInvocationID.x / ACROSS;
    uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * GROUPS * ROWS + own;
    uint row[ROWS];
    Sums sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        row[r] = first + r * GROUPS;
        sums[r] = Sums(0u, 0u);
    }
    add_words(sums, row, lane);
    uint addresses[ROWS], vec4s = divide_up(depth, 4u);
    if (SIDE_BY_SIDE) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) addresses[r] = min(row[r], rows - 1u) * depth;
        for (uint four = lane * TOGETHER; four < vec4s; four += ACROSS * TOGETHER) add_products(sums, addresses, 0u, four);
    } else {
        ivec3 windows[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) windows[r] = window_of(min(row[r], rows - 1u));
        // Invocations that share a row also share its taps, so that few loads of one wait for each other.
        uint loads = divide_up(vec4s, TOGETHER), lanes = ACROSS == 1u ? 1u : min(loads, ACROSS), taps = ACROSS / lanes;
        uint end = lane < lanes * taps ? kernel_height * kernel_width : 0u;
        for (uint tap = lane / lanes; tap < end; tap += taps) {
            uint ky = tap / kernel_width;
            [[unroll]] for (uint r = 0; r < ROWS; r++) addresses[r] = address_of(windows[r], ky, tap - ky * kernel_width);
            for (uint load = lane % lanes; load < loads; load += lanes) add_products(sums, addresses, tap, load * TOGETHER);
        }
    }
    if (ACROSS > 1u) {
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            parts_of_sums[gl_LocalInvocationID.x * ROWS + r] = uvec2(sums[r].stored, sums[r].due);
        [[unroll]] for (uint half_of = ACROSS / 2u; half_of > 0u; half_of /= 2u) {
            barrier();
            if (lane < half_of) {
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    uvec2 more = parts_of_sums[(gl_LocalInvocationID.x + half_of) * ROWS + r];
                    sums[r].stored += more.x;
                    sums[r].due += more.y;
                    parts_of_sums[gl_LocalInvocationID.x * ROWS + r] = uvec2(sums[r].stored, sums[r].due);
                }
            }
        }
        if (lane != 0u) return;
    }
    uint always = filters_at(filters_offset + kernel_height * kernel_width * divide_up(depth, 4u) * 4u);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (row[r] < rows && sums[r].stored != sums[r].due + always) {
            if (IS_FIRST_COMPLAINT(flag)) {
                flag[flag_offset + 1u] = number;
                flag[flag_offset + 2u] = row[r];
                flag[flag_offset + 3u] = sums[r].stored;
                flag[flag_offset + 4u] = sums[r].due + always;
            }
        }
    }
}
