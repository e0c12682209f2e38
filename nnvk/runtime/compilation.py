"""Compilation: a model made ready for devices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from nnvk.base.checks import flag, function, instance, member, whole, wholes
from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state, mark_as_callers
from nnvk.base.files import is_folder
from nnvk.base.log import logger, timed
from nnvk.base.pinned import Pinned
from nnvk.base.progress import compiling
from nnvk.base.settings import settings
from nnvk.base.text import plural
from nnvk.runtime.arguments import duration
from nnvk.runtime.devices import Device, check_distinct, get_devices
from nnvk.runtime.execution_plan import Cache, ExecutionPlan, ExecutionPlanner, Partition
from nnvk.runtime.model import Model
from nnvk.runtime.reproducible import check_reproducible
from nnvk.runtime.verification import REPAIR, Verified, redundancy_of, verified_option, verified_setting
from nnvk.types import model as frozen
from nnvk.types.codes import BYTE_SIZE_OF_CACHE_TOKEN, DeviceTypeCode, PreferenceCode, PriorityCode
from nnvk.types.request import PrepareOptions, deadline_after

_log = logger("compilation")


class _Progress:
    """Calls an application's callback until that raises an exception."""

    def __init__(self, callback: Callable[[int, int], None]) -> None:
        self._callback = callback
        self.error: Exception | None = None
        """The exception that the callback has raised."""

    def __call__(self, done: int, total: int) -> None:
        if self.error is None:
            try:
                self._callback(done, total)
            except Exception as error:  # raised again by `Compilation.finish`
                mark_as_callers(error)
                self.error = error


def _reference() -> Device:
    """The CPU device that runs every operation."""
    return next(device for device in reversed(get_devices()) if device.type is DeviceTypeCode.CPU)


