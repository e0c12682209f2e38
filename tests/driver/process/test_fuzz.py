"""Broken packets to a driver's process: an answer comes, and it goes on."""

from __future__ import annotations

import os
import random
import struct

import numpy as np
import pytest
from samples import add_model

from nnvk.base.lanes import LaneRequest, Session, read_head
from nnvk.base.packets import Descriptors, Writer
from nnvk.driver.cpu import CpuDevice
from nnvk.driver.process import protocol
from nnvk.driver.process.host import new_session
from nnvk.types.request import ExecuteOptions, PrepareOptions

SEEDS = range(int(os.environ.get("NNVK_TEST_SEEDS", "40")))
ODD = (0, 1, 2, 3, 7, 64, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def conversation() -> list[bytes]:
    """Return packets that prepare, bind and execute output = input 0 + input 1 in every way."""
    device, model, given = "nnapi-reference", add_model().frozen, ExecuteOptions(loop_timeout_ns=10**9)
    place, array = (1, 0, 16), np.zeros((2, 2), np.float32)
    inputs = [((array, (1, offset, 16)), 0, ()) for offset in (0, 64)]
    writers = [
        protocol.DEVICES.request(),
        protocol.SUPPORT.request(device, model),
        protocol.PREPARE.request(device, model, PrepareOptions(), 1),
        protocol.ALLOCATE.request(device, model.input_types()[0], (2, 2), 2),
        protocol.BIND.request(1, inputs, [((1, 128, 16), 0, False)], 3),
        protocol.BURST.request(1, 4),
        protocol.EXECUTE.request((3, None, given)),
        protocol.EXECUTE.request((3, 4, given)),
        protocol.EXECUTE_FENCED.request((3, None, given), (), 5),
        protocol.EXPORT.request(5),
        protocol.COPY_FROM.request(2, place),
        protocol.COPY_TO.request(2, place),
        protocol.WAIT.request(device),
        protocol.MEMORY_BYTES.request(1),
        protocol.SHARED_MEMORY.request(1),
        Writer(LaneRequest.PING),
    ]
    return [b"".join(writer.parts) for writer in writers]


def opened() -> Session:
    session = new_session([CpuDevice()], "")
    session.segments[1] = memoryview(bytearray(4096))
    return session


def answer(session: Session, request: bytes) -> int:
    """The result code."""
    reply = session.answer(memoryview(request), Descriptors())
    if reply.then is not None:
        reply.then()
    code, _, _ = read_head(memoryview(reply.content))
    return code


def test_the_conversation_is_understood() -> None:
    session = opened()
    assert [answer(session, request) for request in conversation()] == [0] * len(conversation())


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_packets(seed: int) -> None:
    """Each one at its place in the conversation."""
    generator, session = random.Random(seed), opened()
    for request in conversation():
        for _ in range(5):
            damaged = bytearray(request)
            place = generator.randrange(4, max(5, len(damaged)))
            kind = generator.randrange(4)
            if kind == 0:
                del damaged[place:]
            elif kind == 1:
                damaged += generator.randbytes(generator.randint(1, 9))
            elif kind == 2:
                damaged[place : place + 1] = generator.randbytes(1)
            else:
                damaged[place : place + 8] = struct.pack("<Q", generator.choice(ODD))
            answer(session, bytes(damaged))
        answer(session, request)
    assert answer(session, conversation()[0]) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_random_packets(seed: int) -> None:
    generator, session = random.Random(seed), opened()
    for _ in range(200):
        content = struct.pack("<I", generator.choice([*(row.number for row in protocol.ROWS), *LaneRequest]))
        for _ in range(generator.randrange(7)):
            content += struct.pack("<Q", generator.choice(ODD)) if generator.random() < 0.7 else generator.randbytes(3)
        answer(session, content)
    assert answer(session, conversation()[0]) == 0
