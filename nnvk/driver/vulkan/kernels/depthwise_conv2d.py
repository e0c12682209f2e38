"""DEPTHWISE_CONV_2D on the GPU: a tile of pixels of four channels per invocation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.compared import Checked
from nnvk.driver.vulkan.lowering.copies.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.costs import NEAR, Run, costs_of, cycles
from nnvk.driver.vulkan.lowering.divide import divisors_below
from nnvk.driver.vulkan.lowering.dtypes import F16, Q8, SIZES, dtype
from nnvk.driver.vulkan.lowering.gemm import epilogue, half_weights
from nnvk.driver.vulkan.lowering.gemm.epilogue import Target, bias_of, filter_output, narrowed
from nnvk.driver.vulkan.lowering.gemm.gemm import epilogue_channels, refuse_long_sums
from nnvk.driver.vulkan.lowering.gemm.problem import Fused, Gemm, Operands
from nnvk.driver.vulkan.lowering.gemm.separable import filters_of_channels
from nnvk.driver.vulkan.lowering.gemm.verification import checksum, exact
from nnvk.driver.vulkan.lowering.gemm.weights import WEIGHT_SHADERS, in_order, may_be_float16, scale_of
from nnvk.driver.vulkan.lowering.kernel import gemm_kernel
from nnvk.driver.vulkan.lowering.lowering import REPRODUCIBLE, Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import offset
from nnvk.driver.vulkan.lowering.strided_view import access_by
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.depthwise_conv2d import depthwise_axes
from nnvk.types.codes import OperationCode


def _exists(choice: Mapping[str, str]) -> bool:
    """16-bit floats may be multiplied as such. Sums of bytes are exact, so that check words can verify them."""
    if choice["SUMS"] == "whole_checked" and choice["DTYPE"] != "q8":
        return False
    return epilogue.exists(choice) and (choice["ARITHMETIC"] == "none" or choice["DTYPE"] == "f16")


SHADER = Shader(
    "depthwise_conv2d",
    where=_exists,
    DTYPE=("f32", "f16", "q8", "q16"),
    ARITHMETIC=("none", "half"),
    SUMS=("whole", "whole_checked"),
    EPILOGUE=epilogue.EPILOGUES,
)
CHANNEL_SHADERS = (
    SHADER,
    ARRANGE,
    *WEIGHT_SHADERS,
    checksum.BY_CHANNEL,
    exact.BY_CHANNEL,
)
"""The shaders that `lower_depthwise` may dispatch."""

# The sizes of the shader's arrays.
_MAX_TAPS = 25
_MAX_COLUMNS = 9
_MAX_COLUMN_HEIGHT = 12
_TILES_CPU = ((4, 28),)
"""The heights and widths of tiles."""
_TILES_GPU = ((4, 4), (2, 4), (2, 2), (4, 1), (2, 1), (1, 1))
_TILES_FEW_REGISTERS = ((2, 4), (2, 2), (2, 1), (1, 1))
"""Those of GPUs with few registers, which compute one column at once."""
_TILES_SMALL = ((1, 4), (1, 2), (1, 1)), ((1, 3), (1, 2), (1, 1))
"""Those of GPUs with small subgroups, of strides of 1 and of others. Mali's compiler spills larger ones."""
_TILES_SMALLEST = ((1, 2), (1, 1)), ((1, 1),)
"""Those of VideoCore, of bytes and strides of 1, and of floats with others. Its compiler spills larger ones."""


