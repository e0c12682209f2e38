// TILE_REGISTER and TILE_QUADS: an invocation computes ROWS pixels of VEC4S vec4s of output channels in registers,
// without shared memory and barriers. ACROSS neighbouring invocations compute neighbouring channels, and the next ones
// the same channels of neighbouring pixels.
//
// With TILE_QUADS each invocation of a quad loads the input of another pixel, and the quad exchanges the inputs by
// swaps: sum number j of a lane belongs to the pixel of lane ^ j. ACROSS is therefore a multiple of four.

#ifndef NNVK_GEMM_REGISTER_GLSL
#define NNVK_GEMM_REGISTER_GLSL

#include "arithmetic.glsl"

layout(constant_id = 7) const uint VEC4S = 1;
// Weights are in packed blocks, not in order.
layout(constant_id = 8) const bool PACKED = true;
// The neighbouring invocations that compute neighbouring channels. Workgroups are one-dimensional, because llvmpipe
// builds its vectors only from neighbours along x.
layout(constant_id = 9) const uint ACROSS = 8;

#if defined(TILE_REGISTER) && (defined(BYTES_AS_FLOATS) || defined(ARITHMETIC_NONE) && !defined(WEIGHTS_ARE_BYTES))
// The weights of one element of K are multiplied before the next ones are loaded, or converted. The compilers of Mali and
// VideoCore leave loads where they are, so that fewer values are in registers.
#define HAS_ELEMENTS
layout(constant_id = 44) const bool BY_ELEMENTS = false;
#else
const bool BY_ELEMENTS = false;
#endif
// The taps of a line of a window, if each has one round and the loop over them is unrolled; otherwise 0. The weights are
// packed, and all sums are exact.
#ifdef HAS_ELEMENTS
layout(constant_id = 60) const uint LINE_TAPS = 0;
#else
const uint LINE_TAPS = 0;
#endif
// Floats are in packed blocks as numbers of 32 bits are. The bias has what is due to the input's zero point.
#if defined(HAS_ELEMENTS) && defined(BYTES_AS_FLOATS)
#include "../half_weights.glsl"
#else
const bool HALF_WEIGHTS = false, WHOLE_FLOATS = false;
#endif
// The parameters of outputs, which are many for bytes, are loaded after the loop, so that it has their registers.
#ifdef BYTES_AS_FLOATS
#define ENDS_LATE BY_ELEMENTS
#else
#define ENDS_LATE false
#endif
// Addresses are those of the next vec4s, and not those of a tap, where none is OUTSIDE.
#ifdef BYTES_AS_FLOATS
const bool ADDRESSES_MOVE = false;
#else
const bool ADDRESSES_MOVE = BY_ELEMENTS && !PADDED && SPAN >= 4u;
#endif
#ifdef TILE_QUADS
const uint SHARE = 4;
#define SWAPPED(value, j)                                                \
    ((j) == 0u ? (value) : (j) == 1u ? subgroupQuadSwapHorizontal(value) \
     : (j) == 2u ? subgroupQuadSwapVertical(value) : subgroupQuadSwapDiagonal(value))
#else
const uint SHARE = 1;
#define SWAPPED(value, j) (value)
#endif
// Invocations without a first pixel end at once. A phase has pixels that are not in the output.
const bool FIRST_EXISTS = SHARE == 1u && SPLIT != PHASES;
const uint MAX_ROWS = 16;
const uint MAX_VEC4S = 2;
const uint SUMS = ROWS * VEC4S, MAX_SUMS = MAX_ROWS * MAX_VEC4S;
const uint LOADS = ROWS / SHARE;
const uint EXACT_ROUNDS = EXACT_VEC4S / ROUND_VEC4S;

#define SUMS_TOGETHER (BY_ELEMENTS ? 8 : 16)
#include "split_k.glsl"

// The place of the weights of a vec4 of output channels, as an index of K in `weights`; for bytes in order, in
// `weights_words`.
struct Columns {
    uint first;
    uint stride;    // from a vec4 of K to the next
};

