"""An import refuses operators without a counterpart and damaged files, and says why."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import tflite
import tflite_net
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tflite_metadata import metadata, packed
from tflite_net import Layout, Net, Signature, T, write

from nnvk.api import NnapiError, ResultCode
from nnvk.importers.tflite import TfliteImportError, importer, load


def floats(*shape: int) -> T:
    return T("FLOAT32", shape)


def classifier() -> bytes:
    """A convolution with scales per channel, a reshape and a softmax: something of everything."""
    source = T("INT8", (1, 6, 6, 2), scale=0.05, zero_point=3, name="image")
    weights = T("INT8", data=np.arange(54).reshape(3, 3, 3, 2), scale=[0.01, 0.02, 0.03], name="weights")
    bias = T("INT32", data=[1, 2, 3], scale=[0.1] * 3, name="bias")
    image, flat = T("INT8", (1, 4, 4, 3), scale=0.1), T("INT8", (1, 48), scale=0.1)
    result = T("INT8", (1, 48), scale=1 / 256, zero_point=-128, name="probabilities")
    net = Net([source], [result])
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    net.op("CONV_2D", [source, weights, bias], image, "Conv2DOptions", **options)
    net.op("RESHAPE", [image, T("INT32", data=[1, 48])], flat, "ReshapeOptions", NewShape=[1, 48])
    net.op("SOFTMAX", [flat], result, "SoftmaxOptions", Beta=1.0)
    return write(net, description="a small one")


def branches() -> bytes:
    """Control flow over two subgraphs, a state and shapes computed from constants."""
    flag, source, result = T("BOOL", ()), floats(2, 3), floats(2, 3)
    main = Net([flag, source], [result])
    middle = floats(2, 3)
    main.op("IF", [flag, source], middle, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    shape = T("INT32", (2,))
    main.op("SHAPE", [source], shape, "ShapeOptions", OutType=2)
    flat = floats(2, 3)
    main.op("RESHAPE", [middle, shape], flat, "ReshapeOptions")
    cell = [flat, T(data=np.ones((3, 3))), T(data=np.ones((3, 3))), T(data=np.ones(3))]
    main.op("RNN", [*cell, T("FLOAT32", (2, 3), variable=True)], result, "RNNOptions")
    nets = [main]
    for name in ("ADD", "MUL"):
        net = Net([floats(2, 3)], [floats(2, 3)])
        net.op(name, [net.inputs[0], T(data=[2.0])], net.outputs[0])
        nets.append(net)
    return write(*nets)


def stateful() -> bytes:
    """A variable, its first value, a sparse constant, a signature and metadata."""
    source, result = floats(2, 3), floats(2, 3)
    sparse = T("FLOAT32", (2, 3), raw=bytes(8), layout=Layout([0, 1], [], [2, ([0, 1, 2], [0, 2], "Uint8Vector")]))
    main, first = Net([source], [result]), Net()
    main.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    for net in (main, first):
        net.op("VAR_HANDLE", [], T("RESOURCE", (), name="handle"), "VarHandleOptions", SharedName="memory")
    first.op("ASSIGN_VARIABLE", [first.ops[0].outputs[0], T(data=np.ones((2, 3)))], [None], "AssignVariableOptions")
    handle = main.ops[1].outputs[0]
    before = main.op("READ_VARIABLE", [handle], floats(2, 3), "ReadVariableOptions")
    dense = main.op("DENSIFY", [sparse], floats(2, 3), "DensifyOptions")
    moved = main.op("ADD", [before, dense], floats(2, 3), "AddOptions")
    main.op("ADD", [source, moved], result, "AddOptions")
    main.op("ASSIGN_VARIABLE", [handle, result], [None], "AssignVariableOptions")
    described = metadata("A model", mean=[1.0], std=[2.0], labels="l.txt")
    signature = Signature("serving_default", 0, {"x": source}, {"y": result})
    return packed(write(main, first, signatures=[signature], metadata=described), {"l.txt": "a\nb"})


CORPUS = {"classifier": classifier(), "branches": branches(), "stateful": stateful()}

# --- operators -----------------------------------------------------------------------------------------------


def test_every_operator_without_a_counterpart_is_listed() -> None:
    source = floats(2, 3)
    values = [source, *(floats(2, 3) for _ in range(4))]
    net = Net([source], [values[-1]])
    net.op("CONCAT_EMBEDDINGS", [values[0], T("INT32", data=[0, 0])], values[1])
    net.op("NEG", [values[1]], values[2])
    net.op("TFLite_Unknown", [values[2]], values[3], custom=b"")
    net.op("SKIP_GRAM", [source, source], values[4])
    with pytest.raises(TfliteImportError) as caught:
        load(write(net))
    error = caught.value
    assert isinstance(error, ValueError)
    assert isinstance(error, NnapiError)
    assert error.code is ResultCode.BAD_DATA
    # An operator that reads a lost tensor is not to blame, unless it has no counterpart itself.
    assert [(p.operation, p.index) for p in error.problems] == [
        ("CONCAT_EMBEDDINGS", 0),
        ("TFLite_Unknown", 2),
        ("SKIP_GRAM", 3),
    ]
    assert "operator 0 (CONCAT_EMBEDDINGS): NNAPI has no counterpart of this operator" in str(error)


def test_what_can_not_be_mapped_behind_another_is_listed_and_its_consequences_are_not() -> None:
    source, lost, moved = floats(2, 3), floats(2, 3), floats(3, 2)
    axes, sums = T("INT32", (1,)), floats(2)
    net = Net([source], [sums])
    net.op("TFLite_Unknown", [source], [lost, axes], custom=b"")
    net.op("TRANSPOSE", [lost, T("INT32", data=[1, 0])], moved)
    net.op("SOFTMAX", [moved], floats(3, 2), "PackOptions")  # a problem of its own
    net.op("SUM", [source, axes], sums, "ReducerOptions")  # the axes would be known, were they not lost
    steps = T("INT16", (2,), scale=0.1)
    for _ in range(2):
        steps = net.op("NEG", [steps], T("INT16", (2,), scale=0.1))
        net.op("TFLite_Unknown", [sums], steps, custom=b"")
    with pytest.raises(TfliteImportError) as caught:
        load(write(net))
    found = [(p.operation, p.index) for p in caught.value.problems]
    assert [one for one in found if one[0] != "NEG"] == [
        *(("TFLite_Unknown", 0), ("SOFTMAX", 2), ("TFLite_Unknown", 5), ("TFLite_Unknown", 7)),
    ]
    line = "operators 0, 5, 7 (TFLite_Unknown, 3 in all): NNAPI has no counterpart of this custom operator"
    assert line in str(caught.value)


def test_a_custom_operator_is_named() -> None:
    source = floats(2)
    net = Net([source], [floats(2)])
    net.op("MyOwn", [source], net.outputs[0], custom=b"")
    with pytest.raises(TfliteImportError, match=r"operator 0 \(MyOwn\): NNAPI has no counterpart of this custom"):
        load(write(net))


def test_many_problems_are_counted() -> None:
    source = floats(2)
    net = Net([source], [])
    for _ in range(25):
        net.outputs.append(net.op("SKIP_GRAM", [source, source], floats(2)))
    with pytest.raises(TfliteImportError, match="and 5 more") as caught:
        load(write(net))
    assert len(caught.value.problems) == 25


def single(name: str, inputs: list[T | None], result: T | None = None, table: str | None = None, **options) -> bytes:
    result = result or T()
    net = Net([t for t in inputs if t is not None and t.is_free], [result])
    net.op(name, inputs, result, table, **options)
    return write(net)


REFUSED = {
    "a type that NNAPI does not have": (
        single("NEG", [T("INT64", (2,)), T("STRING", (2,), name="words")]),
        "'words' is of type STRING, which NNAPI does not have",
    ),
    "an input that is missing": (single("ADD", [floats(2)]), r"operator 0 \(ADD\): input 1 is missing"),
    "an output of another shape": (
        single("NEG", [floats(2, 3)], T("FLOAT32", (3, 2), name="result")),
        r"'result' is declared \[3, 2\], its inputs give \[2, 3\]",
    ),
    "an output of another type": (
        single("NEG", [floats(2, 3)], T("INT32", (2, 3), name="result")),
        "'result' is declared TENSOR_INT32, its inputs give TENSOR_FLOAT32",
    ),
    "axes that only the model knows": (
        single("SUM", [floats(2, 3), T("INT32", (1,))], None, "ReducerOptions"),
        r"the axes \(input 1\) must be a constant",
    ),
    "a reshape to another size": (
        single("RESHAPE", [floats(2, 3), T("INT32", data=[4, 2])]),
        r"shape \[2, 3\] has not as many elements as one of \[4, 2\]",
    ),
    "options of another operator": (
        single("SOFTMAX", [floats(2, 3)], None, "PackOptions"),
        r"operator 0 \(SOFTMAX\): expected options of type SoftmaxOptions",
    ),
    "zero points with scales per channel": (
        single(
            "RESHAPE", [T("INT8", data=[[1, 2]], scale=[0.1, 0.2], zero_point=3, dim=1, name="w"), T("INT32", data=[2])]
        ),
        "'w' has a scale per channel and zero points",
    ),
    "scales that don't fit": (
        single("RESHAPE", [T("INT8", data=[[1, 2]], scale=[0.1, 0.2, 0.3], dim=1, name="w"), T("INT32", data=[2])]),
        r"'w' of shape \[1, 2\] has 3 scales along dimension 1",
    ),
    "a scale that is no number": (
        single("DEQUANTIZE", [T("INT8", (2,), scale=float("nan"), name="x")]),
        "'x' must have a finite scale",
    ),
    "a zero point out of range": (
        single("DEQUANTIZE", [T("INT8", (2,), scale=0.1, zero_point=300, name="x")]),
        r"'x'.*zero point 300 .* must be in \[-128, 127\]",
    ),
    "int64 beyond 32 bits": (
        single("ADD", [T("INT64", data=[2**40], name="big"), T("INT64", data=[1])]),
        "'big' of type INT64 has values beyond 32 bits",
    ),
    "an input without elements": (
        single("NEG", [floats(0, 3)]),
        r"input 0: tensor 0 't0' is an input of shape \[0, 3\]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    data, message = REFUSED[what]
    with pytest.raises(TfliteImportError, match=message):
        load(data)


def test_a_model_without_inputs() -> None:
    net = Net([], [floats(2)])
    net.op("NEG", [T(data=[1, 2])], net.outputs[0])
    with pytest.raises(TfliteImportError, match="input 0: there is none"):
        load(write(net))


def test_nested_subgraphs_are_imported_once_each() -> None:
    """Each branch refers to the next subgraph twice: counted out, these would be 2^14."""
    last = Net([T("BOOL", (1,)), floats(2)], [floats(2)])
    last.op("NEG", [last.inputs[1]], last.outputs[0])
    nets = [*_chain(14), last]
    load(write(*nets))
    last.ops[0].name = "SKIP_GRAM"
    with pytest.raises(TfliteImportError) as caught:
        load(write(*nets))
    assert len(caught.value.problems) == 15
    last.ops[0].name = "NEG"
    load(write(*_chain(15), last))
    for depth in (16, 20):
        with pytest.raises(TfliteImportError, match="nested more than 16 deep"):
            load(write(*_chain(depth), last))


def _chain(length: int) -> list[Net]:
    nets = []
    for depth in range(length):
        net = Net([T("BOOL", (1,)), floats(2)], [floats(2)])
        net.op(
            "IF",
            net.inputs[:1] + net.inputs,
            net.outputs[0],
            "IfOptions",
            ThenSubgraphIndex=depth + 1,
            ElseSubgraphIndex=depth + 1,
        )
        nets.append(net)
    return nets


def test_a_tensor_read_before_it_is_written() -> None:
    source, late, result = floats(2), T("FLOAT32", (2,), name="late"), floats(2)
    net = Net([source], [result])
    net.op("ADD", [source, late], result)
    net.op("NEG", [source], late)
    with pytest.raises(TfliteImportError, match="'late' is read before an operator writes it"):
        load(write(net))


class Misnumbered(Net):
    """A subgraph in which one tensor has a number that is not its own."""

    def __init__(self, inputs: Sequence[T], outputs: Sequence[T], wrong: T, number: int) -> None:
        super().__init__(inputs, outputs)
        self._wrong, self._number = wrong, number

    def index(self, tensor: T | None) -> int:
        return self._number if tensor is self._wrong else super().index(tensor)


@pytest.mark.parametrize("number", [-2, -1, 2, 3])
@pytest.mark.parametrize("place", ["input", "output", "intermediate", "graph's input", "graph's output"])
def test_numbers_that_no_tensor_has(place: str, number: int) -> None:
    """There are two tensors, 0 and 1; -1 is an input that is left out."""
    wrong, x, y = floats(2), floats(2), floats(2)
    inputs, outputs = [wrong if place == "graph's input" else x], [wrong if place == "graph's output" else y]
    net = Misnumbered(inputs, outputs, wrong, number)
    net.index(x), net.index(y)
    given, given_out = (wrong if place == one else other for one, other in (("input", x), ("output", y)))
    net.op("NEG", [given], [given_out], intermediates=[wrong] if place == "intermediate" else [])
    reason = f"is tensor {number}, there are 2" if (place, number) != ("input", -1) else "input 0 is missing"
    with pytest.raises(TfliteImportError, match=reason):
        load(write(net))


def test_a_tensor_written_twice() -> None:
    source, result = floats(2), T("FLOAT32", (2,), name="result")
    net = Net([source], [result])
    net.op("NEG", [source], result)
    net.op("ABS", [source], result)
    with pytest.raises(TfliteImportError, match=r"operator 1 \(ABS\): its output .*'result' has a value already"):
        load(write(net))


def test_names_are_escaped_and_cut() -> None:
    name = "\x1b[31m\u202e\n" + "long" * 1000
    source = floats(2)
    net = Net([source], [floats(2)])
    net.op(name, [source], net.outputs[0], custom=b"")
    late, result = T("FLOAT32", (2,), name=name), floats(2)
    net.op("NEG", [late], result)
    with pytest.raises(TfliteImportError) as caught:
        load(write(net))
    assert caught.value.problems[0].operation == name, "the program gets it as it is"
    for problem in caught.value.problems:
        assert r"\x1b[31m\u202e\nlonglong" in str(problem)
        assert len(str(problem)) < 250


def test_a_custom_operator_of_a_long_name_many_times_over() -> None:
    """No message is made that nobody will read."""
    source, name = floats(2), "x" * 3_000_000
    net = Net([source], [])
    for _ in range(2000):
        net.outputs.append(net.op(name, [source], floats(2), custom=b""))
    data = write(net)
    began = time.process_time()
    with pytest.raises(TfliteImportError, match="and 1980 more"):
        load(data)
    assert time.process_time() - began < 1.5


def test_a_device_is_not_read() -> None:
    with pytest.raises(OSError, match="no regular file"):
        load("/dev/zero")


@pytest.mark.parametrize("head", [b"no model", b"????TFL3"])
def test_how_much_is_read(head: bytes, tmp_path: Path) -> None:
    """All of a model, and 128 bytes of other files."""
    path = tmp_path / "model.tflite"
    path.write_bytes(head + bytes(range(200)))
    assert importer._read(path) == path.read_bytes()[: None if head.endswith(b"TFL3") else 128]


def test_a_pointer_of_git_lfs(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n")
    with pytest.raises(
        TfliteImportError, match=r"not a \.tflite file.*a pointer of Git LFS, and `git lfs pull` brings"
    ):
        load(path)


def test_codes_without_the_older_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some writers leave it out, and say by its default that it is ADD."""
    add = tflite.OperatorCodeAddDeprecatedBuiltinCode
    monkeypatch.setattr(tflite, "OperatorCodeAddDeprecatedBuiltinCode", lambda builder, code: add(builder, 0))
    source, result = floats(2, 3), floats(2, 3)
    net = Net([source], [result])
    net.op("MAXIMUM", [source, source], result)
    assert [one.code.name for one in load(write(net)).model.frozen.operations] == ["MAXIMUM"]


