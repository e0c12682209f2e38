"""The parts that users of a device share: the Vulkan device, the order of its queue, and the mapping of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.settings import settings
from nnvk.driver.vulkan.running.constants import ConstantStore
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
    """A Vulkan device, created when first needed, and again after it was lost and in a forked child."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        physical: _native.PhysicalDevice,
        profile: DeviceProfile,
        features: frozenset[str],
    ) -> None:
        """``features``: the features that shaders use. The others stay off, because some slow down every access."""
        self.name = name
        """The device's NNAPI name, for errors and traces."""
        self.profile = profile
        """The properties of the device that plans depend on."""
        self.counters = Counters()
        self.constants = ConstantStore()
        """The large constants of all plans."""
        self._instance = instance
        self._described = physical
        self._features = sorted(profile.features & features)
        self._pipelines = PipelineCache(physical)
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def unrolls(self, variant: str) -> bool:
        """Whether the driver gets a variant with unrolled loops: as `Settings.unroll_loops` says, or as it needs it."""
        chosen = settings().unroll_loops
        return chosen == "1" if chosen else self.profile.unrolls(variant)

    def renew(self) -> None:
        """Begin without a Vulkan device; a forked child can't use its parent's."""
        self.scheduler = Scheduler()
        """The scheduler through which every execution reaches the queue."""
        self._device: _native.Device | None = None
        self.compiled: set[tuple[str, tuple[int, ...]]] = set()
        """The pipelines that plans have compiled on the Vulkan device, by shader and specialisation constants."""

    def native(self) -> _native.Device:
        """The Vulkan device. UNAVAILABLE_DEVICE: it cannot be created."""
        with self._lock:
            if self._device is None:
                try:
                    physical = self._instance.find(self._described.index, self._described.uuid)
                    self._device = physical.create_device(self._features, pipeline_cache=self._pipelines.load())
                except RuntimeError as error:
                    raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"{self.name}: {error}") from error
            return self._device

    def keep_pipelines(self) -> None:
        """Add the pipelines compiled since the last call to the cache. It costs little if there are none."""
        if self._device is not None:
            self._pipelines.keep(self._device)

    def failure(self, error: Exception) -> NnapiError:
        """NNAPI's error for an error of the native module."""
        if isinstance(error, MemoryError):
            return NnapiError(ResultCode.OUT_OF_MEMORY, f"{self.name}: {error}")
        lost = self._instance.is_loss(error) or (self._device is not None and self._device.lost)
        return NnapiError(ResultCode.DEAD_OBJECT if lost else ResultCode.OP_FAILED, f"{self.name}: {error}")

    def revive(self) -> None:
        """Replace a Vulkan device that was lost; objects that were prepared on it stay dead."""
        with self._lock:
            if self._device is not None and self._device.lost:
                self._device = None
        self.native()
