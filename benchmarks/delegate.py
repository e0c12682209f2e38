"""Latency of whole models in LiteRT: through nnvk's delegate, on LiteRT's CPU and GPU, and in nnvk without LiteRT.

    python benchmarks/delegate.py FOLDER_OR_MODEL ... [--device NAME] [--seconds S] [--save]

Models and their inputs are found as `models.py` finds them. All engines take turns in one process; the delegate's
server is another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engines
from engines import LiteRtGpuModel, LiteRtModel, NnvkModel, random_input
from harness import (
    Effort,
    Section,
    Table,
    Times,
    cell,
    device_of,
    effort_of,
    give_up,
    interleave,
    options,
    ratio,
    report,
)
from models import arrays, largest_difference, parse_with_models

import nnvk
from nnvk.cli.output import progress
from nnvk.importers import tflite

IN_PROCESS, DELEGATE, CPU, GPU = "nnvk", "delegate", "LiteRT CPU", "LiteRT GPU"


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on all engines."""

    times: Mapping[str, Times]
    differences: Mapping[str, str]
    is_whole: bool | None
    """Whether LiteRT's GPU has all of it; None where it takes no GPU that is there."""


def measure(path: Path, device: nnvk.Device, effort: Effort) -> Measured:
    """One model on every engine."""
    imported = tflite.load(path)
    inputs = arrays(path.with_name("input.npz")) or [random_input(port.type) for port in imported.inputs]
    encoded = [port.encode(array) for port, array in zip(imported.inputs, inputs, strict=True)]
    cpu = LiteRtModel(path, os.cpu_count() or 1, inputs)
    contenders: dict[str, Any] = {
        IN_PROCESS: NnvkModel(imported.model, device, encoded),
        DELEGATE: LiteRtModel(path, 1, inputs, device),
        CPU: cpu,
    }
    with suppress(RuntimeError):  # it takes no GPU that is there
        contenders[GPU] = LiteRtGpuModel(path, inputs)
    times = interleave({name: engine.run for name, engine in contenders.items()}, effort)
    expected = arrays(path.with_name("expected.npz")) or cpu.outputs
    differences = {name: largest_difference(engine.outputs, expected) for name, engine in contenders.items()}
    return Measured(times, differences, contenders[GPU].alone if GPU in contenders else None)


def tables(results: Mapping[str, Measured], device: nnvk.Device) -> list[Table]:
    """Medians with ratios; how far outputs are off."""
    names = [IN_PROCESS, DELEGATE, CPU, GPU]
    rows = []
    for model, one in results.items():
        medians = {name: times.median for name, times in one.times.items()}
        rows.append(
            [
                model,
                *(cell(one.times.get(name)) for name in names),
                *(ratio(medians[DELEGATE], medians.get(rival, 0)) for rival in (IN_PROCESS, CPU, GPU)),
                {True: "all", False: "a part", None: "-"}[one.is_whole],
            ]
        )
    latency = Table(
        "Medians in ms",
        ["model", *names, *(f"delegate / {rival}" for rival in (IN_PROCESS, CPU, GPU)), "on LiteRT's GPU"],
        rows,
        note=f"nnvk: in process. Delegate: LiteRT's interpreter with nnvk's delegate. Both on {device.name}. LiteRT "
        "CPU: its default kernels on all cores. LiteRT GPU: its WebGPU accelerator over Vulkan in float32, where it "
        "takes the device that is there.",
    )
    off = Table(
        "Differences from the expected outputs",
        ["model", *names],
        [[model, *(one.differences.get(name, "-") for name in names)] for model, one in results.items()],
    )
    return [latency, off]


def figures(results: Mapping[str, Measured]) -> dict[str, Any]:
    """The numbers."""
    return {
        model: {name: {**times.figures(), "difference": one.differences[name]} for name, times in one.times.items()}
        for model, one in results.items()
    }


def main() -> int:
    """Measure the models of the command line."""
    parser = options("Latency of whole models in LiteRT through nnvk's delegate, beside LiteRT's own CPU and GPU.")
    arguments, models = parse_with_models(parser)
    if not engines.LITERT:
        give_up("needs ai-edge-litert")
    device = device_of(arguments, vulkan=False)
    effort = effort_of(arguments, Effort(seconds=3.0, least=5))
    results = {}
    with progress("Measuring", len(models)) as advance:
        for name, path in models:
            results[name] = measure(path, device, effort)
            advance(name)
    return report(Section("delegate", "The delegate", tables(results, device), figures(results)), device, arguments)


if __name__ == "__main__":
    sys.exit(main())
