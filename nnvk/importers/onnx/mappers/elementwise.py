"""Operators on single elements, and on several tensors that broadcast."""

from __future__ import annotations

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers.decompositions import arithmetic as decompositions
from nnvk.importers.decompositions.arithmetic import chosen, each, scalar, with_number
from nnvk.importers.emitter import BOOL8, I32, NONE, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.quantised_operands import quantised_pair
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.binary import allows_product
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = OperationCode
Extended = ExtendedOperationCode

# --- one input -----------------------------------------------------------------------------------------------

_UNARY: dict[str, KnownCode] = {
    "Acos": Extended.ACOS,
    "Acosh": Extended.ACOSH,
    "Asin": Extended.ASIN,
    "Asinh": Extended.ASINH,
    "Atan": Extended.ATAN,
    "Atanh": Extended.ATANH,
    "Cos": Extended.COS,
    "Cosh": Extended.COSH,
    "Erf": Extended.ERF,
    "Exp": Op.EXP,
    "Floor": Op.FLOOR,
    "HardSwish": Op.HARD_SWISH,
    "Log": Op.LOG,
    "Mish": Extended.MISH,
    "Sigmoid": Op.LOGISTIC,
    "Sin": Op.SIN,
    "Sinh": Extended.SINH,
    "Softplus": Extended.SOFTPLUS,
    "Sqrt": Op.SQRT,
    "Tan": Extended.TAN,
    "Tanh": Op.TANH,
}


@operator(*_UNARY)
def unary(c: Context) -> Value:
    """Map functions of real numbers that are operations."""
    return each(c, _UNARY[c.node.op_type], c.real_number())


@operator("Abs", "Neg")
def signed(c: Context) -> Value:
    """Map operators that NNAPI has for integers, too."""
    return c.wrapped(each(c, Op.ABS if c.node.op_type == "Abs" else Op.NEG, c.number()), c.tensor().dtype)


@operator("Not")
def logical_not(c: Context) -> Value:
    """Map Not."""
    return each(c, Op.LOGICAL_NOT, c.number())


@operator("Relu")
def relu(c: Context) -> Value:
    """Map Relu. Real numbers that are quantised keep their quantisation."""
    value = c.value() if c.tensor().dtype.kind == "f" else c.number()
    return with_number(c, Op.MAXIMUM, value, 0) if value.code is I32.code else each(c, Op.RELU, value)


_COMPOSED = {
    "Ceil": decompositions.ceiling,
    "Round": decompositions.round_half_even,
}


@operator(*_COMPOSED)
def composed(c: Context) -> Value:
    """Map operators that NNAPI lacks."""
    return _COMPOSED[c.node.op_type](c, c.real_number())


@operator("Sign")
def sign(c: Context) -> Value:
    """Map Sign: 1, 0 or -1. For NaN, onnxruntime gives NaN in 32 bits and 0 in 16."""
    return decompositions.sign(c, c.number(), keeps_nan=c.tensor().dtype != np.float16)


@operator("Reciprocal")
def reciprocal(c: Context) -> Value:
    """Map Reciprocal: 1 / x."""
    value = c.real_number()
    return c.emit(Op.DIV, scalar(c, 1.0, value), value, NONE, out=value.type)


@operator("IsNaN")
def is_nan(c: Context) -> Tensor:
    """Map IsNaN: whether a number is not equal to itself."""
    value = c.real_number()
    return c.give(c.emit(Op.NOT_EQUAL, value, value, out=BOOL8), c.tensor().shape, np.bool_)


