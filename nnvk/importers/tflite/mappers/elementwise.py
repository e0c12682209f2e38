"""Operators on single elements, and pairs of elements that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers.tflite.context import BOOL8, F32, MAX_RANK, NONE, Context, is_quantised
from nnvk.importers.tflite.errors import Unmapped
from nnvk.importers.tflite.graph import Value
from nnvk.importers.tflite.registry import builtin
from nnvk.types.operand import QUANT8_CODES

Op = OperationCode

# --- one input -----------------------------------------------------------------------------------------------

_REAL = {
    "COS": Op.SIN,
    "ELU": Op.ELU,
    "EXP": Op.EXP,
    "FLOOR": Op.FLOOR,
    "LOG": Op.LOG,
    "LOG_SOFTMAX": Op.LOG_SOFTMAX,
    "SIN": Op.SIN,
    "SQRT": Op.SQRT,
}
_PARAMETERS: dict[str, tuple[float | int, ...]] = {"ELU": (1.0,), "LOG_SOFTMAX": (1.0, -1)}
"""What NNAPI wants beside the input: ELU's alpha; LOG_SOFTMAX's beta and axis."""


@builtin("ELU", "EXP", "FLOOR", "LOG", "LOG_SOFTMAX", "SIN", "SQRT")
def real_unary(c: Context) -> Value:
    """NNAPI has these for real numbers only."""
    source = c.real(c.input())
    parameters = _PARAMETERS.get(c.operator.name, ())
    if c.operator.name == "LOG_SOFTMAX":
        return c.keep(Op.LOG_SOFTMAX, source, *parameters)
    return c.unshaped(_REAL[c.operator.name], source, *parameters, out=source.type)


@builtin("ABS", "NEG", "LOGICAL_NOT")
def unary(c: Context) -> Value:
    """For real numbers, ABS and NEG for integers too."""
    source = c.real(c.input())
    return c.unshaped(OperationCode[c.operator.name], source, out=source.type)


@builtin("HARD_SWISH", "RSQRT")
def quantised_unary(c: Context) -> Value:
    """Quantised tensors are taken and given in any scale."""
    source = c.input()
    return c.unshaped(OperationCode[c.operator.name], source, out=c.out() if is_quantised(source) else source.type)


_CLIPS = {"RELU": Op.RELU, "RELU_N1_TO_1": Op.RELU1, "RELU6": Op.RELU6}


@builtin(*_CLIPS)
def clip(c: Context) -> Value:
    """NNAPI keeps the quantisation; where TFLite changes it, the importer does so after."""
    return c.unshaped(_CLIPS[c.operator.name], c.input(), out=c.input().type)


_SIGNED, _UNSIGNED = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT8_ASYMM
_FIXED = {
    "LOGISTIC": (1 / 256, {_UNSIGNED: 0, _SIGNED: -128}),
    "SOFTMAX": (1 / 256, {_UNSIGNED: 0, _SIGNED: -128}),
    "TANH": (1 / 128, {_UNSIGNED: 128, _SIGNED: 0}),
    "L2_NORMALIZATION": (1 / 128, {_UNSIGNED: 128, _SIGNED: 0}),
}
"""Scale and zero points of the outputs of operations that allow one quantisation only."""


def _fixed(c: Context) -> tuple[Value, OperandType]:
    """The input and the output's type; real numbers where the model's quantisation is not NNAPI's."""
    source, declared = c.input(), c.out()
    if not is_quantised(source):
        return source, source.type
    scale, zero_points = _FIXED[c.operator.name]
    if (declared.code, declared.scale) == (source.code, scale) and zero_points.get(declared.code) == declared.zero_point:
        return source, declared
    return c.real(source), F32


@builtin("LOGISTIC", "TANH")
def sigmoid(c: Context) -> Value:
    """LOGISTIC and TANH."""
    source, out = _fixed(c)
    return c.unshaped(OperationCode[c.operator.name], source, out=out)


