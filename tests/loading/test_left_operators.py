"""Operators that nnvk does not map: onnxruntime or LiteRT computes them, amid others that nnvk computes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")

import onnxruntime
from ai_edge_litert import interpreter as litert
from onnx_net import model, op
from tflite_net import DTYPES, Net, T, write

import nnvk
from nnvk import LoadedModel, NnapiError
from nnvk.loading.beside import CpuLibraryWarning

pytestmark = pytest.mark.usefixtures("libraries")

RNG = np.random.default_rng(3)


def reals(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(0, 30, shape).astype(np.int32)


def loaded(data: bytes) -> LoadedModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CpuLibraryWarning)
        return nnvk.load(data, device="cpu")


def devices(mixed: LoadedModel) -> dict[str, str]:
    """The device of each operator."""
    return {placed.layer.operator: placed.device for placed in mixed.where() if placed.layer is not None}


# --- .onnx -----------------------------------------------------------------------------------------------------------

ONNX: dict[str, tuple[Sequence[np.ndarray], dict[str, Any]]] = {
    "BitShift": ([integers(3, 4).astype(np.uint8), integers(3, 4).astype(np.uint8) % 8], {"direction": "LEFT"}),
    "BitwiseAnd": ([integers(3, 4), integers(4)], {}),
    "BitwiseNot": ([integers(3, 4)], {}),
    "BitwiseOr": ([integers(3, 4), integers(4)], {}),
    "BitwiseXor": ([integers(3, 4), integers(4)], {}),
    "Col2Im": ([reals(1, 6, 9), np.int64([4, 5]), np.int64([2, 3])], {}),
    "DeformConv": ([reals(1, 2, 5, 5), reals(3, 2, 2, 2), reals(1, 8, 4, 4)], {"kernel_shape": [2, 2]}),
    "EyeLike": ([reals(3, 4)], {"k": 1}),
    "GlobalLpPool": ([reals(1, 3, 4, 4)], {"p": 2}),
    "Hardmax": ([reals(3, 4)], {"axis": 1}),
    "LpNormalization": ([reals(3, 4)], {"axis": 1}),
    "LpPool": ([reals(1, 3, 4, 4)], {"p": 2, "kernel_shape": [2, 2]}),
    "MaxUnpool": (
        [np.abs(reals(1, 1, 2, 2)), np.int64([5, 7, 13, 15]).reshape(1, 1, 2, 2)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "MatMul": ([integers(3, 4), integers(4, 2)], {}),
    "MeanVarianceNormalization": ([reals(2, 3, 4, 4)], {}),
    "Pow": ([integers(3, 4) % 7, integers(4) % 5], {}),
    "ScatterElements": (
        [integers(3, 4).astype(np.int64), np.int64([[0, 0, 1, 1]]), integers(1, 4).astype(np.int64)],
        {"reduction": "add"},
    ),
    "ThresholdedRelu": ([reals(3, 4)], {"alpha": 0.5}),
    "Unique": ([np.float32([2, 1, 1, 3, 4, 3])], {}),
}


def test_onnxruntime_computes() -> None:
    """The function of ONNX's definition, where a version has one, is mapped in place of the operator."""
    nodes, given = [], {}
    for name, (arrays, attributes) in ONNX.items():
        names = [f"{name}{position}" for position in range(len(arrays))]
        after = "Identity" if arrays[0].dtype == np.uint8 else "Neg"
        nodes += [
            op("Abs", names[0], f"{name}a"),
            op(name, " ".join([f"{name}a", *names[1:]]), f"{name}b", **attributes),
        ]
        nodes.append(op(after, f"{name}b", name))
        given |= dict(zip(names, arrays, strict=True))
    made = model(nodes, {name: (array.dtype, array.shape) for name, array in given.items()}, list(ONNX), opset=20)
    data = made.SerializeToString()
    want = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, given)
    mixed = loaded(data)
    for name, got, wanted in zip(ONNX, mixed(given), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    placed = devices(mixed)
    computed = {name for name in ONNX if placed.get(name) == "onnxruntime"}
    assert computed == {*ONNX} - {"MeanVarianceNormalization", "ThresholdedRelu"}


def agrees_with_onnxruntime(made: Any, x: np.ndarray) -> LoadedModel:
    """The model of the input ``x``, whose first output is onnxruntime's."""
    data = made.SerializeToString()
    want = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    mixed = loaded(data)
    got = mixed(x)
    np.testing.assert_allclose(got[0] if len(want) > 1 else got, want[0], rtol=1e-5, atol=1e-6)
    return mixed


def test_places_of_the_largest_elements() -> None:
    nodes = [op("Abs", "x", "a"), op("MaxPool", "a", "p i", kernel_shape=[2, 2]), op("Neg", "p", "y")]
    mixed = agrees_with_onnxruntime(model(nodes, {"x": (np.float32, (1, 2, 5, 4))}, ["y", "i"]), reals(1, 2, 5, 4))
    assert devices(mixed)["MaxPool"] == "onnxruntime"


def test_largest_elements_of_windows_with_dilations() -> None:
    nodes = [op("Abs", "x", "a"), op("MaxPool", "a", "p", kernel_shape=[2, 2], dilations=[2, 1]), op("Neg", "p", "y")]
    mixed = agrees_with_onnxruntime(model(nodes, {"x": (np.float32, (1, 2, 5, 4))}, ["y"]), reals(1, 2, 5, 4))
    assert devices(mixed)["MaxPool"] == "onnxruntime"


def test_batches_of_their_own_statistics() -> None:
    statistics = {name: np.abs(reals(2)) + np.float32(0.5) for name in "sbmv"}
    nodes = [op("Abs", "x", "a"), op("BatchNormalization", "a s b m v", "y t u", training_mode=1, momentum=0.25)]
    made = model(nodes, {"x": (np.float32, (3, 2, 5, 4))}, ["y"], statistics, opset=15)
    mixed = agrees_with_onnxruntime(made, reals(3, 2, 5, 4))
    assert devices(mixed)["BatchNormalization"] == "onnxruntime"


def test_rows_of_caches() -> None:
    nodes = [op("Abs", "x", "a"), op("TensorScatter", "a u i", "y", axis=2, mode="circular")]
    constants = {"u": reals(2, 3, 2, 5), "i": np.int64([1, 3])}
    made = model(nodes, {"x": (np.float32, (2, 3, 4, 5))}, ["y"], constants, opset=24)
    mixed = agrees_with_onnxruntime(made, reals(2, 3, 4, 5))
    assert devices(mixed)["TensorScatter"] == "onnxruntime"


@pytest.mark.filterwarnings("ignore:the model. the CPU computes instead")
@pytest.mark.parametrize(("name", "first"), [("ReduceL1", 2**31 - 1), ("ReduceSumSquare", 2**20 + 7)])
def test_sums_beyond_32_bits(name: str, first: int) -> None:
    """The part fails, and onnxruntime computes it."""
    made = model([op(name, "x a", "y")], {"x": (np.int64, (2, 3))}, ["y"], {"a": np.int64([1])}, opset=18)
    x = np.int64([[first, -5, 9], [1, 2, 3]])
    mixed = agrees_with_onnxruntime(made, x)
    np.testing.assert_array_equal(mixed(x), (np.abs(x) ** (1 if name == "ReduceL1" else 2)).sum(1, keepdims=True))


def test_means_of_windows_with_dilations() -> None:
    nodes = [op("Abs", "x", "a"), op("AveragePool", "a", "y", kernel_shape=[2, 2], dilations=[2, 1])]
    mixed = agrees_with_onnxruntime(model(nodes, {"x": (np.float32, (1, 2, 5, 4))}, ["y"], opset=19), reals(1, 2, 5, 4))
    assert devices(mixed)["AveragePool"] == "onnxruntime"


def test_regions_that_are_resized() -> None:
    given = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5}
    regions = np.array([0, 0, -0.5, 0.1, 1, 1, 0.6, 0.8], np.float32)
    nodes = [op("Abs", "x", "a"), op("Resize", "a r - n", "y", **given)]
    constants = {"r": regions, "n": np.array([1, 2, 5, 4])}
    mixed = agrees_with_onnxruntime(
        model(nodes, {"x": (np.float32, (1, 2, 5, 4))}, ["y"], constants, opset=18), reals(1, 2, 5, 4)
    )
    assert devices(mixed)["Resize"] == "onnxruntime"


