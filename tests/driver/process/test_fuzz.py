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
from nnvk.driver.process.encoding import write_prepare_options
from nnvk.driver.process.host import new_session
from nnvk.driver.process.protocol import EXECUTE, Request
from nnvk.types.encoding import write_dtype, write_model, write_type
from nnvk.types.request import PrepareOptions

SEEDS = range(int(os.environ.get("NNVK_TEST_SEEDS", "40")))
ODD = (0, 1, 2, 3, 7, 64, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def conversation() -> list[bytes]:
    """Return packets that prepare, bind and execute output = input 0 + input 1 in every way."""
    device, model = "nnapi-reference", add_model().frozen
    prepare = Writer(Request.PREPARE).u64(1).string(device)
    write_prepare_options(prepare, PrepareOptions())
    write_model(prepare, model)
    support = Writer(Request.SUPPORT).string(device)
    write_model(support, model)
    allocate = Writer(Request.ALLOCATE).u64(2).string(device)
    write_type(allocate, model.input_types()[0])
    allocate.u64s((2, 2))
    bind = Writer(Request.BIND).u64(3).u64(1).u32(1).u32(2)
    for offset in (0, 64):
        bind.u64(0).u8(1)
        write_dtype(bind, np.zeros((2, 2), np.float32))
        bind.u64(offset)
    bind.u32(1).u64(0).u8(1).u64(128).u64(16)
    execute = [EXECUTE.pack(Request.EXECUTE, 3, burst, 0, -1, 10**9, 0) for burst in (0, 4)]
    fenced = Writer().put(EXECUTE.pack(Request.EXECUTE_FENCED, 3, 5, 0, -1, 10**9, 0)).u64s(())
    writers = [
        Writer(Request.DEVICES),
        support,
        prepare,
        allocate,
        bind,
        Writer(Request.BURST).u64(4).u64(1),
        Writer().put(execute[0]),
        Writer().put(execute[1]),
        fenced,
        Writer(Request.EXPORT).u64(5),
        Writer(Request.COPY_FROM).u64(2).u32(1).u64(0).u64(16),
        Writer(Request.COPY_TO).u64(2).u32(1).u64(0).u64(16),
        Writer(Request.WAIT).string(device),
        Writer(Request.MEMORY).u64(1),
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
        content = struct.pack("<I", generator.choice([*Request, *LaneRequest]))
        for _ in range(generator.randrange(7)):
            content += struct.pack("<Q", generator.choice(ODD)) if generator.random() < 0.7 else generator.randbytes(3)
        answer(session, content)
    assert answer(session, conversation()[0]) == 0
