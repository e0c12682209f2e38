#version 450
// Round rows of floats to 8 bits, as TensorFlow Lite's hybrid kernels round activations. Each row has its own scale,
// and with KIND_ASYMMETRIC its own zero point, which follow from its smallest and largest element. The results are the
// real numbers that the 8-bit values represent. Every operation is rounded as in a separate dispatch.
//
// A workgroup handles at most PART elements of a row. For longer rows, PASS_EXTREMES finds the extremes of the parts
// before.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/tensors.glsl"
#include "include/extremes.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint LOCAL = 64;
layout(constant_id = 4) const bool ALONE = true;    // rows have one part

const uint PART = 4096;

READS(0, Src, src)
#ifdef PASS_EXTREMES
layout(set = 0, binding = 1) writeonly buffer Extremes { vec2 extremes[]; };    // of each part
#else
READ_VIEW(1, Extremes, extremes, vec2)
WRITES(2, Dst, dst)
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint extremes_offset;
#ifdef PASS_ROUND
    uint dst_offset;
#endif
    uint rows;
    uint length;    // of a row
    uint parts;     // of a row
};

#define LANES_VALUE vec2
#include "include/lanes.glsl"

// The smallest and the largest number; with KIND_SYMMETRIC both are the largest magnitude.
vec2 extended(vec2 known, vec2 more) { return vec2(smaller(known.x, more.x), larger(known.y, more.y)); }

vec2 entry(float x) {
#ifdef KIND_SYMMETRIC
    return vec2(abs(x));
#else
    return vec2(x);
#endif
}

// The extremes of all invocations.
vec2 together(vec2 found) {
    uint lane = gl_LocalInvocationID.x;
    OF_ALL_LANES(lane, found, extended)
    return found;
}

vec2 extremes_of_part(uint row, uint first, uint past) {
    vec2 found = entry(LOAD(src, row * length + first));
    for (uint at = first + gl_LocalInvocationID.x; at < past; at += LOCAL)
        found = extended(found, entry(LOAD(src, row * length + at)));
    return together(found);
}

#ifdef PASS_ROUND
const float SMALLEST = 1e-30;

// The nearest integer from -128 to 127, halves away from zero.
float whole(float x) { return is_nan(x) ? 127.0 : clamp(round_half_away(x), -128.0, 127.0); }

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
    uint row = group / parts, part = group - row * parts;
    uint first = part * PART, past = min(first + PART, length);
#ifdef PASS_EXTREMES
    vec2 found = extremes_of_part(row, first, past);
    if (gl_LocalInvocationID.x == 0) extremes[extremes_offset / 2 + group] = found;
#else
    vec2 found = ALONE ? extremes_of_part(row, first, past) : extremes_of_row(row);
#ifdef KIND_SYMMETRIC
    float extent = larger(found.y, SMALLEST);
    float inverse = 127.0 / extent, scale = extent / 127.0;
#else
    float high = larger(found.y, 0.0), low = smaller(found.x, 0.0);
    float difference = high - low;
    float extent = larger(difference, SMALLEST);
    float inverse = 255.0 / extent, scale = extent / 255.0;
    float shift = low * inverse;
    float moved = -128.0 - shift;
    float zero = whole(moved);
#endif
    for (uint at = first + gl_LocalInvocationID.x; at < past; at += LOCAL) {
        float scaled = LOAD(src, row * length + at) * inverse;
#ifdef KIND_SYMMETRIC
        float level = whole(scaled);
#else
        float placed = scaled + zero;
        float level = whole(placed) - zero;
#endif
        float result = level * scale;
        dst[dst_offset + row * length + at] = result;
    }
#endif
}