Columns columns_of(Part part, uint four, uint vec4s) {
    if (PACKED) {
        uint lane = four % (BLOCK / 4u), block = first_block(part) + four / (BLOCK / 4u);
        uint size = divide_up(depth, 4u) * (ONE_TAP ? 1u : kernel_height * kernel_width);
#ifdef WEIGHTS_ARE_BYTES
        uint stride = WHOLE_FLOATS ? 32u : HALF_WEIGHTS ? 16u : 8u;
        return Columns(weights_offset / WEIGHTS_WORDS + block * size * stride + lane * (WHOLE_FLOATS ? 2u : 1u), stride);
#else
        return Columns(weights_offset / WEIGHTS_WORDS + block * size * 32u + lane * 2u, 32u);
#endif
    }
    uint first = weights_offset * WEIGHT_VALUES / 4u + four;
    if (SPLIT == CHANNELS) first += part.number * vec4s;
    if (SPLIT == BATCHES)
        first += part.number / WEIGHT_PARTS * depth * weight_row(vec4s) + part.number % WEIGHT_PARTS * vec4s;
    return Columns(first, weight_row(vec4s) * 4u);
}

// The place of the weights of the vec4 of output channels that is so many behind one with an even number: one or none.
Columns columns_after(Columns columns, uint vec4s) {
#ifdef WEIGHTS_ARE_BYTES
    return Columns(columns.first + (WHOLE_FLOATS ? 2u : 1u) * vec4s, columns.stride);
#else
    return Columns(columns.first + (PACKED ? 2u : 1u) * vec4s, columns.stride);
#endif
}

// The place where a tap's weights begin.
uint tap_weights(Columns columns, uint tap) {
    return columns.first + (PACKED ? tap * divide_up(depth, 4u) * columns.stride : tap * depth * (columns.stride / 4u));
}

#if !defined(ARITHMETIC_DOT) && !defined(ARITHMETIC_INT8)    // these are always packed
// The weights of one element of K, of the four from channel c on; zeros if the element is past `depth`.
INPUT4 load_row(uint at, Columns columns, uint c, uint k, Zeros zeros) {
#ifndef WEIGHTS_ARE_BYTES
    if (PACKED) return WEIGHTS_OF(weights_at(at + k / 2u * 16u + k % 2u));
#endif
    bool inside = any(bvec2(SPAN != 1u, c + k < depth));
    uint from = mix(columns.first, at + k * (columns.stride / 4u), inside);
#if defined(BYTES_AS_FLOATS)
    vec4 row = vec4(unpack_bytes(weights_words_at(from), weight_sign_mask)) - zeros.weights;
#elif defined(DTYPE_Q16)
    LEVEL4 row = LEVEL4(unpack_signed_bytes(weights_words_at(from)));
#else
    INPUT4 row = WEIGHTS_OF(weights_at(from));
#endif
    return mix(INPUT4(0), row, bvec4(inside));
}
#endif

// The weights of four elements of K from channel c on.
Weights4 load_weights(uint at, Columns columns, uint c, Zeros zeros) {
#ifdef WEIGHTS_ARE_BYTES
    if (PACKED) return weights_of(packed_weights_at(at), zeros);
#endif
    Weights4 loaded;
#if !defined(ARITHMETIC_DOT) && !defined(ARITHMETIC_INT8)
    [[unroll]] for (uint k = 0; k < 4u; k++) loaded.rows[k] = load_row(at, columns, c, k, zeros);
#endif
    return loaded;
}

// The address from which the rounds of a tap load, from a round on.
uint first_address(Part part, Window window, uint ky, uint kx, uint c) {
    uint address = tap_address(part, window, ky, kx);
    return ADDRESSES_MOVE ? (address >> 2) + c * ROUND_VEC4S : address;
}

