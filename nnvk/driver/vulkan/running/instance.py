"""The VkInstance of this process."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from nnvk.base import forks
from nnvk.base.log import logger
from nnvk.driver.vulkan.running import loader, requirements

if TYPE_CHECKING:
    import nnvk._native as _native

_log = logger("driver")

Created: TypeAlias = "tuple[_native.Instance, list[_native.PhysicalDevice]]"
_LEAST_VERSION = (1, 1)
_RANK = ("discrete_gpu", "integrated_gpu", "virtual_gpu", "other", "cpu")


def why_unusable(physical: _native.PhysicalDevice) -> str:
    """The reason why nnvk cannot compute on a device; empty if it can."""
    needed = f"nnvk needs {'.'.join(map(str, _LEAST_VERSION))}"
    if tuple(map(int, physical.api_version.split("."))) < _LEAST_VERSION:
        return f"it has Vulkan {physical.api_version}, {needed}"
    if not dict(physical.limits).get("subgroupSize"):  # the loader answers for a driver that does not tell its version
        return f"its driver answers as one of Vulkan 1.0, {needed}"
    return "" if physical.has_compute_queue else "it has no queue for compute"


class Instance:
    """A VkInstance, created when first needed, and again in a forked child."""

    def __init__(self, native: ModuleType, *, validation: bool) -> None:
        """``native`` is `nnvk._native`. ``validation``: under the validation layer, whose messages are collected."""
        self._native = native
        self._validation = validation
        self.problems = ""
        """The faults of unusable drivers, known after the instance is created."""
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Forget the instance; a forked child can't use its parent's."""
        self._handle: _native.Instance | None = None
        self._physical: list[_native.PhysicalDevice] = []

    def physical_devices(self) -> list[_native.PhysicalDevice]:
        """All physical devices, also unusable ones (`why_unusable`). RuntimeError: no Vulkan or validation layer."""
        with self._lock:
            if self._handle is None:
                self._require_loader()
                (self._handle, self._physical), self.problems = self._start()
            return self._physical

    def usable(self) -> dict[str, _native.PhysicalDevice]:
        """The usable devices by nnvk's names, the most capable first. RuntimeError as `physical_devices`."""
        usable = [physical for physical in self.physical_devices() if not why_unusable(physical)]
        ranked = sorted(usable, key=lambda physical: (_RANK.index(physical.type), physical.index))
        return {f"vulkan-{place}": physical for place, physical in enumerate(ranked)}

    def absences(self) -> str:
        """The reason why devices are missing; empty if none is known. RuntimeError as `physical_devices`."""
        physical, usable, manifests = self.physical_devices(), self.usable().values(), loader.manifests()
        reasons = [f"{each.name} can't be used: {reason}" for each in physical if (reason := why_unusable(each))]
        if not physical:
            reasons.append("Vulkan has no device")
        if all(each.type == "cpu" for each in usable) and (cause := requirements.why_no_gpu(manifests)):
            reasons.append(f"no GPU is found: {cause}")
        if not usable and not requirements.has_software_device(manifests):
            listed = f"the drivers are those of {variable}" if (variable := loader.listed_by()) else ""
            reasons.append(listed or requirements.how_to_install(driver=True))
        return "; ".join(filter(None, (self.problems, *reasons)))

    def drivers_alone(self) -> list[loader.Alone[Created]]:
        """Each driver without the others, in a separate instance. RuntimeError: there is no loader."""
        self._require_loader()
        return loader.start_each(self._create)

    def _require_loader(self) -> None:
        try:
            self._native.load_vulkan()
        except self._native.LoaderError as error:
            advice = requirements.how_to_install(loader=True, driver=not loader.manifests())
            raise RuntimeError(f"{error}; {advice}") from error

    def _start(self) -> tuple[Created, str]:
        try:
            return loader.start(self._create, lambda made: bool(made[1]))
        except RuntimeError as error:
            if loader.manifests():
                raise
            variable = loader.listed_by()
            advice = f"{variable} names no driver" if variable else requirements.how_to_install(driver=True)
            raise RuntimeError(f"{error}; {advice}") from error

    def _create(self) -> Created:
        handle = self._native.Instance(validation=self._validation)
        return handle, handle.physical_devices()

    def find(self, index: int, uuid: bytes) -> _native.PhysicalDevice:
        """The physical device that had this index and UUID in the parent. RuntimeError: it no longer exists."""
        for physical in self.physical_devices():
            if (physical.index, physical.uuid) == (index, uuid):
                return physical
        with self._lock:  # a driver that has failed may have it the next time
            self.renew()
        raise RuntimeError("the device is not there any more")

    def take_messages(self) -> list[str]:
        """The validation layer's messages since the last call. They are also logged as warnings."""
        messages = [] if self._handle is None else self._handle.take_validation_messages()
        for message in messages:
            _log.warning("%s", message)
        return messages

    def is_loss(self, error: Exception) -> bool:
        """Whether an error of the native module means that the device is lost."""
        return isinstance(error, self._native.DeviceLostError)
