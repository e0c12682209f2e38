"""The beginnings of an import of ONNX: versions, tensors, inputs, and the limits of each of them, from both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import IR_VERSION, ModelProto, TensorProto, helper, numpy_helper
from onnx.defs import onnx_opset_version
from onnx_net import element, model, op, subgraph

from nnvk import NnapiError, ResultCode
from nnvk.importers import formats
from nnvk.importers.onnx import OnnxImportError, builder, importer, load, reader
from nnvk.importers.onnx import file as importing
from nnvk.importers.onnx.edges import Edge, edges_of, resized
from nnvk.importers.onnx.errors import Malformed
from nnvk.importers.onnx.file import OnnxFile
from nnvk.types.operand import OperandType

F, I64, U8 = np.float32, np.int64, np.uint8


def negation(shape: Any = (2,)) -> ModelProto:
    return model([op("Neg", "x", "y")], {"x": (F, shape)}, ["y"])


def reason_of(made: ModelProto | bytes, **options: Any) -> str:
    with pytest.raises(OnnxImportError) as raised:
        load(made if isinstance(made, bytes) else made.SerializeToString(), **options)
    assert raised.value.code is ResultCode.BAD_DATA
    return raised.value.reason


# --- versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, IR_VERSION])
def test_versions_of_files(version: int) -> None:
    made = negation()
    made.ir_version = version
    load(made.SerializeToString())


def test_models_are_relaxed_where_that_is_asked_for() -> None:
    data = negation().SerializeToString()
    assert [load(data, **given).model.frozen.relaxed for given in ({}, {"relaxed": False}, {"relaxed": True})] == [
        False,
        False,
        True,
    ]


def test_versions_of_files_that_are_not_known() -> None:
    made = negation()
    made.ir_version = IR_VERSION + 1
    text = f"the onnx package that is installed knows IR versions 1 to {IR_VERSION}, got {IR_VERSION + 1}"
    assert text in reason_of(made)
    made.ir_version = 0
    assert "it has no graph or no IR version" in reason_of(made)
    del made.graph.node[:]
    made.ClearField("graph")
    made.ir_version = 8
    assert "it has no graph or no IR version" in reason_of(made)


@pytest.mark.parametrize("version", [7, onnx_opset_version()])
def test_versions_of_operators(version: int) -> None:
    made = negation()
    made.opset_import[0].version = version
    load(made.SerializeToString())


@pytest.mark.parametrize("version", [0, onnx_opset_version() + 1])
def test_versions_of_operators_that_are_not_known(version: int) -> None:
    made = negation()
    made.opset_import[0].version = version
    known = f"versions 7 to {onnx_opset_version()} of ONNX's operators are known here, got opset {version}"
    assert known in reason_of(made)


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("graph", "NoSuch"),
        *((where, kind) for where in ("branch", "function", "other domain") for kind in ("Neg", "NoSuch")),
    ],
)
def test_old_versions_are_read_where_no_operator_has_changed(where: str, kind: str) -> None:
    """Wherever a node is; those of other domains have versions of their own."""
    inputs: dict[str, Any] = {"x": (np.bool_, [2]), "c": (np.bool_, [])}
    node = op("Not", "x", "z")
    if where == "branch":
        branch = subgraph([op(kind, "x", "o")], ["o"])
        made = model([node, op("If", "c", "y", then_branch=branch, else_branch=branch)], inputs, ["z"])
    elif where == "function":
        own = helper.make_function("f", "F", ["a"], ["b"], [op(kind, "a", "b")], [helper.make_opsetid("", 5)])
        made = model([node], inputs, ["z"], functions=[own])
    elif where == "other domain":
        made = model([node, op(kind, "x", "y", domain="d")], inputs, ["z"])
    else:
        made = model([node, op(kind, "x", "y")], inputs, ["z"])
    made.opset_import[0].version = 5
    reason = reason_of(made)
    if where == "other domain":
        assert f"d.{kind}" in reason and "opset" not in reason
    elif where == "graph":
        assert "operators of opset 5 can't be converted to opset 7" in reason and kind in reason
    else:
        assert "got opset 5" in reason


def test_operators_of_onnx_are_of_version_1_unless_another_is_said() -> None:
    made = negation()
    del made.opset_import[:]
    made.opset_import.add(domain="d", version=3)
    assert "operators of opset 1 can't be converted" in reason_of(made)


# --- the bytes of files ----------------------------------------------------------------------------------------------


def test_the_largest_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader.MAX_BYTES == (1 << 31) - 1
    data = negation().SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    monkeypatch.setattr(reader, "MAX_BYTES", len(data))
    load(path)
    monkeypatch.setattr(reader, "MAX_BYTES", len(data) - 1)
    with pytest.raises(OnnxImportError) as raised:
        load(path)
    text = f"it has {len(data)} bytes, models have 2 GiB at most and keep more beside them"
    assert text in raised.value.reason


def test_names_that_are_no_text() -> None:
    """One of several is enough."""
    data = model([op("Add", "x zz", "y")], {"x": (F, [2]), "zz": (F, [2])}, ["y"]).SerializeToString()
    assert "field 'onnx.NodeProto.input' is no text in UTF-8" in reason_of(data.replace(b"zz", b"\xff\xfe", 1))


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(importing, "parse", fail)
    with pytest.raises(NnapiError, match="the model: there is too little memory to import it") as raised:
        load(negation().SerializeToString())
    assert raised.value.code is ResultCode.OUT_OF_MEMORY


# --- tensors ---------------------------------------------------------------------------------------------------------


def with_tensor(tensor: TensorProto) -> ModelProto:
    made = model([op("Add", "x w", "y")], {"x": (F, [1])}, [])
    made.graph.initializer.append(tensor)
    made.graph.output.add(name="y")
    return made


def test_the_largest_rank() -> None:
    tensor = numpy_helper.from_array(np.ones([1] * 16, F), "w")
    made = model([op("Shape", "w", "s"), op("Neg", "x", "y")], {"x": (F, [1])}, ["y"])
    made.graph.initializer.append(tensor)
    load(made.SerializeToString())
    made.graph.initializer[0].dims.append(1)
    assert f"tensor 'w' must have at most 16 dimensions from 0 up, got {[1] * 17}" in reason_of(made)


@pytest.mark.parametrize(("extra", "has"), [(-1, 23), (1, 25)])
def test_bytes_of_tensors(extra: int, has: int) -> None:
    tensor = numpy_helper.from_array(np.arange(6, dtype=F).reshape(2, 3), "w")
    tensor.raw_data = tensor.raw_data[:extra] if extra < 0 else tensor.raw_data + b"\0"
    assert f"tensor 'w' of float32 [2, 3] needs 24 bytes, it has {has}" in reason_of(with_tensor(tensor))


@pytest.mark.parametrize("count", [5, 7])
def test_numbers_of_tensors(count: int) -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], float_data=[1.0] * count)
    assert "tensor 'w' of float32 [2, 3] has no such elements (" in reason_of(with_tensor(tensor))


@pytest.mark.parametrize(
    ("dtype", "count", "nbytes"), [(ml_dtypes.int4, 5, 3), (ml_dtypes.uint4, 6, 3), (ml_dtypes.int2, 5, 2)]
)
def test_bytes_of_elements_of_few_bits(dtype: Any, count: int, nbytes: int) -> None:
    tensor = numpy_helper.from_array(np.arange(count).astype(dtype), "w")
    made = model([op("Cast", "w", "c", to=1), op("Neg", "x", "y")], {"x": (F, [1])}, ["y"], opset=25)
    made.graph.initializer.append(tensor)
    assert len(tensor.raw_data) == nbytes
    load(made.SerializeToString())
    made.graph.initializer[0].raw_data += b"\0"
    text = f"tensor 'w' of {np.dtype(dtype).name} [{count}] needs {nbytes} bytes, it has {nbytes + 1}"
    assert text in reason_of(made)


def beside(dtype: Any, **entries: Any) -> ModelProto:
    """A constant of 6 elements that is in the file "beside"."""
    nodes = [op("Cast", "w", "c", to=1), op("Neg", "x", "y")]
    made = model(nodes, {"x": (F, [1])}, ["y"], opset=21)
    tensor = made.graph.initializer.add(name="w", data_type=element(dtype), dims=[6])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "beside", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return made


TYPES = {"float32": (F, 24), "int16": (np.int16, 12), "int4": (ml_dtypes.int4, 3), "bfloat16": (ml_dtypes.bfloat16, 12)}


def elements(made: ModelProto, source: Any, **options: Any) -> np.ndarray:
    """The elements of the tensor."""
    file = OnnxFile(source, **options)
    shared = file.shared(relaxed=False)
    return shared.arrays.read(shared.model.graph.initializer[0])


@pytest.mark.parametrize("offset", [0, 7])
@pytest.mark.parametrize("where", ["a file", "memory"])
@pytest.mark.parametrize("name", TYPES)
def test_elements_beside_a_model(name: str, where: str, offset: int, tmp_path: Path) -> None:
    """They may end with the file; a byte less is too few."""
    dtype, nbytes = TYPES[name]
    array = np.array([1, -2, 3, 0, 5, -6]).astype(dtype)
    data = bytes(offset) + numpy_helper.from_array(array).raw_data
    made = beside(dtype, offset=offset, length=nbytes)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())

    def given(content: bytes) -> tuple[Any, dict[str, Any]]:
        (tmp_path / "beside").write_bytes(content)
        if where == "a file":
            return path, {}
        return made.SerializeToString(), {"weights": memoryview(content)}

    source, options = given(data)
    found = elements(made, source, **options)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, array)
    source, options = given(data[:-1])
    end, size = offset + nbytes, offset + nbytes - 1
    text = f"ends at byte {end} of 'beside', which has {size}" if where == "a file" else f"ends at byte {end} of {size}"
    with pytest.raises(Exception, match=f"tensor 'w' {text}"):
        elements(made, source, **options)


@pytest.mark.parametrize("where", ["a file", "memory"])
@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": -1}, r"tensor 'w' ends at byte 23 of"),
        ({"offset": "x"}, r"tensor 'w' (can't be read from 'beside'|has no place in memory): invalid literal"),
    ],
)
def test_places_that_are_none(where: str, entries: dict[str, Any], text: str, tmp_path: Path) -> None:
    made = beside(F, **entries)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    (tmp_path / "beside").write_bytes(bytes(24))
    options = {} if where == "a file" else {"weights": memoryview(bytes(24))}
    with pytest.raises(Exception, match=text):
        elements(made, path if where == "a file" else made.SerializeToString(), **options)


def test_a_length_that_is_another(tmp_path: Path) -> None:
    made = beside(F, length=20)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    (tmp_path / "beside").write_bytes(bytes(24))
    with pytest.raises(OnnxImportError, match=r"tensor 'w' of float32 \[6\] needs 24 bytes, length says 20"):
        load(path)


def test_constants_of_a_file_with_open_sizes_are_read_once() -> None:
    made = model([op("Add", "x w", "y")], {"x": (F, ["n"])}, ["y"], {"w": np.ones(3, F)})
    file = OnnxFile(made.SerializeToString())
    first, second = (file.shared(relaxed=False) for _ in range(2))
    tensor = first.model.graph.initializer[0]
    array = first.arrays.take(tensor)
    assert not tensor.raw_data
    assert second.arrays.take(second.model.graph.initializer[0]) is array


# --- inputs ----------------------------------------------------------------------------------------------------------


def edges(shape: Any) -> list[Edge]:
    return edges_of(negation(shape).graph)


def test_inputs_of_the_largest_rank() -> None:
    assert edges([1] * 16)[0].shape == (1,) * 16
    with pytest.raises(Malformed, match=r"input 'x' must have at most 16 dimensions from 0 up"):
        edges([1] * 17)


def test_sizes_that_are_open() -> None:
    made = negation([3, "n", None])
    made.graph.input[0].type.tensor_type.shape.dim.add(dim_value=-1)
    (edge,) = edges_of(made.graph)
    assert edge.signature == (3, -1, -1, -1)
    assert edge.shape == (3, 1, 1, 1)
    assert edge.symbols == ("", "n", "", "")
    made.graph.input[0].type.tensor_type.shape.dim[3].dim_value = -2
    with pytest.raises(Malformed, match=r"input 'x' must have at most 16 dimensions from 0 up"):
        edges_of(made.graph)


@pytest.mark.parametrize(
    "shape", [(1, (1 << 31) - 1), (1 << 29, 1 << 30), (0, (1 << 31) - 1), (1 << 30, 0, 1 << 29)], ids=str
)
def test_sizes_that_numpy_has(shape: tuple[int, ...]) -> None:
    assert resized(edges(shape), {})[0].shape == shape


def refused_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(Malformed) as raised:
        resized(edges(shape), {})
    assert str(raised.value) == f"input 'x' can't be of shape {list(shape)}"


@pytest.mark.parametrize("shape", [(1, 1 << 31), (0, 1 << 31)], ids=str)
def test_sizes_beyond_31_bits(shape: tuple[int, ...]) -> None:
    refused_shape(shape)


@pytest.mark.parametrize("shape", [((1 << 29) + 1, 1 << 30), (1 << 30, 0, 1 << 30)], ids=str)
def test_more_elements_than_numpy_has(shape: tuple[int, ...]) -> None:
    refused_shape(shape)


def test_optional_inputs() -> None:
    """A caller always gives them."""
    made = model([op("OptionalGetElement", "o", "x"), op("Neg", "x", "y")], {}, [])
    type_ = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    made.graph.input.add(name="o").type.CopyFrom(type_)
    made.graph.node.append(op("OptionalHasElement", "o", "h"))
    made.graph.output.add(name="y")
    imported = load(made.SerializeToString())
    assert [(port.name, port.shape) for port in imported.inputs] == [("o", (2,))]
    assert (OnnxFile(made.SerializeToString()).known_outputs(shapes={}, constants={"o": np.ones(2, F)}) or [0])[
        0
    ].tolist() == [
        -1,
        -1,
    ]


@pytest.mark.parametrize(("kind", "said"), [("sequence_type", "sequence_type"), ("", "no type")])
def test_inputs_that_are_no_tensors(kind: str, said: str) -> None:
    made = negation()
    made.graph.input[0].type.Clear()
    if kind:
        made.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    assert f"input 'x' must be a tensor, got {said}" in reason_of(made)


def test_inputs_with_one_name() -> None:
    made = negation()
    made.graph.input.append(made.graph.input[0])
    assert "'x' is an input twice" in reason_of(made)


def test_constants_must_be_by_name() -> None:
    with pytest.raises(TypeError, match=r"the constants must be by name, \{'axes': array\}, got list"):
        load(negation().SerializeToString(), constants=[1])  # type: ignore[arg-type]


def test_names_of_shapes() -> None:
    made = model([op("Add", "x z", "y")], {"x": (F, [2, "n"]), "z": (F, ["m", None])}, ["y"])
    assert formats.read(made.SerializeToString()).shape_names() == {"x", "z", "n", "m"}


def quantised(where: str, moves: list[str], scale: float) -> OperandType:
    """The type of an input that is dequantised behind some nodes, by numbers that are here or there in the file."""
    names = ["x", *(f"m{at}" for at in range(len(moves)))]
    nodes = [op(kind, names[at], names[at + 1]) for at, kind in enumerate(moves)]
    nodes.append(op("DequantizeLinear", f"{names[-1]} s z", "y"))
    numbers = {"s": np.array(scale, F), "z": np.array(3, np.int8)}
    if where == "Constant":
        nodes = [op("Constant", "", name, value=numpy_helper.from_array(one)) for name, one in numbers.items()] + nodes
    made = model(nodes, {"x": (np.int8, [2, 3])}, ["y"], numbers if where == "initializer" else {})
    return load(made.SerializeToString()).inputs[0].type


@pytest.mark.parametrize("moves", [[], ["Transpose"], ["Flatten", "Identity"]], ids=str)
def test_the_quantisation_of_inputs(moves: list[str]) -> None:
    """It is told by the operator that dequantises them, behind some that only move elements."""
    type_ = quantised("initializer", moves, 0.5)
    assert (type_.code.name, type_.scale, type_.zero_point) == ("TENSOR_QUANT8_ASYMM_SIGNED", 0.5, 3)


def test_the_quantisation_that_nodes_tell() -> None:
    type_ = quantised("Constant", [], 0.5)
    assert (type_.code.name, type_.scale, type_.zero_point) == ("TENSOR_QUANT8_ASYMM_SIGNED", 0.5, 3)


def test_inputs_without_a_quantisation() -> None:
    for moves, scale in ((["Neg"], 0.5), ([], -0.5)):
        assert quantised("initializer", moves, scale).code.name == "TENSOR_INT32"


@pytest.mark.parametrize("dtype", [np.int16, np.int8])
def test_only_bytes_are_quantised_inputs(dtype: Any) -> None:
    numbers = {"s": np.array(0.5, F), "z": np.array(3, dtype)}
    made = model([op("DequantizeLinear", "x s z", "y")], {"x": (dtype, [2])}, ["y"], numbers, opset=21)
    is_byte = load(made.SerializeToString()).inputs[0].type.code.name.startswith("TENSOR_QUANT8")
    assert is_byte == (dtype is np.int8)


@pytest.mark.parametrize(
    ("kind", "at"), [("QLinearConv", 0), ("QLinearConv", 3), ("QLinearMatMul", 0), ("QLinearMatMul", 3)]
)
def test_quantised_inputs_of_products(kind: str, at: int) -> None:
    shapes = [[1, 1, 2, 2], [1, 1, 2, 2]] if kind == "QLinearConv" else [[2, 2], [2, 2]]
    constants = {"s": np.array(0.5, F), "z": np.array(3, U8), "t": np.array(0.25, F), "u": np.array(5, U8)}
    free, other = shapes
    constants["w"] = np.ones(other, U8)
    names = "x s z w t u s z" if at == 0 else "w s z x t u s z"
    made = model([op(kind, names, "y")], {"x": (U8, free)}, ["y"], constants)
    type_ = load(made.SerializeToString()).inputs[0].type
    assert (type_.scale, type_.zero_point) == ((0.5, 3) if at == 0 else (0.25, 5))


# --- graphs and functions in graphs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["graphs", "functions"])
def test_the_deepest_nesting(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert builder._MAX_DEPTH == 24
    monkeypatch.setattr(builder, "_MAX_DEPTH", 3)
    for depth in (3, 4):
        if kind == "graphs":
            inner = subgraph([op("Neg", "x", "r")], ["r"])
            for level in range(depth - 1):
                inner = subgraph([op("If", "yes", f"r{level}", then_branch=inner, else_branch=inner)], [f"r{level}"])
            leaf = subgraph([op("Neg", "x", "r")], ["r"])
            before = [op("If", "yes", f"z{at}", then_branch=leaf, else_branch=leaf) for at in range(3)]
            nodes = [*before, op("If", "yes", "y", then_branch=inner, else_branch=inner)]
            made = model(nodes, {"x": (F, [2])}, ["y"], {"yes": np.array(True)})
        else:
            calls = [*((f"F{at + 1}", "f") for at in range(depth - 1)), ("Neg", "")]
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
            functions = [
                helper.make_function("f", f"F{at}", ["a"], ["b"], [op(name, "a", "b", domain=domain)], opsets)
                for at, (name, domain) in enumerate(calls)
            ]
            made = model([op("F0", "x", "y", domain="f")], {"x": (F, [2])}, ["y"], functions=functions)
        if depth == 3:
            load(made.SerializeToString())
        else:
            assert "graphs and functions are nested more than 3 deep" in reason_of(made)


def test_only_the_first_attempt_looks_for_all_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that are tried behind it end at the first problem, without a process that infers shapes."""
    mapped: list[list[str]] = []
    whole, one = OnnxFile.shared, importer.Import.map

    def shared(*given: Any) -> Any:
        mapped.append([])
        return whole(*given)

    def map_one(self: Any, operator: Any) -> None:
        mapped[-1].append(operator.op_type)
        one(self, operator)

    monkeypatch.setattr(OnnxFile, "shared", shared)
    monkeypatch.setattr(importer.Import, "map", map_one)
    nodes = [op("Gather", "x i", "a", axis=1), op("Gather", "a j", "b", axis=0), op("Neg", "b", "y")]
    places = {"i": np.array([500]), "j": np.array([7])}
    made = model(nodes, {"x": (F, [2, "n"])}, ["y"], places)
    with pytest.raises(OnnxImportError) as raised:
        formats.read(made.SerializeToString()).load()
    assert [one.index for one in raised.value.problems] == [0, 1]
    assert raised.value.is_valid
    assert mapped == [["Gather", "Gather", "Neg"], ["Gather"]]
