// TILE_SHARED stages both operands in shared memory and needs no subgroup operations. An invocation computes some
// pixels of VEC4S vec4s of output channels. It loads its share of a stage, whole cache lines together with its
// neighbours. It holds the share in registers while the previous stage is multiplied, so that loads are always in
// flight.

#ifndef NNVK_GEMM_SHARED_GLSL
#define NNVK_GEMM_SHARED_GLSL

#include "arithmetic.glsl"

layout(constant_id = 7) const uint VEC4S = 1;
// A tap has a whole number of stages, so all invocations move from tap to tap together.
layout(constant_id = 8) const bool WHOLE_STAGES = false;
// Vec4s of K of a stage.
layout(constant_id = 9) const uint STAGE = 4;
// The layout of weights: packed blocks; or a right matrix that the model computes, with output channels innermost (a
// multiple of four), or with K innermost (a multiple of four).
layout(constant_id = 36) const uint WEIGHT_LAYOUT = 1;
const uint IN_BLOCKS = 1, BY_K = 2, BY_OUTPUTS = 3;

const uint ACROSS = gl_WorkGroupSize.x;                // invocations along output channels
const uint LINES = gl_WorkGroupSize.y;                 // and along pixels
const uint QUADS = ACROSS * VEC4S;                     // vec4s of output channels of a workgroup
const uint COLUMNS = QUADS * 4;                        // whole blocks
const uint INVOCATION_ROWS = ROWS / LINES;
const uint LINE = ROWS + 2;                            // of a vec4 of K in shared memory; writers use different banks
const uint LOADERS = ACROSS * LINES;                   // a multiple of STAGE
const uint LOAD_ROWS = LOADERS / STAGE;
const uint LOADS = (ROWS + LOAD_ROWS - 1) / LOAD_ROWS;
const uint MAX_ROWS = 8, MAX_VEC4S = 2, MAX_LOADS = 8;
const uint SUMS = INVOCATION_ROWS * VEC4S, MAX_SUMS = MAX_ROWS * MAX_VEC4S;
// Vec4s of K whose factors are all in registers before the first multiplication, so that a single subgroup waits for
// shared memory only once.
layout(constant_id = 2) const uint TOGETHER = 1;
const uint MAX_TOGETHER = 4;
const uint ADDED = ROUND < STAGE ? ROUND : STAGE;    // vec4s of K before sums are carried

#ifdef WEIGHTS_ARE_BYTES
const uint VECTORS = 1;    // vectors of weights of a vec4 of K for four output channels
#else
const uint VECTORS = 4;
#endif
const uint BLOCK_LINE = VECTORS * (BLOCK / 4);           // of a block in memory
const uint WEIGHTS = STAGE * VECTORS * QUADS;
const uint WEIGHT_LOADS = (WEIGHTS + LOADERS - 1) / LOADERS;

#include "split_k.glsl"
#ifdef TILE_DEPTHWISE
#include "depthwise_windows.glsl"
#endif

shared LOADED4 stage_inputs[STAGE * LINE];
shared WEIGHTS4 stage_weights[WEIGHTS];

// The values that an invocation loads; their source: the tap, the addresses of taps, a channel in them, and the
// distance of the weights from the first ones in vec4s of K; and their target in shared memory.
struct Share {
#ifdef TILE_DEPTHWISE
    Depthwise depthwise;
#endif
    LOADED4 inputs[MAX_LOADS];
    WEIGHTS4 weights[MAX_LOADS];
};
struct Source {
    uvec2 tap;    // down, right
    uint taps[MAX_LOADS];
#ifdef TILE_DEPTHWISE
    uint inside[MAX_LOADS];    // a bit for each tap of the depthwise convolution that is not in the padding
#ifdef CHECKED
    Stored stored;
#endif
#endif
    uint channel;
    uint weights[MAX_LOADS];
};
struct Target {
    uint inputs;
    uint weights[MAX_LOADS];
};

