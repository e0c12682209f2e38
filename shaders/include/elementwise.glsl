// Elementwise operations by number, so that several of them can be fused in one shader. Each operation gives the same
// bits as in a separate shader, unary.comp or binary.comp: it is rounded to the tensors' type as if it had been stored.
// nnvk/ops/traits.py has the numbers. Specialisation constants select the operations, so no branch is left.
//
// Define INSTRUCTION_BITS before, BIT_OF each instruction in one word. A driver gets no code of operations that do not
// occur (shaders/prune.py).

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

// Run an instruction: an operation, plus OPEN if a fused activation follows.
#define APPLY(instruction, a, b) apply((instruction) & (OPEN - 1u), (instruction) < OPEN, a, b)

// The bit of an instruction's operation. The bit for no operation stands for another one too, which does no harm.
#define BIT_OF(instruction) (1u << ((instruction) & 31u))
const uint OCCURRING = INSTRUCTION_BITS;
#define WHERE(kind) if ((OCCURRING & BIT_OF(kind)) != 0u) if (operation == kind)

// The result of an operation on a, and on b if it has two operands. The limits of a fused activation are operations
// too.
vec4 apply(uint operation, bool is_rounded, vec4 a, vec4 b) {
    vec4 result = a;
    WHERE(ADD) result = a + b;
    WHERE(SUB) result = a - b;
    WHERE(MUL) result = a * b;
    WHERE(DIV) result = quotient_of(a, b);
    WHERE(MAXIMUM) result = larger(a, b);
    WHERE(MINIMUM) result = smaller(a, b);
    WHERE(PRELU) result = mix(a, a * b, lessThan(a, vec4(0)));
    WHERE(AT_LEAST) result = REPRODUCIBLE ? larger(a, b) : mix(max(a, b), a, is_nan(a));
    WHERE(AT_MOST) result = REPRODUCIBLE ? smaller(a, b) : mix(min(a, b), a, is_nan(a));
    WHERE(ABS) result = abs(a);
    WHERE(NEG) result = -a;
    WHERE(FLOOR) result = floor(a);
    WHERE(EXP) result = EACH(exact_exp, a);
    WHERE(ELU) result = vec4(elu(a.x, b.x), elu(a.y, b.y), elu(a.z, b.z), elu(a.w, b.w));
    WHERE(HARD_SWISH) result = EACH(hard_swish, a);
    WHERE(LOG) result = EACH(exact_log, a);
    WHERE(LOGISTIC) result = EACH(exact_logistic, a);
    WHERE(RSQRT) result = inverse_square_root(a);
    WHERE(SIN) result = EACH(exact_sin, a);
    WHERE(SQRT) result = square_root(a);
    WHERE(TANH) result = EACH(exact_tanh, a);
    WHERE(ERF) result = EACH(exact_erf, a);
    WHERE(GELU) result = EACH(gelu, a);
    WHERE(GELU_BY_TANH) result = EACH(gelu_by_tanh, a);
    WHERE(COS) result = EACH(exact_cos, a);
    WHERE(MISH) result = EACH(mish, a);
    WHERE(SOFTPLUS) result = EACH(softplus, a);
    WHERE(SWISH) result = vec4(swish(a.x, b.x), swish(a.y, b.y), swish(a.z, b.z), swish(a.w, b.w));
    WHERE(SATURATE) result = within_float16(a);
    if (is_rounded) result = ROUNDED(result);
    return result;
}

#endif
