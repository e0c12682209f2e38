// TILE_SUBGROUP is for drivers that run a subgroup of eight invocations as one SIMD vector (llvmpipe). There the cost
// is in loads, which are made lane by lane, also those from shared memory and those whose address is the same in
// all lanes. So every lane loads something else, of weights and of input, and the input goes to the other lanes by
// shuffles, which are single instructions. Floats are loaded by eights, as four numbers of 64 bits: that costs no
// more than four floats. A workgroup is one subgroup.

#ifndef NNVK_PRODUCT_SUBGROUP_GLSL
#define NNVK_PRODUCT_SUBGROUP_GLSL

#include "arithmetic.glsl"

const uint LANES = 8;
const uint MAX_ROWS = 32;
const uint MAX_GROUPS = MAX_ROWS / LANES;
const uint GROUPS = (ROWS + LANES - 1u) / LANES;    // rows are loaded in groups, one to a lane
const uint FOURS = SPAN == 8u ? 2u : 1u;            // fours of channels by one load of input

#ifndef IS_QUANTISED
#ifdef IS_FLOAT
#define AS_ACC4(words) uintBitsToFloat(words)
#else
#define AS_ACC4(words) ivec4(words)
#endif
#if WEIGHTS_WORDS == 4
ACC4 numbers(u64vec2 pairs) { return AS_ACC4(uvec4(unpack32(pairs.x), unpack32(pairs.y))); }
#define FRONT(eight) numbers((eight).xy)
#define BACK(eight) numbers((eight).zw)
#else
#define FRONT(eight) unpack_halves(unpack32((eight).x))
#define BACK(eight) unpack_halves(unpack32((eight).y))
#endif
#endif

// Channels c to c + 3 and, if SPAN is 8, c + 4 to c + 7 of the tap at an address.
void load_fours(uint address, uint c, Zeros zeros, out INPUT4 first, out INPUT4 second) {
#ifdef STORED_ALONE
    if (SPAN == 8u) {
        bool inside = !PADDED || address != OUTSIDE;
        EIGHT eight = src_eights[(PADDED ? mix(0u, address + c, inside) : address + c) >> 3];
        first = FRONT(eight);
        second = BACK(eight);
        if (PADDED) {
            first = mix(INPUT4(0), first, bvec4(inside));
            second = mix(INPUT4(0), second, bvec4(inside));
        }
        return;
    }
#endif
    first = input_of(load_input(address, c, 0u, zeros.outside), zeros);
}

#ifdef IS_QUANTISED
const uint LOAD_VALUES = 16;    // that a load of weights takes
const uint FOUR_LOADS = 1;      // such loads for a four of steps of K
#else
const uint LOAD_VALUES = 8;
const uint FOUR_LOADS = 2;
#endif

// The weights of four steps for four output channels, by loads that begin at an index.
Weights4 load_weights(uint at, Zeros zeros) {
#ifdef IS_QUANTISED
    return weights_of(weights[at], zeros);
#else
    EIGHT front = weights_eights[at];
    EIGHT back = weights_eights[at + LANES];
    return Weights4(ACC4[](FRONT(front), BACK(front), FRONT(back), BACK(back)));
#endif
}

// Push constants are read before the first loop or branch, or they would be loaded lane by lane as well.
void main() {
    uint lane = gl_LocalInvocationID.x;
    Place place = place_of_group(BLOCK, ROWS, 1u);
    if (place.part >= parts) return;
    Part part = part_of(place.part);
    Zeros zeros = zeros_of(true);

    Window windows[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) windows[g] = window_of(part, place.row + g * LANES + lane);
    Output target = output_of(SPLIT == CHANNELS ? part.number : 0u, place.block * BLOCK + lane * 4u);
    Sum sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = sum_from(target.bias);
    uint input_counts[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) input_counts[g] = 0u;
    uvec4 weight_counts = uvec4(0u);

    uint tap_loads = divide_up(depth, 4u) * FOUR_LOADS * LANES;
    uint block_loads = kernel_height * kernel_width * tap_loads;
    uint first = weights_offset * WEIGHT_VALUES / LOAD_VALUES + (first_block(part) + place.block) * block_loads + lane;
    uint at = first, open = 0u;    // fours since sums were carried
    for (uint ky = 0; ky < part.taps.x; ky++) {
        for (uint kx = 0; kx < part.taps.y; kx++) {
            uint addresses[MAX_GROUPS];
            [[unroll]] for (uint g = 0; g < GROUPS; g++) addresses[g] = tap_address(part, windows[g], ky, kx);
            if (SPLIT == PHASES) at = first + tap_number(part, ky, kx) * tap_loads;    // else one follows the other
            for (uint c = 0; c < depth; c += FOURS * 4u) {
                INPUT4 inputs[2][MAX_GROUPS];
                [[unroll]] for (uint g = 0; g < GROUPS; g++) {
                    load_fours(addresses[g], c, zeros, inputs[0][g], inputs[1][g]);
                    input_counts[g] = count_inputs(input_counts[g], inputs[0][g]);
                }
                [[unroll]] for (uint four = 0; four < FOURS; four++) {
                    Weights4 weight = load_weights(at, zeros);
                    weight_counts = count_weights(weight_counts, weight);
                    at += FOUR_LOADS * LANES;
                    // Row by row, not step by step: there are more sums than registers, and so each is fetched and
                    // put away once for four steps.
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        add_products(sums[r], subgroupShuffle(inputs[four][r / LANES], r % LANES), weight);
                }
                if (CARRIES && ++open == EXACT_FOURS) {
                    open = 0u;
                    [[unroll]] for (uint r = 0; r < ROWS; r++) carry(sums[r]);
                }
            }
        }
    }
    ACC4 due = due_to_weights(weight_counts, part.taps.x * part.taps.y * divide_up(depth, 4u));
    uint first_pixel = SPLIT == BATCHES ? part.number * rows + place.row : place.row;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint pixel = mix(NO_PIXEL, first_pixel + r, place.row + r < rows);
        if (SPLIT == PHASES) pixel = subgroupShuffle(windows[r / LANES].pixel, r % LANES);
        uint count = COUNTS ? subgroupShuffle(input_counts[r / LANES], r % LANES) : 0u;
        if (CARRIES) carry(sums[r]);
        store_output(pixel, target, total(sums[r], count, due));
    }
}

#endif
