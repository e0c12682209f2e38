"""The node tests of the onnx package in sessions: some of them, or all with ``--all-onnx-nodes``."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import onnx_nodes
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.runner import Runner
from ort_session import expected, ort, parts, session

_SAMPLE = 40
_DRAWN = ("bernoulli", "dropout", "random")
"""Tests whose outputs are random numbers."""
_FOREIGN_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        *("bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
        *("float4e2m1", "int4", "uint4", "int2", "uint2"),
    )
)
"""Types of onnxruntime that NumPy does not have."""


def node_tests(config: pytest.Config) -> list[Any]:
    """The tests, those that are drawn left out; a sample is the same one each time."""
    every = [test for test in onnx_nodes.node_tests() if not any(word in test.name for word in _DRAWN)]
    return every if config.getoption("--all-onnx-nodes") else every[:: max(len(every) // _SAMPLE, 1)]


def _in_session(test: Any) -> str:
    """ "claimed" and right, "left" to onnxruntime, "refused" by onnxruntime itself; else why it is wrong.

    Tests with whole numbers that nnvk refuses with an error are "beyond 32 bits".
    """
    model = test.model.SerializeToString()
    try:
        made = session(model, take_all="1", values_at_run="1")
        is_claimed = bool(parts(made))
    except Exception as error:
        try:
            ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        except Exception:
            return "refused"
        return f"no session: {error}"
    if not is_claimed:
        return "left"
    names = [one.name for one in made.get_inputs()]
    for inputs, wanted in test.data_sets:
        feed = dict(zip(names, map(_array, inputs), strict=False))
        right = list(map(_array, wanted))
        if test.name in onnx_nodes.EXACT:
            right = onnx_nodes.EXACT[test.name](list(feed.values()))
        try:
            got = _run(made, feed)
        except Exception as error:
            return "beyond 32 bits" if "must have values of 32 bits" in str(error) else f"no outputs: {error}"
        try:
            Runner.assert_similar_outputs(right, got, test.rtol, test.atol)
        except AssertionError as error:
            if not _as_onnxruntime(model, feed, got):
                return f"wrong: {error}"
    return "claimed"


def _run(made: Any, feed: dict[str, Any]) -> list[Any]:
    """The outputs; elements that onnxruntime's Python does not take, such as bfloat16, go through its own values."""
    if not any(_is_foreign(one) for one in feed.values()) and not any(
        one.type in _FOREIGN_TYPES for one in made.get_outputs()
    ):
        return list(made.run(None, feed))
    values = {}
    for name, array in feed.items():
        if _is_foreign(array):
            stored = numpy_helper.from_array(array)
            values[name] = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, stored.data_type)
            ctypes.memmove(values[name].data_ptr(), stored.raw_data, len(stored.raw_data))
        else:
            values[name] = ort.OrtValue.ortvalue_from_numpy(array)
    return [_elements(one) for one in made.run_with_ort_values(None, values)]


def _is_foreign(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.isbuiltin == 2


def _elements(value: Any) -> np.ndarray:
    """The elements of one of onnxruntime's values, whatever their type is."""
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    stored = TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=data)
    array: np.ndarray = numpy_helper.to_array(stored)
    return array


def _array(value: Any) -> Any:
    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
    return np.asarray(array) if isinstance(array, np.generic) else array


def _as_onnxruntime(model: bytes, feed: dict[str, np.ndarray], got: list[Any]) -> bool:
    """Whether onnxruntime's CPU differs from the test in the same way."""
    try:
        for own, cpu in zip(got, expected(model, feed), strict=True):
            np.testing.assert_allclose(own, cpu, rtol=1e-3, atol=1e-7)
    except Exception:
        return False
    return True


def test_nodes_in_sessions(pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]) -> None:
    tests = node_tests(pytestconfig)
    outcomes = {test.name: _in_session(test) for test in tests}
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("claimed", "left", "refused", "beyond 32 bits")}
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome not in counts}
    with capsys.disabled():
        print(f"\n{len(tests)} node tests in sessions: {counts}, {len(wrong)} wrong")
    assert not wrong
    assert counts["claimed"] > 0.8 * len(tests)
