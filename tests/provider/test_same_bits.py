"""Sessions that nnvk runs as a whole have the bits of `nnvk.load`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_net import model, op
from ort_session import provider, session

import nnvk

DEVICES = [device.name for device in nnvk.get_devices()]
F32 = np.float32
RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    """Small weights."""
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(F32)


def image() -> onnx.ModelProto:
    """Convolutions of an image of open height, with a residual."""
    nodes = [
        op("Conv", "x w0 b0", "c0", strides=[2, 2], pads=[1, 1, 1, 1]),
        op("Relu", "c0", "r0"),
        op("Conv", "r0 w1", "c1", group=7, pads=[1, 1, 1, 1]),
        op("HardSwish", "c1", "r1"),
        op("Conv", "r1 w2", "c2"),
        op("Add", "c2 r0", "s"),
        op("MaxPool", "s", "m", kernel_shape=[3, 2], strides=[2, 1]),
        op("GlobalAveragePool", "m", "g"),
        op("Flatten", "g", "f"),
        op("Gemm", "f w3 b3", "l"),
        op("Softmax", "l", "y"),
    ]
    weights = {"w0": drawn(7, 3, 3, 3), "b0": drawn(7), "w1": drawn(7, 1, 3, 3), "w2": drawn(7, 7, 1, 1),
               "w3": drawn(7, 5), "b3": drawn(5)}  # fmt: skip
    return model(nodes, {"x": (F32, [1, 3, "h", 13])}, ["y"], weights)


def attention() -> onnx.ModelProto:
    """A layer of attention on rows whose number is open, and its norm."""
    nodes = [
        op("MatMul", "x wq", "q"),
        op("MatMul", "x wk", "k"),
        op("MatMul", "x wv", "v"),
        op("Transpose", "k", "t", perm=[0, 2, 1]),
        op("MatMul", "q t", "a"),
        op("Softmax", "a", "p", axis=-1),
        op("MatMul", "p v", "o"),
        op("Add", "o x", "s"),
        op("LayerNormalization", "s scale shift", "y"),
    ]
    weights = {name: drawn(24, 24) for name in ("wq", "wk", "wv")} | {"scale": drawn(24), "shift": drawn(24)}
    return model(nodes, {"x": (F32, [2, "h", 24])}, ["y"], weights)


def recurrent() -> onnx.ModelProto:
    """An LSTM in both directions, over an open number of steps."""
    nodes = [op("LSTM", "x w r b", "y - -", hidden_size=5, direction="bidirectional")]
    weights = {"w": drawn(2, 20, 7), "r": drawn(2, 20, 5), "b": drawn(2, 40)}
    return model(nodes, {"x": (F32, ["h", 3, 7])}, {"y": F32}, weights)


def quantised() -> onnx.ModelProto:
    """A convolution of 8 bits, between floats."""
    nodes = [
        op("QuantizeLinear", "x sx zx", "xq"),
        op("DequantizeLinear", "xq sx zx", "xd"),
        op("DequantizeLinear", "wq sw zw", "wd", axis=0),
        op("Conv", "xd wd", "c", pads=[1, 0, 1, 0]),
        op("QuantizeLinear", "c sx zx", "cq"),
        op("DequantizeLinear", "cq sx zx", "y"),
    ]
    weights = {"sx": np.array(0.02, F32), "zx": np.array(120, np.uint8), "sw": np.array([0.01, 0.02, 0.005], F32),
               "zw": np.zeros(3, np.int8), "wq": RNG.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8)}  # fmt: skip
    return model(nodes, {"x": (F32, [1, 2, "h", 11])}, ["y"], weights)


NETWORKS = {"image": image(), "attention": attention(), "recurrent": recurrent(), "quantised": quantised()}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("device", DEVICES)
def test_a_session_has_the_bits_of_load(device: str, name: str, tmp_path: Path) -> None:
    path, net = tmp_path / "net.onnx", NETWORKS[name]
    onnx.save(net, path)
    made = session(net.SerializeToString(), device)
    assert {(one.provider, one.part) for one in provider.assignment(made)} == {(provider.NAME, 0)}
    for open_size in (9, 17):
        shape = [one.dim_value or open_size for one in net.graph.input[0].type.tensor_type.shape.dim]
        x = RNG.standard_normal(shape).astype(F32)
        right = nnvk.load(path, device=device, shapes={"x": shape})(x)
        np.testing.assert_array_equal(made.run(["y"], {"x": x})[0], right)
