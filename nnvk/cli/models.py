"""Opening a model and compiling it for the devices that the command line names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.api import Compilation, Device, DeviceTypeCode, Model, Step, get_device, get_devices
from nnvk.base.text import plural
from nnvk.importers import tflite

NoRoundHybrid = Annotated[
    bool,
    typer.Option(
        "--no-round-hybrid",
        help="Where weights have 8 bits and activations are float: don't round activations to 8 bits as TFLite does.",
    ),
]

InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SHAPE",
        help="Give an input another shape than the file's, such as image=4x224x224x3; a ? keeps a size.",
    ),
]


def load_model(path: Path, shapes: Sequence[str] | None = None, *, round_hybrid: bool = True) -> tflite.ImportedModel:
    """Read a model; ``shapes`` are those of ``--shape``, ``round_hybrid`` is that of `tflite.load`.

    Raises FileNotFoundError, or the importer's error that names what can't be mapped.
    """
    if path.is_dir():
        raise IsADirectoryError(f"a folder, not a .tflite file: {path}")
    return tflite.load(path, shapes=_parse_shapes(shapes or ()), round_hybrid=round_hybrid)


def _parse_shapes(words: Sequence[str]) -> dict[str, list[int | None]]:
    shapes: dict[str, list[int | None]] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        sizes = text.lower().split("x")
        if not equals or not all(size == "?" or (size.isascii() and size.isdigit()) for size in sizes):
            raise ValueError(f"--shape must be NAME=SHAPE, such as image=4x224x224x3, not {word!r}")
        if name in shapes:
            raise ValueError(f"--shape is given twice for {name!r}")
        shapes[name] = [None if size == "?" else int(size) for size in sizes]
    return shapes


def find_device(name: str) -> Device:
    """The device of a name, or else the first of a type (``cpu``, ``gpu``), in upper or lower case.

    Raises BAD_DATA that names the devices there are.
    """
    ways: Sequence[Callable[[Device], bool]] = (
        lambda device: device.name == name,
        lambda device: device.name.lower() == name.lower(),
        lambda device: device.type.name.lower() == name.lower(),
    )
    found = (device for is_meant in ways for device in get_devices() if is_meant(device))
    return next(found, None) or get_device(name)  # which says what there is


def choose_devices(name: str | None, fallback: bool) -> list[Device] | None:
    """The devices to compile for; None leaves the choice to nnvk.

    The named device (by default the preferred one) and, with ``fallback``, the CPU devices behind it.
    """
    if name is None:
        return None if fallback else get_devices()[:1]
    device = find_device(name)
    cpus = [other for other in get_devices() if other.type is DeviceTypeCode.CPU and other is not device]
    return [device, *(cpus if fallback else ())]


def compile_model(model: Model, devices: list[Device] | None) -> Compilation:
    """Compile for these devices, in the order of preference."""
    compilation = Compilation(model, devices)
    compilation.finish()
    return compilation


def device_of_operations(compilation: Compilation) -> list[str]:
    """The name of the device that runs each operation of the model."""
    names = {
        number: step.device.name if isinstance(step, Step) else "runtime"  # control flow whose models are shared out
        for step in compilation.plan.steps
        for number in step.operations
    }
    return [names[number] for number in range(len(compilation.model.operations))]


def strategies_of_operations(compilation: Compilation) -> list[str]:
    """How devices run each operation of the model, as far as they say."""
    described = [""] * len(compilation.model.operations)
    for step in compilation.plan.steps:
        if isinstance(step, Step):
            said = step.device.driver.describe_operations(step.part.model)
            for number, description in zip(step.operations, said, strict=True):
                described[number] = description
    return described


def placement(compilation: Compilation) -> str:
    """Where the operations run, in a few words."""
    return f"{compilation.plan.summary}, in {plural(len(compilation.steps), 'step')}"
