"""GEMMs: what convolutions, FULLY_CONNECTED and BATCH_MATMUL become, and the one way to dispatch them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from nnvk.driver.vulkan.lowering.arrange import ARRANGE
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, I32, dtype
from nnvk.driver.vulkan.lowering.filter_output import (
    Operands,
    has_narrow_sums,
    output_push,
    output_spec,
    output_tensors,
    scaled_bias,
)
from nnvk.driver.vulkan.lowering.filters import (
    BLOCK,
    FILTER_SHADERS,
    Filters,
    Float16Scaling,
    float16_scaling_of,
    in_order,
    may_be_float16,
    packed,
    packed_steps,
    zero_of,
)
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import offset, sign_push
from nnvk.driver.vulkan.lowering.relayout import finish_pixels, pixels_of
from nnvk.driver.vulkan.lowering.strategies import GEMM, VECTOR, Strategy, WeightLayout, Work, ranked, span
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.ops.window import Axis
from nnvk.types.operand import Shape

GEMM_SHADERS = (GEMM, VECTOR, ARRANGE, *FILTER_SHADERS)
"""All that `multiply` may dispatch."""

FROM_FLOATS = "FROM_FLOATS"
"""The specialisation constant of gemm.comp, of 16-bit floats, that says that the input has 32-bit ones."""

POINT = Axis(size=1, window=1, stride=1, dilation=1, before=0, after=0, out=1)
"""An axis along which nothing slides."""

_MAX_ITERATIONS = 65_000
"""The most rounds of all loops of an invocation together: llvmpipe ends them after 65,535."""


class Split(IntEnum):
    """How a GEMM consists of parts with filters, or taps of filters, of their own; as gemm.comp has it."""

    NOTHING = 1
    CHANNELS = 2
    """Groups of input channels give groups of output channels."""
    PHASES = 3
    """The output pixels of a transposed convolution that have the same remainders by the strides."""
    BATCHES = 4
    """Images, or matrices."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """The geometry of a product, as the shader has it."""

    source: Shape
    """NHWC."""
    target: Shape
    """NHWC."""
    vertical: Axis
    horizontal: Axis
    split: Split = Split.NOTHING
    parts: int = 1

    @property
    def columns(self) -> int:
        """Output channels of a part."""
        return self.target[3] // self.pixel_parts

    @property
    def depth(self) -> int:
        """Input channels that a part sees."""
        return self.source[3] // self.pixel_parts

    @property
    def pixel_parts(self) -> int:
        """Parts that share pixels."""
        return self.parts if self.split is Split.CHANNELS else 1

    @property
    def parts_outside(self) -> bool:
        """Whether parts have their filters one after the other, not side by side."""
        return self.split is Split.BATCHES

    @property
    def is_padded(self) -> bool:
        """Whether windows may reach beyond the input."""
        ends = ((axis.out - 1) * axis.stride + axis.reach - axis.before > axis.size for axis in self.axes)
        return self.split is Split.PHASES or any(axis.before for axis in self.axes) or any(ends)

    @property
    def has_one_tap(self) -> bool:
        """Whether filters are single pixels."""
        return self.split is not Split.PHASES and all(axis.window == 1 for axis in self.axes)

    @property
    def is_side_by_side(self) -> bool:
        """Whether these pixels lie as those of the output do."""
        alike = all(axis.stride == 1 and axis.before == 0 and axis.size == axis.out for axis in self.axes)
        return self.has_one_tap and alike

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Along height and width."""
        return self.vertical, self.horizontal

    @property
    def steps(self) -> dict[str, int]:
        """How windows go along height and width, as push constants."""
        return {
            "stride_y": self.vertical.stride,
            "stride_x": self.horizontal.stride,
            "dilation_y": self.vertical.dilation,
            "dilation_x": self.horizontal.dilation,
            "pad_top": self.vertical.before,
            "pad_left": self.horizontal.before,
        }

    @property
    def rows(self) -> int:
        """Output pixels of a part, or the most that one has."""
        batches, height, width, _ = self.target
        if self.split is Split.BATCHES:
            batches = 1
        if self.split is Split.PHASES:
            height, width = -(-height // self.vertical.stride), -(-width // self.horizontal.stride)
        return batches * height * width


def refuse_long_sums(taps: tuple[int, int], channels: int) -> str | None:
    """Why a sum over the taps of a window (height, width) and over channels is too long; empty if it isn't."""
    height, width = taps
    iterations = height * (1 + width * (1 + -(-channels // 4)))
    if iterations <= _MAX_ITERATIONS:
        return None
    sum_ = f"a sum over {height} x {width} x {channels} values"
    return f"{sum_} takes {iterations} steps, at most {_MAX_ITERATIONS} are safe"


def channels_of(gemm: Dispatch) -> int:
    """The channels of a pixel of a product's output."""
    return int(gemm.push["out_channels"]) * _pixel_parts(gemm, "TARGET_PARTS")


def inputs_of(gemm: Dispatch) -> int:
    """The same of what it reads; of a transform of Winograd's too."""
    push = gemm.push
    if gemm.shader.family == "depthwise_conv2d":
        return int(push["out_channels"] // push["depth_multiplier"])
    if gemm.shader.family == "fully_connected":
        return int(push["inputs"])
    return int(push["depth"]) * _pixel_parts(gemm, "SOURCE_PARTS") if "depth" in push else int(push["channels"])


def layout_of_weights(gemm: Dispatch) -> WeightLayout:
    """How the weights of a dispatch of gemm.comp lie: BY_STEPS also where the tile is none that stages them."""
    shader, words = gemm.shader, gemm.specialization
    _, tile, *_ = shader.choice
    if tile == "shared":
        return WeightLayout(shader.constant(words, "WEIGHT_LAYOUT"))
    in_order = tile in ("register", "quads") and not shader.constant(words, "PACKED")
    return WeightLayout.BY_K if in_order else WeightLayout.IN_BLOCKS


def width_of_weights(gemm: Dispatch) -> int:
    """Elements of a row of right matrices that are read as they lie, with those side by side; 0 where none are."""
    shader, words, push = gemm.shader, gemm.specialization, gemm.push
    if shader.constant(words, "SPLIT") == Split.CHANNELS:
        return 0
    order, abreast = layout_of_weights(gemm), shader.constant(words, "WEIGHT_PARTS")
    if order is WeightLayout.IN_BLOCKS:
        return 0
    return abreast * int(push["out_channels" if order is WeightLayout.BY_K else "depth"])


def _pixel_parts(gemm: Dispatch, matrices: str) -> int:
    """Parts that share pixels, where matrices that lie side by side are counted by a constant."""
    if gemm.shader.family != "gemm":
        return 1
    by_channels = gemm.shader.constant(gemm.specialization, "SPLIT") == Split.CHANNELS
    return int(gemm.push["parts"]) if by_channels else gemm.shader.constant(gemm.specialization, matrices)


# --- dispatches ----------------------------------------------------------------------------------------------


def multiply(
    g: Lowering,
    operands: Operands,
    filters: Filters,
    gemm: Gemm,
) -> None:
    """Compute the output of a GEMM. Input and output are in NHWC order."""
    work = work_of(g, operands, gemm, filters)
    strategy = g.choose(f"{work} {gemm}", g.once(("ranked", work), lambda: ranked(work, g.device)))
    multiply_by(g, strategy, operands, filters, gemm, work)


def multiply_by(
    g: Lowering,
    strategy: Strategy,
    operands: Operands,
    filters: Filters,
    gemm: Gemm,
    work: Work,
) -> None:
    """The same by a strategy that was chosen for its work."""
    target = pixels_of(g, operands.output, gemm.target, gemm.pixel_parts)
    float16_scaling = (
        float16_scaling_of(g, filters, split_k=strategy.split_k > 1) if strategy.arithmetic == "half" else None
    )
    scale = 1.0 if float16_scaling is None else float16_scaling.scale
    tensors = {
        "src": g.tensor(operands.input),
        "weights": _weights(g, strategy, filters, gemm, scale),
        "dst": target,
        **output_tensors(g, operands, gemm.columns, gemm.pixel_parts),
    }
    if strategy.arithmetic == "int8":
        assert filters.quantised is not None
        tensors["bias"] = scaled_bias(g, operands, filters.quantised.scales, gemm.columns)
    end = output_spec(g, operands, filters)
    if strategy.tile == "vector":
        _matrix_by_vectors(g, operands, gemm, strategy, tensors, end, filters)
    else:
        _by_tiles(g, operands, gemm, work, strategy, tensors, end, float16_scaling, filters)
    finish_pixels(g, target, operands.output, gemm.target, gemm.pixel_parts)


def _weights(g: Lowering, strategy: Strategy, filters: Filters, gemm: Gemm, scale: float) -> TensorRef:
    """Weights as a strategy takes them."""
    if strategy.arithmetic == "int8":
        return packed_steps(g, filters)
    if strategy.packed:
        return packed(g, filters, scale)
    if strategy.tile == "shared":
        return g.tensor(filters.tensor)
    return in_order(g, filters, gemm.parts_outside, scale)


def _order_of(g: Lowering, gemm: Gemm, filters: Filters) -> WeightLayout:
    """How right matrices lie that a model computes; constants are packed beforehand."""
    may_be = not filters.tensor.is_constant and gemm.split in (Split.NOTHING, Split.BATCHES)
    if may_be and filters.taps == 1 and dtype(filters.tensor) in (F32.name, F16.name, I32.name):
        if filters.is_in_order(gemm.parts_outside, g.device):
            return WeightLayout.BY_K
        if filters.is_by_outputs(g.device):
            return WeightLayout.BY_OUTPUTS
    return WeightLayout.IN_BLOCKS


def work_of(g: Lowering, operands: Operands, gemm: Gemm, filters: Filters) -> Work:
    """The description of a product that strategies are chosen by."""
    kind = dtype(operands.input)
    vertical, horizontal = gemm.vertical, gemm.horizontal
    taps = vertical.window * horizontal.window
    if gemm.split is Split.PHASES:
        taps = -(-vertical.window // vertical.stride) * -(-horizontal.window // horizontal.stride)
    float16 = kind == F16.name and g.device.has_native_16
    return Work(
        kind,
        gemm.rows,
        gemm.columns,
        gemm.parts,
        taps,
        gemm.depth,
        constant=filters.tensor.is_constant,
        in_order=filters.is_in_order(gemm.parts_outside, g.device),
        order=_order_of(g, gemm, filters),
        matrix=gemm.parts == 1 and vertical == horizontal == POINT and gemm.source[1:3] == (1, 1),
        int8_weights=kind == F32.name and _may_stay_bytes(operands, gemm, filters),
        float16=float16 and may_be_float16(g, filters),
        float16_split_k=float16 and may_be_float16(g, filters, split_k=True),
        narrow=operands.is_wide and has_narrow_sums(g, operands, filters),
    )


def _may_stay_bytes(operands: Operands, gemm: Gemm, filters: Filters) -> bool:
    """Whether weights are steps of 8 bits, and stay such: of matrices alone, for Winograd's tiles need real numbers."""
    has_bias = operands.bias is not None and operands.bias.is_constant
    return has_bias and gemm.is_side_by_side and gemm.split is Split.NOTHING and filters.quantised is not None


def _by_tiles(
    g: Lowering,
    operands: Operands,
    gemm: Gemm,
    work: Work,
    strategy: Strategy,
    tensors: Mapping[str, TensorRef],
    end: Mapping[str, int | bool],
    float16_scaling: Float16Scaling | None,
    filters: Filters,
) -> None:
    kind, columns = work.kind, gemm.columns
    (local_x, local_y), tile = strategy.local, strategy.tile
    spec: dict[str, int | bool] = {
        **end,
        "local_x": local_x,
        "local_y": local_y,
        "ROWS": strategy.rows,
        "SPAN": span(strategy, work, g.device),
        "VECTOR_STORES": columns % 4 == 0,
        "SPLIT": int(gemm.split),
        "PADDED": gemm.is_padded,
        "ONE_TAP": gemm.has_one_tap,
        "SIDE_BY_SIDE": gemm.is_side_by_side,
    }
    if strategy.split_k > 1:
        spec["SPLIT_K"] = strategy.split_k
    if tile == "shared":
        whole = gemm.depth % (4 * strategy.stage) == 0
        spec |= {"VEC4S": strategy.vec4s, "STAGE": strategy.stage, "WHOLE_STAGES": whole, "TOGETHER": strategy.together}
        if not strategy.packed:
            spec["WEIGHT_LAYOUT"] = int(work.order)
    if tile in ("register", "quads"):
        spec |= {"local_x": local_x * local_y, "ACROSS": local_x, "VEC4S": strategy.vec4s, "PACKED": strategy.packed}
        del spec["local_y"]
    batches, height, width, channels = gemm.source
    vertical, horizontal = gemm.vertical, gemm.horizontal
    bytes_ = {"last_word": max(0, batches * height * width * channels - 1) // 4} if kind == "q8" else {}
    if kind == "q8":
        spec |= {"SIGNED": bool(offset(operands.input)), "WEIGHTS_SIGNED": bool(offset(operands.filter))}
    else:
        spec["FEW"] = min(gemm.depth, 4)
    unpitched = {} if kind in ("q8", "q16") or strategy.arithmetic == "int8" else {"weights_pitch": 0}
    float16 = {}
    if float16_scaling is not None:
        spec["ROUND"] = float16_scaling.round
        float16["weight_scale"] = 1.0 / float16_scaling.scale
    tiles = strategy.tiles(work)
    if strategy.split_k > 1:
        of_left = 8 if float16_scaling else 32 if operands.is_wide else 16
        left = g.scratch(of_left * tiles * strategy.split_k * strategy.sums * local_x * local_y)
        tensors = {**tensors, "sums": left, "counters": g.counters(tiles * local_x * local_y)}
        if float16_scaling is not None:
            float16["left_scale"] = float16_scaling.scale_of_sum(strategy.vec4s_of_k_slice(work))
    g.dispatch(
        strategy.variant(kind),
        groups=g.flat(tiles * strategy.split_k, 1),
        spec=spec,
        tensors=tensors,
        rows=gemm.rows,
        out_height=gemm.target[1],
        out_width=gemm.target[2],
        out_channels=columns,
        height=height,
        width=width,
        channels=channels,
        depth=gemm.depth,
        parts=gemm.parts,
        kernel_height=vertical.window,
        kernel_width=horizontal.window,
        **gemm.steps,
        **output_push(operands),
        **unpitched,
        **_zero_of_weights(strategy, filters),
        **bytes_,
        **float16,
    )


def _matrix_by_vectors(
    g: Lowering,
    operands: Operands,
    gemm: Gemm,
    strategy: Strategy,
    tensors: Mapping[str, TensorRef],
    end: Mapping[str, int | bool],
    filters: Filters,
) -> None:
    g.dispatch(
        strategy.variant(dtype(operands.input)),
        groups=(gemm.rows, -(-gemm.columns // BLOCK), 1),
        spec={
            **end,
            "local_x": strategy.local[0],
            "local_y": strategy.local[1],
            "VECTOR_STORES": gemm.columns % 4 == 0,
        },
        tensors=tensors,
        inputs=gemm.depth,
        src_pitch=gemm.depth,
        out_channels=gemm.columns,
        **sign_push(operands.input),
        **output_push(operands),
        **_zero_of_weights(strategy, filters),
    )


def _zero_of_weights(strategy: Strategy, filters: Filters) -> dict[str, int]:
    """The push constant of weights of 8 bits that real numbers are multiplied by."""
    if strategy.arithmetic != "int8":
        return {}
    assert filters.quantised is not None
    return {"weight_zero": zero_of(filters.quantised)}