def test_too_little_memory_has_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(importer, "File", fail)
    with pytest.raises(NnapiError, match="too little memory") as caught:
        load(CORPUS["classifier"])
    assert caught.value.code is ResultCode.OUT_OF_MEMORY


def test_the_path_is_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"not a model at all")
    with pytest.raises(TfliteImportError, match=r"not a \.tflite file: .*broken\.tflite \(bytes 4 to 8"):
        load(path)
    with pytest.raises(OSError, match="absent"):
        load(tmp_path / "absent.tflite")


# --- damage --------------------------------------------------------------------------------------------------


def attempt(data: bytes) -> None:
    """Import, signatures too; the one error that may come out is the import's own."""
    try:
        for signature in load(data).signatures.values():
            assert signature.inputs
    except TfliteImportError as error:
        assert error.reason


@pytest.mark.parametrize("name", CORPUS)
def test_truncated(name: str) -> None:
    data = CORPUS[name]
    load(data)
    for length in range(0, len(data), 7):
        attempt(data[:length])


@pytest.mark.parametrize("name", ["classifier", "branches"])
def test_every_word_overwritten(name: str) -> None:
    data = CORPUS[name]
    for offset in range(0, len(data) - 4, 4):
        for word in (0, 0xFFFFFFFF, 0x7FFFFFFF, len(data)):
            attempt(data[:offset] + struct.pack("<I", word) + data[offset + 4 :])


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(CORPUS)), count=st.integers(1, 20))
@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
def test_random_bytes_overwritten(seed: int, name: str, count: int) -> None:
    data, source = bytearray(CORPUS[name]), random.Random(seed)
    for _ in range(count):
        data[source.randrange(len(data))] = source.choice((0, 1, 2, 4, 127, 128, 255, source.randrange(256)))
    attempt(bytes(data))