@operator("IsInf")
def is_infinite(c: Context) -> Tensor:
    """Map IsInf: whether a number is beyond the largest one."""
    value = c.real_number()
    if c.tensor().dtype == np.float16:
        value = c.rounded(value)
    largest = scalar(c, float(np.finfo(value.type.dtype).max), value)
    smallest = scalar(c, float(np.finfo(value.type.dtype).min), value)
    up = c.emit(Op.GREATER, value, largest, out=BOOL8)
    down = c.emit(Op.LESS, value, smallest, out=BOOL8)
    wants_up, wants_down = (bool(c.node.integer(f"detect_{which}", 1)) for which in ("positive", "negative"))
    if wants_up and wants_down:
        up = c.emit(Op.LOGICAL_OR, up, down, out=BOOL8)
    elif wants_down:
        up = down
    elif not wants_up:
        up = c.filled(False, BOOL8, value.shape)
    return c.give(up, c.tensor().shape, np.bool_)


@operator("Identity", "Dropout")
def identity(c: Context) -> list[Tensor | None]:
    """Map Identity and Dropout, which does nothing when a model is not trained."""
    source = c.tensor()
    is_training = c.node.op_type == "Dropout" and c.has(2) and bool(c.scalar(2, "training_mode"))
    if is_training and (not c.has(1) or c.scalar(1, "the ratio")):
        raise Unmapped("NNAPI trains no models (training_mode is true)")
    mask = c.give(c.filled(True, BOOL8, c.value().shape), source.shape, np.bool_) if c.wants(1) else None
    return [source, mask]


# --- two inputs ----------------------------------------------------------------------------------------------

_ARITHMETIC = {"Add": Op.ADD, "Sub": Op.SUB, "Mul": Op.MUL}


@operator(*_ARITHMETIC)
def arithmetic(c: Context) -> Value:
    """Map arithmetic. Integers of 8 and 16 bits wrap. Real numbers stay quantised if inputs and output are."""
    levels = quantised_pair(c, c.tensor(0), c.tensor(1)) if c.tensor().dtype.kind == "f" else None
    if levels is not None and (c.node.op_type != "Mul" or allows_product(levels[0].type, levels[1].type, levels[2])):
        return c.emit(_ARITHMETIC[c.node.op_type], levels[0], levels[1], NONE, out=levels[2])
    first, second = c.number(0), c.number(1)
    return c.wrapped(c.emit(_ARITHMETIC[c.node.op_type], first, second, NONE, out=first.type), c.tensor().dtype)


@operator("Div")
def quotient(c: Context) -> Value:
    """Map Div. Quotients of integers are rounded towards 0."""
    first, second = c.number(0), c.number(1)
    if first.code is not I32.code:
        return c.emit(Op.DIV, first, second, NONE, out=first.type)
    if c.tensor().dtype.kind == "u":
        return c.emit(Op.DIV, first, second, NONE, out=I32)
    return decompositions.truncated_quotient(c, first, second)


@operator("Mod")
def remainder(c: Context) -> Value:
    """Map Mod: the remainder with the sign of the divisor, or with ``fmod`` of the dividend."""
    first, second = c.number(0), c.number(1)
    if not c.node.integer("fmod", 0):
        return decompositions.floor_remainder(c, first, second)
    return decompositions.truncated_remainder(c, first, second)


@operator("Pow")
def power(c: Context) -> Value:
    """Map Pow. Squares and cubes become products, which are exact; NNAPI has no other powers of integers."""
    base = c.number(0)
    exponent = c.tensor(1).known_array
    known = float(exponent.reshape(())) if exponent is not None and exponent.size == 1 else None
    if known in (1.0, 2.0, 3.0) or (known == 0.5 and base.code is not I32.code):
        result = base if known != 0.5 else each(c, Op.SQRT, base)
        for _ in range(int(known) - 1):
            result = c.emit(Op.MUL, result, base, NONE, out=base.type)
        return c.broadcast(result, broadcast_sizes(base.shape, c.tensor(1).shape))
    if base.code is I32.code:
        raise Unmapped(f"NNAPI raises no {c.tensor().dtype} to a power, but for constant powers from 1 to 3")
    return c.emit(Op.POW, base, c.cast(c.number(1), base.type.dtype), out=base.type)