def test_bits_that_onnxruntime_reads_as_another_type() -> None:
    made = model([op("BitCast", "x", "y", to=6)], {"x": (np.float32, (5,))}, ["y"], opset=26)
    x = reals(5)
    np.testing.assert_array_equal(loaded(made.SerializeToString())(x), x.view(np.int32))


@pytest.mark.parametrize(
    ("kind", "gates", "given"),
    [
        ("RNN", 1, {"activations": ["ScaledTanh"], "activation_alpha": [0.5]}),
        ("RNN", 1, {"activations": ["HardSigmoid"]}),
        ("GRU", 3, {"activations": ["HardSigmoid", "Relu"], "activation_alpha": [0.3]}),
        ("LSTM", 4, {"activations": ["Sigmoid", "Tanh", "Relu"]}),
        ("LSTM", 4, {"clip": 0.5}),
        ("LSTM", 4, {"input_forget": 1}),
    ],
)
def test_cells_of_other_activations_and_gates(kind: str, gates: int, given: dict[str, Any]) -> None:
    made = model(
        [op(kind, "x w r", "y", hidden_size=3, **given)],
        {"x": (np.float32, (4, 2, 5))},
        ["y"],
        {"w": reals(1, gates * 3, 5), "r": reals(1, gates * 3, 3)},
    )
    mixed = agrees_with_onnxruntime(made, reals(4, 2, 5))
    assert devices(mixed) == {kind: "onnxruntime"}


