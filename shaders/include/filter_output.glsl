// The beginning and the end of the sums of four neighbouring output channels, for convolutions and FULLY_CONNECTED:
// bias, scale, activation, store. Include this after the push constants (out_channels, pitches, low, high; sign_mask
// and output_zero of bytes; the tensors' offsets) and the specialisation constant VECTOR_STORES. It declares bindings 2
// to 4. Sums of products of 16-bit quantised values have 64 bits (wide_sums.glsl).
//
// With ALL_STORED all output channels that it is asked for exist.
//
// A pixel may consist of PIXEL_PARTS equal parts of out_channels each; with PARTS_ALIKE all parts have the same biases
// and scales. The pixel may itself be a column range of a larger one. The low 16 bits of `pitches` have the larger
// one's channels, or 0, and the high bits have the same for the other tensor of an epilogue.

#ifndef NNVK_FILTER_OUTPUT_GLSL
#define NNVK_FILTER_OUTPUT_GLSL

#include "tensors.glsl"
#include "activation.glsl"
#include "indexing.glsl"

#ifndef PIXEL_PARTS
#define PIXEL_PARTS 1u
#define PARTS_ALIKE true
#endif
#ifndef ALL_STORED
#define ALL_STORED false
#endif

// With BIASES_FOLLOW, which is for quantised numbers, they follow the multipliers, because some devices bind eight buffers.
// VEC4S_BEHIND_BIASES vec4s may follow them.
#ifndef VEC4S_BEHIND_BIASES
#define VEC4S_BEHIND_BIASES 0u
#endif
#ifndef BIASES_FOLLOW
READ_VIEW(2, Bias, bias, ACC)
READ_VIEW(2, Bias_Vec4s, bias_vec4s, ACC4)
#endif
WRITES(3, Dst, dst)
ROUNDS(dst)
#ifdef IS_QUANTISED
// Four mantissas and four shifts for each four channels, after the parameters of an epilogue.
READ_VIEW(4, Multipliers, multipliers, ivec4)
READ_VIEW(4, Multipliers_Words, multipliers_words, int)
#ifdef DTYPE_Q8
READ_VIEW(4, Multipliers_Floats, multipliers_floats, vec4)    // those of `ByteMultiplier`, after all others
#endif
#ifndef EPILOGUE_FUSED
const uint END_WORDS = 0;
#endif
#endif
#ifdef DTYPE_Q8
#include "requantise.glsl"
// Sums and multipliers are in the range of `multiply_small`; and of `multiply_to_bytes`, which is to be used; and no
// result is below the zero point.
layout(constant_id = 16) const bool SMALL = false;
layout(constant_id = 51) const bool TO_BYTES = false;
layout(constant_id = 17) const bool NONNEGATIVE = false;
// Sums are floats that begin with the bias, and are exact.
layout(constant_id = 63) const bool FLOAT_TOTALS = false;
// Sums are rounded once, halves up.
layout(constant_id = 69) const bool ROUNDS_ONCE = false;
#endif
#if defined(DTYPE_F32) || defined(DTYPE_F16)
// There is an activation; and the device preserves NaN (`activate_by_comparisons`).
layout(constant_id = 17) const bool ACTIVATED = true;
layout(constant_id = 16) const bool PRESERVES_NAN = false;
#endif
#if defined(DTYPE_F16) && defined(STORED_ALONE)
#define MAY_WIDEN
// Results are rounded to 16 bits and stored as 32-bit floats.
layout(constant_id = 38) const bool TO_FLOATS = false;
layout(set = 0, binding = 3) writeonly buffer Dst_Floats { float dst_floats[]; };
layout(set = 0, binding = 3) writeonly buffer Dst_Floats_Fours { vec4 dst_floats_vec4s[]; };
#else
const bool TO_FLOATS = false;
#endif
#ifdef CHECKED
// Each invocation stores a word that is the sum of what it has to say about all of its results. gemm_checksum.comp, or
// depthwise_checksum.comp, knows the sum of the words of neighbouring pixels.
#include "checksum.glsl"
#ifndef CHECKS_BINDING
#ifdef EPILOGUE_FUSED
#define CHECKS_BINDING 6
#else
#define CHECKS_BINDING 5
#endif
#endif
layout(set = 0, binding = CHECKS_BINDING) writeonly buffer Checks { uint checks[]; };
uint check_sum = 0u;    // of the invocation
bool check_fails = false;
#ifndef CHECK_FACTOR
#define CHECK_FACTOR(pixel) position_factor(pixel)
#endif
// `sum_of_bytes` of the channels that exist.
uint sum_of_existing(uint stored, uvec4 x) {
    if (!VECTOR_STORES) x = mix(uvec4(0u), x, lessThan(uvec4(0u, 1u, 2u, 3u), uvec4(stored)));
    return sum_of_bytes(x);
}

