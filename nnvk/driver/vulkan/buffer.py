"""Memory domains of the Vulkan driver: tensors that stay on the device between executions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.driver.vulkan.memory_plan import padded
from nnvk.hal import IBuffer

if TYPE_CHECKING:
    from nnvk import _native
    from nnvk.driver.vulkan.device import VulkanDevice
    from nnvk.driver.vulkan.planned import Planned


class VulkanBuffer(IBuffer):
    """One tensor in device-local memory, bound to shaders directly or copied on the device."""

    def __init__(self, device: VulkanDevice, token: int, nbytes: int) -> None:
        self._device = device
        self._token = token
        self._lock = threading.Lock()
        self.nbytes = nbytes
        """Bytes of the tensor, without the padding."""
        self.native = device.native()
        """The Vulkan device whose memory it is."""
        self.users: weakref.WeakSet[Planned] = weakref.WeakSet()
        """Plans that have recorded instances on this memory."""
        self.buffer = self.native.create_buffer(padded(max(nbytes, 4)), host_visible=False)
        """The whole of it is the tensor, padded as every tensor is."""
        program = self.native.create_program()
        program.fill(self.buffer, 0, self.buffer.size, 0)  # nobody shall see what was in this memory before
        program.finish([], [])
        program.run([], [])

    def __del__(self) -> None:
        for planned in getattr(self, "users", ()):
            planned.forget(self._token)

    @property
    def token(self) -> int:
        """What requests name it by."""
        return self._token

    def copy_to(self, target: np.ndarray) -> None:
        """Copy out through staging memory."""

        def run(program: _native.Program, staging: _native.Buffer) -> None:
            program.copy(self.buffer, 0, staging, 0, self.buffer.size)
            program.finish([], [(staging, 0, target.nbytes)])
            program.run([], [target])

        self._through_staging(target, run)

    def copy_from(self, source: np.ndarray) -> None:
        """Copy in through staging memory."""

        def run(program: _native.Program, staging: _native.Buffer) -> None:
            program.copy(staging, 0, self.buffer, 0, self.buffer.size)
            program.finish([(staging, 0, source.nbytes)], [])
            program.run([source], [])

        self._through_staging(source, run)

    def _through_staging(self, host: np.ndarray, run: Callable[[_native.Program, _native.Buffer], None]) -> None:
        if host.nbytes > self.nbytes:
            raise bad_data(f"device memory of {self.nbytes} bytes can't exchange {host.nbytes}")
        with self._lock:
            try:
                staging = self.native.create_buffer(self.buffer.size, host_visible=True)
                run(self.native.create_program(), staging)
            except (MemoryError, RuntimeError) as error:
                raise self._device.failure(error) from error
