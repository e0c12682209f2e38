"""Sliding windows: the padding, output size and layout that convolutions and pools share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.types.codes import PaddingCode
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True)
class Axis:
    """A window's way along one spatial axis, in elements."""

    size: int
    """Elements of the input."""
    window: int
    stride: int
    dilation: int
    before: int
    """Padding before the first element."""
    after: int
    out: int
    """Number of positions: the output's size."""

    @property
    def reach(self) -> int:
        """Elements from the first to the last that a window covers."""
        return (self.window - 1) * self.dilation + 1


def axis(what: str, size: int, window: int, stride: int, padding: tuple[int, int] | int, dilation: int = 1) -> Axis:
    """Place windows along an axis. ``padding`` is explicit (before, after) or a PaddingCode.

    ``what`` is "height" or "width", for the errors: BAD_DATA where a number is out of range or the window
    does not fit into the padded input.
    """
    if stride < 1:
        raise bad_data(f"stride_{what} must be at least 1, got {stride}")
    if dilation < 1:
        raise bad_data(f"dilation_{what} must be at least 1, got {dilation}")
    if window < 1:
        raise bad_data(f"the window's {what} must be at least 1, got {window}")
    reach = (window - 1) * dilation + 1
    if isinstance(padding, tuple):
        before, after = padding
        if before < 0 or after < 0:
            raise bad_data(f"padding along {what} must not be negative, got {before} and {after}")
    elif padding == PaddingCode.SAME:
        out = -(-size // stride)
        total = max(0, (out - 1) * stride + reach - size)
        before, after = total // 2, total - total // 2
    elif padding == PaddingCode.VALID:
        before = after = 0
    else:
        raise bad_data(f"padding scheme must be a PaddingCode (1 or 2), got {padding}")
    room = size + before + after - reach
    if room < 0:
        raise bad_data(f"a window of {what} {reach} does not fit into an input of {size} padded by {before} + {after}")
    return Axis(size, window, stride, dilation, before, after, room // stride + 1)


def axes(call: Call, height: int, width: int, window: tuple[int, int]) -> tuple[Axis, Axis]:
    """The vertical and horizontal axis of a call with NNAPI's usual parameter names."""
    vertical: tuple[int, int] | int
    horizontal: tuple[int, int] | int
    if call.has("padding"):
        vertical = horizontal = call.padding
    else:
        vertical = (call.padding_top, call.padding_bottom)
        horizontal = (call.padding_left, call.padding_right)
    dilation_w = call.dilation_width if call.has("dilation_width") else 1
    dilation_h = call.dilation_height if call.has("dilation_height") else 1
    return (
        axis("height", height, window[0], call.stride_height, vertical, dilation_h),
        axis("width", width, window[1], call.stride_width, horizontal, dilation_w),
    )


_MOST_PADDING = 1 << 12
"""Elements of padding along an axis that are laid out."""


def windows(
    nhwc: np.ndarray, vertical: Axis, horizontal: Axis, fill: float | int, *, unordered: bool = False
) -> np.ndarray:
    """One window of an NHWC array per output position: [N, out_h, out_w, window_h, window_w, C], a view.

    Windows that reach far beyond the input, which a view would need as much padding for, are a copy. It may have
    fewer elements in a window if ``unordered`` says that their order and their padding don't matter.
    """
    if any(axis.before + axis.after > _MOST_PADDING for axis in (vertical, horizontal)):
        return _gathered(nhwc, _taps(vertical, unordered), _taps(horizontal, unordered), fill)
    padded = np.pad(
        nhwc,
        ((0, 0), (vertical.before, vertical.after), (horizontal.before, horizontal.after), (0, 0)),
        constant_values=fill,
    )
    batches, _, _, channels = padded.shape
    n, h, w, c = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (batches, vertical.out, horizontal.out, vertical.window, horizontal.window, channels),
        (n, h * vertical.stride, w * horizontal.stride, h * vertical.dilation, w * horizontal.dilation, c),
        writeable=False,
    )


def _gathered(nhwc: np.ndarray, rows: np.ndarray, columns: np.ndarray, fill: float | int) -> np.ndarray:
    padded = np.pad(nhwc, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=fill)
    gathered: np.ndarray = padded[:, rows[:, np.newaxis, :, np.newaxis], columns[:, np.newaxis, :]]
    return gathered


def _taps(axis: Axis, unordered: bool) -> np.ndarray:
    """The input's element under each tap at each position, [out, taps]; the input's size where that is padding."""
    first = np.arange(axis.out)[:, np.newaxis] * axis.stride - axis.before
    if unordered and axis.dilation == 1 and axis.window > axis.size:
        past = np.clip(first + axis.window, 0, axis.size)
        taps = np.clip(first, 0, axis.size) + np.arange(axis.size)
        return np.where(taps < past, taps, axis.size)
    taps = first + np.arange(axis.window) * axis.dilation
    return np.where((taps >= 0) & (taps < axis.size), taps, axis.size)


def to_nhwc(data: np.ndarray, nchw: bool) -> np.ndarray:
    """An array of rank 4 in NHWC order (a view)."""
    return data.transpose(0, 2, 3, 1) if nchw else data


def from_nhwc(data: np.ndarray, nchw: bool) -> np.ndarray:
    """An NHWC array in the layout asked for."""
    return np.ascontiguousarray(data.transpose(0, 3, 1, 2)) if nchw else data


def nhwc_shape(shape: Shape, nchw: bool) -> Shape:
    """A shape of rank 4 in NHWC order."""
    return (shape[0], shape[2], shape[3], shape[1]) if nchw else shape


def layout_shape(nhwc: Shape, nchw: bool) -> Shape:
    """An NHWC shape in the layout asked for."""
    return (nhwc[0], nhwc[3], nhwc[1], nhwc[2]) if nchw else nhwc
