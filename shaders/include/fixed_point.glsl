// Fixed-point functions of 16-bit integers with the bits of nnvk/ops/fixed_point.py, which follows gemmlowp. A number
// with i integer bits is an integer in units of 2^-(15 - i).

#ifndef NNVK_FIXED_POINT_GLSL
#define NNVK_FIXED_POINT_GLSL

#include "quant.glsl"

const int INT32_MAX = 0x7fffffff, INT32_MIN = -INT32_MAX - 1;
const int INT16_MAX = 32767, INT16_MIN = -32768;

int saturate16(int x) { return clamp(x, INT16_MIN, INT16_MAX); }

// x * 2^left, clamped to 32 bits.
int saturating_shift_left(int x, int left) {
    if (x > INT32_MAX >> left) return INT32_MAX;
    if (x < INT32_MIN >> left) return INT32_MIN;
    return x << left;
}

// x * mantissa / 2^31 * 2^shift as in TensorFlow Lite. It saturates if a left shift exceeds 32 bits.
int scaled(int x, int mantissa, int shift) {
    return rounding_divide_by_pot(rounding_doubling_high_mul(saturating_shift_left(x, max(shift, 0)), mantissa),
                                  max(-shift, 0));
}

// The product, with the sum of both numbers of integer bits, rounded half away from zero.
int multiply(int a, int b) {
    int product = a * b;
    int total = product + (product >= 0 ? 1 << 14 : 1 - (1 << 14));
    return min(total >= 0 ? total >> 15 : -(-total >> 15), INT16_MAX);
}

// The same number with another number of integer bits, rounded half away from zero, or saturated.
int rescale(int x, int integer_bits, int to) {
    int left = integer_bits - to;
    return left <= 0 ? rounding_divide_by_pot(x, -left) : saturate16(x << left);
}

// exp(a) for a in [-1/4, 0), both with 0 integer bits.
int exp_between_minus_quarter_and_0(int a) {
    const int EXP_MINUS_EIGHTH = 28918, THIRD = 10923;
    int x = a + (1 << 12);
    int x2 = multiply(x, x);
    int x3 = multiply(x2, x);
    int x4 = multiply(x2, x2);
    int tail = rounding_divide_by_pot(multiply(rounding_divide_by_pot(x4, 2) + x3, THIRD) + x2, 1);
    return saturate16(EXP_MINUS_EIGHTH + multiply(x + tail, EXP_MINUS_EIGHTH));
}

// exp(-1/4), exp(-1/2), exp(-1) to exp(-16), with 0 integer bits.
const int EXP_OF_POWERS[] = int[](25520, 19875, 12055, 4435, 600, 11, 0);

// exp(a), with 0 integer bits, for a <= 0 with at most 7 integer bits.
int exp_of_negative(int a, int integer_bits) {
    int fraction_bits = 15 - integer_bits;
    int quarter = 1 << (fraction_bits - 2);
    int below = (a & (quarter - 1)) - quarter;
    int remainder = below - a;
    int result = exp_between_minus_quarter_and_0(rescale(below, integer_bits, 0));
    for (uint i = 0; i < EXP_OF_POWERS.length(); i++)
        if ((remainder >> (fraction_bits - 2 + int(i)) & 1) != 0) result = multiply(result, EXP_OF_POWERS[i]);
    if (integer_bits > 5 && a < -(32 << fraction_bits)) result = 0;
    return a == 0 ? INT16_MAX : result;
}

// 2 / (1 + a), with 2 integer bits, for a in [0, 1) with 0 integer bits.
int newton_reciprocal(int a) {
    int half_denominator = (a + INT16_MAX + 1) >> 1;
    int x = multiply(half_denominator, -15420) + 23130;    // -32/17 and 48/17
    for (int i = 0; i < 3; i++) x += rescale(multiply(x, (1 << 13) - multiply(half_denominator, x)), 4, 2);
    return x;
}

// 1 / (1 + exp(-a)), or tanh(a), with 0 integer bits. It is one function for use in loops: drivers inline every call,
// and SwiftShader takes minutes to compile about ten.
int squash(int a, int integer_bits, bool is_tanh) {
    // exp(-2 |a|) for tanh: the same integer with one more integer bit is twice the number.
    int part = newton_reciprocal(exp_of_negative(-abs(a), integer_bits + int(is_tanh)));
    int positive = is_tanh ? rescale(part - (1 << 13), 2, 0) : rescale(part, 1, 0);
    int negative = (is_tanh ? 0 : INT16_MAX) - positive;
    return a == 0 ? (is_tanh ? 0 : 1 << 14) : (a > 0 ? positive : negative);
}

const int GATE_BITS = 3;    // integer bits of the gates' inputs

// The activations of gates: tanh for the third gate, the cell's, and logistic for the others.
ivec4 squashed_gates(ivec4 gates) {
    ivec4 results;
    for (uint gate = 0; gate < 4u; gate++) results[gate] = squash(gates[gate], GATE_BITS, gate == 2u);
    return results;
}

// The mantissa and shift, as for `scaled`, of 1 / sqrt(x) for x >= 0; 0 counts as 1.
void inverse_square_root(int x, out int mantissa, out int shift) {
    mantissa = INT32_MAX;
    shift = 0;
    if (x <= 1) return;
    int right = 11;
    while (x >= 1 << 29) {
        x >>= 2;
        right++;
    }
    int pairs = (30 - findMSB(x)) / 2 - 1;
    x <<= 2 * pairs;
    right -= pairs;
    int half_input = rounding_divide_by_pot(x >> 1, 1);
    int root = 1 << 28;
    for (int i = 0; i < 5; i++) {
        int square = rounding_doubling_high_mul(root, root);
        int cube = saturating_shift_left(rounding_doubling_high_mul(square, root), 6);
        root = saturating_shift_left(
            rounding_doubling_high_mul(root, (1 << 28) + (1 << 27)) - rounding_doubling_high_mul(half_input, cube), 3);
    }
    root = rounding_doubling_high_mul(root, 1518500250);    // sqrt(1/2)
    mantissa = right < 0 ? root << -right : root;
    shift = -max(right, 0);
}

#endif
