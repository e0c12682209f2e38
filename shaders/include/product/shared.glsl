// TILE_SHARED stages both operands in shared memory, in a workgroup of 16 x 8 invocations that reads whole cache
// lines, and asks for no subgroup operations.

#ifndef NNVK_PRODUCT_SHARED_GLSL
#define NNVK_PRODUCT_SHARED_GLSL

#include "arithmetic.glsl"
#include "pieces.glsl"

const uint COLUMNS = 64;                 // output channels per workgroup, four to an invocation
const uint QUADS = COLUMNS / 4;          // and so invocations along x
const uint MAX_ROWS = 64;
const uint INVOCATION_ROWS = ROWS / 8;   // output pixels per invocation; invocations along y: 8
const uint STRETCH = 4;                  // fours of K per stage
const uint LOADERS = QUADS * 8;          // all invocations

#ifdef IS_QUANTISED
shared uint stage_inputs[STRETCH][MAX_ROWS];
shared uvec4 stage_weights[STRETCH][QUADS];
const uint FOUR_WEIGHTS = 8;     // vectors that hold four steps of a block
#else
// Numbers of 32 bits are staged with K outermost, so that an invocation reads its pixels as vectors; one vector more to
// a line keeps the writers off each other's banks.
shared FACTOR stage_inputs[STRETCH * 4][MAX_ROWS + 4];
shared WEIGHTS4 stage_weights[STRETCH * 4][QUADS];
const uint FOUR_WEIGHTS = 32;
#endif
const uint BLOCK_WEIGHTS = STRETCH * FOUR_WEIGHTS;

void main() {
    uint column = gl_LocalInvocationID.x;
    uint line = gl_LocalInvocationID.y;
    uint invocation = line * QUADS + column;
    Place place = place_of_group(COLUMNS, ROWS, PIECES);
    if (place.part >= parts) return;
    Part part = part_of(place.part);

    Zeros zeros = zeros_of(true);
    Sum sums[MAX_ROWS / 8];
    uint input_counts[MAX_ROWS / 8];
    uvec4 weight_counts = uvec4(0u);
    Output target = output_of(SPLIT == CHANNELS ? part.number : 0u, place.block * COLUMNS + column * 4u);
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        sums[r] = sum_from(bias_of(target, place.piece));
        input_counts[r] = 0u;
    }

    // Four neighbouring invocations read sixteen neighbouring channels of one pixel.
    uint load_quad = invocation % STRETCH;
    uint load_row = invocation / STRETCH;
    const uint LOAD_ROWS = LOADERS / STRETCH;
    const uint LOADS = (ROWS + LOAD_ROWS - 1u) / LOAD_ROWS;
    Window windows[MAX_ROWS / (LOADERS / STRETCH)];
    [[unroll]] for (uint i = 0; i < LOADS; i++) windows[i] = window_of(part, place.row + load_row + i * LOAD_ROWS);

    uint quads = divide_up(depth, 4u);    // fours of channels
    uint steps = part.taps.x * part.taps.y * quads;
    uint block_steps = kernel_height * kernel_width * quads;
    Stretch own = stretch_of(place.piece, steps, STRETCH);
    for (uint step = own.first; step < own.end; step += STRETCH) {
        uint here = min(step + load_quad, steps - 1u), tap = here / quads, c = (here - tap * quads) * 4u;
        uint down = tap / part.taps.y, right = tap - down * part.taps.y;
        [[unroll]] for (uint i = 0; i < LOADS; i++) {
            LOADED4 loaded = load_input(tap_address(part, windows[i], down, right), c, 0u, zeros.outside);
            loaded = where(step + load_quad < steps, loaded, zeros.outside);
            uint r = load_row + i * LOAD_ROWS;
            if (r < ROWS) {
#ifdef IS_QUANTISED
                stage_inputs[load_quad][r] = loaded;
#else
                INPUT4 values = FACTORS_OF(loaded);
                [[unroll]] for (uint k = 0; k < 4u; k++) stage_inputs[load_quad * 4u + k][r] = values[k];
#endif
            }
        }
        // Weights, in the order in which they lie in two blocks of packed channels.
        for (uint i = invocation; i < 2u * BLOCK_WEIGHTS; i += LOADERS) {
            uint side = i / BLOCK_WEIGHTS;
            uint from = i % BLOCK_WEIGHTS;
            uint block = place.block * (COLUMNS / BLOCK) + side;
            uint here = step + from / FOUR_WEIGHTS;
            bool inside = block * BLOCK < out_channels && here < steps;
            if (SPLIT == PHASES) {
                uint of = here / quads;
                here += (tap_number(part, of / part.taps.y, of % part.taps.y) - of) * quads;
            }
            uint at = ((first_block(part) + block) * block_steps + here) * FOUR_WEIGHTS + from % FOUR_WEIGHTS;
            WEIGHTS4 loaded = weights[weights_offset / WEIGHTS_WORDS + (inside ? at : 0u)];
#ifdef IS_QUANTISED
            uint k = from / 8u;
            uint quad = from % 8u;
#else
            uint k = from / 16u * 2u + from % 2u;
            uint quad = from / 2u % 8u;
#endif
            stage_weights[k][side * (QUADS / 2u) + quad] = inside ? loaded : WEIGHTS4(0);
        }
        barrier();
        [[unroll]] for (uint q = 0; q < STRETCH; q++) {
#ifdef IS_QUANTISED
            Weights4 weight = weights_of(stage_weights[q][column], zeros);
#else
            Weights4 weight;
            [[unroll]] for (uint k = 0; k < 4u; k++) weight.steps[k] = WEIGHTS_OF(stage_weights[q * 4u + k][column]);
#endif
            weight_counts = count_weights(weight_counts, weight);
            [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
#ifdef IS_QUANTISED
                INPUT4 inputs = input_of(stage_inputs[q][line * INVOCATION_ROWS + r], zeros);
#else
                INPUT4 inputs;
                [[unroll]] for (uint k = 0; k < 4u; k++)
                    inputs[k] = stage_inputs[q * 4u + k][line * INVOCATION_ROWS + r];
#endif
                input_counts[r] = count_inputs(input_counts[r], inputs);
                add_products(sums[r], inputs, weight);
                if (EACH_ROUND_CARRIES && q % 2u == 1u) carry(sums[r]);
            }
        }
        if ((step - own.first + STRETCH) % EXACT_FOURS == 0u) {
            [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) carry(sums[r]);
        }
        barrier();
    }
    // Steps past the last count: their weights are words of zeros, which the padding is multiplied by.
    ACC4 due = due_to_weights(weight_counts, divide_up(own.end - own.first, STRETCH) * STRETCH);
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        carry(sums[r]);
        ACC4 sum = total(sums[r], input_counts[r], due);
#ifdef SUMS_SPLIT
        leave_sum(place, r, INVOCATION_ROWS, sum);
    }
    if (!comes_last(place)) return;
    [[unroll]] for (uint r = 0; r < INVOCATION_ROWS; r++) {
        ACC4 sum = whole_sum(place, r, INVOCATION_ROWS);
#endif
        store_output(window_of(part, place.row + line * INVOCATION_ROWS + r).pixel, target, sum);
    }
}

#endif
