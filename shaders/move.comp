#version 450
// Copy a box of up to five dimensions from one strided place to another. CONCATENATION, PAD, changes of layout and
// similar operations use this shader. An invocation moves four elements that are neighbours in the innermost dimension.

#extension GL_GOOGLE_include_directive : require

#include "include/divide.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const bool DENSE = true;    // the innermost dimension is contiguous and in whole vec4s, in both

READS(0, Src, src)
CHANGES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s
    uint runs;        // vec4s in the innermost dimension
    uint size_1;      // sizes except the outermost
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
    uint magic_runs;
    uint magic_3;
    uint magic_2;
    uint magic_1;
};

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uint row = divide(i, runs, magic_runs), plane = divide(row, size_3, magic_3);
    uint volume = divide(plane, size_2, magic_2), d0 = divide(volume, size_1, magic_1);
    uint x = (i - row * runs) * 4, d3 = row - plane * size_3, d2 = plane - volume * size_2, d1 = volume - d0 * size_1;
    uint from = src_first + d0 * src_stride_0 + d1 * src_stride_1 + d2 * src_stride_2 + d3 * src_stride_3 + x * src_stride_4;
    uint to = dst_first + d0 * dst_stride_0 + d1 * dst_stride_1 + d2 * dst_stride_2 + d3 * dst_stride_3 + x * dst_stride_4;
    if (DENSE) {
        STORE4(dst, to / 4, LOAD4(src, from / 4));
    } else {
        for (uint k = 0; k < min(4u, size_4 - x); ++k) STORE(dst, to + k * dst_stride_4, LOAD(src, from + k * src_stride_4));
    }
}
