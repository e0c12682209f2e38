"""EPContext nodes: models that onnxruntime has written with compiled parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper
from ort_session import agrees, model_of, ort, parts, perceptron, provider

import nnvk

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
F32 = np.float32
node = helper.make_node
WEIGHTS = np.random.default_rng(0).standard_normal((16, 8)).astype(F32)
FIXED, OPEN = perceptron(WEIGHTS, 3), perceptron(WEIGHTS)
ROWS = {"x": np.random.default_rng(1).standard_normal((3, 16)).astype(F32)}


def session(model: bytes | Path, device: str = CPU, **entries: str) -> Any:
    """A session with entries of its configuration, all nodes of which nnvk takes if it can."""
    provider.register()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    provider.record_assignment(options)
    for key, value in entries.items():
        options.add_session_config_entry(f"ep.context_{key}", value)
    options.add_provider_for_devices(provider.devices(device), {"take_all": "1"})
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, enable_fallback=0)


def compiled(model: bytes, folder: Path, device: str = CPU, embed: str = "0") -> Path:
    """The path of the model with compiled parts."""
    (folder / "model.onnx").write_bytes(model)
    path = folder / "compiled.onnx"
    session(folder / "model.onnx", device, enable="1", embed_mode=embed, file_path=str(path))
    return path


def context(model: ModelProto) -> dict[str, Any]:
    """The attributes of the first EPContext node."""
    found: NodeProto = next(one for one in model.graph.node if one.op_type == "EPContext")
    return {one.name: one for one in found.attribute}


def error_of(model: ModelProto, folder: Path, **entries: str) -> str:
    """The one line that says why a session of a model can't be made."""
    onnx.save(model, folder / "changed.onnx")
    with pytest.raises(Exception, match="nnvk") as caught:
        session(folder / "changed.onnx", **entries)
    assert "\n" not in str(caught.value).strip()
    return str(caught.value)


@pytest.mark.parametrize("embed", ["0", "1"])
@pytest.mark.parametrize("model", [FIXED, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_compiled_model_computes(device: str, model: bytes, embed: str, tmp_path: Path) -> None:
    path = compiled(model, tmp_path, device, embed)
    assert (tmp_path / "compiled_nnvk_0.bin").exists() == (embed == "0")
    (tmp_path / "model.onnx").unlink()
    found = {name: helper.get_attribute_value(one) for name, one in context(onnx.load(path)).items()}
    assert (found["source"], found["embed_mode"], found["main_context"]) == (b"nnvk", int(embed), 1)
    assert (found["ep_sdk_version"].decode(), found["hardware_architecture"].decode()) == (nnvk.__version__, device)
    made = session(path, device)
    assert parts(made) == [["com.microsoft.EPContext"]]
    agrees(made, model, ROWS, rtol=1e-5, atol=1e-6)
    if model is OPEN:
        agrees(made, model, {"x": ROWS["x"][:2]}, rtol=1e-5, atol=1e-6)


def test_the_session_that_compiles_computes_too(tmp_path: Path) -> None:
    made = session(FIXED, DEVICES[0], enable="1", embed_mode="1", file_path=str(tmp_path / "compiled.onnx"))
    agrees(made, FIXED, ROWS, rtol=1e-5, atol=1e-6)


def test_nodes_that_stay_are_in_the_model(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Inverse", ["a"], ["i"], domain="com.microsoft"),
        node("MatMul", ["i", "x"], ["b"]),
        node("Sub", ["b", "a"], ["y"]),
        node("Neg", ["b"], ["z"]),
    ]
    model = model_of(nodes, [("x", F32, [2, 2])], [("y", F32, [2, 2]), ("z", F32, [2, 2])])
    path = compiled(model, tmp_path)
    made = session(path)
    assert parts(made) == [["com.microsoft.EPContext"]] * 2
    assert "saved parts" in next(one.reason for one in provider.assignment(made) if one.operator.endswith("Inverse"))
    agrees(made, model, {"x": np.array([[1, 2], [3, 5]], F32)}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int64, np.float16])
def test_element_types(dtype: str, tmp_path: Path) -> None:
    edges = ("x", dtype, [4]), ("y", dtype, [2, 2])
    model = model_of([node("Reshape", ["x", "s"], ["y"])], edges[:1], edges[1:], {"s": np.array([2, 2])})
    agrees(session(compiled(model, tmp_path)), model, {"x": np.arange(4).astype(dtype)})


def test_numbers_of_64_bits_and_scalars(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "x"], ["y"]), node("Neg", ["s"], ["t"])]
    edges = [("x", np.int64, [3]), ("s", F32, [])], [("y", np.int64, [3]), ("t", F32, [])]
    model = model_of(nodes, *edges)
    feed = {"x": np.array([1 << 20, 5, -(1 << 30)]), "s": np.array(2, F32)}
    agrees(session(compiled(model, tmp_path)), model, feed)


def test_control_flow(tmp_path: Path) -> None:
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 27):
        pytest.skip("before onnxruntime 1.27 a part can't have an If")
    tensor = helper.make_tensor_value_info
    then = helper.make_graph([node("Add", ["x", "x"], ["t"])], "then", [], [tensor("t", 1, [4])])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "other", [], [tensor("e", 1, [4])])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    model = model_of(nodes, [("x", F32, [4]), ("c", np.bool_, [])], [("y", F32, [4])])
    made = session(compiled(model, tmp_path))
    for condition in (True, False):
        agrees(made, model, {"x": np.arange(4, dtype=F32), "c": np.array(condition)})


