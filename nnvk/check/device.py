"""The device that is checked: which checks there are for it, and what a report says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnvk.api import Device, ResultCode, driver_command, get_devices
from nnvk.base.errors import op_failed
from nnvk.base.settings import settings
from nnvk.check.cases import Case, cases
from nnvk.check.checks import Check, Kind, Outcome, Status, failure, passed_or
from nnvk.check.comparison import bit_difference, difference
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference, roundings
from nnvk.demo.assets import MODELS, DemoModel, pictures
from nnvk.demo.classify import classify
from nnvk.demo.run import LEAST_ACCURACY, accuracy
from nnvk.driver.process import RemoteDevice
from nnvk.driver.process import find_devices as find_remote_devices
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.graph.builder import NeedsValue
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.running.assumptions import assumptions
from nnvk.driver.vulkan.running.assumptions import difference as assumption_difference
from nnvk.driver.vulkan.shaders.assumptions import assumption
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.declaration import Variant
from nnvk.driver.vulkan.shaders.profile import described
from nnvk.importers import tflite
from nnvk.insight.comparison import Comparison, compare
from nnvk.insight.difference import Tolerance
from nnvk.runtime.reproducible import refusal
from nnvk.types.request import PrepareOptions


def in_a_process_of_its_own(device: Device) -> Device:
    """A Vulkan device in a process of the driver's own, where a crash is an error. Other devices stay as they are."""
    if not isinstance(device.driver, VulkanDevice):
        return device
    found, reason = find_remote_devices(driver_command)
    same = [one for one in found if (one.name, one.version) == (device.name, device.version)]
    if not same:
        raise op_failed(f"{device.name} can't be had in a process of its own: {reason or 'it is not there'}")
    return Device(same[0])


class Checked:
    """A device with its checks. Its assumptions are checked in this process.

    A case or model that takes longer than ``limit`` seconds ends the driver's own process, and fails. There is no limit
    for a driver in this process, nor where it is 0.
    """

    def __init__(self, device: Device, limit: float = 0.0) -> None:
        self.device = device
        self._limit = limit
        self._is_remote = isinstance(device.driver, RemoteDevice)
        self.vulkan = _vulkan_of(device)
        """The Vulkan device in this process that makes the same plans; None for a device that is no Vulkan device."""

    def checks(self) -> list[Check]:
        """All checks, in the order in which they are run."""
        limited = [
            replace(check, run=partial(self._run_within_limit, check.run))
            for check in (*self._cases(), *self._models())
        ]
        return [*self._assumptions(), *limited]

    def revive(self) -> bool:
        """Whether checks can go on after DEAD_OBJECT: the driver's own process has died, and another can be started."""
        if not self._is_remote:
            return False
        try:
            self.device.wait()
        except Exception:
            return False
        return True

    @property
    def avoided(self) -> tuple[str, ...]:
        """The shader variants that plans do without."""
        return () if self.vulkan is None else tuple(sorted(self.vulkan.profile.avoided))

    def _run_within_limit(self, run: Callable[[], Outcome]) -> Outcome:
        driver = self.device.driver
        if not isinstance(driver, RemoteDevice) or not self._limit:
            return run()
        reason = f"a check took longer than {self._limit:g} seconds of --case-seconds, and the process was ended"
        timer = threading.Timer(self._limit, driver.end, [reason])
        timer.daemon = True
        timer.start()
        try:
            return run()
        finally:
            timer.cancel()

    # --- assumptions -----------------------------------------------------------------------------------------

    def _assumptions(self) -> Iterator[Check]:
        if self.vulkan is None:
            return
        for variant in assumptions(self.vulkan.gpu, self.vulkan.planner.library):
            yield Check(Kind.ASSUMPTION, variant.name, assumption(variant).says, partial(self._run_assumption, variant))

    def _run_assumption(self, variant: Variant) -> Outcome:
        assert self.vulkan is not None
        if settings().driver_process:
            return Outcome(Status.NOT_RUN, "the driver runs in a process of its own (NNVK_DRIVER_PROCESS)")
        try:
            return passed_or(assumption_difference(self.vulkan.gpu, self.vulkan.planner.library, variant))
        except (RuntimeError, MemoryError) as error:
            return failure(self.vulkan.gpu.failure(error))

    # --- cases -----------------------------------------------------------------------------------------------

    def _cases(self) -> Iterator[Check]:
        for case in cases():
            yield Check(Kind.CASE, case.operations, case.details, partial(self._run_case, case))

    def _run_case(self, case: Case) -> Outcome:
        row = parse(case.text)
        if settings().reproducible:
            row = replace(row, model=row.model.as_reproducible())
        supported = self.device.driver.get_supported_operations(row.model)
        undefined = [refusal(row.model, each) for each in row.model.operations] if row.model.reproducible else []
        reason = next(filter(None, [*undefined, *(support.reason for support in supported)]), "")
        if reason:
            return Outcome(Status.UNSUPPORTED, reason)
        shaders = self._shaders(row)
        try:
            return passed_or(_difference(self.device, row), shaders)
        except Exception as error:  # of the driver, or of NumPy where the device gives too much or too little
            return failure(error, shaders)

    # --- models ----------------------------------------------------------------------------------------------

    def _models(self) -> Iterator[Check]:
        for model in MODELS:
            yield Check(
                Kind.MODEL, model.path.name, f"handwritten digits, {model.title}", partial(self._run_model, model)
            )

    def _run_model(self, model: DemoModel) -> Outcome:
        shipped = pictures()
        imported = tflite.load(model.path)
        inputs = [model.to_input(shipped[0].pixels).reshape(model.input_shape)]
        frozen = imported.model.frozen
        is_whole = all(support.supported for support in self.device.driver.get_supported_operations(frozen))
        shaders = self._shaders(Row(frozen, inputs)) if is_whole else ()
        try:
            tolerance = Tolerance(of_range=0, steps=0, floor=0) if settings().reproducible else None
            found = _begins(compare(imported, self.device, get_devices()[-1], inputs, tolerance=tolerance))
            share = accuracy(classify(model, self.device, shipped), shipped)
        except Exception as error:
            return failure(error, shaders)
        if not found and share < LEAST_ACCURACY:
            found = f"{share:.1%} of the digits are recognised, expected {LEAST_ACCURACY:.0%} at least"
        return passed_or(found, shaders)

    # --- what is known of the device -------------------------------------------------------------------------

    def _shaders(self, row: Row) -> tuple[str, ...]:
        return () if self.vulkan is None else shaders_of(self.vulkan.planner, row)

    def facts(self) -> dict[str, Any]:
        """The device as a report describes it, in JSON's types. Nothing in it tells who uses the device."""
        about: dict[str, Any] = {"name": self.device.name, "type": self.device.type.name, "driver": self.device.version}
        if self.vulkan is not None:
            about |= {**self.vulkan.facts(), "profile": described(self.vulkan.profile)}
        return {**about, "in_process_of_its_own": self._is_remote}