@builtin("SOFTMAX")
def softmax(c: Context) -> Value:
    """Over the last axis, which feature level 1 knows for rank 2 and 4 only."""
    source, out = _fixed(c)
    axis = () if len(source.shape) in (2, 4) else (-1,)
    rows = c.reshape(source, (source.size // source.shape[-1], source.shape[-1])) if len(source.shape) > MAX_RANK else source
    beta = float(c.options("SoftmaxOptions").Beta())
    return c.reshape(c.emit(Op.SOFTMAX, rows, beta, *axis, out=out), source.shape)


@builtin("L2_NORMALIZATION")
def l2_normalization(c: Context) -> Value:
    """Over the last axis."""
    source, out = _fixed(c)
    return c.activated(c.emit(Op.L2_NORMALIZATION, source, out=out), c.options("L2NormOptions"))


@builtin("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(c: Context) -> Value:
    """Over the last axis."""
    options = c.options("LocalResponseNormalizationOptions")
    numbers = float(options.Bias()), float(options.Alpha()), float(options.Beta())
    return c.keep(Op.LOCAL_RESPONSE_NORMALIZATION, c.input(), options.Radius(), *numbers)


@builtin("PRELU")
def prelu(c: Context) -> Value:
    """The slopes broadcast."""
    source, slopes = c.input(0), c.like(c.input(1), c.input(0))
    return c.emit(Op.PRELU, source, slopes, out=c.out() if is_quantised(source) else source.type)


@builtin("LEAKY_RELU")
def leaky_relu(c: Context) -> Value:
    """A PRELU with one slope for all."""
    source, slope = c.input(), float(c.options("LeakyReluOptions").Alpha())
    if not math.isfinite(slope):
        raise Unmapped(f"alpha must be finite, got {slope}")
    out = c.out() if is_quantised(source) else source.type
    return c.unshaped(Op.PRELU, source, _scalar_like(c, source, slope), out=out)


def _scalar_like(c: Context, source: Value, number: float) -> Value:
    """A constant of one real number, quantised as exactly as can be where ``source`` is quantised."""
    if not is_quantised(source):
        return c.constant(number, OperandType(source.code))
    zero_point = 0 if source.code is _SIGNED else 128
    step = -1 if number < 0 else 1
    return c.constant(zero_point + step, OperandType(source.code, (1,), abs(number) or 1.0, zero_point)) if number else (
        c.constant(zero_point, OperandType(source.code, (1,), 1.0, zero_point))
    )


# --- two inputs ----------------------------------------------------------------------------------------------


def pair(c: Context) -> tuple[Value, Value]:
    """Both inputs, real where one of them is."""
    first, second = c.input(0), c.input(1)
    if is_quantised(first) != is_quantised(second):
        return c.real(first), c.real(second)
    return first, second


def joint(c: Context, code: OperationCode, first: Value, second: Value, *parameters: int, out: OperandType) -> Value:
    """An operation on two tensors that broadcast; above `MAX_RANK` where it is one row of elements beside another."""
    if max(len(first.shape), len(second.shape)) <= MAX_RANK:
        return c.emit(code, first, second, *parameters, out=out)
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise Unmapped(f"shapes {list(first.shape)} and {list(second.shape)} don't broadcast") from None
    first, second = (_merged(c, value, shape, (first.shape, second.shape)) for value in (first, second))
    return c.reshape(c.emit(code, first, second, *parameters, out=out), shape)


def _merged(c: Context, value: Value, shape: tuple[int, ...], both: tuple[tuple[int, ...], ...]) -> Value:
    """``value`` with neighbouring dimensions merged where both tensors repeat, or don't, along all of them."""
    padded = [(1,) * (len(shape) - len(one)) + one for one in both]
    own = (1,) * (len(shape) - len(value.shape)) + value.shape
    merged: list[int] = []
    before: tuple[bool, ...] | None = None
    for axis in range(len(shape)):
        repeats = tuple(one[axis] == 1 and shape[axis] != 1 for one in padded)
        if merged and (repeats == before or shape[axis] == 1):
            merged[-1] *= own[axis]
        else:
            merged.append(own[axis])
            before = repeats
    return c.reshape(value, merged)


_FUSED = {
    "ADD": (Op.ADD, "AddOptions"),
    "SUB": (Op.SUB, "SubOptions"),
    "MUL": (Op.MUL, "MulOptions"),
    "DIV": (Op.DIV, "DivOptions"),
}


@builtin(*_FUSED)
def arithmetic(c: Context) -> Value:
    """With a fused activation. NNAPI divides real numbers and integers only."""
    code, table = _FUSED[c.operator.name]
    first, second = pair(c)
    if code is Op.DIV:
        first, second = c.real(first), c.real(second)
    out = c.out() if is_quantised(first) else first.type
    if out.code not in (first.code, F32.code):
        first, second, out = c.real(first), c.real(second), F32
    if code is Op.DIV and first.code is OperandCode.TENSOR_INT32:
        raise Unmapped("TFLite rounds integer quotients towards zero, NNAPI down")
    return joint(c, code, first, second, c.fuse(c.options(table)), out=out)


@builtin("MAXIMUM", "MINIMUM", "POW")
def binary(c: Context) -> Value:
    """MAXIMUM and MINIMUM take quantised tensors as well."""
    first, second = pair(c)
    if c.operator.name == "POW":
        first, second = c.real(first), c.real(second)
    return joint(c, OperationCode[c.operator.name], first, second, out=first.type)


@builtin("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR")
def truth(c: Context) -> Value:
    """Comparisons and logic."""
    return joint(c, OperationCode[c.operator.name], *pair(c), out=BOOL8)


# --- what a few NNAPI operations express ---------------------------------------------------------------------


@builtin("SQUARE")
def square(c: Context) -> Value:
    """The input times itself."""
    source = c.real(c.input())
    return c.unshaped(Op.ABS, source, out=source.type) if False else joint(c, Op.MUL, source, source, NONE, out=source.type)


@builtin("SQUARED_DIFFERENCE")
def squared_difference(c: Context) -> Value:
    """The square of the difference."""
    first, second = (c.real(value) for value in pair(c))
    difference = joint(c, Op.SUB, first, second, NONE, out=first.type)
    return joint(c, Op.MUL, difference, difference, NONE, out=difference.type)


def _floor_quotient(c: Context, first: Value, second: Value) -> Value:
    quotient = joint(c, Op.DIV, first, second, NONE, out=first.type)
    if quotient.code is OperandCode.TENSOR_INT32:  # NNAPI rounds these down already
        return quotient
    return c.unshaped(Op.FLOOR, quotient, out=quotient.type)


@builtin("FLOOR_DIV")
def floor_div(c: Context) -> Value:
    """The quotient, rounded down."""
    return _floor_quotient(c, *(c.real(value) for value in pair(c)))


@builtin("FLOOR_MOD")
def floor_mod(c: Context) -> Value:
    """What the quotient, rounded down, leaves over."""
    first, second = (c.real(value) for value in pair(c))
    whole = joint(c, Op.MUL, _floor_quotient(c, first, second), second, NONE, out=first.type)
    return joint(c, Op.SUB, first, whole, NONE, out=first.type)


@builtin("ADD_N")
def add_n(c: Context) -> Value:
    """A chain of sums."""
    total, *rest = (c.real(value) for value in c.all_inputs())
    for value in rest:
        total = joint(c, Op.ADD, total, value, NONE, out=total.type)
    return total


def _with(c: Context, code: OperationCode, value: Value, number: float, *parameters: int) -> Value:
    """An operation on a real tensor and one number."""
    return joint(c, code, value, c.constant(number, OperandType(value.code)), *parameters, out=value.type)


@builtin("COS")
def cosine(c: Context) -> Value:
    """The sine, a quarter of the circle on."""
    source = c.real(c.input())
    return c.unshaped(Op.SIN, _with(c, Op.ADD, source, math.pi / 2, NONE), out=source.type)


@builtin("CEIL")
def ceil(c: Context) -> Value:
    """The floor, upside down."""
    value = c.real(c.input())
    for code in (Op.NEG, Op.FLOOR, Op.NEG):
        value = c.unshaped(code, value, out=value.type)
    return value


@builtin("RELU_0_TO_1")
def relu_0_to_1(c: Context) -> Value:
    """Clipped from both sides."""
    source = c.real(c.input())
    return _with(c, Op.MAXIMUM, _with(c, Op.MINIMUM, source, 1.0), 0.0)


@builtin("SIGN")
def sign(c: Context) -> Value:
    """1, 0 or -1."""
    source = c.real(c.input())
    flat = c.reshape(source, (source.size,))
    zero = c.constant(0, OperandType(source.code))
    ones, zeros, minus = (c.filled(number, flat.type, flat.shape) for number in (1, 0, -1))
    negative = c.emit(Op.SELECT, c.emit(Op.LESS, flat, zero, out=BOOL8), minus, zeros, out=flat.type)
    positive = c.emit(Op.GREATER, flat, zero, out=BOOL8)
    return c.reshape(c.emit(Op.SELECT, positive, ones, negative, out=flat.type), source.shape)


@builtin("ROUND")
def round_half_even(c: Context) -> Value:
    """The floor, one more past the middle, and in the middle where that makes it even."""
    source = c.real(c.input())
    flat = c.reshape(source, (source.size,))
    floor = c.emit(Op.FLOOR, flat, out=flat.type)
    part = c.emit(Op.SUB, flat, floor, NONE, out=flat.type)
    half = c.constant(0.5, OperandType(flat.code))
    halved = _with(c, Op.MUL, floor, 0.5, NONE)
    is_odd = c.emit(Op.NOT_EQUAL, halved, c.emit(Op.FLOOR, halved, out=flat.type), out=BOOL8)
    middle = c.emit(Op.LOGICAL_AND, c.emit(Op.EQUAL, part, half, out=BOOL8), is_odd, out=BOOL8)
    up = c.emit(Op.LOGICAL_OR, c.emit(Op.GREATER, part, half, out=BOOL8), middle, out=BOOL8)
    rounded = c.emit(Op.ADD, floor, c.as_number(up, flat.type), NONE, out=flat.type)
    return c.reshape(rounded, source.shape)


@builtin("GELU")
def gelu(c: Context) -> Value:
    """The approximation with TANH; the exact one needs an error function, which NNAPI does not have."""
    if not c.options("GeluOptions").Approximate():
        raise Unmapped("NNAPI has no error function; only the approximation with TANH can be expressed")
    x = c.real(c.input())
    cube = joint(c, Op.MUL, joint(c, Op.MUL, x, x, NONE, out=x.type), x, NONE, out=x.type)
    inner = joint(c, Op.ADD, x, _with(c, Op.MUL, cube, 0.044715, NONE), NONE, out=x.type)
    bend = c.unshaped(Op.TANH, _with(c, Op.MUL, inner, math.sqrt(2 / math.pi), NONE), out=x.type)
    return joint(c, Op.MUL, _with(c, Op.MUL, x, 0.5, NONE), _with(c, Op.ADD, bend, 1.0, NONE), NONE, out=x.type)


_Cast = Callable[[Context, Value], Value]


@builtin("CAST")
def cast(c: Context) -> Value:
    """Booleans are compared or selected, 8-bit integers are numbers whatever their scale."""
    source, out = c.input(), c.out()
    if source.code is out.code:
        return Value(out.with_dimensions(source.shape), source.array, source.index, source.origin) if (
            out.code not in QUANT8_CODES
        ) else source
    if OperandCode.TENSOR_BOOL8 in (source.code, out.code) and is_quantised(source):
        return c.as_bool(source)
    if source.code is OperandCode.TENSOR_BOOL8:
        if out.code in QUANT8_CODES:
            return c.as_number(source, out)
        return c.as_number(source, out)
    if out.code is OperandCode.TENSOR_BOOL8:
        return c.as_bool(source)
    if source.code is _SIGNED and (source.type.scale, source.type.zero_point) == (1.0, 0):
        # NNAPI casts no signed 8-bit integers; as steps of 1 they are their own real numbers.
        source = c.real(source)
        if out.code is F32.code:
            return source
    return c.unshaped(Op.CAST, source, out=out)
