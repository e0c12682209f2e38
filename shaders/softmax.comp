#version 450
// SOFTMAX and LOG_SOFTMAX along any axis, in passes. PASS_STATISTICS finds each slice's largest element and the sum of
// its exponentials. For parts of a long slice, PASS_COMBINE combines them. PASS_APPLY computes four consecutive
// elements of the output per invocation.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/along.glsl"
#include "include/indexing.glsl"
#include "include/math.glsl"
#include "include/slices.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool WIDE = false;    // a workgroup takes a slice, not an invocation
layout(constant_id = 4) const uint LOCAL = 64;
layout(constant_id = 5) const bool LOGARITHM = false;    // of a slice's sum, which is the kept value
layout(constant_id = 6) const bool NEGATED = false;      // beta is negative, as LOG_SOFTMAX has it
layout(constant_id = 7) const bool ALONG = false;        // a workgroup reads a slice by vec4s; `inner` is 1

#if defined(PASS_COMBINE)
READ_VIEW(0, Src, src, vec2)
#else
READS(0, Src, src)
#endif
#if defined(PASS_STATISTICS)
layout(set = 0, binding = 1) writeonly buffer Statistics { vec2 statistics[]; };
#elif defined(PASS_COMBINE)
layout(set = 0, binding = 1) writeonly buffer Combined { vec2 combined[]; };
#else
READ_VIEW(1, Statistics, statistics, vec2)
WRITES(2, Dst, dst)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
#if defined(PASS_COMBINE)
    uint combined_offset;
#else
    uint statistics_offset;
#endif
#ifdef PASS_APPLY
    uint dst_offset;
    uint elements;
#endif
    uint count;     // of slices, or of vec4s
#ifndef PASS_APPLY
    uint parts;     // of a slice
#endif
#ifdef PASS_STATISTICS
    uint part;      // elements of one of them
#endif
#ifndef PASS_COMBINE
    uint length;    // of a slice
    uint inner;     // elements from one of a slice to the next
#endif
#ifdef PASS_APPLY
    uint magic_inner;
    uint magic_length;
#endif
    float factor;   // the size of beta, times the input's scale where it is quantised
#if defined(DTYPE_Q8) && !defined(PASS_COMBINE)
    uint sign_mask;
#endif
};

#define LOWEST uintBitsToFloat(0xff800000u)    // minus infinity

#ifdef PASS_COMBINE

float load(uint at) { return src_at(src_offset / 2 + at).x; }
float weight(uint at) { return src_at(src_offset / 2 + at).y; }

#else

float load(uint at) {
    float loaded = float(LOAD(src, at));
    return NEGATED ? -loaded : loaded;
}

float weight(uint at) { return 1.0; }

#endif

#ifndef PASS_APPLY

#include "include/lanes.glsl"

#ifdef PASS_STATISTICS
const uint AT_ONCE = 4;    // vec4s, because loads take long

// A vec4, with a value for the elements that are not of the slice.
vec4 load4(Along own, uint number, float other) {
    vec4 loaded = vec4(LOAD4(src, own.first + min(number, own.vec4s - 1)));
    return mix(vec4(other), NEGATED ? -loaded : loaded, are_own(own, number));
}

float largest_along(Along own, uint lane) {
    vec4 largest = vec4(LOWEST);
    for (uint k = lane; k < own.vec4s; k += AT_ONCE * LOCAL) {
        vec4 some[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = load4(own, k + j * LOCAL, LOWEST);
        largest = max(max(max(some[0], some[1]), max(some[2], some[3])), largest);
    }
    return max(max(largest.x, largest.y), max(largest.z, largest.w));
}

float sum_along(Along own, uint lane, float about) {
    vec4 sum = vec4(0.0);
    for (uint k = lane; k < own.vec4s; k += AT_ONCE * LOCAL) {
        vec4 some[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = (load4(own, k + j * LOCAL, about) - about) * factor;
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
            if (k + j * LOCAL < own.vec4s) {    // exponentials take long, too
                vec4 power = vec4(exact_exp(some[j].x), exact_exp(some[j].y), exact_exp(some[j].z), exact_exp(some[j].w));
                sum += mix(vec4(0.0), power, are_own(own, k + j * LOCAL));
            }
        }
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}
#endif

void main() {
    uint item = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    uint lane = WIDE ? gl_LocalInvocationID.x : 0, lanes = WIDE ? LOCAL : 1;
    // With WIDE, whole workgroups return here, so that the barriers below are uniform.
#ifdef PASS_STATISTICS
    if (item >= count * parts) return;
    uint slice = item / parts;
    uint start = slice_start(slice, length, inner);
    uint first = item % parts * part;
    uint end = min(first + part, length), stride = inner;
#else
    if (item >= count) return;
    uint start = item * parts, first = 0, end = parts, stride = 1;
#endif
#ifdef PASS_STATISTICS
    Along own = along(start + first, end - first);
#endif
    first += lane;

    float largest = LOWEST;
#ifdef PASS_STATISTICS
    if (ALONG) largest = largest_along(own, lane);
    else
#endif
        for (uint k = first; k < end; k += lanes) largest = max(largest, load(start + k * stride));
    if (WIDE) {
        OF_ALL_LANES(lane, largest, max)
        barrier();
    }

    float sum = 0.0;
    float about = largest == LOWEST ? 0.0 : largest;    // a part may be masked out by minus infinity altogether
#ifdef PASS_STATISTICS
    if (ALONG) sum = sum_along(own, lane, about);
    else
#endif
        for (uint k = first; k < end; k += lanes) {
            uint at = start + k * stride;
            sum += exact_exp((load(at) - about) * factor) * weight(at);
        }
    if (WIDE) {
        OF_ALL_LANES(lane, sum, sum_of)
    }
    vec2 found = vec2(largest, LOGARITHM ? exact_log(sum) : sum);
#ifdef PASS_STATISTICS
    if (lane == 0) statistics[statistics_offset / 2 + item] = found;
#else
    if (lane == 0) combined[combined_offset / 2 + item] = found;
#endif
}

#else

float apply(float x, vec2 of) {
    float shifted = ((NEGATED ? -x : x) - of.x) * factor;
#ifdef DTYPE_Q8
    return exact_exp(shifted) * quotient_of(1.0, of.y);    // rounded as by TensorFlow Lite's optimised kernel
#else
    return LOGARITHM ? shifted - of.y : quotient_of(exact_exp(shifted), of.y);
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 at = statistics_offset / 2 + slices_of_four(i, elements, Slicing(inner, length, uvec2(magic_inner, magic_length)));
    vec4 x = vec4(LOAD4(src, i));
    vec2 of = statistics_at(at.x), of_y = of, of_z = of, of_w = of;
    if (NEIGHBOURS != IN_ONE_SLICE) {
        of_y = statistics_at(at.y);
        of_z = statistics_at(at.z);
        of_w = statistics_at(at.w);
    }
    vec4 result = vec4(apply(x.x, of), apply(x.y, of_y), apply(x.z, of_z), apply(x.w, of_w));
#ifdef IS_FLOAT
    STORE4(dst, i, result);
#else
    // The output's scale is always 1 / 256, and its zero point the lowest value.
    STORE4(dst, i, min(ivec4(round_half_away(result * 256.0)), ivec4(255)));
#endif
}

#endif