// A round whose weights are loaded, or converted, for one element of K after the other. Bytes are converted by shifts, which
// compilers turn into one instruction with the conversion where a GPU has that. Packed weights, unless they are floats,
// keep their zero point: it is multiplied by the sums of inputs, `counts`, when the sums are carried.
void multiply_by_elements(inout Sum sums[MAX_SUMS], inout float counts[MAX_ROWS], inout uint addresses[MAX_ROWS],
                          inout uint at[MAX_VEC4S], Columns columns[MAX_VEC4S], uint channel, Zeros zeros) {
#ifdef HAS_ELEMENTS
#ifdef BYTES_AS_FLOATS
    LOADED4 loaded[MAX_ROWS][MAX_ROUND_VEC4S];
    [[unroll]] for (uint i = 0; i < LOADS; i++) load_round(addresses[i], channel, zeros, loaded[i]);
#endif
    [[unroll]] for (uint w = 0; w < ROUND_VEC4S; w++) {
        INPUT4 inputs[MAX_ROWS];
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
#ifdef BYTES_AS_FLOATS
            inputs[i] = vec4(unpack_bytes(loaded[i][w], zeros.sign_mask));
            if (!HALF_WEIGHTS) inputs[i] -= float(input_zero);
            if (PACKED && !HALF_WEIGHTS) {
                [[unroll]] for (uint k = 0; k < FEW; k++) counts[i] += inputs[i][k];
            }
#else
            inputs[i] = input_of(ADDRESSES_MOVE ? src_vec4s_at(addresses[i]++)
                                                : load_input(addresses[i], channel, w * 4u, zeros.outside), zeros);
#endif
        }
#ifdef BYTES_AS_FLOATS
        uvec4 words[MAX_VEC4S];
        [[unroll]] for (uint f = 0; f < VEC4S; f++) words[f] = PACKED && !HALF_WEIGHTS ? packed_weights_at(at[f]) : uvec4(0u);
#endif
        [[unroll]] for (uint k = 0; k < FEW; k++) {
            [[unroll]] for (uint f = 0; f < VEC4S; f++) {
#ifdef BYTES_AS_FLOATS
                INPUT4 row;
                if (WHOLE_FLOATS) {
                    row = uintBitsToFloat(weights_at(at[f] + k / 2u * 16u + k % 2u));
                } else if (HALF_WEIGHTS) {
                    if (k % 2u == 0u) words[f] = weights_at(at[f] + 4u * k);    // of two elements of K
                    row = unpack_weights(k % 2u == 0u ? words[f].xy : words[f].zw);
                } else {
                    row = PACKED ? vec4(words[f] >> (8u * k) & 0xffu) : load_row(at[f], columns[f], channel + w * 4u, k, zeros);
                }
#else
                INPUT4 row = load_row(at[f], columns[f], channel + w * 4u, k, zeros);
#endif
                [[unroll]] for (uint i = 0; i < LOADS; i++) {
                    [[unroll]] for (uint o = 0; o < 4u; o++)
                        sums[i * VEC4S + f].open[o] = multiply_add(row[o], inputs[i][k], sums[i * VEC4S + f].open[o]);
                }
            }
        }
        [[unroll]] for (uint f = 0; f < VEC4S; f++) at[f] += columns[f].stride;
    }
#endif
}

// Carry the sums, whose weights kept their zero point if `counts` are not zero.
void carry_all(inout Sum sums[MAX_SUMS], inout float counts[MAX_ROWS]) {
    [[unroll]] for (uint n = 0; n < SUMS; n++) carry(sums[n]);
#ifdef BYTES_AS_FLOATS
    if (BY_ELEMENTS && PACKED && !HALF_WEIGHTS) {
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            [[unroll]] for (uint f = 0; f < VEC4S; f++) sums[i * VEC4S + f].carried -= weight_zero * int(counts[i]);
            counts[i] = 0.0;
        }
    }
#endif
}

