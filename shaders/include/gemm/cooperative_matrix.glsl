// TILE_COOPERATIVE_MATRIX multiplies with cooperative matrices (VK_KHR_cooperative_matrix): a subgroup holds the elements
// of a matrix together, and one instruction multiplies two of them. The device lists the sizes of its matrices, which are
// specialisation constants here. Bytes are multiplied as signed bytes with 32-bit sums, and 16-bit floats with 32-bit
// sums.
//
// A workgroup stages both operands in shared memory, STAGE chunks of 16 bytes of K at a time. An invocation loads the
// same chunk of some pixels and of some filters. It holds what it has loaded in registers while the previous stage is
// multiplied. Channels of a tap are padded to whole chunks, so a chunk never has two taps. If there are few, whole lines
// of a window are one tap (LINE_TAPS).
//
// Weights are filters one after the other (lowering/gemm/tiles/cooperative_matrix.py): taps, and in them channels, padded
// to whole chunks. Sums of the weights of each filter may follow (COUNT_WEIGHTS). Values past the channels of a tap or
// past K are 0 in shared memory.
//
// Zero points are applied outside the loop, as in arithmetic.glsl. All values and zero points are signed here.
//
// The place of an element in a matrix is the device's own. The sums therefore go through shared memory at the end, one
// row of matrices after the other, before filter_output.glsl stores them.

#ifndef NNVK_GEMM_COOPERATIVE_MATRIX_GLSL
#define NNVK_GEMM_COOPERATIVE_MATRIX_GLSL

#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#ifdef DTYPE_Q8
#include "../byte_dot.glsl"
#endif

// A matrix of inputs has M x K elements, and one of weights K x N.
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 7) const uint N = 16;
layout(constant_id = 8) const uint K = 16;
// Matrices of sums of a subgroup, along pixels and along output channels.
layout(constant_id = 9) const uint DOWN = 2;
layout(constant_id = 43) const uint ACROSS = 2;
// Subgroups of a workgroup along output channels. ROWS / (M DOWN) of them are along pixels.
layout(constant_id = 18) const uint SUBGROUPS_ACROSS = 2;
// Pipelines require subgroups of this size.
layout(constant_id = 36) const uint SUBGROUP_SIZE = 32;
// Chunks of a stage. Longer stages hide more of the latency of memory, and take more registers.
layout(constant_id = 44) const uint STAGE = 4;
// K has a whole number of stages; and so has each tap, so that all invocations move from tap to tap together.
layout(constant_id = 39) const bool WHOLE_STAGES = false;
layout(constant_id = 42) const bool WHOLE_TAPS = false;
// Above 1: the taps of a line of a window, which lie one after the other in the input. They are one tap here, so that few
// channels are not padded to chunks tap by tap.
layout(constant_id = 66) const uint LINE_TAPS = 1;
const bool IN_LINES = LINE_TAPS > 1u;
// The last stage is multiplied after the loop, and loads nothing.
layout(constant_id = 68) const bool LAST_APART = false;

#ifdef DTYPE_Q8
// The inputs are added up, for the zero point of weights; and so are the weights, if their sums do not follow them.
layout(constant_id = 40) const bool COUNT_INPUTS = true;
layout(constant_id = 41) const bool COUNT_WEIGHTS = true;
#define COMPONENT int8_t
#define SUM int
#define SUMS_OF(words) ivec4(words)
#define WEIGHTS_AT(chunk) weights_at(chunk)
const uint CHUNK = 16;    // values in 16 bytes
#else
#define COMPONENT float16_t
#define SUM float
#define SUMS_OF(words) uintBitsToFloat(words)
#define WEIGHTS_AT(chunk) weights_wide_at(chunk)
const uint CHUNK = 8;
#endif
#define INPUT_MATRIX coopmat<COMPONENT, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define WEIGHT_MATRIX coopmat<COMPONENT, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define SUM_MATRIX coopmat<SUM, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

