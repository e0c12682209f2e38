"""Single operations against ncnn's Vulkan path and LiteRT's GPU accelerator on the same device, host to host.

    python benchmarks/layers.py [--device NAME] [--seconds S] [--save]

Every contender computes the same thing in the same run, in turns, and is checked against NumPy first. nnvk's int8 and
LiteRT on the CPU stand beside for comparison.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import engines
import numpy as np
from engines import LiteRtGpuModel, LiteRtModel, NcnnModel, NnvkModel, ncnn_gpu, ncnn_layer, nnvk_graph
from graphs import FLOAT, INT8, Single, convolution, depthwise, fully_connected
from harness import (
    Effort,
    Section,
    Table,
    Times,
    cell,
    device_of,
    driver_of,
    effort_of,
    interleave,
    options,
    ratio,
    report,
)

from nnvk.base.text import milliseconds
from nnvk.cli.output import progress

FLOAT_TOLERANCE = 1e-4
"""The tolerance, relative to the largest result. ncnn's Winograd convolutions are less exact than a plain sum."""
_RAW = np.zeros(1, np.uint32)
"""The tag before float32 weights in ncnn's files."""


@dataclass(frozen=True, slots=True)
class NcnnKind:
    """One of ncnn's layers that computes the case."""

    name: str
    parameters: Mapping[int, int | float]
    tagged_bias: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """An operation, and what computes it in ncnn."""

    name: str
    make: Callable[[np.dtype], Single]
    reference: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """The sums without bias, from input and weights."""
    kinds: Sequence[NcnnKind]
    limit: float
    """The most of ncnn's time that nnvk is to take on a software device."""


def correlate(data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """CONV_2D with SAME padding and a stride of 1: weights [output channels, height, width, channels]."""
    return np.einsum("nhwckl,oklc->nhwo", _windows(data, weights.shape[1]), weights, optimize=True)


def correlate_depthwise(data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """DEPTHWISE_CONV_2D, likewise: weights [1, height, width, channels]."""
    return np.einsum("nhwckl,klc->nhwc", _windows(data, weights.shape[1]), weights[0])


def _windows(data: np.ndarray, window: int) -> np.ndarray:
    before = (window - 1) // 2
    padding = (before, window - 1 - before)
    padded = np.pad(data.astype(np.float64), [(0, 0), padding, padding, (0, 0)])
    return np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))


