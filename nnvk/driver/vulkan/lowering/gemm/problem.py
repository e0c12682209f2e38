"""The geometry of a GEMM: the windows of a convolution, or matrices, and the parts that have filters of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum

from nnvk.ops.call import Call
from nnvk.ops.window import Axis
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