const uint STAGE_DEPTH = STAGE * CHUNK / K;                // matrices along K in it
const uint COLUMNS = SUBGROUPS_ACROSS * ACROSS * N;       // output channels of a workgroup
const uint LOAD_ROWS = gl_WorkGroupSize.x / STAGE;        // rows that are loaded together; divides ROWS and COLUMNS
const uint INPUT_LOADS = ROWS / LOAD_ROWS, WEIGHT_LOADS = COLUMNS / LOAD_ROWS, MAX_LOADS = 8;
// In vec4s: a row of a stage, with one more, so that rows are in different banks; a row of sums of a subgroup.
const uint LINE = STAGE + 1;
const uint SUM_LINE = ACROSS * N / 4 + 1, SUM_ROOM = M * SUM_LINE;
const uint STAGED = (ROWS + COLUMNS) * LINE, ENDED = gl_WorkGroupSize.x / SUBGROUP_SIZE * SUM_ROOM;
// An invocation stores four channels of some pixels: of TOGETHER at once, and of a row of matrices every TOGETHER-th.
const uint FOURS = ACROSS * N / 4, TOGETHER = SUBGROUP_SIZE / FOURS, PIXELS = (M + TOGETHER - 1) / TOGETHER;
const uint SUMS = DOWN * PIXELS, MAX_SUMS = 16, VEC4S = 1, MAX_VEC4S = 1;    // vectors, if K is split
// The results of so many are computed before the first is stored.
const uint MAX_STORED_TOGETHER = 8, STORED_TOGETHER = PIXELS < MAX_STORED_TOGETHER ? PIXELS : MAX_STORED_TOGETHER;
const bool IN_WHOLE_CHUNKS = SPAN == WIDE_SPAN;            // the channels of a tap

#include "split_k.glsl"

// In units of 8 bytes, because a row of a matrix has at least that many, and pointers to matrices are aligned to a row.
shared uvec2 pool[2 * (STAGED > ENDED ? STAGED : ENDED)];
#ifdef DTYPE_Q8
shared int input_sums[ROWS];
shared int weight_sums[COLUMNS];
#endif

void put(uint at, uvec4 value) {
    pool[2u * at] = value.xy;
    pool[2u * at + 1u] = value.zw;
}

// A chunk of K: which of all, and its tap (down, right) and chunk of the tap's channels. With IN_ONE_TAP it is the first
// chunk of a stage, the same for all invocations; otherwise it is an invocation's own.
struct Source {
    uint number;
    uvec2 tap;
    uint chunk;
};
const bool IN_ONE_TAP = ONE_TAP || WHOLE_TAPS;

// The chunks of a stage that an invocation loads.
struct Share {
    uvec4 inputs[MAX_LOADS];
    uvec4 weights[MAX_LOADS];
    bool inside[MAX_LOADS];    // the input, and not the padding
    uint chunk;                 // of the tap's channels
    bool exists;               // the chunk is not past the end of K
};

void next_tap(inout Source source, Part part, uint tap_chunks) {
    source.chunk -= tap_chunks;
    source.tap.y++;
    if (source.tap.y == part.taps.y) source.tap = uvec2(source.tap.x + 1u, 0u);
}

// The source at a chunk of K.
Source source_at(uint number, Part part, uint tap_chunks) {
#ifdef SUMS_SPLIT
    if (ONE_TAP) return Source(number, uvec2(0u), number);
    uint tap = number / tap_chunks, across = max(part.taps.y, 1u);    // a phase may have no taps
    return Source(number, uvec2(tap / across, tap % across), number - tap * tap_chunks);
#else
    return Source(0u, uvec2(0u), 0u);
#endif
}

// Move on by some chunks of K.
void advance(inout Source source, Part part, uint tap_chunks, uint chunks) {
    source.number += chunks;
    source.chunk += chunks;
    if (WHOLE_TAPS) {
        if (source.chunk == tap_chunks) next_tap(source, part, tap_chunks);
    } else if (!ONE_TAP) {
        while (source.chunk >= tap_chunks) next_tap(source, part, tap_chunks);
    }
}