class Compilation(Pinned):
    """A model compiled for devices (``ANeuralNetworksCompilation``).

    Without ``devices`` nnvk chooses: GPU devices are preferred, the CPU reference runs what they don't, and takes
    over where they fail. With ``devices`` only these are used, and their failures are the caller's
    (``ANeuralNetworksCompilation_createForDevices``). BAD_STATE: the model is not finished. TypeError: ``devices`` are
    not `Device` objects.
    """

    def __init__(self, model: Model, devices: Sequence[Device] | None = None) -> None:
        whole_model = instance("the model (an ImportedModel has one as .model)", model, Model).frozen
        self._model: frozen.Model = whole_model.with_relaxed(whole_model.relaxed)
        if devices is not None:
            check_distinct(devices)
        self._devices = None if devices is None else tuple(devices)
        self._preference = PreferenceCode.FAST_SINGLE_ANSWER
        self._priority = PriorityCode.MEDIUM
        self._timeout_ns = 0
        self._cache: Cache | None = None
        self._progress: _Progress | None = None
        self._families: dict[Hashable, Any] | None = None
        self._verified = verified_setting(settings().verified)
        self._reproducible = settings().reproducible
        self._plan: ExecutionPlan | None = None
        self._finish_called = False

    @classmethod
    def create_for_devices(cls, model: Model, devices: Sequence[Device]) -> Compilation:
        """Compile for exactly these devices (``ANeuralNetworksCompilation_createForDevices``)."""
        check_distinct(devices)
        return cls(model, devices)

    def __repr__(self) -> str:
        if self._plan is None:
            return f"<nnvk.Compilation {'that failed' if self._finish_called else 'not finished'}: {self._model!r}>"
        return f"<nnvk.Compilation of {plural(len(self._plan.partitions), 'partition')}: {self._plan.summary}>"

    # --- before finish -------------------------------------------------------------------------------------------

    def set_preference(self, preference: PreferenceCode | int) -> None:
        """The preference for executions (``ANeuralNetworksCompilation_setPreference``)."""
        self._check_unfinished("set_preference")
        self._preference = member("preference", preference, PreferenceCode)

    def set_priority(self, priority: PriorityCode | int) -> None:
        """Priority among the executions that wait for a device (``ANeuralNetworksCompilation_setPriority``)."""
        self._check_unfinished("set_priority")
        self._priority = member("priority", priority, PriorityCode)

    def set_timeout(self, duration_ns: int) -> None:
        """Give up `finish` after this many nanoseconds; 0: never (``ANeuralNetworksCompilation_setTimeout``).

        BAD_DATA: the compilation is not for exactly one named device.
        """
        self._check_unfinished("set_timeout")
        self.check_one_device("a timeout")
        self._timeout_ns = duration("timeout", duration_ns)

    def set_caching(self, cache_dir: str | os.PathLike[str], token: bytes) -> None:
        """Keep prepared models in a folder, and take them from there (``ANeuralNetworksCompilation_setCaching``).

        ``token`` has 32 bytes and stands for the model: the application must give every model its own. nnvk checks
        the files in the folder before it uses them, and replaces damaged or foreign ones.
        """
        self._check_unfinished("set_caching")
        is_bytes = isinstance(token, (bytes, bytearray, memoryview))
        content = bytes(token) if is_bytes else bytes(wholes("the token's bytes", token, 0, 255))
        if len(content) != BYTE_SIZE_OF_CACHE_TOKEN:
            raise bad_data(f"the token must have {BYTE_SIZE_OF_CACHE_TOKEN} bytes, got {len(content)}")
        try:
            folder = Path(cache_dir).absolute()
            exists = is_folder(folder)
        except (OSError, ValueError) as error:  # a name that is too long, a folder that nobody may read
            raise bad_data(f"the cache directory can't be used: {error}") from error
        if not exists:
            raise bad_data(f"the cache directory {folder} does not exist")
        self._cache = Cache(folder, content)

    def share_families(self, families: dict[Hashable, Any]) -> None:
        """Plan the model as one of several that differ in sizes, all of which are given the same dictionary.

        Drivers keep there what saves them planning the next size, and the memory that executions take in turn.
        """
        self._check_unfinished("share_families")
        instance("the families", families, dict)
        self._families = families

    def set_progress(self, callback: Callable[[int, int], None]) -> None:
        """Have `finish` call ``callback(done, total)`` as devices prepare the model.

        The numbers are the finished parts and all parts of the work on the partition that is being prepared; with
        SUSTAINED_SPEED first those of the measurements of strategies, then those of the compilation. The calls
        come on the thread of `finish`. The first exception of ``callback`` ends the calls; `finish` raises it. Drivers
        in another process (``NNVK_DRIVER_PROCESS=1``) report no progress.
        """
        self._check_unfinished("set_progress")
        self._progress = _Progress(function("the callback", callback))

    def set_verified(self, verified: Verified = True) -> None:
        """Have devices check their results; the default is the variable ``NNVK_VERIFIED``.

        The Vulkan driver verifies convolutions and FULLY_CONNECTED of 8 bits by checksums of rows. It computes other
        products by another shader once more, and all else twice, and compares all bits; with ``"all"`` it computes
        everything twice. An execution whose results are wrong ends with OP_FAILED (`VerificationError`), which names
        the operation, the element and both values, or the row and both checksums. With ``"repair"`` such an execution
        is done again by other strategies, and by the CPU reference if that fails as well, also for devices that the
        application named; `nnvk.stats` counts both. The CPU reference itself and drivers of other packages check
        nothing. docs/verification.md has the cost.
        """
        self._check_unfinished("set_verified")
        self._verified = verified_option(verified)

    def set_reproducible(self, reproducible: bool = True) -> None:
        """Have all devices compute floats to the same bits; the default is the variable ``NNVK_REPRODUCIBLE``.

        `finish` then refuses an operation for which docs/reproducible.md does not define them, and a device of another
        package, with BAD_DATA. A relaxed model is computed as if it were not.
        """
        self._check_unfinished("set_reproducible")
        self._reproducible = flag("reproducible", reproducible)

    def finish(self) -> None:
        """Partition the model and have the devices prepare their parts (``ANeuralNetworksCompilation_finish``).

        BAD_DATA: an operation that none of the devices supports. BAD_STATE: called before, even if that failed.
        MISSED_DEADLINE_PERSISTENT: it took longer than `set_timeout` allows.
        """
        self._check_unfinished("finish")
        self._finish_called = True
        if self._reproducible:
            self._model = self._model.as_reproducible()
            check_reproducible(self._model, self._devices or ())
        deadline = deadline_after(time.monotonic_ns(), self._timeout_ns) if self._timeout_ns else None
        options = PrepareOptions(
            self._preference,
            self._priority,
            deadline,
            redundancy=redundancy_of(self._verified),
            families=self._families,
            progress=self._progress,
        )
        what = f"a model of {plural(len(self._model.operations), 'operation')}"
        with timed(_log, "compiling %s", what), compiling(what):
            if self._devices is not None:
                planner = ExecutionPlanner(
                    self._in_order(self._devices), options, cache=self._cache, repairing=self._repairing()
                )
                plan = planner.plan(self._model)
            else:
                plan = self._planned_by_choice(options)
        if self._progress is not None and self._progress.error is not None:
            raise self._progress.error
        if deadline is not None and time.monotonic_ns() > deadline:
            raise NnapiError(ResultCode.MISSED_DEADLINE_PERSISTENT, "the compilation's deadline has passed")
        self._plan = plan

    def _planned_by_choice(self, options: PrepareOptions) -> ExecutionPlan:
        """The devices to choose from, by NNVK_PARTITION: 0 is the CPU alone, 1 all with the CPU as fallback, 2 all
        without it.
        """
        devices, cpu = get_devices(), _reference()
        if self._reproducible:
            devices = [device for device in devices if device.driver.reproduces]
        mode = settings().partition
        if mode == 0:
            return ExecutionPlanner([cpu], options, cache=self._cache).plan(self._model)
        planner = ExecutionPlanner(
            self._in_order(devices), options, cpu if mode == 1 else None, self._cache, self._repairing()
        )
        try:
            return planner.plan(self._model)
        except Exception as error:
            if mode == 2:
                raise
            try:
                plan = ExecutionPlanner([cpu], options).plan(self._model)
            except NnapiError:
                raise error from None
            _log.warning("the whole model goes to %s: %r", cpu.name, error)
            return plan

    @property
    def repairs(self) -> bool:
        """Whether wrong results are computed again (`set_verified`)."""
        return self._verified == REPAIR

    def _repairing(self) -> Device | None:
        """The device that computes wrong results again, if that is wanted."""
        return _reference() if self.repairs else None

    def _in_order(self, devices: Sequence[Device]) -> list[Device]:
        """The devices, sorted by how well they serve the preference. Equal ones keep their order."""
        if self._preference is PreferenceCode.LOW_POWER:
            return sorted(devices, key=lambda device: device.capabilities.relative_power)
        return sorted(devices, key=lambda device: device.capabilities.relative_time)

    # --- after finish --------------------------------------------------------------------------------------------

    def get_preferred_memory_alignment_for_input(self, index: int) -> int:
        """Bytes to which input ``index`` is best aligned, a power of 2.

        (``ANeuralNetworksCompilation_getPreferredMemoryAlignmentForInput``.)
        """
        return self._preferred("input", index, lambda partition: partition.prepared.preferred_alignment)

    def get_preferred_memory_alignment_for_output(self, index: int) -> int:
        """Bytes to which output ``index`` is best aligned, a power of 2.

        (``ANeuralNetworksCompilation_getPreferredMemoryAlignmentForOutput``.)
        """
        return self._preferred("output", index, lambda partition: partition.prepared.preferred_alignment)

    def get_preferred_memory_padding_for_input(self, index: int) -> int:
        """Bytes of which the size of input ``index`` is best a multiple, a power of 2.

        (``ANeuralNetworksCompilation_getPreferredMemoryPaddingForInput``.)
        """
        return self._preferred("input", index, lambda partition: partition.prepared.preferred_padding)

    def get_preferred_memory_padding_for_output(self, index: int) -> int:
        """Bytes of which the size of output ``index`` is best a multiple, a power of 2.

        (``ANeuralNetworksCompilation_getPreferredMemoryPaddingForOutput``.)
        """
        return self._preferred("output", index, lambda partition: partition.prepared.preferred_padding)

    def _preferred(self, what: str, index: int, of: Callable[[Partition], int]) -> int:
        """The largest value that a partition with this input or output prefers."""
        plan, index = self.plan, whole(f"the {what}'s index", index)
        operands = self._model.inputs if what == "input" else self._model.outputs
        if not 0 <= index < len(operands):
            raise bad_data(f"{what} {index} does not exist, the model has {len(operands)}")
        operand = operands[index]
        return max(
            (
                of(partition)
                for partition in plan.partitions
                if isinstance(partition, Partition)
                and operand in (partition.part.inputs if what == "input" else partition.part.outputs)
            ),
            default=1,
        )

    @property
    def plan(self) -> ExecutionPlan:
        """The execution plan of the model. BAD_STATE before `finish`."""
        if self._plan is None:
            raise bad_state("finish failed" if self._finish_called else "the compilation is not finished")
        return self._plan

    @property
    def is_finished(self) -> bool:
        """Whether `finish` was called, and has not failed."""
        return self._plan is not None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The parts of the model that devices have prepared, including those inside control flow."""
        return tuple(self.plan.leaves())

    @property
    def model(self) -> frozen.Model:
        """The frozen model."""
        return self._model

    @property
    def devices(self) -> tuple[Device, ...] | None:
        """The devices that the application named, or None if nnvk chose."""
        return self._devices

    def check_one_device(self, what: str) -> None:
        """Raise BAD_DATA unless the compilation is for exactly one named device."""
        if self._devices is None or len(self._devices) != 1:
            raise bad_data(f"{what} needs a compilation for exactly one device")

    def _check_unfinished(self, call: str) -> None:
        if self._finish_called:
            raise bad_state(f"{call} can't be called after finish")
