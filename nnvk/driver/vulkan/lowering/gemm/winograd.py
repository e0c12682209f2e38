"""Convolutions of 3 x 3 with fewer multiplications, by Winograd's algorithm (`shaders/include/winograd.glsl`).

The input window of each tile of output pixels is transformed to values at points. The filters are transformed in
advance. One batched GEMM, with a batch for each point, sums over the channels. Its results are transformed back to
output pixels. A tile of 2 x 4 pixels takes 24 multiplications instead of 72.

Rounding errors grow with the points. Tiles of 2 x 4 are as exact as direct sums: the largest error against float64 is
about the same at any number of channels. Tiles of 4 x 4 take 36 multiplications instead of 144, and their errors are
two to three times larger. They are for float16 and relaxed models, which may be off by a thousand times more, on
devices with enough registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.costs import costs_of
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, SIZES, DType, dtype
from nnvk.driver.vulkan.lowering.gemm import epilogue
from nnvk.driver.vulkan.lowering.gemm.epilogue import Target, accumulated, filter_output, narrowed
from nnvk.driver.vulkan.lowering.gemm.gemm import lower_gemm_by
from nnvk.driver.vulkan.lowering.gemm.problem import POINT, Gemm, GemmProblem, Operands, Split, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import cost, prefers_matrices, ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, Weights, length_and_largest
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.strided_view import access_by
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

WINOGRAD_INPUT = Shader("winograd_input", DTYPE=("f32", "f16"))
WINOGRAD_OUTPUT = Shader("winograd_output", DTYPE=("f32", "f16"), EPILOGUE=epilogue.EPILOGUES)
WINOGRAD_SHADERS = (WINOGRAD_INPUT, WINOGRAD_OUTPUT)
"""The shaders that `convolve` may dispatch besides products."""

_WINDOW = 3
_MOST_DROWNED = 0.5
"""The largest share of tiles with windows that see nothing but padding. Their results drown in rounding errors, so
these tiles are computed directly."""
_DIRECTLY = 3
"""The factor by which such a tile takes longer."""
_ACROSS = 4
"""Output pixels of a tile, along the width."""
_POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.5**0.5, -(0.5**0.5), 2**0.5, -(2**0.5))}
"""The points along a side of a tile, by its output pixels. The point at infinity is not listed."""
LEAST_CHANNELS = 40
"""The least channels of input and output: with fewer, transforms take longer than they save."""
_LARGEST = 1e30
"""The largest weight."""
_MOST_BYTES = 64 << 20
"""The most bytes of values at the points, which take two to three times the memory of images."""
_HARMLESS = 1e-6
"""The largest error from inputs outside a result's window: a tenth of the tolerance of Android's tests."""
_GROWTH = 4 * 2.0**-24
"""The growth of errors with the largest value of a tile and the length of a filter as a vector."""
_LOCAL = 64
_GEMMS = 4
"""The number of GEMM strategies to consider, the cheapest first."""
_MARGIN = 1.08
"""The factor of costs: three dispatches in the place of one have to be clearly faster."""
_LINE, _LANES = 100, 800
"""Cycles in which a CPU's subgroup moves a vector that another core wrote, or will read: what it takes, and what a
subgroup of one invocation would take beside where no texels are gathered. Measured on llvmpipe and SwiftShader."""
_SEEN, _TRANSFORMED = 70, 30
"""Cycles in which a subgroup computes one point of four channels from the input, and pixels from one point."""


@dataclass(frozen=True, slots=True)
class Winograd:
    """One way to compute a convolution: tiles of a size, and a strategy for the GEMM."""

    down: int
    """Output pixels of a tile along the height."""
    strategy: Strategy

    def __str__(self) -> str:
        return f"winograd {self.down}x{_ACROSS} by {self.strategy}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a convolution."""

    down: int
    """Output pixels of one along the height."""
    gemm: Gemm
    """The convolution."""

    @property
    def rows(self) -> int:
        """The rows of tiles in an image."""
        return -(-self.gemm.target[1] // self.down)

    @property
    def columns(self) -> int:
        """The columns of tiles in an image."""
        return -(-self.gemm.target[2] // _ACROSS)

    @property
    def count(self) -> int:
        """The number of tiles in all images."""
        return self.gemm.target[0] * self.rows * self.columns

    @property
    def drowned(self) -> float:
        """The share of tiles with windows that see nothing but padding."""
        apart = 1.0
        for axis, size in ((self.gemm.vertical, self.down), (self.gemm.horizontal, _ACROSS)):
            past = (axis.out - 1) + _WINDOW - axis.before - axis.size
            outside = (max(0, pixels - _WINDOW + 1) for pixels in (axis.before, past))
            apart *= max(0.0, 1 - sum(-(-pixels // size) for pixels in outside) / -(-axis.out // size))
        return 1 - apart

    @property
    def points(self) -> int:
        """The number of points of a tile."""
        return (self.down + 2) * (_ACROSS + 2)

    @property
    def channels(self) -> int:
        """The channels of the input, padded."""
        return round_up(self.gemm.source[3], 4)

    @property
    def outputs(self) -> int:
        """Output channels, padded."""
        return round_up(self.gemm.target[3], 4)

    @property
    def matrices(self) -> Gemm:
        """The GEMM at the points."""
        source, target = ((self.points, self.count, 1, channels) for channels in (self.channels, self.outputs))
        return Gemm(source, target, POINT, POINT, Split.BATCHES, self.points)

    @property
    def work(self) -> Work:
        """The description of the product that its strategies are chosen by."""
        sizes = self.count, self.outputs, self.points, 1, self.channels
        return Work(F32.name, *sizes, constant=True, in_order=True, matrix=False)


def candidates(work: Work, gemm: Gemm, downs: Sequence[int], device: DeviceProfile) -> list[Strategy | Winograd]:
    """The candidates for a convolution on a device, the cheapest first: direct, and by tiles of these sizes."""
    costs: dict[Strategy | Winograd, float] = {
        candidate: cost(candidate, work, device) for candidate in ranked(work, device)
    }
    for tiles in (Tiles(down, gemm) for down in downs):
        costs.update((Winograd(tiles.down, strategy), whole) for strategy, whole in _ranked(tiles, device))
    return sorted(costs, key=costs.__getitem__)


def best(g: Lowering, problem: GemmProblem, downs: tuple[int, ...]) -> Strategy | Winograd:
    """The candidate for a convolution that is thought or was measured to be the fastest."""
    work, gemm = problem.work, problem.gemm
    every = g.once(("candidates", work, gemm, downs), lambda: candidates(work, gemm, downs, g.device))
    return g.choose(
        g.tuning_key(work, gemm, f"by tiles of {downs}"),
        every,
        is_quick=lambda one: isinstance(one, Strategy) and one.is_quick,
    )


def sizes(g: Lowering, problem: GemmProblem) -> tuple[int, ...]:
    """The heights of tiles by which a convolution can be computed; none where it can't."""
    work, gemm = problem.work, problem.gemm
    if (
        work.kind not in (F32.name, F16.name)
        or prefers_matrices(work, g.device)
        or g.device.avoids(WINOGRAD_INPUT.variant(DTYPE=work.kind))
        or g.device.avoids(WINOGRAD_OUTPUT.variant(DTYPE=work.kind, EPILOGUE="plain"))
        or not work.constant
        or any((axis.window, axis.stride, axis.dilation) != (_WINDOW, 1, 1) for axis in gemm.axes)
        or min(work.depth, work.columns) < LEAST_CHANNELS
        or not length_and_largest(g, problem.operands.weights)[1] <= _LARGEST  # NaN is not
    ):
        return ()
    rounds = _ACROSS * (1 + _WINDOW**2 * (2 + -(-work.depth // 4)))
    # The 36 points of a tile of 4 x 4 don't fit few registers, and take 0.98 of the instructions on Mali and VideoCore.
    may_be_large = (work.kind == F16.name or g.relaxed) and not g.device.has_small_subgroups
    all_ = (2, 4) if may_be_large else (2,)
    return tuple(down for down in all_ if down * rounds < MOST_ROUNDS and _may_be(Tiles(down, gemm), g.device))


def _may_be(tiles: Tiles, device: DeviceProfile) -> bool:
    """Whether the device can bind what is at the points, and that is not too much beside the images."""
    if tiles.drowned > _MOST_DROWNED:
        return False
    values = tiles.count * max(tiles.channels, tiles.outputs)
    weights = tiles.channels * round_up(tiles.outputs, BLOCK)
    most = device.max_buffer // (4 * tiles.points)
    return weights <= most and values <= min(most, _MOST_BYTES // (4 * tiles.points))


# --- costs ---------------------------------------------------------------------------------------------------


def _ranked(tiles: Tiles, device: DeviceProfile) -> Iterator[tuple[Strategy, float]]:
    """The strategies for the GEMM that cost the least, with the costs of all three stages."""
    around = _transforms(tiles, device)
    with suppress(AvoidedShader):  # the direct way may have another data type
        for strategy in itertools.islice(ranked(tiles.work, device), _GEMMS):
            direct = 1 + _DIRECTLY * tiles.drowned
            yield strategy, _MARGIN * direct * (around + cost(strategy, tiles.work, device))


def _transforms(tiles: Tiles, device: DeviceProfile) -> float:
    """Cycles that the device is thought to take for the first and the last stage."""
    costs = costs_of(device)
    lanes = device.subgroup_size if device.is_cpu else 64
    load = costs.load
    if device.is_cpu:
        load = _LINE + (0 if device.texel_loads else _LANES / lanes)
    pixels = tiles.down * _ACROSS
    total = 2 * costs.launch
    for channels, moved, computed in (
        (tiles.channels, 2 * tiles.points, _SEEN),
        (tiles.outputs, tiles.points + pixels, _TRANSFORMED),
    ):
        invocations = tiles.count * channels // 4
        most = -(-invocations // (lanes * device.units))
        alone = costs.begin + moved * load + tiles.points * computed
        through_cache = 16 * invocations * moved / (costs.cache * device.units)
        total += max(most * alone, through_cache, alone + costs.latency)
    return total


# --- dispatches ----------------------------------------------------------------------------------------------


def convolve(g: Lowering, problem: GemmProblem, candidate: Winograd) -> None:
    """Compute a convolution by tiles: to the points, a GEMM there, and to the pixels."""
    operands, gemm, tiles = problem.operands, problem.gemm, Tiles(candidate.down, problem.gemm)
    target, source = Target.of(g, operands, gemm), g.tensor(narrowed(g, operands))
    at_points = _at_points(g, "input at points", (tiles.points, tiles.count, tiles.channels))
    sums = _at_points(g, "sums at points", (tiles.points, tiles.count, tiles.outputs))
    groups = g.flat(tiles.count * tiles.outputs // 4, _LOCAL)
    end = math.prod(groups) * _LOCAL
    seen = _seen(g, tiles, SIZES[dtype(operands.input)], end) | Arguments(tensors={"src": source})
    _transform_input(g, tiles, operands, seen | Arguments(tensors={"dst": g.tensor(at_points)}))
    of_points = Operands(operands.code, at_points, at_points_of(operands.weights, tiles), None, sums)
    lower_gemm_by(g, GemmProblem(of_points, tiles.matrices, tiles.work), candidate.strategy)
    weights, output = accumulated(g, operands.weights.tensor), filter_output(g, operands, gemm)
    own = Arguments(
        {"local_x": _LOCAL, "VECTOR_STORES": gemm.columns % 4 == 0, "PAIRS": g.device.has_small_subgroups},
        {"sums": g.tensor(sums), "weights": weights},
        {"out_channels": gemm.columns},
    )
    of_outputs, _ = divisors_below(g.device, end, vec4s=tiles.outputs // 4)
    arguments = own | seen | Arguments(push=of_outputs) | target.arguments(operands, output) | output
    arguments.dispatch(g, WINOGRAD_OUTPUT.variant(DTYPE=dtype(operands.input), EPILOGUE=operands.variant), groups)
    target.finish(g)


def _seen(g: Lowering, tiles: Tiles, itemsize: int, end: int) -> Arguments:
    """The arguments of both transforms for the geometry. ``end``: no invocation has this number or a larger one."""
    _, height, width, channels = tiles.gemm.source
    magics, as_floats = divisors_below(g.device, end, down=tiles.rows, across=tiles.columns)
    push = {
        "tiles": tiles.count,
        "tiles_down": tiles.rows,
        "tiles_across": tiles.columns,
        "height": height,
        "width": width,
        "channels": channels,
        "pad_top": tiles.gemm.vertical.before,
        "pad_left": tiles.gemm.horizontal.before,
        "out_height": tiles.gemm.target[1],
        "out_width": tiles.gemm.target[2],
    }
    access = access_by("src_pitch", "src", itemsize, channels, 4 if channels % 4 == 0 else 1)
    return Arguments({"DOWN": tiles.down, "VECTORS": channels % 4 == 0, **as_floats}, push=push | magics, access=access)


def _transform_input(g: Lowering, tiles: Tiles, operands: Operands, seen: Arguments) -> None:
    """Compute the values at the points."""
    pairs = g.device.has_small_subgroups and tiles.gemm.source[3] % 4 == 0
    across, local = _together(tiles, g.device, 2 if pairs else 4), g.device.team
    line_by_line = tiles.down == 2 and not g.device.is_cpu
    spec = {"local_x": local, "ACROSS": across, "LOCAL": local, "PAIRS": pairs, "LINE_BY_LINE": line_by_line}
    own = Arguments(spec, push={"harmless": _harmless(length_and_largest(g, operands.weights)[0])})
    groups = g.flat(tiles.count * across, local)
    (seen | own).dispatch(g, WINOGRAD_INPUT.variant(DTYPE=dtype(operands.input)), groups)


def _at_points(g: Lowering, name: str, shape: Sequence[int]) -> Tensor:
    return g.intermediate(name, OperandType(OperandCode.TENSOR_FLOAT32, tuple(shape)))


def _together(tiles: Tiles, device: DeviceProfile, at_once: int) -> int:
    """Invocations that go through the channels of a tile together; where a CPU has tiles enough, one alone.

    ``at_once``: the channels of an invocation.
    """
    if device.is_cpu and tiles.count >= 2 * device.units * device.team:
        return 1
    return min(device.team, 1 << (tiles.channels // at_once - 1).bit_length())


def _harmless(length: float) -> float:
    """The largest value that can't drown anything, by filters whose longest is so long as a vector."""
    return min(_HARMLESS / (_GROWTH * max(length, 1e-30)), 1e30)


# --- filters -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeightsAtPoints(Weights):
    """Constant filters at the points: as many parts with one tap, channels padded to vec4s with zeros."""

    plain: Weights
    """The filters that they are made of."""
    down: int
    """Output pixels of a tile along the height."""

    def kept_as(self, device: DeviceProfile) -> DType:
        """The type float32, which all values at the points have."""
        return F32

    def is_in_order(self, parts_outside: bool, device: DeviceProfile) -> bool:
        """False: the values at the points have to be computed."""
        return False

    def held(self) -> Weights:
        """The same filters with the plain weights, computed and contiguous."""
        return replace(self, plain=self.plain.held())

    def array(self, outputs: slice = slice(None)) -> np.ndarray:
        """The weights at the points, in 64 bits."""
        plain = self.plain.array(outputs)[0].astype(np.float64)
        count, _, channels = plain.shape
        # A small product for each filter: for larger ones BLAS would start threads, of which there are enough.
        each = np.kron(_to_points(self.down), _to_points(_ACROSS)) @ plain
        at_points = each.transpose(1, 0, 2)[:, :, None]
        missing = len(range(*outputs.indices(self.outputs))) - count, self.channels - channels
        if not any(missing):
            return at_points
        return np.pad(at_points, [(0, 0), (0, missing[0]), (0, 0), (0, missing[1])])


def at_points_of(weights: Weights, tiles: Tiles) -> WeightsAtPoints:
    """Weights at the points of tiles."""
    points, channels, outputs = tiles.points, tiles.channels, tiles.outputs
    strides = channels * outputs, 1, 0, outputs  # as if they lay so: [points, channels, output channels]
    return WeightsAtPoints(weights.tensor, points, outputs, 1, channels, strides, weights, tiles.down)


def _to_points(pixels: int) -> np.ndarray:
    """The matrix that takes three weights along a side of a tile to the points."""
    points = np.array(_POINTS[pixels])
    apart = [np.prod([point - other for other in points if other != point]) for point in points]
    powers = points[:, None] ** np.arange(_WINDOW) / np.array(apart)[:, None]
    return np.concatenate([powers, np.eye(_WINDOW)[-1:]])
