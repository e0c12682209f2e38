"""tflite-micro's operators on signals that keep no state: plain formulas, and values that its own kernels computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from flatbuffers import flexbuffers
from signal_net import computed, executed, front_end, model, of, options, speech
from tflite_net import Net, T, write

from nnvk.base.errors import NnapiError
from nnvk.importers.tflite import TfliteImportError, load

SIGNED, LONG, UNSIGNED, UNSIGNED_LONG = "INT16", "INT32", "UINT32", "UINT64"


def drawn(seed: int, dtype: type[np.integer], size: int, low: int | None = None, high: int | None = None) -> np.ndarray:
    limits = np.iinfo(dtype)
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return np.random.default_rng(seed).integers(low, high, size, dtype, endpoint=True)


# --- elements ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "size", "shift"), [((1, 37), 37, 12), ((3, 22), 11, 7), ((5,), 5, 15)])
def test_windows(shape: tuple[int, ...], size: int, shift: int) -> None:
    numbers, weights = drawn(1, np.int16, math.prod(shape)).reshape(shape), drawn(2, np.int16, size)
    (got,) = computed("SignalWindow", [T(SIGNED, shape), of(weights)], [T(SIGNED, shape)], numbers, shift=shift)
    wide = [int(one) * int(weights[at % size]) >> shift for at, one in enumerate(numbers.reshape(-1))]
    assert got.reshape(-1).tolist() == [max(-(2**15), min(2**15 - 1, one)) for one in wide]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 300, 16383, 16384, 32767])
def test_the_scale_of_a_transform(most: int) -> None:
    numbers = drawn(most, np.int16, 13, -most, most)
    numbers[5] = -most
    got, shift = computed("SignalFftAutoScale", [T(SIGNED, (13,))], [T(SIGNED, (13,)), T(LONG, ())], numbers)
    bits = 15 - most.bit_length() if most else 0
    assert (got.tolist(), shift.tolist()) == ([one << bits for one in numbers.tolist()], bits)


@pytest.mark.parametrize(
    ("numbers", "want", "shift"),
    [
        ([-32768, 5], [0, 20480], 12),
        ([7, -32768], [7, -32768], 0),
        ([100, -32768, -9, -5], [100, -32768, -9, -5], 0),
        ([-32768, -9, -10, 3], [0, -18432, -20480, 6144], 11),
    ],
)
def test_the_scale_where_an_absolute_value_leaves_16_bits(numbers: list[int], want: list[int], shift: int) -> None:
    """As tflite-micro's kernel."""
    tensors = [T(SIGNED, (len(numbers),))], [T(SIGNED, (len(numbers),)), T(LONG, ())]
    got, bits = computed("SignalFftAutoScale", *tensors, np.array(numbers, np.int16))
    assert (got.tolist(), bits.tolist()) == (want, shift)


def test_energies_within_a_range() -> None:
    spectrum = drawn(3, np.int16, 34)
    spectrum[4:6] = -32768
    (got,) = computed("SignalEnergy", [T(SIGNED, (34,))], [T(UNSIGNED, (17,))], spectrum, start_index=2, end_index=15)
    pairs = spectrum.reshape(17, 2).tolist()
    assert got.tolist() == [x * x + y * y if 2 <= at < 15 else 0 for at, (x, y) in enumerate(pairs)]
    assert (got.dtype, got[2]) == (np.uint32, 2**31)


# --- filter banks --------------------------------------------------------------------------------------------

WIDTHS = [3, 0, 5, 2, 7]
TABLES = [
    drawn(5, np.int16, 17),
    drawn(6, np.int16, 17),
    np.array([1, 4, 0, 30, 12], np.int16),
    np.array([0, 3, 3, 8, 10], np.int16),
    np.array(WIDTHS, np.int16),
]


def bank(numbers: np.ndarray, tables: Sequence[np.ndarray], channels: int = 4) -> np.ndarray:
    constants = [of(one) for one in tables]
    inputs, outputs = [T(UNSIGNED, (32,)), *constants], [T(UNSIGNED_LONG, (channels,))]
    return computed("SignalFilterBank", inputs, outputs, numbers, num_channels=channels)[0]


