// TILE_QUADS is TILE_REGISTER with loads that the invocations of a quad share.

#extension GL_KHR_shader_subgroup_quad : require

#include "register.glsl"
