"""Values of operands between the segments of a program: in the host's memory, on the device, or both."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from nnvk.base import forks
from nnvk.driver.vulkan.running.buffer import Buffers, VulkanBuffer
from nnvk.types.constant import Constant
from nnvk.types.operand import OperandType, Shape

MOST_IDLE_BYTES = 64 << 20
"""Bytes of idle buffers that a pool may keep."""


class BufferPool:
    """Buffers for results of a program's segments. They are reused, because recordings refer to them."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without buffers; a forked child cannot use those of its parent."""
        self._idle: OrderedDict[VulkanBuffer, tuple[Hashable, int]] = OrderedDict()  # the longest idle ones first
        self._idle_bytes = 0

    def take(self, use: Hashable, nbytes: int) -> VulkanBuffer:
        """A buffer for one use, if possible one that had the same use before."""
        key = use, nbytes
        with self._lock:
            found = next((buffer for buffer, of in self._idle.items() if of == key), None)
            if found is not None:
                del self._idle[found]
                self._idle_bytes -= nbytes
                return found
        return self._buffers.allocate(nbytes)

    def put(self, use: Hashable, buffer: VulkanBuffer) -> None:
        """Give back a buffer that the device no longer uses."""
        dropped = []
        with self._lock:
            self._idle[buffer] = use, buffer.nbytes
            self._idle_bytes += buffer.nbytes
            while self._idle_bytes > MOST_IDLE_BYTES:
                oldest, _ = self._idle.popitem(last=False)
                self._idle_bytes -= oldest.nbytes
                dropped.append(oldest)
        del dropped  # outside of the lock: what was recorded on them goes too


class Lease:
    """A buffer that is in use as long as this object is referenced."""

    __slots__ = ("__weakref__", "buffer")

    def __init__(self, buffer: VulkanBuffer) -> None:
        self.buffer = buffer


class Leases:
    """The leases of one execution. The buffers return to the pool when the device has finished with them."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._uses: dict[weakref.ref[Lease], tuple[Hashable, VulkanBuffer]] = {}
        self._left: list[weakref.ref[Lease]] = []

    def take(self, use: Hashable, nbytes: int) -> Lease:
        """Lease a buffer for one use."""
        buffer = self._pool.take(use, nbytes)
        lease = Lease(buffer)
        self._uses[weakref.ref(lease, self._left.append)] = use, buffer
        return lease

    def give_back(self, *, everything: bool = False) -> None:
        """Give back unreferenced buffers, or all buffers. The device must have finished with them."""
        if everything:
            self._left = list(self._uses)
        while self._left:
            self._pool.put(*self._uses.pop(self._left.pop()))

    def forget(self) -> None:
        """Give nothing back: the device may still be using it."""
        self._uses.clear()
        self._left.clear()


class Value:
    """The value of an operand while a program runs."""

    __slots__ = ("buffer", "host", "lease", "shape", "type")

    def __init__(
        self,
        type: OperandType,
        shape: Shape,
        host: Constant | None = None,
        buffer: VulkanBuffer | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.type = type
        self.shape = shape
        """Actual dimensions."""
        self.host = host
        """The elements, if the host has them."""
        self.buffer = lease.buffer if lease is not None else buffer
        """The elements on the device, if they are there; the buffer may be larger."""
        self.lease = lease
        """The lease of the buffer, if the program owns it."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.type.dtype.itemsize