// The number of a load in the stage, in the order of the weights in memory: by block and then by vec4 of K; by K; or by
// vec4 of K of every fourth output channel, so that writers to shared memory use different banks.
uint weight_of(uint load) { return load * LOADERS + gl_LocalInvocationIndex; }
uint weight_four(uint number) {
    if (WEIGHT_LAYOUT == BY_K) return number / (4u * QUADS);
    return WEIGHT_LAYOUT == BY_OUTPUTS ? number % STAGE : number % (STAGE * BLOCK_LINE) / BLOCK_LINE;
}

// The place of a load in shared memory. With BY_OUTPUTS a vector there has four elements of K of one output channel;
// otherwise it has one element of K of four output channels.
uint weight_place(uint number) {
    if (WEIGHT_LAYOUT == BY_K) return number;
    if (WEIGHT_LAYOUT == BY_OUTPUTS) return number % STAGE * 4u * QUADS + number / (STAGE * QUADS) * QUADS + number / STAGE % QUADS;
    uint within = number % BLOCK_LINE, quad = number / (STAGE * BLOCK_LINE) * (BLOCK / 4u);
#ifdef WEIGHTS_ARE_BYTES
    return weight_four(number) * QUADS + quad + within;
#else
    uint k = within / 16u * 2u + within % 2u;
    return (weight_four(number) * 4u + k) * QUADS + quad + within / 2u % 8u;
#endif
}

// The place of the weights of a load for the first vec4 of K. For output channels that do not exist, which nobody
// stores, it is the place of the last existing ones.
uint first_weight(Part part, uint block, uint number) {
    uint base = weights_offset / WEIGHTS_WORDS;
    if (WEIGHT_LAYOUT == IN_BLOCKS) {
        uint size = kernel_height * kernel_width * divide_up(depth, 4u) * BLOCK_LINE;
        uint own = block * (COLUMNS / BLOCK) + number / (STAGE * BLOCK_LINE);
        return base + (first_block(part) + min(own, (out_channels - 1u) / BLOCK)) * size + number % BLOCK_LINE;
    }
    uint outer = part.filters / WEIGHT_PARTS, inner = part.filters % WEIGHT_PARTS;
    uint vec4s = (WEIGHT_LAYOUT == BY_K ? out_channels : depth) / 4u, row = weight_row(vec4s);
    base += inner * vec4s;
    if (WEIGHT_LAYOUT == BY_K) return base + outer * depth * row + min(block * QUADS + number % QUADS, vec4s - 1u);
    uint own = block * COLUMNS + number / STAGE % QUADS * 4u + number / (STAGE * QUADS);
    return base + (outer * out_channels + min(own, out_channels - 1u)) * row;
}

// The place of the weights of a load for a vec4 of K.
uint weight_at(uint first, uint four, uint number) {
    if (WEIGHT_LAYOUT == IN_BLOCKS) return first + four * BLOCK_LINE;
    if (WEIGHT_LAYOUT == BY_OUTPUTS) return first + four;
    uint row = four * 4u + number / QUADS % 4u;
    if (!WHOLE_STAGES) row = min(row, depth - 1u);
    return first + row * weight_row(out_channels / 4u);
}

// Whether a load of a stage is past the end of K.
bool is_past(uint stage, uint vec4s, uint number) {
    return WEIGHT_LAYOUT == BY_K ? stage * 4u + number / QUADS >= depth : stage + weight_four(number) >= vec4s;
}

void locate_taps(inout Source source, Part part, Window windows[MAX_LOADS]) {
#ifdef TILE_DEPTHWISE
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        source.taps[i] = windows[i].start;
        source.inside[i] = taps_inside(windows[i]);
    }
#else
    [[unroll]] for (uint i = 0; i < LOADS; i++)
        source.taps[i] = tap_address(part, windows[i], source.tap.x, source.tap.y);
#endif
}

