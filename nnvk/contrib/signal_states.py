"""tflite-micro's operators on signals that keep elements from one execution to the next, as its kernels do.

The elements are zeros at first. Where a kernel gives no elements yet, they are 0 here.
"""

from __future__ import annotations

import math

import numpy as np

from nnvk.contrib.tensors import INT16, Tensor, check, option, size_of, type_option
from nnvk.importers import charged, operator
from nnvk.importers.bounds import INT32
from nnvk.importers.errors import Unmapped

_MOST = 1 << 24
"""The most elements of a frame, a delay or a stack."""


def _count(count: Tensor, most: int) -> int:
    """The number of elements in a state, which is an array of one element."""
    number = int(count[0])
    if not 0 <= number <= most:
        raise Unmapped(f"the state must have from 0 to {most} elements, got {number}")
    return number


# --- delays --------------------------------------------------------------------------------------------------


def _samples_of_delay(rows: Tensor, *, custom_options: bytes = b"") -> dict[str, Tensor]:
    check(rows, "the input", np.int16)
    size_of(rows, "the input")
    length = option(custom_options, "delay_length", 0, _MOST)
    return {"samples": charged.zeros((math.prod(rows.shape[:-1]), length), np.int16)} if length else {}


@operator("SignalDelay", states=_samples_of_delay)
def delay(rows: Tensor, kept: Tensor | None = None, *, custom_options: bytes = b"") -> tuple[Tensor, ...]:
    """The int16 rows [..., n] behind those that were kept [rows, length], and the last of all to keep."""
    if kept is None:
        return (rows,)
    size = rows.shape[-1]
    line = np.concatenate([kept, rows.reshape(-1, size)], axis=1)
    return line[:, :size].reshape(rows.shape), line[:, size:]


# --- frames --------------------------------------------------------------------------------------------------


def _sizes_of_frames(custom_options: bytes) -> tuple[int, int, int]:
    """The size of frames, the distance between them, and the number of zeros before the first execution."""
    size, stride = (option(custom_options, name, 1, _MOST) for name in ("frame_size", "frame_step"))
    filled = size - stride if option(custom_options, "prefill", 0, 1) else 0
    if filled < 0:
        raise Unmapped(f"the option frame_step must be at most frame_size = {size} with prefill, got {stride}")
    return size, stride, filled


