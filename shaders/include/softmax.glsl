// Functions that shaders with a softmax share. Include math.glsl before this file.

#ifndef NNVK_SOFTMAX_GLSL
#define NNVK_SOFTMAX_GLSL

#define LOWEST uintBitsToFloat(0xff800000u)    // minus infinity

vec4 exact_exp4(vec4 x) { return vec4(exact_exp(x.x), exact_exp(x.y), exact_exp(x.z), exact_exp(x.w)); }
float sum_of_four(vec4 four) { return (four.x + four.y) + (four.z + four.w); }
float largest_of_four(vec4 four) { return max(max(four.x, four.y), max(four.z, four.w)); }

// The number to subtract before exp. A row may be masked out completely by minus infinity.
float about(float largest) { return largest == LOWEST ? 0.0 : largest; }

// Whether a row has shares: all of them are NaN where it is masked out completely, or has an infinite score.
bool has_shares(float sum) { return sum > 0.0 && !is_nan(sum); }

#endif