def test_without_onnxruntime_an_operator_is_refused() -> None:
    inputs, attributes = ONNX["LpPool"]
    made = model([op("LpPool", "x", "y", **attributes)], {"x": (np.float32, inputs[0].shape)}, ["y"], opset=18)
    with pytest.raises(NnapiError, match=r"LpPool\): NNAPI has no counterpart of this operator"):
        nnvk.load(made.SerializeToString(), device="cpu", fallback=False)


# --- .tflite ---------------------------------------------------------------------------------------------------------


def i32c(*numbers: int) -> T:
    return T("INT32", data=list(numbers))


F34, I34 = T("FLOAT32", (3, 4)), T("INT32", (3, 4))
TFLITE: dict[str, tuple[list[T], T, str | None, dict[str, Any]]] = {
    "BITCAST": ([F34], T("INT32", (3, 4)), "BitcastOptions", {}),
    "BITWISE_XOR": ([I34, I34], T("INT32", (3, 4)), "BitwiseXorOptions", {}),
    "BUCKETIZE": ([F34], T("INT32", (3, 4)), "BucketizeOptions", {"Boundaries": np.float32([-1, 0, 1])}),
    "DILATE": ([F34, i32c(1, 2), T("FLOAT32", data=0.0)], T("FLOAT32", (3, 7)), None, {}),
    "MATRIX_DIAG": ([F34], T("FLOAT32", (3, 4, 4)), "MatrixDiagOptions", {}),
    "RIGHT_SHIFT": ([I34, T("INT32", data=np.full((3, 4), 2))], T("INT32", (3, 4)), "RightShiftOptions", {}),
    "SEGMENT_SUM": ([F34, i32c(0, 1, 1)], T("FLOAT32", (2, 4)), None, {}),
    "STABLEHLO_ADD": ([F34, F34], T("FLOAT32", (3, 4)), None, {}),
    "STABLEHLO_AND": ([I34, I34], T("INT32", (3, 4)), None, {}),
    "STABLEHLO_MAXIMUM": ([F34, F34], T("FLOAT32", (3, 4)), None, {}),
    "STABLEHLO_MINIMUM": ([F34, F34], T("FLOAT32", (3, 4)), None, {}),
    "STABLEHLO_MULTIPLY": ([F34, F34], T("FLOAT32", (3, 4)), None, {}),
    "STABLEHLO_SHIFT_LEFT": ([I34, T("INT32", data=np.full((3, 4), 2))], T("INT32", (3, 4)), None, {}),
    "UNSORTED_SEGMENT_MAX": ([F34, i32c(1, 0, 1), T("INT32", data=3)], T("FLOAT32", (3, 4)), None, {}),
}


