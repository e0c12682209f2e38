"""GEMMs by cooperative matrices: their tiles, and the weights as `shaders/include/gemm/cooperative_matrix.glsl` reads
them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.copies.move import move
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.costs import Costs, Run
from nnvk.driver.vulkan.lowering.dtypes import Q8, SIZES, DType
from nnvk.driver.vulkan.lowering.gemm.problem import GemmProblem, Split, Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors
from nnvk.driver.vulkan.lowering.gemm.weights import Weights, weights_as_kept
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Requirements
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.strided import dense_strides
from nnvk.types.constant import deferred_bytes

FEATURES = frozenset(
    {"cooperativeMatrix", "vulkanMemoryModel", "subgroupSizeControl", "computeFullSubgroups", "subgroupBasic"}
)
"""The device features that every tile needs."""
_FEATURES = {"q8": {"shaderInt8", "shaderIntegerDotProduct"}, "f16": {"shaderFloat16"}}

CHUNK_BYTES = 16
"""Bytes of K that an invocation loads at once."""
_STAGES, _STAGES_CPU = (8, 4), (4,)
"""Chunks of K that a workgroup loads to shared memory at once; on software devices loads don't wait for memory."""
MOST_SUMS = 16
"""Vectors of sums of an invocation, if K is split."""
_MOST_LOADS = 8
"""Chunks of each operand that an invocation loads of a stage."""
_NARROW = 32
"""Subgroups with fewer invocations are those of Intel's GPUs, where an invocation has half as many registers."""
_MOST_HELD, _MOST_HELD_NARROW, _MOST_HELD_BY_TAPS_NARROW = 56, 11, 16
"""Vectors of an invocation, with which no compiler spills registers in a loop over taps; those of narrow subgroups
without the places of taps; and with them."""
_SHAPES = (
    ((4, 4), (2, 2)),
    ((4, 2), (2, 2)),
    ((2, 4), (2, 2)),
    ((2, 2), (2, 2)),
    ((2, 1), (2, 2)),
    ((1, 1), (2, 2)),
)
"""Matrices of sums of a subgroup, and subgroups of a workgroup, both along pixels and along output channels."""
_SHAPES_NARROW = (((2, 1), (4, 4)), ((1, 2), (4, 4)), ((1, 1), (4, 4)), ((1, 1), (2, 4)), ((1, 1), (2, 2)))
"""Those of narrow subgroups, of which a workgroup has more."""
_SHAPES_CPU = (((2, 2), (1, 1)), ((1, 1), (1, 1)))
"""Those of software devices, which take seconds to compile larger ones."""
_WAIT = 1.25
"""A lone subgroup waits longer for a stage than with the tile `shared`, which loads less at once."""
_MIDDLE = 128
"""The unsigned quantised value that is 0 as a signed byte."""
_AT_ONCE = 1 << 18
"""Weights that are packed at once."""


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """The share of a workgroup in a GEMM by cooperative matrices."""

    matrix: tuple[int, int, int]
    """M, N and K of the device's matrices."""
    matrices: tuple[int, int]
    """Matrices of sums of a subgroup, along pixels and along output channels."""
    subgroups: tuple[int, int]
    """Subgroups of a workgroup, in the same directions."""
    subgroup_size: int
    stage: int
    """Chunks of K that the workgroup loads to shared memory at once."""

    @property
    def rows(self) -> int:
        """Output pixels of a workgroup."""
        return self.matrix[0] * self.matrices[0] * self.subgroups[0]

    @property
    def columns(self) -> int:
        """Output channels of a workgroup."""
        return self.matrix[1] * self.matrices[1] * self.subgroups[1]

    @property
    def invocations(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroup_size * math.prod(self.subgroups)

    @property
    def sums(self) -> int:
        """Vectors of four sums of an invocation."""
        m, n, _ = self.matrix
        return max(1, m * n * math.prod(self.matrices) // (4 * self.subgroup_size))

    @property
    def stored(self) -> int:
        """Vectors of four results that an invocation stores, of which some may not exist."""
        m, n, _ = self.matrix
        together = self.subgroup_size // (n * self.matrices[1] // 4)
        return self.matrices[0] * -(-m // together)

    @property
    def loads(self) -> int:
        """Chunks that an invocation loads of a stage."""
        return (self.rows + self.columns) * self.stage // self.invocations

    def held(self, kind: str) -> float:
        """Vectors that an invocation holds: sums, the chunks of a stage, and the matrices for one K of them."""
        m, n, k = self.matrix
        down, across = self.matrices
        factors = (down * m + across * n) * k * SIZES[kind] / (CHUNK_BYTES * self.subgroup_size)
        return self.sums + self.loads + factors

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory."""
        staged = (self.rows + self.columns) * (self.stage + 1)
        ended = math.prod(self.subgroups) * self.matrix[0] * (self.matrix[1] * self.matrices[1] // 4 + 1)
        return 16 * max(staged, ended) + 4 * (self.rows + self.columns)

    def fits(self, kind: str, device: DeviceProfile) -> bool:
        """Whether the shader can share the work among its invocations, and the device has room for it."""
        _, n, k = self.matrix
        line = k * SIZES[kind]
        if n % 4 or line % 8 or self.stage * CHUNK_BYTES % line or self.subgroup_size % (n * self.matrices[1] // 4):
            return False
        if self.invocations % self.stage or self.invocations > device.max_invocations:
            return False
        loads = [divmod(self.stage * lines, self.invocations) for lines in (self.rows, self.columns)]
        if any(left or not 1 <= count <= _MOST_LOADS for count, left in loads):
            return False
        return self.shared_memory <= device.max_shared_memory

    def __str__(self) -> str:
        sizes = (self.matrix, self.matrices, self.subgroups)
        matrix, matrices, subgroups = ("x".join(map(str, each)) for each in sizes)
        stage = "" if self.stage == min(_STAGES) else f", by {self.stage * CHUNK_BYTES} bytes of K"
        return f"{matrices} of {matrix} in {subgroups} subgroups of {self.subgroup_size}{stage}"


def chunk(kind: str) -> int:
    """Elements of K in a chunk."""
    return CHUNK_BYTES // SIZES[kind]


def chunks(kind: str, taps: int, depth: int) -> int:
    """The chunks of K. Channels of a tap are padded to whole ones."""
    return taps * -(-depth // chunk(kind))


def tiles(kind: str, taps: int, device: DeviceProfile) -> Iterator[MatrixTile]:
    """The tiles for GEMMs of a data type and a number of taps, with each matrix size of the device."""
    if not device.may_use_matrices or not device.features >= FEATURES | _FEATURES.get(kind, set()):
        return
    is_narrow = device.matrix_subgroup < _NARROW and not device.is_cpu
    shapes = _SHAPES_CPU if device.is_cpu else _SHAPES_NARROW if is_narrow else _SHAPES
    most = (_MOST_HELD_NARROW, _MOST_HELD_BY_TAPS_NARROW) if is_narrow else (_MOST_HELD, _MOST_HELD)
    for matrix in device.matrix_sizes(kind):
        for (matrices, subgroups), stage in itertools.product(shapes, _STAGES_CPU if device.is_cpu else _STAGES):
            tile = MatrixTile(matrix, matrices, subgroups, device.matrix_subgroup, stage)
            held, places = tile.held(kind), tile.loads if taps > 1 else 0
            if tile.fits(kind, device) and held <= most[0] and held + places <= most[1]:
                yield tile


def constants(tile: MatrixTile, kind: str, taps: int, depth: int) -> dict[str, int | bool]:
    """Specialisation constants for a tile, and filters of so many channels and taps. ``taps`` is 0 if it varies."""
    m, n, k = tile.matrix
    whole_stages, whole_taps = _whole(tile, kind, taps, depth)
    return {
        "local_x": tile.invocations,
        "M": m,
        "N": n,
        "K": k,
        "DOWN": tile.matrices[0],
        "ACROSS": tile.matrices[1],
        "SUBGROUPS_ACROSS": tile.subgroups[1],
        "SUBGROUP_SIZE": tile.subgroup_size,
        "STAGE": tile.stage,
        "WHOLE_STAGES": whole_stages,
        "WHOLE_TAPS": whole_taps,
        "LAST_APART": ends_apart(tile),
    }


def ends_apart(tile: MatrixTile) -> bool:
    """Whether the last stage is multiplied after the loop, so that it loads nothing.

    The compiler of Intel's GPUs, which have narrow subgroups, spills more registers of such a loop.
    """
    return tile.subgroup_size >= _NARROW


def _whole(tile: MatrixTile, kind: str, taps: int, depth: int) -> tuple[bool, bool]:
    """Whether K has a whole number of stages, and each tap too. ``taps`` is 0 if it varies."""
    whole_taps = depth % (tile.stage * chunk(kind)) == 0
    return whole_taps or (taps > 0 and chunks(kind, taps, depth) % tile.stage == 0), whole_taps


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Strategy):
    """Subgroups hold matrices together."""

    tile: ClassVar[str] = "cooperative_matrix"
    has_one_sum: ClassVar[bool] = False
    dtypes: ClassVar[tuple[str, ...]] = ("f16", "q8")
    arithmetics: ClassVar[tuple[str, ...]] = ("none", "dot")
    needs: ClassVar[Requirements | None] = Requirements(
        extensions=(
            "GL_KHR_cooperative_matrix",
            "GL_KHR_memory_scope_semantics",
            "GL_EXT_shader_explicit_arithmetic_types_int8",
            "GL_EXT_spirv_intrinsics",
        ),
        probe="coopmat<int8_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> probe;",
    )

    matrices: MatrixTile
    """The work of a workgroup."""

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`. Dot products add up what zero points are multiplied by."""
        arithmetic = "dot" if work.kind == "q8" else "none"
        for tile in tiles(work.kind, work.in_lines[0], device):
            strategy = cls(tile.rows, (tile.invocations, 1), arithmetic=arithmetic, matrices=tile)
            yield strategy
            if strategy.sums <= MOST_SUMS:
                yield from strategy.split(work, device)

    @property
    def sums(self) -> int:
        """See `Strategy`."""
        return self.matrices.stored

    @property
    def size(self) -> tuple[int, int]:
        """See `Strategy`."""
        return self.matrices.rows, self.matrices.columns

    def is_busy(self, work: Work) -> bool:
        """See `Strategy`."""
        stages = -(-chunks(work.kind, *work.in_lines) // self.matrices.stage)
        return -(-stages // self.split_k) * (self.split_k - 1) < stages

    def __str__(self) -> str:
        return f"cooperative matrices {self.rows}x{self.size[1]}: {self.matrices}{self._slices}"

    def folds_zero_point(self, work: Work, device: DeviceProfile) -> bool:
        """See `Strategy`."""
        return False

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """See `Strategy`."""
        return chunk(work.kind)

    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """See `Strategy`."""
        tile, kind, (taps, depth) = self.matrices, work.kind, work.in_lines
        (m, n, _), (down, across), at_once = tile.matrix, tile.matrices, tile.stage * chunk(work.kind)
        groups, rounds = self.tiles(work), -(-chunks(kind, taps, depth) // tile.stage)
        products = down * m * across * n * at_once / (16 * tile.subgroup_size) * costs.by_matrices[kind]
        factors = (down * m + across * n) * tile.stage / tile.subgroup_size
        # A chunk has its own tap, and is masked where K may end before it.
        searches = (taps > 1) + (not _whole(tile, kind, taps, depth)[0])
        loads = tile.loads * (costs.brought + searches * costs.found)
        return Run(
            groups,
            groups * -(-tile.invocations // lanes),
            rounds,
            step=max(products + loads + 2 * costs.barrier, (tile.loads + factors) * costs.staged),
            end=tile.sums * (vectors.stored + 2 * costs.staged) + vectors.ending,
            wait=_WAIT * costs.staged_latency,
            moved=rounds * tile.loads + tile.sums,
            held=tile.held(kind) * tile.subgroup_size / lanes,
        )

    def constants(self, problem: GemmProblem, device: DeviceProfile) -> dict[str, int | bool]:
        """See `Strategy`."""
        work, (taps, depth) = problem.work, problem.work.in_lines
        lines: dict[str, int | bool] = {"LINE_TAPS": work.line_taps} if work.line_taps > 1 else {}
        # The phases of a transposed convolution have different numbers of taps.
        return lines | constants(self.matrices, work.kind, 0 if problem.gemm.split is Split.PHASES else taps, depth)

    def line_taps(self, work: Work) -> int:
        """See `Strategy`."""
        return work.line_taps

    def weights(self, g: Lowering, problem: GemmProblem) -> Arguments:
        """See `Strategy`."""
        filters, work = problem.operands.weights, problem.work
        sums_follow = problem.gemm.split is not Split.PHASES
        weights = packed_by_filter(g, filters.in_lines(work.line_taps))
        return Arguments(
            zero_points(filters, sums_follow=sums_follow) if work.kind == "q8" else {}, {"weights": weights}
        )


# --- weights -------------------------------------------------------------------------------------------------


def packed_by_filter(g: Lowering, weights: Weights) -> TensorRef:
    """Weights one after the other: [parts, output channels, taps, channels padded to whole chunks].

    Constant bytes are made signed, and 32-bit sums of the weights of each filter follow. Other filters are copied in
    every execution; their padding is undefined.
    """
    kind = weights.kept_as(g.device)
    padded = _padded(weights, kind)
    nbytes = math.prod(padded) * kind.size
    tensor = weights.tensor
    if not tensor.is_constant:
        target = g.scratch(nbytes)
        source = dense(g, tensor)
        move(g, kind.moved, source, target, weights.shape, weights.strides, dense_strides(padded))
        return target
    if kind is Q8:
        nbytes += 4 * weights.parts * weights.outputs
    form = "by filter", weights.shape, weights.strides
    device = g.device  # see `weights.packed`
    return g.constant_form(tensor, form, lambda: deferred_bytes(nbytes, lambda: pack(weights, device)))


def zero_points(weights: Weights, *, sums_follow: bool) -> dict[str, int | bool]:
    """Specialisation constants for the zero points of bytes that `packed_by_filter` gave.

    ``sums_follow``: the sums that follow constant weights are those of all products of a filter.
    """
    constant = weights.tensor.is_constant
    return {
        "WEIGHTS_SIGNED": constant or bool(offset(weights.tensor)),
        "COUNT_INPUTS": zero_point(weights.tensor) != _MIDDLE,
        "COUNT_WEIGHTS": not (constant and sums_follow),
    }


def pack(weights: Weights, device: DeviceProfile) -> np.ndarray:
    """The bytes that `packed_by_filter` gives for constant filters. They are packed some output channels at a time."""
    kind = weights.kept_as(device)
    parts, outputs, taps, channels = padded = _padded(weights, kind)
    held, is_q8 = weights.held(), kind is Q8
    packed = np.zeros(padded, np.int8 if is_q8 else np.float16)
    together = max(1, _AT_ONCE // max(1, parts * taps * channels))
    for first in range(0, outputs, together):
        some = slice(first, first + together)
        packed[:, some, :, : weights.channels] = (
            _signed_bytes(held.array(some)) if is_q8 else weights_as_kept(held, some, device)
        )
    if not is_q8:
        return packed.reshape(-1).view(np.uint8)
    sums = packed.sum((2, 3), dtype=np.int32)
    return np.concatenate([packed.reshape(-1).view(np.uint8), sums.reshape(-1).view(np.uint8)])


def _padded(weights: Weights, kind: DType) -> tuple[int, int, int, int]:
    parts, outputs, taps, channels = weights.shape
    return parts, outputs, taps, round_up(channels, chunk(kind.name))


def _signed_bytes(data: np.ndarray) -> np.ndarray:
    """uint8 moved by -128 to int8; int8 as it is."""
    return data if data.dtype == np.int8 else (data ^ np.uint8(0x80)).view(np.int8)
