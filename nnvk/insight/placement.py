"""Compiling a model for a device, and where its operations went."""

from __future__ import annotations

from nnvk.api import Compilation, Device, DeviceTypeCode, Model, Partition, get_devices
from nnvk.base.text import plural
from nnvk.hal import MemoryUse


def with_fallback(device: Device) -> list[Device]:
    """A device, and behind it the CPU devices for what it does not run."""
    cpus = [other for other in get_devices() if other.type is DeviceTypeCode.CPU and other is not device]
    return [device, *cpus]


def compile_model(model: Model, devices: list[Device] | None) -> Compilation:
    """Compile for these devices, in the order of preference."""
    compilation = Compilation(model, devices)
    compilation.finish()
    return compilation


def runs_whole(model: Model, device: Device) -> bool:
    """Whether a device runs all operations of a model."""
    return all(support.supported for support in model.get_support(device))


def prepare(model: Model, device: Device) -> tuple[Compilation, bool]:
    """A model compiled for a device, with fallback where it needs one; whether it needs none."""
    alone = runs_whole(model, device)
    return compile_model(model, [device] if alone else with_fallback(device)), alone


def device_of_operations(compilation: Compilation) -> list[str]:
    """The name of the device that runs each operation of the model."""
    names = {
        number: partition.device.name
        if isinstance(partition, Partition)
        else "runtime"  # control flow whose models are shared out
        for partition in compilation.plan.partitions
        for number in partition.operations
    }
    return [names[number] for number in range(len(compilation.model.operations))]


def strategies_of_operations(compilation: Compilation) -> list[str]:
    """How devices run each operation of the model, as far as they say."""
    described = [""] * len(compilation.model.operations)
    for partition in compilation.plan.partitions:
        if isinstance(partition, Partition):
            said = partition.device.driver.describe_operations(partition.part.model)
            for number, description in zip(partition.operations, said, strict=True):
                described[number] = description
    return described


def memory_of_partitions(compilation: Compilation) -> list[tuple[str, MemoryUse]]:
    """The devices of the partitions that say what an execution needs for activations, and that."""
    uses = [
        (partition.device.name, partition.device.driver.describe_memory(partition.part.model))
        for partition in compilation.plan.partitions
        if isinstance(partition, Partition)
    ]
    return [(device, use) for device, use in uses if use is not None]


def placement(compilation: Compilation) -> str:
    """Where the operations run, in a few words."""
    return f"{compilation.plan.summary}, in {plural(len(compilation.partitions), 'partition')}"
