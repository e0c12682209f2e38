"""Complex numbers: RFFT2D, and what follows it. One of COMPLEX64 is two of FLOAT32, along a last dimension more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.api import FuseCode, OperationCode
from nnvk.importers.decompositions.arithmetic import broadcast_shape
from nnvk.importers.decompositions.fourier import transform
from nnvk.importers.decompositions.moving import sliced, transposed
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value, at_least_1d
from nnvk.importers.ports import COMPLEX
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.mappers.elementwise import cast as real_cast
from nnvk.importers.tflite.mappers.shape import expanded, reshaped, squeezed
from nnvk.importers.tflite.registry import Mapper, builtin
from nnvk.types.operand import Shape

Op = OperationCode


@builtin("RFFT2D")
def rfft2d(c: Context) -> Value:
    """Map RFFT2D to products with constant matrices, along the rows and then along the columns.

    The input is cut, or filled up with zeros, to the length of the transform.
    """
    source, lengths = c.input(0), c.ints(1, "the lengths")
    if len(lengths) != 2 or min(lengths) < 1 or len(source.shape) < 2:
        raise Unmapped(f"there must be two lengths from 1 on, got {lengths} for an input of shape {list(source.shape)}")
    *leading, height, width = source.shape
    batches, bins = math.prod(leading), lengths[1] // 2 + 1
    source = sliced(c, source, [*map(range, leading), range(rows := min(height, lengths[0])), range(width)])
    spectra = transform(c, c.reshape(source, (batches * rows, width, 1, 1)), lengths[1], bins)
    if lengths[0] > 1:
        spectra = transform(c, c.reshape(spectra, (batches, rows, bins, 2)), lengths[0], lengths[0])
    return c.reshape(spectra, (*leading, lengths[0], bins, 2))


@builtin("COMPLEX_ABS")
def complex_abs(c: Context) -> Value:
    """Map COMPLEX_ABS: the root of the sum of both squares."""
    pairs = _pairs(c)
    squares = c.emit(Op.MUL, pairs, pairs, NONE, out=F32)
    sums = c.emit(Op.REDUCE_SUM, squares, np.array([1]), False, out=F32)
    return c.reshape(c.emit(Op.SQRT, sums, out=F32), c.input().shape[:-1])


@builtin("REAL", "IMAG")
def part(c: Context) -> Value:
    """Map REAL and IMAG: every other number."""
    return part_of(c, 0, 0 if c.operator.name == "REAL" else 1)


def part_of(c: Context, position: int, number: int) -> Value:
    """The real (0) or imaginary (1) parts of an input."""
    pairs = _pairs(c, position)
    parts = sliced(c, pairs, [range(pairs.shape[0]), range(number, number + 1)])
    return c.reshape(parts, c.input(position).shape[:-1])


def _pairs(c: Context, position: int = 0) -> Value:
    value = c.input(position)
    if not c.is_complex(position):
        raise Unmapped(f"the input must be of COMPLEX64, got {value.type}")
    return c.reshape(value, (value.size // 2, 2))


def _shaped(shape: Callable[[Context, Shape], Shape]) -> Mapper:
    """Complex numbers in another shape, by the function that tells it from the input's."""

    def mapper(c: Context) -> Value:
        value = c.input(0)
        return c.reshape(value, (*at_least_1d(shape(c, value.shape[:-1])), 2))

    return mapper


def _turned(c: Context) -> Value:
    """Complex numbers with their axes in another order."""
    value = c.input(0)
    return transposed(c, value, [*c.ints(1, "the permutation"), len(value.shape) - 1])


def _product(c: Context) -> Value:
    """The product of complex numbers that broadcast."""
    if c.fuse(c.options("MulOptions")) is not FuseCode.NONE or not (c.is_complex(0) and c.is_complex(1)):
        raise Unmapped("complex numbers are multiplied by complex numbers, without an activation")
    (a, b), (x, y) = ([part_of(c, position, number) for number in range(2)] for position in range(2))
    shape = broadcast_shape(a, x)

    def times(one: Value, other: Value) -> Value:
        return c.emit(Op.MUL, one, other, NONE, out=F32)

    real = c.emit(Op.SUB, times(a, x), times(b, y), NONE, out=F32)
    imaginary = c.emit(Op.ADD, times(a, y), times(b, x), NONE, out=F32)
    pairs = [c.reshape(one, (math.prod(shape), 1)) for one in (real, imaginary)]
    return c.reshape(c.emit(Op.CONCATENATION, *pairs, 1, out=F32), (*shape, 2))


def _cast(c: Context) -> Value | Sequence[Value]:
    """The real parts in another type, as in LiteRT."""
    if c.output().type == COMPLEX:
        return c.input(0)
    return real_cast(c.with_inputs([part_of(c, 0, 0)]))


ON_COMPLEX: dict[str, Mapper] = {
    "CAST": _cast,
    "COMPLEX_ABS": complex_abs,
    **dict.fromkeys(("REAL", "IMAG"), part),
    "MUL": _product,
    "RESHAPE": _shaped(reshaped),
    "SQUEEZE": _shaped(squeezed),
    "EXPAND_DIMS": _shaped(expanded),
    "TRANSPOSE": _turned,
}
"""The mappers of operators on complex numbers."""