_VARIADIC = {"Max": Op.MAXIMUM, "Min": Op.MINIMUM, "Sum": Op.ADD, "Mean": Op.ADD}


@operator(*_VARIADIC)
def variadic(c: Context) -> Value:
    """Map operators of many inputs to a chain of pairs."""
    code = _VARIADIC[c.node.op_type]
    fused = (NONE,) if code is Op.ADD else ()
    total, *rest = c.numbers()
    for value in rest:
        total = c.emit(code, total, value, *fused, out=total.type)
    if c.node.op_type == "Mean":
        total = with_number(c, Op.MUL, total, 1 / len(c.inputs), NONE)
    return total


COMPARISONS = {
    "Equal": Op.EQUAL,
    "Greater": Op.GREATER,
    "GreaterOrEqual": Op.GREATER_EQUAL,
    "Less": Op.LESS,
    "LessOrEqual": Op.LESS_EQUAL,
}
"""The comparisons of numbers."""
_TRUTH = {**COMPARISONS, "And": Op.LOGICAL_AND, "Or": Op.LOGICAL_OR, "Xor": Op.NOT_EQUAL}


@operator(*_TRUTH)
def truth(c: Context) -> Tensor:
    """Map comparisons and logical operators."""
    result = c.emit(_TRUTH[c.node.op_type], c.number(0), c.number(1), out=BOOL8)
    return c.give(result, broadcast_sizes(c.tensor(0).shape, c.tensor(1).shape), np.bool_)


# --- choices -------------------------------------------------------------------------------------------------


@operator("Where")
def where(c: Context) -> Tensor:
    """Map Where. All three inputs broadcast. A constant condition may select one of them entirely."""
    known = c.tensor(0).known_array
    if known is not None and known.size and (known.all() or not known.any()):
        taken = c.tensor(1 if known.all() else 2)
        if taken.shape == broadcast_sizes(*(c.tensor(position).shape for position in range(3))):
            return taken
    condition, first, second = c.number(0), c.number(1), c.number(2)
    shape = broadcast_sizes(*(c.tensor(position).shape for position in range(3)))
    return c.give(chosen(c, condition, first, second), shape, c.tensor(1).dtype)


_CLIPPED: dict[tuple[float | None, float | None], Op] = {(0.0, 6.0): Op.RELU6, (-1.0, 1.0): Op.RELU1}


@operator("Clip")
def clip(c: Context) -> Value:
    """Map Clip. Both limits are optional inputs, or attributes in older versions."""
    value = c.value()
    low = _limit(c, 1, "min")
    high = _limit(c, 2, "max")
    numbers = [one.reshape(()).item() if isinstance(one, np.ndarray) else None for one in (low, high)]
    code = _CLIPPED.get((numbers[0], numbers[1]))
    if numbers[0] == 0 and high is None:
        code = Op.RELU
    if code is not None and (is_quantised(value) or value.code is not I32.code) and c.tensor().dtype.kind == "f":
        return each(c, code, value)
    value = c.number()
    for limit, op in ((low, Op.MAXIMUM), (high, Op.MINIMUM)):
        if limit is not None:
            other = limit if isinstance(limit, Value) else c.constant(_fitting(limit, value), value.type)
            value = c.emit(op, value, other, out=value.type)
    return value


def _fitting(limit: np.ndarray, value: Value) -> np.ndarray:
    """A limit beyond 32 bits is none for numbers of 32 bits."""
    limit = limit.reshape(1)
    return np.clip(limit, -(2**31), 2**31 - 1) if value.code is I32.code else limit


def _limit(c: Context, position: int, name: str) -> Value | np.ndarray | None:
    if c.node.has(name):
        return np.array(c.node.real(name, 0.0))
    tensor = c.optional(position)
    if tensor is None:
        return None
    if tensor.size != 1:
        raise Unmapped(f"{name} (input {position}) must be one number, got shape {list(tensor.shape)}")
    return c.plain(tensor) if not tensor.is_constant else tensor.array
