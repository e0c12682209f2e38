"""tflite-micro's operators on signals that keep no state, bit for bit as its kernels (``signal/src``) compute them.

Where a kernel leaves elements as they are, they are 0 here.
"""

from __future__ import annotations

import numpy as np

from nnvk.contrib.fixed_fft import MOST_POINTS, from_spectrum, has_plan, to_spectrum
from nnvk.contrib.tensors import INT16, Tensor, check, option, size_of, type_option
from nnvk.importers import charged, operator
from nnvk.importers.bounds import INT32
from nnvk.importers.errors import Unmapped

# --- elements ------------------------------------------------------------------------------------------------


@operator("SignalWindow")
def window(frames: Tensor, weights: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """Multiply int16 frames [..., n] by int16 weights [m], where frames are of m elements in a row; saturated."""
    check(frames, "the input", np.int16)
    check(weights, "the weights", np.int16, 1)
    shift = option(custom_options, "shift", 0, 31)
    if not weights.size or frames.size % weights.size or not frames.ndim:
        shape = list(frames.shape)
        raise Unmapped(f"an input of shape {shape} must be frames of {weights.size} elements, as the weights are")
    products = frames.reshape(-1, weights.size).astype(np.int32) * weights >> shift
    return products.clip(INT16.min, INT16.max).astype(np.int16).reshape(frames.shape)


@operator("SignalFftAutoScale")
def auto_scale(numbers: Tensor, *, custom_options: bytes = b"") -> tuple[Tensor, Tensor]:
    """Shift int16 numbers [n] to the left until the largest has one bit left, for the sign; and the number of bits."""
    check(numbers, "the input", np.int16, 1)
    most = _largest(numbers)
    shift = max(0, 15 - most.bit_length()) if most > 0 else 0
    return (numbers.astype(np.int32) << shift).astype(np.int16), np.array(shift, np.int32)


def _largest(numbers: Tensor) -> int:
    """The largest absolute value; where there is a number without one in 16 bits, what the kernel makes of it."""
    (lowest,) = np.nonzero(numbers == INT16.min)
    if not lowest.size:
        return int(np.abs(numbers.astype(np.int32)).max())
    most = int(INT16.min)
    for number in numbers[lowest[-1] + 1 :].tolist():
        most = number if number > most else max(most, -number)
    return most


@operator("SignalEnergy")
def energy(spectrum: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """The uint32 energies [n] of an int16 spectrum [2 * n], whose parts alternate; they are 0 beyond a range."""
    check(spectrum, "the input", np.int16, 1)
    count = size_of(spectrum, "the input", 2) // 2
    end = option(custom_options, "end_index", 0, count)
    start = option(custom_options, "start_index", 0, end)
    squares = (spectrum.astype(np.int64) ** 2).reshape(-1, 2).sum(axis=1)
    squares[:start] = squares[end:] = 0
    return squares.astype(np.uint32)


# --- filter banks --------------------------------------------------------------------------------------------


@operator("SignalFilterBank")
def filter_bank(
    energies: Tensor,
    weights: Tensor,
    unweights: Tensor,
    starts: Tensor,
    weight_starts: Tensor,
    widths: Tensor,
    *,
    custom_options: bytes = b"",
) -> Tensor:
    """The uint64 sums [channels] of uint32 energies.

    Channel i has the energies ``starts[i + 1]`` and following, ``widths[i + 1]`` of them, by ``weights``, and those of
    the channel before by ``unweights``. The tables are int16.
    """
    check(energies, "the input", np.uint32, 1)
    tables = {"the weights": weights, "the unweights": unweights, "the starts of frequencies": starts}
    tables |= {"the starts of weights": weight_starts, "the widths": widths}
    for what, table in tables.items():
        check(table, what, np.int16, 1)
    channels = option(custom_options, "num_channels", 1, starts.size - 1)
    for what in ("the starts of weights", "the widths"):
        if tables[what].size <= channels:
            raise Unmapped(f"{what} must be at least {channels + 1} numbers, got {tables[what].size}")
    places, firsts = (one[: channels + 1].astype(np.int64) for one in (starts, weight_starts))
    counts = np.maximum(widths[: channels + 1].astype(np.int64), 0)
    ends = counts.cumsum()
    inside = charged.arange(ends[-1]) - charged.repeat(ends - counts, counts)
    taken, weighted = (charged.repeat(first, counts) + inside for first in (places, firsts))
    for indices, size, what in (
        (taken, energies.size, "energies"),
        (weighted, min(weights.size, unweights.size), "weights"),
    ):
        if indices.size and not 0 <= indices.min() <= indices.max() < size:
            raise Unmapped(f"channels must have {what} from 0 to {size - 1}, got {indices.min()} to {indices.max()}")
    numbers = energies.astype(np.uint64)[taken]

    def sums(factors: Tensor) -> Tensor:
        products = numbers * factors[weighted].astype(np.int64).view(np.uint64)
        totals = np.concatenate([np.zeros(1, np.uint64), products.cumsum()])  # they come round, as differences do
        result: Tensor = totals[ends] - totals[ends - counts]
        return result

    return sums(weights)[1:] + sums(unweights)[:-1]


@operator("SignalFilterBankSquareRoot")
def square_root(sums: Tensor, shift: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """The rounded uint32 roots [n] of uint64 numbers, shifted to the right. Those of 32 bits are at most 65535."""
    check(sums, "the input", np.uint64, 1)
    check(shift, "the number of bits", np.int32)
    by = int(shift.reshape(-1)[0])
    if not 0 <= by <= 31:
        raise Unmapped(f"the number of bits must be from 0 to 31, got {by}")
    roots = np.minimum(np.sqrt(sums.astype(np.float64)), float(2**32 - 1)).astype(np.uint64)
    roots -= (roots * roots > sums).astype(np.uint64)  # the double was rounded
    most = np.where(sums >> np.uint64(32), np.uint64(2**32 - 1), np.uint64(2**16 - 1))
    roots += (sums - roots * roots > roots).astype(np.uint64) * (roots < most)
    return (roots >> np.uint64(by)).astype(np.uint32)


# The logarithm to base 2 between powers of 2, less the line that joins them, at 129 places; the last comes twice.
_SEGMENTS = 128
_LOG_SCALE = 1 << 16
_PLACES = np.arange(_SEGMENTS + 1) / _SEGMENTS
_LOG_TABLE = np.rint((np.log2(1 + _PLACES) - _PLACES) * _LOG_SCALE).astype(np.int64)
_LOG_OF_2 = 45426
"""The logarithm of 2 by `_LOG_SCALE`."""


@operator("SignalFilterBankLog")
def logarithm(numbers: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """The int16 logarithms [n], by a scale, of uint32 numbers that are shifted to the left; that of 0 is 0."""
    check(numbers, "the input", np.uint32, 1)
    shift, scale = (
        option(custom_options, "input_correction_bits", 0, 31),
        option(custom_options, "output_scale", *INT32),
    )
    shifted = numbers.astype(np.int64) << shift & 0xFFFFFFFF
    exponents = np.maximum(_bit_length(shifted) - 1, 0)
    fractions = (np.maximum(shifted, 1) - (1 << exponents) << 16) >> exponents
    segments = fractions // (_LOG_SCALE // _SEGMENTS)
    first, last = _LOG_TABLE[segments], _LOG_TABLE[segments + 1]
    between = (last - first) * (fractions - segments * (_LOG_SCALE // _SEGMENTS)) >> 16
    of_base_2 = exponents * _LOG_SCALE + fractions + first + between
    natural = (_LOG_OF_2 * of_base_2 + _LOG_SCALE // 2) >> 16
    scaled = (scale * natural + _LOG_SCALE // 2 & 0xFFFFFFFF) >> 16
    return np.where(shifted > 1, np.minimum(scaled, INT16.max), 0).astype(np.int16)


def _bit_length(numbers: Tensor) -> Tensor:
    """The number of bits of whole numbers below 2**53, 0 for 0."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


_GAINS = 125
"""The numbers of a table of gains: one each of 0 and 1, and four of each power of 2 up to 32 bits."""
_SNR_BITS = 12
_OUTPUT_BITS = 6


@operator("SignalPCAN")
def gain_control(numbers: Tensor, noise: Tensor, gains: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """Per-channel amplitude normalisation: uint32 numbers [n] by the gains of uint32 noise [n], and x**2 / 4 or x - 1.

    The products are shifted to the right before. ``gains`` is a table of int16.
    """
    check(numbers, "the input", np.uint32, 1)
    check(noise, "the estimate of noise", np.uint32, 1)
    check(gains, "the gains", np.int16, 1)
    if numbers.shape != noise.shape:
        raise Unmapped(f"the estimate of noise must have the input's shape {list(numbers.shape)}, got {noise.shape}")
    if gains.size < _GAINS:
        raise Unmapped(f"the gains must be at least {_GAINS} numbers, got {gains.size}")
    shift = np.uint64(option(custom_options, "snr_shift", 0, 63))
    factors = _gains(noise.astype(np.int64), gains.astype(np.int64))
    products = numbers.astype(np.uint64) * (factors & 0xFFFFFFFF).astype(np.uint64)
    ratios = products >> shift & np.uint64(0xFFFFFFFF)
    small = ratios * ratios >> np.uint64(2 + 2 * _SNR_BITS - _OUTPUT_BITS)
    large = (ratios >> np.uint64(_SNR_BITS - _OUTPUT_BITS)).astype(np.int64) - (1 << _OUTPUT_BITS)
    return np.where(ratios < np.uint64(2 << _SNR_BITS), small.astype(np.int64), large).astype(np.uint32)


def _gains(noise: Tensor, table: Tensor) -> Tensor:
    """The int16 gains: parabolas between powers of 2, with three coefficients each."""
    length = _bit_length(noise)
    fractions = np.where(length < 11, noise << np.maximum(11 - length, 0), noise >> np.maximum(length - 11, 0)) & 0x3FF
    at = 4 * np.maximum(length, 2) - 6
    slopes = (table[at + 2] * fractions >> 5) + (table[at + 1] << 5)
    wide = (slopes * fractions).astype(np.int32).astype(np.int64)
    result: Tensor = np.where(noise <= 2, table[np.minimum(noise, 2)], (wide + (1 << 14) >> 15) + table[at])
    return result.astype(np.int16).astype(np.int64)


# --- transforms ----------------------------------------------------------------------------------------------


def _length(numbers: Tensor, custom_options: bytes) -> int:
    """The length of a transform, once its input is checked."""
    type_option(numbers, custom_options, (np.float32, np.int32, np.int16))
    length = option(custom_options, "fft_length", 2, MOST_POINTS)
    if length % 2:
        raise Unmapped(f"the option fft_length must be even, got {length}")
    if numbers.dtype != np.float32 and not has_plan(length):
        raise Unmapped(f"half of the option fft_length must be a product of 2, 3 and 5, got fft_length = {length}")
    return length


@operator("SignalRfft")
def real_transform(rows: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """The spectra [..., length + 2], whose parts alternate, of rows; those of integers are divided by the length."""
    length, size = _length(rows, custom_options), size_of(rows, "the input")
    if size > length:
        raise Unmapped(f"rows of shape {list(rows.shape)} must have at most fft_length = {length} elements")
    padded = charged.zeros((*rows.shape[:-1], length), rows.dtype)
    padded[..., :size] = rows
    if rows.dtype != np.float32:
        return to_spectrum(padded)
    return np.fft.rfft(padded).astype(np.complex64).view(np.float32)


@operator("SignalIrfft")
def inverse_transform(spectra: Tensor, *, custom_options: bytes = b"") -> Tensor:
    """The real numbers [..., length] of spectra [..., length + 2]; integers are not divided by the length."""
    length = _length(spectra, custom_options)
    if size_of(spectra, "the input") != length + 2:
        shape = list(spectra.shape)
        raise Unmapped(f"spectra of fft_length = {length} have {length + 2} elements, got shape {shape}")
    if spectra.dtype != np.float32:
        return from_spectrum(spectra)
    return np.fft.irfft(np.ascontiguousarray(spectra).view(np.complex64), length).astype(np.float32)
