#version 450
// A dense copy of a strided tensor of up to four dimensions: changes NCHW to NHWC and back, and adds or drops the
// padding of pixels to fours of channels. An invocation writes four consecutive elements.

#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "include/types.glsl"
#include "include/quant.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
#ifdef DTYPE_F32
layout(set = 0, binding = 1) writeonly buffer Dst { uvec4 dst[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint size;    // elements of the destination
    uint height;    // its dimensions but for the first
    uint width;
    uint depth;
    uint stride_n;    // elements from one index to the next in the source
    uint stride_y;
    uint stride_x;
    uint stride_c;
    uint source_depth;    // further indexes along the last dimension read its last element
};

void main() {
    uint first = flat_invocation() * 4u;
    if (first >= size) return;
    uvec4 at = nhwc_coordinates(first, height, width, depth);    // n, y, x, c
    uvec4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        uint from = at.x * stride_n + at.y * stride_y + at.z * stride_x + min(at.w, source_depth - 1u) * stride_c;
#ifdef DTYPE_F32
        values[i] = src[src_offset + from];
#else
        values[i] = uint(LOAD_BYTE(src, src_offset, from, 0u));
#endif
        if (first + i + 1u >= size) break;
        at.w++;
        if (at.w == depth) at.zw = uvec2(at.z + 1u, 0u);
        if (at.z == width) at.yz = uvec2(at.y + 1u, 0u);
        if (at.y == height) at.xy = uvec2(at.x + 1u, 0u);
    }
#ifdef DTYPE_F32
    dst[(dst_offset + first) >> 2] = values;
#else
    dst[dst_offset + (first >> 2)] = pack_bytes(ivec4(values), 0u);
#endif
}