def _samples_of_frames(rows: Tensor, *, custom_options: bytes = b"") -> dict[str, Tensor]:
    check(rows, "the input", np.int16)
    size, stride, _ = _sizes_of_frames(custom_options)
    size_of(rows, "the input", stride)
    capacity = -(-size // stride) * stride
    samples = charged.zeros((math.prod(rows.shape[:-1]), capacity), np.int16)
    return {"samples": samples, "count": np.zeros(1, np.int32)}


@operator("SignalFramer", states=_samples_of_frames)
def framer(rows: Tensor, kept: Tensor, more: Tensor, *, custom_options: bytes = b"") -> tuple[Tensor, ...]:
    """Int16 frames [..., frames, size], which overlap, of rows [..., n] behind the first of those that were kept.

    ``more`` is how many more these [rows, capacity] are than the zeros of the first execution. Also returns whether all
    frames are there, and the states.
    """
    size, stride, filled = _sizes_of_frames(custom_options)
    count = _count(more + filled, kept.shape[1])
    frames = rows.shape[-1] // stride
    result = charged.zeros((kept.shape[0], frames, size), np.int16)
    line = np.concatenate([kept[:, :count], rows.reshape(kept.shape[0], -1)], axis=1)
    early = min(max(0, -(-(size - count) // stride) - 1), frames)
    for frame in range(frames - early):
        result[:, early + frame] = line[:, frame * stride : frame * stride + size]
    line = line[:, (frames - early) * stride :]
    left = np.zeros_like(kept)
    left[:, : line.shape[1]] = line
    number = np.array([line.shape[1] - filled], np.int32)
    return result.reshape(*rows.shape[:-1], frames, size), np.array(early == 0), left, number


def _frames_of_stack(frame: Tensor, *, custom_options: bytes = b"") -> dict[str, Tensor]:
    check(frame, "the input", np.int16, 1)
    channels = option(custom_options, "num_channels", frame.size, frame.size)
    sides = (option(custom_options, f"stacker_{side}_context", 0, _MOST) for side in ("left", "right"))
    height = sum(sides) + 1
    option(custom_options, "stacker_step", 1, height)
    if height * channels > _MOST:
        raise Unmapped(f"a stack must have at most {_MOST} elements, got {height} frames of {channels}")
    return {"frames": charged.zeros((height, channels), np.int16), "count": np.zeros(1, np.int32)}


@operator("SignalStacker", states=_frames_of_stack)
def stacker(frame: Tensor, kept: Tensor, count: Tensor, *, custom_options: bytes = b"") -> tuple[Tensor, ...]:
    """A stack [height * channels] of int16 frames: those kept [height, channels], and one more [channels].

    ``count`` is the number of those kept plus 1, and 0 before the first frame, which comes more often by the number of
    frames before a stack's own. Also returns whether all frames are there, and the states.
    """
    height = kept.shape[0]
    left, stride = (option(custom_options, name, 0, height) for name in ("stacker_left_context", "stacker_step"))
    number = _count(count, height + 1)
    frames = np.concatenate([kept[: number - 1], frame[None]]) if number else charged.tile(frame, (left + 1, 1))
    is_valid = len(frames) >= height
    stack = frames[:height] if is_valid else np.zeros_like(kept)
    frames = frames[stride:] if is_valid else frames
    rest = np.zeros_like(kept)
    rest[: len(frames)] = frames
    return stack.reshape(-1), np.array(is_valid), rest, np.array([len(frames) + 1], np.int32)


# --- sums ----------------------------------------------------------------------------------------------------


def _first_sums(frames: Tensor, *, custom_options: bytes = b"") -> dict[str, Tensor]:
    type_option(frames, custom_options, (np.float32, np.int16))
    if frames.ndim < 2:
        raise Unmapped(f"the input must have 2 dimensions at least, got shape {list(frames.shape)}")
    return {"sums": charged.zeros((math.prod(frames.shape[:-2]), frames.shape[-1]), frames.dtype)}


@operator("SignalOverlapAdd", states=_first_sums)
def overlap_add(frames: Tensor, sums: Tensor, *, custom_options: bytes = b"") -> tuple[Tensor, Tensor]:
    """Rows [..., frames * stride] of frames [..., frames, size] on sums [rows, size], and the sums that are left.

    Those of int16 are saturated.
    """
    rows, size = sums.shape
    stride = option(custom_options, "frame_step", 1, size)
    *leading, count, _ = frames.shape
    result = np.empty((rows, count, stride), frames.dtype)
    for number, frame in enumerate(frames.reshape(rows, count, size).swapaxes(0, 1)):
        if frames.dtype == np.int16:
            sums = (sums.astype(np.int32) + frame).clip(INT16.min, INT16.max).astype(np.int16)
        else:
            sums = sums + frame
        result[:, number] = sums[:, :stride]
        sums = np.concatenate([sums[:, stride:], np.zeros((rows, stride), frames.dtype)], axis=1)
    return result.reshape(*leading, count * stride), sums


def _first_noise(channels: Tensor, *, custom_options: bytes = b"") -> dict[str, Tensor]:
    check(channels, "the input", np.uint32, 1)
    option(custom_options, "num_channels", channels.size, channels.size)
    return {"noise": np.zeros_like(channels)}


@operator("SignalFilterBankSpectralSubtraction", states=_first_noise)
def spectral_subtraction(
    channels: Tensor, noise: Tensor, *, custom_options: bytes = b""
) -> tuple[Tensor, Tensor, Tensor]:
    """Uint32 channels [n] less their noise, whose estimate each execution renews; the estimates, and these to keep.

    The factors of the signal and of the estimate so far differ for even and odd channels. With ``smoothing_bits``, an
    estimate is shifted to the left. All factors, and the part that stays in any case, are by a power of 2.
    """
    mask = np.uint64(0xFFFFFFFF)

    def factor(name: str) -> np.uint64:
        return np.uint64(option(custom_options, name, *INT32) & 0xFFFFFFFF)

    by = np.uint64(option(custom_options, "spectral_subtraction_bits", 0, 63))
    wider = np.uint64(option(custom_options, "smoothing_bits", 0, 31))
    signal = channels.astype(np.uint64)
    odd = np.arange(signal.size) % 2 == 1
    new, old = (np.where(odd, factor(f"alternate_{name}"), factor(name)) for name in ("smoothing", _REST))
    scaled = signal << wider & mask
    estimate = scaled * new + noise * old >> by & mask
    taken = np.minimum(estimate, scaled)
    floor = signal * factor("min_signal_remaining") >> by & mask
    after = (taken if option(custom_options, "clamping", 0, 1) else estimate).astype(np.uint32)
    return np.maximum(scaled - taken >> wider, floor).astype(np.uint32), after, after


_REST = "one_minus_smoothing"