def matrix_product(data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """FULLY_CONNECTED."""
    return data.astype(np.float64) @ weights.T


def _ncnn_convolution(window: int, channels: int, out_channels: int) -> NcnnKind:
    parameters = {0: out_channels, 1: window, 4: window // 2, 5: 1, 6: window * window * channels * out_channels}
    return NcnnKind("Convolution", parameters)


CASES = (
    Case(
        "FULLY_CONNECTED 1024x1024 by 1024",
        lambda dtype: fully_connected(1024, 1024, 1024, dtype),
        matrix_product,
        (
            NcnnKind("Gemm", {3: 1, 5: 1, 6: 1, 7: 1024, 8: 1024, 9: 1024, 10: 4}, tagged_bias=True),
            NcnnKind("InnerProduct", {0: 1024, 1: 1, 2: 1024 * 1024}),
        ),
        0.5,
    ),
    Case(
        "CONV_2D 3x3, 56x56x64 -> 64",
        lambda dtype: convolution((1, 56, 56, 64), 64, 3, 1, dtype),
        correlate,
        (_ncnn_convolution(3, 64, 64),),
        1.0,
    ),
    Case(
        "CONV_2D 1x1, 56x56x64 -> 128",
        lambda dtype: convolution((1, 56, 56, 64), 128, 1, 1, dtype),
        correlate,
        (_ncnn_convolution(1, 64, 128),),
        1.0,
    ),
    Case(
        "DEPTHWISE_CONV_2D 3x3, 112x112x64",
        lambda dtype: depthwise((1, 112, 112, 64), 3, 1, dtype),
        correlate_depthwise,
        (NcnnKind("ConvolutionDepthWise", {0: 64, 1: 3, 4: 1, 5: 1, 6: 9 * 64, 7: 64}),),
        1.0,
    ),
)


def ncnn_case(kind: NcnnKind, single: Single, gpu: int) -> NcnnModel:
    """The layer of ncnn with the case's data."""
    assert single.weights is not None and single.bias is not None
    (data,), weights = single.inputs, single.weights
    if data.ndim == 4:
        weights = weights.transpose(0, 3, 1, 2) if weights.shape[0] > 1 else weights[0].transpose(2, 0, 1)
    arrays = [_RAW, np.ascontiguousarray(weights), *([_RAW] if kind.tagged_bias else []), single.bias]
    return ncnn_layer(kind.name, kind.parameters, arrays, data, gpu)


def check(name: str, got: np.ndarray, expected: np.ndarray, allowed: float) -> float:
    """The largest difference. Raises AssertionError where it is more than allowed: such a time means nothing."""
    difference = float(np.abs(got.astype(np.float64) - expected).max())
    if not difference <= allowed:
        raise AssertionError(f"{name} differs from NumPy by {difference:g}, allowed is {allowed:g}")
    return difference


def expected_output(case: Case, single: Single) -> np.ndarray:
    """The result of NumPy, in the output's numbers."""
    assert single.real_weights is not None and single.real_bias is not None
    result = case.reference(single.real_inputs[0], single.real_weights) + single.real_bias
    assert single.output is not None
    if single.output.quantization is None:
        return result
    return np.clip(np.round(result / single.output.quantization.scales[0]), -128, 127)


def contenders(case: Case, device: Any, gpu: int | None) -> tuple[dict[str, Any], dict[str, float]]:
    """All engines that run a case, checked, and how far they are from NumPy."""
    single, quantised = case.make(FLOAT), case.make(INT8)
    expected = expected_output(case, single)
    allowed = FLOAT_TOLERANCE * float(np.abs(expected).max())
    found: dict[str, Any] = {"nnvk": nnvk_graph(single.graph, device, single.inputs)}
    if gpu is not None:
        found |= {f"ncnn {kind.name}": ncnn_case(kind, single, gpu) for kind in case.kinds}
    if engines.LITERT:
        found["LiteRT"] = LiteRtModel(single.graph, 2, single.inputs)
        with suppress(RuntimeError):  # it takes no GPU that is there
            found["LiteRT GPU"] = LiteRtGpuModel(single.graph, single.inputs)
    differences = {}
    for name, engine in found.items():
        output = engine.outputs[0]
        difference = check(f"{case.name} by {name}", output.reshape(expected.shape), expected, allowed)
        differences[name] = difference / float(np.abs(expected).max())
    model: NnvkModel = nnvk_graph(quantised.graph, device, quantised.inputs)
    found["nnvk int8"] = model
    levels = expected_output(case, quantised)
    differences["nnvk int8"] = check(f"{case.name} by nnvk int8", model.outputs[0].reshape(levels.shape), levels, 1)
    return found, differences


def main() -> int:
    """Measure every case."""
    parser = options("Single operations against ncnn's Vulkan path and LiteRT's GPU on the same device.")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only operations whose names match")
    arguments = parser.parse_args()
    device = device_of(arguments)
    effort = effort_of(arguments, Effort(seconds=8.0, least=7))
    cases = [case for case in CASES if re.search(arguments.filter, case.name)]
    gpu = ncnn_gpu(device) if engines.NCNN else None
    results: dict[str, tuple[Case, dict[str, Times], dict[str, float]]] = {}
    with progress("Measuring", len(cases)) as advance:
        for case in cases:
            found, differences = contenders(case, device, gpu)
            times = interleave({name: engine.run for name, engine in found.items()}, effort)
            results[case.name] = case, times, differences
            advance(case.name)
    return report(section(results, software=driver_of(device).profile.is_cpu), device, arguments)


def section(results: Mapping[str, tuple[Case, dict[str, Times], dict[str, float]]], *, software: bool) -> Section:
    """The tables. Limits hold for software devices, where they were set."""
    rows, minima, failures, figures = [], [], [], {}
    for name, (case, times, differences) in results.items():
        rivals = {key: value for key, value in times.items() if key.startswith("ncnn")}
        layer = min(rivals, key=lambda key: rivals[key].median, default=None)
        ncnn, ours, litert = times.get(layer or ""), times["nnvk"], times.get("LiteRT")
        litert_gpu = times.get("LiteRT GPU")
        to_ncnn = ratio(ours.median, ncnn.median) if ncnn else "-"
        limit = "-"
        if software and ncnn:
            kept = ours.median <= case.limit * ncnn.median
            limit = f"<= {case.limit:.2f}: {'yes' if kept else 'NO'}"
            if not kept:
                failures.append(f"{name} takes {to_ncnn} of ncnn's time, the limit is {case.limit:.2f}")
        rows.append(
            [
                name,
                cell(ours),
                cell(ncnn),
                to_ncnn,
                limit,
                cell(times["nnvk int8"]),
                *(x for one in (litert_gpu, litert) for x in (cell(one), ratio(ours.median, one.median if one else 0))),
            ]
        )
        minima.append(
            [
                name,
                *(milliseconds(t.minimum if t else None) for t in (ours, ncnn)),
                ratio(ours.minimum, ncnn.minimum) if ncnn else "-",
                milliseconds(times["nnvk int8"].minimum),
                *(milliseconds(one.minimum if one else None) for one in (litert_gpu, litert)),
                f"{differences['nnvk']:.0e}",
                *(f"{differences[one]:.0e}" if one in differences else "-" for one in (layer, "LiteRT GPU")),
                f"{differences['nnvk int8']:.0f}",
            ]
        )
        figures[name] = {
            engine: {**value.figures(), "difference": differences[engine]} for engine, value in times.items()
        }
    return Section(
        "layers",
        "Single operations",
        [
            Table(
                "Medians in ms",
                [
                    *("operation", "nnvk", "ncnn", "nnvk / ncnn", "limit", "nnvk int8"),
                    *("LiteRT GPU", "nnvk / LiteRT GPU", "LiteRT CPU", "nnvk / LiteRT CPU"),
                ],
                rows,
                note="float32 but for nnvk int8, from host input to host output, taking turns in one run. ncnn: its "
                "Vulkan path on the same device, the fastest of its layers for the operation. LiteRT GPU: its "
                "WebGPU accelerator over Vulkan, where it takes the device that is there; LiteRT CPU: two threads.",
            ),
            Table(
                "Minima in ms, and differences from NumPy",
                [
                    "operation",
                    "nnvk",
                    "ncnn",
                    "nnvk / ncnn",
                    "nnvk int8",
                    *("LiteRT GPU", "LiteRT CPU"),
                    *("nnvk off", "ncnn off", "LiteRT GPU off", "int8 off"),
                ],
                minima,
                note="Off: the largest difference by the largest result; for int8 in quantisation steps.",
            ),
        ],
        figures,
        failures,
    )


if __name__ == "__main__":
    sys.exit(main())
