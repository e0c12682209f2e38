"""A model reads no files but those of its initializers, and no file hangs nnvk or has an exception of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx_net import op
from tflite_net import Net, T, write

import nnvk
from nnvk.api import NnapiError
from nnvk.base.errors import Guard, WrongKind
from nnvk.importers import formats
from nnvk.importers.onnx import OnnxImportError
from nnvk.importers.onnx.file import bytes_beside

SECRET = np.arange(4, dtype=np.float32)


def external(location: str, dims: tuple[int, ...] = (4,), name: str = "w") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def net(nodes: list[Any], initializers: list[TensorProto], opset: int = 17) -> ModelProto:
    """A model of nodes between ``x``, four real numbers, and ``y``."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def in_attribute(location: str) -> ModelProto:
    value = op("ConstantOfShape", "n", "c", value=external(location, (1,)))
    return net([value, op("Add", "x c", "y")], [numpy_helper.from_array(np.array([4]), "n")])


def in_a_constant(location: str) -> ModelProto:
    return net([op("Constant", "", "c", value=external(location)), op("Add", "x c", "y")], [])


def in_a_list(location: str) -> ModelProto:
    made = in_a_constant("-")
    attribute = made.graph.node[0].attribute[0]
    attribute.ClearField("t")
    attribute.type = onnx.AttributeProto.TENSORS
    attribute.tensors.append(external(location))
    return made


def in_a_sparse_tensor(location: str) -> ModelProto:
    made = net([op("Add", "x w", "y")], [])
    made.graph.sparse_initializer.add(dims=[4]).values.CopyFrom(external(location))
    made.graph.sparse_initializer[0].indices.CopyFrom(numpy_helper.from_array(np.arange(4), ""))
    return made


def in_a_subgraph(location: str) -> ModelProto:
    inner = in_attribute(location).graph
    branch = helper.make_graph(inner.node, "b", [], [ValueInfoProto(name="y")], inner.initializer)
    choose = op("If", "k", "y", then_branch=branch, else_branch=branch)
    return net([choose], [numpy_helper.from_array(np.array(True), "k")])


def in_a_function(location: str) -> ModelProto:
    body = [op("Constant", "", "c", value=external(location)), op("Add", "a c", "b")]
    made = net([op("Own", "x", "y", domain="own")], [])
    versions = [helper.make_opsetid("", 17)]
    made.functions.append(helper.make_function("own", "Own", ["a"], ["b"], body, versions))
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made


def in_an_old_model(location: str) -> ModelProto:
    return net([op("Add", "x w", "y")], [external(location)], opset=6)


def without_a_place(location: str) -> ModelProto:
    """Data that are in the file, with the place of others beside them."""
    made = in_a_constant(location)
    made.graph.node[0].attribute[0].t.data_location = TensorProto.DEFAULT
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The process's folder, and one beside it."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "secret").write_bytes(SECRET.tobytes())
    (tmp_path / "secret").write_bytes(SECRET.tobytes())
    monkeypatch.chdir(here)
    return here


PLACES = [
    *(in_attribute, in_a_constant, in_a_list, in_a_sparse_tensor, in_a_subgraph, in_a_function),
    *(in_an_old_model, without_a_place),
]


@pytest.mark.parametrize("made", PLACES, ids=lambda made: made.__name__)
@pytest.mark.parametrize("from_bytes", [True, False])
def test_only_initializers_are_read_from_files(
    made: Callable[[str], ModelProto], from_bytes: bool, folder: Path
) -> None:
    data = made("secret").SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    with pytest.raises(OnnxImportError) as raised:
        nnvk.load(data if from_bytes else folder / "model.onnx")
    assert "in the file itself" in str(raised.value) or "elements elsewhere" in str(raised.value)


def test_an_initializer_is_read_from_the_model_s_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = net([op("Add", "x w", "y")], [external("secret")])
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    monkeypatch.chdir("/")
    assert np.array_equal(nnvk.load(folder / "model.onnx")(np.zeros(4, np.float32)), SECRET)
    with pytest.raises(OnnxImportError, match="load it from its path"):
        nnvk.load(made.SerializeToString())


@pytest.mark.parametrize("kind", ["up", "absolute", "link", "pipe", "device", "folder", "nul", "empty", "loop"])
@pytest.mark.parametrize("is_inside", [False, True], ids=["", "of a branch"])
def test_an_initializer_is_read_from_nowhere_else(is_inside: bool, kind: str, folder: Path) -> None:
    location = {"up": "../secret", "absolute": "/dev/zero", "nul": "a\0b", "empty": ""}.get(kind, kind)
    if kind == "link":
        (folder / kind).symlink_to("../secret")
    elif kind == "pipe":
        os.mkfifo(folder / kind)
    elif kind == "device":
        (folder / kind).symlink_to("/dev/zero")
    elif kind == "folder":
        (folder / kind).mkdir()
    elif kind == "loop":
        (folder / kind).symlink_to(kind)
    made = net([op("Add", "x w", "y")], [external(location)])
    if is_inside:
        branch = helper.make_graph(made.graph.node, "b", [], [ValueInfoProto(name="y")], made.graph.initializer)
        choose = op("If", "k", "y", then_branch=branch, else_branch=branch)
        made = net([choose], [numpy_helper.from_array(np.array(True), "k")])
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(OnnxImportError, match="tensor 'w'"):
        nnvk.load(folder / "model.onnx")


def test_a_file_counts_once_and_without_its_holes(folder: Path) -> None:
    """The budget of an import grows with the bytes of a file, not with the names that it has."""
    (folder / "w").write_bytes(bytes(10_000))
    os.link(folder / "w", folder / "hard")
    (folder / "soft").symlink_to("w")
    names = ["w", "./w", "././w", "hard", "soft"]
    made = net([op("Add", "x w", "y")], [external(name, name=str(place)) for place, name in enumerate(names)])
    assert bytes_beside(made, folder) == 10_000
    with (folder / "holes").open("wb") as file:
        file.truncate(1 << 32)
    made = net([op("Add", "x w", "y")], [external("holes")])
    assert bytes_beside(made, folder) <= 4096


