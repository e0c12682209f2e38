"""Rotary embeddings, and attention in which several heads of queries share a head of keys and values."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import each, with_number
from nnvk.importers.decompositions.moving import gathered, sliced, strided, transposed
from nnvk.importers.emitter import F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import multiplied
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode
_MASKED = -1e30
"""The term of scores that do not count."""


def _rotated(c: Context, x: Value, cosines: Value, sines: Value, *, interleaved: bool) -> Value:
    """Pairs of elements of [batch, length, heads, size], each turned by the angle of its place.

    ``cosines`` and ``sines`` are [batch or 1, length, pairs]. Elements behind the pairs stay as they are.
    """
    batches, length, heads, size = x.shape
    pairs = cosines.shape[2]
    if 2 * pairs > size:
        raise Unmapped(f"the caches have {pairs} angles for heads of {size} elements")
    cosines, sines = (c.reshape(one, (one.shape[0], length, 1, pairs)) for one in (cosines, sines))
    whole = [range(batches), range(length), range(heads)]
    halves = (
        (range(0, 2 * pairs, 2), range(1, 2 * pairs, 2)) if interleaved else (range(pairs), range(pairs, 2 * pairs))
    )
    first, second = (strided(c, x, [*whole, half]) for half in halves)

    def product(one: Value, other: Value) -> Value:
        return c.emit(Op.MUL, one, other, NONE, out=F32)

    real = c.emit(Op.SUB, product(first, cosines), product(second, sines), NONE, out=F32)
    imaginary = c.emit(Op.ADD, product(first, sines), product(second, cosines), NONE, out=F32)
    if interleaved:
        columns = [c.reshape(one, (batches * length, heads * pairs, 1)) for one in (real, imaginary)]
        turned = c.reshape(joined(c, columns, 2), (batches, length, heads, 2 * pairs))
    else:
        turned = joined(c, [real, imaginary], 3)
    if 2 * pairs == size:
        return turned
    return joined(c, [turned, sliced(c, x, [*whole, range(2 * pairs, size)])], 3)


@operator("com.microsoft.RotaryEmbedding")
def rotary_embedding(c: Context) -> Tensor:
    """Map RotaryEmbedding of rows [batch, length, heads * size] or of heads [batch, heads, length, size]."""
    x, is_split = c.real_number(), c.tensor().rank == 4
    if c.node.integer("is_packed_batching", 0) or c.node.real("scale", 1.0) != 1 or c.tensor().rank not in (3, 4):
        raise Unmapped("the input must have rank 3 or 4, without packed batches and scale")
    pairs = c.tensor(2).shape[1]
    if is_split:
        rows = transposed(c, x, (0, 2, 1, 3))
    else:
        batches, length, size = x.shape
        heads = c.node.integer("num_heads", 0) or size // (2 * pairs)
        if not heads or size % heads:
            raise Unmapped(f"{size} numbers do not divide into {heads} heads")
        rows = c.reshape(x, (batches, length, heads, size // heads))
    places = _places(c, rows.shape[0], rows.shape[1])
    cosines, sines = (gathered(c, c.real_number(position), 0, places) for position in (2, 3))
    turned = _rotated(c, rows, cosines, sines, interleaved=bool(c.node.integer("interleaved", 0)))
    result = transposed(c, turned, (0, 2, 1, 3)) if is_split else turned
    return c.give(c.reshape(result, x.shape), c.tensor().shape, c.tensor().dtype)


def _places(c: Context, batches: int, length: int) -> Value:
    """The place of each row (input 1), which has one for all or the first of consecutive ones."""
    given = c.number(1)
    if given.size == 1:
        consecutive = c.constant(charged.arange(length).reshape(1, length), I32)
        return c.emit(Op.ADD, c.reshape(given, (1, 1)), consecutive, NONE, out=I32)
    if given.shape != (batches, length):
        raise Unmapped(f"the places (input 1) must have shape {[batches, length]}, got {list(given.shape)}")
    return given


@operator("com.microsoft.GroupQueryAttention")
def group_query_attention(c: Context) -> list[Tensor | None]:
    """Map GroupQueryAttention. Lengths must be known: sequences are as long as what was before and the input."""
    query, key, value = _inputs(c)
    batches, length, heads, size = query.shape
    shared = key.shape[2]
    before = c.tensor(3).shape[2] if c.has(3) else 0
    _check_lengths(c, batches, before + length)
    if c.node.integer("do_rotary", 0):
        angles = [
            c.reshape(
                sliced(c, cache, (range(before, before + length), range(cache.shape[1]))), (1, length, cache.shape[1])
            )
            for cache in (c.real_number(7), c.real_number(8))
        ]
        is_interleaved = bool(c.node.integer("rotary_interleaved", 0))
        query, key = (_rotated(c, one, angles[0], angles[1], interleaved=is_interleaved) for one in (query, key))
    keys, values = (transposed(c, one, (0, 2, 1, 3)) for one in (key, value))
    if before:
        keys, values = (joined(c, [c.real_number(position), one], 2) for position, one in ((3, keys), (4, values)))
    whole = before + length
    group = heads // shared
    laid = c.reshape(transposed(c, query, (0, 2, 1, 3)), (batches, shared, group * length, size))
    scale = c.node.real("scale", 0.0) or 1 / math.sqrt(size)
    scores = with_number(c, Op.MUL, multiplied(c, laid, keys, adj_y=True), scale, NONE)
    cap = c.node.real("softcap", 0.0)
    if cap:
        bent = each(c, Op.TANH, with_number(c, Op.DIV, scores, cap, NONE))
        scores = with_number(c, Op.MUL, bent, cap, NONE)
    rows = c.reshape(scores, (batches * heads, length, whole))
    mask = _causal(before, length, c.node.integer("local_window_size", -1))
    rows = c.emit(Op.ADD, rows, c.constant(mask, F32), NONE, out=F32)
    weights = c.reshape(c.emit(Op.SOFTMAX, rows, 1.0, out=F32), (batches, shared, group * length, whole))
    result = c.reshape(multiplied(c, weights, values), (batches, heads, length, size))
    result = c.reshape(transposed(c, result, (0, 2, 1, 3)), (batches, length, heads * size))
    return [c.give(result), *(c.give(one) for one in (keys, values))]


def _inputs(c: Context) -> tuple[Value, Value, Value]:
    """Queries, keys and values [batch, length, heads, size], which may be columns of one input."""
    heads, shared = c.node.integer("num_heads", 0), c.node.integer("kv_num_heads", 0)
    extra = [position for position in range(9, len(c.inputs)) if c.has(position)]
    if extra or c.node.integer("smooth_softmax", 0) > 0:
        raise Unmapped(f"a smooth softmax and further inputs are unknown here, got inputs {extra}")
    if heads < 1 or shared < 1 or heads % shared:
        raise Unmapped(f"{heads} heads of queries cannot share {shared} heads of keys")
    whole = c.real_number(0)
    batches, length, size = whole.shape
    if not c.has(1):
        one = size // (heads + 2 * shared)
        split = c.reshape(whole, (batches, length, heads + 2 * shared, one))
        full, ends = [range(batches), range(length)], (0, heads, heads + shared, heads + 2 * shared)
        parts = [sliced(c, split, [*full, range(*ends[at : at + 2]), range(one)]) for at in range(3)]
    else:
        counts = (heads, shared, shared)
        given = [whole, c.real_number(1), c.real_number(2)]
        for part, count in zip(given, counts, strict=True):
            if part.shape[:2] != (batches, length) or part.shape[2] % count:
                raise Unmapped(f"an input of shape {list(part.shape)} has no {count} heads of {length} rows")
        parts = [
            c.reshape(part, (batches, length, count, part.shape[2] // count))
            for part, count in zip(given, counts, strict=True)
        ]
    return parts[0], parts[1], parts[2]


def _check_lengths(c: Context, batches: int, whole: int) -> None:
    total = int(c.scalar(6, "the length of all"))
    known = c.tensor(5).known_array
    if total != whole or (known is not None and np.any(known != whole - 1)):
        raise Unmapped(f"sequences must be {whole} long, what was before and the input, got {total}: no part is free")
    if known is None and batches > 1:
        c.array(5, "the last places")


def _causal(before: int, length: int, window: int) -> np.ndarray:
    """The term of scores [1, length, before + length]: rows see their own place and those before, up to a window."""
    rows, columns = charged.arange(before, before + length), charged.arange(before + length)
    hidden = charged.outer(np.less, rows, columns)
    if window > 0:
        hidden |= charged.outer(np.greater_equal, rows - window, columns)
    mask: np.ndarray = np.where(hidden, _MASKED, 0).reshape(1, length, before + length)
    return mask
