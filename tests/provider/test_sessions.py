"""Sessions on nnvk against onnxruntime's own CPU provider."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_session import agrees, model_of, ort, parts, perceptron, provider, session

import nnvk

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
F32 = np.float32
node = helper.make_node
WEIGHTS = np.random.default_rng(0).standard_normal((16, 8)).astype(F32)
PERCEPTRON = perceptron(WEIGHTS)
RELU = model_of([node("Relu", ["x"], ["y"], "relu")], [("x", F32, [4])], [("y", F32, [4])])
FOUR = {"x": np.array([-1, 2, -3, 4], F32)}


def mixed() -> bytes:
    """A model with an operator on text, which nnvk has not."""
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Identity", ["s"], ["t"]),
        node("Neg", ["a"], ["y"]),
    ]
    return model_of(nodes, [("x", F32, [4]), ("s", str, [2])], [("y", F32, [4]), ("t", str, [2])])


@pytest.mark.parametrize("device", DEVICES)
def test_a_whole_model_in_several_shapes(device: str) -> None:
    made = session(PERCEPTRON, device)
    assert parts(made) == [["MatMul", "Relu", "Softmax"]]
    for rows in (1, 3, 1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(F32)
        agrees(made, PERCEPTRON, {"x": x}, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_convolution(device: str) -> None:
    generator = np.random.default_rng(1)
    values = {"w": generator.standard_normal((8, 3, 3, 3)).astype(F32), "b": generator.standard_normal(8).astype(F32)}
    nodes = [node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4), node("GlobalAveragePool", ["c"], ["y"])]
    model = model_of(nodes, [("x", F32, [1, 3, "h", "w"])], [("y", F32, [1, 8, 1, 1])], values)
    made = session(model, device)
    assert parts(made) == [["Conv", "GlobalAveragePool"]]
    for size in (8, 12):
        x = generator.standard_normal((1, 3, size, size)).astype(F32)
        agrees(made, model, {"x": x}, rtol=1e-4, atol=1e-5)


def test_text_stays_and_the_rest_goes() -> None:
    made = session(mixed(), CPU)
    assert parts(made) == [["Neg", "Relu"]]
    y, text = made.run(None, {**FOUR, "s": np.array(["a", "b"], object)})
    np.testing.assert_array_equal(y, [0, -2, 0, -4])
    assert list(text) == ["a", "b"]


def test_a_node_in_the_middle_stays() -> None:
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Inverse", ["a"], ["i"], domain="com.microsoft"),
        node("Neg", ["i"], ["n"]),
        node("Add", ["n", "a"], ["y"]),
    ]
    model = model_of(nodes, [("x", F32, [2, 2])], [("y", F32, [2, 2])])
    for options, taken in ({}, [["Add", "Neg"]]), ({"take_all": "1"}, [["Abs"], ["Add", "Neg"]]):
        made = session(model, CPU, **options)
        assert parts(made) == taken
        agrees(made, model, {"x": np.array([[1, 2], [3, 5]], F32)}, rtol=1e-5)


def test_an_if_goes_as_a_whole() -> None:
    tensor = helper.make_tensor_value_info
    k = numpy_helper.from_array(np.full(4, 3, F32), "k")
    then = helper.make_graph([node("Add", ["x", "k"], ["t"])], "then", [], [tensor("t", 1, [4])], [k])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "other", [], [tensor("e", 1, [4])])
    nodes = [node("If", ["c"], ["z"], then_branch=then, else_branch=other), node("Relu", ["z"], ["y"])]
    model = model_of(nodes, [("x", F32, [4]), ("c", np.bool_, [])], [("y", F32, [4])])
    made = session(model, CPU)
    for condition in (True, False):
        agrees(made, model, {**FOUR, "c": np.array(condition)})


@pytest.mark.parametrize(
    "dtype",
    [
        np.bool_,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.float16,
    ],
)
def test_element_types(dtype: str) -> None:
    edges = ("x", dtype, [4]), ("y", dtype, [2, 2])
    model = model_of([node("Reshape", ["x", "s"], ["y"])], edges[:1], edges[1:], {"s": np.array([2, 2])})
    made = session(model, CPU)
    assert parts(made) == [["Reshape"]]
    agrees(made, model, {"x": np.arange(4).astype(dtype)})


def test_float64_is_onnxruntimes() -> None:
    """A node that computes in 64 bits would lose bits on a device, also one that waits for values."""
    nodes = [node("Sigmoid", ["x"], ["y"]), node("CumSum", ["x", "axis"], ["z"]), node("Sigmoid", ["f"], ["g"])]
    inputs = [("x", np.float64, [2]), ("axis", np.int64, []), ("f", F32, [2])]
    model = model_of(nodes, inputs, [("y", np.float64, [2]), ("z", np.float64, [2]), ("g", F32, [2])])
    made = session(model, CPU, take_all="1", values_at_run="1")
    assert parts(made) == [["Sigmoid"]]
    x = np.array([20, -1e-9])
    y, z, _ = made.run(None, {"x": x, "axis": np.array(0), "f": x.astype(F32)})
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-x)), rtol=1e-12)
    assert y[0] < 1 and z[1] < 20


def test_scalars_and_what_is_empty() -> None:
    scalar = model_of([node("Neg", ["x"], ["y"])], [("x", F32, [])], [("y", F32, [])])
    agrees(session(scalar, CPU), scalar, {"x": np.array(2, F32)})
    agrees(session(PERCEPTRON, CPU), PERCEPTRON, {"x": np.zeros((0, 16), F32)})


def test_numbers_beyond_32_bits_are_an_error() -> None:
    model = model_of([node("Neg", ["x"], ["y"])], [("x", np.int64, [2])], [("y", np.int64, [2])])
    made = session(model, CPU)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="32 bits"):
        made.run(None, {"x": np.array([1 << 40, 0])})
    agrees(made, model, {"x": np.array([1 << 20, -3])})


def test_more_shapes_than_are_kept() -> None:
    made = session(PERCEPTRON, CPU)
    for rows in (*range(1, 12), 1, 11, 2, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(F32)
        agrees(made, PERCEPTRON, {"x": x}, rtol=1e-5, atol=1e-6)


def test_sizes_that_data_decide() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Neg", ["x"], ["y"])]
    model = model_of(nodes, [("x", F32, [4])], [("i", np.int64, [1, "n"]), ("y", F32, [4])])
    made = session(model, CPU)
    assert ["NonZero"] in parts(made)
    for x in ([0, 1, 0, 2], [0, 0, 0, 0], [1, 2, 3, 4]):
        agrees(made, model, {"x": np.array(x, F32)})


def test_whole_numbers_of_64_bits_again_and_again() -> None:
    nodes = [node("Mul", ["x", "x"], ["y"]), node("Cast", ["y"], ["z"], to=1)]
    model = model_of(nodes, [("x", np.int64, [3])], [("y", np.int64, [3]), ("z", F32, [3])])
    made = session(model, CPU)
    for x in ([1, -2, 3], [1 << 20, 5, -(1 << 30)], [0, 0, 0]):
        agrees(made, model, {"x": np.array(x)})


def test_constants_of_a_file_beside(tmp_path: Path) -> None:
    weights = np.random.default_rng(2).random((16, 8), F32)
    path = tmp_path / "model.onnx"
    model = onnx.load_from_string(perceptron(weights))
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    made = session(str(path))  # type: ignore[arg-type]
    agrees(made, perceptron(weights), {"x": np.ones((2, 16), F32)}, rtol=1e-5)


def test_a_constant_that_may_be_given() -> None:
    edges = [("x", F32, [4]), ("k", F32, [4])]
    model = model_of([node("Add", ["x", "k"], ["y"])], edges, [("y", F32, [4])], {"k": np.ones(4, F32)})
    made = session(model, CPU)
    agrees(made, model, FOUR)
    agrees(made, model, {**FOUR, "k": np.full(4, 5, F32)})


def test_reasons_are_in_the_log() -> None:
    script = (
        "import sys; sys.path[:] = sys.argv[1:]\n"
        "import test_sessions as own\n"
        "own.session(own.mixed(), own.CPU, severity=1)\n"
    )
    paths = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True, timeout=120
    )
    assert "Identity '' stays with onnxruntime: " in done.stderr
    assert "nnvk: 2 of 3 nodes in 1 part" in done.stderr


def text_in_a_branch() -> bytes:
    """A model with an If that compares text with a constant in its branches."""
    output = helper.make_tensor_value_info("b", TensorProto.BOOL, [2])
    text = helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"b"])
    branch = helper.make_graph([node("Equal", ["s", "t"], ["b"])], "branch", [], [output], [text])
    nodes = [node("Relu", ["x"], ["y"]), node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)]
    edges = [("x", F32, [4]), ("s", str, [2]), ("c", np.bool_, [])], [("y", F32, [4]), ("z", np.bool_, [2])]
    return model_of(nodes, *edges, opset=19)


def test_a_graph_that_can_not_be_examined_is_a_warning() -> None:
    """All nodes are onnxruntime's, and the log has the reason."""
    script = (
        "import sys; sys.path[:] = sys.argv[1:]\n"
        "import test_sessions as own\n"
        "model = own.text_in_a_branch()\n"
        "feed = {**own.FOUR, 's': own.np.array(['a', 'c'], object), 'c': own.np.array(True)}\n"
        "own.agrees(own.session(model, own.CPU, severity=2), model, feed)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "nnvk: no node of this graph runs on nnvk: " in done.stderr
    assert "a constant is of strings" in done.stderr


def test_a_constant_of_text_stays_and_the_rest_goes() -> None:
    nodes = [node("Equal", ["s", "t"], ["z"]), node("Relu", ["x"], ["y"])]
    edges = [("x", F32, [4]), ("s", str, [2])], [("y", F32, [4]), ("z", np.bool_, [2])]
    model = model_of(nodes, *edges, {"t": np.array(["a", "b"], object)}, opset=19)
    made = session(model, CPU)
    assert parts(made) == [["Relu"]]
    agrees(made, model, {**FOUR, "s": np.array(["a", "c"], object)})


def test_options() -> None:
    x = {"x": np.ones((1, 16), F32)}
    agrees(session(PERCEPTRON, relaxed="1"), PERCEPTRON, x, rtol=1e-2, atol=1e-3)
    with pytest.raises(Exception, match="the option relaxed must be 0 or 1, got 'yes'"):
        session(PERCEPTRON, CPU, relaxed="yes")
    assert parts(session(RELU, DEVICES[0], device=CPU)) == [["Relu"]]
    with pytest.raises(Exception, match=r"the option device must be one of .*, got 'gpu-9'"):
        session(RELU, CPU, device="gpu-9")
    with pytest.raises(nnvk.NnapiError, match="there is no device 'gpu-9', there are "):
        provider.devices("gpu-9")


def test_a_folder_for_compiled_models(tmp_path: Path) -> None:
    x = {"x": np.ones((2, 16), F32)}
    for _ in range(2):
        agrees(session(PERCEPTRON, DEVICES[0], cache_dir=str(tmp_path)), PERCEPTRON, x, rtol=1e-5)
        assert bool(list(tmp_path.rglob("*"))) == (DEVICES[0] != CPU)
    with pytest.raises(Exception, match="missing"):
        session(RELU, DEVICES[0], cache_dir=str(tmp_path / "missing"))


def test_values_that_are_known_when_a_part_runs() -> None:
    """A node that must know an input stays, or is a part by itself, which is imported for each of its values."""
    nodes = [
        node("Abs", ["x"], ["a"], "abs"),
        node("TopK", ["a", "k"], ["v", "i"], "largest"),
        node("Softmax", ["v"], ["y"], "soft"),
    ]
    model = model_of(
        nodes, [("x", F32, [2, 6]), ("k", np.int64, [1])], [("y", F32, [2, "k"]), ("i", np.int64, [2, "k"])]
    )
    placed = {one.node: one for one in provider.assignment(session(model, CPU, take_all="1"))}
    assert placed["largest"].provider != provider.NAME
    assert "k (input 1) must be a constant" in placed["largest"].reason
    made = session(model, CPU, take_all="1", values_at_run="1")
    assert ["TopK"] in parts(made)
    x = np.random.default_rng(3).standard_normal((2, 6)).astype(F32)
    for k in (3, 1, 3, 6):
        agrees(made, model, {"x": x, "k": np.array([k])}, rtol=1e-6)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="TopK"):
        made.run(None, {"x": x, "k": np.array([7])})


