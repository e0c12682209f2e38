// The multiplication of four elements of K, for all tiles of gemm.comp. An INPUT4 has the values of one pixel, Weights4
// those of four output channels, and a Sum accumulates the products.
//
// Bytes are unsigned here. ARITHMETIC_DOT multiplies four bytes with one instruction (SPV_KHR_integer_dot_product).
// Zero points are applied outside the loop: sum (a - za) (w - zw) = sum a w - zw sum a - za sum w + n za zw. The sums
// of a and w are accumulated separately. The host knows the last two terms of constant weights, which are part of the bias
// then (SETTLED). ARITHMETIC_FLOAT converts bytes to floats by a mask, because shifts are
// expensive on vectors. Byte q therefore becomes 2^(8 q) times its value. Byte 3 is reduced by 128, because one
// instruction converts signed words. The other factor is smaller by the same power of two. Products are integers below
// 2^16, and 256 of them add up exactly in 24 bits.
//
// 16-bit quantised values are multiplied with bytes as signed integers. After every EXACT_VEC4S vec4s of K the sums are
// carried to 64 bits, unless 32 bits are known to suffice (NARROW_SUMS). ARITHMETIC_DOT splits unsigned 16-bit values
// into their bytes, with two dot products for each output channel; it is only for 32-bit sums. ARITHMETIC_FLOAT adds
// four products, which are integers up to 2^22, as floats, and adds the result to the sum as an integer.
//
// ARITHMETIC_INT8 multiplies 32-bit floats by 8-bit weights minus their zero point, and at the end the sums by the
// scales of output channels.
//
// ARITHMETIC_HALF multiplies 16-bit floats and adds up the products of a round, four to 32, in 16 bits. The host has
// scaled the weights by a power of two so that they cannot overflow. Rounds are added up as 32-bit floats.

#ifndef NNVK_GEMM_ARITHMETIC_GLSL
#define NNVK_GEMM_ARITHMETIC_GLSL

#ifdef ARITHMETIC_DOT
#include "../byte_dot.glsl"
#endif
#if defined(ARITHMETIC_FLOAT) && defined(DTYPE_Q8)
#define BYTES_AS_FLOATS
#endif

#if defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
#define INPUT4 uvec2    // four high bytes, and four low ones
struct Weights4 { uvec4 outputs; };
struct Sum { ivec4 open; };
const int input_zero = 0x8000, weight_zero = 0x80;
#elif defined(DTYPE_Q16)
#ifdef ARITHMETIC_FLOAT
#define LEVEL4 vec4
#else
#define LEVEL4 ivec4
#endif
#define LEVELS_OF(words) LEVEL4(ivec4(ivec2(words) << 16 >> 16, ivec2(words) >> 16))    // 0 and 2, 1 and 3
#ifdef TILE_SUBGROUP
#define INPUT4 uvec2    // as in memory: fewer shuffles, and factors are known to fit into 16 bits
#else
#define INPUT4 LEVEL4
#endif
struct Weights4 { LEVEL4 rows[4]; };
struct Sum {
    ivec4 open;
    ivec4 low;     // carried, 16 bits of each time,
    ivec4 high;    // and the bits above these
};
#elif defined(ARITHMETIC_DOT)
#define INPUT4 uint
struct Weights4 { uvec4 outputs; };
struct Sum { ivec4 open; };
#elif defined(BYTES_AS_FLOATS)
#define INPUT4 vec4
#define SUM float
struct Weights4 { vec4 rows[4]; };
struct Sum { vec4 open; ivec4 carried; };
#elif defined(ARITHMETIC_HALF)
#define FACTOR float16_t
#define SUM float16_t
#define INPUT4 f16vec4
#define FACTORS_OF(words) native_float16(words)
#define WEIGHTS_OF(words) FACTORS_OF(words)
struct Weights4 { f16vec4 rows[4]; };
struct Sum { f16vec4 open; vec4 carried; };
#else
#define FACTOR ACC
#define SUM ACC
#define INPUT4 ACC4
#define FACTORS_OF(four) DECODE4_WITH(four, 0u)
#define WEIGHTS_OF(four) FROM_WEIGHT4(four)
struct Weights4 { ACC4 rows[4]; };
struct Sum { ACC4 open; };
#endif

