"""Lanes at the limits of the operating system."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from descriptors import limited

from nnvk import ResultCode
from nnvk.base.lanes import SUCCESS, LaneRequest, Reply, Session, _serve_lane, failure, read_head
from nnvk.base.packets import INDIRECT, LARGEST_PACKET, Malformed, receive, send

LARGE = bytes(2 * LARGEST_PACKET)
ECHO, MUCH = 1, 2


@pytest.fixture
def lane() -> Iterator[socket.socket]:
    """A lane of a session in this process that answers how long a packet was, and with a large one."""

    def echo(reader) -> Reply:
        return Reply(SUCCESS + struct.pack("<Q", len(reader.rest())))

    session = Session({ECHO: echo, MUCH: lambda *_: Reply(SUCCESS + LARGE)})
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.settimeout(30)
    thread = threading.Thread(target=_serve_lane, args=(session, its))
    thread.start()
    yield mine
    mine.close()
    thread.join(30)


def ask(lane: socket.socket, *parts: bytes) -> tuple[int, str, int]:
    """The code of the answer, its reason, and how many bytes belong to it."""
    send(lane, parts)
    received = receive(lane)
    assert received is not None
    code, reason, reader = read_head(received[0])
    return code, reason, len(reader.rest())


def settle(lane: socket.socket) -> None:
    """Wait until the session has closed the descriptors of earlier packets: it does so before it reads the next one."""
    assert ask(lane, struct.pack("<I", ECHO)) == (0, "", 8)


def test_a_packet_that_can_not_be_mapped(lane: socket.socket) -> None:
    """It is received where there is no descriptor for it; the answer says so, and the next one is received."""
    assert ask(lane, struct.pack("<I", ECHO), LARGE) == (0, "", 8)
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(memory, LARGE)
    indirect = struct.pack("<IQ", INDIRECT, len(LARGE))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))]
    settle(lane)
    with limited(0):
        lane.sendmsg([indirect], rights)
        received = receive(lane)
    assert received is not None
    code, reason, _ = read_head(received[0])
    assert (code, reason) == (ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, "the process has no descriptors left")
    lane.sendmsg([indirect], rights)  # it could shrink
    received = receive(lane)
    assert received is not None
    assert read_head(received[0])[0] == ResultCode.BAD_DATA
    os.close(memory)
    assert ask(lane, struct.pack("<I", ECHO), LARGE) == (0, "", 8)


def test_a_reply_that_there_is_no_descriptor_for(lane: socket.socket) -> None:
    assert ask(lane, struct.pack("<I", MUCH)) == (0, "", len(LARGE))
    settle(lane)
    with limited(0):
        code, reason, _ = ask(lane, struct.pack("<I", MUCH))
    assert code == ResultCode.RESOURCE_EXHAUSTED_TRANSIENT and "Too many open files" in reason
    assert ask(lane, struct.pack("<I", MUCH)) == (0, "", len(LARGE))


def test_shared_memory_that_can_not_be_mapped_for_want_of_a_descriptor(lane: socket.socket) -> None:
    """A mapping has a descriptor of its own."""
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, 4096)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    codes = []
    for count in (0, 1, 2):  # the second is the one that is received
        with limited(count):
            send(lane, [struct.pack("<IIQ", LaneRequest.MAP, 1, 4096)], [memory])
            received = receive(lane)
        assert received is not None
        codes.append(read_head(received[0])[0])
    os.close(memory)
    exhausted = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    assert codes == [exhausted, exhausted, ResultCode.NO_ERROR]


@pytest.mark.parametrize(
    ("number", "code"),
    [(24, ResultCode.RESOURCE_EXHAUSTED_TRANSIENT), (12, ResultCode.OUT_OF_MEMORY), (5, ResultCode.OP_FAILED)],
)
def test_errors_of_the_system_have_their_codes(number: int, code: ResultCode) -> None:
    assert struct.unpack_from("<i", failure(OSError(number, os.strerror(number)))) == (code,)
    assert struct.unpack_from("<i", failure(Malformed("nonsense"))) == (ResultCode.BAD_DATA,)
