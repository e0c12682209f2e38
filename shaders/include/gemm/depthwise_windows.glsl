// TILE_DEPTHWISE stages the results of a depthwise convolution in shared memory, in the place of its input. Each
// workgroup computes the depthwise results of its pixels, for the channels of a stage, and puts them into shared
// memory. It does so with the operations of depthwise_conv2d.comp in their order, so that the results have the same
// bits; 16-bit floats are added up as 32-bit ones.
// `Window` and the push constants but for kernel_height and kernel_width are those of the depthwise convolution, whose
// multiplier is 1.
//
// Its parameters follow the biases of the 1 x 1 convolution (lowering/gemm/separable.py). First there is a vec4 that is
// the same for all channels: the two limits of the activation, and of bytes the zero points of the input and of the
// result. Then there are, for each four channels, the weights, the bias, and of bytes the mantissas and the shifts.
// Weights of bytes, less their zero point, are floats of 16 bits, and two taps lie in a vec4; the bias has what is due to
// the input's zero point.
//
// With CHECKED the workgroups of the first block of output channels also store the depthwise results, and a check word for
// each word of them, as depthwise_conv2d.comp does for a tile of one pixel. depthwise_checksum.comp verifies them against
// the input, and gemm_checksum.comp the results of all blocks against them. The tensor of the check words begins with the
// depthwise results. Their check words follow, and then those of the 1 x 1 convolution.

#ifndef NNVK_GEMM_DEPTHWISE_WINDOWS_GLSL
#define NNVK_GEMM_DEPTHWISE_WINDOWS_GLSL

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

// The vec4s of all parameters.
uint depthwise_vec4s() { return 1u + divide_up(depth, 4u) * (WEIGHT_VEC4S + ENDS); }

#ifdef BIASES_FOLLOW
#define PARAMETERS_AT(i) multipliers_at(i)
uint depthwise_parameters() { return (multipliers_offset + END_WORDS) / 4u + 3u * divide_up(out_channels, 4u); }
#else
#define PARAMETERS_AT(i) bias_vec4s_at(i)
uint depthwise_parameters() { return bias_offset / 4u + divide_up(out_channels, 4u); }
#endif

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
    [[unroll]] for (uint i = 0; i < WEIGHT_VEC4S; i++) to.weights[i] = PARAMETERS_AT(at + i);
    [[unroll]] for (uint i = 0; i < ENDS; i++) to.ends[i] = PARAMETERS_AT(at + WEIGHT_VEC4S + i);
}

// Load a window that begins at `start`; arbitrary values in the padding.
void fetch_window(inout Depthwise to, uint number, uint start, uint inside, uint channel) {
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        uint ahead = (tap / KERNEL_WIDTH * DILATION_Y * width + tap % KERNEL_WIDTH * DILATION_X) * channels;
        uint address = PADDED ? mix(OUTSIDE, start + ahead, is_inside(inside, tap)) : start + ahead;
        to.windows[number * MAX_TAPS + tap] = load_anything(address, channel, 0u);
    }
}

#ifdef DTYPE_Q8
// The sum of the products of a window, with the bias.
ivec4 depthwise_sum(Depthwise from, uint number, uint inside) {
    int input_level = all_channels.z;
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint tap = 0; tap < TAPS; tap++) {
        uint word = from.windows[number * MAX_TAPS + tap] ^ sign_mask;
        if (PADDED) word = mix(uint(input_level) * 0x01010101u, word, is_inside(inside, tap));
        ivec4 both = from.weights[tap / 2u];
        vec4 weight = unpack_float16(tap % 2u == 0u ? uvec2(both.xy) : uvec2(both.zw));
        sum = multiply_add(vec4(unpack_bytes(word, 0u)), weight, sum);
    }
    return from.ends[0] + ivec4(sum);
}

uint depthwise_bytes(ivec4 rescaled) {
    return pack_bytes(activate(rescaled + all_channels.w, all_channels.x, all_channels.y), sign_mask);
}

// The word of the results of a sum.
uint depthwise_word(Depthwise from, ivec4 sum) {
    ivec4 mantissa = from.ends[1], shift = from.ends[2];
    if (DEPTHWISE_SMALL) return depthwise_bytes(multiply_small(sum, small_multiplier(mantissa, shift), false));
    return depthwise_bytes(multiply_by_quantized_multiplier(sum, mantissa, shift));
}

#ifdef CHECKED
// The pixels of an invocation's windows, whose depthwise results it stores.
struct Stored {
    bool any;    // which is the same for a workgroup
    uint places[MAX_WINDOWS];     // of the pixels' first words; NO_PIXEL if the results are not stored
    uint factors[MAX_WINDOWS];    // of the pixels in check words
};

// Words of all depthwise results, a multiple of four.
uint depthwise_words() { return divide_up(rows * (depth / 4u), 4u) * 4u; }

// Note the pixel of a window; NO_PIXEL for one whose results are not stored.
void note_pixel(inout Stored stored, uint number, uint pixel) {
    uint line = divide(pixel, out_width, magic_width);
    stored.places[number] = mix(pixel * (depth / 4u), NO_PIXEL, pixel == NO_PIXEL);
    stored.factors[number] = position_factor(OF_LINES + line) * column_factor(pixel - line * out_width);
}

// The part of the check words of four channels that is the same for all pixels.
struct ChannelChecks {
    uint factor;
    uint parameters;
    ByteBounds bounds;
};

ChannelChecks checks_of(Depthwise from, uint channel) {
    ivec4 mantissa = from.ends[1], shift = from.ends[2];
    int low = all_channels.x, high = all_channels.y, zero = all_channels.w;
    uint parameters = sum_of_bytes(of_multipliers(mantissa, shift)) + of_limits(low, high, zero);
    return ChannelChecks(checksum_factor(channel / 4u), parameters, byte_bounds(mantissa, shift, zero, low, high));
}

// Store the results of a window for four channels, with their check word.
void store_depthwise(Stored stored, uint number, uint channel, ChannelChecks of, ivec4 sum, uint word) {
    uint check = of.factor * (sum_of_bytes(uvec4(sum)) + of.parameters + of_result(word));
    bool fails = is_beyond(of.bounds, vec4(sum), unpack_bytes(word, sign_mask));
    if (stored.places[number] != NO_PIXEL) {
        uint at = checks_offset + stored.places[number] + channel / 4u;
        checks[at] = word;
        checks[at + depthwise_words()] = stored.factors[number] * check + uint(fails);
    }
}
#endif

// The result of a window, as it would lie in memory.
LOADED4 depthwise_result(Depthwise from, uint number, uint inside) {
    return depthwise_word(from, depthwise_sum(from, number, inside));
}
#else
LOADED4 depthwise_result(Depthwise from, uint number, uint inside) {
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
}
#endif

#endif
