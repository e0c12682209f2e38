"""The windows of convolutions and pools: strides, dilations and paddings, and images of other ranks than 4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.node import Node


@dataclass(frozen=True, slots=True)
class Window:
    """A window's way along one spatial axis."""

    size: int
    """Elements of the input."""
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    beyond: int = 0
    """Elements behind the padding that the last window needs where sizes are rounded up."""

    @property
    def reach(self) -> int:
        """Elements from the first to the last that a window covers."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        """How many windows there are."""
        return (self.size + self.before + self.after + self.beyond - self.reach) // self.stride + 1


def numbers_of(node: Node, name: str, rank: int, default: int) -> list[int]:
    """An attribute that has a number for each spatial axis."""
    given = node.integers(name)
    if given is None:
        return [default] * rank
    if len(given) != rank:
        raise Unmapped(f"attribute '{name}' must have {rank} numbers, got {given}")
    if min(given) < (1 if default else 0) or max(given) >= 1 << 31:
        raise Unmapped(f"attribute '{name}' must have numbers from {1 if default else 0} up, got {given}")
    return given


def windows_of(c: Context, spatial: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> list[Window]:
    """The way of a node's windows along each spatial axis."""
    rank = len(spatial)
    strides, dilations = numbers_of(c.node, "strides", rank, 1), numbers_of(c.node, "dilations", rank, 1)
    auto = c.node.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Unmapped(f"attribute 'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '{auto}'")
    pads = c.node.integers("pads") if auto == "NOTSET" else None
    if pads is not None and (len(pads) != 2 * rank or min(pads) < 0):
        raise Unmapped(f"attribute 'pads' must have {2 * rank} numbers from 0 up, got {pads}")
    found = []
    for axis, (size, width, stride, dilation) in enumerate(zip(spatial, kernel, strides, dilations, strict=True)):
        reach = (width - 1) * dilation + 1
        before, after = (pads[axis], pads[axis + rank]) if pads else (0, 0)
        if auto.startswith("SAME"):
            # Windows further apart than they reach begin with the first element, as in ONNX's reference; onnxruntime's
            # convolutions leave some out.
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
            before, after = total // 2, total - total // 2
            if auto == "SAME_LOWER":
                before, after = after, before
        room = size + before + after - reach
        if room < 0:
            raise Unmapped(f"a window of {reach} does not fit into {size} padded by {before} + {after}")
        beyond = 0
        if ceil and room % stride:
            last = (room // stride + 1) * stride
            if last < size + before:  # a window that begins in the padding behind is none
                beyond = last - room
        found.append(Window(size, width, stride, dilation, before, after, beyond))
    return found


def image_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape [N, C, L] as [N, C, 1, L]."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else tuple(shape)


def as_image(windows: list[Window]) -> tuple[Window, Window]:
    """The vertical and the horizontal way; of one axis it is the horizontal."""
    if len(windows) == 1:
        return Window(1, 1, 1, 1, 0, 0), windows[0]
    vertical, horizontal = windows
    return vertical, horizontal


def kernel_of(node: Node, rank: int) -> list[int]:
    """The sizes of a pool's window."""
    kernel = numbers_of(node, "kernel_shape", rank, 1)
    if not node.has("kernel_shape"):
        raise Unmapped("attribute 'kernel_shape' is missing")
    return kernel


def covered(windows: Sequence[Window]) -> int:
    """Elements of a window."""
    return math.prod(window.kernel for window in windows)
