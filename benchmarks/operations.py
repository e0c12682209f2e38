"""Every operation on every type that it has, to find the slow kernels; many at the sizes of MobileNets.

    python benchmarks/operations.py [--filter REGEX] [--tables float32 int8 types] [--device NAME] [--save]

On the device, on the CPU reference device and in LiteRT on the CPU, taking turns. GB/s is what goes in and comes out,
without weights, by the time that the device itself measures. The limit: no operation takes longer than on the
reference device, but for what `slower.py` names with a reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cells
import engines
import every_type
import numpy as np
from engines import LiteRtModel, nnvk_graph
from every_type import SHORT
from graphs import (
    FLOAT,
    INT8,
    Make,
    Single,
    batch_matmul,
    binary,
    concatenation,
    convolution,
    depthwise,
    fully_connected,
    l2_normalization,
    local_response,
    log_softmax,
    mean,
    pad,
    pool,
    quantize,
    reshape,
    resize,
    softmax,
    transposed_convolution,
    unary,
)
from harness import (
    QUICK,
    Effort,
    Section,
    Table,
    Times,
    cell,
    device_of,
    effort_of,
    interleave,
    options,
    ratio,
    report_all,
)
from slower import allowance
from tflite import Padding

import nnvk
from nnvk.base.text import milliseconds
from nnvk.cli.output import progress

_MAP = (1, 56, 56, 64)
"""A feature map of 200,704 elements."""

OPERATIONS: Mapping[str, Make] = {
    "CONV_2D 3x3/2, 224x224x3 -> 32": lambda t: convolution((1, 224, 224, 3), 32, 3, 2, t),
    "CONV_2D 1x1, 112x112x32 -> 16": lambda t: convolution((1, 112, 112, 32), 16, 1, 1, t),
    "CONV_2D 1x1, 56x56x24 -> 144": lambda t: convolution((1, 56, 56, 24), 144, 1, 1, t),
    "CONV_2D 1x1, 14x14x96 -> 576": lambda t: convolution((1, 14, 14, 96), 576, 1, 1, t),
    "CONV_2D 1x1, 7x7x320 -> 1280": lambda t: convolution((1, 7, 7, 320), 1280, 1, 1, t),
    "CONV_2D 3x3, 32x32x16 -> 16": lambda t: convolution((1, 32, 32, 16), 16, 3, 1, t),
    "DEPTHWISE_CONV_2D 3x3, 56x56x144": lambda t: depthwise((1, 56, 56, 144), 3, 1, t),
    "DEPTHWISE_CONV_2D 3x3/2, 112x112x96": lambda t: depthwise((1, 112, 112, 96), 3, 2, t),
    "DEPTHWISE_CONV_2D 3x3, 7x7x960": lambda t: depthwise((1, 7, 7, 960), 3, 1, t),
    "GROUPED_CONV_2D 3x3, 56x56x128, 32 groups": lambda t: convolution((1, 56, 56, 128), 128, 3, 1, t, groups=32),
    "GROUPED_CONV_2D 1x1, 28x28x240, 3 groups": lambda t: convolution((1, 28, 28, 240), 240, 1, 1, t, groups=3),
    "TRANSPOSE_CONV_2D 3x3/2, 28x28x64 -> 32": lambda t: transposed_convolution((1, 28, 28, 64), 32, 3, 2, t),
    "TRANSPOSE_CONV_2D 4x4/2, 64x64x16 -> 3": lambda t: transposed_convolution((1, 64, 64, 16), 3, 4, 2, t),
    "BATCH_MATMUL 12 x 64x64x64": lambda t: batch_matmul((12, 64, 64), (12, 64, 64), t),
    "FULLY_CONNECTED 1280 -> 1001": lambda t: fully_connected(1, 1280, 1001, t),
    "FULLY_CONNECTED 640 -> 128": lambda t: fully_connected(1, 640, 128, t),
    "AVERAGE_POOL_2D 7x7, 7x7x1280": lambda t: pool("AVERAGE_POOL_2D", (1, 7, 7, 1280), 7, 1, Padding.VALID, t),
    "AVERAGE_POOL_2D 3x3, 56x56x64": lambda t: pool("AVERAGE_POOL_2D", _MAP, 3, 1, Padding.SAME, t),
    "MAX_POOL_2D 3x3/2, 112x112x64": lambda t: pool("MAX_POOL_2D", (1, 112, 112, 64), 3, 2, Padding.SAME, t),
    "MAX_POOL_2D 2x2/2, 56x56x64": lambda t: pool("MAX_POOL_2D", _MAP, 2, 2, Padding.VALID, t),
    "RESIZE_BILINEAR 56x56x64 -> 112x112": lambda t: resize("RESIZE_BILINEAR", _MAP, (112, 112), t),
    "RESIZE_BILINEAR 224x224x3 -> 299x299": lambda t: resize("RESIZE_BILINEAR", (1, 224, 224, 3), (299, 299), t),
    "RESIZE_NEAREST_NEIGHBOR 56x56x64 -> 112x112": lambda t: resize("RESIZE_NEAREST_NEIGHBOR", _MAP, (112, 112), t),
    "L2_NORMALIZATION 56x56x64": lambda t: l2_normalization(_MAP, t),
    "ADD 56x56x64": lambda t: binary("ADD", _MAP, _MAP, t),
    "ADD 56x56x64 + 64": lambda t: binary("ADD", _MAP, (64,), t),
    "SUB 56x56x64": lambda t: binary("SUB", _MAP, _MAP, t),
    "MUL 56x56x64": lambda t: binary("MUL", _MAP, _MAP, t),
    "RELU 56x56x64": lambda t: unary("RELU", _MAP, t),
    "RELU1 56x56x64": lambda t: unary("RELU_N1_TO_1", _MAP, t),
    "RELU6 56x56x64": lambda t: unary("RELU6", _MAP, t),
    "LOGISTIC 56x56x64": lambda t: unary("LOGISTIC", _MAP, t),
    "TANH 56x56x64": lambda t: unary("TANH", _MAP, t),
    "SOFTMAX 1x1001": lambda t: softmax((1, 1001), t),
    "SOFTMAX 1536x128": lambda t: softmax((1536, 128), t),
    "CONCATENATION 28x28x(64, 128, 32, 32)": lambda t: concatenation([(1, 28, 28, n) for n in (64, 128, 32, 32)], t),
    "PAD 56x56x64 by 1": lambda t: pad(_MAP, 1, t),
    "MEAN 7x7x1280 over 7x7": lambda t: mean((1, 7, 7, 1280), (1, 2), t),
    "MEAN 56x56x64 over 64": lambda t: mean(_MAP, (3,), t),
    "RESHAPE 56x56x64": lambda t: reshape(_MAP, (1, 56 * 56, 64), t),
    "QUANTIZE, DEQUANTIZE 224x224x3": lambda t: quantize((1, 224, 224, 3), t),
}

REAL_OPERATIONS: Mapping[str, Callable[[], Single]] = {
    "L2_POOL_2D 3x3, 56x56x64": lambda: pool("L2_POOL_2D", _MAP, 3, 1, Padding.SAME, FLOAT),
    "LOCAL_RESPONSE_NORMALIZATION 5, 56x56x64": lambda: local_response(_MAP, 5),
    "LOG_SOFTMAX 1536x128": lambda: log_softmax((1536, 128)),
}
"""Operations on floats alone."""
CELLS: Mapping[str, Callable[[], Single]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM 40 x 128 -> 256": lambda: cells.sequence_lstm(40, 1, 128, 256),
    "UNIDIRECTIONAL_SEQUENCE_LSTM 20 x 8 -> 8": lambda: cells.sequence_lstm(20, 1, 8, 8),
    "UNIDIRECTIONAL_SEQUENCE_LSTM 40 x 16 x 128 -> 256": lambda: cells.sequence_lstm(40, 16, 128, 256),
    "UNIDIRECTIONAL_SEQUENCE_LSTM 40 x 128 -> 512 -> 256": lambda: cells.sequence_lstm(40, 1, 128, 512, outputs=256),
    "UNIDIRECTIONAL_SEQUENCE_LSTM, norm, 40 x 128 -> 256": lambda: cells.sequence_lstm(40, 1, 128, 256, norm=True),
    "BIDIRECTIONAL_SEQUENCE_LSTM 40 x 128 -> 2 x 128": lambda: cells.bidirectional_lstm(40, 1, 128, 128),
    "BIDIRECTIONAL_SEQUENCE_LSTM 20 x 8 -> 2 x 8": lambda: cells.bidirectional_lstm(20, 1, 8, 8),
    "LSTM 128 -> 256": lambda: cells.lstm(128, 256),
    "LSTM 8 -> 8": lambda: cells.lstm(8, 8),
    "UNIDIRECTIONAL_SEQUENCE_RNN 40 x 128 -> 256": lambda: cells.sequence_rnn(40, 1, 128, 256),
    "UNIDIRECTIONAL_SEQUENCE_RNN 20 x 8 -> 8": lambda: cells.sequence_rnn(20, 1, 8, 8),
    "BIDIRECTIONAL_SEQUENCE_RNN 40 x 128 -> 2 x 256": lambda: cells.bidirectional_rnn(40, 1, 128, 256),
    "BIDIRECTIONAL_SEQUENCE_RNN 20 x 8 -> 2 x 8": lambda: cells.bidirectional_rnn(20, 1, 8, 8),
    "RNN 128 -> 256": lambda: cells.rnn(128, 256),
    "RNN 8 -> 8": lambda: cells.rnn(8, 8),
    "SVDF 40 -> 256, 10 steps, rank 2": lambda: cells.svdf(40, 256, 10, 2),
    "SVDF 8 -> 8, 10 steps, rank 1": lambda: cells.svdf(8, 8, 10, 1),
}
"""Recurrent operations: time steps (one if missing), batches if more than one, inputs, and units."""
QUANTISED_CELLS: Mapping[str, Callable[[], Single]] = {
    "QUANTIZED_LSTM 128 -> 256": lambda: cells.quantized_lstm(128, 256),
    "QUANTIZED_LSTM 8 -> 8": lambda: cells.quantized_lstm(8, 8),
    "QUANTIZED_16BIT_LSTM 128 -> 256": lambda: cells.quantized_16bit_lstm(128, 256),
    "QUANTIZED_16BIT_LSTM 8 -> 8": lambda: cells.quantized_16bit_lstm(8, 8),
}


TABLES = ("float32", "int8", "types")
_AGAIN = 2
"""How often what seems slower than the reference device is measured once more."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation in one data type."""

    times: Mapping[str, Times]
    hardware_ns: float | None
    nbytes: int
    """The bytes of inputs and outputs, without weights."""
    difference: str
    """The difference between the device and the reference device."""

    @property
    def slowness(self) -> float:
        """The least ratio of its time to the reference device's."""
        ours, reference = (times.minimum for times in list(self.times.values())[:2])
        return ours / reference

    def figures(self) -> dict[str, Any]:
        """The figures that reports keep."""
        return {engine: times.figures() for engine, times in self.times.items()}