// A chunk of a tap's channels of one pixel; arbitrary values past its channels.
uvec4 load_chunk(uint address, uint chunk) {
    if (IN_WHOLE_CHUNKS) return src_wide_at(address / CHUNK + chunk);
    uint last = SPAN >= 4u ? depth - 4u : depth - 1u;
    uvec4 words;
#ifdef DTYPE_Q8
    [[unroll]] for (uint i = 0; i < 4u; i++) words[i] = load_anything(address, min(chunk * CHUNK + i * 4u, last), 0u);
#else
    words.xy = load_anything(address, min(chunk * CHUNK, last), 0u);
    words.zw = load_anything(address, min(chunk * CHUNK + 4u, last), 0u);
#endif
    return words;
}

// The first element of a window's line in the input's line, which may be in the padding before it.
int first_of_line(Window window, uint chunk) { return window.x * int(channels) + int(chunk * CHUNK); }

#ifdef DTYPE_F16
// Four elements of the input's line of 32-bit floats as 16-bit floats; zeros in the padding.
uvec2 floats_from_line(uint line, int first, int last) {
    ivec4 from = first + ivec4(0, 1, 2, 3), inside = clamp(from, 0, last);
    vec4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) values[i] = src_floats_at(line + uint(inside[i]));
    values = within_float16(values);
    return HIDDEN(pack_float16(PADDED ? mix(vec4(0.0), values, equal(from, inside)) : values));
}
#endif

// The same of a line of taps. `line` is the address of the input's line, and the first element is at `first` in it.
// Elements in the padding are arbitrary, but from floats zeros.
uvec4 load_from_line(uint line, int first) {
    int last = int(width * channels) - 1;
    uvec4 words;
#ifdef DTYPE_F16
    if (FROM_FLOATS) return uvec4(floats_from_line(line, first, last), floats_from_line(line, first + 4, last));
#endif
    const int values = int(CHUNK / 4u), bits = 32 / values;    // of a word, and of each of its values
    int from = int(line) + first, low_word = int(line) / values, high_word = (int(line) + last) / values;
    int word = from >> findLSB(values);
    uint loaded[5];
    [[unroll]] for (int i = 0; i < 5; i++) loaded[i] = src_at(uint(clamp(word + i, low_word, high_word)));
    uint shift = uint((from & (values - 1)) * bits);
    [[unroll]] for (uint i = 0; i < 4u; i++)
        words[i] = mix(loaded[i], loaded[i] >> shift | loaded[i + 1u] << (32u - max(shift, 1u)), shift != 0u);
    return words;
}

// Load the chunks at the source. Past the end of K the first chunk is loaded again, which costs less than a branch: a branch
// would copy registers.
void fetch(out Share share, Source source, Part part, uint chunks, uint tap_chunks, Window windows[MAX_LOADS],
           uint filters[MAX_LOADS]) {
    uint own = IN_ONE_TAP ? gl_LocalInvocationIndex % STAGE : 0u;
    share.exists = WHOLE_STAGES && IN_ONE_TAP ? source.number < chunks : source.number + own < chunks;
    share.chunk = mix(0u, source.chunk, share.exists) + (WHOLE_STAGES ? own : mix(0u, own, share.exists));
    uvec2 tap = ONE_TAP ? uvec2(0u) : mix(uvec2(0u), source.tap, bvec2(share.exists));
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; i++) {
        if (IN_LINES) {
            int y = windows[i].y + part.pitch.x * int(tap.x);
            share.inside[i] = !PADDED || uint(y) < height;
            uint line = windows[i].start - uint(windows[i].x) * channels + uint(part.pitch.x) * tap.x * width * channels;
            line = mix(part.source, line, share.inside[i]);
            share.inputs[i] = load_from_line(line, first_of_line(windows[i], share.chunk));
        } else {
            uint address = tap_address(part, windows[i], tap.x, tap.y);
            share.inside[i] = !PADDED || address != OUTSIDE;
            share.inputs[i] = load_chunk(PADDED ? mix(part.source, address, share.inside[i]) : address, share.chunk);
        }
    }
    uint at = tap_number(part, tap.x, tap.y) * tap_chunks + share.chunk;
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) share.weights[i] = WEIGHTS_AT(filters[i] + at);
}

// The bits of the first elements of a chunk; of all, or none, if there are more or fewer than it has.
uvec4 bits_of_first(int count) {
    ivec4 left = int(16u / CHUNK) * count - ivec4(0, 4, 8, 12);    // bytes, of each word
    return mix((uvec4(1u) << uvec4(clamp(left, 0, 3) * 8)) - 1u, uvec4(~0u), greaterThanEqual(left, ivec4(4)));
}

