// TILE_DEPTHWISE is TILE_SHARED behind a depthwise convolution: the input of a 1 x 1 convolution is computed, not loaded.
// Each workgroup computes the depthwise results of its pixels, for the channels of a stage, and puts them into shared
// memory. It does so with the operations of depthwise_conv2d.comp in their order, so that the results have the same
// bits; 16-bit floats are added up as 32-bit ones.
// `Window` and the push constants but for kernel_height and kernel_width are those of the depthwise convolution, whose
// multiplier is 1.
//
// Its parameters follow the biases of the 1 x 1 convolution (lowering/depthwise_gemm.py). First there is a vec4 that is
// the same for all channels: the two limits of the activation, and of bytes the zero points of the input and of the
// result. Then there are, for each four channels, the weights, the bias, and of bytes the mantissas and the shifts.
// Weights of bytes, less their zero point, are floats of 16 bits, and two taps lie in a vec4; the bias has what is due to
// the input's zero point.

#ifndef NNVK_GEMM_DEPTHWISE_GLSL
#define NNVK_GEMM_DEPTHWISE_GLSL

layout(constant_id = 39) const uint KERNEL_HEIGHT = 3;
layout(constant_id = 40) const uint KERNEL_WIDTH = 3;
#ifdef DTYPE_Q8
// Sums and multipliers are in the range of `multiply_small`.
layout(constant_id = 41) const bool DEPTHWISE_SMALL = false;
#else
// As ACTIVATED and PRESERVES_NAN.
layout(constant_id = 41) const bool DEPTHWISE_ACTIVATED = true;
layout(constant_id = 42) const bool DEPTHWISE_PRESERVES_NAN = false;
#endif

const uint TAPS = KERNEL_HEIGHT * KERNEL_WIDTH, MAX_TAPS = 9;
#ifdef DTYPE_Q8
const uint WEIGHT_VEC4S = (TAPS + 1) / 2, MAX_WEIGHT_VEC4S = (MAX_TAPS + 1) / 2;
const uint ENDS = 3;    // bias, mantissas, shifts
#else
const uint WEIGHT_VEC4S = TAPS, MAX_WEIGHT_VEC4S = MAX_TAPS;
const uint ENDS = 1;
#endif
const uint MAX_WINDOWS = 2;    // that an invocation loads for a stage

// The values that an invocation loads for its share of a stage: parameters of four channels, and windows of some pixels.
struct Depthwise {
    ACC4 weights[MAX_WEIGHT_VEC4S];
    ACC4 ends[ENDS];
    LOADED4 windows[MAX_WINDOWS * MAX_TAPS];
};

uint depthwise_parameters() { return bias_offset / 4u + divide_up(out_channels, 4u); }

ACC4 all_channels;    // the parameters that all channels share, loaded once

uint taps_inside(Window window) {
    if (!PADDED) return ~0u;
    uint inside = 0u;
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        uvec2 at = uvec2(window.y, window.x) + uvec2(tap / KERNEL_WIDTH * DILATION_Y, tap % KERNEL_WIDTH * DILATION_X);
        inside |= uint(all(lessThan(at, uvec2(height, width)))) << tap;
    }
    return inside;
}

bool is_inside(uint inside, uint tap) { return !PADDED || (inside >> tap & 1u) != 0u; }

void fetch_parameters(inout Depthwise to, uint channel) {
    uint at = depthwise_parameters() + 1u + channel / 4u * (WEIGHT_VEC4S + ENDS);
    [[unroll]] for (uint i = 0; i < WEIGHT_VEC4S; i++) to.weights[i] = bias_vec4s_at(at + i);
    [[unroll]] for (uint i = 0; i < ENDS; i++) to.ends[i] = bias_vec4s_at(at + WEIGHT_VEC4S + i);
}

// Load a window that begins at `start`; arbitrary values in the padding.
void fetch_window(inout Depthwise to, uint number, uint start, uint inside, uint channel) {
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        uint ahead = (tap / KERNEL_WIDTH * DILATION_Y * width + tap % KERNEL_WIDTH * DILATION_X) * channels;
        uint address = PADDED ? mix(OUTSIDE, start + ahead, is_inside(inside, tap)) : start + ahead;
        to.windows[number * MAX_TAPS + tap] = load_anything(address, channel, 0u);
    }
}

// The result of a window, as it would lie in memory.
LOADED4 depthwise_result(Depthwise from, uint number, uint inside) {
#ifdef DTYPE_Q8
    int input_level = all_channels.z, result_zero = all_channels.w;
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        uint word = from.windows[number * MAX_TAPS + tap] ^ sign_mask;
        if (PADDED) word = mix(uint(input_level) * 0x01010101u, word, is_inside(inside, tap));
        ivec4 both = from.weights[tap / 2u];
        vec4 weight = unpack_halves(tap % 2u == 0u ? uvec2(both.xy) : uvec2(both.zw));
        sum = multiply_add(vec4(unpack_bytes(word, 0u)), weight, sum);
    }
    ivec4 result = from.ends[0] + ivec4(sum), mantissa = from.ends[1], shift = from.ends[2];
    if (DEPTHWISE_SMALL) result = multiply_small(result, small_multiplier(mantissa, shift), false);
    else result = multiply_by_quantized_multiplier(result, mantissa, shift);
    return pack_bytes(activate(result + result_zero, all_channels.x, all_channels.y), sign_mask);
#else
    vec4 sum = from.ends[0];
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        LOADED4 value = from.windows[number * MAX_TAPS + tap];
        if (PADDED) value = where(is_inside(inside, tap), value, LOADED4(0));
        sum = multiply_add(DECODE4_WITH(value, 0u), from.weights[tap], sum);
    }
    float lowest = all_channels.x, highest = all_channels.y;
    if (DEPTHWISE_ACTIVATED)
        sum = DEPTHWISE_PRESERVES_NAN ? activate_by_comparisons(sum, lowest, highest) : activate(sum, lowest, highest);
    return ENCODE4_WITH(sum, 0u);
#endif
}

#endif
