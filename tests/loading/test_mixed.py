"""Models of which onnxruntime or LiteRT computes what NNAPI has nothing for."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import ModelProto, TensorProto, helper
from onnx_net import model, op, subgraph
from tflite_net import Net, T, write

import nnvk
from nnvk import LoadedModel, NnapiError, ResultCode
from nnvk.importers import formats
from nnvk.importers.limited import Refused, run_limited
from nnvk.importers.mixed import failing
from nnvk.importers.onnx.library import NAME, OnnxPart
from nnvk.loading.beside import CpuLibraryWarning

pytestmark = pytest.mark.usefixtures("libraries")

F, I64 = np.float32, np.int64
RNG = np.random.default_rng(3)
WEIGHTS = RNG.standard_normal((8, 3, 3, 3)).astype(F)
X = RNG.standard_normal((2, 3, 6, 6)).astype(F)


def sequence() -> ModelProto:
    """A convolution, a sequence of its results, and what a sequence makes of them, for any number of rows."""
    return model(
        [
            op("Conv", "x w", "a", name="first"),
            op("Relu", "a", "b"),
            op("SequenceConstruct", "b b", "s", name="pair"),
            op("ConcatFromSequence", "s", "c", axis=1),
            op("GlobalAveragePool", "c", "p"),
            op("Softmax", "p", "y", axis=1),
        ],
        {"x": (F, ["rows", 3, 6, 6])},
        ["y", "s"],
        {"w": WEIGHTS},
    )


def by_onnxruntime(made: ModelProto, *inputs: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, dict(zip([one.name for one in session.get_inputs()], inputs, strict=True)))
    return found


def loaded(made: ModelProto | bytes, device: str = "cpu", **options: Any) -> LoadedModel:
    data = made if isinstance(made, bytes) else made.SerializeToString()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CpuLibraryWarning)
        return nnvk.load(data, device=device, **options)


# --- parts of a model ------------------------------------------------------------------------------------------------


def test_a_given_shape_takes_the_place_of_the_files() -> None:
    """A size that the file fixes, too."""
    net = model([op("Relu", "x", "r"), op("Hardmax", "r", "y")], {"x": (F, [1, 4])}, ["y"])
    mixed = nnvk.load(net.SerializeToString(), device="cpu", shapes={"x": (3, 4)})
    assert mixed.is_mixed and mixed.inputs[0].shape == (3, 4)
    assert mixed(*mixed.random()).shape == (3, 4)


@pytest.mark.parametrize("shape", [(2, 3), [None, 3]])
def test_litert_is_asked_whether_a_given_shape_fits(shape: Any) -> None:
    """The weights take rows of 4."""
    x, w, y = T("FLOAT32", (1, 4), name="x"), T("FLOAT32", (2, 4), data=np.ones((2, 4), F)), T("FLOAT32", (1, 2))
    net = Net([x], [y])
    net.op("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    with pytest.raises(NnapiError, match="LiteRT can't run it either"):
        nnvk.load(write(net), device="cpu", shapes={"x": shape})
    assert nnvk.load(write(net), device="cpu", shapes={"x": (3, 4)}).inputs[0].shape == (3, 4)


def test_a_part_of_a_model_runs_in_onnxruntime() -> None:
    begun = r"onnxruntime computes 2 of 6 operators .* \(SequenceConstruct 'pair'\)"
    with pytest.warns(CpuLibraryWarning, match=begun) as told:
        mixed = nnvk.load(sequence().SerializeToString(), device="cpu")
    assert told[0].filename == __file__
    assert mixed.is_mixed and mixed.is_open
    y, s = mixed(X)
    want_y, want_s = by_onnxruntime(sequence(), X)
    np.testing.assert_allclose(y, want_y, rtol=1e-5)
    for got, want in zip(s, want_s, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    devices = [(placed.layer.operator, placed.device) for placed in mixed.where() if placed.layer is not None]
    assert ("SequenceConstruct", "onnxruntime") in devices
    assert ("Conv", "nnapi-reference") in devices and ("Softmax", "nnapi-reference") in devices
    assert "operations on onnxruntime" in repr(mixed)


def test_all_forms_of_calls() -> None:
    mixed = loaded(sequence())
    (want, _) = by_onnxruntime(sequence(), X)
    for got in (
        mixed({"x": X}, outputs="y"),
        mixed(X, outputs=dict)["y"],
        mixed.compute([X])[0],
        mixed.start(X, outputs="y").result(),
        next(mixed.stream([X], outputs="y")),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    few = X[:1].tolist()
    np.testing.assert_allclose(mixed(few, outputs="y"), want[:1], rtol=1e-5)
    with pytest.raises(NnapiError, match="'x' must have shape rowsx3x6x6, got 2x3x6x5"):
        mixed(X[..., :5])
    with pytest.raises(NnapiError, match="no input is called 'z'"):
        mixed({"z": X})
    assert [(port.name, port.file_type) for port in mixed.outputs] == [("y", "FLOAT32"), ("s", "SEQUENCE")]
    mixed.close()
    with pytest.raises(NnapiError, match="the model is closed"):
        mixed(X)


def test_a_profile_has_the_librarys_time() -> None:
    profile = loaded(sequence()).profile(X)
    assert {part.device for part in profile.partitions} == {"nnapi-reference", "onnxruntime"}
    assert sum(part.share for part in profile.parts) == pytest.approx(1)


def test_it_is_no_model_of_nnapi() -> None:
    with pytest.raises(NnapiError, match="a library computes a part of the model"):
        _ = loaded(sequence()).imported


def test_texts_and_sequences_go_through() -> None:
    made = model(
        [op("StringConcat", "a b", "c"), op("SequenceAt", "s i", "e")],
        {"a": (np.dtype(object), [2]), "b": (np.dtype(object), [2]), "s": (F, [1]), "i": (I64, [])},
        ["c", "e"],
        opset=20,
    )
    made.graph.input[2].CopyFrom(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    texts = loaded(made)
    c, e = texts(["a", "b"], ["x", "ü"], [np.ones(2, F), np.zeros(3, F)], 1)
    assert c.tolist() == ["ax", "bü"]
    np.testing.assert_array_equal(e, np.zeros(3, F))


def test_sizes_that_a_caller_gives() -> None:
    mixed = loaded(sequence(), shapes={"rows": 2})
    assert not mixed.is_open
    assert mixed.inputs[0].shape == (2, 3, 6, 6)


def test_a_part_that_waits_for_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape out of another part is known when it is there, and no process infers shapes for parts that wait."""
    processes: list[object] = []
    monkeypatch.setattr("nnvk.importers.onnx.importer.inferred", lambda *_: processes.append(None) or {})
    made = model(
        [
            op("Relu", "x", "a"),
            op("Shape", "a", "n", start=0, end=1),
            op("Concat", "n minus", "shape", axis=0),
            op("SequenceConstruct", "a a", "s"),
            op("SequenceAt", "s i", "e"),
            op("Reshape", "e shape", "r"),
            op("MatMul", "r m", "p"),
            op("Softmax", "p", "y", axis=1),
        ],
        {"x": (F, ["rows", 3, 4])},
        ["y"],
        {"minus": np.array([-1]), "i": np.int64(1), "m": RNG.standard_normal((12, 5)).astype(F)},
        opset=17,
    )
    mixed = loaded(made)
    for rows in (2, 3):
        x = RNG.standard_normal((rows, 3, 4)).astype(F)
        np.testing.assert_allclose(mixed(x), by_onnxruntime(made, x)[0], rtol=1e-5)
        on = {placed.layer.operator: placed.device for placed in mixed.where() if placed.layer is not None}
        assert on["MatMul"] == on["Softmax"] == "nnapi-reference"
    assert len(processes) == 1  # when the whole was imported


