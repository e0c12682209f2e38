"""Random numbers, from the generator of RANDOM_MULTINOMIAL."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import each, with_number
from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.reader import dtype_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode
_CLASSES = 4096
"""The equally likely classes of a draw. Two draws make a number with as many bits as a FLOAT32's mantissa has."""
_MOST_DRAWS = 1 << 24


def _uniform(c: Context, count: int, seeds: Value, parts: int = 1) -> list[Value]:
    """Random numbers of (0, 1) in several tensors of ``count`` each. Two seeds of 0 give others in every execution."""
    draws = 2 * parts * count
    if draws > _MOST_DRAWS:
        raise Unmapped(f"{count} random numbers are too many at once")
    drawn = c.emit(Op.RANDOM_MULTINOMIAL, c.filled(0.0, F32, (1, _CLASSES)), draws, seeds, out=I32)
    whole = c.reshape(c.emit(Op.CAST, drawn, out=F32), (2 * parts, count))
    rows = [c.reshape(sliced(c, whole, (range(row, row + 1), range(count))), (count,)) for row in range(2 * parts)]
    found = []
    for high, low in zip(rows[::2], rows[1::2], strict=True):
        # Sums of 2^-12 and 2^-24 times whole numbers are exact. Half a last bit keeps them from 0 and 1.
        fine = with_number(c, Op.ADD, with_number(c, Op.MUL, low, 1 / _CLASSES**2, NONE), 0.5 / _CLASSES**2, NONE)
        found.append(c.emit(Op.ADD, with_number(c, Op.MUL, high, 1 / _CLASSES, NONE), fine, NONE, out=F32))
    return found


def _normal(c: Context, count: int, seeds: Value) -> Value:
    """Random numbers of the standard normal distribution: the Box-Muller transform of two uniform ones."""
    size, angle = _uniform(c, count, seeds, 2)
    radius = each(c, Op.SQRT, with_number(c, Op.MUL, each(c, Op.LOG, size), -2.0, NONE))
    turn = each(c, ExtendedOperationCode.COS, with_number(c, Op.MUL, angle, 2 * math.pi, NONE))
    return c.emit(Op.MUL, radius, turn, NONE, out=F32)


def _seeds(c: Context) -> Value:
    """The two seeds of the generator: the bits of attribute 'seed', or zeros, for other numbers in every execution."""
    if not c.node.has("seed"):
        return c.constant(charged.zeros(2), I32)
    (bits,) = struct.unpack("<i", struct.pack("<f", c.node.real("seed", 0.0)))
    return c.constant(np.array([bits, 1]), I32)


def _target(c: Context, default: np.dtype) -> np.dtype:
    dtype = dtype_of(c.node.integer("dtype", 0), "its output") if c.node.has("dtype") else default
    if dtype.kind != "f":
        raise Unmapped(f"random numbers must be real ones, got {dtype}")
    return dtype


def _given(c: Context, numbers: Value, shape: Sequence[int], dtype: np.dtype) -> Tensor:
    return c.give(c.reshape(numbers, at_least_1d(tuple(shape))), shape, dtype)


def _shape(c: Context) -> tuple[Sequence[int], np.dtype]:
    """The shape and type of the output: those of an input, or attributes."""
    if c.node.op_type.endswith("Like"):
        return c.tensor().shape, _target(c, c.tensor().dtype if c.tensor().dtype.kind == "f" else np.dtype(np.float32))
    shape = c.node.integers("shape")
    if not shape or min(shape) < 1:
        raise Unmapped(f"attribute 'shape' must have positive sizes, got {shape}")
    return shape, _target(c, np.dtype(np.float32))


@operator("RandomUniform", "RandomUniformLike")
def random_uniform(c: Context) -> Tensor:
    """Map RandomUniform: numbers between two bounds, all equally likely."""
    shape, dtype = _shape(c)
    low, high = c.node.real("low", 0.0), c.node.real("high", 1.0)
    (share,) = _uniform(c, math.prod(shape), _seeds(c))
    numbers = with_number(c, Op.ADD, with_number(c, Op.MUL, share, high - low, NONE), low, NONE)
    return _given(c, numbers, shape, dtype)


@operator("RandomNormal", "RandomNormalLike")
def random_normal(c: Context) -> Tensor:
    """Map RandomNormal: numbers of a normal distribution."""
    shape, dtype = _shape(c)
    scaled = with_number(c, Op.MUL, _normal(c, math.prod(shape), _seeds(c)), c.node.real("scale", 1.0), NONE)
    return _given(c, with_number(c, Op.ADD, scaled, c.node.real("mean", 0.0), NONE), shape, dtype)


@operator("Bernoulli")
def bernoulli(c: Context) -> Tensor:
    """Map Bernoulli: 1 as often as each element says. The body in ONNX's definition has it the other way round."""
    dtype = dtype_of(c.node.integer("dtype", 0), "its output") if c.node.has("dtype") else c.tensor().dtype
    shares = c.real_number()
    (share,) = _uniform(c, shares.size, _seeds(c))
    is_one = c.emit(Op.LESS, c.reshape(share, shares.shape), shares, out=BOOL8)
    return c.give(c.cast(is_one, dtype), c.tensor().shape, dtype)
