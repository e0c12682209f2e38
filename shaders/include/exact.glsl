// GEMMs once more, to verify the results of other shaders (lowering/gemm/verification/exact.py): how numbers are
// multiplied, and how sums become results. It is no code of these shaders. Include this after tensors.glsl and the
// push constants: rows, out_channels, dst_pitch, input_zero, filter_zero, output_zero (unsigned), low, high, offsets.
//
// Floats add up products of levels less zero points, at most BLOCK of them, which is exact. Sums become bytes by the
// definition of quantised multipliers. With STORES_SUMS the results are the sums themselves, which wrap around.
//
// A sum of floats begins with the bias. Products are added to it one by one, along K, and both operations are rounded
// (docs/reproducible.md).

#ifndef NNVK_EXACT_GLSL
#define NNVK_EXACT_GLSL

#include "extremes.glsl"
#ifdef DTYPE_Q16
#include "wide_sums.glsl"
#endif

layout(constant_id = 4) const bool WIDE_RESULTS = false;    // output channels of a part are whole vec4s in memory
layout(constant_id = 11) const uint INTERLEAVED = 1;            // parts whose results lie side by side
layout(constant_id = 12) const bool STORES_SUMS = false;
layout(constant_id = 14) const uint FILTER_WORDS = 0;       // how words of filters are loaded, or single levels
layout(constant_id = 15) const bool PARTS_ALIKE = true;     // they have the same biases and multipliers
layout(constant_id = 20) const bool HAS_BIAS = true;        // those of sums are other sums, one for one
layout(constant_id = 24) const bool HAS_EXTRA = false;      // another tensor of floats is added to results, one for one
// Levels are signed: of the input, the filters and the results.
layout(constant_id = 21) const bool SIGNED = false;
layout(constant_id = 22) const bool FILTERS_SIGNED = false;
layout(constant_id = 23) const bool RESULTS_SIGNED = false;

const uint ALONG_CHANNELS = 1, ALONG_OUTPUTS = 2;    // FILTER_WORDS

READS(0, Src, src)
#ifdef IS_QUANTISED
READ_VIEW(1, Filters, filters, uint)
READ_VIEW(4, Multipliers, multipliers, ivec4)    // four mantissas and four shifts for each vec4 of output channels
#elif defined(STORED_ALONE)
READS(1, Filters, filters)
#else
READ_VIEW(1, Filters, filters, float)
READ_VIEW(1, Filters_Vec4s, filters_vec4s, vec4)
#endif
READ_VIEW(2, Bias, bias, ACC)
WRITES(3, Dst, dst)
#ifdef IS_FLOAT
READS(4, Extra, extra)
ROUNDS(dst)
#endif
#ifdef DTYPE_Q8
layout(set = 0, binding = 3) writeonly buffer Dst_Sums { ivec4 dst_sums[]; };
#endif

const uint BLOCK = 256;    // so many products of up to 255^2 are less than 2^24
#ifdef DTYPE_Q16
const uint SIGNS = 0x80008000u;
#else
const uint SIGNS = 0x80808080u;
#endif
const uint sign_mask = SIGNED ? SIGNS : 0u, filter_mask = FILTERS_SIGNED ? 0x80808080u : 0u;

uvec4 from_on(uint first) { return first + uvec4(0u, 1u, 2u, 3u); }

// The column of results of an invocation.
struct Column {
    uint part;
    uint first;    // output channel of the part
};

// --- products ----------------------------------------------------------------------------------------------------

// Factors are TERM4s, and inputs INPUT4s. A BLOCK4 is a sum of a few products, a TOTAL4 one of all. Floats have a single sum.
#ifdef DTYPE_I32
#define TERM4 ivec4
#else
#define TERM4 vec4
#endif

#ifdef DTYPE_Q16
struct Halves4 {
    vec4 low;    // the low bytes of inputs, or products with these
    vec4 high;
};
#define INPUT4 Halves4
#define BLOCK4 Halves4
#define TOTAL4 Wide4
const TOTAL4 NO_TOTAL = Wide4(ivec4(0), ivec4(0));

