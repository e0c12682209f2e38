// Fused activations. The host converts NNAPI's FuseCode to the two limits of a range: floats for float tensors (-inf
// and inf for NONE, 0 and inf for RELU, -1 and 1 for RELU1, 0 and 6 for RELU6), quantised values for quantised tensors
// (at least 0 and at most 255; 128 is added for signed tensors). NaN stays NaN.

#ifndef NNVK_ACTIVATION_GLSL
#define NNVK_ACTIVATION_GLSL

#include "extremes.glsl"
#include "reproducible.glsl"

float activate(float x, float low, float high) {
    if (REPRODUCIBLE) return smaller(larger(x, low), high);
    return is_nan(x) ? x : min(max(x, low), high);
}
vec4 activate(vec4 x, float low, float high) {
    if (REPRODUCIBLE) return smaller(larger(x, vec4(low)), vec4(high));
    return mix(min(max(x, vec4(low)), vec4(high)), x, is_nan(x));
}

// The same with fewer instructions, for compilers that keep comparisons with NaN false.
vec4 activate_by_comparisons(vec4 x, float low, float high) {
    x = mix(x, vec4(low), lessThan(x, vec4(low)));
    return mix(x, vec4(high), greaterThan(x, vec4(high)));
}

int activate(int x, int low, int high) { return min(max(x, low), high); }
ivec4 activate(ivec4 x, int low, int high) { return min(max(x, ivec4(low)), ivec4(high)); }

#endif
