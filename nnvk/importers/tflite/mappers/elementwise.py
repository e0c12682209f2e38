"""Operators on single elements, and pairs of elements that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.api import OperandCode, OperandType, OperationCode
from nnvk.importers.decompositions.arithmetic import each, truncated_quotient, with_number
from nnvk.importers.emitter import BOOL8, F32, I32, NONE, is_quantised, same_quantisation
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite import tables
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import builtin
from nnvk.ops.binary import allows_product
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = OperationCode

# --- one input -----------------------------------------------------------------------------------------------


_UNARY: dict[str, KnownCode] = {
    "COS": ExtendedOperationCode.COS,
    "FLOOR": Op.FLOOR,
    "LOGICAL_NOT": Op.LOGICAL_NOT,
    "SIN": Op.SIN,
}


@builtin(*_UNARY)
def real_unary(c: Context) -> Value:
    """Map operators on real numbers and truth values."""
    return each(c, _UNARY[c.operator.name], c.real(c.input()))


@builtin("NEG", "SQRT")
def by_levels(c: Context) -> Value:
    """Map NEG and SQRT. NNAPI has them for real numbers, and NEG for integers; TFLite has them for signed levels."""
    source, name = c.input(), c.operator.name
    if source.code is c.out().code and source.code in _LEVELS[name]:
        function = tables.negated if name == "NEG" else tables.truncated_root
        return tables.look_up(c, source, c.out(), function(source.type, c.out()))
    source = c.real(source)
    return c.emit(OperationCode[name], source, out=source.type)


_BY_TABLE: dict[str, Callable[[OperandType], tables.Function]] = {
    "ELU": lambda _: tables.elu,
    "EXP": lambda _: tables.exponential,
    "LOG": tables.logarithm,
}
"""The functions of real numbers by which TFLite makes a table for quantised elements, of the type of the output."""


@builtin(*_BY_TABLE)
def by_table(c: Context) -> Value:
    """NNAPI has these for real numbers only. TFLite's alpha is always 1 in ELU."""
    source, name = c.input(), c.operator.name
    if tables.has_table(source.type, c.out()):
        return tables.look_up(c, source, c.out(), tables.real_function(source.type, c.out(), _BY_TABLE[name](c.out())))
    source = c.real(source)
    return c.emit(OperationCode[name], source, *((1.0,) if name == "ELU" else ()), out=source.type)


