"""Latency of whole models on every device of nnvk beside LiteRT on the CPU and GPU and ncnn, in one run, taking turns.

    python benchmarks/models.py FOLDER_OR_MODEL ... [--seconds S] [--save]

A folder is searched for ``.tflite`` files. Where ``input.npz`` and ``expected.npz`` (arrays "0", "1", ...) lie beside
a model, they are its input, and what its outputs are compared with, else LiteRT's outputs on the CPU are. Where a
``.param`` and a ``.bin`` of the model's name lie beside it, they are the same model for ncnn.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import engines
import numpy as np
from engines import LiteRtGpuModel, LiteRtModel, NcnnModel, NnvkModel, ncnn_gpu, random_input
from harness import (
    Effort,
    Section,
    Table,
    Times,
    device_of,
    effort_of,
    give_up,
    interleave,
    options,
    ratio,
    report,
)

import nnvk
from nnvk.base.text import milliseconds
from nnvk.cli.output import progress
from nnvk.importers import tflite

THREADS = (1, 2)
"""The numbers of threads of LiteRT on the CPU."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Nanoseconds until a model can be executed."""

    load: float | None
    """nnvk: reading and mapping the file; LiteRT does all in one."""
    finish: tuple[float, float]
    """The first time, with none of the model's shaders in the driver's cache, and again in the same process."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on all engines."""

    times: Mapping[str, Times]
    preparation: Mapping[str, Preparation]
    hardware_ns: Mapping[str, float | None]
    placed: Mapping[str, str]
    """Operations that run on the device itself, of all."""
    differences: Mapping[str, str]

    def finish_ns(self, name: str) -> tuple[float | None, float | None]:
        """How long an engine takes to be ready, the first time and again; None where it has not the model."""
        return self.preparation[name].finish if name in self.preparation else (None, None)


def parse_with_models(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, Sequence[tuple[str, Path]]]:
    """The command line, and name and file of every model that it names."""
    parser.add_argument("models", nargs="+", type=Path, metavar="FOLDER_OR_MODEL")
    arguments = parser.parse_args()
    models = list(_find_models(arguments.models))
    if not models:
        give_up("there is no .tflite file")
    return arguments, models


