"""BLOCK_QUANTIZED_FULLY_CONNECTED and BLOCK_QUANTIZED_EMBEDDING_LOOKUP: weights of 4 bits, in blocks with a scale each.

A row of weights is made of blocks of ``block_size`` levels. A word of TENSOR_INT32 has eight levels from 0 to 15, the
first one in the lowest bits, so a row of ``words`` has room for as many levels as whole blocks have. The levels behind
the last column count for nothing. The weight of a level is ``(level - zero_point) * scale`` in float32, where scale and
zero point are those of its block. Zero points are levels too, eight in a word, and 8 where they are left out. It is the
form of com.microsoft.MatMulNBits in ONNX.
"""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.fused import activate, check_activation
from nnvk.ops.gather import check_indices
from nnvk.ops.linear import matrix_product
from nnvk.ops.recurrent import present
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import (
    EXTENSIONS_SINCE,
    F16,
    F32,
    I32,
    NO_ACTIVATION,
    Signature,
    activation,
    i32,
    one_of,
    optional_tensor,
    tensor,
)
from nnvk.ops.traits import Effect, Fp16, Gemm, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

BITS = 4
"""The bits of a level."""
WORD_LEVELS = 8
"""The levels in a word."""
DEFAULT_ZERO_POINT = 8
"""The zero point of all blocks where none are given."""


def unpacked(words: np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` levels of each row of words, uint8."""
    bytes_ = np.ascontiguousarray(words, "<i4").view(np.uint8).reshape(len(words), -1)
    levels = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(len(words), -1)
    return levels[:, :count]


def dequantized(call: Call, size: int, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """The weights [rows, size] of a call, float32: all rows, or those of some indices."""
    block, scales = call.block_size, call.scales.data[rows].astype(np.float32)
    blocks = scales.shape[1]
    levels = unpacked(call.weights.data[rows], blocks * block).reshape(len(scales), blocks, block)
    zeros = np.full(scales.shape, DEFAULT_ZERO_POINT, np.float32)
    if present(call, "zero_points"):
        zeros = unpacked(call.zero_points.data[rows], blocks).astype(np.float32)
    weights = np.subtract(levels, zeros[:, :, np.newaxis], dtype=np.float32)
    weights *= scales[:, :, np.newaxis]  # in place, for copies of large constants are large
    return weights.reshape(len(scales), -1)[:, :size]


def check_blocks(call: Call, size: int) -> None:
    """Raise BAD_DATA unless words, scales and zero points are those of rows of ``size`` columns in whole blocks."""
    block, weights = call.block_size, call.weights
    if block <= 0 or block % WORD_LEVELS:
        raise bad_data(f"block_size must be a positive multiple of {WORD_LEVELS}, got {block}")
    rows, words = weights.shape
    blocks = -(-size // block)
    if words != blocks * block // WORD_LEVELS:
        raise bad_data(
            f"weights must have rows of {blocks * block // WORD_LEVELS} words, {blocks} blocks of {block} levels "
            f"for {size} columns, got shape {list(weights.shape)}"
        )
    check_shape(call.scales, (rows, blocks))
    if present(call, "zero_points"):
        check_shape(call.zero_points, (rows, -(-blocks // WORD_LEVELS)))


# --- products ------------------------------------------------------------------------------------------------


def _infer_product(call: Call) -> list[Shape]:
    check_activation(call.activation)
    rows, size = call.input.shape
    if not size:
        raise bad_data(f"input must have a column at least, got shape {list(call.input.shape)}")
    check_blocks(call, size)
    units = call.weights.shape[0]
    if present(call, "bias"):
        check_shape(call.bias, (units,))
    return [(rows, units)]


def _product(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        weights = dequantized(call, call.input.shape[1])
        sums = matrix_product(call.input.data.astype(np.float32, copy=False), weights.T)
        if present(call, "bias"):
            sums += call.bias.data
        return activate(sums, call.activation, call.output)


define(
    ExtendedOperationCode.BLOCK_QUANTIZED_FULLY_CONNECTED,
    traits=Traits(foldable=False, fp16=Fp16.STARTS, gemm=Gemm("input", "weights", "bias", summed=slice(1, 2))),
    types={F32: EXTENSIONS_SINCE, F16: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("input", rank=2),
        tensor("weights", one_of(I32), rank=2),
        tensor("scales", one_of(F32, F16), rank=2),
        i32("block_size"),
        optional_tensor("zero_points", one_of(I32), rank=2),
        optional_tensor("bias", rank=1),
        activation(NO_ACTIVATION),
    ),
    infer=_infer_product,
    reference=_product,
)


# --- rows ----------------------------------------------------------------------------------------------------


def _infer_rows(call: Call) -> list[Shape]:
    if call.columns < 1:
        raise bad_data(f"columns must be positive, got {call.columns}")
    check_blocks(call, call.columns)
    check_indices(call.lookup, call.weights.shape[0])
    return [(*call.lookup.shape, call.columns)]


def _rows(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        return dequantized(call, call.columns, call.lookup.data).astype(call.output.dtype)


define(
    ExtendedOperationCode.BLOCK_QUANTIZED_EMBEDDING_LOOKUP,
    traits=Traits(foldable=False, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types={F32: EXTENSIONS_SINCE, F16: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("lookup", one_of(I32), rank=1),
        tensor("weights", one_of(I32), rank=2),
        tensor("scales", rank=2),
        i32("block_size"),
        i32("columns"),
        optional_tensor("zero_points", one_of(I32), rank=2),
    ),
    leading="scales",
    infer=_infer_rows,
    reference=_rows,
)