Results = Mapping[str, "Measured | str"]
"""Results by the operations' names; the reason, if the device does not support one."""


def measure(single: Single, devices: Sequence[nnvk.Device], effort: Effort) -> Measured | str:
    """One operation on the device, the reference device and LiteRT; why not, where the device doesn't support it.

    Where it seems slower than the reference, it is measured again, as it may have been disturbed.
    """
    found: dict[str, Any] = {device.name: nnvk_graph(single.graph, device, single.inputs) for device in devices}
    first, reference = (found[device.name] for device in devices)
    if not first.alone:
        return "not supported"
    if engines.LITERT and isinstance(single.graph, bytes):
        found["LiteRT"] = LiteRtModel(single.graph, 2, single.inputs)
    difference = _difference(first.outputs, reference.outputs)
    nbytes = sum(array.nbytes for array in (*single.inputs, *first.outputs))
    contenders = {name: engine.run for name, engine in found.items()}
    hardware = first.hardware_ns(max(effort.least, 10))
    measured = Measured(interleave(contenders, effort), hardware, nbytes, difference)
    for _ in range(0 if effort == QUICK else _AGAIN):
        if measured.slowness > 1:
            more = interleave(contenders, effort)
            times = {name: Times(np.concatenate([old.runs, more[name].runs])) for name, old in measured.times.items()}
            measured = replace(measured, times=times)
    return measured


