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
const uint VALUES = 1;    // of a tensor, in a word
#else
layout(set = 0, binding = 1) writeonly buffer Dst { uint dst[]; };
const uint VALUES = 4;
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

// Push constants are read before the first branch: past it, llvmpipe loads them lane by lane.
void main() {
    uint first = flat_invocation() * 4u;
    uint end = size;
    uvec3 inner = uvec3(height, width, depth);
    uvec4 strides = uvec4(stride_n, stride_y, stride_x, stride_c);
    uint last_depth = source_depth - 1u;
    uint from = src_offset * VALUES;
    uint to = (dst_offset * VALUES + first) >> 2;
    if (first >= end) return;
    uvec4 at = nhwc_coordinates(first, inner.x, inner.y, inner.z);    // n, y, x, c
    uvec4 values;
    [[unroll]] for (uint i = 0; i < 4u; i++) {
        uvec4 steps = uvec4(at.xyz, min(at.w, last_depth)) * strides;
        uint index = from + steps.x + steps.y + steps.z + steps.w;
#ifdef DTYPE_F32
        values[i] = src[index];
#else
        values[i] = uint(LOAD_BYTE(src, 0u, index, 0u));
#endif
        if (first + i + 1u >= end) break;
        at.w++;
        if (at.w == inner.z) at.zw = uvec2(at.z + 1u, 0u);
        if (at.z == inner.y) at.yz = uvec2(at.y + 1u, 0u);
        if (at.y == inner.x) at.xy = uvec2(at.x + 1u, 0u);
    }
#ifdef DTYPE_F32
    dst[to] = values;
#else
    dst[to] = pack_bytes(ivec4(values), 0u);
#endif
}
