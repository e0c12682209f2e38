// The epilogue of a GEMM, of the variants EPILOGUE_FUSED: elementwise operations on its results before they are stored
// (lowering/gemm/epilogue.py). They may read one more tensor, with an element for each result, an element for each
// channel, or a single element. Include this after tensors.glsl and the push constants (`extra_offset`,
// `parameters_offset`, `out_channels`).
//
// Floats go through up to four operations of elementwise.glsl on values that are numbered from 1: the GEMM's result,
// the other tensor, four numbers, and the operations' results. Bytes are combined with the other tensor's bytes, as in
// binary.comp, and then looked up in a table; either of the two may be missing.

#ifndef NNVK_EPILOGUE_GLSL
#define NNVK_EPILOGUE_GLSL

const uint NO_OPERATION = 100;
const uint OF_EACH = 2;      // the other tensor is read one for one
const uint OF_ALL = 3;       // it has one element
const uint OF_CHANNELS = 4;  // it has one for each channel

layout(constant_id = 20) const uint EXTRA = OF_EACH;

#ifdef IS_QUANTISED

layout(constant_id = 21) const uint COMBINE = NO_OPERATION;
layout(constant_id = 22) const bool LOOK_UP = false;
// Numbers and multipliers in COMBINE are in the range of `multiply_small`.
layout(constant_id = 23) const bool SMALL_COMBINE = false;
// COMBINE is a sum that floats compute, for all levels (lowering/quantised/float_sums.py).
layout(constant_id = 65) const bool FLOAT_SUM = false;
const uint SUM = 1, PRODUCT = 3;
const uint TABLE = 16;    // words before it
const uint END_WORDS = LOOK_UP ? TABLE + 64u : TABLE;    // before the multipliers

READS(5, Extra, extra)

struct Epilogue {
    ivec4 own;       // zero point, mantissa, shift, sign of the product's results
    ivec4 other;     // of the other tensor
    ivec4 result;    // zero point, mantissa, shift; of FLOAT_SUM the bits of the factor of `own`
    ivec4 limits;    // and those of the factor of `other`, and of the addend
    ivec4 extra;     // values that are the same for all pixels
};

// The epilogue for the channels from `first` on, whose number is a multiple of four.
Epilogue epilogue_of(uint first, uint last) {
    uint at = multipliers_offset / 4u;
    Epilogue end = Epilogue(multipliers_at(at), multipliers_at(at + 1u), multipliers_at(at + 2u), multipliers_at(at + 3u), ivec4(0));
    if (COMBINE != NO_OPERATION) {
        if (EXTRA == OF_ALL) end.extra = ivec4(LOAD(extra, 0u));
        if (EXTRA == OF_CHANNELS) end.extra = LOAD4(extra, first >> 2);
    }
    return end;
}

#ifdef CHECKED
// A checksum of the parameters of COMBINE.
uint checksum_of(Epilogue end) {
    return sum_of_products(uvec4(end.own), checksum_factor(uvec4(0u, 1u, 2u, 3u))) +
           sum_of_products(uvec4(end.other), checksum_factor(uvec4(4u, 5u, 6u, 7u))) +
           sum_of_products(uvec4(end.result), checksum_factor(uvec4(8u, 9u, 10u, 11u))) +
           sum_of_products(uvec4(end.limits), checksum_factor(uvec4(12u, 13u, 14u, 15u)));
}

// Whether one of the results of COMBINE is further from the real number than roundings can be. A sum has errors of its
// operands, too: of two units of the common scale, and of floats.
bool is_beyond(Epilogue end, ivec4 x, ivec4 other, ivec4 bytes) {
    float scale = real_scale(end.result.y, end.result.z), tolerance = error_of(end.result.z);
    vec4 left = vec4(x - end.own.x), right = vec4(other - end.other.x), numbers;
    if (COMBINE == PRODUCT) {
        numbers = multiply_add(left * right, vec4(scale), vec4(float(end.result.x) + tolerance));
    } else {
        float level = scale * 1048576.0, of_left = level * real_scale(end.own.y, end.own.z);
        float of_right = level * real_scale(end.other.y, end.other.z);
        tolerance += 2.0 * scale + (of_left + of_right) * 0.0001220703125;
        vec4 sum = multiply_add(left, vec4(of_left * float(end.own.w)), vec4(float(end.result.x) + tolerance));
        numbers = multiply_add(right, vec4(of_right * float(end.other.w)), sum);
    }
    return is_beyond(bounds_within(end.limits.x, end.limits.y, tolerance), numbers, bytes);
}
#endif

// x 2^20 by a multiplier, for x in -255..255.
ivec4 rescaled_level(ivec4 x, ivec4 by) {
    if (!SMALL_COMBINE) return multiply_by_quantized_multiplier(x << 20, by.y, by.z);
    return multiply_small_level(x, small_multiplier(by.yyyy, by.zzzz));
}