BLOCK4 first_block(TOTAL4 total) { return Halves4(vec4(0.0), vec4(0.0)); }
INPUT4 input_of(ivec4 x) { return Halves4(vec4(x & 0xff), vec4(x >> 8)); }
INPUT4 repeated(INPUT4 x, uint i) { return Halves4(vec4(x.low[i]), vec4(x.high[i])); }

BLOCK4 with_products(BLOCK4 block, INPUT4 x, TERM4 filters4) {
    return Halves4(fma(x.low, filters4, block.low), fma(x.high, filters4, block.high));
}

TOTAL4 with_block(TOTAL4 total, BLOCK4 block) {
    ivec4 low = ivec4(block.low), high = ivec4(block.high);
    return sum_of(sum_of(total, Wide4(low, low >> 31)), Wide4(high << 8, high >> 24));
}
#else
#define INPUT4 TERM4
#define BLOCK4 TERM4
#define TOTAL4 ACC4
const TOTAL4 NO_TOTAL = TOTAL4(0);

INPUT4 input_of(ACC4 x) { return INPUT4(x); }
INPUT4 repeated(INPUT4 x, uint i) { return INPUT4(x[i]); }

#if defined(DTYPE_I32) || defined(IS_FLOAT)
BLOCK4 with_products(BLOCK4 block, INPUT4 x, TERM4 filters4) { return block + x * filters4; }
#else
BLOCK4 with_products(BLOCK4 block, INPUT4 x, TERM4 filters4) { return fma(x, filters4, block); }
#endif
#ifdef IS_FLOAT
BLOCK4 first_block(TOTAL4 total) { return total; }
TOTAL4 with_block(TOTAL4 total, BLOCK4 block) { return block; }
#else
BLOCK4 first_block(TOTAL4 total) { return BLOCK4(0); }
TOTAL4 with_block(TOTAL4 total, BLOCK4 block) { return total + ivec4(block); }
#endif
#endif

// --- operands ----------------------------------------------------------------------------------------------------

#ifdef IS_QUANTISED
ivec4 less_zero(ivec4 levels) { return levels - input_zero; }
float filter_at(uint at) { return float(LOAD_BYTE(filters, filters_offset, at, filter_mask) - filter_zero); }
vec4 filter_word(uint at) { return vec4(unpack_bytes(filters_at(filters_offset + (at >> 2)), filter_mask) - filter_zero); }
#else
ACC4 less_zero(ACC4 numbers) { return numbers; }
#ifdef STORED_ALONE
ACC filter_at(uint at) { return LOAD_WITH(filters, at, 0u); }
ACC4 filter_word(uint at) { return LOAD4_WITH(filters, at >> 2, 0u); }
#else
ACC filter_at(uint at) { return filters_at(filters_offset + at); }
ACC4 filter_word(uint at) { return filters_vec4s_at(filters_offset + at >> 2); }
#endif
#endif
TERM4 filters_at_each(uvec4 at) { return TERM4(filter_at(at.x), filter_at(at.y), filter_at(at.z), filter_at(at.w)); }

// --- results -----------------------------------------------------------------------------------------------------

#ifdef IS_FLOAT
TOTAL4 first_total(Column column) {
    uvec4 at = bias_offset + min(from_on(column.first), uvec4(out_channels - 1u));
    if (!PARTS_ALIKE) at += column.part * out_channels;
    return vec4(bias_at(at.x), bias_at(at.y), bias_at(at.z), bias_at(at.w));
}

TOTAL4 with_biases(TOTAL4 total, Column column, uint row) { return total; }
#else
TOTAL4 first_total(Column column) { return NO_TOTAL; }

