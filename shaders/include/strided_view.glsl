// Strided views: tensors that are column ranges of larger tensors. Include this after the push constants `row`, the
// vec4s of a row, and `magic_row`, which divides by it.

#ifndef NNVK_STRIDED_VIEW_GLSL
#define NNVK_STRIDED_VIEW_GLSL

#include "divide.glsl"

layout(constant_id = 2) const bool STRIDED = false;    // at least one tensor is a strided view

// The address of a vec4 in a tensor whose rows are `pitch` vec4s apart.
uint vec4_within(uint i, uint pitch) { return STRIDED ? i + divide(i, row, magic_row) * (pitch - row) : i; }

#endif
