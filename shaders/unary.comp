#version 450
// Operations that map each float by itself; an invocation maps four.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/math.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Src { vec4 src[]; };
layout(set = 0, binding = 1) writeonly buffer Dst { vec4 dst[]; };

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;    // of vectors of four
    float low;     // of CLAMP
    float high;
};

float map(float x) {
#if defined(KIND_CLAMP)
    return isnan(x) ? x : min(max(x, low), high);
#elif defined(KIND_LOGISTIC)
    return exact_logistic(x);
#elif defined(KIND_TANH)
    return exact_tanh(x);
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    vec4 x = src[src_offset / 4 + i];
    dst[dst_offset / 4 + i] = vec4(map(x.x), map(x.y), map(x.z), map(x.w));
}
