"""tflite-micro's operators on signals that keep elements from one execution to the next, as its kernels do.

The elements are states of the model, zeros at first. Where a kernel gives no elements yet, they are 0 here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.importers import charged
from nnvk.importers.bounds import INT32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.flex_options import FlexOptions
from nnvk.importers.tflite.micro_signal import Edge, State, bits, check, computed, one_type, shape_of, size_of, unsigned
from nnvk.importers.tflite.registry import builtin
from nnvk.importers.user_functions import operator

_INT16 = np.iinfo(np.int16)
_MOST = 1 << 24
"""The most elements of a frame, a delay or a stack."""
_VALID = "whether the output is valid"


def _count(count: np.ndarray, most: int) -> int:
    """The number of elements in a state, which is an array of one element."""
    number = int(count.reshape(-1)[0])
    if not 0 <= number <= most:
        raise ValueError(f"the state must have from 0 to {most} elements, got {number}")
    return number


@builtin("SignalDelay")
def delay(c: Context) -> Sequence[Value]:
    """Map rows that come a number of elements later."""
    check(c, [Edge("the input", "INT16")], [Edge("the output", "INT16")])
    size_of(c, 0, "the input")
    length = FlexOptions(c.operator.custom_options()).whole("delay_length", 0, _MOST)
    rows = math.prod(shape_of(c, 0)[:-1])
    states = [State("samples", "INT16", (rows, length))] if length else []
    return computed(c, "nnvk.SignalDelay", {}, states)


@operator("nnvk.SignalDelay")
def delayed(rows: np.ndarray, kept: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """The int16 rows [..., n] behind those that were kept [rows, length], and the last of all to keep."""
    if kept is None:
        return (rows,)
    size = rows.shape[-1]
    line = np.concatenate([kept, rows.reshape(-1, size)], axis=1)
    return line[:, :size].reshape(rows.shape), line[:, size:]


@builtin("SignalFramer")
def framer(c: Context) -> Sequence[Value]:
    """Map frames that overlap, of rows that go on from one execution to the next, and whether all are there."""
    check(c, [Edge("the input", "INT16")], [Edge("the output", "INT16"), Edge(_VALID, "BOOL", 0)])
    options = FlexOptions(c.operator.custom_options())
    size, stride = options.whole("frame_size", 1, _MOST), options.whole("frame_step", 1, _MOST)
    size_of(c, 0, "the input", stride)
    filled = size - stride if options["prefill"] else 0
    if filled < 0:
        raise Unmapped(f"the option frame_step must be at most frame_size = {size} with prefill, got {stride}")
    rows, capacity = math.prod(shape_of(c, 0)[:-1]), -(-size // stride) * stride
    states = [State("samples", "INT16", (rows, capacity)), State("count", "INT32", (1,))]
    frames = shape_of(c, 0)[-1] // stride
    attributes = {"size": size, "stride": stride, "filled": filled}
    return computed(c, "nnvk.SignalFramer", attributes, states, work=rows * frames * size)


@operator("nnvk.SignalFramer")
def framed(
    rows: np.ndarray, kept: np.ndarray, more: np.ndarray, *, size: int, stride: int, filled: int
) -> tuple[np.ndarray, ...]:
    """Int16 frames [..., frames, size] of rows [..., n] behind the first of those that were kept [rows, capacity].

    ``more`` is how many more these are than the ``filled`` zeros of the first execution.
    """
    count = _count(more + filled, kept.shape[1])
    frames = rows.shape[-1] // stride
    line = np.concatenate([kept[:, :count], rows.reshape(kept.shape[0], -1)], axis=1)
    early = min(max(0, -(-(size - count) // stride) - 1), frames)
    result = charged.zeros((kept.shape[0], frames, size), np.int16)
    for frame in range(frames - early):
        result[:, early + frame] = line[:, frame * stride : frame * stride + size]
    line = line[:, (frames - early) * stride :]
    left = np.zeros_like(kept)
    left[:, : line.shape[1]] = line
    number = np.array([line.shape[1] - filled], np.int32)
    return result.reshape(*rows.shape[:-1], frames, size), np.array(early == 0), left, number


@builtin("SignalStacker")
def stacker(c: Context) -> Sequence[Value]:
    """Map frames that are stacked with those before and behind, and whether they are there."""
    check(c, [Edge("the input", "INT16", 1)], [Edge("the output", "INT16", 1), Edge(_VALID, "BOOL", 0)])
    options = FlexOptions(c.operator.custom_options())
    (size,) = shape_of(c, 0)
    channels = options.whole("num_channels", size, size)
    left, right = (options.whole(f"stacker_{side}_context", 0, _MOST) for side in ("left", "right"))
    height = left + right + 1
    stride = options.whole("stacker_step", 1, height)
    if height * channels > _MOST:
        raise Unmapped(f"a stack must have at most {_MOST} elements, got {height} frames of {channels}")
    states = [State("frames", "INT16", (height, channels)), State("count", "INT32", (1,))]
    return computed(c, "nnvk.SignalStacker", {"left": left, "stride": stride}, states)


@operator("nnvk.SignalStacker")
def stacked(
    frame: np.ndarray, kept: np.ndarray, count: np.ndarray, *, left: int, stride: int
) -> tuple[np.ndarray, ...]:
    """A stack [height * channels] of int16 frames: those kept [height, channels], and one more [channels].

    ``count`` is the number of those kept plus 1, and 0 before the first frame, which comes ``left`` times more.
    """
    height = kept.shape[0]
    number = _count(count, height + 1)
    frames = (
        np.concatenate([kept[: number - 1], frame.reshape(1, *frame.shape)])
        if number
        else charged.tile(frame, (left + 1, 1))
    )
    is_valid = len(frames) >= height
    stack = frames[:height] if is_valid else np.zeros_like(kept)
    frames = frames[stride:] if is_valid else frames
    rest = np.zeros_like(kept)
    rest[: len(frames)] = frames
    return stack.reshape(-1), np.array(is_valid), rest, np.array([len(frames) + 1], np.int32)


@builtin("SignalOverlapAdd")
def overlap_add(c: Context) -> Sequence[Value]:
    """Map the sums of frames that overlap; those of INT16 are saturated."""
    type_, options = one_type(c, ("FLOAT32", "INT16"))
    shape = shape_of(c, 0)
    if len(shape) < 2:
        raise Unmapped(f"the input (input 0) must have 2 dimensions at least, got shape {list(shape)}")
    stride = options.whole("frame_step", 1, size_of(c, 0, "the input"))
    states = [State("sums", type_, (math.prod(shape[:-2]), shape[-1]))]
    return computed(c, "nnvk.SignalOverlapAdd", {"stride": stride}, states)


@operator("nnvk.SignalOverlapAdd")
def overlap_added(frames: np.ndarray, sums: np.ndarray, *, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows [..., frames * stride] of frames [..., frames, size] on sums [rows, size], and the sums that are left."""
    rows, size = sums.shape
    *leading, count, _ = frames.shape
    sums = sums.copy()
    result = np.empty((rows, count, stride), frames.dtype)
    for number, frame in enumerate(frames.reshape(rows, count, size).swapaxes(0, 1)):
        if frames.dtype == np.int16:
            sums = (sums.astype(np.int32) + frame).clip(_INT16.min, _INT16.max).astype(np.int16)
        else:
            sums = sums + frame
        result[:, number] = sums[:, :stride]
        sums = np.concatenate([sums[:, stride:], charged.zeros((rows, stride), frames.dtype)], axis=1)
    return result.reshape(*leading, count * stride), sums


