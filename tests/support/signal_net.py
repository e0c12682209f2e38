"""Files with tflite-micro's operators on signals, and what nnvk computes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flatbuffers import flexbuffers
from tflite_net import Net, T, write

from nnvk.api import Compilation, get_devices, run
from nnvk.importers.tflite import load


def options(**entries: float) -> bytes:
    """A map of numbers, as converters write it."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in entries.items():
            add = builder.Bool if isinstance(value, bool) else builder.Int if isinstance(value, int) else builder.Float
            add(name, value)
    return bytes(builder.Finish())


def of(array: np.ndarray) -> T:
    """A constant."""
    return T(array.dtype.name.upper(), data=array)


def model(name: str, inputs: Sequence[T], outputs: Sequence[T], **entries: float) -> bytes:
    """The file of one operator."""
    net = Net([tensor for tensor in inputs if tensor.is_free], outputs)
    net.op(name, inputs, outputs, custom=options(**entries))
    return write(net)


def executed(
    data: bytes, executions: Sequence[Sequence[np.ndarray]], device: str = "nnapi-reference"
) -> list[list[np.ndarray]]:
    """The outputs of executions, one after the other, each on the states that the one before left."""
    imported = load(data)
    compilation = Compilation(imported.model, [one for one in get_devices() if one.name in (device, "nnapi-reference")])
    compilation.finish()
    state, found = None, []
    for arrays in executions:
        outputs, state = imported.decode(run(compilation, imported.encode(arrays, state)))
        found.append(outputs)
    return found


def computed(
    name: str, inputs: Sequence[T], outputs: Sequence[T], *arrays: np.ndarray, **entries: float
) -> list[np.ndarray]:
    """The outputs of one operator, executed once."""
    return executed(model(name, inputs, outputs, **entries), [arrays])[0]


def front_end(*, cleared: bool) -> bytes:
    """Features of speech, from 24 samples to 5 channels. ``cleared`` sets the first and last energies to 0 in between.

    They belong to no channel.
    """
    rng = np.random.default_rng(5)
    source, features, noise = T("INT16", (1, 24)), T("INT32", (5,)), T("UINT32", (5,))
    net = Net([source], [features, noise])

    def op(name: str, inputs: Sequence[T], outputs: Sequence[T], **entries: float) -> Sequence[T]:
        net.op(f"Signal{name}", inputs, outputs, custom=options(**entries))
        return outputs

    weights = (2048 - 2048 * np.cos(2 * np.pi * (np.arange(24) + 0.5) / 24)).astype(np.int16)
    (tapered,) = op("Window", [source, of(weights)], [T("INT16", (1, 24))], shift=12)
    flat = net.op("RESHAPE", [tapered, T("INT32", data=[24])], T("INT16", (24,)), "ReshapeOptions", NewShape=[24])
    assert flat is not None
    scaled, shift = op("FftAutoScale", [flat], [T("INT16", (24,)), T("INT32", ())])
    (spectrum,) = op("Rfft", [scaled], [T("INT16", (34,))], T=7, fft_length=32)
    (energy,) = op("Energy", [spectrum], [T("UINT32", (17,))], end_index=16, start_index=1)
    if cleared:
        middle, ends = T("UINT32", (15,)), T("UINT32", data=[0])
        bounds = [T("INT32", data=[number]) for number in (1, 16, 1)]
        net.op("STRIDED_SLICE", [energy, *bounds], middle, "StridedSliceOptions")
        energy = T("UINT32", (17,))
        net.op("CONCATENATION", [ends, middle, ends], energy, "ConcatenationOptions")
    widths = np.array([1, 2, 3, 3, 4, 2], np.int16)
    starts = np.cumsum([0, *widths[:-1]]).astype(np.int16)
    tables = [rng.integers(0, 4096, 15).astype(np.int16)]
    tables += [(4096 - tables[0]).astype(np.int16), starts + np.int16(1), starts, widths]
    (sums,) = op("FilterBank", [energy, *map(of, tables)], [T("UINT64", (5,))], num_channels=5)
    (roots,) = op("FilterBankSquareRoot", [sums, shift], [T("UINT32", (5,))])
    (clean, _) = op(
        "FilterBankSpectralSubtraction",
        [roots],
        [T("UINT32", (5,)), noise],
        alternate_one_minus_smoothing=16384 - 983,
        alternate_smoothing=983,
        clamping=False,
        min_signal_remaining=819,
        num_channels=5,
        one_minus_smoothing=16384 - 410,
        smoothing=410,
        smoothing_bits=10,
        spectral_subtraction_bits=14,
    )
    gains = (32000 / (1 + np.arange(125) / 9)).astype(np.int16)
    (normal,) = op("PCAN", [clean, noise, of(gains)], [T("UINT32", (5,))], snr_shift=6)
    (logs,) = op("FilterBankLog", [normal], [T("INT16", (5,))], input_correction_bits=3, output_scale=1600)
    net.op("CAST", [logs], features, "CastOptions", InDataType=7, OutDataType=2)
    return write(net)


def speech(execution: int) -> np.ndarray:
    """The samples of an execution."""
    return ((np.arange(24) * (execution + 2) * 641 % 4001 - 2000) * 5).astype(np.int16).reshape(1, 24)