def test_channels_of_a_filter_bank() -> None:
    numbers = drawn(4, np.uint32, 32)
    want, before = [], 0
    for width, start, first in zip(WIDTHS, TABLES[2].tolist(), TABLES[3].tolist(), strict=True):
        taken = [int(one) for one in numbers[start : start + width]]
        sums = [sum(x * int(y) for x, y in zip(taken, one[first:], strict=False)) for one in TABLES[:2]]
        want.append((before + sums[0]) % 2**64)
        before = sums[1]
    got = bank(numbers, TABLES)
    assert (got.dtype, got.tolist()) == (np.uint64, want[1:])


def test_tables_of_a_filter_bank_that_leave_it() -> None:
    for position, table, reason in (
        (2, [1, 4, 0, 31, 12], "energies from 0 to 31, got 0 to 32"),
        (2, [-1, 4, 0, 30, 12], "energies from 0 to 31, got -1"),
        (3, [0, 3, 3, 16, 10], "weights from 0 to 16, got 0 to 17"),
    ):
        tables = [*TABLES]
        tables[position] = np.array(table, np.int16)
        with pytest.raises(TfliteImportError, match=f"operator 0 \\(SignalFilterBank\\).*{reason}"):
            bank(np.zeros(32, np.uint32), tables)


def test_tables_that_come_with_the_execution_fail_it() -> None:
    inputs = [T(UNSIGNED, (32,)), *(of(one) for one in TABLES[:2]), T(SIGNED, (5,)), *(of(one) for one in TABLES[3:])]
    data = model("SignalFilterBank", inputs, [T(UNSIGNED_LONG, (4,))], num_channels=4)
    starts = np.array([1, 4, 0, 31, 12], np.int16)
    with pytest.raises(NnapiError, match=r"operator 0 \(SignalFilterBank\): .* energies from 0 to 31") as raised:
        executed(data, [[np.zeros(32, np.uint32), starts]])
    assert raised.value.code.name == "OP_FAILED"


ROOTS = [0, 1, 2, 3, 6, 7, 2**52, 2**53 + 1, (2**32 - 1) ** 2, (2**32 - 1) ** 2 - 1, 2**62 + 2**31, 2**62 + 2**31 + 1]


@pytest.mark.parametrize("shift", [0, 3])
def test_square_roots(shift: int) -> None:
    """Those of 32 bits are at most 65535, and all others at most 2**32 - 1, as in tflite-micro's kernel."""
    numbers = np.concatenate([np.array([*ROOTS, 2**32 - 1, 2**32, 2**64 - 1], np.uint64), drawn(7, np.uint64, 30)])
    inputs = [T(UNSIGNED_LONG, (45,)), T(LONG, ())]
    arrays = numbers, np.array(shift, np.int32)
    (got,) = computed("SignalFilterBankSquareRoot", inputs, [T(UNSIGNED, (45,))], *arrays)
    want = []
    for number in numbers.tolist():
        root = math.isqrt(number)
        want.append(min(root + (number - root * root > root), 2**16 - 1 if number < 2**32 else 2**32 - 1) >> shift)
    assert got.tolist() == want


def test_a_square_root_shifted_by_more_bits_than_there_are() -> None:
    data = model("SignalFilterBankSquareRoot", [T(UNSIGNED_LONG, (1,)), T(LONG, ())], [T(UNSIGNED, (1,))])
    with pytest.raises(NnapiError, match=r"SignalFilterBankSquareRoot.*bits must be from 0 to 31, got 32"):
        executed(data, [[np.ones(1, np.uint64), np.array(32, np.int32)]])


NOISE = np.array([0, 1, 2, 3, 7, 1000, 65535, 65536, 2**31, 2**32 - 1, 123456789], np.uint32)


def test_logarithms() -> None:
    """Recorded of tflite-micro's kernel; the shift drops bits."""
    inputs, outputs = [T(UNSIGNED, (11,))], [T(SIGNED, (11,))]
    (got,) = computed("SignalFilterBankLog", inputs, outputs, NOISE, input_correction_bits=3, output_scale=1600)
    assert got.tolist() == [0, 3327, 4436, 5085, 6441, 14379, 21074, 21072, 0, 32767, 32767]


def test_logarithms_are_near_real_ones() -> None:
    numbers = np.concatenate([np.arange(2, 130), 2 ** np.arange(8, 32)]).astype(np.uint32)
    tensors = [T(UNSIGNED, (numbers.size,))], [T(SIGNED, (numbers.size,))]
    (got,) = computed("SignalFilterBankLog", *tensors, numbers, input_correction_bits=0, output_scale=1000)
    np.testing.assert_allclose(got, 1000 * np.log(numbers.astype(float)), atol=0.7)