// The check word of an invocation, which is wrong if the check fails.
uint checked_sum() { return check_sum + uint(check_fails); }
#endif
#ifdef EPILOGUE_FUSED
#include "epilogue.glsl"
#endif
// The type of complete sums. with_total adds two of them, and TOTAL_FROM is the beginning of a sum.
#ifdef DTYPE_Q16
#include "wide_sums.glsl"
#define TOTAL Wide4
#define TOTAL_FROM(bias) Wide4(ivec4(0), ivec4(0))    // biases, of up to 64 bits, come at the end
#else
#define TOTAL ACC4
#ifdef ARITHMETIC_INT8
#define TOTAL_FROM(bias) vec4(0.0)    // biases are added at the end, after the scales
#else
#define TOTAL_FROM(bias) (bias)
#endif
#define with_total(a, b) ((a) + (b))
#endif

// The parameters of four output channels, loaded once for all pixels. They include push constants, because llvmpipe
// loads push constants lane by lane in branches and loops, where invocations may have diverged.
struct Output {
    uint stored;    // the number of the four that exist
    uint base;      // index of the first one in pixel 0 in dst; of its vec4, if pixels are padded to vec4s
    uint stride;    // from a pixel to the next
    ACC4 bias;
#ifdef ARITHMETIC_INT8
    vec4 scale;    // of weights
#endif
    ACC low;
    ACC high;
#ifdef DTYPE_Q16
    ivec4 mantissa;
    ivec4 shift;
#endif
#ifdef DTYPE_Q8
    Multiplier multiplier;    // unless SMALL, with the shift in place of `right`
    ByteMultiplier to_bytes;    // with TO_BYTES
    int zero;
    uint sign_mask;
#endif
#ifdef DTYPE_Q16
    ivec4 bias_high;    // words, of biases of 64 bits
#endif
#ifdef EPILOGUE_FUSED
    uint first;           // of the other tensor in pixel 0, in the unit of `base`
    uint extra_stride;    // and from a pixel to the next
    Epilogue end;
#endif
#ifdef CHECKED
    uint parameters;         // a checksum of those that are not checked by sums
    uint factor;
    ByteBounds bounds;
#endif
};

#ifndef BIASES_FOLLOW
// Four biases, or numbers that lie like them.
ACC4 load_biases(uvec4 from) {
    if (VECTOR_STORES) return bias_vec4s_at(from.x >> 2);
    return ACC4(bias_at(from.x), bias_at(from.y), bias_at(from.z), bias_at(from.w));
}
#endif

