"""Operators that onnxruntime's optimiser makes of transformers: attention, and sums that are normalised."""

from __future__ import annotations

import math

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen, each, with_number
from nnvk.importers.decompositions.moving import gathered, sliced, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import BOOL8, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import dense, multiplied, units_of
from nnvk.importers.onnx.mappers.reduction import layer_normalised, rms_normalised
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.extension import ExtendedOperationCode

Op = OperationCode

_MASKED = -10000.0
"""The term of scores that don't count."""
_LATER = float(np.finfo(np.float32).min)
"""The term of scores of later keys, which don't count either if all others are masked."""


def _refuse(c: Context, first: int, what: str) -> None:
    """`Unmapped` where an input from a position on is given."""
    given = [position for position in range(first, len(c.inputs)) if c.has(position)]
    if given:
        raise Unmapped(f"{what} (input {given[0]}) is unknown here")


# --- sums that are normalised --------------------------------------------------------------------------------


@operator("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def skip_layer_normalization(c: Context) -> list[Tensor | None]:
    """Map SkipLayerNormalization: normalise the sum of two inputs and a bias. The sum is an output, too."""
    is_simple = c.node.op_type == "SkipSimplifiedLayerNormalization"
    total = c.emit(Op.ADD, c.real_number(0), c.real_number(1), NONE, out=c.real_number(0).type)
    if c.has(at := 3 if is_simple else 4):
        total = c.emit(Op.ADD, total, c.real_number(at), NONE, out=total.type)
    x, axes, epsilon = total, [len(total.shape) - 1], c.node.real("epsilon", 1e-12)
    mean: Value | None = None
    inverse: Value | None = None
    if is_simple:
        y = rms_normalised(c, x, axes, 2, epsilon)
    else:
        y, mean, inverse = layer_normalised(c, x, axes, 2, 3 if c.has(3) else None, epsilon)
    dtype, wide = c.tensor().dtype, np.dtype(np.float32)
    return [
        c.give(c.cast(y, dtype), None, dtype),
        c.give(mean, None, wide) if c.wants(1) and mean is not None else None,
        c.give(inverse, None, wide) if c.wants(2) and inverse is not None else None,
        c.give(total, None, dtype),
    ]


@operator("com.microsoft.EmbedLayerNormalization")
def embed_layer_normalization(c: Context) -> list[Tensor | None]:
    """Map EmbedLayerNormalization: rows of the words, of their places and of their segments."""
    words, dtype = c.tensor(0), c.tensor(2).dtype
    batches, length = words.shape
    total = gathered(c, c.real_number(2), 0, c.number(0))
    if c.has(8):
        places = gathered(c, c.real_number(3), 0, c.number(8))
    else:
        places = gathered(c, c.real_number(3), 0, c.constant(charged.arange(length), I32))
    total = c.emit(Op.ADD, total, places, NONE, out=total.type)
    if c.has(1):
        total = c.emit(Op.ADD, total, gathered(c, c.real_number(4), 0, c.number(1)), NONE, out=total.type)
    y, _, _ = layer_normalised(c, total, [2], 5, 6, c.node.real("epsilon", 1e-12))
    lengths: Tensor | None = None
    if c.wants(1) and c.has(7):
        counted = folded(c, Op.REDUCE_SUM, c.cast(c.number(7), np.dtype(np.float32)), [1])
        lengths = c.give(c.cast(counted, np.dtype(np.int32)), (batches,), np.int32)
    elif c.wants(1):
        lengths = c.give(c.filled(0, I32, (batches,)), (batches,), np.int32)
    return [c.give(c.cast(y, dtype), None, dtype), lengths, c.give(total, None, dtype) if c.wants(2) else None]


# --- attention -----------------------------------------------------------------------------------------------


@operator("com.microsoft.Attention")
def attention(c: Context) -> list[Tensor | None]:
    """Map Attention. One product computes queries, keys and values. A mask has one number for each key."""
    x, heads = c.real_number(), c.node.integer("num_heads", 0)
    batches, length, size = x.shape
    _refuse(c, 4, "what was before, or a bias of scores,")
    weights = c.tensor(1)
    if not weights.is_constant or heads < 1:
        raise Unmapped("the weights (input 1) must be a constant, and num_heads positive")
    sizes = c.node.integers("qkv_hidden_sizes") or [weights.shape[1] // 3] * 3
    if len(sizes) != 3 or sizes[0] != sizes[1] or sum(sizes) != weights.shape[1] or any(one % heads for one in sizes):
        raise Unmapped(f"sizes {sizes} do not fit weights of shape {list(weights.shape)} and {heads} heads")
    bias = c.array(2, "the bias") if c.has(2) else None
    flat = c.reshape(x, (batches * length, size))
    rows = dense(c, flat, units_of(c, weights, flat, by_column=True), bias)
    parts, begin = [], 0
    for one in sizes:
        part = sliced(c, rows, (range(batches * length), range(begin, begin + one)))
        parts.append(_by_head(c, c.reshape(part, (batches, length, one)), heads))
        begin += one
    term = _mask(c, 3, batches, length)
    if c.node.integer("unidirectional", 0):
        later = np.triu(charged.full((length, length), _LATER), 1).reshape(1, 1, length, length)
        term = _both(c, term, c.constant(later, x.type.with_dimensions(())))
    return [_attended(c, parts, term), None]


@operator("com.microsoft.MultiHeadAttention")
def multi_head_attention(c: Context) -> list[Tensor | None]:
    """Map MultiHeadAttention, with separate queries, keys and values, and an optional addend of the scores."""
    heads = c.node.integer("num_heads", 0)
    query = c.real_number(0)
    _refuse(c, 6, "what was before")
    if heads < 1 or len(query.shape) != 3 or not c.has(1) or not c.has(2) or c.node.integer("unidirectional", 0):
        raise Unmapped("queries, keys and values must be apart and of rank 3, and the attention to both sides")
    parts = [query, c.real_number(1), c.real_number(2)]
    if c.has(3):
        sizes = [part.shape[-1] for part in parts]
        ends = np.cumsum([0, *sizes])
        biases = [sliced(c, c.real_number(3), (range(*map(int, ends[one : one + 2])),)) for one in range(3)]
        parts = [
            c.emit(Op.ADD, part, bias, NONE, out=part.type)
            if len(part.shape) == 3
            else c.emit(Op.ADD, part, c.reshape(bias, (1, heads, 1, bias.size // heads)), NONE, out=part.type)
            for part, bias in zip(parts, biases, strict=True)
        ]
    laid = [_by_head(c, part, heads) if len(part.shape) == 3 else part for part in parts]
    term = _mask(c, 4, query.shape[0], laid[1].shape[2])
    if c.has(5):
        term = _both(c, term, c.real_number(5))
    return [_attended(c, laid, term), None, None]


def _by_head(c: Context, x: Value, heads: int) -> Value:
    batches, length, size = x.shape
    if size % heads:
        raise Unmapped(f"{size} numbers don't divide into {heads} heads")
    return transposed(c, c.reshape(x, (batches, length, heads, size // heads)), (0, 2, 1, 3))


def _mask(c: Context, position: int, batches: int, keys: int) -> Value | None:
    """The term of a mask of keys in the scores, where there is a mask."""
    if not c.has(position):
        return None
    mask = c.number(position)
    if mask.shape != (batches, keys):
        raise Unmapped(f"the mask (input {position}) must be {[batches, keys]}, got {list(mask.shape)}")
    is_there = mask if mask.code is BOOL8.code else c.as_bool(mask)
    type_ = c.real_number().type.with_dimensions(())
    added = c.constant(c.node.real("mask_filter_value", _MASKED), type_)
    return c.reshape(chosen(c, is_there, c.constant(0, type_), added), (batches, 1, 1, keys))


def _both(c: Context, first: Value | None, second: Value) -> Value:
    return second if first is None else c.emit(Op.ADD, first, second, NONE, out=first.type)


def _attended(c: Context, parts: list[Value], term: Value | None) -> Tensor:
    """Values weighted by the softmax of scores of queries and keys, the heads beside each other."""
    query, key, value = parts
    scale = c.node.real("scale", 0.0) or 1 / math.sqrt(query.shape[-1])
    scores = with_number(c, Op.MUL, multiplied(c, query, key, adj_y=True), scale, NONE)
    if term is not None:
        scores = c.emit(Op.ADD, scores, term, NONE, out=scores.type)
    result = multiplied(c, c.emit(Op.SOFTMAX, scores, 1.0, out=scores.type), value)
    batches, heads, length, size = result.shape
    return c.give(c.reshape(transposed(c, result, (0, 2, 1, 3)), (batches, length, heads * size)))


# --- products ------------------------------------------------------------------------------------------------


@operator("com.microsoft.FusedMatMul")
def fused_matmul(c: Context) -> Value:
    """Map FusedMatMul: with factors, and with transposed matrices."""
    if c.node.integer("transBatchA", 0) or c.node.integer("transBatchB", 0):
        raise Unmapped("batches that are turned are unknown here")
    turned = [bool(c.node.integer(name, 0)) for name in ("transA", "transB")]
    first, second = c.real_number(0), c.real_number(1)
    if min(len(first.shape), len(second.shape)) < 2:
        raise Unmapped("its inputs must have rank 2 at least")
    if turned[0]:
        rank = len(first.shape)
        first = transposed(c, first, (*range(rank - 2), rank - 1, rank - 2))
    product = multiplied(c, first, second, adj_y=turned[1])
    alpha = c.node.real("alpha", 1.0)
    return product if alpha == 1 else with_number(c, Op.MUL, product, alpha, NONE)


@operator("com.microsoft.QuickGelu")
def quick_gelu(c: Context) -> Value:
    """Map QuickGelu: x times a sigmoid."""
    return each(c, ExtendedOperationCode.SWISH, c.real_number(), c.node.real("alpha", 1.702))