def test_a_tensor_with_four_open_sizes() -> None:
    """Usual sizes would make it far too large to be tried."""
    made = model(
        [op("SequenceConstruct", "x", "s"), op("SequenceAt", "s i", "e"), op("Conv", "e w", "y")],
        {"x": (F, ["a", "b", "c", "d"])},
        ["y"],
        {"w": WEIGHTS, "i": np.int64(0)},
    )
    np.testing.assert_allclose(loaded(made)(X), by_onnxruntime(made, X)[0], rtol=1e-4, atol=1e-5)


def test_another_value_than_the_files() -> None:
    made = model(
        [op("SequenceConstruct", "x w", "s"), op("ConcatFromSequence", "s", "y", axis=0)],
        {"x": (F, [2]), "w": (F, [2])},
        ["y"],
        {"w": np.zeros(2, F)},
    )
    assert loaded(made)(np.ones(2, F)).tolist() == [1, 1, 0, 0]
    assert loaded(made, constants={"w": np.full(2, 7, F)})(np.ones(2, F)).tolist() == [1, 1, 7, 7]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32])
def test_an_output_that_waits_for_values(dtype: Any) -> None:
    """Its type is known at load: one that NumPy itself has not, and texts, which onnxruntime computes."""
    nodes = [op("ReverseSequence", "x n", "y", batch_axis=0, time_axis=1), op("Cast", "y", "z", to=TensorProto.STRING)]
    x, n = np.arange(8).reshape(2, 4).astype(dtype), np.array([4, 3])
    ports: dict[str, Any] = {"x": (dtype, [2, 4]), "n": (I64, [2])}
    reverse = loaded(model(nodes[:1], ports, ["y"]))
    assert not reverse.is_mixed and reverse.outputs[0].dtype == dtype
    want = [[3, 2, 1, 0], [6, 5, 4, 7]]
    np.testing.assert_array_equal(reverse(x, n), np.array(want, dtype))
    if dtype == np.float32:
        text = loaded(model(nodes, ports, ["z"]))
        assert text.is_mixed
        assert text(x, n).tolist() == [[str(number) for number in row] for row in want]