ivec4 rescaled(ivec4 x, ivec4 by) {
    if (SMALL_COMBINE) return multiply_small(x, small_multiplier(by.yyyy, by.zzzz), false);
    return multiply_by_quantized_multiplier(x, by.y, by.z);
}

int looked_up(int x) { return LOAD_BYTE(multipliers_words, multipliers_offset + TABLE, uint(x), 0u); }

// FLOAT_SUM, as the lowest bytes of `multiply_to_low_bytes`.
ivec4 float_sum(Epilogue end, ivec4 x, ivec4 other) {
    float factor = intBitsToFloat(end.result.w), factor_of_other = intBitsToFloat(end.limits.z);
    vec4 sum = multiply_add(vec4(other), vec4(factor_of_other), vec4(intBitsToFloat(end.limits.w)));
    return low_bytes_within(multiply_add(vec4(x), vec4(factor), sum), end.limits.x, end.limits.y);
}

// The results of the epilogue for four results of the GEMM. `other` has the elements of the other tensor if it has one
// for each result.
ivec4 with_epilogue(Epilogue end, ivec4 x, ivec4 other, uint sign_mask) {
    if (FLOAT_SUM) {
        x = whole_bytes(float_sum(end, x, EXTRA == OF_EACH ? other : end.extra));
    } else if (COMBINE != NO_OPERATION) {
        other = (EXTRA == OF_EACH ? other : end.extra) - end.other.x;
        x -= end.own.x;
        if (COMBINE == PRODUCT) {
            x = rescaled(x * other, end.result);
        } else {
            // Both operands are first converted to a common scale, at most as large as their own.
            ivec4 left = rescaled_level(x, end.own) * end.own.w, right = rescaled_level(other, end.other) * end.other.w;
            x = rescaled(left + right, end.result);
        }
        x = activate(x + end.result.x, end.limits.x, end.limits.y);
    }
    if (LOOK_UP) {
        int flip = int(sign_mask & 0xffu);    // tables are indexed by the bytes in memory
        x ^= flip;
        x = ivec4(looked_up(x.x), looked_up(x.y), looked_up(x.z), looked_up(x.w)) ^ flip;
    }
    return x;
}

#else

const uint FIRST_NUMBER = 3, FIRST_INSTRUCTION = 7;

#define DECLARE_INSTRUCTION(number)                                                       \
    layout(constant_id = 21 + 3 * number) const uint INSTRUCTION_##number = NO_OPERATION; \
    layout(constant_id = 22 + 3 * number) const uint LEFT_##number = 1;                   \
    layout(constant_id = 23 + 3 * number) const uint RIGHT_##number = 1;
DECLARE_INSTRUCTION(0)
DECLARE_INSTRUCTION(1)
DECLARE_INSTRUCTION(2)
DECLARE_INSTRUCTION(3)
#define INSTRUCTION_BITS \
    (BIT_OF(INSTRUCTION_0) | BIT_OF(INSTRUCTION_1) | BIT_OF(INSTRUCTION_2) | BIT_OF(INSTRUCTION_3))

#include "elementwise.glsl"

READS(4, Extra, extra)
READ_VIEW(5, Parameters, parameters, vec4)

struct Epilogue {
    vec4 numbers;
    vec4 extra;    // values that are the same for all pixels
};

// The epilogue for the channels from `first` on; `last` is the last channel that exists.
Epilogue epilogue_of(uint first, uint last) {
    Epilogue end = Epilogue(parameters_at(parameters_offset / 4u), vec4(0));
    if (EXTRA == OF_ALL) end.extra = vec4(LOAD(extra, 0u));
    if (EXTRA == OF_CHANNELS) end.extra = GATHER4(extra, min(first + uvec4(0u, 1u, 2u, 3u), uvec4(last)));
    return end;
}

#define RUN_INSTRUCTION(number)                                                                                          \
    if (INSTRUCTION_##number != NO_OPERATION)                                                                            \
        values[FIRST_INSTRUCTION + number] = APPLY(INSTRUCTION_##number, values[LEFT_##number], values[RIGHT_##number]); \
    else                                                                                                                 \
        values[FIRST_INSTRUCTION + number] = values[FIRST_INSTRUCTION + number - 1];

// The results of the epilogue for four results of the GEMM. `other` has the elements of the other tensor if it has one
// for each result.
vec4 with_epilogue(Epilogue end, vec4 x, vec4 other) {
    vec4 values[FIRST_INSTRUCTION + 4];
    values[1] = x;
    values[2] = EXTRA == OF_EACH ? other : end.extra;
    values[3] = end.numbers.xxxx;
    values[4] = end.numbers.yyyy;
    values[5] = end.numbers.zzzz;
    values[6] = end.numbers.wwww;
    RUN_INSTRUCTION(0)
    RUN_INSTRUCTION(1)
    RUN_INSTRUCTION(2)
    RUN_INSTRUCTION(3)
    return values[FIRST_INSTRUCTION + 3];
}

#endif

#endif
