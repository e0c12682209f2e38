// Tensors that are columns of larger ones: their rows lie amid larger rows. To be included after the push constants `row`,
// fours of a row, and `magic_row`, what to divide by it with.

#ifndef NNVK_COLUMNS_GLSL
#define NNVK_COLUMNS_GLSL

#include "divide.glsl"

layout(constant_id = 2) const bool COLUMNS = false;    // some tensor lies so

// Where a four of a tensor lies that has `pitch` fours from a row to the next.
uint four_amid(uint i, uint pitch) { return COLUMNS ? i + divide(i, row, magic_row) * (pitch - row) : i; }

#endif
