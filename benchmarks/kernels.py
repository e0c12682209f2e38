"""Measure the time of each shader of a model, with GPU timestamps around every command.

    python benchmarks/kernels.py MODEL.tflite ... [--device NAME] [--top N]

Every command is timed alone and waits for the previous one, so the sum is slightly longer than the model takes.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from engines import random_input
from harness import Section, Table, device_of, driver_of, options, report

import nnvk
from nnvk import OperationCode
from nnvk.base.text import milliseconds
from nnvk.driver.vulkan.running.constants import ConstantStore, Upload
from nnvk.driver.vulkan.running.recording import Recording
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch
from nnvk.importers import tflite
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

RUNS = 20
"""The runs of each model."""
_WEIGHTED = {
    OperationCode.CONV_2D: ("gemm",),
    OperationCode.DEPTHWISE_CONV_2D: ("depthwise_conv2d",),
    OperationCode.FULLY_CONNECTED: ("fully_connected", "gemm"),
    OperationCode.GROUPED_CONV_2D: ("gemm", "depthwise_conv2d"),
}
"""Operations with weights, and the shaders that multiply by them."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One command of a model."""

    shader: str
    operation: str
    """Code and output shape of the operation it belongs to."""
    groups: tuple[int, int, int] | None
    nanoseconds: float
    products: int
    """Multiplications of inputs with weights; 0 where the operation has none."""

    @property
    def rate(self) -> str:
        """Products a nanosecond."""
        return f"{self.products / self.nanoseconds:.1f}" if self.products else "-"


def profile(model: Model, device: nnvk.Device, runs: int) -> list[Timed]:
    """Median time of each command of a model that the device runs whole."""
    driver = driver_of(device)
    types = model.input_types()
    plan = driver.planner.plan(model, [type_.dimensions for type_ in types], PrepareOptions())
    native = driver.gpu.native()
    recording = Recording(native, plan, Upload(native, plan, ConstantStore()).wait(), timestamps="each")
    inputs = [random_input(t) for t, address in zip(types, plan.inputs, strict=True) if address is not None]
    outputs = [None for address in plan.outputs if address is not None]
    durations = []
    for number in range(runs + 1):
        recording.program.run(inputs, outputs)
        if number:  # the first run touches memory
            durations.append(np.diff(recording.program.timestamps_ns()))
    medians = np.median(durations, axis=0)
    return [_timed(model, command, time) for command, time in zip(plan.commands, medians, strict=True)]


def _timed(model: Model, command: Command, nanoseconds: float) -> Timed:
    if not isinstance(command, Dispatch):
        return Timed("copy", "", None, nanoseconds, 0)
    operation = model.operations[command.operation]
    target = model.operands[operation.outputs[0]].type.dimensions
    products = 0
    if target and operation.code in _WEIGHTED and command.shader.name.startswith(_WEIGHTED[operation.code]):
        weights = model.operands[operation.inputs[1]].type.dimensions
        products = math.prod(target) * math.prod(weights) // target[-1]
    name = f"{operation.code.name} -> {'x'.join(map(str, target))}"
    return Timed(command.shader.name, name, command.groups, nanoseconds, products)


def parts(path: Path, device: nnvk.Device) -> list[Model]:
    """The parts of a model that the device runs: all of it, or the partitions that it supports."""
    model = tflite.load(path).model
    if all(support.supported for support in model.get_support(device)):
        return [model.frozen]
    cpus = [d for d in nnvk.get_devices() if d.type is nnvk.DeviceTypeCode.CPU]
    compilation = nnvk.Compilation(model, [device, *cpus])
    compilation.finish()
    return [each.part.model for each in compilation.partitions if each.device is device]


def tables(title: str, commands: Sequence[Timed], top: int) -> list[Table]:
    """Time by shader, and the slowest commands."""
    total = sum(command.nanoseconds for command in commands)
    by_shader: dict[str, list[float]] = defaultdict(list)
    for command in commands:
        by_shader[command.shader].append(command.nanoseconds)
    shaders = sorted(by_shader.items(), key=lambda item: -sum(item[1]))
    slowest = sorted(commands, key=lambda command: -command.nanoseconds)[:top]
    return [
        Table(
            f"{title}: by shader",
            ["shader", "dispatches", "ms", "share"],
            [[name, str(len(t)), milliseconds(sum(t)), f"{sum(t) / total:.0%}"] for name, t in shaders],
            note=f"All commands: {milliseconds(total)} ms.",
        ),
        Table(
            f"{title}: slowest commands",
            ["shader", "operation", "workgroups", "ms", "share", "products/ns"],
            [
                [
                    c.shader,
                    c.operation,
                    "x".join(map(str, c.groups or ())),
                    milliseconds(c.nanoseconds),
                    f"{c.nanoseconds / total:.0%}",
                    c.rate,
                ]
                for c in slowest
            ],
            left=3,
        ),
    ]


def main() -> int:
    """Profile the models of the command line."""
    parser = options("Which shaders a model spends its time in.")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="how many commands to list (10)")
    arguments = parser.parse_args()
    device = device_of(arguments)
    found: list[Table] = []
    figures = {}
    for path in arguments.models:
        name = path.parent.name if path.name == "model.tflite" else path.stem
        runs = 1 if arguments.quick else arguments.runs or RUNS
        commands = [timed for part in parts(path, device) for timed in profile(part, device, runs)]
        found += tables(name, commands, arguments.top)
        figures[name] = [
            {"shader": c.shader, "operation": c.operation, "workgroups": c.groups, "ms": round(c.nanoseconds / 1e6, 5)}
            for c in commands
        ]
    return report(Section("kernels", "Time by shader", found, figures), device, arguments)


if __name__ == "__main__":
    sys.exit(main())
