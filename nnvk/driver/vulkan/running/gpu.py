"""Everything that users of a device share: the Vulkan device, the order of its queue, and the meaning of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.vulkan.running.instance import Instance
from nnvk.driver.vulkan.running.pipeline_cache import PipelineCache
from nnvk.driver.vulkan.running.scheduler import Scheduler
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

if TYPE_CHECKING:
    import nnvk._native as _native


@dataclass(slots=True)
class Counters:
    """The bytes that executions have moved between host and device."""

    bytes_from_host: int = 0
    bytes_to_host: int = 0


class Gpu:
    """A Vulkan device, made on the first need, and again when it was lost and in a forked child."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        physical: _native.PhysicalDevice,
        profile: DeviceProfile,
        features: frozenset[str],
    ) -> None:
        """``features``: those that shaders use. Some slow every access down, so that the others stay off."""
        self.name = name
        """The device's name as NNAPI has it, for errors and traces."""
        self.profile = profile
        """The properties of the device that plans depend on."""
        self.counters = Counters()
        self._instance = instance
        self._described = physical
        self._features = sorted(profile.features & features)
        self._pipelines = PipelineCache(physical)
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without a Vulkan device; a forked child can't use its parent's."""
        self.scheduler = Scheduler()
        """Through which every execution reaches the queue."""
        self._device: _native.Device | None = None

    def native(self) -> _native.Device:
        """The Vulkan device. Raises UNAVAILABLE_DEVICE where it can't be made."""
        with self._lock:
            if self._device is None:
                try:
                    physical = self._instance.find(self._described.index, self._described.uuid)
                    self._device = physical.create_device(self._features, pipeline_cache=self._pipelines.load())
                except RuntimeError as error:
                    raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"{self.name}: {error}") from error
            return self._device

    def keep_pipelines(self) -> None:
        """Keep what was compiled since the last call for other processes; next to nothing where that is nothing."""
        if self._device is not None:
            self._pipelines.keep(self._device)

    def failure(self, error: Exception) -> NnapiError:
        """NNAPI's error for an error of the native module."""
        if isinstance(error, MemoryError):
            return NnapiError(ResultCode.OUT_OF_MEMORY, f"{self.name}: {error}")
        lost = self._instance.is_loss(error) or (self._device is not None and self._device.lost)
        return NnapiError(ResultCode.DEAD_OBJECT if lost else ResultCode.OP_FAILED, f"{self.name}: {error}")

    def revive(self) -> None:
        """Replace a Vulkan device that was lost; what was prepared on it stays dead."""
        with self._lock:
            if self._device is not None and self._device.lost:
                self._device = None
        self.native()
