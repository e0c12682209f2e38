"""Memory that models and executions read and write in place of plain buffers."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Protocol, runtime_checkable

import numpy as np

from nnvk.base.checks import LARGEST_DESCRIPTOR, instance, shown, whole
from nnvk.base.errors import NnapiError, ResultCode, bad_data, driving, system_error
from nnvk.base.pinned import Pinned
from nnvk.types.operand import OperandType, Shape

_MOST_BYTES = 2**63 - 1
"""The limit of lengths and offsets of files and memory."""


@runtime_checkable
class Description(Protocol):
    """The description that memory can be made for: a `MemoryDesc`."""

    def create_memory(self) -> Memory:
        """The memory."""
        ...


class HardwareBuffer(Pinned):
    """Shared memory of the BLOB format, in the place of Android's ``AHardwareBuffer``: a memfd.

    Its size is sealed: a process that it is shared with can't truncate it, which would kill all that touch it.
    """

    def __init__(self, size: int) -> None:
        self.size = whole("the size", size, most=_MOST_BYTES)
        if self.size <= 0:
            raise bad_data(f"the size must be positive, got {size}")
        what = f"a hardware buffer of {size} bytes"
        try:
            fd = os.memfd_create("nnvk-hardware-buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            raise system_error(what, error) from error
        try:
            os.ftruncate(fd, self.size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self._mapped = mmap.mmap(fd, self.size)
        except OSError as error:
            os.close(fd)
            raise system_error(what, error, ResultCode.OUT_OF_MEMORY) from error
        self._fd = fd

    def lock(self) -> np.ndarray:
        """The bytes, as a flat uint8 array that others see change (``AHardwareBuffer_lock``)."""
        return np.frombuffer(self._mapped, np.uint8)

    def fileno(self) -> int:
        """The descriptor, to share it with another process."""
        return self._fd

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class Memory(Pinned):
    """A memory region (``ANeuralNetworksMemory``); make one with the ``create_`` methods."""

    def __init__(self, region: np.ndarray, *, is_readable: bool = True) -> None:
        self._region = region
        self._is_readable = is_readable

    @classmethod
    def create_from_fd(cls, size: int, protect: int, fd: int, offset: int = 0) -> Memory:
        """Map ``size`` bytes of a file (``ANeuralNetworksMemory_createFromFd``).

        ``protect`` is ``mmap.PROT_READ``, ``mmap.PROT_WRITE``, both, or 0 for memory that nothing can be done with;
        ``offset`` is a multiple of the page size. The descriptor may be closed afterwards. The file must not shrink
        while the memory is there: a touch of what is gone kills the process (SIGBUS). Where others might, give a memfd
        sealed with F_SEAL_SHRINK, or a `HardwareBuffer`. BAD_DATA: size, offset or protection can't be; UNMAPPABLE: it
        can't be mapped.
        """
        size, offset = whole("size", size, most=_MOST_BYTES), whole("offset", offset, most=_MOST_BYTES)
        protect, fd = whole("protect", protect), whole("fd", fd, -LARGEST_DESCRIPTOR, LARGEST_DESCRIPTOR)
        if size <= 0 or offset < 0 or offset % mmap.ALLOCATIONGRANULARITY:
            raise bad_data(f"size must be positive and offset a multiple of the page size, got {size} and {offset}")
        if protect & ~(mmap.PROT_READ | mmap.PROT_WRITE):
            raise bad_data(f"protect must be made of PROT_READ and PROT_WRITE, got {protect}")
        try:
            available = os.fstat(fd).st_size
            if offset + size > available:
                raise bad_data(f"bytes {offset} to {offset + size} lie outside a file of {available} bytes")
            mapped = mmap.mmap(fd, size, mmap.MAP_SHARED, protect or mmap.PROT_READ, offset=offset)
        except OSError as error:
            raise system_error(f"file descriptor {fd} can't be mapped", error, ResultCode.UNMAPPABLE) from error
        return cls(np.frombuffer(mapped, np.uint8), is_readable=bool(protect))

    @classmethod
    def create_from_hardware_buffer(cls, buffer: HardwareBuffer) -> Memory:
        """Share a hardware buffer's bytes (``ANeuralNetworksMemory_createFromAHardwareBuffer``)."""
        return cls(instance("the buffer", buffer, HardwareBuffer).lock())

    @classmethod
    def create_from_desc(cls, desc: Description) -> Memory:
        """Memory for the roles of a `MemoryDesc` (``ANeuralNetworksMemory_createFromDesc``), see `DeviceMemory`.

        BAD_STATE: the descriptor is not finished. OP_FAILED: its dimensions are not fully specified.
        """
        if not isinstance(desc, Description):
            raise TypeError(f"the descriptor must be a nnvk.MemoryDesc, got {shown(desc)}")
        return desc.create_memory()

    @staticmethod
    def copy(source: Memory, target: Memory) -> None:
        """Copy the content of one memory to another of the same size (``ANeuralNetworksMemory_copy``).

        BAD_DATA: sizes or dimensions differ, or the source is device memory that nothing was written to. Device
        memory as target counts as written to exactly if the copy has succeeded.
        """
        for what, memory in (("the source", source), ("the target", target)):
            instance(what, memory, Memory)
        try:
            with driving(f"{source.size} bytes can't be copied"):
                _check_copy(source, target)
                target.write(source.read())
        except NnapiError:
            target.set_initialized(False)
            raise
        target.set_initialized(True)

    @property
    def dimensions(self) -> Shape:
        """The shape of the tensor that it holds; shared memory has none."""
        return ()

    @property
    def is_initialized(self) -> bool:
        """Whether the memory is initialised. Shared memory always is."""
        return True

    def set_initialized(self, initialized: bool) -> None:
        """Set whether the memory is initialised. Shared memory ignores this."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._region.nbytes

    def slice(self, offset: int, length: int) -> np.ndarray:
        """Bytes of the region as a flat uint8 array (a view). BAD_DATA where they lie outside or can't be read."""
        self._check_readable()
        offset, length = whole("the offset", offset), whole("the length", length)
        if offset < 0 or length < 0 or offset + length > self.size:
            raise bad_data(f"bytes {offset} to {offset + length} lie outside a memory of {self.size} bytes")
        return self._region[offset : offset + length]

    def read(self) -> np.ndarray:
        """The content, flat uint8. BAD_DATA: it can't be read."""
        self._check_readable()
        return self._region

    def write(self, content: np.ndarray) -> None:
        """Replace the content by as many bytes. BAD_DATA: it can't be written."""
        if not self._region.flags.writeable:
            raise bad_data("the target memory can't be written")
        self._region[:] = content

    def _check_readable(self) -> None:
        if not self._is_readable:
            raise bad_data("the memory is mapped without protection flags, nothing can read it")


def _check_copy(source: Memory, target: Memory) -> None:
    if not source.is_initialized:
        raise bad_data("the source memory is not initialised")
    if source.dimensions and target.dimensions and source.dimensions != target.dimensions:
        raise bad_data(f"source has dimensions {list(source.dimensions)}, target {list(target.dimensions)}")
    if source.size != target.size:
        raise bad_data(f"source has {source.size} bytes, target {target.size}")


def check_aligned(what: str, type_: OperandType, offset: int) -> None:
    """Raise BAD_DATA unless what lies at ``offset`` of a memory begins at a multiple of its elements' size."""
    if offset % type_.dtype.itemsize:
        raise bad_data(f"{what}: offset {offset} must be a multiple of the {type_.dtype.itemsize} bytes of an element")
