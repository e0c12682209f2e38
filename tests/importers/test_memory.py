"""Weights stay as small as they are in the file, whatever type NNAPI has for them, until somebody looks at them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op
from onnx_oracle import DEVICES, actual
from tflite_net import Net, T, write
from tflite_oracle import compare, f32

from nnvk.importers import onnx, tflite
from nnvk.importers.ports import ImportedModel
from nnvk.types.constant import DeferredConstant

LAYERS, SIZE = 6, 512
RNG = np.random.default_rng(5)


def steps(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def chained(layer: Callable[[int, str, str], tuple[list, dict]], shape: Sequence[int]) -> bytes:
    """An ONNX model of layers, each with weights of its own."""
    nodes, constants = [], {}
    for number in range(LAYERS):
        some, own = layer(number, f"x{number}", f"x{number + 1}")
        nodes += some
        constants |= own
    return model(nodes, {"x0": (np.float32, shape)}, [f"x{LAYERS}"], constants, opset=21).SerializeToString()


def dequantised(number: int, source: str, target: str, *, zero: int = 0) -> tuple[list, dict]:
    nodes = [
        op("DequantizeLinear", f"w{number} s{number} z{number}", f"d{number}", axis=1),
        op("MatMul", f"{source} d{number}", target),
    ]
    scales = (RNG.random(SIZE) * 0.01 + 0.001).astype(np.float32)
    zeros = np.full(SIZE, zero, np.int8)
    return nodes, {f"w{number}": steps(SIZE, SIZE), f"s{number}": scales, f"z{number}": zeros}


def asymmetric(number: int, source: str, target: str) -> tuple[list, dict]:
    return dequantised(number, source, target, zero=-7)


def gemm(number: int, source: str, target: str) -> tuple[list, dict]:
    nodes = [
        op("DequantizeLinear", f"w{number} s{number}", f"d{number}"),
        op("Gemm", f"{source} d{number}", target, transB=1),
    ]
    return nodes, {f"w{number}": steps(SIZE, SIZE), f"s{number}": np.float32(0.01)}


def turned(number: int, source: str, target: str) -> tuple[list, dict]:
    nodes = [
        op("DequantizeLinear", f"w{number} s{number} z{number}", f"d{number}", axis=0),
        op("Transpose", f"d{number}", f"t{number}", perm=[1, 0]),
        op("MatMul", f"{source} t{number}", target),
    ]
    scales = (RNG.random(SIZE) * 0.01 + 0.001).astype(np.float32)
    return nodes, {f"w{number}": steps(SIZE, SIZE), f"s{number}": scales, f"z{number}": np.zeros(SIZE, np.int8)}


def integer(number: int, source: str, target: str) -> tuple[list, dict]:
    nodes = [
        op("DynamicQuantizeLinear", source, f"q{number} f{number} o{number}"),
        op("MatMulInteger", f"q{number} w{number} o{number}", f"i{number}"),
        op("Cast", f"i{number}", f"c{number}", to=1),
        op("Mul", f"c{number} f{number}", target),
    ]
    return nodes, {f"w{number}": steps(SIZE, SIZE)}


def half(number: int, source: str, target: str) -> tuple[list, dict]:
    nodes = [op("Cast", f"w{number}", f"d{number}", to=1), op("MatMul", f"{source} d{number}", target)]
    return nodes, {f"w{number}": RNG.standard_normal((SIZE, SIZE)).astype(np.float16)}


def convolution(number: int, source: str, target: str) -> tuple[list, dict]:
    nodes = [
        op("DequantizeLinear", f"w{number} s{number} z{number}", f"d{number}", axis=0),
        op("Conv", f"{source} d{number}", target, pads=[1, 1, 1, 1]),
    ]
    scales = (RNG.random(64) * 0.01 + 0.001).astype(np.float32)
    return nodes, {f"w{number}": steps(64, 64, 3, 3), f"s{number}": scales, f"z{number}": np.zeros(64, np.int8)}


def plain(number: int, source: str, target: str) -> tuple[list, dict]:
    """FLOAT32, whose rows and columns are exchanged on the way."""
    return [op("MatMul", f"{source} w{number}", target)], {f"w{number}": RNG.random((SIZE, SIZE), np.float32)}


ROW = (1, SIZE)
ONNX = {
    "MatMul of DequantizeLinear": (dequantised, ROW),
    "MatMul of DequantizeLinear with zero points": (asymmetric, ROW),
    "Gemm of DequantizeLinear": (gemm, ROW),
    "MatMul of DequantizeLinear and Transpose": (turned, ROW),
    "MatMulInteger": (integer, ROW),
    "MatMul of FLOAT16": (half, ROW),
    "MatMul of FLOAT32": (plain, ROW),
    "Conv of DequantizeLinear": (convolution, (1, 64, 5, 3)),
}


def peak_of(action: Callable[[], ImportedModel]) -> tuple[int, ImportedModel]:
    action()  # what is made once is there
    tracemalloc.start()
    try:
        result = action()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def deferred(imported: ImportedModel) -> list[DeferredConstant]:
    constants = [operand.constant for operand in imported.model.frozen.operands]
    return [constant for constant in constants if isinstance(constant, DeferredConstant)]


@pytest.mark.parametrize("name", ONNX)
def test_import_of_onnx(name: str) -> None:
    data = chained(*ONNX[name])
    peak, imported = peak_of(lambda: onnx.load(data))
    assert len(deferred(imported)) == LAYERS
    assert peak < 1.6 * len(data) + 1_000_000


def test_import_of_weights_of_4_bits() -> None:
    """They stay such: in FLOAT32 they take 8 times as much."""
    block = 32

    def layer(number: int, source: str, target: str) -> tuple[list, dict]:
        attributes = {"K": SIZE, "N": SIZE, "bits": 4, "block_size": block}
        node = op("MatMulNBits", f"{source} w{number} s{number}", target, domain="com.microsoft", **attributes)
        weights = RNG.integers(0, 256, (SIZE, SIZE // block, block // 2)).astype(np.uint8)
        return [node], {f"w{number}": weights, f"s{number}": RNG.random(SIZE * SIZE // block).astype(np.float32)}

    data = chained(layer, ROW)
    peak, imported = peak_of(lambda: onnx.load(data))
    constants = [operand.constant for operand in imported.model.frozen.operands if operand.constant is not None]
    assert sum(constant.nbytes for constant in constants) < len(data)
    assert peak < 1.6 * len(data) + 1_000_000


@pytest.mark.parametrize("name", ONNX)
def test_results_of_onnx(name: str) -> None:
    layer, shape = ONNX[name]
    nodes, constants = layer(0, "x0", "x1")
    net = model(nodes, {"x0": (np.float32, shape)}, ["x1"], constants, opset=21)
    feeds = {"x0": RNG.standard_normal(shape).astype(np.float32)}
    # Not onnxruntime, which rounds activations before some weights of 8 bits.
    (wanted,) = ReferenceEvaluator(net).run(None, feeds)
    for device in DEVICES:
        (result,) = actual(onnx.load(net.SerializeToString()), feeds, device)
        np.testing.assert_allclose(result, wanted, atol=1e-5 * np.abs(wanted).max(), err_msg=device)


@pytest.mark.parametrize(
    ("scales", "points"),
    [(0, None), (0, 0), (1, 0), (1, 3), (1, SIZE), (SIZE, 3), (3, 3)],
)
def test_scales_and_zero_points_that_do_not_fit_are_refused_at_import(scales: int, points: int | None) -> None:
    """Not when somebody looks at the weights for the first time."""
    constants = {"w": steps(SIZE, SIZE), "s": np.ones(scales, np.float32)}
    if points is not None:
        constants["z"] = np.arange(points).astype(np.int8)
    nodes = [op("DequantizeLinear", "w s z" if points is not None else "w s", "d"), op("MatMul", "x d", "y")]
    net = model([], {"x": (np.float32, ROW)}, ["y"], constants, opset=21)
    net.graph.node.extend(nodes)
    with pytest.raises(onnx.OnnxImportError, match="DequantizeLinear"):
        onnx.load(net.SerializeToString())


@pytest.mark.parametrize("points", [2, SIZE - 1])
def test_zero_points_of_integers_that_do_not_fit_are_refused_at_import(points: int) -> None:
    constants = {"w": steps(SIZE, SIZE), "z": np.arange(points).astype(np.int8)}
    net = model([], {"x": (np.uint8, ROW)}, ["y"], constants, opset=21)
    net.graph.node.extend([op("MatMulInteger", "x w - z", "y")])
    with pytest.raises(onnx.OnnxImportError, match="MatMulInteger"):
        onnx.load(net.SerializeToString())


def hybrid(scale: float | None = 0.01, layers: int = LAYERS) -> bytes:
    """Layers of weights of another type than their input's."""
    source = f32(1, SIZE)
    net = Net([source])
    for _ in range(layers):
        if scale is None:
            halves = T("FLOAT16", data=RNG.standard_normal((SIZE, SIZE)).astype(np.float16))
            weights = net.op("DEQUANTIZE", [halves], T("FLOAT32", (SIZE, SIZE)))
        else:
            weights = T("INT8", data=steps(SIZE, SIZE), scale=scale, zero_point=0)
        source = net.op("FULLY_CONNECTED", [source, weights, None], T("FLOAT32", (1, SIZE)), "FullyConnectedOptions")
    net.outputs = [source]
    return write(net)