// The sums of a pixel with their biases.
TOTAL4 with_biases(TOTAL4 total, Column column, uint row) {
    if (!HAS_BIAS) return total;
    uvec4 at = min(from_on(column.first), uvec4(out_channels - 1u));
    if (!PARTS_ALIKE) at += column.part * out_channels;
#ifdef DTYPE_Q16
    if (WIDE_BIAS) at *= 2u;
#endif
    at += bias_offset + (STORES_SUMS ? row * dst_pitch : 0u);
    ivec4 start = ivec4(bias_at(at.x), bias_at(at.y), bias_at(at.z), bias_at(at.w));
#ifdef DTYPE_Q16
    ivec4 high = start >> 31;
    if (WIDE_BIAS) high = ivec4(bias_at(at.x + 1u), bias_at(at.y + 1u), bias_at(at.z + 1u), bias_at(at.w + 1u));
    return sum_of(total, Wide4(start, high));
#else
    return total + start;
#endif
}
#endif

#ifdef DTYPE_Q8
// The products with quantised multipliers: first rounded to nearest, ties upwards, and then, behind a shift to the right,
// ties away from zero.
ivec4 scaled(ivec4 sums, ivec4 mantissa, ivec4 shift) {
    bvec4 negative = lessThan(sums, ivec4(0));
    ivec4 left = max(shift, ivec4(0)), right = max(-shift, ivec4(0));
    uvec4 magnitude = mix(uvec4(sums), 0u - uvec4(sums), negative), high, low, carry;
    magnitude = min(magnitude, uvec4(0x80000000u) >> left) << left;
    umulExtended(magnitude, uvec4(mantissa), high, low);
    low = uaddCarry(low, mix(uvec4(0x40000000u), uvec4(0x3fffffffu), negative), carry);
    uvec4 quotient = high + carry << 1 | low >> 31;
    quotient = quotient + (uvec4(1u) << right >> 1) >> right;
    return mix(ivec4(quotient), -ivec4(quotient), negative);
}
#endif

// The results that lie in memory from an element on.
ACC4 results_of(TOTAL4 total, Column column, uint first) {
#ifdef IS_QUANTISED
    uint vec4s = divide_up(out_channels, 4u), four = (PARTS_ALIKE ? 0u : column.part * vec4s) + column.first / 4u;
    uint at = multipliers_offset / 4u + 2u * four;
    ivec4 mantissa = multipliers_at(at), shift = multipliers_at(at + 1u);
#endif
#if defined(IS_FLOAT)
    total = mix(total, vec4(0.0), equal(floatBitsToUint(total), uvec4(~MAGNITUDE)));    // not -0
    if (HAS_EXTRA) {
        vec4 added;
        if (WIDE_RESULTS) added = LOAD4_WITH(extra, first >> 2, 0u);
        else added = GATHER4_WITH(extra, first + min(from_on(0u), uvec4(out_channels - column.first - 1u)), 0u);
        total = ROUNDED(total) + added;
    }
    return smaller(larger(total, vec4(low)), vec4(high));
#elif defined(DTYPE_Q16)
    return clamp(rescaled(total, mantissa, shift), low, high) & 0xffff;
#elif defined(DTYPE_Q8)
    return clamp(scaled(total, mantissa, shift) + output_zero, low, high);
#else
    return clamp(total, low, high);
#endif
}

void store(TOTAL4 total, Column column, uint row) {
    total = with_biases(total, column, row);
    uint beside = WIDE_RESULTS ? divide_up(out_channels, 4u) * 4u : out_channels;
    uint at = (column.part / INTERLEAVED * rows + row) * dst_pitch + column.part % INTERLEAVED * beside + column.first;
#ifdef DTYPE_Q8
    if (STORES_SUMS) {
        dst_sums[dst_offset + at >> 2] = total;
        return;
    }
#endif
    ACC4 results = results_of(total, column, at);
#ifdef STORED_ALONE
    if (!WIDE_RESULTS) {
        uint count = min(4u, out_channels - column.first);
        [[unroll]] for (uint i = 0; i < 4u; i++) {
            if (i < count) STORE(dst, at + i, results[i]);
        }
        return;
    }
#endif
    STORE4_WITH(dst, at >> 2, results, RESULTS_SIGNED ? SIGNS : 0u);
}

#endif