// Set the source of an invocation's loads for the stage that begins at a vec4 of K. `inverses` are those of the vec4s
// of channels and of the taps of a row.
void locate(inout Source source, Part part, Window windows[MAX_LOADS], uint stage, uint vec4s, uint quads, vec2 inverses) {
    uint here = WHOLE_STAGES ? stage : min(stage + gl_LocalInvocationIndex % STAGE, vec4s - 1u), tap = 0u;
    source.tap = uvec2(0u);
    if (!ONE_TAP) {
        tap = divided(here, inverses.x);
        source.tap.x = divided(tap, inverses.y);
        source.tap.y = tap - source.tap.x * part.taps.y;
    }
    source.channel = (here - tap * quads) * 4u;
    if (WHOLE_STAGES) source.channel += gl_LocalInvocationIndex % STAGE * 4u;
    locate_taps(source, part, windows);
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
        uint four = WHOLE_STAGES ? stage : min(stage + weight_four(weight_of(i)), vec4s - 1u);
        if (SPLIT == PHASES) {
            uint of = divided(four, inverses.x), down = divided(of, inverses.y);
            four += (tap_number(part, down, of - down * part.taps.y) - of) * quads;
        }
        source.weights[i] = WHOLE_STAGES ? four + weight_four(weight_of(i)) : four;
    }
}

// The same for the next stage, at the beginning of a tap, with WHOLE_STAGES.
void locate_next_tap(inout Source source, Part part, Window windows[MAX_LOADS], uint quads) {
    source.tap.y++;
    if (source.tap.y == part.taps.y) source.tap = uvec2(source.tap.x + 1u, 0u);
    source.channel = gl_LocalInvocationIndex % STAGE * 4u;
    locate_taps(source, part, windows);
    if (SPLIT != PHASES) return;    // weights of one tap follow those of the other
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++)
        source.weights[i] = tap_number(part, source.tap.x, source.tap.y) * quads + weight_four(weight_of(i));
}

// Weights past the end of K: real zeros.
WEIGHTS4 past_the_end() {
#ifdef DTYPE_Q8
    return WEIGHTS4(uint(weight_zero) * 0x01010101u);
#else
    return WEIGHTS4(0);
#endif
}

// Load the share. Elements past the end of K are zeros.
void fetch(out Share share, Source source, uint firsts[MAX_LOADS], uint stage, uint vec4s) {
#ifdef TILE_DEPTHWISE
    fetch_parameters(share.depthwise, source.channel);
    [[unroll]] for (uint i = 0; i < LOADS; i++)
        fetch_window(share.depthwise, i, source.taps[i], source.inside[i], source.channel);
#else
    [[unroll]] for (uint i = 0; i < LOADS; i++) share.inputs[i] = load_anything(source.taps[i], source.channel, 0u);
#endif
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
        share.weights[i] = packed_weights_at(weight_at(firsts[i], source.weights[i], weight_of(i)));
        if (!WHOLE_STAGES && is_past(stage, vec4s, weight_of(i))) share.weights[i] = past_the_end();
    }
}

// The weights of a vec4 of K for four output channels, from a place in shared memory.
Weights4 staged_weights(uint at, Zeros zeros) {
#ifdef WEIGHTS_ARE_BYTES
    return weights_of(stage_weights[at], zeros);
#else
    Weights4 weights, turned;
    [[unroll]] for (uint k = 0; k < 4u; k++) weights.rows[k] = WEIGHTS_OF(stage_weights[at + k * QUADS]);
    if (WEIGHT_LAYOUT != BY_OUTPUTS) return weights;
    [[unroll]] for (uint k = 0; k < 4u; k++) {
        [[unroll]] for (uint o = 0; o < 4u; o++) turned.rows[k][o] = weights.rows[o][k];
    }
    return turned;
#endif
}

Target target_of_invocation() {
    Target target;
    target.inputs = gl_LocalInvocationIndex % STAGE * LINE + gl_LocalInvocationIndex / STAGE;
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) target.weights[i] = weight_place(weight_of(i));
    return target;
}

// Store the share in shared memory. The padding is selected only here, because compilers wait for a load at its first
// use.
void put(Share share, Source source, uint stage, uint vec4s, Zeros zeros, Target target) {
    bool exists = WHOLE_STAGES || stage + gl_LocalInvocationIndex % STAGE < vec4s;
#if defined(TILE_DEPTHWISE) && defined(CHECKED)
    ivec4 sums[MAX_WINDOWS];
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        sums[i] = depthwise_sum(share.depthwise, i, source.inside[i]);
        share.inputs[i] = depthwise_word(share.depthwise, sums[i]);
    }
    if (source.stored.any && exists) {
        ChannelChecks of = checks_of(share.depthwise, source.channel);
        [[unroll]] for (uint i = 0; i < LOADS; i++)
            store_depthwise(source.stored, i, source.channel, of, sums[i], share.inputs[i]);
    }
