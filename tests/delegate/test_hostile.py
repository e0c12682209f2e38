"""Graphs that contradict themselves: the server answers with an error, and goes on."""

from __future__ import annotations

import random
import struct

import pytest

from nnvk.api import ResultCode
from nnvk.base.lanes import Session
from nnvk.base.packets import ALIGNMENT, Descriptors
from nnvk.importers.tflite.delegate import HANDLERS
from nnvk.serve.protocol import Request

SEEDS = range(60)
ODD = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
FLOAT32, CONV_2D = 1, 3


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def tensor(before: bytes, number: int, shape: tuple[int, ...], values: bytes = b"") -> bytes:
    """The packet with one more tensor, a constant if there are values."""
    packet = before + u32(number, FLOAT32) + bytes([9 if values else 1]) + u32(len(shape), *shape)
    packet += u32(0, 0, 0, 0, 1) + b"t" + struct.pack("<Q", len(values))
    return packet + (bytes(-len(packet) % ALIGNMENT) + values if values else b"")


def convolution(request: Request) -> bytes:
    """A request for a graph of one CONV_2D."""
    packet = u32(request)
    if request is Request.TFLITE_MODEL:
        packet += struct.pack("<Q", 1) + b"\0\1"
    packet += u32(4)
    packet = tensor(packet, 0, (1, 4, 4, 2))
    packet = tensor(packet, 1, (3, 1, 1, 2), bytes(24))
    packet = tensor(packet, 2, (3,), bytes(12))
    packet = tensor(packet, 5, (1, 4, 4, 3))
    options = struct.pack("@6i", 1, 1, 1, 0, 1, 1)
    packet += u32(1, CONV_2D, 0, 1, 3, 0, 1, 2, 1, 5, 0, len(options)) + options
    return packet + u32(1, 0, 1, 5)


def answer(request: bytes) -> ResultCode:
    """The result code of a new session."""
    reply = Session(dict(HANDLERS)).answer(memoryview(request), Descriptors())
    return ResultCode(struct.unpack_from("<i", reply.content)[0])


@pytest.mark.parametrize("request_", [Request.TFLITE_EXAMINE, Request.TFLITE_MODEL])
def test_the_graph_is_understood(request_: Request) -> None:
    assert answer(convolution(request_)) is ResultCode.NO_ERROR


@pytest.mark.parametrize("request_", [Request.TFLITE_EXAMINE, Request.TFLITE_MODEL])
@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_graphs(seed: int, request_: Request) -> None:
    generator, original = random.Random(seed), convolution(request_)
    for _ in range(20):
        changed = bytearray(original)
        place = generator.randrange(4, len(changed))
        if generator.random() < 0.2:
            del changed[place:]
        elif generator.random() < 0.5:
            changed[place] = generator.randrange(256)
        else:
            changed[place : place + 4] = u32(generator.choice(ODD))
        assert answer(bytes(changed)) in (ResultCode.NO_ERROR, ResultCode.BAD_DATA, ResultCode.OUT_OF_MEMORY)


@pytest.mark.parametrize("request_", [Request.TFLITE_EXAMINE, Request.TFLITE_MODEL])
@pytest.mark.parametrize("back", [1, 3])
def test_edges_that_are_left_out(back: int, request_: Request) -> None:
    packet = bytearray(convolution(request_))
    packet[-4 * back : (-4 * back + 4) or None] = u32(2**32 - 1)
    assert answer(bytes(packet)) is ResultCode.BAD_DATA


@pytest.mark.parametrize("end", range(4, len(convolution(Request.TFLITE_EXAMINE)), 7))
def test_cut_graphs(end: int) -> None:
    assert answer(convolution(Request.TFLITE_EXAMINE)[:end]) is ResultCode.BAD_DATA
