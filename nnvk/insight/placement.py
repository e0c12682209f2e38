"""Compiling a model for a device, and where its operations went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnvk.api import Compilation, Device, DeviceTypeCode, Model, OperandType, Partition, get_devices
from nnvk.base.text import plural
from nnvk.hal import MemoryUse
from nnvk.importers.graph_builder import Source


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


def placement(compilations: Iterable[Compilation]) -> str:
    """Where the operations of models run that are computed one behind the other, in a few words."""
    return ", then ".join(f"{one.plan.summary}, in {plural(len(one.partitions), 'partition')}" for one in compilations)


def memory_of(compilation: Compilation) -> dict[str, int]:
    """Bytes that the partitions hold on their devices, by what they are for."""
    total: Counter[str] = Counter()
    for partition in compilation.partitions:
        total.update(partition.prepared.memory_bytes())
    return dict(total)


def held_alone(compilation: Compilation) -> tuple[int, dict[tuple[str, str], int]]:
    """The bytes that a compilation holds on its devices alone, and those that others may hold too, by names."""
    held, shared = 0, Counter[tuple[str, str]]()
    for partition in compilation.partitions:
        others_too = partition.prepared.shared_memory()
        held += sum(partition.prepared.memory_bytes().values()) - sum(others_too.values())
        shared |= Counter({(partition.device.name, name): nbytes for name, nbytes in others_too.items()})
    return held, shared


def held_bytes(compilations: Iterable[Compilation]) -> int:
    """The bytes that compilations hold on their devices; memory that they share counts once."""
    held, shared = 0, Counter[tuple[str, str]]()
    for compilation in compilations:
        alone, others_too = held_alone(compilation)
        held += alone
        shared |= Counter(others_too)  # the most that one of them needs
    return held + sum(shared.values())


@dataclass(frozen=True, slots=True)
class Placed:
    """An operation of a model, the device that runs it, and why that is not a preferred device."""

    operation: str
    outputs: tuple[OperandType, ...]
    layer: Source | None
    """The operator of the file that it comes from."""
    device: str
    """The name of the device; empty if none runs it."""
    reason: str
    """The reasons of the devices that are preferred to this one; empty for the first device."""
    strategy: str
    """How the device computes it, and by what that was chosen, where there are several candidates."""


def refusals(model: Model, devices: Sequence[Device]) -> list[str]:
    """For each operation, in the order of execution, why the devices before the first that supports it don't."""
    reasons = []
    for answers in zip(*(device.driver.get_supported_operations(model.frozen) for device in devices), strict=True):
        before = []
        for device, answer in zip(devices, answers, strict=True):
            if answer.supported:
                break
            before.append(f"{device.name}: {answer.reason}")
        reasons.append("; ".join(before))
    return reasons


def placed_operations(
    model: Model,
    devices: Sequence[str],
    reasons: Sequence[str],
    strategies: Sequence[str],
    layers: Sequence[Source | None] = (),
) -> list[Placed]:
    """The operations of a model with what is known of each, in the order of execution."""
    operands = model.frozen.operands
    sources = layers or [None] * len(model.frozen.operations)
    rows = zip(model.frozen.operations, sources, devices, reasons, strategies, strict=True)
    return [
        Placed(operation.code.name, tuple(operands[index].type for index in operation.outputs), layer, *found)
        for operation, layer, *found in rows
    ]


def where(model: Model, compilation: Compilation, layers: Sequence[Source | None] = ()) -> list[Placed]:
    """The operations of a compiled model and where they run."""
    devices = compilation.devices or get_devices()
    return placed_operations(
        model,
        device_of_operations(compilation),
        refusals(model, devices),
        strategies_of_operations(compilation),
        layers,
    )