def test_gain_control() -> None:
    """Recorded of tflite-micro's kernel."""
    gains, numbers = drawn(1, np.int16, 125, 0, 8000), drawn(2, np.uint32, 11, 0, 10**6)
    inputs = [T(UNSIGNED, (11,)), T(UNSIGNED, (11,)), of(gains)]
    (got,) = computed("SignalPCAN", inputs, [T(UNSIGNED, (11,))], numbers, NOISE, snr_shift=9)
    assert got.tolist() == [96683, 47327, 13592, 71926, 48972, 63224, 153930, 12426, 9399, 160894, 283267]


# --- transforms ----------------------------------------------------------------------------------------------

# fmt: off
SPECTRA: dict[tuple[type[np.integer], int], list[int]] = {
    (np.int16, 8): [-5095, 0, 2291, -4100, 2753, -1041, -5332, 486, -1509, 0],
    (np.int16, 12): [1259, 0, -4336, 647, 8600, 91, 7735, 259, -4516, -909, 3295, -3441, -2537, 0],
    (np.int16, 20): [
        -2804, 0, 885, -391, -870, -604, 4357, -866, 3048, 725, 4239, -2143, -435, 981, 1734, -7529, -6005, 3151, -727,
        -1587, 962, 0,
    ],
    (np.int16, 30): [
        1064, 0, -3852, -129, -2021, -2355, -5619, 1537, 2408, 2112, 2805, 735, -2223, 4464, -929, -2099, 1888, -2922,
        -1262, 2814, 773, 1115, -126, 2929, -3315, -1317, -661, -162, -1222, 486, 6866, 0,
    ],
    (np.int32, 8): [
        -50639982, 0, 109952020, 30989978, 9904547, 451827192, 473644525, -407227480, -193404650, 0,
    ],
    (np.int32, 12): [
        -239695468, 0, 411208834, -162389621, -349237203, -232024849, -141790810, 299219730, 178273582, 392712243,
        174265599, -179268168, 178291868, 0,
    ],
    (np.int32, 20): [
        -90376435, 0, 464552875, 293531646, -249784030, 334010875, -172436389, -182604438, 206363344, 217854623,
        118677468, 201366181, 180512101, -155899183, -30008375, -254901910, 23800972, 74909080, 207590887, -4080636,
        276550527, 0,
    ],
    (np.int32, 30): [
        -257563906, 0, 52566021, 68319448, -174930257, 120025532, -125372036, 25517894, -123446595, -250720062,
        125652965, -175953465, -69386167, 154455762, -170253126, -98238521, -54479882, 320572197, -26681213, -9746245,
        -49921192, 139748310, 52077319, -88384880, -310769766, 57433001, 161400600, 257124064, 69146868, -38777942,
        -147079420, 0,
    ],
}
NUMBERS: dict[tuple[type[np.integer], int], list[int]] = {
    (np.int16, 8): [-5839, 3186, 8542, -11997, 6273, 3980, -13092, 1767],
    (np.int16, 12): [8008, 6945, 3068, -509, -4458, -13098, 2912, 15677, -1564, -3577, 2502, 4372],
    (np.int16, 20): [
        2583, 2196, 1598, -341, -2462, -9173, -1440, -7842, -1325, -1544, -203, -2052, -8308, 11139, 5316, -5525,
        -11490, 4036, 5061, -2370,
    ],
    (np.int16, 30): [
        4099, 2271, -5595, -2446, -568, -7678, -4890, 2909, 7926, 3147, 3478, -5044, -2251, 3762, 1953, -1463, 8108,
        -4854, -6342, 5601, -3982, -580, -4987, -2024, -4831, -4835, 3344, 926, -6182, 2259,
    ],
    (np.int32, 8): [
        -286897564, 412340154, 1401102973, -430984107, -23043836, 62681216, -319615741, 127374457,
    ],
    (np.int32, 12): [
        417786080, -266621211, 266390465, -1085162123, -689128927, 247876133, 195608062, 224943833, -841902593,
        343634303, -284545877, -192325383,
    ],
    (np.int32, 20): [
        112821919, 410435001, 532052126, -393925553, 102171060, 271077312, -416691070, 180286683, -64174804, 367515177,
        164002765, 261896225, 691221350, 308069509, -134902798, 83468844, -700841522, -70439079, 665531054, -684862403,
    ],
    (np.int32, 30): [
        -358715765, -17907662, 190645661, -33308002, 235678829, 386920341, -219844788, 198695323, -388761291, -18841163,
        250405964, -606665475, -49567944, 7223245, -271953263, -614983911, -85657626, 259634312, -50711687, -122601886,
        -7087292, 50057979, 337877864, -44082579, -560583693, -428772789, -170883018, 362901976, 144635241, -67183146,
    ],
}
# fmt: on
TYPES: dict[type, tuple[str, int]] = {np.int16: (SIGNED, 7), np.int32: (LONG, 2), np.float32: ("FLOAT32", 0)}


