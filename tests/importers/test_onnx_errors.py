"""The ONNX importer refuses files that are broken, hostile, or beyond what NNAPI has, and says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference
from onnx_net import model, op, subgraph

from nnvk import NnapiError, ResultCode
from nnvk.importers.limited import Refused
from nnvk.importers.onnx import OnnxImportError, inference, load

F = np.float32


@pytest.fixture(autouse=True)
def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infer shapes in this process; `test_onnx_bombs.py` has what needs a process with limits for it."""

    def infer(program: str, data: bytes, seconds: int, nbytes: int) -> bytes:
        try:
            return shape_inference.infer_shapes(ModelProto.FromString(data)).SerializeToString()
        except Exception as error:
            raise Refused(str(error)) from error

    monkeypatch.setattr(inference, "run_limited", infer)


def net() -> Any:
    """A model of several nodes, with weights."""
    nodes = [
        op("Conv", "x w b", "c", pads=[1, 1, 1, 1], name="first"),
        op("Relu", "c", "r"),
        op("Reshape", "r shape", "f"),
        op("Gemm", "f m", "y", transB=1, name="last"),
    ]
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((2, 3, 3, 3)).astype(F),
        "b": np.zeros(2, F),
        "shape": np.array([1, -1]),
        "m": rng.standard_normal((4, 32)).astype(F),
    }
    return model(nodes, {"x": (F, [1, 3, 4, 4])}, ["y"], constants)


def refused(made: Any, **options: Any) -> OnnxImportError:
    with pytest.raises(OnnxImportError) as raised:
        load(made if isinstance(made, bytes) else made.SerializeToString(), **options)
    assert raised.value.code is ResultCode.BAD_DATA
    return raised.value


# --- no model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 64, b"no model at all", b"\x08\x08", b"\xff" * 100],
    ids=["empty", "zeros", "text", "head", "ones"],
)
def test_other_files(data: bytes) -> None:
    assert "not an .onnx file" in refused(data).reason