// The parameters of the channels of a part, from one channel on.
Output output_of(uint part, uint channel) {
    uint last = out_channels - 1u, vec4s = divide_up(out_channels, 4u), own = PARTS_ALIKE ? 0u : part;
#ifdef IS_QUANTISED
    uint all_vec4s = vec4s * (PARTS_ALIKE ? 1u : PIXEL_PARTS), four = own * vec4s + ((ALL_STORED ? channel : min(channel, last)) >> 2);
    uint begin = multipliers_offset + END_WORDS >> 2, behind = begin + 2u * all_vec4s;
    ivec4 mantissa = multipliers_at(begin + 2u * four), shift = multipliers_at(begin + 2u * four + 1u);
#endif
#ifdef BIASES_FOLLOW
    ivec4 start = multipliers_at(behind + four);
    behind += all_vec4s + VEC4S_BEHIND_BIASES;
#else
    uvec4 from = channel + uvec4(0u, 1u, 2u, 3u);
    if (!ALL_STORED) from = min(from, uvec4(last));
    from += own * out_channels;
#ifdef DTYPE_Q16
    if (WIDE_BIAS) from *= 2u;
#endif
    from += bias_offset;
#ifdef DTYPE_Q16
    ivec4 start = ivec4(bias_at(from.x), bias_at(from.y), bias_at(from.z), bias_at(from.w)), start_high = start >> 31;
    if (WIDE_BIAS) start_high = ivec4(bias_at(from.x + 1u), bias_at(from.y + 1u), bias_at(from.z + 1u), bias_at(from.w + 1u));
#else
    ACC4 start = load_biases(from);
#endif
#ifdef ARITHMETIC_INT8
    from += out_channels * (PARTS_ALIKE ? 1u : PIXEL_PARTS);    // scales follow all biases
    vec4 scale = load_biases(from);
#endif
#endif
    uint stored = ALL_STORED ? 4u : channel < out_channels ? min(out_channels - channel, 4u) : 0u;
    uint larger = pitches & 0xffffu, larger_extra = pitches >> 16;
#ifdef STORED_ALONE
    uint first = part * out_channels + channel, base = dst_offset * (TO_FLOATS ? 1u : WORD_VALUES) + first;
    uint dense = PIXEL_PARTS * out_channels, stride = larger == 0u ? dense : larger;
    uint extra_stride = larger_extra == 0u ? dense : larger_extra;
#else
    uint first = part * vec4s + (channel >> 2), base = dst_offset / FOUR_WORDS + first;
    uint dense = PIXEL_PARTS * vec4s, stride = larger == 0u ? dense : larger >> 2;
    uint extra_stride = larger_extra == 0u ? dense : larger_extra >> 2;
#endif
#ifdef DTYPE_Q8
    Multiplier multiplier = Multiplier(mantissa, shift, ivec4(0), ivec4(0));
    if (SMALL) multiplier = ROUNDS_ONCE ? small_multiplier_once(mantissa, shift) : small_multiplier(mantissa, shift);
    ByteMultiplier to_bytes = ByteMultiplier(mantissa, vec4(0.0), vec4(0.0), vec4(0.0));
    if (TO_BYTES) {
        uint floats_from = behind + four * 3u;
        to_bytes.scale = multipliers_floats_at(floats_from);
        to_bytes.below = multipliers_floats_at(floats_from + 1u);
        to_bytes.above = multipliers_floats_at(floats_from + 2u);
    }
#endif
#ifdef CHECKED
    uint parameters = sum_of_existing(stored, of_multipliers(mantissa, shift)) + of_limits(low, high, output_zero);
#ifdef EPILOGUE_FUSED
    Epilogue end = epilogue_of(part * out_channels + channel, part * out_channels + last);
    if (COMBINE != NO_OPERATION) parameters += of_result(checksum_of(end));
#endif
#endif
    return Output(stored, base, stride, start,
#ifdef ARITHMETIC_INT8
        scale,
#endif
        low, high
#ifdef DTYPE_Q16
        , mantissa, shift
#endif
#ifdef DTYPE_Q8
        , multiplier, to_bytes, output_zero, sign_mask
#endif
#ifdef DTYPE_Q16
        , start_high
#endif
#ifdef EPILOGUE_FUSED
        , first, extra_stride, epilogue_of(part * out_channels + channel, part * out_channels + last)
#endif
#ifdef CHECKED
        , parameters, checksum_factor(first), byte_bounds(mantissa, shift, output_zero, low, high)
#endif
    );
}

Output output_of(uint channel) { return output_of(0u, channel); }

const uint NO_PIXEL = 0xffffffffu;

bool exists_in(uint pixel, Output to) { return all(bvec2(to.stored > 0u, pixel != NO_PIXEL)); }

