"""Requests that contradict themselves: the server answers with an error, and goes on."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnvk.api import Compilation, Execution, ResultCode
from nnvk.base.lanes import Session
from nnvk.base.packets import Descriptors, Reader, Writer
from nnvk.base.settings import override
from nnvk.importers.onnx import bound
from nnvk.importers.onnx.provider import HANDLERS
from nnvk.serve.protocol import Request

CPU = "nnapi-reference"
KINDS = (Request.ONNX_EXAMINE, Request.ONNX_MODEL)
ODD = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def adding() -> bytes:
    """A model of x + w, whose w is among the weights."""
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "graph", edges[:1], edges[1:])
    tensor = graph.initializer.add(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "0"), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


def packet(request: Request, model: bytes | None = None, device: str = CPU, auto: int = 0) -> bytes:
    """A request for a graph, whose part has the number 1."""
    model, weights = adding() if model is None else model, np.arange(4, dtype=np.float32).tobytes()
    writer = Writer(request)
    if request is Request.ONNX_MODEL:
        writer.put(struct.pack("<Q", 1))
    writer.string(device).u8(0).u8(auto)
    writer.put(struct.pack("<Q", len(model))).aligned(model).put(struct.pack("<Q", len(weights))).aligned(weights)
    if request is Request.ONNX_MODEL:
        writer.string("").u32(1).string("x")
    else:
        writer.u8(0).u8(0)
    return b"".join(writer.parts)


def run(shape: tuple[int, ...] = (2, 4), element: int = 1, segment: int = 1, offset: int = 0) -> bytes:
    """A request for a run of part 1, which gets the number 2."""
    writer = Writer(Request.ONNX_RUN)
    writer.u64(1).u64(2).u32(1).i32(element).u32(len(shape))
    writer.put(struct.pack(f"<{len(shape)}q", *shape)).u32(segment).u64(offset)
    return b"".join(writer.parts)


def outputs(*places: tuple[int, int]) -> bytes:
    """A request that gives run 2 its places for outputs: segments and offsets."""
    writer = Writer(Request.ONNX_OUTPUTS).u64(2).u32(len(places))
    for segment, offset in places:
        writer.u32(segment).u64(offset)
    return b"".join(writer.parts)


def computation(number: int = 2) -> bytes:
    return b"".join(Writer(Request.ONNX_COMPUTE).u64(number).parts)


def session() -> Session:
    """A session with a segment of 128 bytes, at whose beginning are 0 to 7."""
    owner = Session(dict(HANDLERS))
    owner.segments[1] = memoryview(bytearray(np.arange(8, dtype=np.float32).tobytes().ljust(128, b"\0")))
    return owner


def code(owner: Session, request: bytes) -> ResultCode:
    return ResultCode(struct.unpack_from("<i", owner.answer(memoryview(request), Descriptors()).content)[0])


def test_a_part_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs read their inputs anew, and share one execution."""
    made: list[Execution] = []

    def execution(compilation: Compilation) -> Execution:
        made.append(Execution(compilation))
        return made[-1]

    monkeypatch.setattr(bound, "Execution", execution)
    owner = session()
    assert code(owner, packet(Request.ONNX_EXAMINE)) is ResultCode.NO_ERROR
    assert code(owner, packet(Request.ONNX_MODEL)) is ResultCode.NO_ERROR
    reply = owner.answer(memoryview(run()), Descriptors()).content
    assert struct.unpack_from("<iIBIiIqqQ", reply) == (0, 0, 1, 1, 1, 2, 2, 4, 32)
    assert code(owner, outputs((1, 64))) is ResultCode.NO_ERROR
    given, found = (np.frombuffer(owner.segments[1], np.float32, 8, offset) for offset in (0, 64))
    for factor in (1, 3):
        given[:] = factor * np.arange(8)
        assert code(owner, computation()) is ResultCode.NO_ERROR
        np.testing.assert_array_equal(found, given + np.arange(8) % 4)
    assert len(made) == 1