def test_inputs_without_elements() -> None:
    """An input of no elements does not keep the other nodes from the device."""
    nodes = [node("Abs", ["x"], ["a"]), node("CastLike", ["a", "like"], ["y"])]
    model = model_of(nodes, [("x", F32, [4]), ("like", np.int32, [0])], [("y", np.int32, [4])])
    made = session(model, CPU)
    assert sum(map(len, parts(made))) == 2
    agrees(made, model, {**FOUR, "like": np.zeros(0, np.int32)})


def test_where_nodes_run() -> None:
    placed = provider.assignment(session(RELU, CPU))
    assert placed == [provider.Placement(provider.NAME, "Relu", "relu", 0)]


def test_why_nodes_stay() -> None:
    nodes = [
        node("Abs", ["x"], ["a"], "abs"),
        node("Inverse", ["a"], ["i"], "first", domain="com.microsoft"),
        node("Neg", ["i"], ["n"]),
        node("Neg", ["n"], ["m"]),
        node("Inverse", ["m"], ["y"], "second", domain="com.microsoft"),
    ]
    model = model_of(nodes, [("x", F32, [2, 2])], [("y", F32, [2, 2])])
    for made in session(model, CPU), session(model, CPU):
        placed = {(one.operator, one.node): one for one in provider.assignment(made)}
        assert (
            placed["Abs", "abs"].reason == "it costs less than the way to the device and back, between nodes that stay"
        )
        assert "no counterpart" in placed["com.microsoft.Inverse", "first"].reason
        assert "no counterpart" in placed["com.microsoft.Inverse", "second"].reason
        assert placed["Neg", ""].reason == ""
        assert placed["Neg", ""].provider == provider.NAME