// The bits of a chunk that are values of K.
uvec4 bits_of(Share share) {
    if (!WHOLE_STAGES && !share.exists) return uvec4(0u);
    if (IN_WHOLE_CHUNKS) return uvec4(~0u);
    return bits_of_first(int(depth) - int(share.chunk * CHUNK));
}

// The bits of a chunk from a line of taps that are not in the padding.
uvec4 bits_inside(int first) { return bits_of_first(int(width * channels) - first) & ~bits_of_first(-first); }

#ifdef DTYPE_Q8
const uint SIGNS = SIGNED ? 0u : 0x80808080u, WEIGHT_SIGNS = WEIGHTS_SIGNED ? 0u : 0x80808080u;

int sum_of_chunk(uvec4 bytes) {
    return sum_of_signed_bytes(bytes.x) + sum_of_signed_bytes(bytes.y) + sum_of_signed_bytes(bytes.z) +
           sum_of_signed_bytes(bytes.w);
}
#endif

SUM_MATRIX sums[DOWN * ACROSS];    // of the subgroup

// Multiply the stage in shared memory.
void multiply_stage(uint subgroup_down, uint subgroup_across) {
    [[unroll]] for (uint k = 0; k < STAGE_DEPTH; k++) {
        const uint at = k * (2u * STAGE / STAGE_DEPTH);
        INPUT_MATRIX inputs[DOWN];
        WEIGHT_MATRIX weight[ACROSS];
        [[unroll]] for (uint i = 0; i < DOWN; i++)
            coopMatLoad(inputs[i], pool, 2u * LINE * M * (subgroup_down * DOWN + i) + at, 2u * LINE,
                        gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < ACROSS; j++)
            coopMatLoad(weight[j], pool, 2u * LINE * (ROWS + N * (subgroup_across * ACROSS + j)) + at, 2u * LINE,
                        gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < DOWN; i++) {
            [[unroll]] for (uint j = 0; j < ACROSS; j++)
                sums[i * ACROSS + j] = coopMatMulAdd(inputs[i], weight[j], sums[i * ACROSS + j]);
        }
    }
}

void main() {
    Place place = place_of_group(COLUMNS, ROWS, SPLIT_K);
    if (place.part >= parts) return;
    Part part = part_of(place.part);
    uint own = gl_LocalInvocationIndex, line = own / STAGE;
    uint subgroup_down = gl_SubgroupID / SUBGROUPS_ACROSS, subgroup_across = gl_SubgroupID % SUBGROUPS_ACROSS;
    uint tap_chunks = divide_up(depth, CHUNK), chunks = part.taps.x * part.taps.y * tap_chunks;
    uint filter_chunks = kernel_height * kernel_width * tap_chunks;
    uint first_filter = part.filters * out_channels;

    Window windows[MAX_LOADS];
    uint filters[MAX_LOADS];
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; i++) windows[i] = window_of(part, place.row + line + i * LOAD_ROWS);
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
        uint channel = min(place.block * COLUMNS + line + i * LOAD_ROWS, out_channels - 1u);
        filters[i] = weights_offset / 4u + (first_filter + channel) * filter_chunks;
    }
#ifdef DTYPE_Q8
    uvec4 outside = uvec4(uint((input_zero - 128) & 0xff) * 0x01010101u);
    int input_counts[MAX_LOADS], weight_counts[MAX_LOADS];
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; i++) input_counts[i] = 0;
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) weight_counts[i] = 0;
    if (COUNT_INPUTS) for (uint i = own; i < ROWS; i += gl_WorkGroupSize.x) input_sums[i] = 0;
    if (COUNT_WEIGHTS) for (uint i = own; i < COLUMNS; i += gl_WorkGroupSize.x) weight_sums[i] = 0;
#else
    const uvec4 outside = uvec4(0u);