def _difference(ours: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> str:
    if any(a.shape != b.shape for a, b in zip(ours, references, strict=True)):
        return "shape"
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(ours, references, strict=True)]
    with np.errstate(invalid="ignore"):
        difference = max(float(np.abs(np.where(a == b, 0, a - b)).max(initial=0)) for a, b in pairs)
    return f"{difference:.0e}" if any(a.dtype.kind == "f" for a in ours) else f"{difference:.0f}"


def table(title: str, results: Results, names: Sequence[str]) -> Table:
    """One row for each operation."""
    device, reference = names[:2]
    columns = ["operation", *names, f"{device} / LiteRT", "min", f"min / {reference}", "hardware", "GB/s", "off"]
    rows = []
    for operation, one in results.items():
        if isinstance(one, str):
            rows.append([operation, one, *["-"] * (len(columns) - 2)])
            continue
        ours, litert, hardware = one.times[device], one.times.get("LiteRT"), one.hardware_ns
        rows.append(
            [
                operation,
                *(cell(one.times.get(name)) for name in names),
                ratio(ours.median, litert.median) if litert else "-",
                milliseconds(ours.minimum),
                _slowness(one),
                milliseconds(hardware),
                f"{one.nbytes / hardware:.1f}" if hardware else "-",
                one.difference,
            ]
        )
    return Table(f"{title}: medians in ms", columns, rows)


def _slowness(measured: Measured | str | None) -> str:
    if not isinstance(measured, Measured):
        return measured or ""
    return f"{measured.slowness:.2f}" + ("!" if measured.slowness > 1 else "")


