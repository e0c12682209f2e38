"""Opening a model and compiling it for the devices that the command line names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from nnvk.api import Compilation, Device, DeviceTypeCode, Model, Step, get_device, get_devices
from nnvk.cli.output import plural
from nnvk.importers import tflite


def load_model(path: Path) -> tflite.ImportedModel:
    """Read a model. Raises FileNotFoundError, or the importer's error that names what can't be mapped."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a model")
    return tflite.load(path)


def choose_devices(name: str | None, fallback: bool) -> list[Device] | None:
    """The devices to compile for; None leaves the choice to nnvk.

    The named device (by default the preferred one) and, with ``fallback``, the CPU devices behind it.
    """
    if name is None:
        return None if fallback else get_devices()[:1]
    device = get_device(name)
    cpus = [other for other in get_devices() if other.type is DeviceTypeCode.CPU and other.name != name]
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


def placement(compilation: Compilation) -> str:
    """Where the operations run, in a few words."""
    counts = Counter(device_of_operations(compilation))
    places = ", ".join(f"{plural(count, 'operation')} on {name}" for name, count in counts.most_common())
    return f"{places or 'no operations'}, in {plural(len(compilation.steps), 'step')}"
