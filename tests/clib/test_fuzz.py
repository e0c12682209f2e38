"""Hostile and broken messages: the server answers with an error, or ends the lane, and goes on."""

from __future__ import annotations

import array
import fcntl
import os
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import nnvk
from nnvk import OperandCode, ResultCode
from nnvk.base.lanes import GREETING, LaneRequest, Session
from nnvk.base.packets import ALIGNMENT, INDIRECT, LARGEST_PACKET, Descriptors
from nnvk.serve.functions import FUNCTIONS
from nnvk.serve.protocol import REQUESTS, Request, fingerprint
from nnvk.serve.requests import handlers

NUMBERS = {row.name.removeprefix("ANeuralNetworks"): number for number, row in enumerate(FUNCTIONS)}
SEEDS = range(int(os.environ.get("NNVK_TEST_SEEDS", "40")))
ODD = (0, 1, 2, 3, 7, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def packet(name: str, *parts: bytes) -> bytes:
    return struct.pack("<I", NUMBERS[name]) + b"".join(parts)


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def data(before: bytes, content: bytes) -> bytes:
    """A packet that ends with data."""
    head = before + b"\1" + u64(len(content))
    return head + bytes(-len(head) % ALIGNMENT) + content


def conversation() -> list[bytes]:
    """Return the packets with which the library builds, compiles and sets up `output = input + input`."""
    tensor = b"\1" + struct.pack("<ifi", OperandCode.TENSOR_FLOAT32, 0.0, 0) + u32(1, 6)
    scalar = b"\1" + struct.pack("<ifi", OperandCode.INT32, 0.0, 0) + u32(0)
    device = b"nnapi-reference"
    return [
        packet("Model_create", u64(1)),
        packet("Model_addOperand", u64(1), tensor),
        packet("Model_addOperand", u64(1), scalar),
        packet("Model_addOperand", u64(1), tensor),
        data(packet("Model_setOperandValue", u64(1), u32(1)), bytes(4)),
        packet("Model_addOperation", u64(1), u32(0), u32(3, 0, 0, 1), u32(1, 2)),
        packet("Model_identifyInputsAndOutputs", u64(1), u32(1, 0), u32(1, 2)),
        packet("Model_finish", u64(1)),
        packet("Compilation_createForDevices", u64(1), u32(1, len(device)), device, u64(2)),
        packet("Compilation_finish", u64(2)),
        packet("Burst_create", u64(2), u64(3)),
        packet("MemoryDesc_create", u64(4)),
        packet("MemoryDesc_addInputRole", u64(4), u64(2), u32(0), struct.pack("<f", 1)),
        packet("MemoryDesc_finish", u64(4)),
        packet("Memory_createFromDesc", u64(4), u64(5)),
        packet("Execution_create", u64(2), u64(6)),
        packet("Execution_setInputFromMemory", u64(6), u32(0), b"\0", u64(5, 0, 0)),
        packet("Execution_setInput", u64(6), u32(0), b"\0\1", u32(1), u64(0, 24)),
        packet("Execution_setOutput", u64(6), u32(0), b"\0\1", u32(1), u64(64, 24)),
        packet("Execution_compute", u64(6)),
        packet("Execution_getDuration", u64(6), u32(0)),
        packet("Execution_getOutputOperandDimensions", u64(6), u32(0)),
        packet("Execution_startComputeWithDependencies", u64(6, 7, 0), u32(0), b"\0"),
    ]


def mutated(generator: random.Random, original: bytes) -> bytes:
    """The packet with something wrong: bytes, a number, its length, or the request."""
    changed = bytearray(original)
    for _ in range(generator.randint(1, 3)):
        kind, place = generator.randrange(6), generator.randrange(4, max(5, len(changed)))
        if kind == 0:
            del changed[place:]
        elif kind == 1:
            changed += generator.randbytes(generator.randint(1, 9))
        elif kind == 2 and place < len(changed):
            changed[place] = generator.randrange(256)
        elif kind == 3:
            changed[place : place + 4] = u32(generator.choice(ODD) % 2**32)
        elif kind == 4:
            changed[place : place + 8] = u64(generator.choice(ODD))
        else:
            changed[:4] = u32(generator.choice([*NUMBERS.values(), *REQUESTS, generator.randrange(2**32)]))
    return bytes(changed)


def answer(session: Session, request: bytes) -> int:
    """The result code."""
    reply = session.answer(memoryview(request), Descriptors())
    (code,) = struct.unpack_from("<i", reply.content)
    if reply.then is not None:
        reply.then()
    return ResultCode(code)


def new_session() -> Session:
    return Session(handlers(), segments={1: memoryview(bytearray(4096))})


def test_the_conversation_is_understood() -> None:
    session = new_session()
    codes = [answer(session, request) for request in conversation()]
    assert codes == [ResultCode.NO_ERROR] * (len(codes) - 1) + [ResultCode.BAD_STATE]  # it is not reusable


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_packets(seed: int) -> None:
    """Each packet, damaged, at its place in the conversation: an answer comes, and the session goes on."""
    generator = random.Random(seed)
    session = new_session()
    for request in conversation():
        for _ in range(3):
            answer(session, mutated(generator, request))
        answer(session, request)
    assert answer(session, packet("Model_create", u64(10**12))) is ResultCode.NO_ERROR


@pytest.mark.parametrize("seed", SEEDS)
def test_random_packets(seed: int) -> None:
    generator = random.Random(seed)
    session = new_session()
    for _ in range(200):
        number = generator.choice([*NUMBERS.values(), *REQUESTS])
        parts = [u64(generator.choice(ODD)) if generator.random() < 0.7 else generator.randbytes(3) for _ in range(6)]
        answer(session, u32(number) + b"".join(parts[: generator.randrange(7)]))
    assert answer(session, b"") is ResultCode.BAD_DATA


# --- a server's sockets ---


@dataclass
class Served:
    """A server, and the library's end of its control socket."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def lane(self) -> socket.socket:
        """A new lane."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        send(self.control, u32(LaneRequest.LANE), its.fileno())
        its.close()
        mine.settimeout(30)
        return mine

    def works(self) -> bool:
        """Whether it still answers."""
        with self.lane() as lane:
            lane.send(u32(Request.DEVICES))
            return lane.recv(LARGEST_PACKET)[:4] == bytes(4)


def send(target: socket.socket, content: bytes, *descriptors: int) -> None:
    target.sendmsg([content], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    root = Path(nnvk.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "nnvk.cli", "serve", "--socket", str(its.fileno())],
        pass_fds=[its.fileno()],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd="/",  # not in the source tree, whose package would hide the installed one
    )
    its.close()
    mine.settimeout(100)
    assert GREETING.unpack(mine.recv(64)) == (fingerprint(), 0, process.pid)
    yield Served(process, mine)
    mine.close()
    assert process.wait(30) in (0, -14)  # SIGALRM: what was under way did not end


def memfd(size: int, *, sealed: bool) -> int:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    if sealed:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def test_garbage_on_the_control_socket(served: Served) -> None:
    generator = random.Random(1)
    read, write = os.pipe()
    for content in (
        b"\0",
        u32(LaneRequest.LANE),
        u32(LaneRequest.RELEASE) + u32(2**32 - 1),
        u32(INDIRECT),
        u32(INDIRECT) + u64(9),
    ):
        served.control.send(content)
        send(served.control, content, read, write)
        send(served.control, content, *[read] * 20)
    for _ in range(200):
        served.control.send(generator.randbytes(generator.randint(1, 99)))
    os.close(read)
    os.close(write)
    assert served.works()


def test_garbage_on_a_lane(served: Served) -> None:
    generator = random.Random(2)
    with served.lane() as lane:
        for _ in range(200):
            lane.send(generator.randbytes(generator.randint(1, 99)))
            assert len(lane.recv(LARGEST_PACKET)) >= 8
    assert served.works()


@pytest.mark.parametrize("sealed, size, announced", [(False, 4096, 4096), (True, 4096, 4097), (True, 4096, 0)])
def test_shared_memory_that_can_not_be_trusted(served: Served, sealed: bool, size: int, announced: int) -> None:
    """As a segment, and as a packet: it could shrink, or is too small."""
    descriptor = memfd(size, sealed=sealed)
    with served.lane() as lane:
        for content in (u32(LaneRequest.MAP, 77) + u64(announced), u32(INDIRECT) + u64(announced)):
            send(lane, content, descriptor)
            assert struct.unpack_from("<i", lane.recv(LARGEST_PACKET)) == (ResultCode.BAD_DATA,)
    os.close(descriptor)
    assert served.works()


def test_descriptors_that_nobody_takes_are_closed(served: Served) -> None:
    folder = Path(f"/proc/{served.process.pid}/fd")
    read, write = os.pipe()
    with served.lane() as lane:

        def ask(count: int) -> int:
            for _ in range(count):
                send(lane, u32(Request.DEVICES), read, read, read)
                lane.recv(LARGEST_PACKET)
                send(served.control, u32(LaneRequest.LANE), write, write)
            return len(list(folder.iterdir()))

        before = ask(2)
        assert ask(50) <= before + 2
    os.close(read)
    os.close(write)
    assert served.works()


def test_many_lanes(served: Served) -> None:
    lanes = [served.lane() for _ in range(100)]
    for lane in lanes:
        lane.send(u32(Request.DEVICES))
    for lane in lanes:
        assert lane.recv(LARGEST_PACKET)[:4] == bytes(4)
        lane.close()
    assert served.works()