def test_litert_computes() -> None:
    edges = {
        name: (T(inputs[0].type, inputs[0].shape, name=f"{name} x"), T(y.type, y.shape, name=name))
        for name, (inputs, y, _, _) in TFLITE.items()
    }
    net = Net([x for x, _ in edges.values()], [y for _, y in edges.values()])
    for name, (inputs, _, table, options) in TFLITE.items():
        x, y = edges[name]
        net.op("ABS", [x], inner := T(x.type, x.shape))
        net.op(name, [inner, *(inner if one.is_free else one for one in inputs[1:])], y, table, **options)
    given = [(RNG.standard_normal(x.shape) * 9).astype(DTYPES[x.type]) for x, _ in edges.values()]
    placed = devices(agrees_with_litert(write(net), *given))
    assert {name: placed[name] for name in TFLITE} == dict.fromkeys(TFLITE, "LiteRT")


def agrees_with_litert(data: bytes, *inputs: np.ndarray) -> LoadedModel:
    """The model, whose outputs for these inputs are LiteRT's."""
    interpreter = litert.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    mixed = loaded(data)
    got = mixed(*inputs)
    details = interpreter.get_output_details()
    for detail, found in zip(details, got if len(details) > 1 else [got], strict=True):
        np.testing.assert_allclose(
            found, interpreter.get_tensor(detail["index"]), rtol=1e-6, atol=1e-6, err_msg=detail["name"]
        )
    return mixed


def longs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_volumes_that_litert_spreads() -> None:
    x, y = T("FLOAT32", (1, 2, 3, 4, 2), name="x"), T("FLOAT32", (1, 4, 3, 4, 3), name="y")
    net = Net([x], [y])
    net.op("ABS", [x], inner := T("FLOAT32", x.shape))
    options = {"StrideD": 2, "DilationDFactor": 1}
    options |= {f"{what}{axis}{end}": 1 for what, end in (("Stride", ""), ("Dilation", "Factor")) for axis in "HW"}
    inputs = [i32c(1, 4, 3, 4, 3), T("FLOAT32", data=reals(2, 1, 1, 3, 2)), inner]
    net.op("CONV_3D_TRANSPOSE", inputs, y, "Conv3DOptions", Padding=0, **options)
    mixed = agrees_with_litert(write(net), reals(1, 2, 3, 4, 2))
    assert devices(mixed)["CONV_3D_TRANSPOSE"] == "LiteRT"


def test_rows_by_index_in_stablehlo() -> None:
    x, places, y = T("FLOAT32", (5, 4), name="x"), T("INT32", (3, 1), name="i"), T("FLOAT32", (3, 4), name="y")
    net = Net([x, places], [y])
    net.op("ABS", [x], inner := T("FLOAT32", (5, 4)))
    axes = {"OffsetDims": longs(1), "CollapsedSliceDims": longs(0), "StartIndexMap": longs(0)}
    table = "StablehloGatherOptions"
    net.op("STABLEHLO_GATHER", [inner, places], y, table, IndexVectorDim=1, SliceSizes=longs(1, 4), **axes)
    mixed = agrees_with_litert(write(net), reals(5, 4), np.int32([[4], [0], [2]]))
    assert devices(mixed)["STABLEHLO_GATHER"] == "LiteRT"


