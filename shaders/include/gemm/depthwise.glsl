// TILE_DEPTHWISE is TILE_SHARED behind a depthwise convolution: the input of a 1 x 1 convolution is computed, not loaded.

#include "shared.glsl"
