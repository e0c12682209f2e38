"""Sessions of onnxruntime on nnvk's execution provider, and what they must agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")
if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 24):
    pytest.skip("onnxruntime 1.24 or later is needed", allow_module_level=True)

import nnvk.onnxruntime as provider  # noqa: E402

Edges = Sequence[tuple[str, Any, Sequence[int | str | None] | None]]
"""Names, NumPy types (`str` for text) and shapes."""


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Edges,
    outputs: Edges,
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> bytes:
    """The bytes of a model."""
    ports = [[helper.make_tensor_value_info(name, _element(dtype), shape) for name, dtype, shape in side]
             for side in (inputs, outputs)]  # fmt: skip
    values = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", *ports, values)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


def _element(dtype: Any) -> int:
    return TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def perceptron(weights: np.ndarray, rows: int | str = "n") -> bytes:
    """A model of rows of 16 numbers to 8, by default of so many as an input has."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=1),
    ]
    return model_of(nodes, [("x", np.float32, [rows, 16])], [("y", np.float32, [rows, 8])], {"w": weights})


def session(model: bytes, device: str | None = None, /, severity: int = 3, **options: str) -> Any:
    """A session that has no way to the CPU but the nodes that nnvk leaves to it."""
    provider.register()
    chosen = ort.SessionOptions()
    chosen.log_severity_level = severity
    provider.record_assignment(chosen)
    chosen.add_provider_for_devices(provider.devices(device), options)
    return ort.InferenceSession(model, chosen, enable_fallback=0)


def parts(made: Any) -> list[list[str]]:
    """The operators of each part that nnvk runs."""
    found: dict[int, list[str]] = {}
    for one in provider.assignment(made):
        if one.provider == provider.NAME:
            found.setdefault(one.part, []).append(one.operator)
    return sorted(sorted(part) for part in found.values())


def expected(model: bytes, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of onnxruntime's own CPU provider."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    made = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = made.run(None, dict(feed))
    return outputs


def agrees(made: Any, model: bytes, feed: Mapping[str, np.ndarray], rtol: float = 0, atol: float = 0) -> None:
    """Assert that a session has the CPU provider's outputs, of the same types and shapes."""
    for got, right in zip(made.run(None, dict(feed)), expected(model, feed), strict=True):
        assert (got.dtype, got.shape) == (right.dtype, right.shape)
        np.testing.assert_allclose(got, right, rtol=rtol, atol=atol)