def test_rows_that_stablehlo_replaces() -> None:
    x, places, rows = T("FLOAT32", (5, 4), name="x"), T("INT32", (2, 1), name="i"), T("FLOAT32", (2, 4), name="r")
    y, first, last = T("FLOAT32", (5, 4), name="y"), T("FLOAT32", ()), T("FLOAT32", ())
    net = Net([x, places, rows], [y])
    net.op("ABS", [x], inner := T("FLOAT32", (5, 4)))
    axes = {"UpdateWindowDims": longs(1), "InsertedWindowDims": longs(0), "ScatterDimsToOperandDims": longs(0)}
    options = {"IndexVectorDim": 1, "UpdateComputationSubgraphIndex": 1, **axes}
    net.op("STABLEHLO_SCATTER", [inner, places, rows], y, "StablehloScatterOptions", **options)
    mixed = agrees_with_litert(write(net, Net([first, last], [last])), reals(5, 4), np.int32([[4], [1]]), reals(2, 4))
    assert devices(mixed)["STABLEHLO_SCATTER"] == "LiteRT"


def test_windows_that_stablehlo_reduces() -> None:
    x, y, first, last, total = (
        T("FLOAT32", shape, name=name) for shape, name in (((4, 5), "x"), ((3, 4), "y"), ((), ""), ((), ""), ((), ""))
    )
    net, function = Net([x], [y]), Net([first, last], [total])
    function.op("STABLEHLO_ADD", [first, last], total)
    net.op("ABS", [x], inner := T("FLOAT32", (4, 5)))
    options = {"WindowDimensions": longs(2, 2), "BodySubgraphIndex": 1, "Padding": longs(0, 0, 0, 0)}
    options |= {name: longs(1, 1) for name in ("WindowStrides", "BaseDilations", "WindowDilations")}
    start = T("FLOAT32", data=0.5)
    net.op("STABLEHLO_REDUCE_WINDOW", [inner, start], y, "StablehloReduceWindowOptions", **options)
    mixed = agrees_with_litert(write(net, function), reals(4, 5))
    assert devices(mixed)["STABLEHLO_REDUCE_WINDOW"] == "LiteRT"


def test_elements_that_stablehlo_puts_between() -> None:
    x, y = T("FLOAT32", (3, 4), name="x"), T("FLOAT32", (6, 7), name="y")
    net = Net([x], [y])
    net.op("ABS", [x], inner := T("FLOAT32", (3, 4)))
    options = {"EdgePaddingLow": longs(1, 0), "EdgePaddingHigh": longs(0, 0), "InteriorPadding": longs(1, 1)}
    net.op("STABLEHLO_PAD", [inner, T("FLOAT32", data=2.0)], y, "StablehloPadOptions", **options)
    mixed = agrees_with_litert(write(net), reals(3, 4))
    assert devices(mixed)["STABLEHLO_PAD"] == "LiteRT"


def test_random_numbers_of_litert() -> None:
    zeros, drawn, y = T("FLOAT32", (40, 50), name="x"), T("FLOAT32", (40, 50)), T("FLOAT32", (40, 50), name="y")
    net = Net([zeros], [y])
    net.op("RANDOM_UNIFORM", [i32c(40, 50)], drawn, "RandomOptions", Seed=5, Seed2=7)
    net.op("ADD", [zeros, drawn], y, "AddOptions")
    mixed = loaded(write(net))
    found = mixed(np.zeros((40, 50), np.float32))
    assert 0 <= found.min() < 0.1 and 0.9 < found.max() <= 1
    assert devices(mixed)["RANDOM_UNIFORM"] == "LiteRT"
