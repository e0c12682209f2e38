// TILE_QUADS is TILE_REGISTER with loads that the invocations of a quad share.

#ifndef NNVK_GEMM_QUADS_GLSL
#define NNVK_GEMM_QUADS_GLSL

#extension GL_KHR_shader_subgroup_quad : require

#include "register.glsl"

#endif
