"""tflite-micro's operators on signals that keep no state, bit for bit as its kernels (``signal/src``) compute them.

FLOAT32 transforms are products with constant matrices; functions on the reference device compute all else. Where a
kernel leaves elements as they are, they are 0 here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnvk.importers import charged
from nnvk.importers.bounds import INT32
from nnvk.importers.decompositions.fourier import to_real, transform
from nnvk.importers.emitter import F32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.fixed_fft import MOST_POINTS, from_spectrum, has_plan, to_spectrum
from nnvk.importers.tflite.flex_options import FlexOptions
from nnvk.importers.tflite.micro_signal import (
    Edge,
    bit_length,
    bits,
    check,
    computed,
    long_bits,
    one_type,
    shape_of,
    size_of,
    unsigned,
    unsigned_long,
)
from nnvk.importers.tflite.registry import builtin
from nnvk.importers.user_functions import operator

_INT16 = np.iinfo(np.int16)


def _options(c: Context) -> FlexOptions:
    return FlexOptions(c.operator.custom_options())


# --- elements ------------------------------------------------------------------------------------------------


@builtin("SignalWindow")
def window(c: Context) -> Sequence[Value]:
    """Map the products of frames and weights, shifted to the right and saturated."""
    check(
        c,
        [Edge("the input", "INT16"), Edge("the weights", "INT16", 1)],
        [Edge("the output", "INT16")],
    )
    size_of(c, 1, "the weights")
    shape, weights = shape_of(c, 0), shape_of(c, 1)
    if not shape or math.prod(shape) % weights[0]:
        raise Unmapped(f"an input of shape {list(shape)} must be frames of {weights[0]} elements, as the weights are")
    return computed(c, "nnvk.SignalWindow", {"shift": _options(c).whole("shift", 0, 31)})


@operator("nnvk.SignalWindow")
def windowed(frames: np.ndarray, weights: np.ndarray, *, shift: int) -> np.ndarray:
    """Multiply int16 frames [..., n] by int16 weights [m], where frames are of m elements in a row."""
    products = frames.reshape(-1, weights.size).astype(np.int32) * weights >> shift
    return products.clip(_INT16.min, _INT16.max).astype(np.int16).reshape(frames.shape)


@builtin("SignalFftAutoScale")
def auto_scale(c: Context) -> Sequence[Value]:
    """Map the shift to the left that leaves one bit, for the sign, of the largest number, and the number of bits."""
    check(
        c,
        [Edge("the input", "INT16", 1)],
        [Edge("the output", "INT16", 1), Edge("the number of bits", "INT32", 0)],
    )
    return computed(c, "nnvk.SignalFftAutoScale", {})


@operator("nnvk.SignalFftAutoScale")
def auto_scaled(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Int16 numbers [n], shifted, and the int32 number of bits, from 0 to 15."""
    most = _largest(numbers)
    shift = max(0, 15 - most.bit_length()) if most > 0 else 0
    return (numbers.astype(np.int32) << shift).astype(np.int16), np.array(shift, np.int32)


def _largest(numbers: np.ndarray) -> int:
    """The largest absolute value; where there is a number without one in 16 bits, what the kernel makes of it."""
    (lowest,) = np.nonzero(numbers == _INT16.min)
    if not lowest.size:
        return int(np.abs(numbers.astype(np.int32)).max())
    most = int(_INT16.min)
    for number in numbers[lowest[-1] + 1 :].tolist():
        most = number if number > most else max(most, -number)
    return most


@builtin("SignalEnergy")
def energy(c: Context) -> Sequence[Value]:
    """Map the squares of the absolute values of complex numbers, whose parts alternate, within a range."""
    check(c, [Edge("the input", "INT16", 1)], [Edge("the output", "UINT32", 1)])
    count = size_of(c, 0, "the input", 2) // 2
    options = _options(c)
    end = options.whole("end_index", 0, count)
    return computed(c, "nnvk.SignalEnergy", {"start": options.whole("start_index", 0, end), "end": end})


