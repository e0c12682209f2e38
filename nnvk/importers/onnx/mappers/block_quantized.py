"""Operators on weights of a few bits, in blocks with a scale each."""

from __future__ import annotations

import numpy as np

from nnvk.importers import charged
from nnvk.importers.decompositions.block_quantized import Blocks, block_product, block_rows, words_of
from nnvk.importers.decompositions.moving import gathered
from nnvk.importers.emitter import F32
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import dense
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.extension.block_quantized import BITS, WORD_LEVELS
from nnvk.types.operand import OperandType


@operator("com.microsoft.MatMulNBits")
def matmul_n_bits(c: Context) -> Tensor:
    """Map MatMulNBits: weights in blocks with a scale each. Those of 4 bits stay such, those of 8 bits are unpacked."""
    if c.has(4):
        raise Unmapped("an order of groups (input 4) is unknown here")
    if any(c.has(position) for position in range(6, len(c.inputs))):
        raise Unmapped("what follows the bias (input 6) is unknown here")
    size, units, bits = (c.node.integer(name, 0) for name in ("K", "N", "bits"))
    block, packed = c.node.integer("block_size", 0), c.array(1, "the weights")
    scales = c.array(2, "the scales").astype(np.float32)
    blocks = -(-size // block) if block > 0 else 0
    if bits not in (4, 8) or not blocks or packed.dtype != np.uint8 or packed.size * 8 != units * blocks * block * bits:
        raise Unmapped(f"weights of {bits} bits in blocks of {block} are unknown here, or are not {units} x {size}")
    x, shape = c.real_number(), (*c.tensor().shape[:-1], units)
    rows_of_x = c.reshape(x, (x.size // size, size))
    given = c.array(3, "the zero points") if c.has(3) else None
    if given is not None:
        each = -(-blocks * bits // 8) if given.dtype == np.uint8 else blocks
        if given.size != units * each:
            raise Unmapped(f"the zero points must be {units} x {each} of {given.dtype}, got {given.size}")
        given = given.reshape(units, -1)
    bias = c.array(5, "the bias") if c.has(5) else None
    if bits == BITS and block % WORD_LEVELS == 0 and (given is None or given.dtype == np.uint8):
        weights = Blocks(words_of(packed.reshape(units, -1)), scales.reshape(units, blocks), block, words_of(given))
        return c.give(block_product(c, rows_of_x, weights, bias), shape, c.tensor().dtype)

    points: np.ndarray = np.array(1 << (bits - 1), np.float32)
    if given is not None:
        wide = _unpacked(given, bits)[:, :blocks] if given.dtype == np.uint8 else given
        points = wide.reshape(units, blocks, 1).astype(np.float32)
    factors = scales.reshape(units, blocks, 1)

    def real() -> np.ndarray:
        levels = _unpacked(packed.reshape(units, -1), bits).reshape(units, blocks, block)
        found = np.subtract(levels, points, dtype=np.float32)
        found *= factors  # in place, for copies of large constants are large
        return found.reshape(units, -1)[:, :size]

    unpacked = c.deferred((units, size), OperandType(x.code), real)
    return c.give(dense(c, rows_of_x, unpacked, bias), shape, c.tensor().dtype)


@operator("com.microsoft.GatherBlockQuantized")
def gather_block_quantized(c: Context) -> Tensor:
    """Map GatherBlockQuantized: rows of weights in blocks along the last axis. Rows of packed bytes stay packed."""
    packed, scales = c.tensor(0), c.array(2, "the scales")
    levels = c.array(0, "the weights")
    rank = levels.ndim
    gathers, blocks = c.node.integer("gather_axis", 0) % rank, c.node.integer("quantize_axis", 1) % rank
    bits, size = c.node.integer("bits", 4), c.node.integer("block_size", 128)
    is_packed = packed.narrow is None
    if gathers or blocks != rank - 1 or bits not in (4, 8) or size < 16:
        raise Unmapped(f"rows of axis 0 in blocks of the last axis are gathered, got axes {gathers} and {blocks}")
    if rank == 2 and bits == BITS and is_packed and size % WORD_LEVELS == 0:
        return _packed_rows(c, levels, scales, size)
    c.graph.budget.charge(levels.size * 8)
    rows = _unpacked(levels.reshape(-1, levels.shape[-1]), bits) if is_packed else levels.reshape(-1, levels.shape[-1])
    width = rows.shape[1]
    laid = scales.reshape(len(rows), -1).astype(np.float32)
    if laid.shape[1] != -(-width // size):
        raise Unmapped(f"{width} columns in blocks of {size} do not fit scales of shape {list(scales.shape)}")
    points: np.ndarray = charged.full(laid.shape, 1 << (bits - 1) if is_packed else 0, np.float32)
    if c.has(3):
        given = c.array(3, "the zero points")
        flat = given.reshape(len(rows), -1)
        points = (_unpacked(flat, bits)[:, : laid.shape[1]] if is_packed else flat).astype(np.float32)
    places = charged.arange(width) // size
    shape = (*levels.shape[:-1], width)

    def real() -> np.ndarray:
        found: np.ndarray = (rows.astype(np.float32) - points[:, places]) * laid[:, places]
        return found.reshape(shape)

    table = c.deferred(shape, F32, real)
    indices = c.number(1)
    taken = gathered(c, table, 0, indices)
    return c.give(taken, (*c.tensor(1).shape, *shape[1:]), scales.dtype)


def _packed_rows(c: Context, table: np.ndarray, scales: np.ndarray, size: int) -> Tensor:
    """Rows of a table of bytes, which have two levels each."""
    width, (rows, blocks) = 2 * table.shape[1], scales.shape
    if (rows, blocks) != (len(table), -(-width // size)):
        raise Unmapped(f"{width} columns in blocks of {size} do not fit scales of shape {list(scales.shape)}")
    zeros = words_of(c.array(3, "the zero points").reshape(rows, -1)) if c.has(3) else None
    missing = blocks * size // 2 - table.shape[1]
    whole = charged.pad(table, ((0, 0), (0, missing))) if missing else table
    blocks_ = Blocks(words_of(whole), scales.astype(np.float32), size, zeros)
    return c.give(block_rows(c, c.number(1), blocks_, width), (*c.tensor(1).shape, width), scales.dtype)


def _unpacked(rows: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of which two are in a byte, the first in its low half."""
    if bits == 8:
        return rows
    return np.stack([rows & 15, rows >> 4], axis=-1).reshape(rows.shape[0], -1)
