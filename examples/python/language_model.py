"""Writes text one token at a time with a decoder-only transformer, whose keys and values stay on the device.

    .venv/bin/pip install onnx  # after scripts/install.sh, which installs it
    python language_model.py "Once upon a time" --tokens 40
    python language_model.py "Once upon a time" --temperature 0.8 --seed 3

A token is a byte. Without ``--model`` the weights are random numbers of ``--weights-seed``, so the text is noise; the
time is that of trained weights of this size. ``--model`` takes an .onnx file with the inputs and outputs of `network`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import nnvk

VOCABULARY = 256


@dataclass(frozen=True)
class Sizes:
    """The sizes of a transformer."""

    layers: int = 4
    width: int = 256
    heads: int = 8
    length: int = 256
    """The most tokens, those of the prompt included."""

    @property
    def cache(self) -> tuple[int, int, int]:
        """The shape of the cache: keys and values of each layer in turn, for each place."""
        return 2 * self.layers, self.length, self.width


# --- the network ---------------------------------------------------------------------------------------------


class Network:
    """The nodes and weights of an ONNX graph."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes = sizes
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: str | np.ndarray, out: str = "", **attributes: object) -> str:
        """Add a node of one output. Arrays become constants."""
        named = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        result = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, named, [result], **attributes))
        return result

    def constant(self, array: np.ndarray) -> str:
        """Add an initializer."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def matrix(self, rows: int, columns: int) -> np.ndarray:
        """Random weights that keep the size of numbers about the same."""
        return (self._random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    def normalised(self, x: str) -> str:
        """RMS normalisation of rows."""
        squares = self.op("ReduceMean", self.op("Mul", x, x), np.int64([-1]), keepdims=1)
        root = self.op("Sqrt", self.op("Add", squares, np.float32(1e-6)))
        return self.op("Mul", self.op("Div", x, root), np.ones(self.sizes.width, np.float32))

    def heads(self, x: str, rows: int) -> str:
        """Rows as [heads, rows, size]."""
        heads, width = self.sizes.heads, self.sizes.width
        apart = self.op("Reshape", x, np.int64([rows, heads, width // heads]))
        return self.op("Transpose", apart, perm=[1, 0, 2])

    def part(self, x: str, axis: int, first: int, last: int) -> str:
        """The elements of an axis from the first up to the last."""
        return self.op("Slice", x, np.int64([first]), np.int64([last]), np.int64([axis]))

    def attention(self, x: str, layer: int, mask: str) -> tuple[str, str, str]:
        """The result of all heads for one token, and its key and value, which are not in the cache yet."""
        width, length = self.sizes.width, self.sizes.length
        query, key, value = (self.op("MatMul", x, self.matrix(width, width)) for _ in range(3))
        keys, values = (self.heads(self.part("cache", 0, at, at + 1), length) for at in (2 * layer, 2 * layer + 1))
        scaled = self.heads(self.op("Mul", query, np.float32((width / self.sizes.heads) ** -0.5)), 1)
        past = self.op("Add", self.op("MatMul", scaled, self.op("Transpose", keys, perm=[0, 2, 1])), mask)
        now = self.op("MatMul", scaled, self.op("Transpose", self.heads(key, 1), perm=[0, 2, 1]))
        shares = self.op("Softmax", self.op("Concat", past, now, axis=2), axis=2)
        of_past = self.op("MatMul", self.part(shares, 2, 0, length), values)
        of_now = self.op("Mul", self.part(shares, 2, length, length + 1), self.heads(value, 1))
        return self.op("Reshape", self.op("Add", of_past, of_now), np.int64([1, width])), key, value


def network(sizes: Sizes, seed: int) -> onnx.ModelProto:
    """One step. Inputs: a token, its place, the cache. Outputs: the scores, the best token, the next cache.

    The places of the cache from ``position`` on are not read, and ``position`` is written.
    """
    net, width, layers = Network(sizes, seed), sizes.width, sizes.layers
    words, places = net.matrix(VOCABULARY, width), net.matrix(sizes.length, width)
    x = net.op("Add", net.op("Gather", words * width**0.5, "token"), net.op("Gather", places, "position"))
    is_past = net.op("Less", np.arange(sizes.length), "position")
    mask = net.op("Where", is_past, np.float32(0), np.float32(-1e9))
    written = []
    for layer in range(layers):
        mixed, *own = net.attention(net.normalised(x), layer, mask)
        written += own
        x = net.op("Add", x, net.op("MatMul", mixed, net.matrix(width, width)))
        inner = net.op("MatMul", net.normalised(x), net.matrix(width, 4 * width))
        inner = net.op("Mul", inner, net.op("Sigmoid", inner))
        x = net.op("Add", x, net.op("MatMul", inner, net.matrix(4 * width, width)))
    scores = net.op("MatMul", net.normalised(x), net.matrix(width, VOCABULARY))
    net.op("Reshape", scores, np.int64([VOCABULARY]), out="scores")
    net.op("ArgMax", "scores", out="best", axis=0, keepdims=1)
    position = net.op("Expand", "position", np.int64([2 * layers, 1]))
    where = net.op("Concat", np.arange(2 * layers)[:, np.newaxis], position, axis=1)
    net.op("ScatterND", "cache", where, net.op("Concat", *written, axis=0), out="next_cache")
    one, cache = (TensorProto.INT64, [1]), (TensorProto.FLOAT, sizes.cache)
    inputs = {"token": one, "position": one, "cache": cache}
    outputs = {"scores": (TensorProto.FLOAT, [VOCABULARY]), "best": one, "next_cache": cache}
    edges = [
        [helper.make_tensor_value_info(name, *known) for name, known in edge.items()] for edge in (inputs, outputs)
    ]
    graph = helper.make_graph(net.nodes, "decoder", *edges, net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    return model


# --- decoding ------------------------------------------------------------------------------------------------


class Decoder:
    """A network on a device, with two caches there: a step reads one and writes the other."""

    def __init__(self, model: Path | str, device: str | None = None) -> None:
        loaded = nnvk.load(model, device=device)
        self.compilation = loaded.compilation
        self.length = loaded.inputs[2].shape[1]
        self._token, self._position = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.scores, self._best = np.zeros(VOCABULARY, np.float32), np.zeros(1, np.int32)
        self.caches = first, second = self._memory(), self._memory()
        nnvk.Memory.copy(nnvk.Memory(np.zeros(first.size, np.uint8)), first)
        self._steps = self._step(first, second), self._step(second, first)
        self.place = 0
        """The place of the next token."""

    def _memory(self) -> nnvk.DeviceMemory:
        """Memory of the device for an input and an output that are a cache."""
        desc = nnvk.MemoryDesc()
        desc.add_input_role(self.compilation, 2)
        desc.add_output_role(self.compilation, 2)
        desc.finish()
        return nnvk.Memory.create_from_desc(desc)

    def _step(self, before: nnvk.DeviceMemory, after: nnvk.DeviceMemory) -> nnvk.Execution:
        """An execution that is bound once. Its arrays get new numbers before each step."""
        execution = nnvk.Execution(self.compilation)
        execution.set_reusable(True)
        execution.set_input(0, self._token)
        execution.set_input(1, self._position)
        execution.set_input_from_memory(2, before)
        execution.set_output(0, self.scores)
        execution.set_output(1, self._best)
        execution.set_output_from_memory(2, after)
        return execution

    def __call__(self, token: int) -> int:
        """Take the next token. Returns the best one behind it; `scores` has the scores of all."""
        if self.place >= self.length:
            raise ValueError(f"the cache has {self.length} places")
        self._token[0], self._position[0] = token, self.place
        self._steps[self.place % 2].compute()
        self.place += 1
        return int(self._best[0])

    def reset(self) -> None:
        """Begin a new text. What the caches have is not read any more."""
        self.place = 0


def generated(decoder: Decoder, prompt: bytes, count: int, temperature: float, seed: int) -> Iterator[int]:
    """Tokens behind a prompt: the best ones, or with a temperature above 0 drawn by their scores."""
    random = np.random.default_rng(seed)
    best = 0
    for token in prompt:
        best = decoder(token)
    for place in range(count):
        token = best
        if temperature > 0:
            shares = np.exp((decoder.scores - decoder.scores.max()).astype(np.float64) / temperature)
            token = int(random.choice(VOCABULARY, p=shares / shares.sum()))
        yield token
        if place + 1 < count:
            best = decoder(token)


def main() -> None:
    """Write the model if none is given, and print the text and the time of a token."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=40, help="how many to write")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the best token; default: 0")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--model", type=Path, help="default: random weights")
    parser.add_argument("--weights-seed", type=int, default=0)
    parser.add_argument("--device", help="one that `nnvk devices` shows; default: the preferred one")
    arguments = parser.parse_args()
    prompt = arguments.prompt.encode()
    if not prompt:
        raise SystemExit("the prompt must have a byte")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model
        if path is None:
            path = Path(folder) / "decoder.onnx"
            onnx.save(network(Sizes(), arguments.weights_seed), path)
        decoder = Decoder(path, arguments.device)
    if len(prompt) + arguments.tokens - 1 > decoder.length:
        raise SystemExit(f"the prompt and the tokens take more than the {decoder.length} places of the cache")
    print(decoder.compilation.plan.summary)
    decoder(prompt[0])  # compiles
    decoder.reset()
    begun = time.perf_counter()
    tokens = list(generated(decoder, prompt, arguments.tokens, arguments.temperature, arguments.seed))
    seconds = time.perf_counter() - begun
    print(arguments.prompt + bytes(tokens).decode("latin-1").encode("unicode_escape").decode())
    steps = len(prompt) + len(tokens) - 1
    print(f"{steps / seconds:.0f} tokens a second, {seconds / steps * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
