#version 450
// Verifies a GEMM of floats: computes each result once more, in another order and from other copies of the filters. A
// result is wrong if it is further from the second one than a bound on what roundings can have made of both
// (lowering/gemm/verification/bound.py). The bound takes the sum of the magnitudes of all terms. The magnitudes of sums
// of some terms give a smaller bound at once, which nearly all results are within; for others check_row computes the
// bound. Results are copied meanwhile. The first wrong element of an execution is reported to the host: the number of
// the comparison, the place, both values.
//
// It shares no code of products with gemm.comp: each invocation goes through all of K for ROWS pixels and four output
// channels. Filters are [k][part][output channels padded to vec4s], or have the parts outermost. With LOADS_SHARED a
// workgroup is a subgroup of eight, which is a vector of a CPU: its invocations load the inputs of different pixels for
// each other.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef LOADS_SHARED
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

#include "include/flag.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
// Input channels of a part, and output channels of one, are whole vec4s.
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const bool WIDE_RESULTS = false;
// The output channels of a part are padded to vec4s in memory.
layout(constant_id = 15) const bool PADDED_RESULTS = false;
layout(constant_id = 9) const uint ROWS = 4;              // pixels of an invocation
layout(constant_id = 12) const bool HAS_EXTRA = false;    // the product's epilogue adds a tensor, one for one
layout(constant_id = 16) const uint INTERLEAVED = 1;          // parts whose results lie side by side
#ifdef LOADS_SHARED
layout(constant_id = 10) const uint TOGETHER = 1;    // vec4s of K of a round, a divisor of all
#else
const uint TOGETHER = 1;
#endif

READS(0, Src, src)
READ_VIEW(1, Filters, filters, WEIGHT4)
READ_VIEW(2, Bias, bias, float)
READS(3, Computed, computed)
WRITES(4, Dst, dst)
FLAG_AS(5, Flag, flag)
READS(6, Extra, extra)

layout(push_constant) uniform Push {
    uint src_offset;
    uint filters_offset;
    uint bias_offset;
    uint computed_offset;
    uint dst_offset;
    uint flag_offset;
    uint extra_offset;
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
    uint src_part;        // from a part to the next: of the input,
    uint filter_part;     // of the filters, in vec4s,
    uint bias_part;       // of the biases,
    uint dst_part;        // and of the results, side by side
    uint filter_block;    // from eight vec4s of output channels to the next, in vec4s,
    uint filter_step;     // and from an element of K to the next
    uint dst_pitch;       // from a pixel of the results to the next
    float low;
    float high;
    float pad_steps;    // roundings of a sum besides those that its length tells (gemm_bound.py)
    float underflow;    // what may be lost below the smallest normal number
    uint number;        // of the comparison
};

#include "include/bound.glsl"

const uint BLOCK = 8;             // vec4s of K that are added up by themselves
const float EXTRA_STEPS = 4.0;    // roundings of both sums with the extra tensor
#ifdef LOADS_SHARED
const uint SHARE = 8;    // invocations that load inputs for each other
#else
const uint SHARE = 1;
#endif
const uint LOADED = (ROWS + SHARE - 1u) / SHARE;    // pixels whose inputs an invocation loads

// The column of results of an invocation.
struct Column {
    uint part;
    uint first;    // output channel of the part
};

// The index in filters of those of the first element of K.
uint first_filters(Column column) {
    return filters_offset / WEIGHT_WORDS + column.part * filter_part + column.first / 32u * filter_block + column.first / 4u % 8u;
}

vec4 biases_of(Column column) {
    uvec4 at = min(column.first + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u));
    at += bias_offset + column.part * bias_part;
    return vec4(bias_at(at.x), bias_at(at.y), bias_at(at.z), bias_at(at.w));
}

// Four inputs of a pixel, from a channel of its part on; 0 in the padding, and past the last channel.
vec4 inputs_at(uint address, uint channel) {
    bool inside = address != OUTSIDE;
    uint from = mix(0u, address, inside);
    vec4 loaded;
    if (WIDE) {
        loaded = LOAD4_WITH(src, from + channel >> 2, 0u);
    } else {
        loaded = GATHER4_WITH(src, from + min(channel + uvec4(0u, 1u, 2u, 3u), uvec4(depth - 1u)), 0u);
        loaded = mix(vec4(0.0), loaded, lessThan(channel + uvec4(0u, 1u, 2u, 3u), uvec4(depth)));
    }
    return mix(vec4(0.0), loaded, bvec4(inside));
}

// The filters of an element of K, which begin at an index with those of a channel. Inputs past the last channel are 0.
vec4 filters_of(uint at, uint channel, uint i) {
    return FROM_WEIGHT4(filters_at(at + (WIDE ? i : min(i, depth - 1u - channel)) * filter_step));
}

