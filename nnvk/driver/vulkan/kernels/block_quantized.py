"""BLOCK_QUANTIZED_FULLY_CONNECTED and ..._EMBEDDING_LOOKUP: weights keep their 4 bits in the memory of the device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.copies.convert import CONVERT
from nnvk.driver.vulkan.lowering.copies.move import MOVE, move
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import dtype
from nnvk.driver.vulkan.lowering.gemm import epilogue
from nnvk.driver.vulkan.lowering.gemm.epilogue import Target, accumulated, filter_output
from nnvk.driver.vulkan.lowering.gemm.gemm import epilogue_channels, refuse_long_sums
from nnvk.driver.vulkan.lowering.gemm.problem import Fused, Gemm, Operands
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import LANES, uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, weights_of
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel, kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.block_quantized import WORD_LEVELS
from nnvk.ops.recurrent import present
from nnvk.types.constant import deferred_bytes
from nnvk.types.extension import ExtendedOperationCode

BLOCK_QUANTIZED = Shader(
    "block_quantized",
    where=epilogue.exists,
    DTYPE=("f32", "f16"),
    TILE=("subgroup", "register"),
    EPILOGUE=epilogue.EPILOGUES,
)
BLOCK_QUANTIZED_ROWS = Shader("block_quantized_rows", INDICES=("checked", "known"), DTYPE=("f32", "f16"))

_LOCAL = 64
_WORDS = 4
"""Words of each output in a round of the shader."""
_SLICES = 16
"""The most invocations that divide K among them."""
_ROWS = 1, 2, 4, 8
"""Rows of an invocation: with more there are more sums than registers."""
_QUICK_ROWS = 4
"""The most rows of an invocation whose shader drivers compile quickly."""
_ACROSS = 8
"""Invocations of a workgroup along rows, on GPUs."""
_GROUPS = 2
"""Workgroups that keep a unit of a GPU busy."""
_UNPACK, _MULTIPLY = 16, 5
"""Instructions for four weights to be unpacked, and to be multiplied with the input of a row."""


@dataclass(frozen=True, slots=True)
class BlockQuantizedTile:
    """The work of a workgroup, which computes 32 outputs."""

    rows: int
    """The rows of an invocation."""
    across: int
    """Invocations of a workgroup along rows, or along K."""
    slices: int
    """The parts of K that are added up by themselves: 1 or ``across``."""

    def groups(self, rows: int, outputs: int) -> int:
        """Workgroups for a product of ``rows`` by ``outputs``."""
        of_group = self.rows * (1 if self.slices > 1 else self.across)
        return -(-rows // of_group) * -(-outputs // BLOCK)

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.across} across, K in {self.slices}"


def tiles(rows: int, outputs: int, rounds: int, device: DeviceProfile) -> list[BlockQuantizedTile]:
    """The candidates for a product, the one that is thought to be the fastest first."""
    by_cost = sorted(_ROWS, key=lambda each: (-(-rows // each) * (_UNPACK + _MULTIPLY * each), each))
    if device.is_cpu:
        return [BlockQuantizedTile(each, 1, 1) for each in by_cost]
    slices = min(_SLICES, rounds)
    found = [BlockQuantizedTile(each, slices, slices) for each in by_cost] if slices > 1 else []
    whole = [BlockQuantizedTile(each, _ACROSS, 1) for each in by_cost]
    # K is divided where the rows alone don't keep the device busy.
    is_busy = whole[0].groups(rows, outputs) >= _GROUPS * device.units
    return whole + found if is_busy or not found else found + whole


def _refuse(call: Call) -> str | None:
    return refuse_long_sums((1, 1), call.input.shape[1])


@gemm_kernel(
    ExtendedOperationCode.BLOCK_QUANTIZED_FULLY_CONNECTED,
    shaders=(BLOCK_QUANTIZED, MOVE, CONVERT, ARRANGE),
    refuse=_refuse,
    epilogue_channels=epilogue_channels,
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """Lower to one dispatch."""
    (rows, size), (_, outputs) = call.input.shape, call.output.shape
    block_words, blocks = call.block_size // WORD_LEVELS, call.scales.shape[1]
    rounds = -(-size // (_WORDS * WORD_LEVELS))
    candidates = [tile for tile in tiles(rows, outputs, rounds, g.device) if tile.slices == 1 or not g.reproducible]
    in_order = ["reproducible"] if g.reproducible else []
    tile = g.choose(
        g.tuning_key("4 bits", rows, outputs, size, call.block_size, *in_order),
        candidates,
        is_quick=lambda each: each.rows <= _QUICK_ROWS,
    )
    by_subgroups = uses_subgroups(g.device)
    has_zeros = present(call, "zero_points")
    bias = call.bias if present(call, "bias") else None
    operands = Operands(call.code, call.input, weights_of(call.weights), bias, call.output, call.activation)
    operands = operands.fused_with(fused)
    gemm = Gemm.of_rows(rows, size, outputs)
    output, target = filter_output(g, operands, gemm), Target.of(g, operands, gemm)
    weights, scales = _in_blocks(g, call.weights, rounds * _WORDS), _in_blocks(g, call.scales, blocks)
    g.dispatch(
        BLOCK_QUANTIZED.variant(
            DTYPE=dtype(call.input), TILE="subgroup" if by_subgroups else "register", EPILOGUE=operands.variant
        ),
        groups=g.flat(tile.groups(rows, outputs), 1),
        spec={
            **output.spec,
            "local_x": LANES,
            "local_y": tile.across,
            "VECTOR_STORES": outputs % 4 == 0,
            "ROWS": tile.rows,
            "SLICES": tile.slices,
            "BLOCK_WORDS": block_words,
            "SAME": math.gcd(block_words, _WORDS),
            "ZERO_POINTS": has_zeros,
            "VECTOR_LOADS": size % 4 == 0,
            "WHOLE_ROUNDS": size % (_WORDS * WORD_LEVELS) == 0,
        },
        tensors={
            "src": g.tensor(call.input),
            "weights": weights,
            "scales": scales,
            "zeros": _in_blocks(g, call.zero_points, -(-blocks // WORD_LEVELS)) if has_zeros else scales,
            "dst": target.pixels,
            **output.tensors,
        },
        rows=rows,
        inputs=size,
        out_channels=outputs,
        out_blocks=-(-outputs // BLOCK),
        rounds=rounds,
        blocks=blocks,
        pitches=0,
        **output.push,
    )
    target.finish(g)


@kernel(
    ExtendedOperationCode.BLOCK_QUANTIZED_EMBEDDING_LOOKUP,
    shaders=(BLOCK_QUANTIZED_ROWS,),
)
def lower_rows(call: Call, g: Lowering) -> None:
    """Lower to one dispatch. Indices that are constants were checked with the model."""
    (taken, columns), (rows, words) = call.output.shape, call.weights.shape
    has_zeros, indices = present(call, "zero_points"), "known"
    scales = g.tensor(call.scales)
    tensors = {
        "lookup": g.tensor(call.lookup),
        "weights": g.tensor(call.weights),
        "scales": scales,
        "zeros": g.tensor(call.zero_points) if has_zeros else scales,
        "dst": g.tensor(call.output),
    }
    if not call.lookup.is_constant:
        indices, tensors["flag"] = "checked", g.flag(f"lookup must be in [0, {rows}), got {{}}")
    count = -(-taken * columns // 4)
    g.dispatch(
        BLOCK_QUANTIZED_ROWS.variant(INDICES=indices, DTYPE=dtype(call.scales)),
        groups=g.flat(count, _LOCAL),
        spec={
            "local_x": _LOCAL,
            "ONE_ROW": columns % 4 == 0,
            "BLOCK_SIZE": call.block_size,
            "ZERO_POINTS": has_zeros,
        },
        tensors=tensors,
        count=count,
        taken=taken,
        rows=rows,
        words=words,
        blocks=call.scales.shape[1],
        columns=columns,
        magic_columns=magic(columns),
    )


def _in_blocks(g: Lowering, tensor: Tensor, columns: int) -> TensorRef:
    """Words or scales of rows of weights as [blocks of 32 rows, columns, 32]; nobody uses the values of the padding."""
    rows, width = tensor.shape
    nbytes = 4 * round_up(rows, BLOCK) * columns
    if tensor.is_constant:
        made = deferred_bytes(nbytes, lambda: _blocks_of(_words(tensor.data), columns))
        return g.constant_form(tensor, ("in blocks", columns), lambda: made)
    source, target = accumulated(g, tensor), g.scratch(nbytes)
    taken, whole = min(width, columns), rows // BLOCK
    for first, blocks, count in ((0, whole, BLOCK), (whole, 1, rows % BLOCK)):
        if blocks and count:
            move(
                g,
                "b32",
                source,
                target,
                (blocks, taken, count),
                (BLOCK * width, 1, width),
                (BLOCK * columns, BLOCK, 1),
                source_first=first * BLOCK * width,
                target_first=first * BLOCK * columns,
            )
    return target


def _words(data: np.ndarray) -> np.ndarray:
    return data.astype(np.float32, copy=False) if data.dtype.kind == "f" else data


def _blocks_of(data: np.ndarray, columns: int) -> np.ndarray:
    taken = data[:, :columns]
    rows, width = taken.shape
    padded = np.zeros((round_up(rows, BLOCK), columns), data.dtype)
    padded[:rows, :width] = taken
    return np.ascontiguousarray(padded.reshape(-1, BLOCK, columns).transpose(0, 2, 1))
