"""From a model and devices to an execution plan: partition, let the devices prepare, control flow included."""

from __future__ import annotations

import functools
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnvk.base import tracing
from nnvk.base.errors import NnapiError, ResultCode, driver_error
from nnvk.base.log import logger
from nnvk.base.text import plural
from nnvk.hal import IPreparedModel, Support
from nnvk.ops.flow import referenced_models
from nnvk.runtime.devices import Device, supported_operations
from nnvk.runtime.partitioner import RUNTIME, assign, partition_model
from nnvk.types.extract import Extract, extract
from nnvk.types.model import Model, Operation
from nnvk.types.request import PrepareOptions

_log = logger("compilation")
_SHOWN = 4
"""The most operations that the description of a partition names."""
_LARGE = 64 << 20
"""Bytes of a tensor on which an operation takes long, so that the log says so if not the preferred device runs it."""

Backup = Callable[[], IPreparedModel]
"""A function that prepares a partition on another device, once."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The ways to compute a partition again after its device has computed it wrong."""

    by_device: Backup
    """Prepares the part on the same device, by other strategies."""
    by_cpu: Backup
    """Prepares the part on the CPU, should the device compute it wrong again."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the model, prepared by one device."""

    device: Device
    operations: tuple[int, ...]
    """Positions in the order of execution of the model's operations."""
    part: Extract
    prepared: IPreparedModel
    fallback: Backup | None = None
    """Prepares the part on the CPU, should the device fail to execute it; None where that is not wanted."""
    repair: Repair | None = None
    """None where a wrong result is an error."""

    def __repr__(self) -> str:
        names = [str(operation) for operation in self.part.model.operations]
        shown = ", ".join([*names[:_SHOWN], "..."] if len(names) > _SHOWN else names)
        return f"<nnvk.Partition on {self.device.name}: {plural(len(names), 'operation')} ({shown})>"


@dataclass(frozen=True, slots=True)
class ControlFlowPartition:
    """An IF or WHILE whose models run on other devices than could run it whole: the runtime makes the decisions."""

    operations: tuple[int, ...]
    """The position of the one operation."""
    operation: Operation
    plans: tuple[ExecutionPlan, ExecutionPlan]
    """The branches of IF (then, else), or WHILE's condition and body."""

    def __repr__(self) -> str:
        return f"<{self.operation} (operation {self.operations[0]}): {self.plans[0]!r}, {self.plans[1]!r}>"


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """The execution plan of a model: its partitions, in order."""

    model: Model
    partitions: tuple[Partition | ControlFlowPartition, ...]

    @property
    def single(self) -> Partition | None:
        """The partition that is the whole model, if it is one."""
        first = self.partitions[0] if len(self.partitions) == 1 else None
        return first if isinstance(first, Partition) else None

    def __repr__(self) -> str:
        return f"<plan of {plural(len(self.partitions), 'partition')}: {self.summary}>"

    @property
    def summary(self) -> str:
        """How many operations run where: ``10 operations on vulkan-0, 1 on nnapi-reference``."""
        counts = Counter[str]()
        for partition in self.partitions:
            counts[partition.device.name if isinstance(partition, Partition) else "the runtime"] += len(
                partition.operations
            )
        (first, most), *others = counts.most_common() or [("no device", 0)]
        return ", ".join([f"{plural(most, 'operation')} on {first}", *(f"{count} on {name}" for name, count in others)])

    def leaves(self) -> list[Partition]:
        """All prepared partitions, those of control flow's models too: of a model that is referred to twice, once."""
        found: list[Partition] = []
        seen: set[int] = set()

        def gather(plan: ExecutionPlan) -> None:
            if id(plan) in seen:
                return
            seen.add(id(plan))
            for partition in plan.partitions:
                if isinstance(partition, Partition):
                    found.append(partition)
                else:
                    for model in partition.plans:
                        gather(model)

        gather(self)
        return found


@dataclass(frozen=True, slots=True)
class Cache:
    """The place of prepared models: the application's folder, and its token for the model."""

    folder: Path
    token: bytes

    def entry(self, device: Device, part: Sequence[int], nested: str) -> Path:
        """The file for one partition: another device, driver version or partition is another file."""
        key = hashlib.sha256(self.token)
        for text in (device.name, device.version, nested, *map(str, part)):
            key.update(text.encode() + b"\0")
        return self.folder / f"{key.hexdigest()}.nnvk"


