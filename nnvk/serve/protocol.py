"""What passes between the C library and its server: packets of a SOCK_SEQPACKET socket pair, little-endian.

A request is a number (of a row of `nnvk.serve.functions`, or a `Request`), and what belongs to it. A reply is a result
code, the length of a reason and the reason, and what belongs to it. A packet that is too long is a memfd, which the
packet `INDIRECT` and its length stand for. Descriptors come with the packet that speaks of them.

Objects have numbers, which the library gives them. A socket, called a lane, has one request under way at a time; the
first one, which the library starts the server with, is for control: greetings, lanes, and what is released.
"""

from __future__ import annotations

import os
import struct
import zlib
from enum import IntEnum
from typing import Any

from nnvk.serve.extensions import ALL_FUNCTIONS

INDIRECT = 0xFFFFFFFF
"""In the place of a request's number, or a result code: the packet is in a memfd. Its size, 8 bytes, follows."""
LARGEST_PACKET = 1 << 16
MOST_DESCRIPTORS = 4
"""That come with one packet."""
ALIGNMENT = 64
"""Bytes, from the packet's beginning, to which large data in a packet is aligned."""


class Request(IntEnum):
    """What is asked beside the functions of the table."""

    LANE = 1000
    """Control: serve the socket that comes with it."""
    RELEASE = 1001
    """Control, without a reply: forget objects."""
    MAP = 1002
    """A segment of shared memory for the arguments of executions: number, size; the memfd comes with it."""
    UNMAP = 1003
    DEVICES = 1004
    """Name, version, kind, feature level and extensions of each device."""
    MEMORY = 1005
    """A memory of a descriptor: number, size, protection, offset."""
    FENCE = 1006
    """An event of a sync fence of somebody else: its number."""
    TFLITE_OPTIONS = 1007
    """The delegate: how many bytes of the structure of a builtin's options are read."""
    TFLITE_EXAMINE = 1008
    """The delegate: of each operator of a graph, why it can't be taken; empty where it can."""
    TFLITE_MODEL = 1009
    """The delegate: a model of a partition. Its number, whether it is relaxed, whether a token for a cache is wanted,
    the graph. What comes back: variable tensors; of all inputs and outputs the bytes and the shape; the token."""


class Malformed(ValueError):
    """A packet that does not follow the rules."""


class Reader:
    """Reads a packet from its beginning to its end."""

    def __init__(self, packet: memoryview, position: int = 0) -> None:
        self._packet = packet
        self._position = position

    def _take(self, form: struct.Struct) -> Any:
        try:
            (value,) = form.unpack_from(self._packet, self._position)
        except struct.error:
            raise Malformed(f"the packet of {len(self._packet)} bytes ends too early") from None
        self._position += form.size
        return value

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

    def f32(self) -> float:
        """A float of 32 bits."""
        return self._take(_F32)

    def bytes(self, length: int) -> memoryview:
        """So many bytes, as they lie in the packet."""
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

    def f32s(self) -> tuple[float, ...]:
        """Floats of 32 bits: how many, and they."""
        count = self.u32()
        return struct.unpack(f"<{count}f", self.bytes(4 * count))

    def u64s(self) -> tuple[int, ...]:
        """Unsigned numbers of 64 bits: how many, and they."""
        count = self.u32()
        return struct.unpack(f"<{count}Q", self.bytes(8 * count))

    def end(self) -> None:
        """Malformed unless all was read."""
        if self._position != len(self._packet):
            raise Malformed(f"{len(self._packet) - self._position} bytes too many")


_U8, _U32, _I32, _U64, _F32 = (struct.Struct(f"<{code}") for code in "BIiQf")


def text(value: str) -> bytes:
    """What `Reader.string` reads."""
    encoded = os.fsencode(value)
    return _U32.pack(len(encoded)) + encoded


def fingerprint() -> int:
    """What library and server must agree on: another table or other numbers give another one."""
    described = [f"{function.prototype} {function.by.value}" for function in ALL_FUNCTIONS]
    described += [repr(request) for request in Request]
    return zlib.crc32("\n".join(described).encode())
