"""Products with weights of 4 bits in blocks with a scale each, and rows of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

import numpy as np

from nnvk.importers import charged
from nnvk.importers.emitter import F32, I32, Emitter
from nnvk.importers.graph_builder import Value
from nnvk.ops.extension.block_quantized import WORD_LEVELS
from nnvk.types.codes import FuseCode
from nnvk.types.constant import Constant, DeferredConstant
from nnvk.types.extension import ExtendedOperationCode

_WORD = 4
"""Bytes of a word."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of weights of 4 bits, as BLOCK_QUANTIZED_FULLY_CONNECTED has them."""

    words: Constant
    """The levels, [rows, words], INT32."""
    scales: np.ndarray
    """[rows, blocks], float32."""
    size: int
    """Levels of a block."""
    zero_points: np.ndarray | None = None
    """The levels of zero points, [rows, words]; None if all are 8."""


@overload
def words_of(rows: np.ndarray) -> np.ndarray: ...
@overload
def words_of(rows: None) -> None: ...
def words_of(rows: np.ndarray | None) -> np.ndarray | None:
    """Rows of bytes as rows of words, with zeros behind the last byte; a view where they are whole words."""
    if rows is None:
        return None
    missing = -rows.shape[1] % _WORD
    whole = charged.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
    return whole.view("<i4")


def packed(levels: np.ndarray, count: int) -> np.ndarray:
    """Rows of levels from 0 to 15 as rows of words that have room for ``count`` of them, a multiple of 8."""
    padded = charged.zeros((len(levels), count), np.uint8)
    padded[:, : levels.shape[1]] = levels
    return words_of(padded[:, ::2] | padded[:, 1::2] << 4)


def packed_later(rows: int, count: int, levels: Callable[[], np.ndarray]) -> DeferredConstant:
    """`packed` levels, of so many rows, which are made when they are read."""
    shape = rows, count // WORD_LEVELS
    return DeferredConstant(shape, np.dtype(np.int32), lambda: packed(levels(), count))


def block_product(
    c: Emitter, rows: Value, weights: Blocks, bias: Value | np.ndarray | None, fuse: FuseCode = FuseCode.NONE
) -> Value:
    """The product of rows [n, k] and weights [m, k], with a bias [m]."""
    return c.emit(
        ExtendedOperationCode.BLOCK_QUANTIZED_FULLY_CONNECTED,
        rows,
        *_parameters(c, weights),
        _words(c, weights.zero_points),
        c.constant(bias, rows.type) if isinstance(bias, np.ndarray) else bias,
        fuse,
        out=rows.type,
    )


def block_rows(c: Emitter, indices: Value, table: Blocks, columns: int) -> Value:
    """The rows of a table at indices of any shape, FLOAT32."""
    taken = c.emit(
        ExtendedOperationCode.BLOCK_QUANTIZED_EMBEDDING_LOOKUP,
        c.reshape(indices, (indices.size,)),
        *_parameters(c, table),
        columns,
        _words(c, table.zero_points),
        out=F32,
    )
    return c.reshape(taken, (*indices.shape, columns))


def _parameters(c: Emitter, weights: Blocks) -> tuple[Value | None, Value, int]:
    return _words(c, weights.words), c.constant(weights.scales, F32), weights.size


def _words(c: Emitter, words: Constant | None) -> Value | None:
    return None if words is None else c.graph.kept(I32.with_dimensions(words.shape), words)