// Values that are the same for all elements of K. They are read before the first loop, because push constants are
// loaded lane by lane if invocations may have diverged.
struct Zeros {
#ifdef DTYPE_Q8
    uint sign_mask;
#endif
#ifdef BYTES_AS_FLOATS
    vec4 inputs;
    vec4 scales;    // the inverses of the factors of an input's bytes
    vec4 weights;
#endif
#ifdef ARITHMETIC_INT8
    int weights;
#endif
    LOADED4 outside;    // four values of the padding
};

#ifdef BYTES_AS_FLOATS
const vec4 PLACES = vec4(1.0, 256.0, 65536.0, 16777216.0);
const uvec4 MASKS = uvec4(0xffu, 0xff00u, 0xff0000u, 0xff000000u);
const uvec4 TOPS = uvec4(0u, 0u, 0u, 0x80000000u);
// Sums are known to be exact as floats, with inputs that keep their zero point.
layout(constant_id = 54) const bool SHORT_SUMS = false;
const uint EXACT_VEC4S = SHORT_SUMS ? 0x7fffffffu : 64u;    // after which sums are carried to integers
#elif defined(DTYPE_Q16)
const uint EXACT_VEC4S = NARROW_SUMS ? 0x7fffffffu : 64;    // products are up to 2^22
#else
const uint EXACT_VEC4S = 0x7fffffffu;
#endif
const bool CARRIES = EXACT_VEC4S != 0x7fffffffu;
#ifdef ARITHMETIC_HALF
const bool EACH_ROUND_CARRIES = true;
layout(constant_id = 12) const uint ROUND = 2;    // vec4s of K, of TILE_SHARED: 2, 4 or 8
#else
const bool EACH_ROUND_CARRIES = false;
const uint ROUND = 1;
#endif

// `packed`: the weights' bytes are also multiplied by powers of two.
Zeros zeros_of(bool packed) {
#if defined(BYTES_AS_FLOATS)
    vec4 scales = 1.0 / PLACES;
    vec4 top = vec4(0.0, 0.0, 0.0, 128.0);
    vec4 weights = packed ? (float(weight_zero) - top) * PLACES : vec4(weight_zero);
    return Zeros(sign_mask, (float(input_zero) - top) * PLACES, packed ? scales * scales : scales, weights, padding());
#elif defined(DTYPE_Q8)
    return Zeros(sign_mask, padding());
#elif defined(ARITHMETIC_INT8)
    return Zeros(weight_zero, padding());
#else
    return Zeros(padding());
#endif
}

INPUT4 input_of(LOADED4 loaded, Zeros zeros) {
#if defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
    uvec2 low = loaded & 0x00ff00ffu, high = ((loaded >> 8) & 0x00ff00ffu) ^ 0x00800080u;
    low |= low >> 8;
    high |= high >> 8;
    return uvec2((high.x & 0xffffu) | high.y << 16, (low.x & 0xffffu) | low.y << 16);
#elif defined(DTYPE_Q16) && defined(TILE_SUBGROUP)
    return loaded;
#elif defined(DTYPE_Q16)
    return LEVELS_OF(loaded);
#elif defined(ARITHMETIC_DOT)
    return loaded ^ zeros.sign_mask;
#elif defined(BYTES_AS_FLOATS)
    uvec4 bytes = (uvec4(loaded ^ zeros.sign_mask) ^ TOPS) & MASKS;
    return (vec4(ivec4(bytes)) - zeros.inputs) * zeros.scales;
#else
    return FACTORS_OF(loaded);
#endif
}

// --- a round: what is loaded at once -----------------------------------------------------------------------------

const uint MAX_ROUND_VEC4S = 4;
const uint ROUND_VEC4S = SPAN < 4u ? 1u : SPAN / 4u;    // of channels