@given(data=st.binary(max_size=200))
@settings(max_examples=100)
def test_bytes_behind_the_identifier(data: bytes) -> None:
    attempt(struct.pack("<I", 8) + b"TFL3" + data)


def test_no_identifier() -> None:
    with pytest.raises(TfliteImportError, match="bytes 4 to 8 must be b'TFL3'"):
        load(b"\0" * 100)


def test_tables_that_refer_to_one_another_many_times_over() -> None:
    """A megabyte can name one tensor a quarter of a million times: that is not a model of so many."""
    b = flatbuffers.Builder(1024)
    buffers = tflite_net._offsets(b, [tflite_net._table(b, "Buffer")])
    tensor = tflite_net._tensor(b, floats(2), 0, [])
    edges = [tflite_net._ints(b, [0]) for _ in range(2)]
    tensors = tflite_net._offsets(b, [tensor] * 250_000)
    subgraph = tflite_net._table(b, "SubGraph", Tensors=tensors, Inputs=edges[0], Outputs=edges[1])
    subgraphs = tflite_net._offsets(b, [subgraph])
    b.Finish(tflite_net._table(b, "Model", Version=3, Subgraphs=subgraphs, Buffers=buffers), b"TFL3")
    with pytest.raises(TfliteImportError, match=r"its tables describe more than its \d+ bytes can hold"):
        load(bytes(b.Output()))


