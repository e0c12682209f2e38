#version 450
// Fill a dense tensor from a strided box of up to eight dimensions. TRANSPOSE, SLICE, SPACE_TO_DEPTH and similar
// operations use this shader. An invocation writes four consecutive elements.

#extension GL_GOOGLE_include_directive : require

#include "include/divide.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint RANK = 8;          // the number of dimensions
layout(constant_id = 4) const bool ROWS = false;      // the innermost dimension comes in whole vec4s
layout(constant_id = 5) const bool DENSE = false;     // and its vec4s are contiguous and aligned in the source

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s
    uint elements;
    uint first;       // element of the source; it and the strides wrap around where they are negative
    uint size_1;      // sizes except the outermost
    uint size_2;
    uint size_3;
    uint size_4;
    uint size_5;
    uint size_6;
    uint size_7;
    uint stride_0;
    uint stride_1;
    uint stride_2;
    uint stride_3;
    uint stride_4;
    uint stride_5;
    uint stride_6;
    uint stride_7;
    uint magic_7;
    uint magic_6;
    uint magic_5;
    uint magic_4;
    uint magic_3;
    uint magic_2;
    uint magic_1;
};

// Add one dimension's share of the index to the address, and leave the share of the outer dimensions in the index.
void take(uint size, uint stride, uint magic, inout uint index, inout uint address) {
    uint outer = divide(index, size, magic);
    address += (index - outer * size) * stride;
    index = outer;
}

uint locate(uint index) {
    uint address = first;
    if (RANK > 1) take(size_7, stride_7, magic_7, index, address);
    if (RANK > 2) take(size_6, stride_6, magic_6, index, address);
    if (RANK > 3) take(size_5, stride_5, magic_5, index, address);
    if (RANK > 4) take(size_4, stride_4, magic_4, index, address);
    if (RANK > 5) take(size_3, stride_3, magic_3, index, address);
    if (RANK > 6) take(size_2, stride_2, magic_2, index, address);
    if (RANK > 7) take(size_1, stride_1, magic_1, index, address);
    uint outermost = RANK > 7 ? stride_0 : RANK > 6 ? stride_1 : RANK > 5 ? stride_2 : RANK > 4 ? stride_3
        : RANK > 3 ? stride_4 : RANK > 2 ? stride_5 : RANK > 1 ? stride_6 : stride_7;
    return address + index * outermost;
}

uvec4 addresses(uint i) {
    if (ROWS) return locate(4 * i) + uvec4(0, 1, 2, 3) * stride_7;
    uint last = elements - 1;    // the last four may exceed the number of elements
    return uvec4(locate(4 * i), locate(min(4 * i + 1, last)), locate(min(4 * i + 2, last)), locate(min(4 * i + 3, last)));
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    if (DENSE) {
        STORE4(dst, i, LOAD4(src, locate(4 * i) / 4));
    } else {
        uvec4 at = addresses(i);
        STORE4(dst, i, GATHER4(src, at));
    }
}