def _find_models(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for path in paths:
        if not path.exists():
            give_up(f"{path}: no such file or folder")
        for file in [path] if path.is_file() else sorted(path.rglob("*.tflite")):
            yield file.parent.name if file.name == "model.tflite" else file.stem, file


def arrays(path: Path) -> list[np.ndarray] | None:
    """The arrays "0", "1", ... of an .npz file, if it is there."""
    if not path.exists():
        return None
    with np.load(path) as content:
        return [content[str(index)] for index in range(len(content.files))]


def measure(path: Path, devices: Sequence[nnvk.Device], effort: Effort) -> Measured:
    """One model on every engine."""
    load_ns = _elapsed(lambda: tflite.load(path))
    imported = tflite.load(path)
    inputs = arrays(path.with_name("input.npz")) or [random_input(port.type) for port in imported.inputs]
    encoded = [port.encode(array) for port, array in zip(imported.inputs, inputs, strict=True)]
    engines_: dict[str, Any] = {}
    preparation: dict[str, Preparation] = {}
    hardware: dict[str, float | None] = {}
    placed: dict[str, str] = {}
    for device in devices:
        model = NnvkModel(imported.model, device, encoded)
        again = NnvkModel(imported.model, device, encoded).prepare_ns
        engines_[device.name] = model
        preparation[device.name] = Preparation(load_ns, (model.prepare_ns, again))
        hardware[device.name] = model.hardware_ns(3 * effort.least)
        placed[device.name] = f"{model.operations_on_device} of {model.operations}"
    for name, make in rivals(path, devices, inputs).items():
        with suppress(RuntimeError):  # it takes no GPU that is there
            engines_[name] = make()
            preparation[name] = Preparation(None, (engines_[name].prepare_ns, make().prepare_ns))
    times = interleave({name: engine.run for name, engine in engines_.items()}, effort)
    expected = arrays(path.with_name("expected.npz"))
    if expected is None and engines.LITERT:
        expected = engines_["LiteRT x1"].outputs
    differences = {
        name: largest_difference(engine.outputs, expected) if expected else "-" for name, engine in engines_.items()
    }
    return Measured(times, preparation, hardware, placed, differences)


def rivals(path: Path, devices: Sequence[nnvk.Device], inputs: Sequence[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Functions that make the other engines' models, by name."""
    found: dict[str, Callable[[], Any]] = {}
    if engines.LITERT:
        found |= {f"LiteRT x{threads}": partial(LiteRtModel, path, threads, inputs) for threads in THREADS}
        found["LiteRT GPU"] = partial(LiteRtGpuModel, path, inputs)
    vulkan = next((device for device in devices if device.type is nnvk.DeviceTypeCode.GPU), None)
    if engines.NCNN and vulkan is not None and path.with_suffix(".param").exists():
        gpu = ncnn_gpu(vulkan)
        if gpu is not None:
            found["ncnn"] = partial(NcnnModel, path, inputs, gpu, os.cpu_count() or 1)
    return found


def _elapsed(action: Any) -> int:
    began = time.perf_counter_ns()
    action()
    return time.perf_counter_ns() - began


def largest_difference(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """The largest difference between outputs and the expected ones: in quantisation steps if they are quantised."""
    largest = 0.0
    for got, wanted in zip(outputs, expected, strict=True):
        largest = max(largest, float(np.abs(got.reshape(wanted.shape).astype(np.float64) - wanted).max(initial=0)))
    if expected[0].dtype.kind == "f":
        return f"{largest:.0e}"
    return f"{largest:.0f} step{'' if largest == 1 else 's'}"


def tables(results: Mapping[str, Measured], devices: Sequence[str]) -> list[Table]:
    """Medians with ratios, minima, preparation."""
    names = list(dict.fromkeys(name for one in results.values() for name in one.times))
    pairs = [(device, rival) for device in devices for rival in names if rival not in devices]
    gpus = [device for device in devices if device.startswith("vulkan")]

    def latency(title: str, attribute: str, note: str = "") -> Table:
        rows = []
        for model, one in results.items():
            values = {name: getattr(times, attribute) for name, times in one.times.items()}
            rows.append(
                [
                    model,
                    *(milliseconds(values.get(name)) for name in names),
                    *(ratio(values[device], values.get(rival, 0)) for device, rival in pairs),
                ]
            )
        return Table(title, ["model", *names, *(f"{device} / {rival}" for device, rival in pairs)], rows, note=note)

    rows = [
        [
            model,
            *(one.placed[device] for device in gpus),
            *(milliseconds(one.hardware_ns[device]) for device in gpus),
            *(one.differences.get(name, "-") for name in names),
        ]
        for model, one in results.items()
    ]
    placement = Table(
        "Placement, time on the hardware in ms, and differences from the expected outputs",
        [
            "model",
            *(f"on {device}" for device in gpus),
            *(f"{device} hardware" for device in gpus),
            *(f"{name} off" for name in names),
        ],
        rows,
        note="Placement: how many of the operations run on the device; the others run on the CPU reference device. "
        "LiteRT's default kernels are not the reference kernels that expected outputs are from; without such, its "
        "outputs on the CPU stand for them.",
    )
    preparations = Table(
        "Preparation in ms",
        ["model", "import", *(f"{name} {when}" for name in names for when in ("first", "again"))],
        [
            [
                model,
                milliseconds(next((p.load for p in one.preparation.values()), None)),
                *(milliseconds(value) for name in names for value in one.finish_ns(name)),
            ]
            for model, one in results.items()
        ],
        note="Import: reading and mapping the file for nnvk, on top of which comes Compilation.finish(): first with no "
        "compiled shader in the driver's cache but those of the models above, then again in the same process. LiteRT: "
        "interpreter and allocate_tensors().",
    )
    note = (
        "From host inputs to host outputs. LiteRT: its default kernels on the CPU, with one and with two threads. "
        "LiteRT GPU: its WebGPU accelerator over Vulkan in float32, where it takes the device that is there; ncnn: its "
        "Vulkan path in float32, where it has the model."
    )
    return [latency("Medians in ms", "median", note), latency("Minima in ms", "minimum"), placement, preparations]


def figures(results: Mapping[str, Measured]) -> dict[str, Any]:
    """The numbers."""
    return {
        model: {
            name: {
                **times.figures(),
                "difference": one.differences[name],
                "prepare_ms": [round(value / 1e6, 3) for value in one.preparation[name].finish],
            }
            for name, times in one.times.items()
        }
        for model, one in results.items()
    }


def main() -> int:
    """Measure the models of the command line."""
    parser = options("Latency of whole models on every device of nnvk beside LiteRT and ncnn.")
    arguments, models = parse_with_models(parser)
    with tempfile.TemporaryDirectory() as cache:
        # Read by the driver when it is first used: preparation is to be measured without what earlier runs left.
        os.environ["MESA_SHADER_CACHE_DIR"] = cache
        device = device_of(arguments, vulkan=False)
        devices = [device] if arguments.device else nnvk.get_devices()
        effort = effort_of(arguments, Effort(seconds=3.0, least=5))
        results = {}
        with progress("Measuring", len(models)) as advance:
            for name, path in models:
                results[name] = measure(path, devices, effort)
                advance(name)
    found = Section("models", "Models", tables(results, [d.name for d in devices]), figures(results))
    return report(found, device, arguments)


if __name__ == "__main__":
    sys.exit(main())