#endif
    [[unroll]] for (uint i = 0; i < DOWN * ACROSS; i++) sums[i] = SUM_MATRIX(SUM(0));

    Stretch slice = stretch_of(place.k_slice, chunks, STAGE);
    Source source = source_at(slice.first, part, tap_chunks);
    if (!IN_ONE_TAP) advance(source, part, tap_chunks, own % STAGE);
    Share share;
    fetch(share, source, part, chunks, tap_chunks, windows, filters);
    // Only a phase may have no taps.
    bool has_k = SPLIT != PHASES || slice.first < slice.end;
    for (uint stage = slice.first; LAST_APART ? has_k : stage < slice.end;) {
        uvec4 bits = bits_of(share);
        if (!LAST_APART) barrier();    // the previous stage has been multiplied
        [[unroll]] for (uint i = 0; i < INPUT_LOADS; i++) {
            uvec4 value = share.inputs[i];
#ifdef DTYPE_Q8
            value ^= SIGNS;
#endif
            if (IN_LINES && PADDED && !FROM_FLOATS) {
                uvec4 inside = bits_inside(first_of_line(windows[i], share.chunk));
                value = value & inside | outside & ~inside;
            }
            if (PADDED) value = mix(outside, value, bvec4(share.inside[i]));
            value &= bits;
            put((line + i * LOAD_ROWS) * LINE + own % STAGE, value);
#ifdef DTYPE_Q8
            if (COUNT_INPUTS) input_counts[i] += sum_of_chunk(value);
#endif
        }
        [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
            uvec4 value = share.weights[i];
#ifdef DTYPE_Q8
            value ^= WEIGHT_SIGNS;
#endif
            value &= bits;
            put((ROWS + line + i * LOAD_ROWS) * LINE + own % STAGE, value);
#ifdef DTYPE_Q8
            if (COUNT_WEIGHTS) weight_counts[i] += sum_of_chunk(value);
#endif
        }
        barrier();
        stage += STAGE;
        if (LAST_APART && stage >= slice.end) break;
        advance(source, part, tap_chunks, STAGE);
        fetch(share, source, part, chunks, tap_chunks, windows, filters);
        multiply_stage(subgroup_down, subgroup_across);
        if (LAST_APART) barrier();    // the next stage is stored
    }
    if (LAST_APART && has_k) multiply_stage(subgroup_down, subgroup_across);
    barrier();
#ifdef DTYPE_Q8
    if (COUNT_INPUTS) {
        [[unroll]] for (uint i = 0; i < INPUT_LOADS; i++) atomicAdd(input_sums[line + i * LOAD_ROWS], input_counts[i]);
    }
    if (COUNT_WEIGHTS) {
        [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) atomicAdd(weight_sums[line + i * LOAD_ROWS], weight_counts[i]);
    }
    if (COUNT_INPUTS || COUNT_WEIGHTS) barrier();
#endif

    uint four = gl_SubgroupInvocationID % FOURS, room = gl_SubgroupID * SUM_ROOM;
    uint column = subgroup_across * ACROSS * N + four * 4u, channel = place.block * COLUMNS + column;
#ifdef DTYPE_Q8
    int zero = input_zero - 128, filter_zero = weight_zero - 128;
    ivec4 counted = ivec4(0);    // sums of weights of this slice of K
    if (COUNT_WEIGHTS) {
        [[unroll]] for (uint i = 0; i < 4u; i++) counted[i] = weight_sums[column + i];
    }
