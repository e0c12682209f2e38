// Two tensors that broadcast to the shape of the output, all folded to four dimensions. Include this after
// tensors.glsl. lowering/elementwise/broadcast.py gives the specialisation constants and the push constants `size_1` to
// `magic_3` and `lhs_stride_0` to `rhs_stride_3`.

#ifndef NNVK_BROADCAST_GLSL
#define NNVK_BROADCAST_GLSL

#include "divide.glsl"

layout(constant_id = 3) const bool CONTIGUOUS = true;     // both tensors have the output's shape
layout(constant_id = 4) const bool ROWS = false;          // the innermost dimension comes in whole vec4s,
layout(constant_id = 5) const bool LHS_SPREAD = false;    // through which this tensor has one element
layout(constant_id = 6) const bool RHS_SPREAD = false;

// The addresses of the operands of an element of the output. `sizes` are the output's sizes except the outermost, and
// `magics` divide by them. Strides of broadcast dimensions are 0.
uvec2 broadcast(uint index, uvec3 sizes, uvec3 magics, uvec4 lhs_strides, uvec4 rhs_strides) {
    uint row = divide(index, sizes.z, magics.z);
    uint plane = divide(row, sizes.y, magics.y);
    uint outer = divide(plane, sizes.x, magics.x);
    uvec4 at = uvec4(outer, plane - outer * sizes.x, row - plane * sizes.y, index - row * sizes.z);
    uvec4 left = at * lhs_strides, right = at * rhs_strides;
    return uvec2(left.x + left.y + left.z + left.w, right.x + right.y + right.z + right.w);
}

// Set `left` and `right`, each an ACC4, to the operands of elements 4 i to 4 i + 3 of the output. Elements after the
// last one, `last`, are arbitrary.
#define LOAD_OPERANDS(i, last, left, right)                                                       \
    if (CONTIGUOUS) {                                                                             \
        left = LOAD4(lhs, i);                                                                     \
        right = LOAD4(rhs, i);                                                                    \
    } else if (ROWS) {                                                                            \
        uvec2 at = PLACES(4 * (i));                                                               \
        if (LHS_SPREAD) left = ACC4(LOAD(lhs, at.x)); else left = LOAD4(lhs, at.x / 4);           \
        if (RHS_SPREAD) right = ACC4(LOAD(rhs, at.y)); else right = LOAD4(rhs, at.y / 4);         \
    } else {                                                                                      \
        uvec4 each = min(4 * (i) + uvec4(0, 1, 2, 3), uvec4(last));                               \
        uvec2 a = PLACES(each.x), b = PLACES(each.y), c = PLACES(each.z), d = PLACES(each.w);     \
        left = GATHER4(lhs, uvec4(a.x, b.x, c.x, d.x));                                           \
        right = GATHER4(rhs, uvec4(a.y, b.y, c.y, d.y));                                          \
    }
#define PLACES(index)                                                                             \
    broadcast(index, uvec3(size_1, size_2, size_3), uvec3(magic_1, magic_2, magic_3),            \
              uvec4(lhs_stride_0, lhs_stride_1, lhs_stride_2, lhs_stride_3),                      \
              uvec4(rhs_stride_0, rhs_stride_1, rhs_stride_2, rhs_stride_3))

#endif
