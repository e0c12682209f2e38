"""Packets of a SOCK_SEQPACKET socket pair between two processes, little-endian, with descriptors beside them.

A packet that is too long is a memfd, which the packet `INDIRECT` and its length stand for. Descriptors come with the
packet that speaks of them. Who reads trusts nothing: shared memory must be sealed against shrinking, and what can't be
understood is `Malformed`.
"""

from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

from nnvk.base.errors import NnapiError, ResultCode, system_error

INDIRECT = 0xFFFFFFFF
"""The value instead of a request's number or a result code if the packet is in a memfd. Its size, 8 bytes, follows."""
LARGEST_PACKET = 1 << 16
MOST_DESCRIPTORS = 4
"""The most descriptors of one packet."""
ALIGNMENT = 64
"""Bytes, from the packet's beginning, to which large data in a packet is aligned."""
Buffer = bytes | bytearray | memoryview
_INDIRECT = struct.Struct("<IQ")
_INDIRECT_MARK = struct.pack("<I", INDIRECT)
_ANCILLARY = socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)
_AT_LIMITS = {errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS}
_MOST_PARTS = os.sysconf("SC_IOV_MAX")
_U8, _U32, _I32, _U64 = (struct.Struct(f"<{code}") for code in "BIiQ")


class Malformed(ValueError):
    """A packet that does not follow the rules."""


class Reader:
    """Reads a packet from its beginning to its end."""

    def __init__(self, packet: memoryview, position: int = 0) -> None:
        self._packet = packet
        self._position = position
        self.session: Any = None
        self.descriptors = NO_DESCRIPTORS
        """The descriptors that came with a request. `session` has the objects that it names by their numbers."""

    def _take(self, form: struct.Struct) -> Any:
        return self.unpack(form)[0]

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """The fields of a structure."""
        try:
            values = form.unpack_from(self._packet, self._position)
        except struct.error:
            raise Malformed(f"the packet of {len(self._packet)} bytes ends too early") from None
        self._position += form.size
        return values

    def u8(self) -> int:
        """A byte."""
        return self._take(_U8)

    def u32(self) -> int:
        """An unsigned number of 32 bits."""
        return self._take(_U32)

    def i32(self) -> int:
        """A number of 32 bits."""
        return self._take(_I32)

    def u64(self) -> int:
        """An unsigned number of 64 bits."""
        return self._take(_U64)

    def bytes(self, length: int) -> memoryview:
        """Read this number of bytes as a view of the packet."""
        end = self._position + length
        if end > len(self._packet):
            raise Malformed(f"{length} bytes are announced, {len(self._packet) - self._position} come")
        found = self._packet[self._position : end]
        self._position = end
        return found

    def aligned(self, length: int) -> memoryview:
        """So many bytes, which begin at the next multiple of `ALIGNMENT`."""
        self._position += -self._position % ALIGNMENT
        return self.bytes(length)

    def string(self) -> str:
        """Text, or a path: its length, and as Python has names of files that are no UTF-8."""
        return os.fsdecode(bytes(self.bytes(self.u32())))

    def u32s(self) -> tuple[int, ...]:
        """Unsigned numbers of 32 bits: how many, and they."""
        count = self.u32()
        return struct.unpack(f"<{count}I", self.bytes(4 * count))

    def u64s(self) -> tuple[int, ...]:
        """Unsigned numbers of 64 bits: how many, and they."""
        count = self.u32()
        return struct.unpack(f"<{count}Q", self.bytes(8 * count))

    def rest(self) -> memoryview:
        """Read the rest of the packet."""
        return self.bytes(len(self._packet) - self._position)

    def end(self) -> None:
        """Malformed unless all was read."""
        if self._position != len(self._packet):
            raise Malformed(f"{len(self._packet) - self._position} bytes too many")


class Writer:
    """Makes a packet, which a `Reader` takes apart by the same names. Each method returns the writer."""

    def __init__(self, *numbers: int) -> None:
        """``numbers``: unsigned ones of 32 bits, to begin with."""
        self.parts: list[Buffer] = []
        """The parts of the packet. Large data is referred to until it is sent, not copied."""
        self.size = 0
        """Bytes."""
        for number in numbers:
            self.u32(number)

    def put(self, data: Buffer) -> Writer:
        """Bytes as they are."""
        self.parts.append(data)
        self.size += len(data)
        return self

    def u8(self, value: int) -> Writer:
        """A byte."""
        return self.put(_U8.pack(value))

    def u32(self, value: int) -> Writer:
        """An unsigned number of 32 bits."""
        return self.put(_U32.pack(value))

    def i32(self, value: int) -> Writer:
        """A number of 32 bits."""
        return self.put(_I32.pack(value))

    def u64(self, value: int) -> Writer:
        """An unsigned number of 64 bits."""
        return self.put(_U64.pack(value))

    def aligned(self, data: Buffer) -> Writer:
        """Bytes that begin at the next multiple of `ALIGNMENT`."""
        return self.put(bytes(-self.size % ALIGNMENT)).put(data)

    def string(self, value: str) -> Writer:
        """Text, or a path."""
        encoded = os.fsencode(value)
        return self.put(_U32.pack(len(encoded)) + encoded)

    def u64s(self, values: Sequence[int]) -> Writer:
        """Unsigned numbers of 64 bits, and before them how many."""
        return self.put(struct.pack(f"<I{len(values)}Q", len(values), *values))


