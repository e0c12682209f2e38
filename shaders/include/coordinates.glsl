// The flat coordinate that a row of indices selects: a row has an index for each of some axes, which together are one
// axis. The shader declares the tensors `indices` and `sizes` before, and the push constants indices_offset,
// sizes_offset, depth (axes) and first (number of the first axis).

#ifndef NNVK_COORDINATES_GLSL
#define NNVK_COORDINATES_GLSL

const uint NOWHERE = 0xffffffffu;

// NOWHERE if an index is out of range: `wrong` is then that index and its axis.
uint coordinate_of(uint row, inout ivec2 wrong) {
    uint coordinate = 0;
    bool is_nowhere = false;
    for (uint axis = 0; axis < depth; ++axis) {
        uvec2 size = sizes[sizes_offset / 2 + axis];
        int index = indices[indices_offset + row * depth + axis];
        uint at = uint(index) + (index < 0 ? size.x : 0u);
        bool is_outside = at >= size.x;
        wrong = is_outside ? ivec2(index, first + axis) : wrong;
        is_nowhere = is_nowhere || is_outside;
        coordinate += at * size.y;
    }
    return is_nowhere ? NOWHERE : coordinate;
}

#endif
