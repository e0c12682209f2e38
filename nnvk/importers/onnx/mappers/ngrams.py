"""TfIdfVectorizer: how often n-grams of whole numbers are in rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.importers import charged
from nnvk.importers.bounds import INT32
from nnvk.importers.decompositions.arithmetic import scalar
from nnvk.importers.decompositions.moving import elements_at, sliced
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import joined, padded
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor, constant
from nnvk.types.codes import OperationCode

Op = OperationCode
_MODES = ("TF", "IDF", "TFIDF")
_MOST_OUTPUTS = 1 << 20
_MOST_COMPARISONS = 4096


@dataclass(frozen=True, slots=True)
class Grams:
    """The n-grams of one size that are counted."""

    numbers: np.ndarray
    """[n-grams, size]."""
    places: np.ndarray
    """The element of the output for each."""
    weights: np.ndarray


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(c: Context) -> Tensor:
    """Map TfIdfVectorizer of whole numbers: windows of each row are compared with all n-grams of a size."""
    source, mode = c.tensor(), c.node.text("mode", "")
    if source.rank > 2 or source.dtype.kind not in "iu":
        raise Unmapped(f"the input must be whole numbers of rank 1 or 2, got {source.dtype} {list(source.shape)}")
    if mode not in _MODES:
        raise Unmapped(f"attribute 'mode' must be one of {list(_MODES)}, got '{mode}'")
    pools, outs = _pools(c)
    shape = (*source.shape[:-1], outs)
    counts, found = [], []
    if source.size:
        length = source.shape[-1] if source.rank else 1
        rows = c.reshape(c.number(), (source.size // length, length))
        for pool in pools:
            total = _counted(c, rows, pool)
            if total is not None:
                counts.append(total)
                found.append(pool)
    if not counts:
        return constant(charged.zeros(shape, np.float32))
    value = joined(c, counts, 1) if len(counts) > 1 else counts[0]
    is_weighted = mode != "TF" and c.node.has("weights")
    if is_weighted:
        weights = np.concatenate([pool.weights for pool in found])
        if mode == "IDF":
            value = _present(c, value)
        value = c.emit(Op.MUL, value, c.constant(weights.reshape(1, -1), F32), NONE, out=F32)
    value = _placed(c, value, np.concatenate([pool.places for pool in found]), outs)
    if mode == "IDF" and not is_weighted:
        value = _present(c, value)
    return c.give(value, shape, np.float32)


def _present(c: Context, counts: Value) -> Value:
    """1 for each count above 0."""
    return c.as_number(c.emit(Op.GREATER, counts, scalar(c, 0.0, counts), out=BOOL8), F32)


def _pools(c: Context) -> tuple[list[Grams], int]:
    """The n-grams of each size that is counted, and how many elements a row of the output has."""
    pool, starts, places = (c.node.integers(name) for name in ("pool_int64s", "ngram_counts", "ngram_indexes"))
    if pool is None:
        raise Unmapped("attribute 'pool_int64s' is missing, and NNAPI has no text")
    if not starts or not places or min(places) < 0 or max(places) >= _MOST_OUTPUTS:
        raise Unmapped(f"attributes 'ngram_counts' and 'ngram_indexes' must have places below {_MOST_OUTPUTS}")
    weights = c.node.reals("weights") or [1.0] * len(places)
    if len(weights) != len(places):
        raise Unmapped(f"attribute 'weights' must have {len(places)} numbers, one for each n-gram, got {len(weights)}")
    if c.node.text("mode", "") == "IDF" and c.node.has("weights") and len(set(places)) != len(places):
        raise Unmapped("n-grams at one place have no weight in mode IDF")
    least, most = c.node.integer("min_gram_length", 0), c.node.integer("max_gram_length", 0)
    if not 1 <= least <= most:
        raise Unmapped(f"lengths of n-grams must be from 1 up, got {least} to {most}")
    pools, seen = [], 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        if not 0 <= start <= end <= len(pool) or (end - start) % size:
            raise Unmapped(f"attribute 'ngram_counts' has no whole n-grams of {size} from {start} to {end}")
        numbers = np.array(pool[start:end], np.int64).reshape(-1, size)
        own, factors = (np.array(each[seen : seen + len(numbers)]) for each in (places, weights))
        seen += len(numbers)
        if len(own) != len(numbers) or len(np.unique(numbers, axis=0)) != len(numbers):
            raise Unmapped(f"the n-grams of {size} must differ and have a place each")
        known = ((numbers >= INT32[0]) & (numbers <= INT32[1])).all(axis=1)  # no input has others
        if least <= size <= most and known.any():
            pools.append(Grams(numbers[known], own[known], factors[known]))
    return pools, max(places) + 1


def _counted(c: Context, rows: Value, pool: Grams) -> Value | None:
    """[rows, n-grams]: how often each is in a row, with each number of skips. None: the rows are too short."""
    count, size = pool.numbers.shape
    length = rows.shape[1]
    skips = c.node.integer("max_skip_count", 0)
    if skips < 0:
        raise Unmapped(f"attribute 'max_skip_count' must be from 0 up, got {skips}")
    reach = range(1, (min(skips + 1, (length - 1) // (size - 1)) if size > 1 else 1) + 1)
    if len(reach) * size > _MOST_COMPARISONS:
        raise Unmapped(f"n-grams of {size} with {skips} skips in rows of {length} are too many")
    wanted = [c.constant(column.reshape(1, 1, count), I32) for column in pool.numbers.T]
    total: Value | None = None
    for step in reach:
        windows = length - (size - 1) * step
        found: Value | None = None
        for place in range(size):
            taken = sliced(c, rows, [range(rows.shape[0]), range(place * step, place * step + windows)])
            same = c.emit(Op.EQUAL, c.reshape(taken, (*taken.shape, 1)), wanted[place], out=BOOL8)
            found = same if found is None else c.emit(Op.LOGICAL_AND, found, same, out=BOOL8)
        assert found is not None
        sums = c.reshape(folded(c, Op.REDUCE_SUM, c.as_number(found, F32), [1]), (rows.shape[0], count))
        total = sums if total is None else c.emit(Op.ADD, total, sums, NONE, out=F32)
    return total


def _placed(c: Context, counts: Value, places: np.ndarray, outs: int) -> Value:
    """Columns at their places among ``outs``; those of one place are added up, and a place without one is 0."""
    none = counts.shape[1]
    wide = padded(c, counts, [0, 0], [0, 1], 0.0)
    total: Value | None = None
    left = charged.arange(none)
    while left.size:
        _, first = np.unique(places[left], return_index=True)
        columns = charged.full(outs, none)
        columns[places[left[first]]] = left[first]
        left = np.delete(left, first)
        one = elements_at(c, wide, 1, columns)
        total = one if total is None else c.emit(Op.ADD, total, one, NONE, out=F32)
    assert total is not None
    return total
