#version 450
// Operations that map each number separately. An invocation maps four numbers.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"
#include "include/activation.glsl"
#include "include/hyperbolic.glsl"

layout(local_size_x_id = 0) in;

READS(0, Src, src)
WRITES(1, Dst, dst)

layout(push_constant) uniform Push {
    uint src_offset;
    uint dst_offset;
    uint count;    // of vectors of four
    uint row;          // vec4s of a row, where tensors are COLUMNS,
    uint magic_row;
    uint src_pitch;    // and from a row to the next
    uint dst_pitch;
    float low;     // of CLAMP; of ELU the factor of the negative part; of SWISH alpha
    float high;
};

#include "include/strided_view.glsl"

ACC map(ACC x) {
#if defined(KIND_ABS)
    return abs(x);
#elif defined(KIND_ACOS)
    return exact_acos(x);
#elif defined(KIND_ACOSH)
    return exact_acosh(x);
#elif defined(KIND_ASIN)
    return exact_asin(x);
#elif defined(KIND_ASINH)
    return exact_asinh(x);
#elif defined(KIND_ATAN)
    return exact_atan(x);
#elif defined(KIND_ATANH)
    return exact_atanh(x);
#elif defined(KIND_CBRT)
    return exact_cbrt(x);
#elif defined(KIND_CLAMP)
    return activate(x, low, high);
#elif defined(KIND_COS)
    return exact_cos(x);
#elif defined(KIND_COSH)
    return exact_cosh(x);
#elif defined(KIND_ELU)
    return elu(x, low);
#elif defined(KIND_ERF)
    return exact_erf(x);
#elif defined(KIND_EXP)
    return exact_exp(x);
#elif defined(KIND_FLOOR)
    return floor(x);
#elif defined(KIND_GELU)
    return gelu(x);
#elif defined(KIND_GELU_BY_TANH)
    return gelu_by_tanh(x);
#elif defined(KIND_HARD_SWISH)
    return hard_swish(x);
#elif defined(KIND_LOG)
    return exact_log(x);
#elif defined(KIND_LOGISTIC)
    return exact_logistic(x);
#elif defined(KIND_MISH)
    return mish(x);
#elif defined(KIND_NEG)
    return -x;
#elif defined(KIND_RSQRT)
    return inverse_square_root(x);
#elif defined(KIND_SIN)
    return exact_sin(x);
#elif defined(KIND_SINH)
    return exact_sinh(x);
#elif defined(KIND_SOFTPLUS)
    return softplus(x);
#elif defined(KIND_SQRT)
    return square_root(x);
#elif defined(KIND_SWISH)
    return swish(x, low);
#elif defined(KIND_TAN)
    return exact_tan(x);
#elif defined(KIND_TANH)
    return exact_tanh(x);
#endif
}

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 x = LOAD4(src, vec4_within(i, src_pitch));
    STORE4(dst, vec4_within(i, dst_pitch), ACC4(map(x.x), map(x.y), map(x.z), map(x.w)));
}
