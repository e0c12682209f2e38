// Elementwise operations by number, so that several of them can be fused in one shader. Each operation gives the same
// bits as in a separate shader, unary.comp or binary.comp: it is rounded to the tensors' type as if it had been stored.
// nnvk/ops/traits.py has the numbers. Specialisation constants select the operations, so no branch is left.

#ifndef NNVK_ELEMENTWISE_GLSL
#define NNVK_ELEMENTWISE_GLSL

#include "circular.glsl"
#include "extremes.glsl"
#include "tensors.glsl"

const uint ADD = 1, SUB = 2, MUL = 3, DIV = 4, MAXIMUM = 5, MINIMUM = 6, PRELU = 7, AT_LEAST = 8, AT_MOST = 9, ABS = 10,
           NEG = 11, FLOOR = 12, EXP = 13, ELU = 14, HARD_SWISH = 15, LOG = 16, LOGISTIC = 17, RSQRT = 18, SIN = 19,
           SQRT = 20, TANH = 21, ERF = 22, GELU = 23, GELU_BY_TANH = 24, SATURATE = 25,
           COS = 26, MISH = 27, SOFTPLUS = 28, SWISH = 29;
const uint OPEN = 64;    // is added if a fused activation follows, because its limits apply before rounding

#define EACH(function, four) vec4(function((four).x), function((four).y), function((four).z), function((four).w))

float elu(float x, float factor) { return is_nan(x) || x >= 0.0 ? x : min(factor * exact_expm1(x), 0.0); }

// Run an instruction: an operation, plus OPEN if a fused activation follows.
#define APPLY(instruction, a, b) apply((instruction) & (OPEN - 1u), (instruction) < OPEN, a, b)

// The result of an operation on a, and on b if it has two operands. The limits of a fused activation are operations
// too.
vec4 apply(uint operation, bool is_rounded, vec4 a, vec4 b) {
    vec4 result = a;
    if (operation == ADD) result = a + b;
    if (operation == SUB) result = a - b;
    if (operation == MUL) result = a * b;
    if (operation == DIV) result = a / b;
    if (operation == MAXIMUM) result = larger(a, b);
    if (operation == MINIMUM) result = smaller(a, b);
    if (operation == PRELU) result = mix(a, a * b, lessThan(a, vec4(0)));
    if (operation == AT_LEAST) result = mix(max(a, b), a, is_nan(a));
    if (operation == AT_MOST) result = mix(min(a, b), a, is_nan(a));
    if (operation == ABS) result = abs(a);
    if (operation == NEG) result = -a;
    if (operation == FLOOR) result = floor(a);
    if (operation == EXP) result = EACH(exact_exp, a);
    if (operation == ELU) result = vec4(elu(a.x, b.x), elu(a.y, b.y), elu(a.z, b.z), elu(a.w, b.w));
    if (operation == HARD_SWISH) result = EACH(hard_swish, a);
    if (operation == LOG) result = EACH(exact_log, a);
    if (operation == LOGISTIC) result = EACH(exact_logistic, a);
    if (operation == RSQRT) result = inversesqrt(a);
    if (operation == SIN) result = EACH(exact_sin, a);
    if (operation == SQRT) result = sqrt(a);
    if (operation == TANH) result = EACH(exact_tanh, a);
    if (operation == ERF) result = EACH(exact_erf, a);
    if (operation == GELU) result = EACH(gelu, a);
    if (operation == GELU_BY_TANH) result = EACH(gelu_by_tanh, a);
    if (operation == COS) result = EACH(exact_cos, a);
    if (operation == MISH) result = EACH(mish, a);
    if (operation == SOFTPLUS) result = EACH(softplus, a);
    if (operation == SWISH) result = vec4(swish(a.x, b.x), swish(a.y, b.y), swish(a.z, b.z), swish(a.w, b.w));
    if (operation == SATURATE) result = within_halves(a);
    if (is_rounded) result = ROUNDED(result);
    return result;
}

#endif