@dataclass(frozen=True, slots=True)
class DepthwiseTile:
    """The output pixels of an invocation, and how it computes them."""

    height: int
    width: int
    at_once: int
    """Columns that are computed at once, so that all their loads are under way together; one, or all."""
    arithmetic: str = "none"
    """The axis ARITHMETIC: how numbers smaller than 32 bits are multiplied."""
    window_loops: bool = False
    """The window is too large to be held in registers."""
    by_lines: bool = False
    """It is computed line by line of the input, because registers are few."""

    def __str__(self) -> str:
        return f"tiles of {self.height}x{self.width}" + (", in 16 bits" if self.arithmetic == "half" else "")

    def grid(self, gemm: Gemm) -> tuple[int, int, int, int]:
        """The invocations for a convolution: along its batches, height, width and channels."""
        batches, height, width, channels = gemm.target
        return batches, -(-height // self.height), -(-width // self.width), -(-channels // 4)

    def count(self, gemm: Gemm) -> int:
        """The number of these invocations."""
        return math.prod(self.grid(gemm))


def tiles(gemm: Gemm, kind: str, device: DeviceProfile, float16: bool = False) -> list[DepthwiseTile]:
    """The tiles that a device can compute a convolution by, the fastest by the cost model first.

    The more pixels a tile has, the fewer loads there are, and the fewer invocations, of which a GPU may want more; on a
    CPU, loads count. ``float16``: factors are 16-bit floats that the device has, and may be added up as such.
    """
    vertical, horizontal = gemm.axes
    if (
        vertical.window * horizontal.window > _MAX_TAPS
        or vertical.reach > _MAX_COLUMN_HEIGHT
        or max(horizontal.reach, horizontal.stride) > _MAX_COLUMNS
    ):
        return [DepthwiseTile(1, 1, 1, window_loops=True)]
    highest = 1 + (_MAX_COLUMN_HEIGHT - vertical.reach) // vertical.stride

    def tile(height: int, width: int, arithmetic: str) -> DepthwiseTile:
        height = min(height, vertical.out, highest)
        if device.is_cpu:
            return DepthwiseTile(height, width, 1)
        width = min(width, horizontal.out)
        at_once = 1 if device.has_few_registers else width
        return DepthwiseTile(height, width, at_once, arithmetic, by_lines=device.has_small_subgroups)

    arithmetics = ("none", "half") if float16 and not device.is_cpu else ("none",)
    found = {tile(*size, arithmetic) for size in _sizes(device, horizontal.stride, kind) for arithmetic in arithmetics}
    size = hint(gemm)
    return sorted(
        found, key=lambda tile: (cost(hint(tile), size, kind, device), tile.height, tile.width, tile.arithmetic)
    )


def _sizes(device: DeviceProfile, stride: int, kind: str) -> Iterable[tuple[int, int]]:
    """The heights and widths of tiles, for windows that are so far from each other along the width."""
    if device.is_cpu:
        return _TILES_CPU
    if device.has_small_subgroups:
        if device.has_small_integers:
            return _TILES_SMALL[stride > 1]
        return _TILES_SMALLEST[stride > 1 and kind != "q8"]
    return _TILES_FEW_REGISTERS if device.has_few_registers else _TILES_GPU


def _local(device: DeviceProfile) -> int:
    """The number of invocations of a workgroup."""
    return 8 if device.is_cpu else 64


def cost(tile: DepthwiseTile, gemm: Gemm, kind: str, device: DeviceProfile) -> float:
    """The cycles that the device takes by the cost model."""
    vertical, horizontal = gemm.axes
    costs = costs_of(device)
    taps = vertical.window * horizontal.window
    column = (tile.height - 1) * vertical.stride + vertical.reach
    kept = max(horizontal.reach - horizontal.stride, 0)
    loaded = column * min(horizontal.stride, horizontal.reach)
    load = costs.load + (costs.convert["float"] if kind == "q8" else 0.0)
    arithmetic = "float" if kind == "q8" else "half" if tile.arithmetic == "half" else kind
    products = costs.products.get(arithmetic, costs.products["i32"]) / 4
    local = _local(device)
    groups = -(-tile.count(gemm) // local)
    stored = costs.stored.get(kind, costs.stored["any"])
    run = Run(
        groups,
        groups,
        rounds=tile.width,
        step=loaded * load + tile.height * (taps * products + stored),
        end=taps * costs.load + kept * column * load + costs.ending.get(kind, costs.ending["any"]),
        wait=costs.latency,
        moved=(taps + kept * column + tile.width * (loaded + tile.height)) / NEAR,
        held=taps + tile.height + column * horizontal.reach,
        size=local,
        memory=SIZES[kind] * (math.prod(gemm.source) + math.prod(gemm.target)),
    )
    return cycles(run, costs, device)


def lower_depthwise(g: Lowering, operands: Operands, gemm: Gemm) -> None:
    """Compute the output of a convolution whose filters, in one part, see a channel each."""
    if exact.may_verify_by_channel(g, operands, gemm):
        exact.recompute_depthwise(g, operands, gemm)
        return
    source, target = g.tensor(narrowed(g, operands)), Target.of(g, operands, gemm)
    if (checked := g.to_verify(operands.target)) is not None:
        checksum.verify_by_channel(g, operands, gemm, checked, {"src": source, "dst": target.pixels})
    else:
        _compute(g, operands, target, source)
    target.finish(g)


def _compute(g: Lowering, operands: Operands, target: Target, source: TensorRef) -> None:
    gemm, kind, tile = target.gemm, dtype(operands.input), _tile(g, operands, target.gemm)
    weights = _weights(g, operands, gemm, tile)
    output = filter_output(g, operands, gemm, bias_of(g, operands, gemm, folded=_has_floats(g, operands)))
    groups, geometry = _geometry(g, gemm, tile, SIZES[kind])
    arguments = geometry | Arguments(tensors={"src": source}) | weights | target.arguments(operands, output) | output
    if kind == Q8.name:
        signs = {"SIGNED": bool(offset(operands.input)), "WEIGHTS_SIGNED": bool(offset(operands.weights.tensor))}
        arguments |= Arguments(signs)
    variant = partial(SHADER.variant, DTYPE=kind, ARITHMETIC=tile.arithmetic, EPILOGUE=operands.variant)
    size, sums = (tile.height, tile.width), "whole"
    may_store_checks = checksum.may_store(g, operands, gemm) and checksum.is_possible_by_channel(g.device, gemm, size)
    if may_store_checks and not g.device.avoids(variant(SUMS="whole_checked")):
        checks, filters = g.scratch(4 * tile.count(gemm)), checksum.filters_by_channel(operands, gemm, output)
        g.checked[operands.target.index] = Checked(target.pixels, checks, filters, size)
        arguments, sums = arguments | Arguments(tensors={"checks": checks}), "whole_checked"
    if g.adds_in_order and not operands.is_quantised:
        arguments |= Arguments({REPRODUCIBLE: True})
    arguments.dispatch(g, variant(SUMS=sums), groups)


def _tile(g: Lowering, operands: Operands, gemm: Gemm) -> DepthwiseTile:
    """The tile that is thought or was measured to be the fastest."""
    kind, filters = dtype(operands.input), operands.weights
    half = SHADER.variant(DTYPE=F16.name, ARITHMETIC="half", SUMS="whole", EPILOGUE="plain")
    float16 = (
        kind == F16.name
        and g.device.has_native_16
        and not g.adds_in_order
        and may_be_float16(g, filters, filters.taps)
        and not g.device.avoids(half)
    )
    every = g.once(("tiles", gemm, kind, float16), lambda: tiles(gemm, kind, g.device, float16))
    tuning_key = g.tuning_key(kind, gemm, f"by channel{', may be float16' if float16 else ''}")
    return g.choose(tuning_key, every, is_exact=g.adds_in_order or operands.is_quantised)


def _has_floats(g: Lowering, operands: Operands) -> bool:
    """Whether weights of 8 bits are kept as floats (`half_weights.py`)."""
    return not g.device.is_cpu and half_weights.are_known(operands.input, operands.weights, operands.bias)


def _weights(g: Lowering, operands: Operands, gemm: Gemm, tile: DepthwiseTile) -> Arguments:
    """The filters as the shader reads them."""
    filters = operands.weights
    if _has_floats(g, operands):
        form = half_weights.form_of(g.device, gemm.rows, filters.taps * round_up(gemm.columns, 4))
        spec = half_weights.constants(form)
        if not tile.window_loops and g.device.saturates:
            spec["FLOAT_TOTALS"] = half_weights.has_float_totals(g, operands.input, filters, operands.bias)
        return Arguments(spec, {"weights": half_weights.in_order(g, filters, form)})
    if tile.arithmetic == "none":
        return Arguments(tensors={"weights": in_order(g, filters, parts_outside=False)})
    scale = scale_of(g, filters, filters.taps)
    weights = in_order(g, filters, parts_outside=False, scale=scale)
    return Arguments(tensors={"weights": weights}, push={"weight_scale": 1.0 / scale})


def _geometry(g: Lowering, gemm: Gemm, tile: DepthwiseTile, itemsize: int) -> tuple[tuple[int, int, int], Arguments]:
    """The workgroups, and the arguments for windows and tiles."""
    local, (batches, down, across, quads) = _local(g.device), tile.grid(gemm)
    groups = g.flat(tile.count(gemm), local)
    magics, as_floats = divisors_below(g.device, math.prod(groups) * local, down=down, across=across, quads=quads)
    channels, outputs = gemm.source[3], gemm.target[3]
    in_vec4s = channels == outputs and channels % 4 == 0
    spec = {
        "local_x": local,
        "KERNEL_HEIGHT": gemm.vertical.window,
        "KERNEL_WIDTH": gemm.horizontal.window,
        "TILE_HEIGHT": tile.height,
        "TILE_WIDTH": tile.width,
        "AT_ONCE": tile.at_once,
        "BY_LINES": tile.by_lines,
        "WINDOW_LOOPS": tile.window_loops,
        "VECTOR_LOADS": in_vec4s,
        "VECTOR_STORES": outputs % 4 == 0,
        **gemm.steps,
        **as_floats,
    }
    others = "rows", "kernel_height"
    push = {name: value for name, value in gemm.push_by_channel.items() if name not in others}
    access = access_by("channels", "src", itemsize, channels, 4 if in_vec4s else 1)
    return groups, Arguments(spec, push={"batch": batches, **push, **magics}, access=access)


def _refuse(call: Call) -> str | None:
    _, height, width, _ = call.filter.shape
    return refuse_long_sums((height, width), 1)


@gemm_kernel(
    OperationCode.DEPTHWISE_CONV_2D,
    shaders=CHANNEL_SHADERS,
    refuse=_refuse,
    channels_last=True,
    epilogue_channels=epilogue_channels,
)
def lower(call: Call, g: Lowering, fused: Fused) -> None:
    """The filter is [1, height, width, output channels]."""
    operands = Operands.of_call(call, filters_of_channels(call)).fused_with(fused)
    lower_depthwise(g, operands, Gemm.of_convolution(call, depthwise_axes(call)))