void main() {
    const uint DOWN = gl_WorkGroupSize.x / ACROSS;
    uint column = gl_LocalInvocationID.x % ACROSS, lane = column % SHARE;
    Place place = place_of_group(ACROSS * VEC4S * 4u, DOWN * ROWS, SPLIT_K);
    uint row = place.row + gl_LocalInvocationID.x / ACROSS * SHARE;
    uint four = (place.block * ACROSS + column) * VEC4S;
    uint vec4s = divide_up(out_channels, 4u);
    // A quad stays active as long as one of its invocations has work, because each of them loads for the others.
    if (any(bvec3(place.part >= parts, row >= rows, four - lane * VEC4S >= vec4s))) {
        STORE_CHECK(place)
        return;
    }
    Part part = part_of(place.part);
    Zeros zeros = zeros_of(PACKED);

    Window windows[MAX_ROWS];
    uint input_counts[MAX_ROWS];
    float counts[MAX_ROWS];
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        uint own = row + i * DOWN * SHARE + lane;
        windows[i] = window_of(part, own, any(bvec2(FIRST_EXISTS && i == 0u, own < rows)));
        input_counts[i] = 0u;
        counts[i] = 0.0;
    }
    Output targets[MAX_VEC4S];
    Columns columns[MAX_VEC4S];
    uvec4 weight_counts[MAX_VEC4S];
    Sum sums[MAX_SUMS];
    [[unroll]] for (uint f = 0; f < VEC4S; f++) {
#ifndef SUMS_SPLIT
        if (!ENDS_LATE) targets[f] = output_of(place_in_pixel(part), (four + f) * 4u);
#endif
        columns[f] = WHOLE_COLUMNS && f > 0u ? columns_after(columns[0], f)
                                             : columns_of(part, WHOLE_COLUMNS ? four : min(four + f, vec4s - 1u), vec4s);
        weight_counts[f] = uvec4(0u);
        ACC4 start = ENDS_LATE ? ACC4(0) : start_of(targets[f]);
#ifdef BYTES_AS_FLOATS
        if (ENDS_LATE && FLOAT_TOTALS) start = output_of(place_in_pixel(part), (four + f) * 4u).bias;
#endif
        [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r * VEC4S + f] = sum_from(start);
    }

    // There is one loop over taps and channels, so that sums are carried from round to round once, and not once per
    // loop.
    uint quads = divide_up(depth, 4u), rounds = quads / ROUND_VEC4S;
    Stretch own = stretch_of(place.k_slice, part.taps.x * part.taps.y * rounds, max(LINE_TAPS, 1u));
    uint tap = ONE_TAP || SPLIT_K == 1u ? 0u : own.first / rounds, c = own.first - tap * rounds;
    uint ky = tap / max(part.taps.y, 1u), kx = tap - ky * part.taps.y;    // a phase may have no taps
    uint addresses[MAX_ROWS];
    [[unroll]] for (uint i = 0; i < LOADS; i++) addresses[i] = first_address(part, windows[i], ky, kx, c);
    uint at[MAX_VEC4S];
    [[unroll]] for (uint f = 0; f < VEC4S; f++)
        at[f] = tap_weights(columns[f], tap_number(part, ky, kx)) + c * ROUND_VEC4S * columns[f].stride;
    if (LINE_TAPS > 0u) {
        uint end = SPLIT_K == 1u ? part.taps.x : own.end / LINE_TAPS;
        for (uint line = ky; line < end; line++) {
            [[unroll]] for (uint tap = 0; tap < LINE_TAPS; tap++) {
                [[unroll]] for (uint i = 0; i < LOADS; i++) addresses[i] = first_address(part, windows[i], line, tap, 0u);
                multiply_by_elements(sums, counts, addresses, at, columns, 0u, zeros);
            }
        }
        carry_all(sums, counts);
    }
    uint own_rounds = own.end - own.first;
    uint turns = LINE_TAPS > 0u ? 0u : CARRIES ? divide_up(own_rounds, EXACT_ROUNDS) : 1u;
    for (uint turn = 0; turn < turns; turn++) {
        uint end = CARRIES ? min(own_rounds - turn * EXACT_ROUNDS, EXACT_ROUNDS) : own_rounds;
        for (uint k = 0; k < end; k++) {
            if (!ONE_TAP && c == rounds) {
                c = 0u;
                kx++;
                if (kx == part.taps.y) {
                    kx = 0u;
                    ky++;
                }
                [[unroll]] for (uint i = 0; i < LOADS; i++) addresses[i] = first_address(part, windows[i], ky, kx, 0u);
                if (SPLIT == PHASES || !PACKED) {    // else one tap follows the other
                    uint number = tap_number(part, ky, kx);
                    [[unroll]] for (uint f = 0; f < VEC4S; f++) at[f] = tap_weights(columns[f], number);
                }
            }
            uint channel = c * ROUND_VEC4S * 4u;
            if (BY_ELEMENTS) {
                multiply_by_elements(sums, counts, addresses, at, columns, channel, zeros);
            } else {
                Weights4 weight[MAX_ROUND_VEC4S][MAX_VEC4S];
                [[unroll]] for (uint w = 0; w < ROUND_VEC4S; w++) {
                    [[unroll]] for (uint f = 0; f < VEC4S; f++) {
                        weight[w][f] = load_weights(at[f], columns[f], channel + w * 4u, zeros);
                        at[f] += columns[f].stride;
                        weight_counts[f] = count_weights(weight_counts[f], weight[w][f]);
                    }
                }
                [[unroll]] for (uint i = 0; i < LOADS; i++) {
                    INPUT4 inputs[MAX_ROUND_VEC4S];
                    load_vec4s(addresses[i], channel, zeros, inputs);
                    [[unroll]] for (uint w = 0; w < ROUND_VEC4S; w++) input_counts[i] = count_inputs(input_counts[i], inputs[w]);
                    [[unroll]] for (uint j = 0; j < SHARE; j++) {
                        [[unroll]] for (uint w = 0; w < ROUND_VEC4S; w++) {
                            INPUT4 values = SWAPPED(inputs[w], j);
                            [[unroll]] for (uint f = 0; f < VEC4S; f++)
                                add_products(sums[(i * SHARE + j) * VEC4S + f], values, weight[w][f]);
                        }
                    }
                }
            }
            if (EACH_ROUND_CARRIES) {
                [[unroll]] for (uint n = 0; n < SUMS; n++) carry(sums[n]);
            }
            c++;
        }
        carry_all(sums, counts);
    }
    ACC4 due[MAX_VEC4S];
    [[unroll]] for (uint f = 0; f < VEC4S; f++) due[f] = due_to_weights(weight_counts[f], (own.end - own.first) * ROUND_VEC4S);
    uint pixels[MAX_ROWS];
    TOTAL whole[MAX_SUMS];
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        [[unroll]] for (uint j = 0; j < SHARE; j++) {
            uint r = i * SHARE + j;
            pixels[r] = SWAPPED(windows[i].pixel, j);
            uint count = COUNTS ? SWAPPED(input_counts[i], j) : 0u;
            [[unroll]] for (uint f = 0; f < VEC4S; f++) whole[r * VEC4S + f] = total(sums[r * VEC4S + f], count, due[f]);
        }
    }
