"""Memory domains of the Vulkan driver: tensors that stay on the device between executions."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.vulkan.running.gpu import Gpu
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.hal import IBuffer

if TYPE_CHECKING:
    import nnvk._native as _native


class User(Protocol):
    """An object that has recorded something on a buffer."""

    def forget(self, token: int) -> None:
        """Drop the recordings on the buffer of this token, which is about to be destroyed."""
        ...


class VulkanBuffer(IBuffer):
    """One tensor in device-local memory, bound to shaders directly or copied on the device."""

    def __init__(self, gpu: Gpu, token: int, nbytes: int) -> None:
        self._gpu = gpu
        self._token = token
        self._lock = forks.lock()
        self.nbytes = nbytes
        """Bytes of the tensor, without padding."""
        self.native = gpu.native()
        """The Vulkan device that owns the memory."""
        self.users: weakref.WeakSet[User] = weakref.WeakSet()
        """The users that are notified when the buffer is destroyed."""
        self.buffer = self.native.create_buffer(padded(max(nbytes, 4)), host_visible=False)
        """The whole buffer is the tensor, padded like every tensor."""
        program = self.native.create_program()
        program.fill(self.buffer, 0, self.buffer.size, 0)  # nobody shall see what was in this memory before
        program.finish([], [])
        program.run([], [])

    def __del__(self) -> None:
        for user in getattr(self, "users", ()):
            user.forget(self._token)

    @property
    def token(self) -> int:
        """The number by which requests name the buffer."""
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

    def copy_on_device(self, source: VulkanBuffer, nbytes: int) -> None:
        """Copy the first ``nbytes`` bytes of another buffer to the beginning of this one."""
        size = -(-nbytes // 4) * 4  # whole words; both are padded
        try:
            program = self.native.create_program()
            program.copy(source.buffer, 0, self.buffer, 0, size)
            program.finish([], [])
            program.run([], [])
        except RuntimeError as error:
            raise self._gpu.failure(error) from error

    def _through_staging(self, host: np.ndarray, run: Callable[[_native.Program, _native.Buffer], None]) -> None:
        if host.nbytes > self.nbytes:
            raise bad_data(f"device memory of {self.nbytes} bytes can't exchange {host.nbytes}")
        with self._lock:
            try:
                staging = self.native.create_buffer(self.buffer.size, host_visible=True)
                run(self.native.create_program(), staging)
            except (MemoryError, RuntimeError) as error:
                raise self._gpu.failure(error) from error


class Buffers:
    """The buffers of a device, by their tokens. They belong to whoever allocated them."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._tokens = itertools.count(1)
        self._buffers: weakref.WeakValueDictionary[int, VulkanBuffer] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> VulkanBuffer:
        """Memory for one tensor. OUT_OF_MEMORY: it is too large to be allocated or bound."""
        most = self._gpu.profile.max_buffer
        if padded(nbytes) > most:
            raise NnapiError(ResultCode.OUT_OF_MEMORY, f"{self._gpu.name} binds at most {most} bytes, not {nbytes}")
        try:
            memory = VulkanBuffer(self._gpu, next(self._tokens), nbytes)
        except (MemoryError, RuntimeError) as error:
            raise self._gpu.failure(error) from error
        self._buffers[memory.token] = memory
        return memory

    def find(self, token: int) -> VulkanBuffer | None:
        """The buffer of this token, if it still exists."""
        return self._buffers.get(token)