def _rescaled(
    c: Context,
    function: Callable[[np.ndarray], np.ndarray] = lambda numbers: numbers,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Value:
    source, out = c.input(), c.out()
    ratio = tables.single_ratio(source.type, out)
    return tables.look_up(c, source, out, tables.rescaled(source.type, out, ratio, function, low=low, high=high))


@builtin("ABS")
def absolute(c: Context) -> Value:
    """Map ABS on real numbers and integers. Quantised tensors are rescaled."""
    source = c.input()
    if tables.has_table(source.type, c.out()):
        return _rescaled(c, np.abs)
    source = c.real(source)
    return c.emit(Op.ABS, source, out=source.type)


@builtin("HARD_SWISH")
def hard_swish(c: Context) -> Value:
    """Map HARD_SWISH, with quantised tensors of any scale."""
    source = c.input()
    return c.emit(Op.HARD_SWISH, source, out=c.out() if is_quantised(source) else source.type)


@builtin("RSQRT")
def inverse_root(c: Context) -> Value:
    """Map RSQRT like HARD_SWISH, and on 16-bit levels by TFLite's table."""
    source = c.input()
    if source.code is _WIDE and c.out().code is _WIDE:
        function = tables.real_function(source.type, c.out(), tables.inverse_root(c.out()))
        return tables.look_up(c, source, c.out(), function)
    return c.emit(Op.RSQRT, source, out=c.out() if is_quantised(source) else source.type)


_CLIPS = {
    "RELU": (Op.RELU, 0.0, math.inf),
    "RELU_N1_TO_1": (Op.RELU1, -1.0, 1.0),
    "RELU6": (Op.RELU6, 0.0, 6.0),
}
"""NNAPI's operations that clip, and their limits."""


@builtin(*_CLIPS)
def clip(c: Context) -> Value:
    """NNAPI keeps the quantisation; where TFLite changes it, elements are rescaled first and clipped then."""
    source, (code, low, high) = c.input(), _CLIPS[c.operator.name]
    if tables.has_table(source.type, c.out()) and not same_quantisation(source.type, c.out()):
        return _rescaled(c, low=low, high=high)
    return c.emit(code, source, out=source.type)


@builtin("RELU_0_TO_1")
def relu_0_to_1(c: Context) -> Value:
    """Map RELU_0_TO_1, which clips to [0, 1]."""
    if tables.has_table(c.input().type, c.out()):
        return _rescaled(c, low=0.0, high=1.0)
    return with_number(c, Op.MAXIMUM, with_number(c, Op.MINIMUM, c.real(c.input()), 1.0), 0.0)


_SIGNED, _UNSIGNED = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT8_ASYMM
_WIDE = OperandCode.TENSOR_QUANT16_SYMM
_LEVELS = {"NEG": frozenset({_SIGNED, _WIDE}), "SQRT": frozenset({_SIGNED})}
"""The quantised types for which TFLite has operators."""
_INTERPOLATED = frozenset({"LOGISTIC", "SOFTMAX", "TANH"})
"""Operators whose 16-bit outputs have scale 1/32768."""
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
    if source.code is _WIDE and c.operator.name in _INTERPOLATED:
        scale, zero_points = 1 / 32768, {_WIDE: 0}
    if (declared.code, declared.scale) == (source.code, scale) and zero_points.get(
        declared.code
    ) == declared.zero_point:
        return source, declared
    return c.real(source), F32


@builtin("LOGISTIC", "TANH")
def sigmoid(c: Context) -> Value:
    """Map LOGISTIC and TANH."""
    source, out = _fixed(c)
    return c.emit(OperationCode[c.operator.name], source, out=out)


@builtin("SOFTMAX", "LOG_SOFTMAX")
def softmax(c: Context) -> Value:
    """Map operators over the last axis. Feature level 1 has SOFTMAX only for ranks 2 and 4; LOG_SOFTMAX is for real
    numbers.
    """
    if c.operator.name == "SOFTMAX":
        source, out = _fixed(c)
        beta = float(c.options("SoftmaxOptions").Beta())
        axis = () if len(source.shape) in (2, 4) else (-1,)
    else:
        source = c.real(c.input())
        beta, axis, out = 1.0, (-1,), source.type
    return c.emit(OperationCode[c.operator.name], source, beta, *axis, out=out)


@builtin("L2_NORMALIZATION")
def l2_normalization(c: Context) -> Value:
    """Map L2_NORMALIZATION over the last axis."""
    source, out = _fixed(c)
    return c.activated(c.emit(Op.L2_NORMALIZATION, source, out=out), c.options("L2NormOptions"))


@builtin("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(c: Context) -> Value:
    """Map LOCAL_RESPONSE_NORMALIZATION over the last axis."""
    options = c.options("LocalResponseNormalizationOptions")
    numbers = float(options.Bias()), float(options.Alpha()), float(options.Beta())
    return c.keep(Op.LOCAL_RESPONSE_NORMALIZATION, c.input(), options.Radius(), *numbers)


@builtin("PRELU")
def prelu(c: Context) -> Value:
    """Map PRELU. The slopes broadcast."""
    source, slopes = c.input(0), c.like(c.input(1), c.input(0))
    return c.emit(Op.PRELU, source, slopes, out=c.out() if is_quantised(source) else source.type)


@builtin("LEAKY_RELU")
def leaky_relu(c: Context) -> Value:
    """Map LEAKY_RELU to PRELU with one slope."""
    source, slope = c.input(), float(c.options("LeakyReluOptions").Alpha())
    if not math.isfinite(slope):
        raise Unmapped(f"alpha must be finite, got {slope}")
    out = c.out() if is_quantised(source) else source.type
    return c.emit(Op.PRELU, source, _scalar_like(c, source, slope), out=out)


def _scalar_like(c: Context, source: Value, number: float) -> Value:
    """A constant of one real number; where ``source`` is quantised, one level of the number's size."""
    if not is_quantised(source):
        return c.constant(number, OperandType(source.code))
    zero_point = 128 if source.code is _UNSIGNED else 0
    level = (number > 0) - (number < 0)
    return c.constant(zero_point + level, OperandType(source.code, (), abs(number) or 1.0, zero_point))


# --- two inputs ----------------------------------------------------------------------------------------------


def pair(c: Context) -> tuple[Value, Value]:
    """Both inputs, real where one of them is."""
    first, second = c.input(0), c.input(1)
    if is_quantised(first) != is_quantised(second):
        return c.real(first), c.real(second)
    return first, second


_FUSED = {
    "ADD": (Op.ADD, "AddOptions"),
    "SUB": (Op.SUB, "SubOptions"),
    "MUL": (Op.MUL, "MulOptions"),
    "DIV": (Op.DIV, "DivOptions"),
}


@builtin(*_FUSED)
def arithmetic(c: Context) -> Value:
    """With a fused activation. NNAPI divides no quantised numbers, and multiplies them into larger scales only."""
    code, table = _FUSED[c.operator.name]
    first, second = pair(c)
    if code is Op.DIV:
        first, second = c.real(first), c.real(second)
    out = c.out() if is_quantised(first) else first.type
    is_too_fine = code is Op.MUL and is_quantised(first) and not allows_product(first.type, second.type, out)
    if is_too_fine or out.code not in (first.code, F32.code):
        first, second, out = c.real(first), c.real(second), F32
    if first.code is OperandCode.TENSOR_INT32:
        divides = code is Op.DIV
        result = truncated_quotient(c, first, second) if divides else c.emit(code, first, second, NONE, out=out)
        return c.activated(result, c.options(table))
    return c.emit(code, first, second, c.fuse(c.options(table)), out=out)


@builtin("MAXIMUM", "MINIMUM", "POW")
def binary(c: Context) -> Value:
    """Map MAXIMUM, MINIMUM and POW. The first two take quantised tensors as well."""
    first, second = pair(c)
    if c.operator.name == "POW":
        if first.code is I32.code:
            raise Unmapped("NNAPI raises no whole numbers to powers")
        first, second = c.real(first), c.real(second)
    out = c.out() if is_quantised(first) else first.type
    return c.emit(OperationCode[c.operator.name], first, second, out=out)


@builtin("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
def comparison(c: Context) -> Value:
    """Map comparisons. 8-bit tensors are compared with TFLite's roundings, and 16-bit levels by order as they are."""
    first, second = pair(c)
    if tables.are_bytes(first.type, second.type):
        first, second = tables.comparable(c, first, second)
    elif first.code is second.code is _WIDE and c.operator.name not in ("EQUAL", "NOT_EQUAL"):
        first, second = tables.as_levels(c, first), tables.as_levels(c, second)
    return c.emit(OperationCode[c.operator.name], first, second, out=BOOL8)


@builtin("LOGICAL_AND", "LOGICAL_OR")
def logic(c: Context) -> Value:
    """Map LOGICAL_AND and LOGICAL_OR, which broadcast."""
    return c.emit(OperationCode[c.operator.name], c.input(0), c.input(1), out=BOOL8)


# --- types ---------------------------------------------------------------------------------------------------


@builtin("CAST")
def cast(c: Context) -> Value:
    """Map casts. 8-bit integers are numbers without a scale. NNAPI casts neither booleans nor signed ones."""
    source, out = c.input(), c.out()
    if source.code is out.code:
        return source
    if source.code is OperandCode.TENSOR_BOOL8:
        return c.as_number(source, out)
    if out.code is OperandCode.TENSOR_BOOL8:
        return c.as_bool(source)
    if source.code is _SIGNED and (source.type.scale, source.type.zero_point) == (1.0, 0):
        # As levels of 1 they are their own real numbers.
        source = c.real(source)
        if out.code is F32.code:
            return source
    return c.emit(Op.CAST, source, out=out)
