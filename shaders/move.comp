#version 450
// Copies a box of up to five dimensions from one strided place to another: what CONCATENATION, PAD, changes of layout
// and their like come down to. An invocation moves four elements that are neighbours in the innermost dimension.

#extension GL_GOOGLE_include_directive : require

#include "include/indexing.glsl"
#include "include/quant.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool DENSE = true;    // the innermost dimension is contiguous and in whole fours, in both

#ifdef DTYPE_F32
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 0) readonly buffer SrcVectors { uvec4 src_vectors[]; };
layout(set = 0, binding = 1) buffer Dst { uint dst[]; };
layout(set = 0, binding = 1) buffer DstVectors { uvec4 dst_vectors[]; };
#else
layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) buffer Dst { uint dst[]; };
#endif

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of fours
    uint runs;        // fours in the innermost dimension
    uint size_1;      // sizes but for the outermost
    uint size_2;
    uint size_3;
    uint size_4;
    uint src_first;    // elements
    uint src_stride_0;
    uint src_stride_1;
    uint src_stride_2;
    uint src_stride_3;
    uint src_stride_4;
    uint dst_first;
    uint dst_stride_0;
    uint dst_stride_1;
    uint dst_stride_2;
    uint dst_stride_3;
    uint dst_stride_4;
};

#ifdef DTYPE_F32

void move1(uint from, uint to) { dst[dst_offset + to] = src[src_offset + from]; }
void move4(uint from, uint to) { dst_vectors[(dst_offset + to) / 4] = src_vectors[(src_offset + from) / 4]; }

#else

// A word may hold bytes that other invocations write, so that a byte is replaced by atomic operations: each
// touches no bit but its own.
void move1(uint from, uint to) {
    uint shift = (to & 3u) << 3;
    uint value = uint(byte_of(src[src_offset + (from >> 2)], from));
    uint word = dst_offset + (to >> 2);
    atomicAnd(dst[word], ~(0xffu << shift));
    atomicOr(dst[word], value << shift);
}
void move4(uint from, uint to) { dst[dst_offset + to / 4] = src[src_offset + from / 4]; }

#endif

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint x = i % runs * 4;
    uint row = i / runs;
    uint d3 = row % size_3;
    row /= size_3;
    uint d2 = row % size_2;
    row /= size_2;
    uint d1 = row % size_1;
    uint d0 = row / size_1;
    uint from = src_first + d0 * src_stride_0 + d1 * src_stride_1 + d2 * src_stride_2 + d3 * src_stride_3 + x * src_stride_4;
    uint to = dst_first + d0 * dst_stride_0 + d1 * dst_stride_1 + d2 * dst_stride_2 + d3 * dst_stride_3 + x * dst_stride_4;
    if (DENSE) {
        move4(from, to);
    } else {
        for (uint k = 0; k < min(4u, size_4 - x); ++k) move1(from + k * src_stride_4, to + k * dst_stride_4);
    }
}