#endif
#ifdef SUMS_SPLIT
    TOTAL whole[MAX_SUMS];
    [[unroll]] for (uint i = 0; i < DOWN; i++) {
        [[unroll]] for (uint j = 0; j < ACROSS; j++)
            coopMatStore(sums[i * ACROSS + j], pool, 2u * room + j * N / 2u, 2u * SUM_LINE,
                         gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        [[unroll]] for (uint r = 0; r < PIXELS; r++) {
            uint row = min(gl_SubgroupInvocationID / FOURS + r * TOGETHER, M - 1u), at = room + row * SUM_LINE + four;
            whole[i * PIXELS + r] = SUMS_OF(uvec4(pool[2u * at], pool[2u * at + 1u]));
#ifdef DTYPE_Q8
            if (COUNT_INPUTS) whole[i * PIXELS + r] -= filter_zero * input_sums[(subgroup_down * DOWN + i) * M + row];
            if (COUNT_WEIGHTS) whole[i * PIXELS + r] -= zero * counted;
#endif
        }
        subgroupBarrier();
    }
    leave(place, whole);
    if (!comes_last(place)) return;
#ifdef DTYPE_Q8
    counted = ivec4(0);    // it is part of the sums already
#endif
#endif
    Output target = output_of(place_in_pixel(part), channel);
#ifdef DTYPE_Q8
    if (!COUNT_WEIGHTS) {
        uvec4 of_filters = first_filter + min(channel + uvec4(0u, 1u, 2u, 3u), uvec4(out_channels - 1u));
        uint after_filters = weights_offset + parts * out_channels * filter_chunks * 4u;
        [[unroll]] for (uint i = 0; i < 4u; i++) counted[i] = int(weights_words_at(after_filters + of_filters[i]));
    }
    target.bias += zero * (int(part.taps.x * part.taps.y * depth) * filter_zero - counted);
#endif
#ifdef SUMS_SPLIT
    Output targets[MAX_VEC4S];
    targets[0] = target;
    add_up(place, targets, whole);
    uint pixels[MAX_SUMS];
    ACC4 others[MAX_SUMS], results[MAX_SUMS];
    [[unroll]] for (uint n = 0; n < SUMS; n++) {
        uint row = gl_SubgroupInvocationID / FOURS + n % PIXELS * TOGETHER;
        uint pixel = window_of(part, place.row + (subgroup_down * DOWN + n / PIXELS) * M + row).pixel;
        pixels[n] = mix(NO_PIXEL, pixel, row < M);
        others[n] = other_of(pixels[n], target);
    }
    [[unroll]] for (uint n = 0; n < SUMS; n++) results[n] = result_of(target, whole[n], others[n]);
    [[unroll]] for (uint n = 0; n < SUMS; n++) {
        bool exists = exists_in(pixels[n], target);
        store_result(exists, pixels[n], target, results[n], whole[n], others[n]);
    }
#else
    for (uint i = 0; i < DOWN; i++) {
        // Sums stay in registers only if their indexes are constants after loops have been unrolled.
        [[unroll]] for (uint of = 0; of < DOWN; of++) {
            if (of == i) {
                [[unroll]] for (uint j = 0; j < ACROSS; j++)
                    coopMatStore(sums[of * ACROSS + j], pool, 2u * room + j * N / 2u, 2u * SUM_LINE,
                                 gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        subgroupBarrier();
        [[unroll]] for (uint first = 0; first < PIXELS; first += STORED_TOGETHER) {
            uint pixels[MAX_STORED_TOGETHER];
            ACC4 others[MAX_STORED_TOGETHER], results[MAX_STORED_TOGETHER];
            TOTAL totals[MAX_STORED_TOGETHER];
            [[unroll]] for (uint r = 0; r < STORED_TOGETHER; r++) {
                uint row = gl_SubgroupInvocationID / FOURS + (first + r) * TOGETHER;
                uint pixel = window_of(part, place.row + (subgroup_down * DOWN + i) * M + row).pixel;
                pixels[r] = mix(NO_PIXEL, pixel, row < M);
                others[r] = other_of(pixels[r], target);
            }
            [[unroll]] for (uint r = 0; r < STORED_TOGETHER; r++) {
                uint row = min(gl_SubgroupInvocationID / FOURS + (first + r) * TOGETHER, M - 1u);
                uint at = room + row * SUM_LINE + four;
                totals[r] = SUMS_OF(uvec4(pool[2u * at], pool[2u * at + 1u])) + target.bias;
#ifdef DTYPE_Q8
                if (COUNT_INPUTS) totals[r] -= filter_zero * input_sums[(subgroup_down * DOWN + i) * M + row];
#endif
                results[r] = result_of(target, totals[r], others[r]);
            }
            [[unroll]] for (uint r = 0; r < STORED_TOGETHER; r++) {
                bool exists = exists_in(pixels[r], target);
                store_result(exists, pixels[r], target, results[r], totals[r], others[r]);
            }
        }
        subgroupBarrier();
    }
#endif
    STORE_CHECK(place)
}

#endif
