#version 450
// Layer normalisation, which models compose of ten operations: subtract the mean of a row, divide by the deviation,
// multiply by weights and add a bias. Without CENTRED, the row is only divided by the root of its mean square. A
// workgroup or an invocation handles a row. It keeps the row in registers if an invocation has few vec4s of it.
// Otherwise it reads the row three times, the second and third time from a cache. Weights and bias have 32 bits.
// Results with 16 bits (in whole vec4s) do not exceed their range.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#if defined(SRC_F16)
#define DTYPE_F16
#else
#define DTYPE_F32
#endif

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint LOCAL = 64;
layout(constant_id = 9) const bool WIDE = true;      // a workgroup takes a row, not an invocation
layout(constant_id = 4) const bool CENTRED = true;
layout(constant_id = 5) const bool WEIGHTED = true;
layout(constant_id = 6) const bool BIASED = true;
layout(constant_id = 7) const bool ROOT = false;     // divided by a root, not multiplied by an inverse one
layout(constant_id = 8) const bool VEC4S = true;     // a row is whole vec4s
const uint MAX_VEC4S = 4;
// The vec4s of a row that an invocation has. With more than MAX_VEC4S they are not kept in registers.
layout(constant_id = 10) const uint OWN_VEC4S = MAX_VEC4S + 1;

READS(0, Src, src)
READ_VIEW(1, Weights, weights, float)
READ_VIEW(1, Weights_Fours, weights_vec4s, vec4)
READ_VIEW(2, Bias, bias, float)
READ_VIEW(2, Bias_Fours, bias_vec4s, vec4)
#ifdef DST_F16
layout(set = 0, binding = 3) writeonly buffer Dst { uvec2 dst_vec4s[]; };
#else
layout(set = 0, binding = 3) writeonly buffer Dst { float dst[]; };
layout(set = 0, binding = 3) writeonly buffer Dst_Fours { vec4 dst_vec4s[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint weights_offset;
    uint bias_offset;
    uint dst_offset;
    uint rows;
    uint length;    // of a row
    float epsilon;
};

#include "include/lanes.glsl"

const uint BLOCK = 32;

// The number of an invocation among those that share a row: a single one, or the whole workgroup.
uint lane() { return WIDE ? gl_LocalInvocationID.x : 0; }
uint lanes() { return WIDE ? LOCAL : 1; }

// The sum over all invocations that share a row.
float total(float found) {
    if (!WIDE) return found;
    uint own = gl_LocalInvocationID.x;
    barrier();
    OF_ALL_LANES(own, found, sum_of)
    return found;
}

float sum_of_four(vec4 four) { return (four.x + four.y) + (four.z + four.w); }

// The sum of the elements of a row, or of the squares of their differences from `less`. Sums of short sums are more
// exact than one long sum.
float sum_of(uint first, float less, bool squares) {
    float sum = 0.0;
    if (VEC4S) {
        for (uint k = lane(); k < length / 4;) {
            vec4 block = vec4(0.0);
            for (uint stop = min(k + BLOCK * lanes(), length / 4); k < stop; k += lanes()) {
                vec4 x = LOAD4(src, first / 4 + k) - less;
                block += squares ? x * x : x;
            }
            sum += sum_of_four(block);
        }
    } else {
        for (uint k = lane(); k < length;) {
            float block = 0.0;
            for (uint stop = min(k + BLOCK * lanes(), length); k < stop; k += lanes()) {
                float x = LOAD(src, first + k) - less;
                block += squares ? x * x : x;
            }
            sum += block;
        }
    }
    return total(sum);
}

void store4(uint four, vec4 x) {
#ifdef DST_F16
    dst_vec4s[dst_offset / 2u + four] = pack_float16(within_float16(x));
#else
    dst_vec4s[dst_offset / 4u + four] = x;
#endif
}

void store(uint at, float x) {
#ifndef DST_F16    // rows of which are VEC4S
    dst[dst_offset + at] = x;
#endif
}

// The factor of elements, or with ROOT their divisor.
float factor_of(float squares) {
    float variance = squares / float(length) + epsilon;
    return ROOT ? sqrt(variance) : inversesqrt(variance);
}

void finish4(uint first, uint k, vec4 x, float factor) {
    x = ROOT ? x / factor : x * factor;
    if (WEIGHTED) x *= weights_vec4s_at(weights_offset / 4u + k);
    if (BIASED) x += bias_vec4s_at(bias_offset / 4u + k);
    store4(first / 4 + k, x);
}

void through_registers(uint first) {
    vec4 held[MAX_VEC4S], sums = vec4(0.0), squares = vec4(0.0);
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        uint k = lane() + i * lanes();
        held[i] = vec4(0.0);
        if (k < length / 4) held[i] = LOAD4(src, first / 4 + k);
        sums += held[i];
    }
    float mean = CENTRED ? total(sum_of_four(sums)) / float(length) : 0.0;
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        held[i] -= mean;
        if (lane() + i * lanes() < length / 4) squares += held[i] * held[i];
    }
    float factor = factor_of(total(sum_of_four(squares)));
    [[unroll]] for (uint i = 0; i < OWN_VEC4S; i++) {
        uint k = lane() + i * lanes();
        if (k < length / 4) finish4(first, k, held[i], factor);
    }
}

void through_memory(uint first) {
    float mean = CENTRED ? sum_of(first, 0.0, false) / float(length) : 0.0;
    float factor = factor_of(sum_of(first, mean, true));
    if (VEC4S) {
        for (uint k = lane(); k < length / 4; k += lanes()) finish4(first, k, LOAD4(src, first / 4 + k) - mean, factor);
    } else {
        for (uint k = lane(); k < length; k += lanes()) {
            float x = LOAD(src, first + k) - mean;
            x = ROOT ? x / factor : x * factor;
            if (WEIGHTED) x *= weights_at(weights_offset + k);
            if (BIASED) x += bias_at(bias_offset + k);
            store(first + k, x);
        }
    }
}

void main() {
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : flat_invocation();
    if (row >= rows) return;    // whole workgroups where WIDE, so that the barriers are uniform
    if (OWN_VEC4S <= MAX_VEC4S) through_registers(row * length);
    else through_memory(row * length);
}
