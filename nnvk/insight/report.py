"""Reports on a model: the time on each device, the placement, the memory, and the exactness."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnvk.api import Device
from nnvk.importers.mixed import Described
from nnvk.importers.ports import ImportedModel, Port
from nnvk.inputs.randoms import random_inputs
from nnvk.insight.comparison import Comparison, compare, joined_comparisons
from nnvk.insight.limits import Limits
from nnvk.insight.measuring import Measurement, joined_measurements, measure_compiled
from nnvk.insight.placement import device_of_operations, memory_of, prepare
from nnvk.insight.profiling import PROFILED_RUNS, Profile, joined, take_profile


@dataclass(frozen=True, slots=True)
class OnDevice:
    """A model on a device."""

    measurement: Measurement
    profile: Profile
    placement: Mapping[str, int]
    """How many operations each device runs; one that this device does not is run by another."""
    partitions: int
    """Parts that devices run in turn."""
    memory: Mapping[str, int]
    """Bytes on the devices, by what they are for; empty where drivers don't say."""
    comparison: Comparison | None
    """With the reference; None for the reference itself."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model on all devices."""

    title: str
    nbytes: int
    """The size of the file."""
    operations: tuple[str, ...]
    """In the order of execution."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Names and types."""
    devices: tuple[OnDevice, ...]


def examine(title: str, imported: ImportedModel, device: Device, reference: Device, limits: Limits) -> OnDevice:
    """Measure, profile and compare a model on a device, with random inputs. Raises what computing raises."""
    imported.require_whole("a report")
    started = time.perf_counter_ns()
    compilation, alone = prepare(imported.model, device)
    compile_ns = time.perf_counter_ns() - started
    measurement = measure_compiled(title, device, compilation, alone, compile_ns, limits)
    fewer = Limits(min(limits.runs, PROFILED_RUNS), limits.seconds)
    inputs = random_inputs(compilation.model)
    profile = take_profile(title, device, compilation, inputs, fewer, imported.sources)
    return OnDevice(
        measurement,
        profile,
        dict(Counter(device_of_operations(compilation))),
        len(compilation.plan.partitions),
        memory_of(compilation),
        None if device is reference else compare(imported, device, reference),
    )


def joined_findings(several: Sequence[OnDevice]) -> OnDevice:
    """The findings on a model that consists of parts, from those on the parts."""
    if len(several) == 1:
        return several[0]
    comparisons = [one.comparison for one in several if one.comparison is not None]
    return OnDevice(
        joined_measurements([one.measurement for one in several]),
        joined([one.profile for one in several]),
        sum((Counter(one.placement) for one in several), Counter()),
        sum(one.partitions for one in several),
        sum((Counter(one.memory) for one in several), Counter()),
        joined_comparisons(comparisons) if comparisons else None,
    )


def model_report(
    title: str, nbytes: int, edges: Described, parts: Sequence[ImportedModel], devices: Sequence[OnDevice]
) -> ModelReport:
    """The findings on a model, with its description; ``parts`` are what nnvk computes of it."""
    return ModelReport(
        title,
        nbytes,
        tuple(operation.code.name for part in parts for operation in part.model.frozen.operations),
        tuple(f"{port.name}: {port.type.brief}{_open(port)}" for port in edges.inputs),
        tuple(f"{port.name}: {port.type.brief}" for port in edges.outputs),
        tuple(devices),
    )


def _open(port: Port) -> str:
    return f" (open: {port.open_sizes})" if port.is_open else ""