// The elements for four results of the tensor that an epilogue reads one for one; arbitrary values if there is none.
// Callers with several results load the elements for all of them before they store the first one, because loads take
// long.
ACC4 other_of(bool exists, uint pixel, Output to) {
#ifdef EPILOGUE_FUSED
    if (EXTRA == OF_EACH) {
        uint at = mix(0u, to.first + pixel * to.extra_stride, exists);
#ifdef STORED_ALONE
        if (!VECTOR_STORES) return GATHER4(extra, at + min(uvec4(0u, 1u, 2u, 3u), uvec4(max(to.stored, 1u) - 1u)));
        at >>= 2;
#endif
#ifdef DTYPE_Q8
        return LOAD4_WITH(extra, at, to.sign_mask);
#else
        return LOAD4_WITH(extra, at, 0u);
#endif
    }
#endif
    return ACC4(0);
}

ACC4 other_of(uint pixel, Output to) { return other_of(exists_in(pixel, to), pixel, to); }

// The results for four sums, without the epilogue. Bytes may be the low ones of words (`pack_result`).
#ifdef DTYPE_Q8
// `sum_float` is the float nearest to the sum.
ACC4 plain_result(Output to, TOTAL sum, vec4 sum_float) {
    ivec4 result;
    if (TO_BYTES) {
        result = multiply_to_low_bytes(sum, sum_float, to.to_bytes, to.low, to.high, NONNEGATIVE, ROUNDS_ONCE);
    } else {
        if (SMALL) result = multiply_small(sum, to.multiplier, NONNEGATIVE) + to.zero;
        else if (ROUNDS_ONCE) result = multiply_once_by_quantized_multiplier(sum, to.multiplier.mantissa, to.multiplier.right) + to.zero;
        else result = multiply_by_quantized_multiplier(sum, to.multiplier.mantissa, to.multiplier.right) + to.zero;
        result = activate(result, to.low, to.high);
    }
    return result;
}

ACC4 plain_result(Output to, TOTAL sum) { return plain_result(to, sum, vec4(sum)); }

// The same for `FLOAT_TOTALS`.
ACC4 plain_result(Output to, vec4 sum) { return plain_result(to, ivec4(sum), sum); }

uint pack_result(Output to, ACC4 result) {
#ifdef EPILOGUE_FUSED
    return pack_bytes(result, to.sign_mask);
#else
    return TO_BYTES ? pack_low_bytes(result, to.sign_mask) : pack_bytes(result, to.sign_mask);
#endif
}
#else
ACC4 plain_result(Output to, TOTAL sum) {
#ifdef DTYPE_Q16
    sum = with_total(sum, Wide4(to.bias, to.bias_high));
    return activate(rescaled(sum, to.mantissa, to.shift), to.low, to.high);
#else
#ifdef ARITHMETIC_INT8
    sum = multiply_add(sum, to.scale, to.bias);
#endif
#if defined(DTYPE_F32) || defined(DTYPE_F16)
    sum = without_negative_zero(sum);
    if (ACTIVATED) sum = PRESERVES_NAN ? activate_by_comparisons(sum, to.low, to.high) : activate(sum, to.low, to.high);
    return sum;
#else
    return activate(sum, to.low, to.high);
#endif
#endif
}
#endif

// The results of the epilogue for four of these.
ACC4 with_end(Output to, ACC4 result, ACC4 other) {
#if defined(EPILOGUE_FUSED) && defined(IS_QUANTISED)
    if (TO_BYTES) result = whole_bytes(result);
    return with_epilogue(to.end, result, other, to.sign_mask);
#elif defined(EPILOGUE_FUSED)
    return with_epilogue(to.end, ROUNDED(result), other);
#else
    return result;
#endif
}

// The results for four sums, with the epilogue. Callers that compute all of their results before the first branch wait once
// for other tensors: AMD's compiler moves loads into the branch that alone uses them.
ACC4 result_of(Output to, TOTAL sum, ACC4 other) { return with_end(to, plain_result(to, sum), other); }

