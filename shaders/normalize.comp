#version 450
// L2_NORMALIZATION along any axis and INSTANCE_NORMALIZATION, in passes. PASS_STATISTICS sums slices, or parts of long
// slices, which PASS_COMBINE adds up. PASS_APPLY computes four consecutive elements of the output per invocation. In
// the other passes an invocation, or with WIDE a workgroup, handles four neighbouring slices.
//
// There are two sums of squares. The second one is of scaled numbers, for slices whose squares exceed 32-bit floats.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/slices.glsl"
#if defined(DTYPE_Q8) && defined(PASS_APPLY)
#include "include/fixed_point.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;
layout(constant_id = 4) const uint LOCAL = 64;
layout(constant_id = 5) const bool FINISH = true;    // there is nothing to add to the sums

// The statistics of a slice. L2_NORMALIZATION has the two sums of squares; for quantised values there is one, which
// saturates at its largest value. INSTANCE_NORMALIZATION has the same sums of differences from a pivot near the mean,
// the pivot, and the sum of the differences. Finished statistics are a scale and the divisor of scaled numbers; and the
// pivot and its difference from the mean.
#if defined(DTYPE_Q8)
#define ENTRY uvec4
#define WORDS 1
#elif defined(KIND_L2)
#define ENTRY vec4
#define WORDS 2
#else
#define ENTRY vec4
#define WORDS 4
#endif

#if defined(PASS_COMBINE)
READ_VIEW(0, Src, src, ENTRY)
layout(set = 0, binding = 1) writeonly buffer Statistics { ENTRY statistics[]; };
#elif defined(PASS_STATISTICS)
READS(0, Src, src)
layout(set = 0, binding = 1) writeonly buffer Statistics { ENTRY statistics[]; };
#else
READS(0, Src, src)
READ_VIEW(1, Statistics, statistics, ENTRY)
WRITES(2, Dst, dst)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint statistics_offset;
#ifdef PASS_APPLY
    uint dst_offset;
    uint elements;
    uint magic_inner;
    uint magic_length;
#endif
    uint count;     // of vec4s of slices, or of elements
#ifndef PASS_APPLY
    uint parts;     // of a slice
    uint part;      // elements of one of them
#endif
    uint length;    // of a slice
#ifndef PASS_COMBINE
    uint slices;
    uint inner;     // elements from one of a slice to the next
#endif
#ifdef KIND_INSTANCE
    float epsilon;
#ifdef PASS_APPLY
    float gamma;
    float beta;
#endif
#endif
#ifdef DTYPE_Q8
    uint sign_mask;
    int zero;
#endif
};

#ifndef IS_QUANTISED
const float SCALE = 8.271806125530277e-25;    // 2^-80
const float LARGEST = 1e37;                   // sums of squares below it are exact without a scale
const float SMALL = 1e10;                     // numbers that don't matter in sums above it; scaled, their squares are 0
#endif

ENTRY sum_of(ENTRY a, ENTRY b) {
#ifdef IS_QUANTISED
    uvec4 sum = a + b;
    return mix(sum, uvec4(0xffffffffu), lessThan(sum, b));
#else
    return a + b;
#endif
}

#ifndef PASS_APPLY

#define LANES_VALUE ENTRY
#include "include/lanes.glsl"

// The sum over the invocations of a workgroup, for all of them.
ENTRY total(ENTRY value) {
    if (!WIDE) return value;
    uint lane = gl_LocalInvocationID.x;
    barrier();
    OF_ALL_LANES(lane, value, sum_of)
    return value;
}