// Channels c to c + SPAN - 1 of the tap at an address, as they lie. Elements of less than 32 bits are loaded a texel at a
// time.
void load_round(uint address, uint c, Zeros zeros, out LOADED4 loaded[MAX_ROUND_VEC4S]) {
#if defined(HAS_WIDE_VIEW)
    if (SPAN == WIDE_SPAN) {
        bool inside = !PADDED || address != OUTSIDE;
        uvec4 wide = src_wide_at((PADDED ? mix(0u, address + c, inside) : address + c) / WIDE_SPAN);
#ifdef DTYPE_Q8
        if (PADDED) wide = mix(uvec4(zeros.outside), wide, bvec4(inside));
        [[unroll]] for (uint i = 0; i < ROUND_VEC4S; i++) loaded[i] = wide[i];
#else
        if (PADDED) wide = mix(uvec4(0u), wide, bvec4(inside));
        loaded[0] = wide.xy;
        loaded[1] = wide.zw;
#endif
        return;
    }
#endif
    [[unroll]] for (uint i = 0; i < ROUND_VEC4S; i++) loaded[i] = load_input(address, c, i * 4u, zeros.outside);
}

// The same as vec4s.
void load_vec4s(uint address, uint c, Zeros zeros, out INPUT4 vec4s[MAX_ROUND_VEC4S]) {
    LOADED4 loaded[MAX_ROUND_VEC4S];
    load_round(address, c, zeros, loaded);
    [[unroll]] for (uint i = 0; i < ROUND_VEC4S; i++) vec4s[i] = input_of(loaded[i], zeros);
}

#ifdef WEIGHTS_ARE_BYTES
// Weights from packed bytes.
Weights4 weights_of(uvec4 words, Zeros zeros) {
#if defined(ARITHMETIC_INT8)
    Weights4 weights;
    [[unroll]] for (uint k = 0; k < 4u; k++)
        weights.rows[k] = vec4(ivec4((words >> (8u * k)) & 0xffu) - zeros.weights);
    return weights;
#elif defined(ARITHMETIC_DOT)
    return Weights4(words);
#elif defined(DTYPE_Q16)
    ivec4 bytes = ivec4(words ^ 0x80808080u);
    return Weights4(LEVEL4[](LEVEL4(bytes << 24 >> 24), LEVEL4(bytes << 16 >> 24), LEVEL4(bytes << 8 >> 24), LEVEL4(bytes >> 24)));
#else
    Weights4 weights;
    [[unroll]] for (uint k = 0; k < 4u; k++)
        weights.rows[k] = vec4(ivec4((words ^ TOPS[k]) & MASKS[k])) - zeros.weights[k];
    return weights;
#endif
}
#endif

Sum sum_from(ACC4 bias) {
#if defined(BYTES_AS_FLOATS)
    return FLOAT_TOTALS ? Sum(vec4(bias), ivec4(0)) : Sum(vec4(0.0), bias);
#elif defined(ARITHMETIC_INT8)
    return Sum(vec4(0.0));    // the bias is added at the end, after the scales
#elif defined(ARITHMETIC_HALF)
    return Sum(f16vec4(0.0), bias);
#elif defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
    return Sum(ivec4(0));    // the bias, of up to 64 bits, comes at the end
#elif defined(DTYPE_Q16)
    return Sum(ivec4(0), ivec4(0), ivec4(0));
#else
    return Sum(bias);
#endif
}

