"""Makes small models for the photo server: ``python make_models.py FOLDER``.

Their weights are random, except that the detectors look for what the eye can check: faces are red, and text is dark on
a bright ground. They have the inputs of the models that photo libraries use, and a batch of open size.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

EMBEDDING = 512
WIDTH = 96
HEADS = 4
ALPHABET = " 0123456789abcdefghijklmnopqrstuvwxyz"


class Net:
    """A graph with random weights, node by node."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._weights: dict[str, np.ndarray] = {}

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """A random tensor, whose scale keeps the size of what it is multiplied by."""
        fan = np.prod(shape[1:] if len(shape) == 4 else shape[:1])
        values = self._random.normal(0, scale or np.sqrt(2 / fan), shape)
        return self.constant(values.astype(np.float32))

    def constant(self, values: Any) -> str:
        """A tensor with these values."""
        name = f"w{len(self._weights)}"
        self._weights[name] = np.asarray(values)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The output of a node."""
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, channels: tuple[int, int], size: int, stride: int) -> str:
        """A convolution and its activation."""
        around = {"strides": [stride] * 2, "pads": [(size - 1) // 2] * 4}
        y = self.op("Conv", x, self.weight(*channels[::-1], size, size), self.weight(channels[1], scale=0.1), **around)
        return self.op("Relu", y)

    def convs(self, x: str, channels: Sequence[int]) -> str:
        """Convolutions that halve the picture each."""
        for pair in itertools.pairwise(channels):
            x = self.conv(x, pair, 3, 2)
        return x

    def block(self, x: str, tokens: int) -> str:
        """A layer of a transformer: attention, then two products with GELU between them."""
        heads = self.constant(np.array([0, tokens, HEADS, WIDTH // HEADS]))
        normed = self.normed(x)
        query, key, value = (
            self.op("Reshape", self.op("MatMul", normed, self.weight(WIDTH, WIDTH)), heads) for _ in range(3)
        )
        query, value = (self.op("Transpose", each, perm=[0, 2, 1, 3]) for each in (query, value))
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 2, 3, 1]))
        scores = self.op("Mul", scores, self.constant(np.float32((WIDTH // HEADS) ** -0.5)))
        mixed = self.op("Transpose", self.op("MatMul", self.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        mixed = self.op("Reshape", mixed, self.constant(np.array([0, tokens, WIDTH])))
        x = self.op("Add", x, self.op("MatMul", mixed, self.weight(WIDTH, WIDTH)))
        inner = self.op("Gelu", self.op("MatMul", self.normed(x), self.weight(WIDTH, 4 * WIDTH)))
        return self.op("Add", x, self.op("MatMul", inner, self.weight(4 * WIDTH, WIDTH)))

    def embedded(self, x: str, tokens: int) -> str:
        """The embedding of tokens: two layers, and the mean of what they give."""
        x = self.op("Add", x, self.weight(tokens, WIDTH, scale=0.1))
        x = self.normed(self.block(self.block(x, tokens), tokens))
        mean = self.op("ReduceMean", x, self.constant(np.array([1])), keepdims=0)
        return self.embedding(mean, WIDTH)

    def embedding(self, x: str, width: int) -> str:
        """A vector of length 1."""
        y = self.op("MatMul", x, self.weight(width, EMBEDDING))
        return self.op("Div", y, self.op("ReduceL2", y, self.constant(np.array([-1]))))

    def normed(self, x: str, width: int = WIDTH) -> str:
        """Rows with the mean 0 and the deviation 1."""
        return self.op("LayerNormalization", x, self.constant(np.ones(width, np.float32)))

    def save(self, path: Path, kind: int, shape: Sequence[int | str], result: str) -> None:
        """Write the model, whose input is ``x`` and whose output ``y`` is the result."""
        self._nodes.append(helper.make_node("Identity", [result], ["y"]))
        graph = helper.make_graph(
            self._nodes,
            path.parent.name,
            [helper.make_tensor_value_info("x", kind, ["batch", *shape])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(values, name) for name, values in self._weights.items()],
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def visual(net: Net) -> tuple[str, Sequence[int | str]]:
    """CLIP's half for pictures, which makes tokens of squares of 16 pixels."""
    squares = net.op("Conv", "x", net.weight(WIDTH, 3, 16, 16), strides=[16, 16])
    rows = net.op("Reshape", squares, net.constant(np.array([0, WIDTH, 196])))
    return net.embedded(net.op("Transpose", rows, perm=[0, 2, 1]), 196), (3, 224, 224)


