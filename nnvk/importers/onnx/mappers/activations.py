"""Activations."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers.decompositions import arithmetic as decompositions
from nnvk.importers.decompositions.arithmetic import chosen, each, scalar, with_number
from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.emitter import BOOL8, F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

Op = OperationCode


@operator("LeakyRelu")
def leaky_relu(c: Context) -> Value:
    """Map LeakyRelu to PRELU with one slope."""
    x = c.real_number()
    return c.emit(Op.PRELU, x, scalar(c, c.node.real("alpha", 0.01), x), out=x.type)


@operator("PRelu")
def prelu(c: Context) -> Value:
    """Map PRelu. The slopes broadcast."""
    value, slopes = c.number(0), c.number(1)
    if value.code is not F32.code:
        below = c.emit(Op.LESS, value, scalar(c, 0, value), out=BOOL8)
        return c.wrapped(chosen(c, below, c.emit(Op.MUL, value, slopes, NONE, out=value.type), value), c.tensor().dtype)
    return c.emit(Op.PRELU, value, slopes, out=value.type)


_WITH_ALPHA: dict[str, KnownCode] = {"Elu": Op.ELU, "Swish": ExtendedOperationCode.SWISH}


@operator(*_WITH_ALPHA)
def with_alpha(c: Context) -> Value:
    """Map activations that have a factor."""
    return each(c, _WITH_ALPHA[c.node.op_type], c.real_number(), c.node.real("alpha", 1.0))


@operator("Selu")
def selu(c: Context) -> Value:
    """Map Selu to a scaled ELU."""
    alpha, gamma = c.node.real("alpha", 1.6732632423543772), c.node.real("gamma", 1.0507009873554805)
    return with_number(c, Op.MUL, each(c, Op.ELU, c.real_number(), alpha), gamma, NONE)


@operator("Celu")
def celu(c: Context) -> Value:
    """Map Celu: max(x, 0) + alpha * ELU(min(x, 0) / alpha)."""
    value, alpha = c.real_number(), c.node.real("alpha", 1.0)
    if not alpha:
        raise Unmapped("attribute 'alpha' must not be 0")
    if alpha == 1:
        return each(c, Op.ELU, value, 1.0)
    below = with_number(c, Op.DIV, with_number(c, Op.MINIMUM, value, 0.0), alpha, NONE)
    bent = with_number(c, Op.MUL, each(c, Op.ELU, below, 1.0), alpha, NONE)
    return c.emit(Op.ADD, with_number(c, Op.MAXIMUM, value, 0.0), bent, NONE, out=value.type)


@operator("Shrink")
def shrink(c: Context) -> Value:
    """Map Shrink: numbers between -lambd and lambd become 0, and others move towards 0 by ``bias``."""
    value, dtype = c.number(), c.tensor().dtype
    if dtype.kind != "f":
        value = c.cast(value, np.dtype(np.float32))
    reach, bias = c.node.real("lambd", 0.5), c.node.real("bias", 0.0)
    up = c.emit(Op.GREATER, value, scalar(c, reach, value), out=BOOL8)
    down = c.emit(Op.LESS, value, scalar(c, -reach, value), out=BOOL8)
    above = chosen(c, up, with_number(c, Op.ADD, value, -bias, NONE), scalar(c, 0.0, value))
    result = chosen(c, down, with_number(c, Op.ADD, value, bias, NONE), above)
    return result if dtype.kind == "f" else c.cast(result, dtype)


@operator("Softsign")
def softsign(c: Context) -> Value:
    """Map Softsign: x / (1 + |x|)."""
    x = c.real_number()
    return c.emit(Op.DIV, x, with_number(c, Op.ADD, each(c, Op.ABS, x), 1.0, NONE), NONE, out=x.type)


@operator("HardSigmoid")
def hard_sigmoid(c: Context) -> Value:
    """Map HardSigmoid: alpha * x + beta, clipped to [0, 1]."""
    scaled = with_number(c, Op.MUL, c.real_number(), c.node.real("alpha", 0.2), NONE)
    line = with_number(c, Op.ADD, scaled, c.node.real("beta", 0.5), NONE)
    return with_number(c, Op.MAXIMUM, with_number(c, Op.MINIMUM, line, 1.0), 0.0)


@operator("Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu")
def gelu(c: Context) -> Value:
    """Map GELU: exact, or the approximation with TANH if the model wants it."""
    x = c.real_number()
    is_fast = c.node.op_type == "FastGelu"
    if is_fast and c.has(1):
        x = c.emit(Op.ADD, x, c.real_number(1), NONE, out=x.type)
    approximate = c.node.text("approximate", "tanh" if is_fast else "none")
    return decompositions.gelu(c, x, approximate=approximate == "tanh")


# --- along an axis -------------------------------------------------------------------------------------------

_SOFT = {"Softmax": Op.SOFTMAX, "LogSoftmax": Op.LOG_SOFTMAX}
_SINGLE_AXIS = 13
"""The version from which on these operators go along one axis, and not along all behind it too."""


@operator(*_SOFT)
def softmax(c: Context) -> Value:
    """Reshape to a matrix if the axis is the last one, otherwise to three axes with it in the middle."""
    value = c.real_number()
    rank = c.tensor().rank
    axis = axis_of(c.node.integer("axis", -1 if c.node.version >= _SINGLE_AXIS else 1), max(rank, 1))
    code = _SOFT[c.node.op_type]
    if c.node.version < _SINGLE_AXIS or axis == len(value.shape) - 1:
        last = math.prod(value.shape[axis:])
        rows = c.reshape(value, (value.size // last, last))
        soft = c.emit(code, rows, 1.0, *(() if code is Op.SOFTMAX else (-1,)), out=value.type)
        return c.reshape(soft, value.shape)
    return c.emit(code, value, 1.0, axis, out=value.type)


@operator("com.microsoft.BiasGelu")
def bias_gelu(c: Context) -> Tensor:
    """Map BiasGelu: the GELU of a sum."""
    first, second = c.real_number(0), c.real_number(1)
    return c.give(decompositions.gelu(c, c.emit(Op.ADD, first, second, NONE, out=first.type), approximate=False))
