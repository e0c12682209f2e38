// How convolutions and FULLY_CONNECTED begin and end the sums of four neighbouring output channels: bias, scale,
// activation, store. To be included after the push constants (out_channels, placed, low, high; sign_mask and
// output_zero of bytes; the tensors' offsets) and the specialisation constant VECTOR_STORES. Declares bindings 2 to 4.
// Sums of products of 16-bit steps are of 64 bits (wide_sums.glsl).
//
// A pixel may consist of PIXEL_PARTS equal parts of out_channels each. It may itself be a part of a larger one: `placed` is
// the channels of that, and times 65536 the first of ours; or 0.

#ifndef NNVK_FILTER_OUTPUT_GLSL
#define NNVK_FILTER_OUTPUT_GLSL

#include "tensors.glsl"
#include "activation.glsl"
#include "indexing.glsl"

#ifndef PIXEL_PARTS
#define PIXEL_PARTS 1u
#endif

layout(set = 0, binding = 2) readonly buffer Bias { ACC bias[]; };
WRITES(3, Dst, dst)
#ifdef IS_QUANTISED
// Four mantissas and four shifts for each four channels; before them what an end needs.
layout(set = 0, binding = 4) readonly buffer Multipliers { ivec4 multipliers[]; };
layout(set = 0, binding = 4) readonly buffer Multipliers_Words { int multipliers_words[]; };
#ifndef END_FUSED
const uint END_WORDS = 0;
#endif
#endif
#ifdef DTYPE_Q8
// Sums and multipliers are such as `multiply_small` takes; and no result is below the zero point.
layout(constant_id = 16) const bool SMALL = false;
layout(constant_id = 17) const bool NONNEGATIVE = false;
#endif
#ifdef END_FUSED
#include "output_end.glsl"
#endif
// What sums are in the end, with_total is the sum of two.
#ifdef DTYPE_Q16
#include "wide_sums.glsl"
#define TOTAL Wide4
#define TOTAL_WORDS 8
#else
#define TOTAL ACC4
#define TOTAL_WORDS 4
#define with_total(a, b) ((a) + (b))
#endif

// What four output channels need, loaded once for all pixels. Push constants are among it because llvmpipe loads
// them lane by lane where invocations may have parted, in branches and loops: an Output is made before.
struct Output {
    uint stored;    // how many of the four exist
    uint base;      // index of the first, in pixel 0, in dst; of its four, where pixels are padded to fours
    uint stride;    // from a pixel to the next
    ACC4 bias;
    ACC low;
    ACC high;
#ifdef DTYPE_Q16
    ivec4 mantissa;
    ivec4 shift;
#endif
#ifdef DTYPE_Q8
    Multiplier multiplier;    // unless SMALL, with the shift in place of `right`
    int zero;
    uint sign_mask;
#endif
#ifdef DTYPE_Q16
    ivec4 bias_high;    // words, of biases of 64 bits
#endif
#ifdef END_FUSED
    uint first;    // index of the tensor's first element, in the unit of `base`
    End end;
#endif
};

