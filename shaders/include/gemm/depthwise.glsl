// TILE_DEPTHWISE is TILE_SHARED behind a depthwise convolution: the input of a 1 x 1 convolution is computed, not loaded.

#ifndef NNVK_GEMM_DEPTHWISE_GLSL
#define NNVK_GEMM_DEPTHWISE_GLSL

#include "shared.glsl"

#endif