def graphs_inside(tensors: list[TensorProto], inside: str) -> ModelProto:
    """A model with each tensor as the initializer of a graph of its own, which is inside the model's graph."""
    graphs = [helper.make_graph([op("Add", "x w", "y")], "g", [], [ValueInfoProto(name="y")], [one]) for one in tensors]
    if inside == "loop":
        return net([op("Loop", "n k x", f"y{place}", body=graph) for place, graph in enumerate(graphs)], [])
    nodes = [op("If", "k", f"y{place}", then_branch=graph) for place, graph in enumerate(graphs)]
    if inside == "branch of a branch":
        outer = helper.make_graph(nodes, "outer", [], [ValueInfoProto(name="y0")])
        nodes = [op("If", "k", "y", else_branch=outer)]
    if inside != "function":
        return net(nodes, [])
    made = net([op("Own", "x", "y", domain="own")], [])
    made.functions.append(helper.make_function("own", "Own", ["x"], ["y0"], nodes, [helper.make_opsetid("", 17)]))
    return made


@pytest.mark.parametrize("inside", ["loop", "branch", "branch of a branch", "function"])
def test_files_of_inner_graphs_count_as_those_of_the_model_s_graph(inside: str, folder: Path) -> None:
    (folder / "w").write_bytes(bytes(10_000))
    (folder / "v").write_bytes(bytes(5_000))
    os.link(folder / "w", folder / "hard")
    os.mkfifo(folder / "pipe")
    names = ["w", "v", "hard", "./w", "../secret", str(folder / "v"), "pipe", *["w"] * 1000]
    assert bytes_beside(graphs_inside([external(name) for name in names], inside), folder) == 15_000


@pytest.mark.parametrize("name", ["model.onnx", "model.tflite", "model"])
def test_a_pipe_is_no_model(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    began = time.monotonic()
    with pytest.raises(OSError, match="no regular file"):
        formats.load(tmp_path / name)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["input.npy", "input.npz", "input.png"])
def test_a_pipe_is_no_input(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    image = T("FLOAT32", (1, 4, 4, 1))
    small = Net([image], [])
    small.outputs = [small.op("NEG", [image], T("FLOAT32", (1, 4, 4, 1)))]
    with nnvk.load(write(small)) as loaded, pytest.raises(OSError, match="no regular file"):
        loaded(str(tmp_path / name))


# --- the guard -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("a\x1b"), KeyError("b"), RecursionError(), AssertionError(), IndexError()]
)
def test_what_no_check_has_foreseen_is_an_error_of_the_file(error: Exception) -> None:
    with pytest.raises(NnapiError, match=r"m\.onnx makes no sense to nnvk") as raised, Guard("m.onnx"):
        raise error
    assert raised.value.code is nnvk.ResultCode.BAD_DATA and raised.value.__cause__ is error
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "error", [WrongKind("a"), OSError("b"), NnapiError(nnvk.ResultCode.OP_FAILED, "c"), KeyboardInterrupt()]
)
def test_what_a_caller_has_done_remains(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, Guard("m.onnx"):
        raise error
    assert raised.value is error


def test_want_of_memory_is_said() -> None:
    with pytest.raises(NnapiError) as raised, Guard("m.onnx"):
        raise MemoryError
    assert raised.value.code is nnvk.ResultCode.OUT_OF_MEMORY


def late(element: int) -> bytes:
    """A model of which data decide a size, with an output behind it that is declared of a type."""
    made = net(
        [op("NonZero", "x", "n"), op("Shape", "n", "s"), op("ConstantOfShape", "s", "c"), op("Neg", "c", "y")], []
    )
    made.graph.output[0].type.tensor_type.elem_type = element
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize("element", [TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128, 0, 99, -1])
def test_a_late_output_of_a_type_that_there_is_none_of(element: int) -> None:
    with pytest.raises(NnapiError, match="output 0: output 'y'"):
        nnvk.load(late(element))


@pytest.mark.parametrize("type_", ["STRING", "RESOURCE", "COMPLEX128", "FLOAT64"])
def test_a_late_output_of_a_type_that_there_is_none_of_in_tflite(type_: str) -> None:
    source = T("BOOL", (4,))
    made = Net([source], [])
    places = made.op("WHERE", [source], T("INT64"))
    result = T(type_)
    made.outputs = [
        made.op("NEG", [made.op("RESHAPE", [places, made.op("SHAPE", [places], T("INT32"))], T("INT64"))], result)
    ]
    with pytest.raises(NnapiError):
        nnvk.load(write(made))(np.ones(4, np.bool_))


def test_complex_numbers_are_not_declared_over_real_ones() -> None:
    source = T("FLOAT32", (1, 3))
    made = Net([source], [])
    made.outputs = [made.op("NEG", [source], T("COMPLEX64"))]
    with pytest.raises(NnapiError, match="is declared COMPLEX64, its inputs give"):
        nnvk.load(write(made))


def test_inputs_of_one_name_and_different_ranks() -> None:
    one, other = T("FLOAT32", (1, 3), name="a"), T("FLOAT32", (3,), name="a")
    made = Net([one, other], [])
    made.outputs = [made.op("ADD", [one, other], T("FLOAT32", (1, 3)), "AddOptions")]
    loaded = nnvk.load(write(made))
    assert np.array_equal(loaded(np.ones((1, 3), np.float32), np.ones(3, np.float32)), np.full((1, 3), 2.0))