// Of the channels from one on of a part.
Output output_of(uint part, uint channel) {
    uint last = out_channels - 1u, fours = divide_up(out_channels, 4u);
    uvec4 from = part * out_channels + min(channel + uvec4(0u, 1u, 2u, 3u), uvec4(last));
#ifdef DTYPE_Q16
    if (WIDE_BIAS) from *= 2u;
#endif
    from += bias_offset;
    ACC4 start = ACC4(bias[from.x], bias[from.y], bias[from.z], bias[from.w]);
#ifdef DTYPE_Q16
    ivec4 start_high = start >> 31;
    if (WIDE_BIAS) start_high = ivec4(bias[from.x + 1u], bias[from.y + 1u], bias[from.z + 1u], bias[from.w + 1u]);
#endif
    uint stored = channel < out_channels ? min(out_channels - channel, 4u) : 0u;
    uint first = placed >> 16, larger = placed & 0xffffu;
#ifdef STORED_ALONE
    uint base = dst_offset * WORD_VALUES + first + part * out_channels + channel;
    uint stride = larger == 0u ? PIXEL_PARTS * out_channels : larger;
#else
    uint base = dst_offset / FOUR_WORDS + (first >> 2) + part * fours + (channel >> 2);
    uint stride = larger == 0u ? PIXEL_PARTS * fours : larger >> 2;
#endif
#ifdef IS_QUANTISED
    uint at = (multipliers_offset + END_WORDS >> 2) + (part * fours + (min(channel, last) >> 2) << 1);
    ivec4 mantissa = multipliers[at], shift = multipliers[at + 1u];
#endif
#ifdef DTYPE_Q8
    Multiplier multiplier = Multiplier(mantissa, shift, ivec4(0), ivec4(0));
    if (SMALL) multiplier = small_multiplier(mantissa, shift);
#endif
    return Output(stored, base, stride, start, low, high
#ifdef DTYPE_Q16
        , mantissa, shift
#endif
#ifdef DTYPE_Q8
        , multiplier, output_zero, sign_mask
#endif
#ifdef DTYPE_Q16
        , start_high
#endif
#ifdef END_FUSED
#ifdef STORED_ALONE
        , dst_offset * WORD_VALUES
#else
        , dst_offset / FOUR_WORDS
#endif
        , end_of(part * out_channels + channel, part * out_channels + last)
#endif
    );
}

Output output_of(uint channel) { return output_of(0u, channel); }

const uint NO_PIXEL = 0xffffffffu;

// Parts of pixels whose elements are packed in words are padded to fours. There is but one branch, which NO_PIXEL
// leaves out too: callers unroll this, and SwiftShader's compiler tries every way through branches, of which ?: is one and
// mix is none.
void store_output(uint pixel, Output to, TOTAL sum) {
    bool exists = all(bvec2(to.stored > 0u, pixel != NO_PIXEL));
    uint at = to.base + pixel * to.stride;
#if defined(DTYPE_Q16)
    sum = with_total(sum, Wide4(to.bias, to.bias_high));
    ACC4 result = activate(rescaled(sum, to.mantissa, to.shift), to.low, to.high);
#else
#ifdef IS_QUANTISED
    if (SMALL) sum = multiply_small(sum, to.multiplier, NONNEGATIVE) + to.zero;
    else sum = multiply_by_quantized_multiplier(sum, to.multiplier.mantissa, to.multiplier.right) + to.zero;
#endif
    ACC4 result = activate(sum, to.low, to.high);
#endif
#ifdef STORED_ALONE
    if (exists) {
        // What does not exist is the last one that does once more.
        uvec4 last = min(uvec4(0u, 1u, 2u, 3u), uvec4(to.stored - 1u));
#ifdef END_FUSED
        uint first = at - to.first;
        ACC4 other = ACC4(0);
        if (EXTRA == OF_EACH) other = VECTOR_STORES ? LOAD4(extra, first >> 2) : GATHER4(extra, first + last);
        result = ended(to.end, ROUNDED(result), other);
#endif
        if (VECTOR_STORES) {
            dst_fours[at >> 2] = ENCODE4_WITH(result, 0u);
        } else {
            result.y = mix(result.x, result.y, to.stored > 1u);
            result.z = mix(result.y, result.z, to.stored > 2u);
            result.w = mix(result.z, result.w, to.stored > 3u);
            STORE_FROM(dst, at, result.x);
            STORE_FROM(dst, at + last.y, result.y);
            STORE_FROM(dst, at + last.z, result.z);
            STORE_FROM(dst, at + last.w, result.w);
        }
    }
#else
    if (exists) {
#if defined(END_FUSED) && defined(IS_QUANTISED)
        result = ended(to.end, result, at - to.first, to.sign_mask);
#elif defined(END_FUSED)
        result = ended(to.end, ROUNDED(result), EXTRA == OF_EACH ? LOAD4(extra, at - to.first) : ACC4(0));
#endif
#ifdef DTYPE_Q16
        dst_fours[at] = ENCODE4_WITH(result & 0xffff, 0u);
#elif defined(DTYPE_Q8)
        dst_fours[at] = ENCODE4_WITH(result, to.sign_mask);
#else
        dst_fours[at] = ENCODE4_WITH(result, 0u);
#endif
    }
#endif
}

#endif