void finish(inout ENTRY entry[WORDS]) {
#ifndef IS_QUANTISED
    vec4 squares = entry[0], scaled = entry[1];
    bvec4 large = not(lessThan(squares, vec4(LARGEST)));    // or NaN
    entry[0] = mix(vec4(1.0), vec4(SCALE), large);
#ifdef KIND_L2
    // Shorter slices are divided by this number, so zeros stay zeros.
    vec4 norm = square_root(squares);
    entry[1] = mix(mix(norm, vec4(1e-6), lessThan(norm, vec4(1e-6))), square_root(scaled), large);
#else
    float all = float(length);
    vec4 from_pivot = quotient_of(entry[3], vec4(all));
    vec4 of_scaled = from_pivot * SCALE;
    vec4 deviation = square_root(max(quotient_of(squares, vec4(all)) - from_pivot * from_pivot, vec4(0.0)) + epsilon);
    vec4 of_large = square_root(quotient_of(scaled, vec4(all)) - of_scaled * of_scaled + epsilon * SCALE * SCALE);
    entry[1] = mix(deviation, of_large, large);
    entry[3] = from_pivot;
#endif
#endif
}

void write(uint item, ENTRY entry[WORDS]) {
    for (uint w = 0; w < WORDS; ++w) statistics[statistics_offset / 4 + item * WORDS + w] = entry[w];
}

#endif

#if defined(PASS_STATISTICS)

const uint BLOCK = 64;

// The last four slices may exceed the number of slices.
uint start_of(uint slice) { return slice_start(min(slice, slices - 1), length, inner); }

ACC4 load(uvec4 at) {
    if (NEIGHBOURS == IN_FOUR_SLICES) return LOAD4(src, at.x / 4);
    if (slices == 1) return ACC4(LOAD(src, at.x));
    return GATHER4(src, at);
}

void main() {
    uint item = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    if (item >= count * parts) return;    // whole workgroups where WIDE, so that the barriers are uniform
    uint first = item / count * part, end = min(first + part, length);
    uint lane = WIDE ? gl_LocalInvocationID.x : 0, lanes = WIDE ? LOCAL : 1;
    uint four = item % count * 4;
    uvec4 start = uvec4(start_of(four), start_of(four + 1), start_of(four + 2), start_of(four + 3));
    ENTRY entry[WORDS];
    // Sums of short sums are more exact than one long sum.
#if defined(IS_QUANTISED)
    uvec4 squares = uvec4(0);
    for (uint k = first + lane; k < end; k += lanes) {
        ivec4 levels = load(start + k * inner) - zero;
        squares = sum_of(squares, uvec4(levels * levels));
    }
    entry[0] = total(squares);
#else
    vec4 pivot = vec4(0.0);
#ifdef KIND_INSTANCE
    float share = quotient_of(1.0, float(end - first));
    vec4 sum = vec4(0.0);
    for (uint k = first + lane; k < end;) {
        vec4 block = vec4(0.0);
        for (uint stop = min(k + BLOCK * lanes, end); k < stop; k += lanes) block += load(start + k * inner) * share;
        sum += block;
    }
    pivot = total(sum);
    sum = vec4(0.0);
#endif
    vec4 squares = vec4(0.0), scaled = vec4(0.0);
    for (uint k = first + lane; k < end;) {
        vec4 block = vec4(0.0), block_scaled = vec4(0.0), block_sum = vec4(0.0);
        for (uint stop = min(k + BLOCK * lanes, end); k < stop; k += lanes) {
            vec4 x = load(start + k * inner) - pivot;
            vec4 small = mix(x, vec4(0.0), lessThan(abs(x), vec4(SMALL))) * SCALE;
            block += x * x;
            block_scaled += small * small;
            block_sum += x;
        }
        squares += block;
        scaled += block_scaled;
#ifdef KIND_INSTANCE
        sum += block_sum;
#endif
    }
    entry[0] = total(squares);
    entry[1] = total(scaled);
#ifdef KIND_INSTANCE
    entry[2] = pivot;
    entry[3] = total(sum);
#endif
#endif
    if (FINISH) finish(entry);
    if (lane == 0) write(item, entry);
}

#elif defined(PASS_COMBINE)

ENTRY load(uint i, uint number, uint word) { return src_at(src_offset / 4 + (number * count + i) * WORDS + word); }

#ifdef KIND_INSTANCE