def test_constants_can_not_fill_the_memory() -> None:
    """A broadcast takes no memory, but an ADD needs its 64 MiB."""
    source = floats(1)
    net = Net([source], [])
    for number in range(40):
        big, result = T(), T()
        net.op("BROADCAST_TO", [T(data=[float(number)]), T("INT32", data=[4096, 4096])], big)
        net.op("ADD", [big, source], result)
        net.outputs.append(result)
    with pytest.raises(TfliteImportError, match=r"operator 9 \(ADD\): constants, .* take more"):
        load(write(net))


def test_a_huge_shape() -> None:
    with pytest.raises(TfliteImportError, match=r"malformed .*'huge' of FLOAT32 \[65536, 65536\] is 4 GiB or more"):
        load(single("NEG", [T("FLOAT32", (2**16, 2**16), name="huge")]))


def test_a_constant_of_another_size() -> None:
    constant = T("FLOAT32", data=[1, 2, 3], name="short")
    constant.shape = (2, 2)
    with pytest.raises(TfliteImportError, match=r"'short' of FLOAT32 \[2, 2\] needs 16 bytes, its buffer has 12"):
        load(single("ADD", [floats(2, 2), constant]))


def test_a_long_name_is_cut() -> None:
    with pytest.raises(TfliteImportError) as caught:
        load(single("NEG", [T("FLOAT32", (2**16, 2**16), name="x" * 1000)]))
    assert len(str(caught.value)) < 250
