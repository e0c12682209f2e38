"""Hybrid kernels: 8-bit weights with float activations, which TFLite multiplies as integers.

NNAPI has no such kernels. Weights become real numbers at import. The kernels also round activations to 8 bits
on the way, with a scale for each batch or row that depends on the data; ROUND_ROWS does the same in front, so that
results are TFLite's and not only near them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnvk.api import OperandCode, OperandType
from nnvk.importers import charged
from nnvk.importers.decompositions.block_quantized import Blocks, packed_later
from nnvk.importers.decompositions.moving import transposed
from nnvk.importers.emitter import F32, is_quantised
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.operands import constant
from nnvk.ops.extension.block_quantized import DEFAULT_ZERO_POINT, WORD_LEVELS
from nnvk.types.extension import ExtendedOperationCode


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding of a kernel's activations."""

    axes: tuple[int, ...]
    """The axes that share a scale. The others have a scale for each index."""
    asymmetric: bool
    """Whether the levels cover the range from the smallest to the largest element, instead of a range symmetric about
    0.
    """


def is_hybrid(source: Value, weights: Value) -> bool:
    """Whether quantised weights meet real activations."""
    return is_quantised(weights) and not is_quantised(source)


def real_weights(c: Context, weights: Value) -> Value:
    """Quantised weights of a hybrid kernel as real numbers."""
    if weights.code is OperandCode.TENSOR_QUANT8_ASYMM and weights.is_constant and not weights.type.zero_point:
        # The oldest hybrid models keep signed levels in a tensor of UINT8.
        signed = Value(
            OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, weights.shape, weights.type.scale),
            weights.array.view(np.int8),
        )
        return weights.once("signed", lambda: c.real(signed))
    return c.real(weights)


def four_bit_rows(c: Context, position: int) -> Blocks | None:
    """Constant weights [rows, columns] of INT4 with a scale for each row, or for all, which stay 4 bits; else None."""
    tensor = c.tensor(position)
    if tensor.type != "INT4" or tensor.data is None or len(tensor.shape) != 2 or np.any(tensor.zero_points):
        return None
    rows, columns = tensor.shape
    if not tensor.scales.size or (tensor.scales.size > 1 and tensor.channel_dim):
        return None
    count = columns + -columns % WORD_LEVELS
    words = packed_later(rows, count, lambda: (constant(tensor) + DEFAULT_ZERO_POINT).astype(np.uint8))
    return Blocks(words, charged.broadcast_to(tensor.scales.reshape(-1, 1), (rows, 1)).astype(np.float32), count)


def is_rounded(c: Context, source: Value, weights: Value) -> bool:
    """Whether activations that meet these weights are rounded: of hybrid kernels, where the import asks for it."""
    return c.round_hybrid and is_hybrid(source, weights) and source.code is OperandCode.TENSOR_FLOAT32


def rounded(c: Context, source: Value, rounding: Rounding) -> Value:
    """Real activations, rounded as a hybrid kernel rounds them."""
    rank = len(source.shape)
    order = [*(axis for axis in range(rank) if axis not in rounding.axes), *rounding.axes]
    rows = math.prod(source.shape[axis] for axis in order[: rank - len(rounding.axes)])

    def make() -> Value:
        laid = transposed(c, source, order)
        result = c.emit(ExtendedOperationCode.ROUND_ROWS, laid, rows, rounding.asymmetric, out=F32)
        return transposed(c, result, np.argsort(order).tolist())

    return source.once(rounding, make)


def hybrid(c: Context, source: Value, weights: Value, rounding: Rounding) -> tuple[Value, Value]:
    """Activations and weights for NNAPI: of hybrid kernels as real numbers, of others as they are."""
    if not is_hybrid(source, weights):
        return source, weights
    taken = rounded(c, source, rounding) if is_rounded(c, source, weights) else source
    return taken, real_weights(c, weights)
