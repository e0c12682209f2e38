// The larger and the smaller of two numbers, or NaN if one of them is NaN. GLSL's max and min may return the other
// number then.

#ifndef NNVK_EXTREMES_GLSL
#define NNVK_EXTREMES_GLSL

#include "special_values.glsl"

float larger(float a, float b) { return a > b || is_nan(a) ? a : b; }
float smaller(float a, float b) { return a < b || is_nan(a) ? a : b; }
int larger(int a, int b) { return max(a, b); }
int smaller(int a, int b) { return min(a, b); }

vec4 larger(vec4 a, vec4 b) { return mix(b, a, bvec4(uvec4(greaterThan(a, b)) | uvec4(is_nan(a)))); }
vec4 smaller(vec4 a, vec4 b) { return mix(b, a, bvec4(uvec4(lessThan(a, b)) | uvec4(is_nan(a)))); }
ivec4 larger(ivec4 a, ivec4 b) { return max(a, b); }
ivec4 smaller(ivec4 a, ivec4 b) { return min(a, b); }

#endif
