#version 450
// Round rows of floats to 8 bits, as TensorFlow Lite's hybrid kernels round activations. Each row has its own scale,
// and with KIND_ASYMMETRIC its own zero point, which follow from its smallest and largest element. The results are the
// real numbers that the 8-bit values represent. Every operation is rounded as in a separate dispatch. With KIND_LEVELS
// the results are the levels less the zero point, scale and zero point: those of ONNX's DynamicQuantizeLinear.
//
// A workgroup handles a part of a row. If rows have several parts, PASS_EXTREMES finds the extremes of the parts before.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint LOCAL = 64;
layout(constant_id = 4) const bool ALONE = true;      // rows have one part
layout(constant_id = 5) const bool VECTORS = false;    // rows are read by vec4s, otherwise element by element

READS(0, Src, src)
#ifdef PASS_EXTREMES
layout(set = 0, binding = 1) writeonly buffer Extremes { vec2 extremes[]; };    // of each part
#else
READ_VIEW(1, Extremes, extremes, vec2)
WRITES(2, Dst, dst)
#endif
#if defined(PASS_ROUND) && defined(KIND_LEVELS)
WRITES(3, Scale, scale)
WRITES(4, Zero, zero)
#endif

// Lengths are counted in vec4s with VECTORS, otherwise in elements.
layout(push_constant) uniform Push {
    uint src_offset;
    uint extremes_offset;
#ifdef PASS_ROUND
    uint dst_offset;
#ifdef KIND_LEVELS
    uint scale_offset;
    uint zero_offset;
#endif
#endif
    uint rows;
    uint length;    // of a row
    uint parts;     // of a row
    uint part;      // the length of one of them
};

const uint AT_ONCE = 4;    // loads of an invocation, because loads take long

#define LANES_VALUE vec2
#include "include/lanes.glsl"

// The smallest and the largest number; with KIND_SYMMETRIC both are the largest magnitude.
vec2 extended(vec2 known, vec2 more) { return vec2(smaller(known.x, more.x), larger(known.y, more.y)); }

// A vec4, or four times the same element.
vec4 load(uint at) { return VECTORS ? LOAD4(src, at) : vec4(LOAD(src, at)); }

vec4 entry(vec4 x) {
#ifdef KIND_SYMMETRIC
    return abs(x);
#else
    return x;
#endif
}

// The extremes of all invocations.
vec2 together(vec2 found) {
    uint lane = gl_LocalInvocationID.x;
    OF_ALL_LANES(lane, found, extended)
    return found;
}

vec2 extremes_of_part(uint first, uint past) {
    vec4 low = entry(load(first)), high = low;
    for (uint at = first + gl_LocalInvocationID.x; at < past; at += AT_ONCE * LOCAL) {
        vec4 some[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = entry(load(min(at + j * LOCAL, past - 1)));
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
            low = smaller(low, some[j]);
            high = larger(high, some[j]);
        }
    }
    if (!VECTORS) return together(vec2(low.x, high.x));
    return together(extended(extended(vec2(low.x, high.x), vec2(low.y, high.y)),
                             extended(vec2(low.z, high.z), vec2(low.w, high.w))));
}

#ifdef PASS_ROUND
const float SMALLEST = 1e-30;

// The nearest integers from -128 to 127, halves away from zero.
vec4 whole(vec4 x) { return without_negative_zero(mix(clamp(round_half_away(x), -128.0, 127.0), vec4(127.0), is_nan(x))); }

// From 0 to 255; NaN stays.
vec4 within(vec4 levels) { return smaller(larger(levels, vec4(0.0)), vec4(255.0)); }

vec2 extremes_of_row(uint row) {
    vec2 found = extremes_at(extremes_offset / 2 + row * parts);
    for (uint part = gl_LocalInvocationID.x; part < parts; part += LOCAL)
        found = extended(found, extremes_at(extremes_offset / 2 + row * parts + part));
    return together(found);
}
#endif

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (group >= rows * parts) return;
    uint row = group / parts, number = group - row * parts;
    uint first = row * length + number * part, past = row * length + min((number + 1) * part, length);
#ifdef PASS_EXTREMES
    vec2 found = extremes_of_part(first, past);
    if (gl_LocalInvocationID.x == 0) extremes[extremes_offset / 2 + group] = found;
#else
    vec2 found = ALONE ? extremes_of_part(first, past) : extremes_of_row(row);
    // The divisor is not a constant, so that compilers divide as in a separate dispatch.
    float unknown_zero = float(src_offset >> 31);
#ifdef KIND_SYMMETRIC
    float levels = 127.0 + unknown_zero, extent = larger(found.y, SMALLEST);
    float inverse = quotient_of(levels, extent), scale = quotient_of(extent, levels);
#else
    float high = larger(found.y, 0.0), low = smaller(found.x, 0.0);
    float difference = high - low;
    float levels = 255.0 + unknown_zero;
#ifdef KIND_LEVELS
    float quotient = quotient_of(difference, levels), unit = quotient == 0.0 ? 1.0 : quotient;
    float point = within(roundEven(vec4(quotient_of(-low, unit)))).x;
    if (gl_LocalInvocationID.x == 0 && number == 0) {
        scale[scale_offset + row] = unit;
        zero[zero_offset + row] = point;
    }
#else
    float extent = larger(difference, SMALLEST);
    float inverse = quotient_of(levels, extent), scale = quotient_of(extent, levels);
    float shift = low * inverse;
    float moved = -128.0 - shift;
    float zero = whole(vec4(moved)).x;
#endif
#endif
    for (uint at = first + gl_LocalInvocationID.x; at < past; at += AT_ONCE * LOCAL) {
        vec4 some[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) some[j] = load(min(at + j * LOCAL, past - 1));
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
#ifdef KIND_LEVELS
            vec4 result = within(roundEven(quotient_of(some[j], vec4(unit))) + point) - point;
#else
            vec4 scaled = some[j] * inverse;
#ifdef KIND_SYMMETRIC
            vec4 level = whole(scaled);
#else
            vec4 placed = scaled + zero;
            vec4 level = whole(placed) - zero;
#endif
            vec4 result = level * scale;
#endif
            uint target = at + j * LOCAL;
            if (VECTORS && target < past) STORE4(dst, target, result);
            if (!VECTORS && target < past) dst[dst_offset + target] = result.x;
        }
    }
#endif
}