TFLITE = {"weights of INT8": hybrid, "weights of FLOAT16": partial(hybrid, None)}


@pytest.mark.parametrize("name", TFLITE)
def test_import_of_tflite(name: str) -> None:
    data = TFLITE[name]()
    peak, imported = peak_of(lambda: tflite.load(data))
    assert len(deferred(imported)) == LAYERS
    assert peak < 0.5 * len(data) + 1_000_000


@pytest.mark.parametrize("name", TFLITE)
def test_results_of_tflite(name: str) -> None:
    compare(TFLITE[name](layers=1), [RNG.standard_normal(ROW).astype(np.float32)], atol=1e-4)


# --- constants of an ONNX file ------------------------------------------------------------------------------------


def layers(count: int, size: int, *, shared: bool) -> ModelProto:
    """Products by constant matrices, one after the other: each its own, or one that all have through an Identity."""
    rng = np.random.default_rng(1)
    matrices = {f"w{layer}": rng.random((size, size), np.float32) for layer in range(1 if shared else count)}
    nodes = [op("Identity", "w0", f"v{layer}") for layer in range(count) if shared]
    for layer in range(count):
        nodes.append(op("MatMul", f"x{layer} {'v' if shared else 'w'}{layer}", f"x{layer + 1}"))
    return model(nodes, {"x0": (np.float32, (1, size))}, [f"x{count}"], matrices)


def test_layers_that_share_weights_through_identity_have_one_constant() -> None:
    frozen = onnx.load(layers(5, 64, shared=True).SerializeToString()).model.frozen
    weights = [operation.inputs[1] for operation in frozen.operations]
    assert len(weights) == 5
    assert len(set(weights)) == 1


def test_constants_are_dropped_when_nothing_is_left_to_read_them() -> None:
    """An import has the weights as the file has them, a layer at a time, beside the weights that it makes of them."""
    data = layers(16, 256, shared=False).SerializeToString()
    onnx.load(data)  # what is made once is there
    tracemalloc.start()
    try:
        imported = onnx.load(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(
        operand.value.nbytes for operand in imported.model.frozen.operands if operand.value is not None
    ) > 0.9 * len(data)
    assert peak < 1.5 * len(data)
