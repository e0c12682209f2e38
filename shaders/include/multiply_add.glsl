// a b + c, rounded once if the device has an instruction for it. Compilers contract operations nowhere else
// (tools/spirv_contraction.py), so sums of products request it here.

#ifndef NNVK_MULTIPLY_ADD_GLSL
#define NNVK_MULTIPLY_ADD_GLSL

#include "reproducible.glsl"

float multiply_add(float a, float b, float c) { return REPRODUCIBLE ? a * b + c : fma(a, b, c); }
vec4 multiply_add(vec4 a, vec4 b, vec4 c) { return REPRODUCIBLE ? a * b + c : fma(a, b, c); }
vec4 multiply_add(float a, vec4 b, vec4 c) { return multiply_add(vec4(a), b, c); }
int multiply_add(int a, int b, int c) { return a * b + c; }
ivec4 multiply_add(ivec4 a, ivec4 b, ivec4 c) { return a * b + c; }
ivec4 multiply_add(int a, ivec4 b, ivec4 c) { return a * b + c; }
#ifdef NATIVE_16
float16_t multiply_add(float16_t a, float16_t b, float16_t c) { return fma(a, b, c); }
f16vec4 multiply_add(f16vec4 a, f16vec4 b, f16vec4 c) { return fma(a, b, c); }
#endif

#endif
