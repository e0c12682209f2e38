"""Fourier transforms: products with constant matrices. Complex numbers have two parts along the last dimension."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.moving import sliced, transposed
from nnvk.importers.emitter import F32, NONE, Emitter
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode

Op = OperationCode
_CHUNK = 1 << 16
"""The weights of a matrix that are computed at once: in float64 and by several steps they take much more room."""


def transform(c: Emitter, source: Value, length: int, outs: int, *, inverse: bool = False) -> Value:
    """The first ``outs`` numbers of the transforms of this length along axis 1: [before, outs, behind, 2].

    ``source``: [before, size, behind, 1], or [..., 2] for complex numbers. It is cut or padded with zeros to the
    length.
    """
    taken, parts = min(source.shape[1], length), source.shape[3]

    def weights(rows: np.ndarray) -> np.ndarray:
        cosines, sines = _waves(rows, taken, length)
        sines = sines if inverse else -sines
        of_real = np.stack([cosines, sines], axis=1)
        of_imaginary = np.stack([-sines, cosines], axis=1)
        found = np.stack([of_real, of_imaginary][:parts], axis=-1)  # [outs, 2, taken, parts]
        return found / length if inverse else found

    return _multiplied(c, source, (outs, 2, taken, parts), weights)


def to_real(c: Emitter, source: Value, length: int) -> Value:
    """The inverse transform along axis 1 to real numbers [before, length, behind, 1].

    ``source`` [before, size, behind, 2] is the beginning of the spectrum. The rest follows from its symmetry.
    """
    taken = min(source.shape[1], length // 2 + 1)
    numbers = charged.arange(taken)
    times = np.where((numbers == 0) | (2 * numbers == length), 1, 2).reshape(-1, 1)  # with its mirror image

    def weights(rows: np.ndarray) -> np.ndarray:
        cosines, sines = _waves(rows, taken, length)
        return np.stack([cosines, -sines], axis=-1) * times / length

    return _multiplied(c, source, (length, 1, taken, 2), weights)


def _waves(rows: np.ndarray, taken: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and sines of some outs [rows, taken], exactly 0 at the multiples of pi / 2 where they vanish."""
    angles = charged.outer(np.multiply, rows, charged.arange(taken)) % length * (2 * np.pi / length)
    return np.cos(angles).round(12), np.sin(angles).round(12)


def _multiplied(
    c: Emitter, source: Value, shape: tuple[int, int, int, int], weights: Callable[[np.ndarray], np.ndarray]
) -> Value:
    """``source`` times a matrix; ``weights`` gives those of some outs, [outs, parts, taken, given]."""
    outs, parts, taken, _ = shape
    before, _, behind, given = source.shape

    def matrix() -> np.ndarray:
        found = np.empty((outs, parts * taken * given), np.float32)  # the constant itself, which has been charged
        step = max(1, _CHUNK // found.shape[1])
        for first in range(0, outs, step):
            rows = charged.arange(first, min(first + step, outs))
            found[first : first + step] = weights(rows).reshape(len(rows), -1)
        return found

    factors = c.computed((outs * parts, taken * given), F32, matrix)
    source = sliced(c, source, [range(before), range(taken), range(behind), range(given)])
    rows = c.reshape(transposed(c, source, [0, 2, 1, 3]), (before * behind, taken * given))
    product = c.emit(Op.FULLY_CONNECTED, rows, factors, c.filled(0, F32, (outs * parts,)), NONE, out=F32)
    return transposed(c, c.reshape(product, (before, behind, outs, parts)), [0, 2, 1, 3])