def types_table(results: Mapping[str, Results], device: str) -> Table:
    """One row for each operation, and a column for each leading type; ``results`` are by both."""
    codes = sorted({type_ for by_type in results.values() for type_ in by_type}, key=list(SHORT.values()).index)
    rows = [[name, *(_slowness(by_type.get(code)) for code in codes)] for name, by_type in results.items()]
    note = f"How many times as long as nnapi-reference {device} takes, by minima; ! where it is more than once."
    return Table("Every type of every operation", ["operation", *codes], rows, note=note)


def slower_table(results: Mapping[str, Results], names: Sequence[str]) -> Table:
    """Operations that are slower than on the reference device, with reasons; ``results`` are by title."""
    columns = ["operation", "type", "why", *(f"{name}, min" for name in names[:2]), "times"]
    rows, reasons = [], {}
    for title, one in results.items():
        for name, measured in one.items():
            if isinstance(measured, Measured) and measured.slowness > 1:
                minima = [milliseconds(measured.times[engine].minimum) for engine in names[:2]]
                allowed = allowance(f"{name} {title}")
                if allowed:
                    reasons[allowed.name] = f"{allowed.name}: {allowed.why}."
                why = allowed.name if allowed else "?"
                rows.append([name, title, why, *minima, f"{measured.slowness:.2f}"])
    title = f"Slower than {names[1]}: minima in ms"
    return Table(title, columns, rows, left=3, note=" ".join(reasons.values()))


def _made(dtype: np.dtype) -> dict[str, Callable[[], Single]]:
    return {name: partial(make, dtype) for name, make in OPERATIONS.items()}


def failures(results: Mapping[str, Results], device: str) -> Iterator[str]:
    """Operations that are slower than allowed; ``results`` are by title."""
    for title, one in results.items():
        for name, measured in one.items():
            allowed = allowance(f"{name} {title}")
            if isinstance(measured, Measured) and measured.slowness > (allowed.at_most if allowed else 1):
                yield f"{device} takes {measured.slowness:.2f} times as long as nnapi-reference for {name} {title}"


def main() -> int:
    """Measure the operations."""
    parser = options("Every operation at common sizes, on every type.")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only operations whose names match")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES, help="only these tables")
    arguments = parser.parse_args()
    device = device_of(arguments)
    devices = [device, nnvk.get_device("nnapi-reference")]
    names = [*(d.name for d in devices), *(["LiteRT"] if engines.LITERT else [])]
    effort = effort_of(arguments, Effort(seconds=0.6, least=5, turn_seconds=0.02))
    wanted: dict[str, Mapping[str, Callable[[], Single]]] = {
        "float32": {**_made(FLOAT), **REAL_OPERATIONS, **CELLS},
        "int8": {**_made(INT8), **QUANTISED_CELLS},
    }
    work = [
        (title, name, make)
        for title, makes in wanted.items()
        if title in arguments.tables
        for name, make in makes.items()
    ]
    if "types" in arguments.tables:
        work += [(f"on {SHORT[row.leading]}", row.name, row.make) for row in every_type.rows()]
    work = [(title, name, make) for title, name, make in work if re.search(arguments.filter, name)]
    results: dict[str, dict[str, Measured | str]] = {}
    with progress("Measuring", len(work)) as advance:
        for title, name, make in work:
            results.setdefault(title, {})[name] = measure(make(), devices, effort)
            advance(f"{name} {title}")
    sections = []
    if sized := {title: one for title, one in results.items() if title in wanted}:
        tables = [table(title, one, names) for title, one in sized.items()]
        sections.append(_section("operations", "Operations", tables, sized, names))
    if typed := {title: one for title, one in results.items() if title not in wanted}:
        by_name = _by_name(typed, [name for title, name, _ in work if title not in wanted])
        tables = [types_table(by_name, device.name)]
        sections.append(_section("types", "Operations on every type", tables, typed, names))
    return report_all(sections, device, arguments)


def _section(
    name: str, title: str, tables: list[Table], results: Mapping[str, Results], names: Sequence[str]
) -> Section:
    slower = slower_table(results, names)
    figures = {
        title: {name: measured.figures() for name, measured in one.items() if isinstance(measured, Measured)}
        for title, one in results.items()
    }
    tables = [*tables, slower] if slower.rows else tables
    return Section(name, title, tables, figures, list(failures(results, names[0])))


def _by_name(results: Mapping[str, Results], names: Sequence[str]) -> dict[str, dict[str, Measured | str]]:
    """The measurements on every type, by operation and leading type."""
    return {
        name: {code: results[f"on {code}"][name] for code in SHORT.values() if name in results.get(f"on {code}", {})}
        for name in names
    }


if __name__ == "__main__":
    sys.exit(main())