class Descriptors:
    """The descriptors that came with a packet; those that nobody takes are closed."""

    def __init__(self, numbers: Sequence[int] = (), *, are_all: bool = True) -> None:
        self._numbers = list(numbers)
        self._are_all = are_all

    def take(self) -> int:
        """The next one, which the caller closes.

        Malformed: there is none left. RESOURCE_EXHAUSTED_TRANSIENT: there was no room for it in this process.
        """
        if not self._numbers and not self._are_all:
            raise NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "the process has no descriptors left")
        if not self._numbers:
            raise Malformed("a descriptor is missing")
        return self._numbers.pop(0)

    def close(self) -> None:
        """Close those that are left."""
        while self._numbers:
            os.close(self._numbers.pop())


NO_DESCRIPTORS = Descriptors()


def limit_waits(target: socket.socket, seconds: float) -> None:
    """Have sends and receives raise `BlockingIOError` after some time: what Python's timeouts cost more calls for."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    target.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    target.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def receive(source: socket.socket) -> tuple[memoryview, Descriptors] | None:
    """The next packet; None: the other end is closed.

    A packet that lies in a memfd which can't be used is Malformed, or an `NnapiError` where this process is at its
    limits; the next packet can be received. OSError: the socket fails; `BlockingIOError`: the time of `limit_waits` has
    passed.
    """
    try:
        content, ancillary, flags, _ = source.recvmsg(LARGEST_PACKET, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    if not content and not ancillary:
        return None
    packet = memoryview(content)
    if not ancillary and not flags & socket.MSG_CTRUNC and not content.startswith(_INDIRECT_MARK):
        return packet, NO_DESCRIPTORS
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    descriptors = Descriptors(numbers, are_all=not flags & socket.MSG_CTRUNC)
    if content.startswith(_INDIRECT_MARK):
        try:
            packet = _mapped(packet, descriptors)
        except BaseException:
            descriptors.close()
            raise
    return packet, descriptors


def _mapped(packet: memoryview, descriptors: Descriptors) -> memoryview:
    """A packet that lies in shared memory, which stays as long as something refers to it."""
    try:
        _, size = _INDIRECT.unpack(packet)
    except struct.error as error:
        raise Malformed(str(error)) from None
    descriptor = descriptors.take()
    try:
        return memoryview(map_sealed(descriptor, size, is_writable=False))
    finally:
        os.close(descriptor)


def send(target: socket.socket, parts: Sequence[Buffer], descriptors: Sequence[int] = ()) -> None:
    """Send a packet; the descriptors stay the caller's.

    OSError: the other end is closed, say; `NnapiError`: this process is at its limits, and nothing was sent.
    """
    try:
        _send(target, parts, descriptors)
    except OSError as error:
        if error.errno in _AT_LIMITS:
            raise system_error("a packet can't be sent", error) from error
        raise


def _send(target: socket.socket, parts: Sequence[Buffer], descriptors: Sequence[int]) -> None:
    if len(parts) == 1 and not descriptors and len(parts[0]) <= LARGEST_PACKET:
        target.send(parts[0])
        return
    size = sum(map(len, parts))
    if size <= LARGEST_PACKET and not descriptors:
        target.send(b"".join(parts))
    elif size <= LARGEST_PACKET:
        target.sendmsg([b"".join(parts)], _rights(descriptors))
    else:
        memory = _shared(parts)
        try:
            target.sendmsg([_INDIRECT.pack(INDIRECT, size)], _rights([memory, *descriptors]))
        finally:
            os.close(memory)


def _rights(descriptors: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def _shared(parts: Sequence[Buffer]) -> int:
    """A sealed memfd with a packet. `NnapiError`: there is no descriptor or no memory for it."""
    what = f"a packet of {sum(map(len, parts))} bytes"
    try:
        descriptor = os.memfd_create("nnvk-packet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise system_error(what, error) from error
    try:
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            written = os.writev(descriptor, left[:_MOST_PARTS])
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise system_error(what, error) from error
        raise
    return descriptor


def map_sealed(descriptor: int, size: int, *, is_writable: bool = True) -> mmap.mmap:
    """Map a memfd that can't shrink under one's hands.

    Malformed: it can, or is too small. `NnapiError`: there is no descriptor or no room for the mapping.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise Malformed(f"the descriptor is of no shared memory: {error}") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise Malformed("the shared memory is not sealed against shrinking")
    if not 0 < size <= os.fstat(descriptor).st_size:
        raise Malformed(f"the shared memory has not the {size} bytes that were announced")
    try:
        if is_writable:
            return mmap.mmap(descriptor, size, mmap.MAP_SHARED)
        return mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
    except OSError as error:  # mmap duplicates the descriptor
        raise system_error(f"{size} bytes of shared memory can't be mapped", error) from error
