// Tests for NaN and infinities by their bits. If a device has no float control for such values, its compiler may treat
// isnan and isinf as always false.

#ifndef NNVK_SPECIAL_VALUES_GLSL
#define NNVK_SPECIAL_VALUES_GLSL

const uint MAGNITUDE = 0x7fffffffu, INFINITE = 0x7f800000u;

bool is_nan(float x) { return (floatBitsToUint(x) & MAGNITUDE) > INFINITE; }
bvec4 is_nan(vec4 x) { return greaterThan(floatBitsToUint(x) & MAGNITUDE, uvec4(INFINITE)); }
bool is_infinite(float x) { return (floatBitsToUint(x) & MAGNITUDE) == INFINITE; }

#endif
