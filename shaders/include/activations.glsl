// The activations of recurrent operations: the limits of fused activations, tanh and the logistic function. Include
// this after the specialisation constant ACTIVATION and the push constants low and high.

#ifndef NNVK_ACTIVATIONS_GLSL
#define NNVK_ACTIVATIONS_GLSL

#include "activation.glsl"
#include "math.glsl"

// NNAPI's numbers; all other activations are limits.
const uint TANH = 4u;
const uint LOGISTIC = 6u;

float activation(float x) {
    if (ACTIVATION == TANH) return exact_tanh(x);
    if (ACTIVATION == LOGISTIC) return exact_logistic(x);
    return activate(x, low, high);
}

vec4 activation(vec4 x) { return vec4(activation(x.x), activation(x.y), activation(x.z), activation(x.w)); }

#endif
