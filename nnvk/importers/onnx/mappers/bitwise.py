"""Operators on the bits of whole numbers."""

from __future__ import annotations

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers.bounds import INT64
from nnvk.importers.decompositions import int64
from nnvk.importers.decompositions.arithmetic import broadcast_shape, chosen
from nnvk.importers.decompositions.int64 import Words, low
from nnvk.importers.emitter import BOOL8, F32, I32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.reader import dtype_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.extension.bits import WIDTH, Kind
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
Extended = ExtendedOperationCode
_KINDS = {"BitwiseAnd": Kind.AND, "BitwiseOr": Kind.OR, "BitwiseXor": Kind.XOR}


def _bits(c: Context, kind: Kind, first: Value, second: Value) -> Value:
    shape = broadcast_shape(first, second)
    return c.emit(Extended.BITS, c.broadcast(first, shape), c.broadcast(second, shape), int(kind), out=I32)


@operator(*_KINDS)
def bitwise(c: Context) -> Tensor:
    """Map BitwiseAnd, BitwiseOr and BitwiseXor. Numbers that may need 64 bits are combined word by word."""
    kind, dtype = _KINDS[c.node.op_type], c.tensor().dtype
    shape = broadcast_sizes(c.tensor(0).shape, c.tensor(1).shape)
    first, second = (c.exact(c.tensor(position)) for position in (0, 1))
    if not isinstance(first, Words) and not isinstance(second, Words):
        return c.give(_bits(c, kind, first, second), shape, dtype)
    one, other = int64.wide(c, first), int64.wide(c, second)
    words = Words(_bits(c, kind, one.low, other.low), _bits(c, kind, one.high, other.high), INT64)
    return c.give_exactly(words, shape, dtype)


@operator("BitShift")
def bit_shift(c: Context) -> Tensor:
    """Map BitShift. Bits that are shifted out are lost. Shifts by less than 0 shift all of them out."""
    dtype = c.tensor().dtype
    direction, bits = c.node.text("direction", ""), dtype.itemsize * 8
    if direction not in ("LEFT", "RIGHT"):
        raise Unmapped(f"attribute 'direction' must be LEFT or RIGHT, got '{direction}'")
    if bits > WIDTH or (bits == WIDTH and dtype.kind == "u" and direction == "LEFT"):
        return _by_powers(c, direction)
    value, by = c.number(0), c.number(1)
    if bits < WIDTH:  # all bits are out from there on
        is_within = c.emit(Op.LESS, by, c.constant(bits, I32), out=BOOL8)
        by = chosen(c, is_within, by, c.constant(WIDTH, I32))
    result = _bits(c, Kind.SHIFT_LEFT if direction == "LEFT" else Kind.SHIFT_RIGHT, value, by)
    return c.give(c.wrapped(result, dtype), broadcast_sizes(c.tensor(0).shape, c.tensor(1).shape), dtype)


def _by_powers(c: Context, direction: str) -> Tensor:
    """Shifts of numbers that may need 64 bits: products with powers of 2, or quotients that are rounded down."""
    power = int64.power_of(c, c.constant(2, I32), c.number(1))
    value, shape = c.exact(c.tensor()), broadcast_sizes(c.tensor(0).shape, c.tensor(1).shape)
    if direction == "LEFT":
        return c.give_exactly(int64.combined(c, Op.MUL, value, power), shape, c.tensor().dtype)
    return c.give_exactly(int64.floor_quotient(c, value, power), shape, c.tensor().dtype)


@operator("BitCast")
def bit_cast(c: Context) -> Tensor:
    """Map BitCast between types of one size: integers wrap, and BITCAST goes between FLOAT32 and INT32."""
    source, target = c.tensor(), dtype_of(c.node.integer("to", 0), "its output")
    if source.narrow is not None or source.dtype.itemsize != target.itemsize:
        raise Unmapped(f"the bits of {source.dtype} are no {target} here")
    if source.dtype.kind in "iub" and target.kind in "iu":
        whole = c.number() if source.dtype.kind == "b" else low(c.exact(source))
        return c.give_exactly(c.cast(whole, np.dtype(np.int32)), source.shape, target)
    if target.itemsize * 8 != WIDTH:
        raise Unmapped(f"NNAPI has no bits of {source.dtype} and {target}")
    if source.dtype.kind == "f" and target.kind in "iu":
        return c.give_exactly(c.emit(Extended.BITCAST, c.real_number(), out=I32), source.shape, target)
    return c.give(c.emit(Extended.BITCAST, low(c.exact(source)), out=F32), source.shape, target)