#endif
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
#ifdef TILE_DEPTHWISE
        bool inside = true;
#ifndef CHECKED
        share.inputs[i] = depthwise_result(share.depthwise, i, source.inside[i]);
#endif
#else
        bool inside = !PADDED || source.taps[i] != OUTSIDE;
#endif
        if (!WHOLE_STAGES) inside = all(bvec2(inside, exists));
        if (PADDED || !WHOLE_STAGES) share.inputs[i] = where(inside, share.inputs[i], zeros.outside);
        if (ROWS % LOAD_ROWS == 0u || gl_LocalInvocationIndex / STAGE + i * LOAD_ROWS < ROWS)
            stage_inputs[target.inputs + i * LOAD_ROWS] = share.inputs[i];
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
        if (WEIGHTS % LOADERS == 0u || weight_of(i) < WEIGHTS) stage_weights[target.weights[i]] = share.weights[i];
    }
}

// The parameters of a vec4 of output channels of the invocation.
Output target_of(Part part, Place place, uint number) {
    return output_of(place_in_pixel(part), place.block * COLUMNS + (gl_LocalInvocationID.x + number * ACROSS) * 4u);
}

// The sums so far that zero points are multiplied by.
struct Counts {
    uint inputs[MAX_ROWS];
    uvec4 weights[MAX_VEC4S];
};

// Multiply the stage in shared memory.
void multiply_stage(inout Sum sums[MAX_SUMS], inout Counts counts, Zeros zeros) {
    uint column = gl_LocalInvocationID.x, line = gl_LocalInvocationID.y;
    [[unroll]] for (uint first = 0; first < STAGE; first += TOGETHER) {
        Weights4 weights[MAX_TOGETHER][MAX_VEC4S];
        LOADED4 loaded[MAX_TOGETHER][MAX_ROWS];
        [[unroll]] for (uint t = 0; t < TOGETHER; t++) {
            [[unroll]] for (uint f = 0; f < VEC4S; f++) {
                weights[t][f] = staged_weights((first + t) * VECTORS * QUADS + column + f * ACROSS, zeros);
                counts.weights[f] = count_weights(counts.weights[f], weights[t][f]);
            }
            [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
                loaded[t][r] = stage_inputs[(first + t) * LINE + line + r * LINES];
        }
        [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
            [[unroll]] for (uint t = 0; t < TOGETHER; t++) {
                INPUT4 inputs = input_of(loaded[t][r], zeros);
                counts.inputs[r] = count_inputs(counts.inputs[r], inputs);
                [[unroll]] for (uint f = 0; f < VEC4S; f++) {
                    add_products(sums[r * VEC4S + f], inputs, weights[t][f]);
                    if (EACH_ROUND_CARRIES && (first + t + 1u) % ADDED == 0u) carry(sums[r * VEC4S + f]);
                }
            }
        }
    }
}

void main() {
    uint line = gl_LocalInvocationID.y;
    Place place = place_of_group(COLUMNS, ROWS, SPLIT_K);
    if (place.part >= parts) return;
    Part part = part_of(place.part);
#ifdef TILE_DEPTHWISE
    all_channels = PARAMETERS_AT(depthwise_parameters());
#endif

    Zeros zeros = zeros_of(true);
    Sum sums[MAX_SUMS];
    Counts counts;
    Output targets[MAX_VEC4S];
    [[unroll]] for (uint f = 0; f < VEC4S; f++) {
#ifndef SUMS_SPLIT
        targets[f] = target_of(part, place, f);
#endif
        counts.weights[f] = uvec4(0u);
        [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++)
            sums[r * VEC4S + f] = sum_from(start_of(targets[f]));
    }
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) counts.inputs[r] = 0u;

    // Neighbouring invocations read neighbouring channels of one pixel.
    Window windows[MAX_LOADS];
    [[unroll]] for (uint i = 0; i < LOADS; i++)
        windows[i] = window_of(part, place.row + gl_LocalInvocationIndex / STAGE + i * LOAD_ROWS);
    uint quads = divide_up(depth, 4u);    // vec4s of channels
    uint vec4s = part.taps.x * part.taps.y * quads;
    uint firsts[MAX_LOADS];
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) firsts[i] = first_weight(part, place.block, weight_of(i));
    Stretch own = stretch_of(place.k_slice, vec4s, STAGE);
    vec2 inverses = 1.0 / vec2(quads, part.taps.y);
    Target bring = target_of_invocation();
    Source source;
    Share share;