@builtin("SignalFilterBankSpectralSubtraction")
def spectral_subtraction(c: Context) -> Sequence[Value]:
    """Map channels less their noise, which is estimated with each execution, and the estimate."""
    check(
        c,
        [Edge("the input", "UINT32", 1)],
        [Edge("the output", "UINT32", 1), Edge("the estimate of noise", "UINT32", 1)],
    )
    options = FlexOptions(c.operator.custom_options())
    (size,) = shape_of(c, 0)
    options.whole("num_channels", size, size)
    factors = ("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing")
    attributes = {
        "factors": [options.whole(name, *INT32) & 0xFFFFFFFF for name in factors],
        "least": options.whole("min_signal_remaining", *INT32) & 0xFFFFFFFF,
        "extra": options.whole("smoothing_bits", 0, 31),
        "shift": options.whole("spectral_subtraction_bits", 0, 63),
        "clamping": bool(options["clamping"]),
    }
    return computed(c, "nnvk.SignalFilterBankSpectralSubtraction", attributes, [State("noise", "UINT32", (size,))])


@operator("nnvk.SignalFilterBankSpectralSubtraction")
def without_noise(
    channels: np.ndarray,
    noise: np.ndarray,
    *,
    factors: list[int],
    least: int,
    extra: int,
    shift: int,
    clamping: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uint32 channels [n] less the estimates [n], the estimates, and these again to keep.

    ``factors`` are those of the signal and of the estimate so far, for even channels and for odd ones. With ``extra``
    bits, an estimate is shifted to the left. All factors and ``least``, the part that stays in any case, are by
    2**shift.
    """
    mask, by, wider = np.uint64(0xFFFFFFFF), np.uint64(shift), np.uint64(extra)
    signal = unsigned(channels)
    odd = charged.arange(signal.size) % 2 == 1
    new, old = (np.where(odd, *(np.uint64(factors[at]) for at in (place + 2, place))) for place in range(2))
    scaled = signal << wider & mask
    estimate = scaled * new + unsigned(noise) * old >> by & mask
    taken = np.minimum(estimate, scaled)
    floor = signal * np.uint64(least) >> by & mask
    after = bits(taken if clamping else estimate)
    return bits(np.maximum(scaled - taken >> wider, floor)), after, after
