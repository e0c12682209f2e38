// Slices of a tensor along an axis, or along neighbouring axes. A slice is `length` elements at a distance of `inner`;
// slices are numbered in the order of their first elements. lowering/reductions/slices.py is the host's side.

#ifndef NNVK_SLICES_GLSL
#define NNVK_SLICES_GLSL

#include "divide.glsl"

// The relation of four consecutive elements: in one slice, or in four.
layout(constant_id = 10) const uint NEIGHBOURS = 1;

const uint ANYWHERE = 1;
const uint IN_FOUR_SLICES = 2;    // in as many, side by side
const uint IN_ONE_SLICE = 3;

// The sizes of slices, and the magic numbers to divide by both.
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

// The slices of elements 4 i to 4 i + 3; elements past the end count as the last one.
uvec4 slices_of_four(uint i, uint elements, Slicing of) {
    uint first = slice_of(4u * i, of), last = elements - 1u;
    if (NEIGHBOURS == IN_FOUR_SLICES) return first + uvec4(0u, 1u, 2u, 3u);
    if (NEIGHBOURS == IN_ONE_SLICE) return uvec4(first);
    return uvec4(first, slice_of(min(4u * i + 1u, last), of), slice_of(min(4u * i + 2u, last), of),
                 slice_of(min(4u * i + 3u, last), of));
}

// The address where a slice begins.
uint slice_start(uint slice, uint length, uint inner) {
    uint outer = slice / inner;
    return outer * length * inner + slice - outer * inner;
}

#endif