def test_outputs_without_places_are_in_the_reply() -> None:
    owner = session()
    code(owner, packet(Request.ONNX_MODEL))
    code(owner, run())
    reply = owner.answer(memoryview(computation()), Descriptors()).content
    assert struct.unpack_from("<iIIiIqqQ", reply) == (0, 0, 1, 1, 2, 2, 4, 32)
    np.testing.assert_array_equal(np.frombuffer(reply[-32:], np.float32), [0, 2, 4, 6, 4, 6, 8, 10])


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_recording(is_folder: bool, tmp_path: Path) -> None:
    """It is there from its begin to its end, and has what the server did between."""
    owner, path = session(), tmp_path if is_folder else tmp_path / "own.json"
    begin = b"".join(Writer(Request.ONNX_PROFILE).u64(7).string(str(path)).parts)
    end = b"".join(Writer(Request.ONNX_PROFILE_END).u64(7).parts)
    assert code(owner, end) is ResultCode.BAD_DATA
    assert code(owner, begin + b"\0") is ResultCode.BAD_DATA
    assert code(owner, begin) is ResultCode.NO_ERROR
    (written,) = tmp_path.iterdir()
    assert written.name == (f"nnvk-{os.getpid()}-7.json" if is_folder else "own.json")
    code(owner, packet(Request.ONNX_MODEL))
    code(owner, run())
    assert code(owner, computation()) is ResultCode.NO_ERROR
    assert code(owner, end + b"\0") is ResultCode.BAD_DATA
    assert code(owner, end) is ResultCode.NO_ERROR
    events = json.loads(written.read_text())["traceEvents"]
    assert any(one.get("cat") == "execution" for one in events)
    code(owner, computation())
    assert json.loads(written.read_text())["traceEvents"] == events


def test_a_recording_that_can_not_be_written(tmp_path: Path) -> None:
    begin = b"".join(Writer(Request.ONNX_PROFILE).u64(7).string(str(tmp_path / "no" / "own.json")).parts)
    assert code(session(), begin) is ResultCode.BAD_DATA


@pytest.mark.parametrize(
    "request_",
    [
        run((2, 5)),
        run((-2, -4)),
        run((1 << 62, 8)),
        run((2, 4, 1)),
        run(element=99),
        run(element=7),
        run(element=8),
        run(element=11),
        run(segment=2),
        run(offset=100),
        run(offset=2),
        run(offset=1 << 63),
    ],
)
def test_inputs_that_do_not_fit(request_: bytes) -> None:
    owner = session()
    code(owner, packet(Request.ONNX_MODEL))
    assert code(owner, request_) is ResultCode.BAD_DATA
    assert code(owner, run()) is ResultCode.NO_ERROR
    assert code(owner, run()) is ResultCode.BAD_DATA  # the number is taken


@pytest.mark.parametrize("request_", [outputs(), outputs((1, 64), (1, 64)), outputs((2, 0)), outputs((1, 100))])
def test_outputs_that_do_not_fit(request_: bytes) -> None:
    owner = session()
    code(owner, packet(Request.ONNX_MODEL))
    code(owner, run())
    assert code(owner, request_) is ResultCode.BAD_DATA
    assert code(owner, outputs((1, 64))) is ResultCode.NO_ERROR
    assert code(owner, outputs((1, 64))) is ResultCode.BAD_STATE


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_model(kind: Request) -> None:
    assert code(session(), packet(kind, b"no model")) is ResultCode.BAD_DATA
    assert code(session(), packet(kind, b"")) is ResultCode.BAD_DATA
    assert code(session(), packet(kind, device="gpu-9")) is ResultCode.BAD_DATA


def test_measured_weights_that_are_not_there() -> None:
    model = onnx.load_from_string(adding())
    for entry in model.graph.initializer[0].external_data:
        entry.value = "1000" if entry.key == "offset" else entry.value
    with override(cpu_libraries=True, cache_dir="0"):
        owner = session()
        assert code(owner, packet(Request.ONNX_MODEL, model.SerializeToString(), auto=1)) is ResultCode.BAD_DATA
        assert code(owner, packet(Request.ONNX_EXAMINE, model.SerializeToString(), auto=1)) is ResultCode.NO_ERROR
        assert code(owner, packet(Request.ONNX_MODEL, auto=1)) is ResultCode.NO_ERROR


def test_a_part_that_is_not_there() -> None:
    assert code(session(), run()) is ResultCode.BAD_DATA
    assert code(session(), outputs((1, 64))) is ResultCode.BAD_DATA
    assert code(session(), computation()) is ResultCode.BAD_DATA


@pytest.mark.parametrize("kind", KINDS)
def test_requests_that_end_too_early(kind: Request) -> None:
    whole = packet(kind)
    for end in range(4, len(whole), 9):
        assert code(session(), whole[:end]) is ResultCode.BAD_DATA


