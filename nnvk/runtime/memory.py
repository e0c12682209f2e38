"""Memory that models and executions read and write in place of plain buffers."""

from __future__ import annotations

import mmap
import os

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data


class Memory:
    """A shared memory region (``ANeuralNetworksMemory``)."""

    def __init__(self, region: np.ndarray) -> None:
        self._region = region

    @classmethod
    def create_from_fd(cls, size: int, protection: int, fd: int, offset: int = 0) -> Memory:
        """Map ``size`` bytes of a file (``ANeuralNetworksMemory_createFromFd``).

        ``protection`` is ``mmap.PROT_READ``, ``mmap.PROT_WRITE`` or both. The descriptor may be closed afterwards.
        Raises BAD_DATA for a size, an offset or a protection that can't be, UNMAPPABLE where mapping fails.
        """
        if size <= 0 or offset < 0:
            raise bad_data(f"size must be positive and offset not negative, got {size} and {offset}")
        if protection & ~(mmap.PROT_READ | mmap.PROT_WRITE) or not protection:
            raise bad_data(f"protection must be PROT_READ, PROT_WRITE or both, got {protection}")
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        try:
            available = os.fstat(fd).st_size
            if offset + size > available:
                raise bad_data(f"bytes {offset} to {offset + size} lie outside a file of {available} bytes")
            mapped = mmap.mmap(fd, offset - start + size, mmap.MAP_SHARED, protection, offset=start)
        except (OSError, ValueError) as error:
            raise NnapiError(ResultCode.UNMAPPABLE, f"file descriptor {fd} can't be mapped: {error}") from error
        return cls(np.frombuffer(mapped, np.uint8)[offset - start :])

    @property
    def size(self) -> int:
        """Bytes."""
        return self._region.nbytes

    def slice(self, offset: int, length: int) -> np.ndarray:
        """Bytes of the region as a flat uint8 array (a view). BAD_DATA where they lie outside."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise bad_data(f"bytes {offset} to {offset + length} lie outside a memory of {self.size} bytes")
        return self._region[offset : offset + length]