#if defined(TILE_DEPTHWISE) && defined(CHECKED)
    source.stored.any = place.block == 0u;
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        bool in_tile = gl_LocalInvocationIndex / STAGE + i * LOAD_ROWS < ROWS;
        note_pixel(source.stored, i, mix(NO_PIXEL, windows[i].pixel, in_tile));
    }
#endif
    // Only a phase may have no taps. For other GEMMs the condition is a constant, so buffers need not be looked up
    // again.
    bool has_k = SPLIT != PHASES || own.first < own.end;
    uint left = (quads - own.first % quads) / STAGE;    // stages of the tap
    if (has_k) {
        locate(source, part, windows, own.first, vec4s, quads, inverses);
        fetch(share, source, firsts, own.first, vec4s);
    }
    // The last stage is multiplied after the loop and loads nothing.
    for (uint stage = own.first; has_k;) {
        put(share, source, stage, vec4s, zeros, bring);
        barrier();
        stage += STAGE;
        if (stage >= own.end) break;
        if (ONE_TAP || WHOLE_STAGES) {
            source.channel += STAGE * 4u;
            if (!WHOLE_STAGES) source.channel = min(source.channel, quads * 4u - 4u);
            [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; i++) {
                source.weights[i] += STAGE;
                if (!WHOLE_STAGES) source.weights[i] = min(source.weights[i], vec4s - 1u);
            }
            left--;
            if (!ONE_TAP && left == 0u) {
                locate_next_tap(source, part, windows, quads);
                left = quads / STAGE;
            }
        } else {
            locate(source, part, windows, stage, vec4s, quads, inverses);
        }
        fetch(share, source, firsts, stage, vec4s);
        multiply_stage(sums, counts, zeros);
        if ((stage - own.first) % EXACT_VEC4S == 0u) {
            [[unroll]] for (uint n = 0; n < SUMS; n++) carry(sums[n]);
        }
        barrier();
    }
    if (has_k) multiply_stage(sums, counts, zeros);
    // Elements past the end of K count too: their weights are real zeros.
    ACC4 due[MAX_VEC4S];
    [[unroll]] for (uint f = 0; f < VEC4S; f++)
        due[f] = due_to_weights(counts.weights[f], divide_up(own.end - own.first, STAGE) * STAGE);
    TOTAL whole[MAX_SUMS];
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        [[unroll]] for (uint f = 0; f < VEC4S; f++) {
            uint number = r * VEC4S + f;
            carry(sums[number]);
            whole[number] = total(sums[number], counts.inputs[r], due[f]);
        }
    }
#ifdef SUMS_SPLIT
    leave(place, whole);
    if (!comes_last(place)) return;
    [[unroll]] for (uint f = 0; f < VEC4S; f++) targets[f] = target_of(part, place, f);
    add_up(place, targets, whole);
#endif
    uint pixels[MAX_ROWS];
    ACC4 others[MAX_SUMS], results[MAX_SUMS];
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        pixels[r] = window_of(part, place.row + line + r * LINES).pixel;
        [[unroll]] for (uint f = 0; f < VEC4S; f++) others[r * VEC4S + f] = other_of(pixels[r], targets[f]);
    }
    [[unroll]] for (uint n = 0; n < SUMS; n++) results[n] = result_of(targets[n % VEC4S], whole[n], others[n]);
    [[unroll]] for (uint n = 0; n < SUMS; n++) {
        uint pixel = pixels[n / VEC4S];
        bool exists = exists_in(pixel, targets[n % VEC4S]);
        store_result(exists, pixel, targets[n % VEC4S], results[n], whole[n], others[n]);
    }
    STORE_CHECK(place)
}

#endif