@operator("nnvk.SignalEnergy")
def energies(spectrum: np.ndarray, *, start: int, end: int) -> np.ndarray:
    """The uint32 energies [n] of an int16 spectrum [2 * n]; they are 0 before ``start`` and from ``end`` on."""
    squares = (spectrum.astype(np.int64) ** 2).reshape(-1, 2).sum(axis=1)
    numbers = charged.arange(squares.size)
    return bits(np.where((numbers >= start) & (numbers < end), squares, 0))


# --- filter banks --------------------------------------------------------------------------------------------


@builtin("SignalFilterBank")
def filter_bank(c: Context) -> Sequence[Value]:
    """Map the sums of weighted energies in channels that overlap by halves."""
    parts = ("the weights", "the unweights", "the starts of frequencies", "the starts of weights", "the widths")
    check(
        c,
        [Edge("the input", "UINT32", 1), *(Edge(what, "INT16", 1) for what in parts)],
        [Edge("the output", "UINT64", 1)],
    )
    most = size_of(c, 3, parts[2]) - 1
    channels = _options(c).whole("num_channels", 1, most)
    for position, what in enumerate(parts[3:], 4):
        if size_of(c, position, what) <= channels:
            raise Unmapped(
                f"{what} (input {position}) must be at least {channels + 1} numbers, got shape "
                f"{list(shape_of(c, position))}"
            )
    return computed(c, "nnvk.SignalFilterBank", {"channels": channels})


@operator("nnvk.SignalFilterBank")
def channel_sums(
    energies: np.ndarray,
    weights: np.ndarray,
    unweights: np.ndarray,
    starts: np.ndarray,
    weight_starts: np.ndarray,
    widths: np.ndarray,
    *,
    channels: int,
) -> np.ndarray:
    """The uint64 sums [channels] of uint32 energies.

    Channel i has the energies ``starts[i + 1]`` and following, ``widths[i + 1]`` of them, by ``weights``, and those of
    the channel before by ``unweights``. The tables are int16.
    """
    places, weight_starts = (one[: channels + 1].astype(np.int64) for one in (starts, weight_starts))
    counts = np.maximum(widths[: channels + 1].astype(np.int64), 0)
    ends = counts.cumsum()
    inside = charged.arange(ends[-1]) - charged.repeat(ends - counts, counts)
    taken, weighted = (charged.repeat(first, counts) + inside for first in (places, weight_starts))
    for indices, size, what in (
        (taken, energies.size, "energies"),
        (weighted, min(weights.size, unweights.size), "weights"),
    ):
        if indices.size and not 0 <= indices.min() <= indices.max() < size:
            raise ValueError(f"channels must have {what} from 0 to {size - 1}, got {indices.min()} to {indices.max()}")
    numbers = unsigned(energies)[taken]

    def sums(factors: np.ndarray) -> np.ndarray:
        products = numbers * factors[weighted].astype(np.int64).view(np.uint64)
        totals = np.concatenate(
            [charged.zeros(1, np.uint64), products.cumsum()]
        )  # they come round, and so do differences
        result: np.ndarray = totals[ends] - totals[ends - counts]
        return result

    return long_bits(sums(weights)[1:] + sums(unweights)[:-1])


@builtin("SignalFilterBankSquareRoot")
def square_root(c: Context) -> Sequence[Value]:
    """Map rounded square roots, shifted to the right."""
    check(
        c,
        [Edge("the input", "UINT64", 1), Edge("the number of bits", "INT32", 0)],
        [Edge("the output", "UINT32", 1)],
    )
    return computed(c, "nnvk.SignalFilterBankSquareRoot", {})


