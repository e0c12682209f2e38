"""The part that the examples of transformers share: networks as ONNX graphs, and a decoder with its cache on a device.

A token is a byte. Weights are random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import nnvk

VOCABULARY = 256
_OPSET = 20
_IR_VERSION = 10
_MASKED = np.float32(-1e9)


# --- networks ------------------------------------------------------------------------------------------------


class Network:
    """The nodes and weights of an ONNX graph of a transformer."""

    def __init__(self, width: int, heads: int, seed: int) -> None:
        self.width = width
        self.head_count = heads
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

    def matrix(self, *shape: int) -> np.ndarray:
        """Random weights that keep the size of numbers about the same; the last axis is that of the outputs."""
        rows = int(np.prod(shape[:-1]))
        return (self._random.standard_normal(shape) / np.sqrt(rows)).astype(np.float32)

    def projected(self, x: str, rows: int, columns: int) -> str:
        """The product with a matrix of weights."""
        return self.op("MatMul", x, self.matrix(rows, columns))

    def heads(self, x: str, rows: int) -> str:
        """Rows as [heads, rows, size]."""
        apart = self.op("Reshape", x, np.int64([rows, self.head_count, self.width // self.head_count]))
        return self.op("Transpose", apart, perm=[1, 0, 2])

    def rows(self, x: str, rows: int) -> str:
        """The inverse of `heads`."""
        return self.op("Reshape", self.op("Transpose", x, perm=[1, 0, 2]), np.int64([rows, self.width]))

    def part(self, x: str, axis: int, first: int, last: int) -> str:
        """The elements of an axis from the first up to the last."""
        return self.op("Slice", x, np.int64([first]), np.int64([last]), np.int64([axis]))

    def queries(self, x: str, rows: int) -> str:
        """The queries of all heads, scaled."""
        query = self.projected(x, self.width, self.width)
        return self.heads(self.op("Mul", query, np.float32((self.width / self.head_count) ** -0.5)), rows)

    def scores(self, queries: str, keys: str) -> str:
        """Products of queries and keys [heads, rows, size]."""
        return self.op("MatMul", queries, self.op("Transpose", keys, perm=[0, 2, 1]))

    def cached_attention(self, x: str, layer: int, length: int, mask: str) -> tuple[str, str, str]:
        """The result of all heads for one token, and its key and value, which are not in the cache yet."""
        queries = self.queries(x, 1)
        key, value = (self.projected(x, self.width, self.width) for _ in range(2))
        keys, values = (self.heads(self.part("cache", 0, at, at + 1), length) for at in (2 * layer, 2 * layer + 1))
        past = self.op("Add", self.scores(queries, keys), mask)
        shares = self.op("Softmax", self.op("Concat", past, self.scores(queries, self.heads(key, 1)), axis=2), axis=2)
        of_past = self.op("MatMul", self.part(shares, 2, 0, length), values)
        of_now = self.op("Mul", self.part(shares, 2, length, length + 1), self.heads(value, 1))
        mixed = self.op("Reshape", self.op("Add", of_past, of_now), np.int64([1, self.width]))
        return self.projected(mixed, self.width, self.width), key, value

    def attention(self, queries: str, rows: int, keys: str, values: str) -> str:
        """The result of all heads for rows of queries, by keys and values of all places."""
        shares = self.op("Softmax", self.scores(queries, keys), axis=2)
        return self.projected(self.rows(self.op("MatMul", shares, values), rows), self.width, self.width)

    def embedded(self, length: int) -> tuple[str, str]:
        """The vector of ``token`` at ``position``, and the mask of the places of the cache that are not written yet."""
        words, places = self.matrix(VOCABULARY, self.width), self.matrix(length, self.width)
        x = self.op("Add", self.op("Gather", words * self.width**0.5, "token"), self.op("Gather", places, "position"))
        is_past = self.op("Less", np.arange(length), "position")
        return x, self.op("Where", is_past, np.float32(0), _MASKED)

    def written(self, rows: Sequence[str]) -> None:
        """The output ``next_cache``: the cache with keys and values of all layers at ``position``."""
        count = len(rows)
        position = self.op("Expand", "position", np.int64([count, 1]))
        where = self.op("Concat", np.arange(count)[:, np.newaxis], position, axis=1)
        self.op("ScatterND", "cache", where, self.op("Concat", *rows, axis=0), out="next_cache")

    def chosen(self, x: str) -> None:
        """The outputs ``scores`` of all tokens, and ``best``, the one with the highest score."""
        self.op("Reshape", self.projected(x, self.width, VOCABULARY), np.int64([VOCABULARY]), out="scores")
        self.op("ArgMax", "scores", out="best", axis=0, keepdims=1)

    def model(self, inputs: Mapping[str, Sequence[int]], outputs: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
        """The graph as a model. Tokens and places are INT64, the others FLOAT."""
        edges = [
            [
                helper.make_tensor_value_info(
                    name, TensorProto.INT64 if name in ("token", "position", "best") else TensorProto.FLOAT, shape
                )
                for name, shape in edge.items()
            ]
            for edge in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "transformer", *edges, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
        model.ir_version = _IR_VERSION
        return model


# --- decoding ------------------------------------------------------------------------------------------------


Role = tuple[nnvk.Compilation, int]
"""A compiled model and the number of one of its inputs, or outputs."""


def cache_of(compilation: nnvk.Compilation, number: int) -> nnvk.DeviceMemory:
    """Memory of the device that is an input and the output of the same number, in which a step writes."""
    desc = nnvk.MemoryDesc()
    desc.add_update_role(compilation, number, number)
    desc.finish()
    return nnvk.Memory.create_from_desc(desc)


def memory_for(inputs: Sequence[Role], outputs: Sequence[Role]) -> nnvk.DeviceMemory:
    """Memory of the device that these inputs and outputs can share."""
    desc = nnvk.MemoryDesc()
    for compilation, number in inputs:
        desc.add_input_role(compilation, number)
    for compilation, number in outputs:
        desc.add_output_role(compilation, number)
    desc.finish()
    return nnvk.Memory.create_from_desc(desc)


class Decoder:
    """A network that takes a token at a time, with a cache on its device, in which a step writes a few rows.

    Args:
        loaded: Inputs: a token, its place, the cache, then any others. Outputs: the scores, the best token, the next
            cache.
        others: Memory of the other inputs, by their numbers.
    """

    def __init__(self, loaded: nnvk.LoadedModel, others: Mapping[int, nnvk.DeviceMemory] | None = None) -> None:
        self.compilation = loaded.compilation
        self.length = loaded.inputs[2].shape[1]
        self.others = dict(others or {})
        self._token, self._position = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self.scores, self._best = np.zeros(VOCABULARY, np.float32), np.zeros(1, np.int32)
        self.cache = cache_of(self.compilation, 2)
        nnvk.Memory.copy(nnvk.Memory(np.zeros(self.cache.size, np.uint8)), self.cache)
        self._step = self._execution()
        self.place = 0
        """The place of the next token."""

    def _execution(self) -> nnvk.Execution:
        """An execution that is bound once. Its arrays get new numbers before each step."""
        execution = nnvk.Execution(self.compilation)
        execution.set_reusable(True)
        execution.set_input(0, self._token)
        execution.set_input(1, self._position)
        for number, memory in {2: self.cache, **self.others}.items():
            execution.set_input_from_memory(number, memory)
        execution.set_output(0, self.scores)
        execution.set_output(1, self._best)
        execution.set_output_from_memory(2, self.cache)
        return execution

    def __call__(self, token: int) -> int:
        """Take the next token. Returns the best one behind it; `scores` has the scores of all."""
        if self.place >= self.length:
            raise ValueError(f"the cache has {self.length} places")
        self._token[0], self._position[0] = token, self.place
        self._step.compute()
        self.place += 1
        return int(self._best[0])

    def reset(self) -> None:
        """Begin a new text. The cache is not read any more."""
        self.place = 0


def generated(
    decoder: Decoder, prompt: Sequence[int], count: int, temperature: float, seed: int, end: int | None = None
) -> Iterator[int]:
    """Tokens behind a prompt, up to ``end`` or to a number of them.

    They are the best ones, or with a temperature above 0 drawn by their scores.
    """
    random = np.random.default_rng(seed)
    best = 0
    for token in prompt:
        best = decoder(token)
    for place in range(count):
        token = best
        if temperature > 0:
            shares = np.exp((decoder.scores - decoder.scores.max()).astype(np.float64) / temperature)
            token = int(random.choice(VOCABULARY, p=shares / shares.sum()))
        if token == end:
            return
        yield token
        if place + 1 < count:
            best = decoder(token)


def shown(tokens: Sequence[int]) -> str:
    """Tokens as text; bytes that are no letters are escaped."""
    return bytes(tokens).decode("latin-1").encode("unicode_escape").decode()