def test_a_pointer_of_git_lfs() -> None:
    assert "a pointer of Git LFS" in refused(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\n").reason


def test_a_truncated_file() -> None:
    data = net().SerializeToString()
    for end in range(0, len(data), 37):
        refused(data[:end])


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.onnx")
    with pytest.raises(OSError, match="no regular file"):
        load("/dev/zero")


@pytest.mark.parametrize(("opset", "ir"), [(6, 8), (0, 8), (-1, 8), (-(2**63), 8), (2**63 - 1, 8), (99, 8), (17, 99)])
def test_other_versions(opset: int, ir: int) -> None:
    made = net()
    made.opset_import[0].version, made.ir_version = opset, ir
    unknown = "an .onnx file of an unknown version" if opset != 6 else "malformed .onnx file"
    assert refused(made).reason.startswith(unknown)


def test_old_versions_of_operators_that_have_not_changed() -> None:
    """So it is of graphs in nodes and of functions, and other operators are refused."""
    made = model([op("Not", "x", "y")], {"x": (np.bool_, [3])}, ["y"])
    made.opset_import[0].version = 1
    assert [one.code.name for one in load(made.SerializeToString()).model.frozen.operations] == ["LOGICAL_NOT"]
    branch = subgraph([op("Relu", "x", "o")], ["o"])
    nodes = [op("If", "c", "y", then_branch=branch, else_branch=branch)]
    nested = model(nodes, {"x": (F, [3]), "c": (np.bool_, [])}, ["y"])
    for version in (1, 6):  # Relu has changed with version 6
        nested.opset_import[0].version = version
        if version == 6:
            load(nested.SerializeToString())
        else:
            assert "got opset 1" in refused(nested).reason


def test_operators_of_onnx_need_a_version_beside_others() -> None:
    made = model([op("Gelu", "x", "a", domain="com.microsoft"), op("Neg", "a", "y")], {"x": (F, [2])}, ["y"])
    del made.opset_import[:]
    made.opset_import.add(domain="com.microsoft", version=1)
    assert "operators of opset 1 can't be converted" in refused(made).reason
    made.graph.node[1].op_type, made.graph.node[1].domain = "Gelu", "com.microsoft"
    assert len(load(made.SerializeToString()).outputs) == 1


# --- graphs that make no sense -------------------------------------------------------------------------------


def test_a_cycle() -> None:
    made = net()
    made.graph.node[0].input[0] = "y"
    error = refused(made)
    assert "operator 0 (Conv 'first'): no node before it gives 'y', node 3 behind it does" in error.reason


def test_a_tensor_that_nobody_gives() -> None:
    made = net()
    made.graph.node[1].input[0] = "other"
    assert "operator 1 (Relu): no node before it gives 'other'" in refused(made).reason


def test_an_output_that_nobody_gives() -> None:
    made = net()
    made.graph.output[0].name = "other"
    assert "output 0: no node before it gives 'other'" in refused(made).reason


def test_a_body_of_other_inputs() -> None:
    body = subgraph([op("Neg", "a", "b")], ["b"], {"a": (F, [2])})
    made = model([op("Scan", "h x", "y", body=body, num_scan_inputs=1)], {"h": (F, [2]), "x": (F, [3, 2])}, ["y"])
    assert "operator 0 (Scan): its graph must have 2 inputs, got 1" in refused(made).reason


def test_an_output_that_a_node_has_not() -> None:
    made = model([op("Dropout", "x", "y mask more")], {"x": (F, [2])}, ["y", "more"])
    assert "output 1: node 0 (Dropout) has no such output as 'more'" in refused(made).reason


@pytest.mark.parametrize(
    ("node", "constants", "reason"),
    [
        (op("Concat", "x", "y", axis=5), {}, "the axis must be in [-1, 1), got 5"),
        (op("Split", "x s", "y z"), {"s": np.array([1, 1, 2])}, "the sizes [1, 1, 2] do not make up axis 0"),
    ],
)
def test_parts_that_do_not_fit(node: NodeProto, constants: dict[str, np.ndarray], reason: str) -> None:
    assert reason in refused(model([node], {"x": (F, [4])}, ["y"], constants)).reason


def test_a_tensor_that_two_nodes_give() -> None:
    made = net()
    made.graph.node[1].output[0] = "c"
    assert "its output 'c' has a value already" in refused(made).reason


def test_an_attribute_of_another_type() -> None:
    made = net()
    del made.graph.node[0].attribute[:]
    made.graph.node[0].attribute.append(helper.make_attribute("pads", "around"))
    assert "operator 0 (Conv 'first'): attribute 'pads' must be INTS, got STRING" in refused(made).reason


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": [0, 1]}, "attribute 'strides' must have numbers from 1 up"),
        ({"pads": [1, 1, 1]}, "attribute 'pads' must have 4 numbers"),
        ({"pads": [-1, 0, 0, 0]}, "attribute 'pads' must have 4 numbers from 0 up"),
        ({"group": 2}, "do not fit the 3 channels"),
        ({"group": 0}, "do not fit the 3 channels"),
        ({"dilations": [9, 9]}, "does not fit into 4"),
        ({"auto_pad": "LEFT"}, "attribute 'auto_pad' must be"),
    ],
)
def test_a_convolution_that_makes_no_sense(attributes: dict[str, Any], message: str) -> None:
    made = net()
    del made.graph.node[0].attribute[:]
    made.graph.node[0].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    assert message in refused(made).reason


@pytest.mark.parametrize("dims", [[-1, 4], [2, -2], [1] * 17])
def test_weights_of_impossible_dimensions(dims: list[int]) -> None:
    made = model([op("Add", "x w", "y")], {"x": (F, [1])}, ["y"], {"w": np.zeros(1, F)})
    made.graph.initializer[0].dims[:] = dims
    assert f"tensor 'w' must have at most 16 dimensions from 0 up, got {dims}" in refused(made).reason


@pytest.mark.parametrize("dims", [[-2, 4], [2, -3], [1] * 17])
def test_inputs_of_impossible_dimensions(dims: list[int]) -> None:
    made = model([op("Neg", "x", "y")], {"x": (F, dims)}, [])
    made.graph.output.add(name="y")
    assert "must have at most 16 dimensions from 0 up" in refused(made).reason