@dataclass(frozen=True, slots=True)
class ExecutionPlanner:
    """Plans a model, and each that its control flow refers to once, for a list of devices, the preferred first."""

    devices: Sequence[Device]
    options: PrepareOptions
    fallback: Device | None = None
    """The device that takes over where one fails to prepare or to execute; None where errors are the caller's."""
    cache: Cache | None = None
    repairing: Device | None = None
    """The device that takes over where one computes wrong results by all strategies; None where that is an error."""
    _plans: dict[Model, ExecutionPlan] = field(default_factory=dict, init=False)
    _support: dict[Model, list[list[Support]]] = field(default_factory=dict, init=False)

    def plan(self, model: Model) -> ExecutionPlan:
        """Partition and prepare. BAD_DATA: an operation that no device supports; else what a device raises."""
        return self._plan(model, "")

    def _plan(self, model: Model, nested: str) -> ExecutionPlan:
        """``nested``: the way of control flow operations that led to the model, to tell their caches apart."""
        known = self._plans.get(model)
        if known is None:
            known = self._plans[model] = self._new_plan(model, nested)
        return known

    def _new_plan(self, model: Model, nested: str) -> ExecutionPlan:
        support = self._answers(model)
        answers = [[answer.supported for answer in of_device] for of_device in support]
        try:
            device_of = assign(model, answers)
        except NnapiError as error:
            raise NnapiError(error.code, error.reason + self._why(support)) from None
        self._warn_of_large_tensors(model, device_of, support)
        split = {number for number, assigned in enumerate(device_of) if self._is_split(model, number, assigned)}
        partitions: list[Partition | ControlFlowPartition] = []
        for cut in partition_model(model, device_of, split):
            if cut.operations[0] in split:
                partitions.append(self._control(model, cut.operations[0], nested))
            else:
                partitions.append(self._partition(model, self.devices[cut.device], cut.operations, nested))
        return ExecutionPlan(model, tuple(partitions))

    def _answers(self, model: Model) -> list[list[Support]]:
        """Return each device's support of each operation."""
        known = self._support.get(model)
        if known is None:
            known = [supported_operations(device, model) for device in self.devices]
            self._support[model] = known
        return known

    def _partition(self, model: Model, device: Device, operations: tuple[int, ...], nested: str) -> Partition:
        whole = len(operations) == len(model.operations)
        part = Extract(model, model.inputs, model.outputs) if whole else extract(model, operations)
        if self.options.deadline_ns is not None and time.monotonic_ns() > self.options.deadline_ns:
            raise NnapiError(ResultCode.MISSED_DEADLINE_PERSISTENT, "the compilation's deadline has passed")
        options = self.options
        if self.cache is not None:
            options = replace(options, cache=self.cache.entry(device, operations, nested))
        backup, repair = self._backup(device, part, self.fallback), self._repair(device, part)
        try:
            with tracing.span(f"prepare on {device.name}", "compilation", operations=len(operations)):
                prepared = device.driver.prepare_model(part.model, options)
        except Exception as error:
            prepared = _taken_over(device, backup, error)
            assert self.fallback is not None
            device, backup, repair = self.fallback, None, None
        _log.debug("%s runs %s", device.name, [str(operation) for operation in part.model.operations])
        return Partition(device, operations, part, prepared, backup, repair)

    def _backup(self, device: Device, part: Extract, other: Device | None) -> Backup | None:
        """Prepares the part of a device on another one."""
        if other is None or other is device:
            return None
        return self._later(other, part)

    def _repair(self, device: Device, part: Extract) -> Repair | None:
        """The ways to compute the part of a device again."""
        by_cpu = self._backup(device, part, self.repairing)
        if by_cpu is None:
            return None
        return Repair(self._later(device, part, other_strategies=True), by_cpu)

    def _later(self, device: Device, part: Extract, *, other_strategies: bool = False) -> Backup:
        """Prepares a part on a device. The compilation may be over by then, with its deadline and calls of progress."""
        options = replace(self.options, deadline_ns=None, progress=None, other_strategies=other_strategies)
        return functools.cache(lambda: device.driver.prepare_model(part.model, options))

    def _control(self, model: Model, number: int, nested: str) -> ControlFlowPartition:
        operation = model.operations[number]
        first, second = (
            self._plan(referenced, f"{nested}/{number}.{position}")
            for position, referenced in enumerate(referenced_models(model, operation))
        )
        return ControlFlowPartition((number,), operation, (first, second))

    def _is_split(self, model: Model, number: int, assigned: int) -> bool:
        """Whether a control flow operation is taken apart: no device runs it, or a preferred one runs some of it."""
        return assigned == RUNTIME or any(
            support.supported
            for inner in referenced_models(model, model.operations[number])
            for of_device in self._answers(inner)[:assigned]
            for support in of_device
        )

    def _warn_of_large_tensors(
        self, model: Model, device_of: Sequence[int], support: Sequence[Sequence[Support]]
    ) -> None:
        """Say why operations on large tensors are not the preferred device's: on the CPU they may take seconds."""
        large = [
            number
            for number, assigned in enumerate(device_of)
            if assigned > 0 and _largest_tensor(model, model.operations[number]) >= _LARGE
        ]
        if large:
            first = large[0]
            more = f" and {plural(len(large) - 1, 'more operation')} on large tensors" if large[1:] else ""
            _log.warning(
                "%s runs %s%s, which may take long: %s: %s",
                self.devices[device_of[first]].name,
                model.operations[first],
                more,
                self.devices[0].name,
                support[0][first].reason,
            )

    def _why(self, support: Sequence[Sequence[Support]]) -> str:
        """Return each device's reason against the first operation that none of them runs."""
        for answers in zip(*support, strict=True):
            if not any(answer.supported for answer in answers):
                named = zip(self.devices, answers, strict=True)
                return ": " + "; ".join(f"{device.name}: {answer.reason}" for device, answer in named)
        return ""


def _largest_tensor(model: Model, operation: Operation) -> int:
    """The bytes of the largest tensor of an operation, as far as sizes are known."""
    types = [model.operands[index].type for index in (*operation.inputs, *operation.outputs)]
    return max((type_.size for type_ in types if type_.is_tensor), default=0)


def _taken_over(device: Device, backup: Backup | None, error: Exception) -> IPreparedModel:
    """The partition prepared by another device after ``device`` has failed. Raises the error where there is none."""
    failure = driver_error(f"{device.name} fails to prepare", error)
    if backup is None:
        raise failure
    try:
        prepared = backup()
    except NnapiError:  # an operation that only the device's extension has, say
        raise failure from failure.__cause__
    _log.warning("%s fails to prepare, the CPU takes over: %r", device.name, error)
    return prepared