def test_why_nodes_of_a_branch_stay() -> None:
    tensor = helper.make_tensor_value_info
    then = helper.make_graph(
        [node("Inverse", ["x"], ["t"], "inner", domain="com.microsoft")], "then", [], [tensor("t", 1, [2, 2])]
    )
    other = helper.make_graph([node("Neg", ["x"], ["e"], "negate")], "other", [], [tensor("e", 1, [2, 2])])
    nodes = [node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)]
    model = model_of(nodes, [("x", F32, [2, 2]), ("c", np.bool_, [])], [("y", F32, [2, 2])])
    placed = {one.node: one.reason for one in provider.assignment(session(model, CPU))}
    assert "no counterpart" in placed["choice"]
    assert placed.get("negate", "the node around it, If 'choice'").startswith("the node around it, If 'choice'")


def test_no_reasons_without_the_provider() -> None:
    options = ort.SessionOptions()
    provider.record_assignment(options)
    made = ort.InferenceSession(RELU, options, providers=["CPUExecutionProvider"])
    assert [(one.provider, one.reason) for one in provider.assignment(made)] == [("CPUExecutionProvider", "")]


@pytest.mark.parametrize("between", [False, True])
def test_a_run_that_is_terminated(between: bool) -> None:
    """onnxruntime ends a run before its next node."""
    made = session(mixed() if between else RELU, CPU)
    options = ort.RunOptions()
    options.terminate = True
    feed = {**FOUR, "s": np.array(["a", "b"], object)} if between else FOUR
    with pytest.raises(Exception, match="terminate flag"):
        made.run(None, feed, options)
    options.terminate = False
    assert made.run(None, feed, options)[0].tolist() == ([0, -2, 0, -4] if between else [0, 2, 0, 4])