def test_sequences_of_tensors_of_one_axis() -> None:
    """PyTorch's hstack joins along axis 0 or 1, by the rank: onnxruntime checks the branch for matrices as well."""
    branches = [
        subgraph([op("ConcatFromSequence", "s", name, axis=axis)], [name]) for axis, name in enumerate(["a", "b"])
    ]
    made = model(
        [
            op("SequenceConstruct", "x x", "s"),
            op("SequenceAt", "s zero", "first"),
            op("Shape", "first", "shape"),
            op("Size", "shape", "rank"),
            op("Equal", "rank one", "is_vector"),
            op("If", "is_vector", "y", then_branch=branches[0], else_branch=branches[1]),
        ],
        {"x": (F, [3])},
        {"y": None},
        {"zero": np.array(0), "one": np.array(1)},
    )
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    x = np.array([1, 2, 3], F)
    np.testing.assert_array_equal(loaded(made)(x), [1, 2, 3, 1, 2, 3])


@pytest.mark.parametrize("when", ["prepare", "run"])
def test_a_file_that_runs_as_a_whole_only(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime may refuse a step of a file that it takes as a whole, such as one with false shapes."""
    done = getattr(OnnxPart, when)

    def refuse(self: OnnxPart, *values: Any) -> Any:
        if len(self.operators) < len(sequence().graph.node):
            with failing(NAME):
                raise ValueError("no such step")
        return done(self, *values)

    monkeypatch.setattr(OnnxPart, when, refuse)
    mixed = loaded(sequence())
    want, _ = by_onnxruntime(sequence(), X)
    with pytest.warns(CpuLibraryWarning, match="the CPU computes instead, in onnxruntime: onnxruntime: no such step"):
        np.testing.assert_array_equal(mixed(X, outputs="y"), want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CpuLibraryWarning)
        np.testing.assert_array_equal(mixed(X, outputs="y"), want)
    if when == "prepare":
        assert mixed.placement == "6 operations on onnxruntime"


def test_elements_of_types_that_numpy_has_not() -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        made = model(
            [
                op("Cast", "x", "f", to=TensorProto.FLOAT),
                op("Cast", "f", "y", to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))),
            ],
            {"x": (dtype, [3])},
            ["y"],
            opset=21,
        )
        array = np.array([1, -2, 3]).astype(dtype)
        (got,) = OnnxPart(made, ["x"], ["y"], None).run([array])
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype(F), array.astype(F))


# --- data that nnvk can't compute ------------------------------------------------------------------------------------


def test_numbers_beyond_32_bits() -> None:
    made = model([op("Add", "x x", "y")], {"x": (I64, [2])}, ["y"])
    whole = nnvk.load(made.SerializeToString(), device="cpu")
    assert not whole.is_mixed
    assert whole([1, 2]).tolist() == [2, 4]
    with pytest.warns(CpuLibraryWarning, match="the CPU computes instead, in onnxruntime: 'x' must have values of 32"):
        assert whole([1 << 40, 2]).tolist() == [1 << 41, 4]
    assert whole([1, 3]).tolist() == [2, 6]
    assert whole.start([1 << 40, 2]).result().tolist() == [1 << 41, 4]


def test_what_float64_decides() -> None:
    """It is computed in 64 bits: in 32, this sigmoid is 1. A tensor of FLOAT64 that is only cast stays with nnvk."""
    made = model(
        [
            op("Relu", "x", "a"),
            op("Conv", "a w", "b"),
            op("Cast", "b", "wide", to=TensorProto.DOUBLE),
            op("Add", "wide z", "c"),
            op("Sigmoid", "c", "d"),
            op("Cast", "d", "whole", to=TensorProto.INT32),
            op("Cast", "d", "y", to=TensorProto.FLOAT),
        ],
        {"x": (F, [2, 3, 6, 6]), "z": (np.float64, [])},
        ["whole", "y"],
        {"w": WEIGHTS},
    )
    z = np.array(1e-12 + 20)
    mixed = loaded(made)
    by = {placed.layer.operator: placed.device for placed in mixed.where() if placed.layer is not None}
    assert (by["Conv"], by["Add"], by["Sigmoid"]) == ("nnapi-reference", "onnxruntime", "onnxruntime")
    whole, y = mixed({"x": np.zeros_like(X), "z": z})
    assert not whole.any() and (y == 1).all()
    assert loaded(made, fallback=False)({"x": np.zeros_like(X), "z": z})[0].all()
    narrow = loaded(
        model([op("Cast", "x", "a", to=TensorProto.FLOAT), op("Tanh", "a", "y")], {"x": (np.float64, [3])}, ["y"])
    )
    assert not narrow.is_mixed
    np.testing.assert_allclose(narrow(np.array([1.0, 2, 3])), np.tanh(np.array([1, 2, 3], F)), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "is_mixed"), [(np.int32, True), (np.int16, False), (np.bool_, False)])
def test_integers_as_float64(dtype: Any, is_mixed: bool) -> None:
    """FLOAT32 has all of 16 bits."""
    cast = loaded(model([op("Cast", "x", "y", to=TensorProto.DOUBLE)], {"x": (dtype, [2])}, ["y"]))
    assert cast.is_mixed == is_mixed
    x = np.array([1, (1 << 24) + 1], np.int32).astype(dtype)
    np.testing.assert_array_equal(cast(x), x.astype(np.float64))


def test_inputs_without_elements() -> None:
    open_ = loaded(model([op("Relu", "x", "y")], {"x": (F, ["n", 3])}, ["y"]))
    with pytest.warns(CpuLibraryWarning):
        assert open_(np.zeros((0, 3), F)).shape == (0, 3)
    fixed = loaded(model([op("Concat", "a b", "y", axis=0)], {"a": (F, [0, 3]), "b": (F, [2, 3])}, ["y"]))
    assert [port.name for port in fixed.inputs] == ["a", "b"]
    assert fixed(np.zeros((0, 3), F), np.ones((2, 3), F)).shape == (2, 3)


@pytest.mark.parametrize("shapes", [{}, {"length": 0}, {"past": (1, 0, 4)}], ids=str)
def test_a_cache_of_length_0(shapes: dict[str, Any]) -> None:
    """A decoder has an empty cache for its first token: the size is found at a call, or given."""
    ports = {"past": (F, [1, "length", 4]), "x": (F, [1, 2, 4])}
    made = model(
        [op("Concat", "past x", "c", axis=1), op("Relu", "c", "y"), op("Shape", "past", "s")], ports, ["y", "s"]
    )
    x = RNG.standard_normal((1, 2, 4)).astype(F)
    cached = loaded(made, shapes=shapes)
    y, s = cached(np.zeros((1, 0, 4), F), x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert s.tolist() == [1, 0, 4]
    if not shapes:
        assert cached(x, x, outputs="y").shape == (1, 4, 4)


def test_an_error_of_the_data_is_nnvks() -> None:
    made = model(
        [op("SequenceConstruct", "x", "s"), op("SequenceAt", "s i", "y")], {"x": (F, [2]), "i": (I64, [])}, ["y"]
    )
    mixed = loaded(made)
    with pytest.raises(NnapiError, match=r"onnxruntime: .*nvalid sequence index") as caught:
        mixed(np.zeros(2, F), 7)
    assert caught.value.code is ResultCode.OP_FAILED


# --- refusals --------------------------------------------------------------------------------------------------------


def test_without_a_library_it_is_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sequence().SerializeToString()
    with pytest.raises(NnapiError, match="SequenceConstruct"):
        nnvk.load(data, device="cpu", fallback=False)
    monkeypatch.setattr(formats, "find_spec", lambda _: None)
    with pytest.raises(NnapiError, match="pip install onnxruntime brings what computes the rest of such a model"):
        nnvk.load(data, device="cpu")
    with nnvk.base.settings.override(cpu_libraries=False), pytest.raises(NnapiError) as caught:
        nnvk.load(data, device="cpu")
    assert "pip install" not in caught.value.reason


def test_onnxruntime_does_not_meet_what_it_never_ends_on() -> None:
    made = model(
        [op("SequenceConstruct", "x", "s"), op("Einsum", "x x", "y", equation="...ii,...jj->...ij")],
        {"x": (F, [2, 2])},
        ["y", "s"],
    )
    made.graph.node[1].attribute[0].s = b"......ii,...jj->...ij"  # onnx never ends on it either
    with pytest.raises(
        NnapiError, match="onnxruntime is not asked to run it: a term of an Einsum must have at most one"
    ):
        nnvk.load(made.SerializeToString(), device="cpu")


def test_what_onnxruntime_refuses_too() -> None:
    made = model([op("Nothing", "x", "y", domain="com.nobody")], {"x": (F, [2])}, ["y"])
    with pytest.raises(NnapiError, match=r"(?s)NNAPI has no counterpart.*onnxruntime can't run it either: .*Nothing"):
        nnvk.load(made.SerializeToString(), device="cpu")


def test_constants_elsewhere_than_beside_the_file(tmp_path: Path) -> None:
    made = sequence()
    weights = made.graph.initializer[0]
    (tmp_path / "secret.bin").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../secret.bin")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(NnapiError, match="is not asked to run it: tensor 'w' must be in a file of the model's folder"):
        nnvk.load(folder / "model.onnx", device="cpu")
    weights.external_data[0].value = "weights.bin"
    (folder / "weights.bin").write_bytes((tmp_path / "secret.bin").read_bytes())
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    with pytest.warns(CpuLibraryWarning):
        beside = nnvk.load(folder / "model.onnx", device="cpu")
    np.testing.assert_allclose(beside(X, outputs="y"), by_onnxruntime(sequence(), X)[0], rtol=1e-5)


def test_constants_of_a_branch_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime finds them in the model's folder, not in the process's, where a file of this name is no array."""
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="w.bin")
    nodes = [op("SequenceConstruct", "x w", "s"), op("ConcatFromSequence", "s", "y", axis=0)]
    branch = helper.make_graph(nodes, "branch", [], [result], [weights])
    choose = op("If", "k", "y", then_branch=branch, else_branch=branch)
    made = model([choose], {"x": (F, [2]), "k": (np.bool_, [])}, [])
    made.graph.output.append(result)
    folder = tmp_path / "model"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.bin").mkdir()
    (folder / "w.bin").write_bytes(np.array([3, 5], F).tobytes())
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    for path in (folder / "model.onnx", Path("model", "model.onnx")):
        with pytest.warns(CpuLibraryWarning):
            beside = nnvk.load(path, device="cpu")
        assert beside({"x": np.array([1, 2], F), "k": np.array(True)}).tolist() == [1, 2, 3, 5]


