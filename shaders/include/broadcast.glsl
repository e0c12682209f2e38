// Two tensors that broadcast to the shape of the output, all of them folded to four dimensions.

#ifndef NNVK_BROADCAST_GLSL
#define NNVK_BROADCAST_GLSL

// Where the operands of an element of the output are. `sizes` are the output's but for the outermost; strides are 0
// where a dimension is broadcast.
uvec2 broadcast(uint index, uvec3 sizes, uvec4 lhs_strides, uvec4 rhs_strides) {
    uint row = index / sizes.z;
    uint plane = row / sizes.y;
    uint outer = plane / sizes.x;
    uvec4 at = uvec4(outer, plane - outer * sizes.x, row - plane * sizes.y, index - row * sizes.z);
    uvec4 left = at * lhs_strides, right = at * rhs_strides;
    return uvec2(left.x + left.y + left.z + left.w, right.x + right.y + right.z + right.w);
}

#endif
