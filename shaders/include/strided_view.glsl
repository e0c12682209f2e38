// Tensors that are columns of larger ones: their rows lie amid larger rows. To be included after the push constants `row`,
// vec4s of a row, and `magic_row`, what to divide by it with.

#ifndef NNVK_STRIDED_VIEW_GLSL
#define NNVK_STRIDED_VIEW_GLSL

#include "divide.glsl"

layout(constant_id = 2) const bool STRIDED = false;    // some tensor lies so

// Where a four of a tensor lies that has `pitch` vec4s from a row to the next.
uint vec4_within(uint i, uint pitch) { return STRIDED ? i + divide(i, row, magic_row) * (pitch - row) : i; }

#endif