void add_products(inout Sum sum, INPUT4 inputs, Weights4 weights) {
#if defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
    sum.open += ivec4((dots_of_bytes(inputs.x, weights.outputs) << 8) + dots_of_bytes(inputs.y, weights.outputs));
#elif defined(DTYPE_Q16)
#ifdef TILE_SUBGROUP
    LEVEL4 levels = LEVELS_OF(inputs);
#else
    LEVEL4 levels = inputs;
#endif
    [[unroll]] for (uint o = 0; o < 4u; o++) {
#ifdef ARITHMETIC_FLOAT
        float part = weights.rows[0][o] * levels.x;
#else
        int part = sum.open[o] + weights.rows[0][o] * levels.x;
#endif
        part = multiply_add(weights.rows[1][o], levels.z, part);
        part = multiply_add(weights.rows[2][o], levels.y, part);
        part = multiply_add(weights.rows[3][o], levels.w, part);
#ifdef ARITHMETIC_FLOAT
        sum.open[o] += int(part);
#else
        sum.open[o] = part;
#endif
    }
#elif defined(ARITHMETIC_DOT)
    sum.open += ivec4(dots_of_bytes(inputs, weights.outputs));
#else
    // The loop adds each product immediately, output by output: SwiftShader's compiler keeps pending values in memory.
    [[unroll]] for (uint o = 0; o < 4u; o++) {
        SUM open = sum.open[o];
        [[unroll]] for (uint k = 0; k < 4u; k++) open = multiply_add(weights.rows[k][o], inputs[k], open);
        sum.open[o] = open;
    }
#endif
}

// Carry the sum. This must be called at least every EXACT_VEC4S vec4s, with EACH_ROUND_CARRIES after each round, and
// after the last round.
void carry(inout Sum sum) {
#if defined(BYTES_AS_FLOATS)
    if (FLOAT_TOTALS) return;
    sum.carried += ivec4(sum.open);
    sum.open = vec4(0.0);
#elif defined(ARITHMETIC_HALF)
    sum.carried = multiply_add(weight_scale, vec4(sum.open), sum.carried);
    sum.open = f16vec4(0.0);
#elif defined(DTYPE_Q16) && !defined(ARITHMETIC_DOT)
    if (NARROW_SUMS) return;
    sum.low += sum.open & 0xffff;
    sum.high += sum.open >> 16;
    sum.open = ivec4(0);
#endif
}

// --- sums of what zero points are multiplied by ----------------------------------------------------------------

#if defined(ARITHMETIC_DOT) && defined(DTYPE_Q8)
// The bias has what is due to the input's zero point, so that weights are not added up.
layout(constant_id = 67) const bool SETTLED = false;
#else
const bool SETTLED = false;
#endif
#ifdef ARITHMETIC_DOT
const bool COUNTS = true;
#else
const bool COUNTS = false;
#endif

// The count with four more inputs.
uint count_inputs(uint count, INPUT4 inputs) {
#if defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
    return count + (dot_of_bytes(inputs.x, ONES) << 8) + dot_of_bytes(inputs.y, ONES);
#elif defined(ARITHMETIC_DOT)
    return count + dot_of_bytes(inputs, ONES);
#else
    return count;
#endif
}

uvec4 count_weights(uvec4 count, Weights4 weights) {
#ifdef ARITHMETIC_DOT
    if (!SETTLED) count += dots_of_bytes(ONES, weights.outputs);
#endif
    return count;
}

// The correction by zero points for four output channels, without the part of the pixels, over a number of vec4s.
ACC4 due_to_weights(uvec4 count, uint vec4s) {
    ACC4 due = ACC4(0);
#ifdef ARITHMETIC_DOT
    if (!SETTLED) due = input_zero * (int(vec4s * 4u) * weight_zero - ivec4(count));
#endif
    return due;
}

TOTAL total(Sum sum, uint input_count, ACC4 due) {
#if defined(DTYPE_Q16) && defined(ARITHMETIC_DOT)
    return narrow_total(sum.open - weight_zero * int(input_count) + due);
#elif defined(DTYPE_Q16)
    return NARROW_SUMS ? narrow_total(sum.open) : wide_total(sum.low, sum.high);
#elif defined(ARITHMETIC_DOT)
    return sum.open - weight_zero * int(input_count) + due;
#elif defined(BYTES_AS_FLOATS) || defined(ARITHMETIC_HALF)
    return sum.carried;
#else
    return sum.open;
#endif
}

#endif
