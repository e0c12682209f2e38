"""A GEMM to compute: its geometry, its operands and epilogue, and the description that strategies are chosen by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum

from nnvk.driver.vulkan.graph.program import ElementwiseProgram, widens
from nnvk.driver.vulkan.lowering.dtypes import Q8, Q16, of
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, Weights
from nnvk.ops.call import Call, Tensor
from nnvk.ops.linear import rounds_once
from nnvk.ops.window import Axis
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.operand import Shape

POINT = Axis(size=1, window=1, stride=1, dilation=1, before=0, after=0, out=1)
"""An axis along which nothing slides."""


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

    @classmethod
    def of_convolution(cls, call: Call, axes: tuple[Axis, Axis], split: Split = Split.NOTHING, parts: int = 1) -> Gemm:
        """The GEMM that a convolution is whose windows go along height and width as ``axes`` say."""
        return cls(call.input.shape, call.output.shape, *axes, split, parts)

    @classmethod
    def of_rows(cls, rows: int, depth: int, columns: int) -> Gemm:
        """The product of a matrix of so many rows and one of ``depth`` rows and so many columns."""
        return cls((rows, 1, 1, depth), (rows, 1, 1, columns), POINT, POINT)

    @property
    def pointwise(self) -> Gemm:
        """The GEMM with the same rows whose windows are single pixels: a convolution of 1 x 1 behind these windows."""
        batches, height, width, _ = self.target
        vertical, horizontal = (Axis(size, 1, 1, 1, 0, 0, size) for size in (height, width))
        source = batches, height, width, self.source[3]
        return replace(self, source=source, vertical=vertical, horizontal=horizontal)

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
    def words_of_pixel(self) -> int:
        """The words of an output pixel of bytes."""
        return self.pixel_parts * -(-self.columns // 4)

    @property
    def taps(self) -> int:
        """The pixels of a window."""
        return self.vertical.window * self.horizontal.window

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
        """Whether pixels of the input have the order of pixels of the output."""
        alike = all(axis.stride == 1 and axis.before == 0 and axis.size == axis.out for axis in self.axes)
        return self.has_one_tap and alike

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Along height and width."""
        return self.vertical, self.horizontal

    @property
    def steps(self) -> dict[str, int]:
        """The specialisation constants for the steps of windows, and of taps in them."""
        return {
            "STRIDE_Y": self.vertical.stride,
            "STRIDE_X": self.horizontal.stride,
            "DILATION_Y": self.vertical.dilation,
            "DILATION_X": self.horizontal.dilation,
        }

    @property
    def pixels(self) -> tuple[int, int, int]:
        """Batches, height and width of the output pixels of a part, or of the most that one has."""
        batches, height, width, _ = self.target
        if self.split is Split.BATCHES:
            batches = 1
        if self.split is Split.PHASES:
            height, width = -(-height // self.vertical.stride), -(-width // self.horizontal.stride)
        return batches, height, width

    @property
    def rows(self) -> int:
        """The number of these pixels."""
        return math.prod(self.pixels)

    def push(self, line_taps: int = 1) -> dict[str, int]:
        """The push constants of gemm.comp that all data types have. ``line_taps`` neighbouring taps are one."""
        _, height, width, channels = self.source
        _, out_height, out_width, _ = self.target
        return {
            "rows": self.rows,
            "out_height": out_height,
            "out_width": out_width,
            "out_channels": self.columns,
            "height": height,
            "width": width,
            "channels": channels,
            "depth": self.depth * line_taps,
            "parts": self.parts,
            "kernel_height": self.vertical.window,
            "kernel_width": self.horizontal.window // line_taps,
            "pad_top": self.vertical.before,
            "pad_left": self.horizontal.before,
        }

    @property
    def push_by_channel(self) -> dict[str, int]:
        """The push constants for the geometry of convolutions whose filters see a channel each."""
        others = "parts", "depth", "kernel_width"
        push = {name: value for name, value in self.push().items() if name not in others}
        return push | {"depth_multiplier": self.columns // self.depth}


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The calls on the result of a GEMM that compute what it stores."""

    calls: tuple[Call, ...]
    result: int
    """The index of the tensor that is the GEMM's result by itself."""
    output: Tensor
    """The tensor that is stored, in the shape of the GEMM's result."""
    program: ElementwiseProgram | None = None
    """The program of the calls on floats but for a conversion to float32 at the end; None if they are not such."""

    @property
    def is_converted(self) -> bool:
        """Whether the last call only converts the results to float32."""
        return widens(self.calls[-1])

    @property
    def computes(self) -> bool:
        """Whether there are other calls than such a conversion."""
        return len(self.calls) > self.is_converted


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The operations that a GEMM's dispatch computes besides: the prologue and the epilogue of its node."""

    epilogue: Epilogue | None = None
    """The operations that follow the activation."""
    wide_input: Tensor | None = None
    """The float32 tensor from which the input has yet to be converted, if it has float16."""
    depthwise: Call | None = None
    """The depthwise convolution that gives the input, if it is computed in the same dispatch (`separable.py`)."""


@dataclass(frozen=True, slots=True)
class Operands(Fused):
    """The operands of a GEMM, its output, and what its dispatch computes besides."""

    code: OperationCode
    input: Tensor
    weights: Weights
    bias: Tensor | None
    output: Tensor
    activation: int = FuseCode.NONE
    rounds_once: bool = False
    """Whether sums of products of 8 bits are rounded once, not twice."""

    @classmethod
    def of_call(cls, call: Call, weights: Weights) -> Operands:
        """The operands of a convolution or of FULLY_CONNECTED."""
        once = rounds_once(call)
        return cls(call.code, call.input, weights, call.bias, call.output, call.activation, rounds_once=once)

    def fused_with(self, other: Fused) -> Operands:
        """The same operands with what a node has fused."""
        return replace(self, epilogue=other.epilogue, wide_input=other.wide_input, depthwise=other.depthwise)

    @property
    def target(self) -> Tensor:
        """The tensor that is stored: the output, or the result of the epilogue."""
        return self.output if self.epilogue is None else self.epilogue.output

    @property
    def variant(self) -> str:
        """The value of the axis EPILOGUE."""
        return "fused" if self.epilogue is not None and self.epilogue.computes else "plain"

    @property
    def is_quantised(self) -> bool:
        """Whether quantised numbers are multiplied."""
        return self.is_wide or of(self.input) is Q8

    @property
    def is_wide(self) -> bool:
        """Whether quantised numbers have 16 bits, and sums of their products 64."""
        return of(self.input) is Q16


class WeightLayout(IntEnum):
    """How filters lie that the tile `shared` takes; as shared.glsl has it."""

    IN_BLOCKS = 1
    """Packed."""
    BY_K = 2
    """Output channels are innermost, a multiple of four."""
    BY_OUTPUTS = 3
    """The channels that a filter sees are, a multiple of four."""


@dataclass(frozen=True, slots=True)
class Work:
    """The requirements of a product."""

    kind: str
    """Its data type, as the axis DTYPE has it."""
    rows: int
    """Output pixels of a part."""
    columns: int
    """Output channels of a part."""
    parts: int
    taps: int
    depth: int
    """Input channels of a tap."""
    constant: bool
    """The filters are known: they are packed, or put in order, beforehand."""
    in_order: bool
    """The filters lie in order as they are."""
    matrix: bool
    """A matrix by a matrix: one part, one tap, pixels one after the other."""
    int8_weights: bool = False
    """Weights of real numbers are quantised values of 8 bits."""
    float16: bool = False
    """Factors are native float16, and sums may be float16, too (`weights.may_be_float16`)."""
    float16_split_k: bool = False
    """Sums of K slices may be float16, too."""
    order: WeightLayout = WeightLayout.IN_BLOCKS
    """How the tile `shared` takes the filters: as they lie, where it can, so that they need not be packed."""
    can_fold: bool = False
    """Products of bytes with constant filters and bias, which can have what is due to the input's zero point."""
    narrow: bool = False
    """Products of 16-bit quantised values add up to numbers of 32 bits (`epilogue.has_narrow_sums`)."""
    depthwise: int = 0
    """The taps of the depthwise convolution that gives the input, in the same dispatch; 0 if the input is in memory."""

    one_by_one: bool = False
    """Products of floats are added up one by one, along K, and each sum is rounded (`Strategy.adds_in_order`)."""
    line_taps: int = 1
    """Taps of a line of a window that lie one after the other in memory: cooperative matrices take them as one."""

    @property
    def in_lines(self) -> tuple[int, int]:
        """The taps, and the channels of each, as cooperative matrices take them."""
        return self.taps // self.line_taps, self.depth * self.line_taps

    @property
    def vec4s_of_k(self) -> int:
        """Vec4s of K."""
        return self.taps * -(-self.depth // 4)

    @property
    def packed_weights(self) -> int:
        """Weights in packed blocks, with what pads these."""
        return self.parts * -(-self.columns // BLOCK) * BLOCK * 4 * self.vec4s_of_k

    @property
    def vec4s(self) -> int:
        """Vec4s of output channels of a part."""
        return -(-self.columns // 4)


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """A GEMM to compute: its operands and its geometry, and the description that strategies are chosen by."""

    operands: Operands
    gemm: Gemm
    work: Work