def test_a_compiled_model_is_not_compiled_again(tmp_path: Path) -> None:
    path = compiled(FIXED, tmp_path)
    assert "compiled already" in error_of(onnx.load(path), tmp_path, enable="1", file_path=str(tmp_path / "again.onnx"))


def test_a_damaged_part_is_an_error(tmp_path: Path) -> None:
    model = onnx.load(compiled(FIXED, tmp_path, embed="1"))
    content = context(model)["ep_cache_context"]
    whole = content.s
    for spoilt, reason in (
        (whole[:100] + b"?" + whole[101:], "its digest is another one"),
        (whole[:-1], "bytes instead of"),
        (b"", "more than 0 bytes"),
        (b"?" + whole[1:], "no part that nnvk has saved"),
        (whole[:8] + b"\2" + whole[9:], "format 2 by another version of nnvk"),
    ):
        content.s = spoilt
        assert reason in error_of(model, tmp_path)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../compiled_nnvk_0.bin", "a/../../b", "."])
def test_a_file_of_a_part_is_beside_the_model(name: str, tmp_path: Path) -> None:
    model = onnx.load(compiled(FIXED, tmp_path))
    context(model)["ep_cache_context"].s = name.encode()
    reason = error_of(model, tmp_path)
    assert "must be in the folder of the model" in reason or "is no regular file" in reason


def test_a_pipe_in_the_place_of_a_part_does_not_hang(tmp_path: Path) -> None:
    path = compiled(FIXED, tmp_path)
    (tmp_path / "compiled_nnvk_0.bin").unlink()
    assert "can't be read: No such file" in error_of(onnx.load(path), tmp_path)
    os.mkfifo(tmp_path / "compiled_nnvk_0.bin")
    assert "is no regular file" in error_of(onnx.load(path), tmp_path)


def test_a_model_in_memory(tmp_path: Path) -> None:
    """The option ep.context_file_path says where the files of the parts are."""
    path = compiled(FIXED, tmp_path)
    agrees(session(path.read_bytes(), file_path=str(path)), FIXED, ROWS, rtol=1e-5)
    with pytest.raises(Exception, match=r"ep\.context_file_path tells it"):
        session(path.read_bytes())


def test_edges_that_were_changed(tmp_path: Path) -> None:
    """A node with another number of inputs or outputs is an error."""
    model = onnx.load(compiled(FIXED, tmp_path))
    model.graph.node[0].output.append("more")
    model.graph.output.append(helper.make_tensor_value_info("more", 1, [3, 8]))
    assert "has 1 outputs, its node 2" in error_of(model, tmp_path)
    model = onnx.load(tmp_path / "compiled.onnx")
    model.graph.node[0].input.append("more")
    model.graph.input.append(helper.make_tensor_value_info("more", 1, [3, 8]))
    assert "has 1 inputs" in error_of(model, tmp_path)


def test_another_shape_than_the_part_was_saved_for(tmp_path: Path) -> None:
    model = onnx.load(compiled(FIXED, tmp_path))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, tmp_path / "open.onnx")
    made = session(tmp_path / "open.onnx")
    with pytest.raises(Exception, match="was saved for inputs of shapes"):
        made.run(None, {"x": ROWS["x"][:2]})
    agrees(made, FIXED, ROWS, rtol=1e-5)


def test_compatibility(tmp_path: Path) -> None:
    """A program can ask whether nnvk can load a compiled model, by a text in the model."""
    model = onnx.load(compiled(FIXED, tmp_path))
    text = next(one.value for one in model.metadata_props if one.key == f"ep_compatibility_info.{provider.NAME}")
    assert text.startswith(f"nnvk saved part 1; nnvk {nnvk.__version__}; {CPU}, ")
    asked = ort.capi.onnxruntime_pybind11_state
    kinds = getattr(asked, "OrtCompiledModelCompatibility", None)
    if kinds is None:
        pytest.skip(f"the Python package {ort.__version__} has no such question")
    for other, kind in (
        (text, kinds.EP_SUPPORTED_OPTIMAL),
        (text + "!", kinds.EP_SUPPORTED_PREFER_RECOMPILATION),
        (text.replace("part 1;", "part 2;"), kinds.EP_UNSUPPORTED),
        ("", kinds.EP_UNSUPPORTED),
    ):
        assert asked.get_model_compatibility_for_ep_devices(provider.devices(CPU), other) == kind


def test_the_compiler_of_models(tmp_path: Path) -> None:
    """The class ModelCompiler of onnxruntime makes the same models."""
    provider.register()
    options = ort.SessionOptions()
    options.add_provider_for_devices(provider.devices(CPU), {"take_all": "1"})
    compiler = ort.ModelCompiler(options, OPEN, embed_compiled_data_into_model=True)
    compiler.compile_to_file(str(tmp_path / "compiled.onnx"))
    agrees(session(tmp_path / "compiled.onnx"), OPEN, ROWS, rtol=1e-5)


def test_options_of_contexts() -> None:
    with pytest.raises(Exception, match="embed_mode"):
        session(FIXED, enable="1", embed_mode="2", file_path="/tmp/none.onnx")
