#version 450
// RANDOM_MULTINOMIAL: draw classes with the probabilities that logits give. Rows of logits are divided into parts of
// SPAN classes, with a workgroup for each part.
//
//   PASS_LARGEST   the largest logit of each part
//   PASS_WEIGHTS   e^(logit - largest) in fixed point, and every fourth of the prefix sums of the part
//   PASS_PARTS     the sums of the parts before each part, and of all
//   PASS_DRAW      random numbers by Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), and the
//                  classes in whose share of the sum they lie
//
// Infinite logits and NaN are never drawn.

#extension GL_GOOGLE_include_directive : require

#include "include/exp.glsl"
#include "include/flag.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

const uint LOCAL = 64, EACH = 16, SPAN = LOCAL * EACH, BLOCK = 4;    // classes of an invocation, of a part, of a kept sum
#define NOTHING uintBitsToFloat(0xff800000u)    // minus infinity

float finite(float logit) { return is_nan(logit) || is_infinite(logit) ? NOTHING : logit; }

#if defined(PASS_WEIGHTS) || defined(PASS_DRAW)

// A number from 0 to 64, which may be -0, times 2^57.
WIDE fixed_point(float x) {
    uint bits = floatBitsToUint(x), exponent = bits >> 23 & 0xffu;
    WIDE mantissa = WIDE(exponent == 0u ? 0u : (bits & 0x7fffffu) | 0x800000u, 0u);
    return exponent >= 93u ? shift_left(mantissa, exponent - 93u) : shift_right(mantissa, min(93u - exponent, 63u));
}

// e^(logit - most) times 2^one, rounded to nearest. The difference is exact: a float and its error.
WIDE weight(float logit, float most, uint one) {
    float below = most - logit;
    float back = below - most, kept = below - back;
    float lacks = (most - kept) - (logit + back);
    if (!(below < 64.0)) return WIDE(0u);    // less than 2^-64, or nothing
    WIDE size = fixed_point(below), rest = fixed_point(abs(lacks));
    size = lacks < 0.0 ? subtract(size, rest) : add(size, rest);
    WIDE power = multiply_high(size, LOG2_E), fraction = shift_left(power, 8u);    // of 2, times 2^56
    uint whole = power.y >> 24;
    WIDE mantissa = WIDE(0u);
    if (!is_zero(fraction)) {
        ++whole;
        mantissa = shift_right(exp2_fraction(subtract(WIDE(0u), fraction)), 1u);
    }
    mantissa.y |= 0x80000000u;
    uint shift = 63u - one + whole;
    if (shift == 0u) return mantissa;
    if (shift > 64u) return WIDE(0u);
    return shift_right(add(shift_right(mantissa, shift - 1u), WIDE(1u, 0u)), 1u);
}

#endif

#if defined(PASS_LARGEST) || defined(PASS_WEIGHTS)

layout(constant_id = 3) const bool ALIGNED = false;    // whether rows begin at vec4s

layout(set = 0, binding = 0) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 0) readonly buffer Logits_Fours { vec4 logits_vec4s[]; };
#ifdef PASS_LARGEST
layout(set = 0, binding = 1) writeonly buffer Largest { float largest[]; };
#else
layout(set = 0, binding = 1) readonly buffer Largest { float largest[]; };
layout(set = 0, binding = 2) buffer Sums { WIDE sums[]; };
layout(set = 0, binding = 3) writeonly buffer Parts { WIDE parts[]; };    // sums of parts, and a place for that of all
layout(set = 0, binding = 4) writeonly buffer Tops { float tops[]; };     // the largest of all parts
FLAG(5)
#endif

layout(push_constant) uniform Push {
    uint logits_offset;
    uint largest_offset;
#ifdef PASS_WEIGHTS
    uint sums_offset;
    uint parts_offset;
    uint tops_offset;
    uint flag_offset;
    uint one;         // binary digits of a weight of 1 after the highest
#endif
    uint first;       // batch
    uint count;       // of batches
    uint classes;
    uint in_row;      // parts of a batch
};

shared float highest[LOCAL];
#ifdef PASS_WEIGHTS
shared WIDE of_lanes[LOCAL];
#endif

// The largest number of all invocations.
float of_all(uint lane, float own) {
    highest[lane] = own;
    barrier();
    for (uint reach = LOCAL / 2; reach > 0; reach /= 2) {
        if (lane < reach) highest[lane] = max(highest[lane], highest[lane + reach]);
        barrier();
    }
    return highest[0];
}

// Four logits of a row; minus infinity past the end.
vec4 load(uint row, uint place) {
    uvec4 at = place + uvec4(0, 1, 2, 3);
    bvec4 is_there = lessThan(at, uvec4(classes));
    at = row + min(at, classes - 1);
    vec4 four = ALIGNED ? logits_vec4s[at.x / 4] : vec4(logits[at.x], logits[at.y], logits[at.z], logits[at.w]);
    four = vec4(finite(four.x), finite(four.y), finite(four.z), finite(four.w));
    return mix(vec4(NOTHING), four, is_there);
}

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    uint row = group / in_row, part = group - row * in_row;
    if (row >= count) return;
    uint from = logits_offset + (first + row) * classes;
#ifdef PASS_LARGEST
    float own = NOTHING;
    for (uint k = 0; k < EACH; k += BLOCK) {
        vec4 four = load(from, part * SPAN + k * LOCAL + lane * BLOCK);
        own = max(own, max(max(four.x, four.y), max(four.z, four.w)));
    }
    own = of_all(lane, own);
    if (lane == 0) largest[largest_offset + group] = own;