// The place of the first of the four results of a pixel.
uint place_of(Column column, uint row) {
    return (column.part / INTERLEAVED * rows + row) * dst_pitch + column.part % INTERLEAVED * dst_part + column.first;
}

uvec4 places_of(Column column, uint row) {
    return place_of(column, row) + min(uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - column.first - 1u));
}

vec4 results_at(Column column, uint row) {
    if (WIDE_RESULTS) return LOAD4_WITH(computed, place_of(column, row) >> 2, 0u);
    return GATHER4_WITH(computed, places_of(column, row), 0u);
}

// Added to the sums of a pixel behind the product.
vec4 extra_of(Column column, uint row) {
    if (!HAS_EXTRA) return vec4(0.0);
    if (WIDE_RESULTS) return LOAD4_WITH(extra, place_of(column, row) >> 2, 0u);
    return GATHER4_WITH(extra, places_of(column, row), 0u);
}

void copy(Column column, uint row, vec4 results) {
    uint at = place_of(column, row);
    if (WIDE_RESULTS) STORE4_WITH(dst, at >> 2, results, 0u);
#ifdef STORED_ALONE
    uint count = WIDE_RESULTS ? 0u : min(4u, out_channels - column.first);
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        if (i < count) STORE(dst, at + i, results[i]);
    }
#endif
}

// Whether a line of filters of a transposed convolution comes to a line of pixels, as far as strides say.
bool is_reached(int line, uint ky) {
    int apart = line - int(ky);
    return apart >= 0 && uint(apart) % STRIDE_Y == 0u;
}

// Compares the results of a pixel within a bound that takes the magnitude of each finite term.
void check_row(Column column, uint row) {
    vec4 start = biases_of(column), sum = mix(vec4(0.0), start, are_finite(start));
    vec4 magnitude = abs(sum), bound = vec4(0.0), lost = vec4(0.0);
    uvec4 classes = classes_of(start);
    ivec3 window = window_of(row);
    uint at = first_filters(column);
    for (uint tap = 0u; tap < kernel_height * kernel_width; tap++) {
        uint ky = tap / kernel_width, kx = tap - ky * kernel_width;
        uint address = address_of(window, ky, kx, channels, column.part * src_part);
        vec4 block = vec4(0.0);
        for (uint channel = 0u; channel < depth; channel += 4u) {
            vec4 inputs = inputs_at(address, channel);
            [[unroll]] for (uint i = 0; i < 4u; i++) {
                if (channel + i < depth) {
                    float x = inputs[i];
                    vec4 filter4 = filters_of(at, channel, i);
                    uvec4 found = classes_of(vec4(x), filter4, address != OUTSIDE);
                    classes |= found;
                    bvec4 is_term = equal(found, uvec4(0u));
                    vec4 factors = mix(vec4(0.0), vec4(x), is_term);
                    filter4 = mix(vec4(0.0), filter4, is_term);
                    block = fma(factors, filter4, block);
                    magnitude += abs(factors) * abs(filter4);
                    lost += lost_of(factors, filter4);
                }
            }
            at += min(4u, depth - channel) * filter_step;
            // Each partial sum is rounded by at most its magnitude times the unit roundoff.
            if (!TRANSPOSED || address != OUTSIDE) bound += 4.0 * UNIT_ROUNDOFF * magnitude;
            if ((channel + 4u) % (4u * BLOCK) == 0u || channel + 4u >= depth) {
                sum += block;
                block = vec4(0.0);
            }
        }
    }
    bound = SLACK * (bound + pad_steps * UNIT_ROUNDOFF * magnitude) + underflow + lost;
    if (HAS_EXTRA) {
        vec4 extra = extra_of(column, row);
        bound += rounding_of(sum);
        classes |= classes_of_rounded(sum, bound);
        classes |= classes_of(extra);
        extra = mix(vec4(0.0), extra, are_finite(extra));
        sum += extra;
        magnitude += abs(extra);
        bound += EXTRA_STEPS * UNIT_ROUNDOFF * abs(extra);
    }
    vec4 results = results_at(column, row);
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        float due = sum[i];
        bool is_wrong = !is_right(results[i], classes[i], magnitude[i], bound[i], due);
        uint place = place_of(column, row) + i, padded = divide_up(out_channels, 4u) * 4u;
        if (PADDED_RESULTS) place = place / padded * out_channels + place % padded;
        if (column.first + i < out_channels && is_wrong) report(place, results[i], due);
    }
}