def transformed(name: str, numbers: np.ndarray, length: int, size: int, device: str = "nnapi-reference") -> np.ndarray:
    type_, number = TYPES[numbers.dtype.type]
    shape = (*numbers.shape[:-1], size)
    data = model(name, [T(type_, numbers.shape)], [T(type_, shape)], T=number, fft_length=length)
    return executed(data, [[numbers]], device)[0][0]


@pytest.mark.parametrize(("dtype", "length"), SPECTRA)
def test_spectra_in_fixed_point(dtype: type[np.integer], length: int) -> None:
    """Recorded of tflite-micro's kernel; the input is one element short. 4, 3, 2 and 5 are among the radices."""
    assert (
        transformed("SignalRfft", drawn(length, dtype, length - 1), length, length + 2).tolist()
        == SPECTRA[dtype, length]
    )


@pytest.mark.parametrize(("dtype", "length"), NUMBERS)
def test_numbers_of_spectra_in_fixed_point(dtype: type[np.integer], length: int) -> None:
    assert (
        transformed("SignalIrfft", drawn(length, dtype, length + 2), length, length).tolist() == NUMBERS[dtype, length]
    )


@pytest.mark.parametrize("length", [4, 6, 36, 480, 512])
@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_spectra_in_fixed_point_are_near_real_ones(dtype: type[np.integer], length: int) -> None:
    numbers = drawn(length, dtype, 3 * length).reshape(3, length)
    got = transformed("SignalRfft", numbers, length, length + 2).astype(float)
    unit = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
    np.testing.assert_allclose(
        (got[:, ::2] + 1j * got[:, 1::2]) / unit, np.fft.rfft(numbers.astype(float)) / length / unit, atol=6 / unit
    )


@pytest.mark.parametrize("device", ["nnapi-reference", "vulkan-0"])
@pytest.mark.parametrize(("size", "length"), [(4, 4), (13, 14), (60, 60), (3, 22)])
def test_real_spectra_and_back(size: int, length: int, device: str) -> None:
    numbers = np.random.default_rng(length).random((2, size)).astype(np.float32) - 0.5
    got = transformed("SignalRfft", numbers, length, length + 2, device)
    np.testing.assert_allclose(got[:, ::2] + 1j * got[:, 1::2], np.fft.rfft(numbers, length), atol=1e-5)
    back = transformed("SignalIrfft", got, length, length, device)
    np.testing.assert_allclose(back[:, :size], numbers, atol=1e-6)
    np.testing.assert_allclose(back[:, size:], 0, atol=1e-6)


# --- refusals ------------------------------------------------------------------------------------------------