def test_the_profile_has_a_line_for_each_part(tmp_path: Path) -> None:
    provider.register()
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    options.add_provider_for_devices(provider.devices(CPU), {})
    made = ort.InferenceSession(PERCEPTRON, options)
    made.run(None, {"x": np.ones((1, 16), F32)})
    events = json.loads(Path(made.end_profiling()).read_text())
    assert [one for one in events if one["cat"] == "Node" and one["args"].get("provider") == provider.NAME]


def test_the_servers_timeline(tmp_path: Path) -> None:
    """Two sessions overlap, and each has a timeline."""
    x = {"x": np.ones((1, 16), F32)}
    first = session(PERCEPTRON, DEVICES[0], profile=str(tmp_path / "first.json"))
    second = session(RELU, CPU, profile=str(tmp_path))
    first.run(None, x)
    second.run(None, FOUR)
    del first
    second.run(None, FOUR)
    del second
    gc.collect()
    (other,) = tmp_path.glob("nnvk-*.json")
    found = {}
    for path in tmp_path / "first.json", other:
        events = json.loads(path.read_text())["traceEvents"]
        found[path] = sum(one.get("cat") == "execution" for one in events)
    assert 0 < found[tmp_path / "first.json"] < found[other]
    with pytest.raises(Exception, match="the option profile must be a file or folder that can be written"):
        session(RELU, CPU, profile=str(tmp_path / "missing" / "file.json"))