@operator("nnvk.SignalFilterBankSquareRoot")
def square_roots(sums: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The uint32 roots [n] of uint64 numbers. A number of 32 bits has a root of at most 65535."""
    by = int(shift.reshape(-1)[0])
    if not 0 <= by <= 31:
        raise ValueError(f"the number of bits must be from 0 to 31, got {by}")
    numbers = unsigned_long(sums)
    roots = np.minimum(np.sqrt(numbers.astype(np.float64)), float(2**32 - 1)).astype(np.uint64)
    roots -= (roots * roots > numbers).astype(np.uint64)  # the double was rounded
    most = np.where(numbers >> np.uint64(32), np.uint64(2**32 - 1), np.uint64(2**16 - 1))
    roots += (numbers - roots * roots > roots).astype(np.uint64) * (roots < most)
    return bits(roots >> np.uint64(by))


# The logarithm to base 2 between powers of 2, less the line that joins them, at 129 places; the last comes twice.
_SEGMENTS = 128
_LOG_SCALE = 1 << 16
_PLACES = charged.arange(_SEGMENTS + 1) / _SEGMENTS
_LOG_TABLE = np.rint((np.log2(1 + _PLACES) - _PLACES) * _LOG_SCALE).astype(np.int64)
_LOG_OF_2 = 45426
"""The logarithm of 2 by `_LOG_SCALE`."""


@builtin("SignalFilterBankLog")
def logarithm(c: Context) -> Sequence[Value]:
    """Map natural logarithms in fixed point, saturated."""
    check(c, [Edge("the input", "UINT32", 1)], [Edge("the output", "INT16", 1)])
    options = _options(c)
    attributes = {
        "shift": options.whole("input_correction_bits", 0, 31),
        "scale": options.whole("output_scale", *INT32),
    }
    return computed(c, "nnvk.SignalFilterBankLog", attributes)


@operator("nnvk.SignalFilterBankLog")
def logarithms(numbers: np.ndarray, *, shift: int, scale: int) -> np.ndarray:
    """The int16 logarithms [n], by ``scale``, of uint32 numbers that are shifted to the left; that of 0 is 0."""
    shifted = (unsigned(numbers) << np.uint64(shift) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    exponents = np.maximum(bit_length(shifted) - 1, 0)
    fractions = (np.maximum(shifted, 1) - (1 << exponents) << 16) >> exponents
    segments = fractions // (_LOG_SCALE // _SEGMENTS)
    first, last = _LOG_TABLE[segments], _LOG_TABLE[segments + 1]
    between = (last - first) * (fractions - segments * (_LOG_SCALE // _SEGMENTS)) >> 16
    of_base_2 = exponents * _LOG_SCALE + fractions + first + between
    natural = (_LOG_OF_2 * of_base_2 + _LOG_SCALE // 2) >> 16
    scaled = (scale * natural + _LOG_SCALE // 2 & 0xFFFFFFFF) >> 16
    return np.where(shifted > 1, np.minimum(scaled, _INT16.max), 0).astype(np.int16)


_GAINS = 125
"""The numbers of a table of gains: one each of 0 and 1, and four of each power of 2 up to 32 bits."""
_SNR_BITS = 12
_OUTPUT_BITS = 6


@builtin("SignalPCAN")
def gain_control(c: Context) -> Sequence[Value]:
    """Map per-channel amplitude normalisation: the gain of each number depends on its estimate of noise."""
    check(
        c,
        [Edge("the input", "UINT32", 1), Edge("the estimate of noise", "UINT32", 1), Edge("the gains", "INT16", 1)],
        [Edge("the output", "UINT32", 1)],
    )
    if shape_of(c, 0) != shape_of(c, 1):
        raise Unmapped(
            f"the estimate of noise (input 1) must have the input's shape {list(shape_of(c, 0))}, got "
            f"{list(shape_of(c, 1))}"
        )
    if size_of(c, 2, "the gains") < _GAINS:
        raise Unmapped(f"the gains (input 2) must be at least {_GAINS} numbers, got shape {list(shape_of(c, 2))}")
    return computed(c, "nnvk.SignalPCAN", {"shift": _options(c).whole("snr_shift", 0, 63)})


@operator("nnvk.SignalPCAN")
def controlled(numbers: np.ndarray, noise: np.ndarray, gains: np.ndarray, *, shift: int) -> np.ndarray:
    """Uint32 numbers [n] by the gains of uint32 noise [n], shifted to the right, and x**2 / 4 or x - 1 of that."""
    factors = _gains(unsigned(noise).astype(np.int64), gains.astype(np.int64))
    products = unsigned(numbers) * (factors & 0xFFFFFFFF).astype(np.uint64)
    ratios = products >> np.uint64(shift) & np.uint64(0xFFFFFFFF)
    small = ratios * ratios >> np.uint64(2 + 2 * _SNR_BITS - _OUTPUT_BITS)
    large = (ratios >> np.uint64(_SNR_BITS - _OUTPUT_BITS)).astype(np.int64) - (1 << _OUTPUT_BITS)
    return bits(np.where(ratios < np.uint64(2 << _SNR_BITS), small.astype(np.int64), large))


def _gains(noise: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The int16 gains: parabolas between powers of 2, with three coefficients each."""
    length = bit_length(noise)
    fractions = np.where(length < 11, noise << np.maximum(11 - length, 0), noise >> np.maximum(length - 11, 0)) & 0x3FF
    at = 4 * np.maximum(length, 2) - 6
    slopes = (table[at + 2] * fractions >> 5) + (table[at + 1] << 5)
    wide = (slopes * fractions).astype(np.int32).astype(np.int64)
    result: np.ndarray = np.where(noise <= 2, table[np.minimum(noise, 2)], (wide + (1 << 14) >> 15) + table[at])
    return result.astype(np.int16).astype(np.int64)


# --- transforms ----------------------------------------------------------------------------------------------


def _length(c: Context) -> int:
    """The length of a transform, once its tensors are checked."""
    type_, options = one_type(c, ("FLOAT32", "INT32", "INT16"))
    length = options.whole("fft_length", 2, MOST_POINTS)
    if length % 2:
        raise Unmapped(f"the option fft_length must be even, got {length}")
    if type_ != "FLOAT32" and not has_plan(length):
        raise Unmapped(f"half of the option fft_length must be a product of 2, 3 and 5, got fft_length = {length}")
    return length


@builtin("SignalRfft")
def real_transform(c: Context) -> Value | Sequence[Value]:
    """Map the spectra, whose parts alternate, of rows that are filled up with zeros; integers are by 1 / length."""
    length, shape = _length(c), shape_of(c, 0)
    size = size_of(c, 0, "the input")
    if size > length:
        raise Unmapped(f"rows of the input, of shape {list(shape)}, must have at most fft_length = {length} elements")
    if c.tensor(0).type != "FLOAT32":
        work = math.prod(shape[:-1]) * length
        return computed(c, "nnvk.SignalRfft", {"length": length}, work=work)
    c.graph.budget.charge(2 * F32.dtype.itemsize * size * (length + 2))
    rows = c.reshape(c.input(0), (math.prod(shape[:-1]), size, 1, 1))
    return c.reshape(transform(c, rows, length, length // 2 + 1), (*shape[:-1], length + 2))


@operator("nnvk.SignalRfft")
def spectra(rows: np.ndarray, *, length: int) -> np.ndarray:
    """The spectra [..., length + 2] of int16 or int32 rows."""
    padded = charged.zeros((*rows.shape[:-1], length), rows.dtype)
    padded[..., : rows.shape[-1]] = rows
    return to_spectrum(padded)


@builtin("SignalIrfft")
def inverse_transform(c: Context) -> Value | Sequence[Value]:
    """Map the real numbers of spectra whose parts alternate; integers are not divided by the length."""
    length, shape = _length(c), shape_of(c, 0)
    if size_of(c, 0, "the input") != length + 2:
        raise Unmapped(f"spectra of fft_length = {length} have {length + 2} elements, got shape {list(shape)}")
    if c.tensor(0).type != "FLOAT32":
        return computed(c, "nnvk.SignalIrfft", {})
    c.graph.budget.charge(2 * F32.dtype.itemsize * length * (length + 2))
    rows = c.reshape(c.input(0), (math.prod(shape[:-1]), length // 2 + 1, 1, 2))
    return c.reshape(to_real(c, rows, length), (*shape[:-1], length))


@operator("nnvk.SignalIrfft")
def inverse_spectra(rows: np.ndarray) -> np.ndarray:
    """The real numbers [..., length] of int16 or int32 spectra [..., length + 2]."""
    return from_spectrum(rows)
