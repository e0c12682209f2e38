"""Fourier transforms: products with constant matrices. Complex numbers have two parts along the last dimension."""

from __future__ import annotations

import numpy as np

from nnvk.importers.decompositions.moving import sliced, transposed
from nnvk.importers.emitter import F32, NONE, Emitter
from nnvk.importers.graph_builder import Value
from nnvk.types.codes import OperationCode

Op = OperationCode


def transform(c: Emitter, source: Value, length: int, outs: int, *, inverse: bool = False) -> Value:
    """The first ``outs`` numbers of the transforms of this length along axis 1: [before, outs, behind, 2].

    ``source``: [before, size, behind, 1], or [..., 2] for complex numbers. It is cut or padded with zeros to the
    length.
    """
    taken, parts = min(source.shape[1], length), source.shape[3]
    cosines, sines = _waves(outs, taken, length)
    sines = sines if inverse else -sines
    of_real = np.stack([cosines, sines], axis=1)
    of_imaginary = np.stack([-sines, cosines], axis=1)
    weights = np.stack([of_real, of_imaginary][:parts], axis=-1)  # [outs, 2, taken, parts]
    return _multiplied(c, source, weights / length if inverse else weights)


def to_real(c: Emitter, source: Value, length: int) -> Value:
    """The inverse transform along axis 1 to real numbers [before, length, behind, 1].

    ``source`` [before, size, behind, 2] is the beginning of the spectrum. The rest follows from its symmetry.
    """
    taken = min(source.shape[1], length // 2 + 1)
    cosines, sines = _waves(length, taken, length)
    numbers = np.arange(taken)
    times = np.where((numbers == 0) | (2 * numbers == length), 1, 2)[:, np.newaxis]  # with its mirror image
    weights = np.stack([cosines, -sines], axis=-1) * times / length
    return _multiplied(c, source, weights[:, np.newaxis])


def _waves(outs: int, taken: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and sines [outs, taken], exactly 0 at the multiples of pi / 2 where they vanish."""
    angles = np.outer(np.arange(outs), np.arange(taken)) % length * (2 * np.pi / length)
    return np.cos(angles).round(12), np.sin(angles).round(12)


def _multiplied(c: Emitter, source: Value, weights: np.ndarray) -> Value:
    outs, parts, taken, _ = weights.shape
    before, _, behind, given = source.shape
    source = sliced(c, source, [range(before), range(taken), range(behind), range(given)])
    rows = c.reshape(transposed(c, source, [0, 2, 1, 3]), (before * behind, taken * given))
    matrix = c.constant(weights.reshape(outs * parts, taken * given), F32)
    product = c.emit(Op.FULLY_CONNECTED, rows, matrix, c.filled(0, F32, (outs * parts,)), NONE, out=F32)
    return transposed(c, c.reshape(product, (before, behind, outs, parts)), [0, 2, 1, 3])