def test_weights_of_other_sizes_than_their_bytes() -> None:
    made = net()
    made.graph.initializer[0].dims[0] = 1 << 40
    assert "tensor 'w' of float32" in refused(made).reason


def test_a_shape_that_does_not_fit() -> None:
    made = net()
    made.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.array([1, 31]), "shape"))
    assert "operator 2 (Reshape): a tensor of shape [1, 2, 4, 4] has not as many elements as one of [1, 31]" in (
        refused(made).reason
    )


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128, 77])
def test_types_that_are_none(kind: int) -> None:
    made = net()
    made.graph.input[0].type.tensor_type.elem_type = kind
    reason = refused(made).reason
    assert "input 'x'" in reason
    assert reason.startswith("malformed .onnx file" if kind == 77 else "NNAPI can't express this model")


def test_an_input_without_a_shape() -> None:
    made = net()
    made.graph.input[0].type.tensor_type.ClearField("shape")
    reason = refused(made).reason
    assert reason.startswith("NNAPI can't express this model")
    assert "input 'x' must have a shape" in reason


def test_an_input_that_is_no_tensor() -> None:
    made = net()
    made.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    reason = refused(made).reason
    assert reason.startswith("NNAPI can't express this model")
    assert "input 'x' must be a tensor, got sequence_type" in reason
    made.graph.input[0].ClearField("type")
    assert refused(made).reason.startswith("malformed .onnx file")


def test_graphs_that_are_nested_too_deep() -> None:
    inner = other = subgraph([op("Neg", "x", "r")], ["r"])
    for depth in range(30):
        inner = subgraph([op("If", "yes", f"r{depth}", then_branch=inner, else_branch=other)], [f"r{depth}"])
    nodes = [op("If", "yes", "y", then_branch=inner, else_branch=other)]
    made = model(nodes, {"x": (F, [2])}, ["y"], {"yes": np.array(True)})
    assert "nested" in refused(made).reason


def test_a_loop_without_end() -> None:
    body = subgraph(
        [op("Neg", "s", "t"), op("Identity", "k", "more")],
        ["more", "t"],
        {"i": (np.int64, []), "k": (np.bool_, []), "s": (F, [2])},
        {"more": (np.bool_, [])},
    )
    made = model([op("Loop", "- yes x", "y", body=body)], {"x": (F, [2])}, ["y"], {"yes": np.array(True)})
    assert "too long to unroll" in refused(made).reason


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([op("ConstantOfShape", "n", "t"), op("Add", "t x", "y")], {"n": np.array([1 << 40])}),
        ([op("Expand", "x n", "y")], {"n": np.array([1 << 20, 1 << 20, 1])}),
        ([op("Tile", "x n", "y")], {"n": np.array([1 << 40])}),
        ([op("Pad", "x n", "y")], {"n": np.array([1 << 40, 0])}),
        (
            [op("Range", "a n d", "t"), op("Add", "t x", "y")],
            {"a": np.array(0), "n": np.array(1 << 50), "d": np.array(1)},
        ),
    ],
    ids=["constant", "expand", "tile", "pad", "range"],
)
def test_a_small_file_that_wants_much_memory(nodes: list[Any], constants: dict[str, np.ndarray]) -> None:
    refused(model(nodes, {"x": (F, [1])}, ["y"], constants))


# --- files beside the model ----------------------------------------------------------------------------------