FRAME, CHANNELS = T(SIGNED, (12,)), T(UNSIGNED, (5,))
SUMS, REAL = T(UNSIGNED_LONG, (5,)), T("FLOAT32", (12,))
SHIFT = T(LONG, ())
GAINS = of(np.ones(125, np.int16))
ENERGY = {"start_index": 0, "end_index": 6}
BANK = [T(UNSIGNED, (32,)), *(of(one) for one in TABLES)]
TRANSFORM = {"T": 7, "fft_length": 12}


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "entries", "reason"),
    [
        ("Window", [REAL, FRAME], [FRAME], {"shift": 1}, "the input must be of int16, got float32"),
        ("Window", [FRAME, T(LONG, (12,))], [FRAME], {"shift": 1}, "the weights must be of int16, got int32"),
        ("Window", [FRAME, T(SIGNED, (3, 4))], [FRAME], {"shift": 1}, "must have 1 dimensions, got shape [3, 4]"),
        ("Window", [FRAME, T(SIGNED, (5,))], [FRAME], {"shift": 1}, "shape [12] must be frames of 5 elements"),
        ("Window", [FRAME], [FRAME], {"shift": 1}, "missing 1 required positional argument"),
        ("Window", [FRAME, FRAME], [FRAME], {}, "the option shift is missing"),
        ("Window", [FRAME, FRAME], [FRAME], {"shift": 32}, "shift must be a whole number from 0 to 31, got 32"),
        ("Window", [FRAME, FRAME], [FRAME], {"shift": 0.5}, "shift must be a whole number from 0 to 31, got 0.5"),
        ("Window", [FRAME, FRAME], [FRAME], {"shift": math.inf}, "must be a whole number from 0 to 31, got inf"),
        ("Window", [FRAME, FRAME], [T(SIGNED, (3, 4))], {"shift": 1}, "is declared [3, 4], its inputs give [12]"),
        ("FftAutoScale", [FRAME], [FRAME], {}, "its function must give 1 outputs, got 2"),
        ("FftAutoScale", [FRAME, FRAME], [FRAME, SHIFT], {}, "takes 1 positional argument but 2"),
        ("FftAutoScale", [FRAME], [FRAME, FRAME], {}, "its function must give output 1 as int16, got int32"),
        ("Energy", [FRAME], [T(LONG, (6,))], ENERGY, "its function must give output 0 as int32, got uint32"),
        ("Energy", [T(SIGNED, (13,))], [CHANNELS], ENERGY, "must be a multiple of 2, got [13]"),
        ("Energy", [FRAME], [T(UNSIGNED, (6,))], {**ENERGY, "end_index": 7}, "end_index must be a whole number from 0"),
        ("Energy", [FRAME], [T(UNSIGNED, (6,))], {"start_index": 4, "end_index": 3}, "from 0 to 3, got 4"),
        (
            "FilterBank",
            BANK[:5],
            [T(UNSIGNED_LONG, (4,))],
            {"num_channels": 4},
            "missing 1 required positional argument",
        ),
        ("FilterBank", BANK, [T(UNSIGNED_LONG, (5,))], {"num_channels": 5}, "num_channels must be a whole number from"),
        ("FilterBank", BANK, [T(UNSIGNED, (4,))], {"num_channels": 4}, "must give output 0 as uint32, got uint64"),
        ("FilterBankSquareRoot", [SUMS, CHANNELS], [CHANNELS], {}, "the number of bits must be of int32, got uint32"),
        ("FilterBankSquareRoot", [CHANNELS, SHIFT], [CHANNELS], {}, "must be of uint64, got uint32"),
        ("FilterBankLog", [CHANNELS], [T(SIGNED, (5,))], {"output_scale": 1}, "input_correction_bits is missing"),
        ("PCAN", [CHANNELS, T(UNSIGNED, (4,)), GAINS], [CHANNELS], {"snr_shift": 1}, "must have the input's shape [5]"),
        ("PCAN", [CHANNELS, CHANNELS, T(SIGNED, (124,))], [CHANNELS], {"snr_shift": 1}, "at least 125 numbers"),
        ("PCAN", [CHANNELS, CHANNELS, GAINS], [CHANNELS], {"snr_shift": 64}, "from 0 to 63, got 64"),
        ("Rfft", [T("INT8", (12,))], [FRAME], TRANSFORM, "must be of float32, int32, int16, got int8"),
        ("Rfft", [], [FRAME], TRANSFORM, "missing 1 required positional argument"),
        ("Rfft", [FRAME], [FRAME], {**TRANSFORM, "T": 2}, "the option T must be 7, the number of INT16, got 2"),
        ("Rfft", [FRAME], [FRAME], {**TRANSFORM, "fft_length": 10}, "must have at most fft_length = 10 elements"),
        ("Rfft", [FRAME], [FRAME], {**TRANSFORM, "fft_length": 13}, "fft_length must be even, got 13"),
        ("Rfft", [FRAME], [FRAME], {**TRANSFORM, "fft_length": 14}, "a product of 2, 3 and 5, got fft_length = 14"),
        ("Rfft", [FRAME], [FRAME], {**TRANSFORM, "fft_length": 1 << 17}, "from 2 to 65536, got 131072"),
        (
            "Rfft",
            [T(SIGNED, (9999, 1))],
            [FRAME],
            {**TRANSFORM, "fft_length": 1 << 16},
            "constants, states and operations take more",
        ),
        ("FftAutoScale", [T(SIGNED, (1 << 30,))], [FRAME, SHIFT], {}, "more is computed at import"),
        ("Rfft", [FRAME], [FRAME], TRANSFORM, "is declared [12], its inputs give [14]"),
        ("Irfft", [FRAME], [FRAME], TRANSFORM, "spectra of fft_length = 12 have 14 elements, got shape [12]"),
        (
            "Irfft",
            [T(SIGNED, (14,), scale=1.0, zero_point=3)],
            [FRAME],
            TRANSFORM,
            "INT16 with the zero point 3",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_refusals(name: str, inputs: Sequence[T], outputs: Sequence[T], entries: dict[str, float], reason: str) -> None:
    net = Net([tensor for tensor in inputs if tensor.is_free] or [FRAME], outputs)
    results = [T(one.type, one.shape) for one in outputs]
    net.outputs = results
    net.op(f"Signal{name}", inputs, results, custom=options(**entries))
    with pytest.raises(TfliteImportError) as raised:
        load(write(net))
    assert f"operator 0 (Signal{name})" in str(raised.value)
    assert reason in str(raised.value)


# --- unsigned numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["nnapi-reference", "vulkan-0"])
def test_unsigned_numbers_go_through_operators_that_move_them(device: str) -> None:
    first = np.array([[2**32 - 1, 2**31, 5], [0, 7, 2**31 - 1]], np.uint32)
    source, joined, result = T(UNSIGNED, (2, 3)), T(UNSIGNED, (3, 3)), T(UNSIGNED, (3, 3))
    net = Net([source], [result])
    net.op("CONCATENATION", [source, T(UNSIGNED, data=[[2**32 - 2, 1, 2]])], joined, "ConcatenationOptions")
    net.op("TRANSPOSE", [joined, T(LONG, data=[1, 0])], result, "TransposeOptions")
    ((got,),) = executed(write(net), [[first]], device)
    assert (got.dtype, got.tolist()) == (np.uint32, [*map(list, zip(*first.tolist(), [2**32 - 2, 1, 2], strict=True))])


@pytest.mark.parametrize(("name", "type_"), [("ADD", UNSIGNED), ("RESHAPE", UNSIGNED_LONG)])
def test_unsigned_numbers_are_refused_elsewhere(name: str, type_: str) -> None:
    source, result = T(type_, (3,)), T(type_, (3,))
    net = Net([source], [result])
    net.op(name, [source, source] if name == "ADD" else [source], result)
    with pytest.raises(TfliteImportError, match=f"operator 0 \\({name}\\).*of type {type_}, which NNAPI does not have"):
        load(write(net))


def test_constants_of_64_bits_that_are_unsigned() -> None:
    numbers = np.array([2**64 - 1, 2**40, 9], np.uint64)
    (got,) = computed("SignalFilterBankSquareRoot", [of(numbers), SHIFT], [T(UNSIGNED, (3,))], np.array(0, np.int32))
    assert got.tolist() == [2**32 - 1, 2**20, 3]


# --- models --------------------------------------------------------------------------------------------------

FEATURES = [
    ([19393, 17512, 20243, 21603, 22166], [392498, 355600, 752401, 3564665, 2901954]),
    ([20546, 18510, 12980, 11140, 20676], [969488, 860108, 761478, 3499718, 3664914]),
    ([19794, 20914, 21996, 22182, 21644], [1541495, 3393977, 2072795, 7898047, 5833890]),
    ([19962, 21459, 22707, 20942, 21097], [1954458, 6952164, 4178600, 11567159, 6971046]),
]
"""Features and estimates of noise, recorded of tflite-micro."""


@pytest.mark.parametrize("device", ["nnapi-reference", "vulkan-0"])
@pytest.mark.parametrize("cleared", [False, True])
def test_features_of_speech_over_executions(cleared: bool, device: str) -> None:
    outputs = executed(front_end(cleared=cleared), [[speech(number)] for number in range(4)], device)
    assert [tuple(one.tolist() for one in found) for found in outputs] == FEATURES


def test_options_that_are_no_map() -> None:
    net = Net([FRAME], [result := T(SIGNED, (12,))])
    net.op("SignalDelay", [FRAME], result, custom=bytes(flexbuffers.Dumps([1, 2])))
    with pytest.raises(TfliteImportError, match=r"SignalDelay.*options must be a FlexBuffers map"):
        load(write(net))
