"""Where a model's time goes on a device: by operation, by layer, by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.api import Compilation, Device, DeviceTypeCode, Partition, get_devices
from nnvk.api import run as run_compilation
from nnvk.base import tracing
from nnvk.base.tracing import Span
from nnvk.importers.graph_builder import Source
from nnvk.insight.limits import Limits

PARTS = ("gpu", "cpuexe")
"""Categories of spans that are the work on an operation."""
PROFILED_RUNS = 20


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time: a shader of an operation, or an operation of the CPU device."""

    number: int | None
    """The position of the operation in the model, in the order of execution; what an IF or WHILE runs is its own."""
    operation: str
    dimensions: tuple[int, ...]
    """The dimensions of the operation's first output."""
    layer: Source | None
    """The operator of the file that it comes from."""
    shader: str
    """Empty on the CPU."""
    device: str
    partition: int
    """Position of the partition that it is part of."""
    mean_ns: int
    share: float
    """The share of the time of all parts, 0 to 1."""


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """A partition: operations that one device runs together, or an IF or WHILE that the runtime decides on."""

    device: str
    operations: tuple[int, ...]
    mean_ns: int
    """The mean time by the host's clock, including copies and waits for the device."""
    share: float
    """The share of the time of all partitions, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a model goes on a device."""

    model: str
    device: str
    runs: int
    mean_ns: int
    """Work on operations in one execution."""
    parts: tuple[Part, ...]
    """Those that take longest first."""
    partitions: tuple[PartitionTime, ...]
    """In the order of execution."""

    def by_layer(self) -> list[tuple[Source | None, int, float]]:
        """Layers with the time in nanoseconds and the share of each, those that take longest first."""
        times: Counter[Source | None] = Counter()
        for part in self.parts:
            times[part.layer] += part.mean_ns
        total = sum(times.values()) or 1
        return [(layer, time, time / total) for layer, time in times.most_common()]


def take_profile(
    title: str,
    device: Device,
    compilation: Compilation,
    inputs: Sequence[np.ndarray],
    limits: Limits,
    sources: Sequence[Source | None] = (),
) -> Profile:
    """Execute with every dispatch timed; ``sources`` are the layers that operations come from."""
    run_compilation(compilation, inputs)
    with tracing.record() as trace:
        runs = len(limits.repeat(lambda: run_compilation(compilation, inputs)))
    spent: Counter[tuple[int | None, str, tuple[int, ...], Source | None, str, str, int]] = Counter()
    times: Counter[int] = Counter()
    names = _Names(compilation, sources)
    for place, span, works in _by_partition(trace.spans, names):
        times[place] += span.duration_ns
        for work, number, time in works:
            spent[names.key(place, work, number)] += time
    total, in_partitions = sum(spent.values()) or 1, sum(times.values()) or 1
    parts = tuple(
        Part(*key, time // runs, time / total) for key, time in sorted(spent.items(), key=lambda item: -item[1])
    )
    partitions = tuple(
        PartitionTime(names.device(place), partition.operations, times[place] // runs, times[place] / in_partitions)
        for place, partition in enumerate(compilation.plan.partitions)
    )
    return Profile(title, device.name, runs, total // runs, parts, partitions)


def joined(profiles: Iterable[Profile]) -> Profile:
    """The profile of a model that consists of parts, from those of the parts."""
    several = list(profiles)
    if len(several) == 1:
        return several[0]
    in_parts = sum(one.mean_ns for profile in several for one in profile.parts) or 1  # each is rounded
    in_partitions = sum(one.mean_ns for profile in several for one in profile.partitions) or 1
    parts: list[Part] = []
    partitions: list[PartitionTime] = []
    for profile in several:
        before = len(partitions)
        parts += (replace(one, partition=one.partition + before, share=one.mean_ns / in_parts) for one in profile.parts)
        partitions += (replace(one, share=one.mean_ns / in_partitions) for one in profile.partitions)
    first = several[0]
    return Profile(
        first.model,
        first.device,
        min(one.runs for one in several),
        sum(one.mean_ns for one in several),
        tuple(sorted(parts, key=lambda one: -one.mean_ns)),
        tuple(partitions),
    )


class _Names:
    """The names that a plan has for the numbers of spans."""

    def __init__(self, compilation: Compilation, sources: Sequence[Source | None]) -> None:
        self._partitions = compilation.plan.partitions
        self._sources = sources
        self._places = {partition.operations[0]: place for place, partition in enumerate(self._partitions)}
        cpus = (device.name for device in get_devices() if device.type is DeviceTypeCode.CPU)
        self._cpu = next(cpus, "cpu")

    def place(self, first: int) -> int:
        """The position of the partition whose first operation is at ``first``."""
        return self._places[first]

    def device(self, place: int) -> str:
        """Who runs a partition."""
        partition = self._partitions[place]
        return partition.device.name if isinstance(partition, Partition) else "runtime"

    def key(
        self, place: int, work: Span, number: int | None
    ) -> tuple[int | None, str, tuple[int, ...], Source | None, str, str, int]:
        """The key that the time of a span is counted under: `Part`'s fields but for times."""
        partition = self._partitions[place]
        if number is not None:
            number = partition.operations[number] if isinstance(partition, Partition) else partition.operations[0]
        layer = self._sources[number] if number is not None and number < len(self._sources) else None
        operation = work.details.get("code", work.name)
        shape = tuple(work.details.get("dimensions", ()))
        if work.category == "gpu":
            return number, operation, shape, layer, work.name, work.lane, place
        is_cpu = isinstance(partition, Partition) and partition.device.type is DeviceTypeCode.CPU
        return number, operation, shape, layer, "", self.device(place) if is_cpu else self._cpu, place


_Work = tuple[Span, int | None, int]
"""A span, the operation of the partition that it is for, and nanoseconds without those of spans inside it."""


def _by_partition(spans: Sequence[Span], names: _Names) -> Iterator[tuple[int, Span, list[_Work]]]:
    """For each execution of a partition its position, its span and the work in it.

    Spans come in the order of their ends, and a partition's work before it. A partition within control flow of the
    runtime is a part of that.
    """
    controls = [span for span in spans if span.category == "control"]
    pending: list[Span] = []
    inside: list[_Work] = []
    for span in spans:
        if span.category in PARTS:
            pending.append(span)
        elif span.category == "partition":
            works, pending = list(_own_times(pending)), []
            if any(_contains(control, span) for control in controls):
                inside += works
            else:
                yield names.place(span.details["first"]), span, works
        elif span.category == "control" and not any(other is not span and _contains(other, span) for other in controls):
            works, inside = inside, []
            yield names.place(span.details["operation"]), span, works


def _own_times(spans: Sequence[Span]) -> Iterator[_Work]:
    """Each span of a partition with the time that none inside it has; those inside an IF or WHILE belong to that."""
    around: list[tuple[Span, int | None]] = []
    own = {id(span): span.duration_ns for span in spans}
    found: list[tuple[Span, int | None]] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.duration_ns)):
        number = span.details.get("operation")
        if span.category == "cpuexe":
            while around and not _contains(around[-1][0], span):
                around.pop()
            if around:
                own[id(around[-1][0])] -= span.duration_ns
                number = around[0][1]
            around.append((span, number))
        found.append((span, number))
    return ((span, number, max(0, own[id(span)])) for span, number in found)


def _contains(outer: Span, inner: Span) -> bool:
    end = outer.start_ns + outer.duration_ns
    return outer.lane == inner.lane and outer.start_ns <= inner.start_ns and inner.start_ns + inner.duration_ns <= end