void main() {
    uint vec4s = divide_up(out_channels, 4u), across = divide_up(vec4s, SHARE) * SHARE, tiles = divide_up(rows, ROWS);
    uint index = flat_invocation(), tile = index / across, vec = index - tile * across, part = tile / tiles;
    uint first_row = (tile - part * tiles) * ROWS;
    if (part >= parts) return;
    // Invocations past the last vec4 load inputs for others.
    bool is_column = vec < vec4s;
    Column column = Column(part, 4u * min(vec, vec4s - 1u));

    int first_line = window_of(first_row).y;
    bool is_one_line = first_line == window_of(first_row + ROWS - 1u).y;
    uint lane = gl_LocalInvocationID.x % SHARE, taps = kernel_height * kernel_width;
    ivec3 windows[LOADED];
    [[unroll]] for (uint g = 0; g < LOADED; g++) windows[g] = window_of(first_row + g * SHARE + lane);
    // The magnitude of a sum counts once for each term behind it, and pad_steps times besides. A transposed convolution has
    // few of all taps in a pixel, and not the same ones in the next: each magnitude counts as often as there are terms.
    uint left = taps * depth, at = first_filters(column);
    if (TRANSPOSED) left = divide_up(kernel_height, STRIDE_Y) * divide_up(kernel_width, STRIDE_X) * depth;
    float steps = (float(left) + pad_steps) * UNIT_ROUNDOFF;
    vec4 start = biases_of(column), sums[ROWS], bounds[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sums[r] = start;
        bounds[r] = steps * abs(start);
    }
    for (uint tap = 0u; tap < taps; tap++) {
        uint ky = tap / kernel_width, kx = tap - ky * kernel_width;
        uint addresses[LOADED];
        [[unroll]] for (uint g = 0; g < LOADED; g++) addresses[g] = address_of(windows[g], ky, kx, channels, part * src_part);
        uint reached = depth;
        if (TRANSPOSED && is_one_line && !is_reached(first_line, ky)) {
            at += depth * filter_step;
            reached = 0u;
        }
        for (uint first = 0u; first < reached; first += 4u * BLOCK) {
            vec4 blocks[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) blocks[r] = vec4(0.0);
            uint end = min(first + 4u * BLOCK, depth);
            for (uint channel = first; channel < end; channel += 4u * TOGETHER) {
                vec4 inputs[LOADED][TOGETHER];
                [[unroll]] for (uint g = 0; g < LOADED; g++) {
                    [[unroll]] for (uint four = 0; four < TOGETHER; four++)
                        inputs[g][four] = inputs_at(addresses[g], channel + 4u * four);
                }
#ifdef LOADS_SHARED
                vec4 filter4[4u * TOGETHER];
                [[unroll]] for (uint i = 0; i < 4u * TOGETHER; i++) filter4[i] = filters_of(at, channel, i);
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    [[unroll]] for (uint four = 0; four < TOGETHER; four++) {
                        vec4 x = subgroupShuffle(inputs[r / SHARE][four], r % SHARE);
                        [[unroll]] for (uint i = 0; i < 4u; i++) blocks[r] = fma(vec4(x[i]), filter4[4u * four + i], blocks[r]);
                    }
                }
#else
                [[unroll]] for (uint i = 0; i < 4u; i++) {
                    vec4 filter4 = filters_of(at, channel, i);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) blocks[r] = fma(vec4(inputs[r][0][i]), filter4, blocks[r]);
                }
#endif
                at += (WIDE ? 4u * TOGETHER : min(4u, depth - channel)) * filter_step;
            }
            if (!TRANSPOSED) left -= end - first;
            steps = (float(left) + pad_steps) * UNIT_ROUNDOFF;
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                sums[r] += blocks[r];
                bounds[r] = fma(vec4(steps), abs(blocks[r]), bounds[r]);
            }
        }
    }

    uint far = 0u;    // a bit for each pixel with a result that is not within the smaller bound
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(first_row + r, rows - 1u);
        vec4 results = results_at(column, row);
        if (is_column && first_row + r < rows) copy(column, row, results);
        vec4 extra = extra_of(column, row), bound = bounds[r];
        if (HAS_EXTRA) bound += EXTRA_STEPS * UNIT_ROUNDOFF * abs(extra) + rounding_of(sums[r]);
        vec4 due = clamp(sums[r] + extra, vec4(low), vec4(high));
        bvec4 near = lessThanEqual(abs(results - due), bound + rounding_of(due));
        if (!are_all_near(near, results, bound, column.first)) far |= 1u << r;
    }
    far &= is_column ? ~0u >> 32u - min(rows - first_row, ROWS) : 0u;
    while (far != 0u) {
        uint r = findLSB(far);
        far &= far - 1u;
        check_row(column, first_row + r);
    }
}