// Store four results that exist. Parts of pixels whose elements are packed in words are padded to vec4s.
void store_existing(uint pixel, Output to, ACC4 result) {
    uint at = to.base + pixel * to.stride;
#ifdef STORED_ALONE
    if (!VECTOR_STORES) {
        // Results that do not exist repeat the last one that does.
        result.y = mix(result.x, result.y, to.stored > 1u);
        result.z = mix(result.y, result.z, to.stored > 2u);
        result.w = mix(result.z, result.w, to.stored > 3u);
    }
    uvec4 each = at + min(uvec4(0u, 1u, 2u, 3u), uvec4(to.stored - 1u));
#ifdef MAY_WIDEN
    if (TO_FLOATS) {
        result = ROUNDED(result);
        if (VECTOR_STORES) dst_floats_vec4s[at >> 2] = result;
        else [[unroll]] for (uint i = 0; i < 4u; i++) dst_floats[each[i]] = result[i];
    } else
#endif
    if (VECTOR_STORES) dst_vec4s[at >> 2] = ENCODE4_WITH(result, 0u);
    else [[unroll]] for (uint i = 0; i < 4u; i++) STORE_FROM(dst, each[i], result[i]);
#elif defined(DTYPE_Q16)
    dst_vec4s[at] = ENCODE4_WITH(result & 0xffff, 0u);
#elif defined(DTYPE_Q8)
    dst_vec4s[at] = pack_result(to, result);
#else
    dst_vec4s[at] = ENCODE4_WITH(result, 0u);
#endif
}

#ifdef CHECKED
// Add what an invocation has to say about four results that exist: a checksum of the sums, of the parameters and of the word
// that it stores, and whether the sums become these bytes. `plain` is that of `plain_result` for the sums.
void check_existing(uint pixel, Output to, ivec4 sum, vec4 sum_float, ivec4 plain, ivec4 result, ivec4 other) {
    uint word = pack_result(to, result), check = sum_of_existing(to.stored, uvec4(sum)) + to.parameters + of_result(word);
    ivec4 bytes = unpack_bytes(word, to.sign_mask);
#ifdef EPILOGUE_FUSED
    if (TO_BYTES) plain = whole_bytes(plain);
    if (EXTRA == OF_EACH) check += of_extra(pack_bytes(other, 0u));
    if (COMBINE != NO_OPERATION) check_fails = is_beyond(to.end, plain, other, bytes) || check_fails;
    bytes = plain;
#endif
    check_fails = is_beyond(to.bounds, sum_float, bytes) || check_fails;
    check_sum += CHECK_FACTOR(pixel) * to.factor * check;
}
#define CHECK_EXISTING(pixel, to, sum, sum_float, plain, result, other) \
    check_existing(pixel, to, sum, sum_float, plain, result, other);
#else
#define CHECK_EXISTING(pixel, to, sum, sum_float, plain, result, other)
#endif

// Store results of `result_of`, if they exist.
void store_result(bool exists, uint pixel, Output to, ACC4 result, TOTAL sum, ACC4 other) {
    if (exists) {
        store_existing(pixel, to, result);
        CHECK_EXISTING(pixel, to, sum, vec4(sum), plain_result(to, sum), result, other)
    }
}

// Store four results if they exist. There is only one branch: callers unroll this, and SwiftShader's compiler tries every
// path through branches, including ?:, but not mix.
void store_output(bool exists, uint pixel, Output to, TOTAL sum, ACC4 other) {
    ACC4 plain = plain_result(to, sum);
    if (exists) {
        ACC4 result = with_end(to, plain, other);
        store_existing(pixel, to, result);
        CHECK_EXISTING(pixel, to, sum, vec4(sum), plain, result, other)
    }
}

#ifdef DTYPE_Q8
// The same for `FLOAT_TOTALS`.
void store_output(bool exists, uint pixel, Output to, vec4 sum, ACC4 other) {
    ACC4 plain = plain_result(to, sum);
    if (exists) {
        ACC4 result = with_end(to, plain, other);
        store_existing(pixel, to, result);
        CHECK_EXISTING(pixel, to, ivec4(sum), sum, plain, result, other)
    }
}
#endif

void store_output(uint pixel, Output to, TOTAL sum, ACC4 other) {
    store_output(exists_in(pixel, to), pixel, to, sum, other);
}

void store_output(uint pixel, Output to, TOTAL sum) { store_output(pixel, to, sum, other_of(pixel, to)); }

#endif