def beside(location: str, **entries: int) -> Any:
    made = net()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return made


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("absent.bin", {}, "can't be read from 'absent.bin'"),
        ("/etc/passwd", {}, "must be in a file of the model's folder"),
        ("../weights.bin", {}, "must be in a file of the model's folder"),
        ("link.bin", {}, "must be in a file of the model's folder"),
        ("weights.bin", {"offset": 100}, "ends at byte 316 of 'weights.bin', which has 216"),
        ("weights.bin", {"length": 8}, "needs 216 bytes, length says 8"),
        ("weights.bin", {"offset": -4}, "ends at byte"),
    ],
)
def test_external_data(tmp_path: Path, location: str, entries: dict[str, int], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("weights.bin", "model/weights.bin"):
        (tmp_path / name).write_bytes(bytes(216))
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = folder / "model.onnx"
    path.write_bytes(beside(location, **entries).SerializeToString())
    with pytest.raises(OnnxImportError, match="operator 0") as raised:
        load(path)
    assert message in raised.value.reason


def test_external_data_of_a_model_in_memory() -> None:
    assert "beside the model: load it from its path" in refused(beside("weights.bin")).reason


# --- what NNAPI has not --------------------------------------------------------------------------------------


def test_problems_behind_others_are_listed_and_alike_ones_share_a_line() -> None:
    nodes = [
        op("Dropout", "x r t", "a"),
        op("Conv", "a w", "b"),
        op("ImageDecoder", "b w b", "c"),
        op("Unheard", "c", "d"),
        op("ImageDecoder", "b w b", "e"),
        op("Conv", "x v", "f"),
    ]
    inputs = {"x": (F, [1, 3, 4, 4])}
    constants = {"w": np.ones((2, 3, 1, 1), F), "v": np.ones((2, 5, 1, 1), F)}
    constants |= {"r": np.array(0.5, F), "t": np.array(True)}
    made = model(nodes, inputs, ["d", "e", "f"], constants)
    made.graph.node[3].domain = "own"
    error = refused(made)
    kinds = [(problem.operation, problem.index) for problem in error.problems]
    assert kinds == [("Dropout", 0), ("ImageDecoder", 2), ("own.Unheard", 3), ("ImageDecoder", 4), ("Conv", 5)]
    assert "operators 2, 4 (ImageDecoder, 2 in all): NNAPI has no counterpart of this operator" in error.reason


def test_all_operators_that_are_missing_in_the_graphs_of_a_node_are_listed() -> None:
    inner = helper.make_function(
        "own", "Known", ["a"], ["b"], [op("Absent", "a", "b", domain="own")], [helper.make_opsetid("own", 1)]
    )
    branch = subgraph(
        [
            op("Foo", "x", "s", domain="own"),
            op("Foo", "s", "t", domain="own"),
            op("Relu", "t", "u"),
            op("Constant", "", "k", value_float=1.0),
            op("Known", "u", "v", domain="own"),
            op("Bar", "v", "w", domain="own"),
        ],
        ["w"],
    )
    nodes = [op("If", "c", "y", then_branch=branch, else_branch=branch, name="choice")]
    made = model(nodes, {"c": (np.bool_, []), "x": (F, [2])}, ["y"], functions=[inner])
    error = refused(made)
    assert {(problem.operation, problem.index, problem.name) for problem in error.problems} == {("If", 0, "choice")}
    absent = "NNAPI has no counterpart of this operator"
    assert {problem.reason for problem in error.problems} == {
        f"in it, own.Foo (4 nodes): {absent}",
        f"in it, own.Bar (2 nodes): {absent}",
        f"in it, own.Absent: {absent}",
    }
    assert error.unknown == ("c",)


def test_a_reason_within_a_function_names_the_operator_inside() -> None:
    function = helper.make_function(
        "own",
        "Own",
        ["a"],
        ["y"],
        [op("Transpose", "a", "y", name="inner", perm=[0, 0])],
        [helper.make_opsetid("", 17)],
    )
    made = model([op("Own", "x", "y", domain="own")], {"x": (F, [4, 4])}, ["y"], functions=[function])
    assert "operator 0 (own.Own): in it, Transpose 'inner': the permutation must name" in refused(made).reason


# --- anything ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_give_errors_and_nothing_else(seed: int) -> None:
    data = bytearray(net().SerializeToString())
    rng = np.random.default_rng(seed)
    for _ in range(150):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 5)):
            damaged[place] = rng.integers(0, 256)
        try:
            load(bytes(damaged))
        except NnapiError as error:
            assert error.code is ResultCode.BAD_DATA


def test_without_the_package_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['onnx'] = None; import nnvk.importers.onnx"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: models in ONNX need the onnx package: pip install onnx ml_dtypes" in done.stderr