#else
    float most = NOTHING;
    for (uint k = lane; k < in_row; k += LOCAL) most = max(most, largest[largest_offset + row * in_row + k]);
    most = of_all(lane, most);
    if (part == 0 && lane == 0) {
        tops[tops_offset + row] = most;
        if (most == NOTHING) RAISE(first + row)
    }
    uint begin = part * SPAN + lane * EACH, end = min(begin + EACH, classes);
    uint to = sums_offset / 2 + row * divide_up(classes, BLOCK);
    WIDE sum = WIDE(0u);
    for (uint place = begin; place < end; place += BLOCK) {
        vec4 four = load(from, place);
        for (uint k = 0; k < BLOCK; ++k) sum = add(sum, weight(four[k], most, one));
        sums[to + place / BLOCK] = sum;
    }
    of_lanes[lane] = sum;
    barrier();
    WIDE before = WIDE(0u);
    for (uint k = 0; k < lane; ++k) before = add(before, of_lanes[k]);
    for (uint place = begin; place < end; place += BLOCK) sums[to + place / BLOCK] = add(sums[to + place / BLOCK], before);
    if (lane == LOCAL - 1) parts[parts_offset / 2 + row * (in_row + 1) + part] = add(before, sum);
#endif
}

#elif defined(PASS_PARTS)

layout(set = 0, binding = 0) buffer Parts { WIDE parts[]; };

layout(push_constant) uniform Push {
    uint parts_offset;
    uint count;     // of batches
    uint in_row;    // parts of a batch
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint at = parts_offset / 2 + i * (in_row + 1);
    WIDE before = WIDE(0u);
    for (uint part = 0; part < in_row; ++part) {
        WIDE own = parts[at + part];
        parts[at + part] = before;
        before = add(before, own);
    }
    parts[at + in_row] = before;
}

#else

layout(set = 0, binding = 0) readonly buffer Sums { WIDE sums[]; };
layout(set = 0, binding = 1) readonly buffer Parts { WIDE parts[]; };
layout(set = 0, binding = 2) readonly buffer Tops { float tops[]; };
layout(set = 0, binding = 3) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 4) readonly buffer Seeds { int seeds[]; };
layout(set = 0, binding = 5) readonly buffer Entropy { uvec4 entropy[]; };
layout(set = 0, binding = 6) writeonly buffer Dst { int dst[]; };

layout(push_constant) uniform Push {
    uint sums_offset;
    uint parts_offset;
    uint tops_offset;
    uint logits_offset;
    uint seeds_offset;
    uint entropy_offset;
    uint dst_offset;
    uint one;        // as above
    uint begin;      // first draw
    uint end;        // past the last one
    uint first;      // batch
    uint samples;    // of a batch
    uint classes;
    uint in_row;     // parts of a batch
};

// Four random words for a counter and a key.
uvec4 philox(uvec4 counter, uvec2 key) {
    for (int k = 0; k < 10; ++k) {
        WIDE a = multiply(0xd2511f53u, counter.x), b = multiply(0xcd9e8d57u, counter.z);
        counter = uvec4(b.y ^ counter.y ^ key.x, b.x, a.y ^ counter.w ^ key.y, a.x);
        key += uvec2(0x9e3779b9u, 0xbb67ae85u);
    }
    return counter;
}

// The class in whose share of the sum a random number lies. 52 bits of the random number count.
uint drawn(uint row, uvec2 random) {
    uint at = parts_offset / 2 + row * (in_row + 1);
    WIDE fraction = shift_left(WIDE(random.y, random.x & 0xfffffu), 12u);
    WIDE point = multiply_high(fraction, parts[at + in_row]);
    uint low = 0, high = in_row - 1;    // the last part that does not begin after the point
    while (low < high) {
        uint middle = (low + high + 1) / 2;
        if (is_less(point, parts[at + middle])) high = middle - 1;
        else low = middle;
    }
    point = subtract(point, parts[at + low]);
    at = sums_offset / 2 + row * divide_up(classes, BLOCK);
    uint from = low * (SPAN / BLOCK);
    high = divide_up(min((low + 1) * SPAN, classes), BLOCK) - 1;
    low = from;
    while (low < high) {    // the first kept sum that ends after it
        uint middle = (low + high) / 2;
        if (is_less(point, sums[at + middle])) high = middle;
        else low = middle + 1;
    }
    if (low > from) point = subtract(point, sums[at + low - 1]);
    uint found = low * BLOCK, last = min(found + BLOCK, classes) - 1;
    for (; found < last; ++found) {
        float logit = finite(logits[logits_offset + (first + row) * classes + found]);
        WIDE own = weight(logit, tops[tops_offset + row], one);
        if (is_less(point, own)) break;
        point = subtract(point, own);
    }
    return found;
}

void main() {
    uint block = begin / 2 + flat_invocation();    // of two random numbers
    if (2 * block >= end) return;
    ivec2 given = ivec2(seeds[seeds_offset], seeds[seeds_offset + 1]);
    uvec4 seed = uvec4(given.x, given.x >> 31, given.y, given.y >> 31);    // of 64 bits each
    if (given == ivec2(0)) seed = entropy[entropy_offset / 4];
    uvec4 random = philox(uvec4(block, 0u, seed.zw), seed.xy);
    for (uint k = 0; k < 2; ++k) {
        uint draw = 2 * block + k;
        if (draw < begin || draw >= end) continue;
        dst[dst_offset + draw] = int(drawn(draw / samples - first, k == 0 ? random.xy : random.zw));
    }
}

#endif
