"""Compilation: a model made ready for devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.hal import IPreparedModel
from nnvk.runtime.devices import Device, get_devices
from nnvk.runtime.model import Model
from nnvk.runtime.partitioner import Extract, extract, partition
from nnvk.types import model as frozen
from nnvk.types.codes import DeviceTypeCode, PreferenceCode, PriorityCode
from nnvk.types.request import PrepareOptions

_log = logger("compilation")


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the model, prepared by one device."""

    device: Device
    operations: tuple[int, ...]
    """Positions in the order of execution of the model's operations."""
    prepared: IPreparedModel
    part: Extract


class Compilation:
    """A model compiled for devices (``ANeuralNetworksCompilation``).

    Without ``devices`` nnvk chooses: GPU devices are preferred, the CPU reference runs what they don't. With
    ``devices`` only these are used (``ANeuralNetworksCompilation_createForDevices``).
    """

    def __init__(self, model: Model, devices: Sequence[Device] | None = None) -> None:
        self._model: frozen.Model = model.frozen
        if devices is not None:
            if not devices:
                raise bad_data("devices must not be empty")
            if len(set(map(id, devices))) != len(devices):
                raise bad_data(f"a device is named twice: {', '.join(device.name for device in devices)}")
        self._devices = None if devices is None else tuple(devices)
        self._preference = PreferenceCode.FAST_SINGLE_ANSWER
        self._priority = PriorityCode.MEDIUM
        self._timeout_ns = 0
        self._steps: tuple[Step, ...] | None = None
        self._failed = False

    @classmethod
    def create_for_devices(cls, model: Model, devices: Sequence[Device]) -> Compilation:
        """Compile for exactly these devices (``ANeuralNetworksCompilation_createForDevices``)."""
        return cls(model, devices)

    def set_preference(self, preference: PreferenceCode | int) -> None:
        """What executions should be good at (``ANeuralNetworksCompilation_setPreference``)."""
        self._check_unfinished("set_preference")
        if preference not in list(PreferenceCode):
            raise bad_data(f"preference must be a PreferenceCode (0 to 2), got {preference}")
        self._preference = PreferenceCode(preference)

    def set_priority(self, priority: PriorityCode | int) -> None:
        """Priority among the executions that wait for a device (``ANeuralNetworksCompilation_setPriority``)."""
        self._check_unfinished("set_priority")
        if priority not in list(PriorityCode):
            raise bad_data(f"priority must be a PriorityCode (90, 100 or 110), got {priority}")
        self._priority = PriorityCode(priority)

    def set_timeout(self, duration_ns: int) -> None:
        """Give up `finish` after this many nanoseconds; 0: never (``ANeuralNetworksCompilation_setTimeout``)."""
        self._check_unfinished("set_timeout")
        if self._devices is None or len(self._devices) != 1:
            raise bad_data("a timeout needs a compilation for exactly one device")
        if duration_ns < 0:
            raise bad_data(f"the timeout must not be negative, got {duration_ns}")
        self._timeout_ns = duration_ns

    def finish(self) -> None:
        """Partition the model and have the devices prepare their parts (``ANeuralNetworksCompilation_finish``).

        BAD_DATA: an operation that none of the devices supports. BAD_STATE: finished before.
        """
        self._check_unfinished("finish")
        self._failed = True  # stays so if anything below raises: the specification allows no second try
        deadline = time.monotonic_ns() + self._timeout_ns if self._timeout_ns else None
        options = PrepareOptions(self._preference, self._priority, deadline)
        fallback = self._devices is None and settings().partition == 1
        devices = list(self._devices or get_devices())
        if self._devices is None and settings().partition == 0:
            devices = _cpu_devices()
        try:
            self._steps = self._prepare(devices, options)
        except NnapiError as error:
            if not fallback:
                raise
            _log.warning("%s; the whole model goes to the CPU", error)
            self._steps = self._prepare(_cpu_devices(), options)
        self._failed = False

    def _prepare(self, devices: Sequence[Device], options: PrepareOptions) -> tuple[Step, ...]:
        model = self._model
        support = [device.driver.get_supported_operations(model) for device in devices]
        try:
            cuts = partition(model, [[answer.supported for answer in answers] for answers in support])
        except NnapiError as error:
            raise NnapiError(error.code, error.reason + _why_unsupported(devices, support)) from None
        steps = []
        for cut in cuts:
            whole = len(cut.operations) == len(model.operations)
            part = Extract(model, model.inputs, model.outputs) if whole else extract(model, cut.operations)
            device = devices[cut.device]
            if options.deadline_ns is not None and time.monotonic_ns() > options.deadline_ns:
                raise NnapiError(ResultCode.MISSED_DEADLINE_PERSISTENT, "the compilation's deadline has passed")
            steps.append(Step(device, cut.operations, device.driver.prepare_model(part.model, options), part))
            _log.debug("step %d: %s runs %s", len(steps) - 1, device.name, [str(op) for op in part.model.operations])
        return tuple(steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What runs where, in the order of execution. BAD_STATE before `finish`."""
        if self._steps is None:
            raise bad_state("the compilation is not finished" + (", it failed" if self._failed else ""))
        return self._steps

    @property
    def model(self) -> frozen.Model:
        """The frozen model."""
        return self._model

    @property
    def devices(self) -> tuple[Device, ...] | None:
        """The devices that were named; None where nnvk chose."""
        return self._devices

    def _check_unfinished(self, call: str) -> None:
        if self._steps is not None or self._failed:
            raise bad_state(f"{call} can't be called after finish")


def _cpu_devices() -> list[Device]:
    return [device for device in get_devices() if device.type is DeviceTypeCode.CPU]


def _why_unsupported(devices: Sequence[Device], support: Sequence[Sequence[object]]) -> str:
    """What each device says of the first operation that none of them runs."""
    for answers in zip(*support, strict=True):
        reasons = [getattr(answer, "reason", "") for answer in answers]
        if all(reasons):
            return ": " + "; ".join(f"{device.name}: {reason}" for device, reason in zip(devices, reasons, strict=True))
    return ""
