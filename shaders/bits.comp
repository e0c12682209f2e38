#version 450
// BITS and BITCAST: logic on the bits of 32-bit elements, shifts, and copies. An invocation computes four elements.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/texels.glsl"

layout(local_size_x_id = 0) in;

READ_VIEW(0, Src, src, ivec4)
#ifdef KIND_COPY
layout(set = 0, binding = 1) writeonly buffer Dst { ivec4 dst[]; };
#else
READ_VIEW(1, Other, other, ivec4)
layout(set = 0, binding = 2) writeonly buffer Dst { ivec4 dst[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
#ifndef KIND_COPY
    uint other_offset;
#endif
    uint dst_offset;
    uint count;    // of vec4s
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ivec4 a = src_at(src_offset / 4 + i);
#ifndef KIND_COPY
    ivec4 b = other_at(other_offset / 4 + i);
    uvec4 by = min(uvec4(b), uvec4(31u));
#endif
#if defined(KIND_AND)
    ivec4 result = a & b;
#elif defined(KIND_OR)
    ivec4 result = a | b;
#elif defined(KIND_XOR)
    ivec4 result = a ^ b;
#elif defined(KIND_LEFT)
    ivec4 result = mix(ivec4(uvec4(a) << by), ivec4(0), greaterThan(uvec4(b), uvec4(31u)));
#elif defined(KIND_RIGHT)
    ivec4 result = a >> ivec4(by);
#else
    ivec4 result = a;
#endif
    dst[dst_offset / 4 + i] = result;
}
