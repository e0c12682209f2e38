#version 450
// QUANTIZE (floats to bytes) and DEQUANTIZE (bytes to floats), four elements an invocation.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;

#ifdef KIND_QUANTIZE
layout(set = 0, binding = 0) readonly buffer Src { vec4 src[]; };
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
#else
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) writeonly buffer Dst { vec4 dst[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;    // of fours
    float scale;
    int zero;
    uint sign_mask;
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
#ifdef KIND_QUANTIZE
    // Bounded first: a float beyond the integers converts to anything.
    vec4 steps = round_half_away(src[src_offset / 4 + i] / scale);
    steps = mix(clamp(steps, -1024.0, 1024.0), vec4(1024.0), isnan(steps));
    dst[dst_offset + i] = pack_bytes(clamp(ivec4(steps) + zero, 0, 255), sign_mask);
#else
    dst[dst_offset / 4 + i] = vec4(unpack_bytes(src[src_offset + i], sign_mask) - zero) * scale;
#endif
}
