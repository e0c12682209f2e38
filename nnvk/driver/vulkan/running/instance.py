"""The VkInstance of this process."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from nnvk.base import forks
from nnvk.base.log import logger
from nnvk.driver.vulkan.running.loader import create_instance

if TYPE_CHECKING:
    from nnvk import _native

_log = logger("driver")


class Instance:
    """A VkInstance, made on the first need, and in a forked child another one."""

    def __init__(self, native: ModuleType, *, validation: bool) -> None:
        """``native`` is `nnvk._native`. ``validation``: under the validation layer, whose messages are collected."""
        self._native = native
        self._validation = validation
        self.complaints = ""
        """What is wrong with drivers that can't be used, once the instance is made."""
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Forget the instance; a forked child can't use its parent's."""
        self._handle: _native.Instance | None = None
        self._physical: list[_native.PhysicalDevice] = []

    def physical_devices(self) -> list[_native.PhysicalDevice]:
        """What this process can make devices of. RuntimeError: there is no Vulkan, or no validation layer."""
        with self._lock:
            if self._handle is None:
                create = partial(self._native.Instance, validation=self._validation)
                handle, self.complaints = create_instance(create)
                self._physical = handle.physical_devices()
                self._handle = handle
            return self._physical

    def find(self, index: int, uuid: bytes) -> _native.PhysicalDevice:
        """The physical device that had this place and UUID in a parent. RuntimeError: it is not there any more."""
        for physical in self.physical_devices():
            if (physical.index, physical.uuid) == (index, uuid):
                return physical
        raise RuntimeError("the device is not there any more")

    def take_messages(self) -> list[str]:
        """What the validation layer has said since the last call; it is logged as warnings too."""
        messages = [] if self._handle is None else self._handle.take_validation_messages()
        for message in messages:
            _log.warning("%s", message)
        return messages

    def is_loss(self, error: Exception) -> bool:
        """Whether an error of the native module says that what was used is gone for good."""
        return isinstance(error, self._native.DeviceLostError)