def shaders_of(planner: Planner, row: Row) -> tuple[str, ...]:
    """The names of the shader variants that a row dispatches, in their order, each once."""
    names = (command.shader.name for command in plan_of(planner, row).commands if isinstance(command, Dispatch))
    return tuple(dict.fromkeys(names))


def plan_of(planner: Planner, row: Row) -> Plan:
    """The plan of a row, with the values of inputs that it depends on."""
    given = dict(zip(row.model.inputs, row.inputs, strict=True))
    looked_at: dict[int, np.ndarray] = {}
    while True:
        try:
            return planner.plan(row.model, [array.shape for array in row.inputs], PrepareOptions(), looked_at)
        except NeedsValue as needed:
            looked_at[needed.operand] = given[needed.operand]


def _vulkan_of(device: Device) -> VulkanDevice | None:
    """The device of the Vulkan driver in this process that a device is, or that is the same as one in another."""
    if isinstance(device.driver, VulkanDevice):
        return device.driver
    if not isinstance(device.driver, RemoteDevice):
        return None
    found, _ = find_devices()
    return next((one for one in found if (one.name, one.version) == (device.name, device.version)), None)


def _difference(device: Device, row: Row) -> str:
    """Describe the first wrong result of a row; empty where all are right."""
    expected = reference(row)
    outputs = empty_like(expected)
    result = execute(device.driver, row, outputs)
    if result.code is not ResultCode.NO_ERROR:
        return f"the device says {result.code.name}"
    for number, (want, got, shape) in enumerate(zip(expected, outputs, result.output_shapes, strict=True)):
        where = f"output {number}, " if len(expected) > 1 else ""
        if shape.dimensions != want.shape:
            return f"{where}expected dimensions {list(want.shape)}, got {list(shape.dimensions)}"
        found = (bit_difference if row.model.reproducible else difference)(want, got)
        if found and not row.model.reproducible and want.dtype == np.float16:
            found = difference(want, got, roundings(row))
        if found:
            return where + found
    return ""


def _begins(comparison: Comparison) -> str:
    """Where the results of a model begin to be off; empty where they don't."""
    first = comparison.begins or next((each for each in comparison.outputs if each.is_off), None)
    if first is None:
        return ""
    what = "the output" if first.number is None else f"operation {first.number} ({first.operation})"
    return (
        f"{what}, element {list(first.where)}: expected {first.want:.6g}, got {first.got:.6g} "
        f"({first.wrong} of {first.size} differ)"
    )
