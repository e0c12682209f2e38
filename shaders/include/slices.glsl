// Slices of a tensor: what lies along an axis, or along neighbouring ones. A slice is `length` elements that are `inner`
// apart; slices are numbered in the order of their first elements. lowering/slices.py is the host's side.

#ifndef NNVK_SLICES_GLSL
#define NNVK_SLICES_GLSL

#include "divide.glsl"

// Where four consecutive elements lie.
layout(constant_id = 10) const uint NEIGHBOURS = 1;

const uint ANYWHERE = 1;
const uint IN_FOUR_SLICES = 2;    // in as many, side by side
const uint IN_ONE_SLICE = 3;

// How elements lie in slices, and what to divide by both sizes with.
struct Slicing {
    uint inner;
    uint extent;    // their length
    uvec2 magics;
};

// The slice of an element.
uint slice_of(uint index, Slicing of) {
    uint line = divide(index, of.inner, of.magics.x);
    return divide(line, of.extent, of.magics.y) * of.inner + index - line * of.inner;
}

// The slices of elements 4 i to 4 i + 3 of so many; those past the last count as the last.
uvec4 slices_of_four(uint i, uint elements, Slicing of) {
    uint first = slice_of(4u * i, of), last = elements - 1u;
    if (NEIGHBOURS == IN_FOUR_SLICES) return first + uvec4(0u, 1u, 2u, 3u);
    if (NEIGHBOURS == IN_ONE_SLICE) return uvec4(first);
    return uvec4(first, slice_of(min(4u * i + 1u, last), of), slice_of(min(4u * i + 2u, last), of),
                 slice_of(min(4u * i + 3u, last), of));
}

// Where a slice begins.
uint slice_start(uint slice, uint length, uint inner) {
    uint outer = slice / inner;
    return outer * length * inner + slice - outer * inner;
}

#endif