#ifdef SUMS_SPLIT
    leave(place, whole);
    if (!comes_last(place)) return;
    [[unroll]] for (uint f = 0; f < VEC4S; f++) targets[f] = output_of(place_in_pixel(part), (four + f) * 4u);
    add_up(place, targets, whole);
#elif defined(EPILOGUE_FUSED) && !defined(BYTES_AS_FLOATS)
    // Once more, so that registers hold the place and what an epilogue needs only after the loop.
    if (BY_ELEMENTS) {
        [[unroll]] for (uint f = 0; f < VEC4S; f++) targets[f] = output_of(place_in_pixel(part), (four + f) * 4u);
    }
#else
    if (ENDS_LATE) {
        [[unroll]] for (uint f = 0; f < VEC4S; f++) {
            targets[f] = output_of(place_in_pixel(part), (four + f) * 4u);
            [[unroll]] for (uint r = 0; r < ROWS; r++) whole[r * VEC4S + f] = with_total(whole[r * VEC4S + f], TOTAL_FROM(targets[f].bias));
        }
    }
#endif
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint f = 0; f < VEC4S; f++) {
            bool exists = FIRST_EXISTS && r == 0u ? targets[f].stored > 0u : exists_in(pixels[r], targets[f]);
            ACC4 other = other_of(exists, pixels[r], targets[f]);
#ifdef BYTES_AS_FLOATS
            if (FLOAT_TOTALS) store_output(exists, pixels[r], targets[f], sums[r * VEC4S + f].open, other);
            else
#endif
            store_output(exists, pixels[r], targets[f], whole[r * VEC4S + f], other);
        }
    }
    STORE_CHECK(place)
}

#endif
