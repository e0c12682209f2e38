// Weights of bytes, less their zero point, as floats of 16 or 32 bits, for GPUs whose compilers take several instructions
// for a byte (lowering/gemm/half_weights.py).

#ifndef NNVK_HALF_WEIGHTS_GLSL
#define NNVK_HALF_WEIGHTS_GLSL

#include "quant.glsl"

layout(constant_id = 53) const bool HALF_WEIGHTS = false;
// They are the high halves of 32-bit floats, which have these numbers, too.
layout(constant_id = 55) const bool HIGH_WORDS = false;
// They are whole 32-bit floats.
layout(constant_id = 62) const bool WHOLE_FLOATS = false;

vec4 unpack_weights(uvec2 words) {
    return HIGH_WORDS ? uintBitsToFloat(uvec4(words << 16, words & 0xffff0000u)).xzyw : unpack_float16(words);
}

#endif