def textual(net: Net) -> tuple[str, Sequence[int | str]]:
    """CLIP's half for texts: bytes, and what begins and ends them."""
    return net.embedded(net.op("Gather", net.weight(258, WIDTH, scale=1), "x"), 77), (77,)


def faces(net: Net) -> tuple[str, Sequence[int | str]]:
    """Rows of a score and four edges, in shares of the picture, for each square of 16 pixels."""
    red = net.op("Conv", "x", net.constant(np.float32([0.5, -0.25, -0.25]).reshape(1, 3, 1, 1)))
    red = net.op("AveragePool", red, kernel_shape=[16, 16], strides=[16, 16])
    score = net.op(
        "Sigmoid", net.op("Mul", net.op("Sub", red, net.constant(np.float32(0.5))), net.constant(np.float32(4)))
    )
    sides = net.op("Conv", net.convs("x", (3, 16, 32, 32, 32)), net.weight(2, 32, 1, 1, scale=0.02))
    sides = net.op("Mul", net.op("Sigmoid", sides), net.constant(np.float32(0.2)))
    centers = net.constant((np.mgrid[:40, :40][None, ::-1].astype(np.float32) + 0.5) / 40)
    found = net.op("Concat", score, net.op("Sub", centers, sides), net.op("Add", centers, sides), axis=1)
    rows = net.op("Reshape", found, net.constant(np.array([0, 5, 1600])))
    return net.op("Transpose", rows, perm=[0, 2, 1]), (3, 640, 640)


def face(net: Net) -> tuple[str, Sequence[int | str]]:
    """The embedding of a face."""
    return net.embedding(net.op("Flatten", net.convs("x", (3, 16, 32, 64, 64))), 7 * 7 * 64), (3, 112, 112)


def text_map(net: Net) -> tuple[str, Sequence[int | str]]:
    """How likely each pixel belongs to a text, which is where dark and bright are near each other."""
    gray = net.op("Conv", "x", net.constant(np.full((1, 3, 1, 1), 1 / 3, np.float32)))
    window = {"kernel_shape": [8, 8], "strides": [4, 4], "pads": [2, 2, 2, 2]}
    bright, dark = (net.op("MaxPool", each, **window) for each in (gray, net.op("Neg", gray)))
    contrast = net.op("MaxPool", net.op("Add", bright, dark), kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    noise = net.op("Conv", net.convs("x", (3, 16, 32)), net.weight(1, 32, 1, 1, scale=0.01))
    likely = net.op("Sigmoid", net.op("Sub", net.op("Add", contrast, noise), net.constant(np.float32(2))))
    sizes = net.constant(np.float32([1, 1, 4, 4]))
    return net.op(
        "Resize", likely, "", sizes, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    ), (3, "height", "width")


def text(net: Net) -> tuple[str, Sequence[int | str]]:
    """How likely each letter is, at every eighth column of a line."""
    columns = net.op("AveragePool", net.convs("x", (3, 16, 32, 64)), kernel_shape=[6, 1])
    columns = net.op("Transpose", net.op("Squeeze", columns, net.constant(np.array([2]))), perm=[0, 2, 1])
    letters = net.op("MatMul", net.normed(columns, 64), net.weight(64, 1 + len(ALPHABET), scale=0.5))
    return net.op("Softmax", letters, axis=-1), (3, 48, "width")


MODELS: Mapping[str, tuple[Callable[[Net], tuple[str, Sequence[int | str]]], int]] = {
    "clip/random/visual": (visual, TensorProto.FLOAT),
    "clip/random/textual": (textual, TensorProto.INT32),
    "facial-recognition/random/detection": (faces, TensorProto.FLOAT),
    "facial-recognition/random/recognition": (face, TensorProto.FLOAT),
    "ocr/random/detection": (text_map, TensorProto.FLOAT),
    "ocr/random/recognition": (text, TensorProto.FLOAT),
}
"""The models by their folders: task, name and type."""


def make(folder: Path) -> None:
    """Write all models."""
    for seed, (place, (build, kind)) in enumerate(MODELS.items()):
        net = Net(seed)
        result, shape = build(net)
        net.save(folder / place / "model.onnx", kind, shape, result)
    (folder / "ocr/random/recognition/alphabet.txt").write_text(ALPHABET, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    make(parser.parse_args().folder)