float size_of(uint number) { return float(min(part, length - number * part)); }

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ENTRY entry[WORDS];
    for (uint w = 0; w < WORDS; ++w) entry[w] = ENTRY(0);
#ifdef KIND_INSTANCE
    for (uint number = 0; number < parts; ++number) entry[2] += load(i, number, 2) * quotient_of(size_of(number), float(length));
#endif
    for (uint number = 0; number < parts; ++number) {
#ifdef KIND_INSTANCE
        // Convert differences from the part's pivot to differences from the common pivot.
        vec4 pivot = load(i, number, 2) - entry[2], sum = load(i, number, 3), small = pivot * SCALE;
        float size = size_of(number);
        entry[0] += load(i, number, 0) + 2.0 * pivot * sum + size * pivot * pivot;
        entry[1] += load(i, number, 1) + 2.0 * small * (sum * SCALE) + size * small * small;
        entry[3] += sum + size * pivot;
#else
        for (uint w = 0; w < WORDS; ++w) entry[w] = sum_of(entry[w], load(i, number, w));
#endif
    }
    finish(entry);
    write(i, entry);
}

#else

// A word of the statistics of four elements' slices.
ENTRY known(uvec4 of, uint word) {
    uvec4 at = statistics_offset / 4 + of / 4 * WORDS + word;
    if (NEIGHBOURS == IN_FOUR_SLICES) return statistics_at(at.x);
    if (NEIGHBOURS == IN_ONE_SLICE) return ENTRY(statistics_at(at.x)[of.x % 4]);
    return ENTRY(statistics_at(at.x)[of.x % 4], statistics_at(at.y)[of.y % 4], statistics_at(at.z)[of.z % 4],
                 statistics_at(at.w)[of.w % 4]);
}

#ifdef IS_QUANTISED

// Whether 128 |levels| / sqrt(squares) is at least halves / 2.
bvec4 reaches(uvec4 size, uvec4 squares, uvec4 halves) {
    uvec4 high, low;
    umulExtended(halves * halves, squares, high, low);
    return bvec4(uvec4(equal(high, uvec4(0))) & uvec4(lessThanEqual(low, size * size << 16)));
}

// TensorFlow Lite rounds unsigned levels twice, in fixed point.
ivec4 normalised_unsigned(ivec4 from_zero, uvec4 squares) {
    ivec4 result;
    for (uint n = 0; n < 4; ++n) {
        int mantissa, shift;
        inverse_square_root(int(min(squares[n], 0x7fffffffu)), mantissa, shift);
        result[n] = scaled(128 * from_zero[n], mantissa, shift);
    }
    return clamp(128 + result, 0, 255);
}

// The output's scale is always 1 / 128 and its zero point the middle. The result of signed levels is rounded exactly to
// nearest, halves away from zero.
ivec4 normalised(ivec4 x, uvec4 of) {
    if (sign_mask == 0u) return normalised_unsigned(x - zero, known(of, 0));
    uvec4 squares = max(known(of, 0), 1u), size = uvec4(abs(x - zero));
    uvec4 near = uvec4(128.0 * vec4(size) * inversesqrt(vec4(squares)) + 0.5);
    near -= uvec4(not(reaches(size, squares, max(2u * near, 1u) - 1u))) & uvec4(greaterThan(near, uvec4(0)));
    near += uvec4(reaches(size, squares, 2u * near + 1u));
    return clamp(128 + sign(x - zero) * ivec4(near), 0, 255);
}

#else

vec4 normalised(vec4 x, uvec4 of) {
#ifdef KIND_INSTANCE
    x = (x - known(of, 2)) - known(of, 3);
#endif
    vec4 result = quotient_of(x * known(of, 0), known(of, 1));
#ifdef KIND_INSTANCE
    result = result * gamma + beta;
#endif
    return result;
}

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    Slicing slicing = Slicing(inner, length, uvec2(magic_inner, magic_length));
    STORE4(dst, i, normalised(LOAD4(src, i), slices_of_four(i, elements, slicing)));
}

#endif
