"""Complex numbers: RFFT2D, and what follows it. One of COMPLEX64 is two of FLOAT32, along a last dimension more."""

from __future__ import annotations

import math

import numpy as np

from nnvk.api import OperationCode
from nnvk.importers.decompositions.fourier import transform
from nnvk.importers.decompositions.moving import sliced
from nnvk.importers.emitter import F32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.registry import Mapper, builtin

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
    first = 0 if c.operator.name == "REAL" else 1
    pairs = _pairs(c)
    return c.reshape(sliced(c, pairs, [range(pairs.shape[0]), range(first, first + 1)]), c.input().shape[:-1])


def _pairs(c: Context) -> Value:
    value = c.input()
    if not c.is_complex(0):
        raise Unmapped(f"the input must be of COMPLEX64, got {value.type}")
    return c.reshape(value, (value.size // 2, 2))


def _reshaped(c: Context) -> Value:
    """Complex numbers in another shape, which is the output's."""
    declared = c.declared_shape()
    if declared is None:
        raise Unmapped("complex numbers have a new shape that the file must say")
    return c.reshape(c.input(0), (*declared, 2))


ON_COMPLEX: dict[str, Mapper] = {
    "COMPLEX_ABS": complex_abs,
    **dict.fromkeys(("REAL", "IMAG"), part),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _reshaped),
}
"""The mappers of operators on complex numbers."""
