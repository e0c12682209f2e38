#version 450
// PAD and MIRROR_PAD: a box of up to six dimensions surrounded by a constant value, or by its mirrored elements. An
// invocation writes four consecutive elements of the output.

#extension GL_GOOGLE_include_directive : require

#include "include/divide.glsl"
#include "include/indexing.glsl"
#include "include/tensors.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint RANK = 6;         // the number of dimensions
layout(constant_id = 4) const bool ROWS = false;     // four elements are neighbours in the source too, or all outside
layout(constant_id = 5) const uint MODE = 0;         // around the box

const uint CONSTANT = 0, REFLECT = 1, SYMMETRIC = 2;

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;       // of vec4s
    uint elements;    // of the output
    uint value;       // around the box
    uint out_1;       // sizes of the output except the outermost
    uint out_2;
    uint out_3;
    uint out_4;
    uint out_5;
    uint in_0;        // sizes of the box
    uint in_1;
    uint in_2;
    uint in_3;
    uint in_4;
    uint in_5;
    uint before_0;    // elements before it
    uint before_1;
    uint before_2;
    uint before_3;
    uint before_4;
    uint before_5;
    uint magic_1;
    uint magic_2;
    uint magic_3;
    uint magic_4;
    uint magic_5;
};

const uint OUTSIDE = 0xffffffffu;

// The position in the box for a position in the output, along one dimension.
uint inside(uint at, uint before, uint size) {
    int place = int(at - before);
    if (MODE == REFLECT) {
        place = abs(place);
        place = min(place, 2 * int(size - 1) - place);
    } else if (MODE == SYMMETRIC) {
        place = place < 0 ? -1 - place : place;
        place = min(place, 2 * int(size) - 1 - place);
    }
    return uint(place);
}

// Add one dimension's share of the index to the address, and leave the share of the outer dimensions in the index.
void take(uint at, uint before, uint size, inout uint stride, inout uint address, inout bool is_inside) {
    uint place = inside(at, before, size);
    is_inside = is_inside && place < size;
    address += place * stride;
    stride *= size;
}

#define TAKE(axis)                                                                              \
    if (RANK > 6 - axis) {                                                                      \
        uint outer = divide(index, out_##axis, magic_##axis);                              \
        take(index - outer * out_##axis, before_##axis, in_##axis, stride, address, is_inside); \
        index = outer;                                                                          \
    }

// The address in the source of an element of the output.
uint locate(uint index) {
    uint address = 0, stride = 1;
    bool is_inside = true;
    TAKE(5)
    TAKE(4)
    TAKE(3)
    TAKE(2)
    TAKE(1)
    uint before = RANK == 6 ? before_0 : RANK == 5 ? before_1 : RANK == 4 ? before_2
        : RANK == 3 ? before_3 : RANK == 2 ? before_4 : before_5;
    uint size = RANK == 6 ? in_0 : RANK == 5 ? in_1 : RANK == 4 ? in_2 : RANK == 3 ? in_3 : RANK == 2 ? in_4 : in_5;
    take(index, before, size, stride, address, is_inside);
    return is_inside ? address : OUTSIDE;
}

uint load(uint index) {
    uint at = locate(min(index, elements - 1));    // the last four may exceed the number of elements
    return at == OUTSIDE ? value : LOAD(src, at);
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    uvec4 result;
    if (ROWS) {
        uint at = locate(4 * i);
        result = at == OUTSIDE ? uvec4(value) : LOAD4(src, at / 4);
    } else {
        result = uvec4(load(4 * i), load(4 * i + 1), load(4 * i + 2), load(4 * i + 3));
    }
    STORE4(dst, i, result);
}