def saving() -> bytes:
    """A request to save a part of fixed shapes."""
    weights = np.arange(4, dtype=np.float32).tobytes()
    writer = Writer(Request.ONNX_SAVE).string(CPU).u8(0).u8(0)
    writer.u64(len(adding())).aligned(adding()).u64(len(weights)).aligned(weights).u32(1).string("x")
    return b"".join(writer.parts)


def loading(content: bytes, *order: int) -> bytes:
    """A request to load a part, which gets the number 1."""
    writer = Writer(Request.ONNX_LOAD).u64(1).string(CPU).string("").u32(len(order))
    writer.put(struct.pack(f"<{len(order)}I", *order))
    return b"".join(writer.u64(len(content)).aligned(content).parts)


def saved() -> bytes:
    """The part that the server answers with."""
    reply = session().answer(memoryview(saving()), Descriptors()).content
    assert struct.unpack_from("<iI", reply) == (0, 0)
    return bytes(reply[8:])


def test_a_saved_part_computes() -> None:
    owner = session()
    reply = owner.answer(memoryview(loading(saved(), 0)), Descriptors()).content
    assert struct.unpack_from("<iII", reply) == (0, 0, 1)
    assert code(owner, run()) is ResultCode.NO_ERROR
    assert code(owner, outputs((1, 64))) is ResultCode.NO_ERROR
    assert code(owner, computation()) is ResultCode.NO_ERROR
    given, found = (np.frombuffer(owner.segments[1], np.float32, 8, offset) for offset in (0, 64))
    np.testing.assert_array_equal(found, given + np.arange(8) % 4)


@pytest.mark.parametrize("order", [(), (1,), (0, 0)])
def test_orders_of_a_saved_part(order: tuple[int, ...]) -> None:
    assert code(session(), loading(saved(), *order)) is ResultCode.BAD_DATA


def test_requests_that_are_too_long() -> None:
    """Every request says how long it is."""
    owner, content = session(), saved()
    for request in (
        packet(Request.ONNX_EXAMINE),
        packet(Request.ONNX_MODEL),
        saving(),
        run(),
        outputs((1, 64)),
        computation(),
    ):
        assert code(owner, request + b"\0") is ResultCode.BAD_DATA
        assert code(owner, request) is ResultCode.NO_ERROR
    assert code(session(), loading(content, 0) + b"\0") is ResultCode.BAD_DATA
    assert code(session(), loading(content, 0)) is ResultCode.NO_ERROR


def test_runs_with_another_number_of_inputs() -> None:
    owner = session()
    code(owner, packet(Request.ONNX_MODEL))
    for count in (0, 2):
        writer = Writer(Request.ONNX_RUN).u64(1).u64(2).u32(count)
        for _ in range(count):
            writer.i32(1).u32(2).put(struct.pack("<2q", 2, 4)).u32(1).u64(0)
        assert code(owner, b"".join(writer.parts)) is ResultCode.BAD_DATA
    assert code(owner, run()) is ResultCode.NO_ERROR


def test_reasons_in_answers() -> None:
    """Each node has one, of 600 characters at most, and the number of its part or -1."""
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("N" * 900, ["a"], ["y"], domain="d" * 900)]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    made = helper.make_model(
        helper.make_graph(nodes, "graph", edges[:1], edges[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    made.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 4]))
    request = packet(Request.ONNX_EXAMINE, made.SerializeToString())
    request = request[:-2] + b"\1\0"  # all parts, cheap ones too
    reader = Reader(memoryview(session().answer(memoryview(request), Descriptors()).content), 8)
    assert [(reader.string(), reader.i32()) for _ in range(2)] == [
        ("", 0),
        ("NNAPI has no counterpart of this operator", -1),
    ]
    reader.end()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_mutated_requests(kind: Request, seed: int) -> None:
    drawn = random.Random(seed)
    spoilt = bytearray(packet(kind))
    for _ in range(drawn.randint(1, 3)):
        if drawn.random() < 0.5:
            struct.pack_into("<I", spoilt, drawn.randrange(4, len(spoilt) - 4), drawn.choice(ODD))
        else:
            spoilt[drawn.randrange(4, len(spoilt))] = drawn.randrange(256)
    owner = session()
    code(owner, bytes(spoilt))  # any result code, and no crash
    assert code(owner, packet(Request.ONNX_EXAMINE)) is ResultCode.NO_ERROR
