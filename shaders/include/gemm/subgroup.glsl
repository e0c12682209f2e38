// TILE_SUBGROUP is for drivers that run a subgroup of eight invocations as one SIMD vector (llvmpipe). There, a load
// costs the same whether lanes load the same address or not, and shared memory is not faster. Every lane therefore
// loads different weights and inputs, and the inputs go to the other lanes by shuffles, which are single instructions.
// A workgroup is one subgroup.

#ifndef NNVK_GEMM_SUBGROUP_GLSL
#define NNVK_GEMM_SUBGROUP_GLSL

#extension GL_KHR_shader_subgroup_shuffle : require

#include "arithmetic.glsl"

const uint LANES = 8;
const uint MAX_ROWS = 32;
const uint MAX_GROUPS = MAX_ROWS / LANES;
const uint GROUPS = (ROWS + LANES - 1u) / LANES;    // rows are loaded in groups, one to a lane
#ifdef WEIGHTS_ARE_BYTES
const uint LOAD_VALUES = 16;    // that a load of weights takes
const uint FOUR_LOADS = 1;      // such loads for a vec4 of K
#else
const uint LOAD_VALUES = 8;
const uint FOUR_LOADS = 2;
#endif

// The weights of four elements of K for four output channels, by loads that begin at an index.
Weights4 load_weights(uint at, Zeros zeros) {
#ifdef WEIGHTS_ARE_BYTES
    return weights_of(packed_weights_at(at), zeros);
#elif WEIGHTS_WORDS == 2
    uvec4 front = weights_wide_at(at), back = weights_wide_at(at + LANES);
    return Weights4(ACC4[](unpack_float16(front.xy), unpack_float16(front.zw), unpack_float16(back.xy),
                           unpack_float16(back.zw)));
#else
    return Weights4(ACC4[](weights_at(at * 2u), weights_at(at * 2u + 1u), weights_at((at + LANES) * 2u),
                           weights_at((at + LANES) * 2u + 1u)));
#endif
}

// Push constants are read before the first loop or branch; otherwise they would also be loaded lane by lane.
void main() {
    uint lane = gl_LocalInvocationID.x;
    Place place = place_of_group(BLOCK, ROWS, 1u);
    if (place.part >= parts) return;
    Part part = part_of(place.part);
    Zeros zeros = zeros_of(true);

    Window windows[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) windows[g] = window_of(part, place.row + g * LANES + lane);
    Output target = output_of(place_in_pixel(part), place.block * BLOCK + lane * 4u);
    Sum sums[MAX_ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) sums[r] = sum_from(target.bias);
    uint input_counts[MAX_GROUPS];
    [[unroll]] for (uint g = 0; g < GROUPS; g++) input_counts[g] = 0u;
    uvec4 weight_counts = uvec4(0u);

    uint tap_loads = divide_up(depth, 4u) * FOUR_LOADS * LANES;
    uint block_loads = kernel_height * kernel_width * tap_loads;
    uint first = weights_offset * WEIGHT_VALUES / LOAD_VALUES + (first_block(part) + place.block) * block_loads + lane;
    uint at = first, open = 0u;    // vec4s since sums were carried
    for (uint ky = 0; ky < part.taps.x; ky++) {
        for (uint kx = 0; kx < part.taps.y; kx++) {
            uint addresses[MAX_GROUPS];
            [[unroll]] for (uint g = 0; g < GROUPS; g++) addresses[g] = tap_address(part, windows[g], ky, kx);
            if (SPLIT == PHASES) at = first + tap_number(part, ky, kx) * tap_loads;    // else one follows the other
            for (uint c = 0; c < depth; c += ROUND_VEC4S * 4u) {
                INPUT4 inputs[MAX_GROUPS][MAX_ROUND_VEC4S];
                [[unroll]] for (uint g = 0; g < GROUPS; g++) {
                    load_vec4s(addresses[g], c, zeros, inputs[g]);
                    [[unroll]] for (uint four = 0; four < ROUND_VEC4S; four++)
                        input_counts[g] = count_inputs(input_counts[g], inputs[g][four]);
                }
                // The loop goes row by row, not by K: there are more sums than registers, so each sum is loaded and
                // stored once per round.
                Weights4 weights[MAX_ROUND_VEC4S];
                [[unroll]] for (uint four = 0; four < ROUND_VEC4S; four++) {
                    weights[four] = load_weights(at, zeros);
                    weight_counts = count_weights(weight_counts, weights[four]);
                    at += FOUR_LOADS * LANES;
                }
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    [[unroll]] for (uint four = 0; four < ROUND_VEC4S; four++)
                        add_products(sums[r], subgroupShuffle(inputs[r / LANES][four], r % LANES), weights[four]);
                }
                if (CARRIES && ++open == EXACT_VEC4S) {
                    open = 0u;
                    [[unroll]] for (uint r = 0; r < ROWS; r++) carry(sums[r]);
                }
            }
        }
    }
    ACC4 due = due_to_weights(weight_counts, part.taps.x * part.taps.y * divide_up(depth, 4u));
    uint from = first_pixel(part) + place.row;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint pixel = mix(NO_PIXEL, from + r, place.row + r < rows);
        if (SPLIT == PHASES) pixel = subgroupShuffle(windows[r / LANES].pixel, r % LANES);
        uint count = COUNTS ? subgroupShuffle(input_counts[r / LANES], r % LANES) : 0u;
        if (CARRIES) carry(sums[r]);
        store_output(pixel, target, total(sums[r], count, due));
    }
    STORE_CHECK(place)
}

#endif