def test_an_output_whose_elements_are_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the model's folder, not of a file of this name in the process's."""
    made = sequence()
    made.graph.initializer.append(TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[2], data_location=1))
    made.graph.initializer[-1].external_data.add(key="location", value="k.bin")
    made.graph.output.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, [2]))
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "k.bin").write_bytes(np.array([7, 8], F).tobytes())
    (folder / "k.bin").write_bytes(np.array([1, 2], F).tobytes())
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CpuLibraryWarning):
        assert nnvk.load(folder / "model.onnx", device="cpu")(X, outputs="k").tolist() == [1, 2]
    (folder / "k.bin").write_bytes(b"1234")
    with pytest.raises(NnapiError, match=r"tensor 'k' ends at byte 8 of 'k\.bin', which has 4"):
        nnvk.load(folder / "model.onnx", device="cpu")


def test_a_program_with_limits_that_does_not_end() -> None:
    with pytest.raises(Refused, match=r"its process has ended with status|did not end"):
        run_limited("limit()\nwhile True: pass", b"", 1, 1 << 28)
    with pytest.raises(Refused, match="no: 3"):
        run_limited("limit()\nrefuse('no: ' + str(len(sys.stdin.buffer.read())))", b"abc", 1, 1 << 28)


# --- .tflite ---------------------------------------------------------------------------------------------------------


def test_litert_runs_a_file() -> None:
    pytest.importorskip("ai_edge_litert")
    x, y, z = T("FLOAT64", (2, 3), name="x"), T("FLOAT32", (2, 3)), T("FLOAT32", (2, 3), name="z")
    net = Net([x], [z])
    net.op("CAST", [x], y, "CastOptions")
    net.op("TANH", [y], z)
    with pytest.warns(CpuLibraryWarning, match="LiteRT computes . of 2 operators on the CPU; input 0: tensor 0 'x'"):
        mixed = nnvk.load(write(net), device="cpu")
    given = RNG.standard_normal((2, 3))
    np.testing.assert_allclose(mixed(given), np.tanh(given.astype(F)), rtol=1e-5)
    assert mixed.inputs[0].dtype == np.float64
    assert "LiteRT" in {placed.device for placed in mixed.where()}


def test_litert_runs_a_file_with_a_name_that_is_no_text() -> None:
    """LiteRT's own list of operators fails on the name of a tensor that is not UTF-8."""
    pytest.importorskip("ai_edge_litert")
    x, y, z = T("FLOAT64", (2, 3), name="x"), T("FLOAT32", (2, 3), name="inner"), T("FLOAT32", (2, 3), name="z")
    net = Net([x], [z])
    net.op("CAST", [x], y)
    net.op("NEG", [y], z)
    mixed = loaded(write(net).replace(b"inner", b"\xe8nner"))
    assert {placed.layer.operator for placed in mixed.where() if placed.layer is not None} == {"CAST", "NEG"}
    np.testing.assert_array_equal(mixed(np.ones((2, 3))), -np.ones((2, 3), F))
    with pytest.raises(NnapiError, match="LiteRT"):
        loaded(write(net).replace(b"\x01\x00\x00\x00z\x00", b"\x01\x00\x00\x00\xe8\x00"))


def test_a_file_that_ends_litert_s_process_is_refused() -> None:
    """LiteRT's comparison of bytes aborts for a scale of 1, when it computes and not before."""
    pytest.importorskip("ai_edge_litert")
    wide, y = T("FLOAT64", (3,), name="wide"), T("FLOAT32", (3,), name="y")
    a, b, same = T("INT8", (3,), scale=1, name="a"), T("INT8", (3,), scale=1, name="b"), T("BOOL", (3,))
    net = Net([wide, a, b], [y, same])
    net.op("CAST", [wide], y)
    net.op("EQUAL", [a, b], same)
    with pytest.raises(NnapiError, match="LiteRT can't run it either: it ends its process by SIGABRT when it computes"):
        loaded(write(net))


def test_a_file_on_which_litert_fails_for_zeros_is_run() -> None:
    pytest.importorskip("ai_edge_litert")
    wide, y = T("FLOAT64", (3,), name="wide"), T("FLOAT32", (3,), name="y")
    a, b, quotient = T("INT32", (3,), name="a"), T("INT32", (3,), name="b"), T("INT32", (3,))
    net = Net([wide, a, b], [y, quotient])
    net.op("CAST", [wide], y)
    net.op("DIV", [a, b], quotient, "DivOptions")
    mixed = loaded(write(net))
    halves = mixed(np.ones(3), np.array([6, 7, 8], np.int32), np.full(3, 2, np.int32))[1]
    np.testing.assert_array_equal(halves, [3, 3, 4])


def test_litert_takes_other_shapes_after_one_that_it_refuses() -> None:
    pytest.importorskip("ai_edge_litert")
    from nnvk.importers.tflite.library import LiteRtPart

    x, w, y = T("FLOAT32", (1, 3), name="x"), T("FLOAT32", (2, 3), np.ones((2, 3), F)), T("FLOAT32", (1, 2), name="y")
    net = Net([x], [y])
    net.op("FULLY_CONNECTED", [x, w], y, "FullyConnectedOptions")
    part = LiteRtPart(write(net))
    assert [one.device for one in part.operators] == ["LiteRT"]
    for rows in (1, 4, 1):
        np.testing.assert_array_equal(part.run([np.ones((rows, 3), F)])[0], np.full((rows, 2), 3, F))
        with pytest.raises(NnapiError, match="LiteRT: "):
            part.run([np.ones((rows, 4), F)])
