"""Models that are prepared for onnxruntime and for ``onnx.backend``: what is compiled when, and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import ModelProto
from onnx_net import model, op

from nnvk import get_device, get_devices
from nnvk.importers.onnx import OnnxImportError, backend
from nnvk.importers.onnx.backend import NnvkBackend, PreparedModel
from nnvk.importers.onnx.file import OnnxFile

F, I64 = np.float32, np.int64


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the first inputs that models are compiled for."""
    shapes: list[tuple[int, ...]] = []

    def compilation(made: Any, devices: Any) -> Any:
        shapes.append(made.frozen.input_types()[0].dimensions)
        return real(made, devices)

    real = backend.Compilation
    monkeypatch.setattr(backend, "Compilation", compilation)
    return shapes


def prepared(made: ModelProto, names: str = "x") -> PreparedModel:
    return PreparedModel(OnnxFile(made.SerializeToString()), names.split(), [get_device("nnapi-reference")])


NEGATION = model([op("Neg", "x", "y")], {"x": (F, ["n", 2])}, ["y"])
RESHAPE = model([op("Reshape", "x s", "y")], {"x": (F, ["n", 2]), "s": (I64, [1])}, ["y"])


def rows(count: int) -> np.ndarray:
    return np.arange(2 * count, dtype=F).reshape(count, 2)


def test_models_are_kept_by_shapes(compiled: list[tuple[int, ...]]) -> None:
    """Eight of them; the oldest one makes way for the next."""
    made = prepared(NEGATION)
    for count in (*range(1, 9), 1, 8):
        np.testing.assert_array_equal(made.run([rows(count)])[0], -rows(count))
    assert compiled == [(count, 2) for count in range(1, 9)]
    for count in (9, 2, 1):
        made.run([rows(count)])
    assert compiled[8:] == [(9, 2), (1, 2)]


def test_inputs_by_name_and_position() -> None:
    made = prepared(model([op("Sub", "x z", "y")], {"x": (F, [2]), "z": (F, [2])}, ["y"]), "z x")
    x, z = np.array([1, 2], F), np.array([5, 7], F)
    for inputs in ([z, x], {"x": x, "z": z}):
        np.testing.assert_array_equal(made.run(inputs)[0], x - z)


def test_models_are_kept_by_values_that_must_be_known(compiled: list[tuple[int, ...]]) -> None:
    made = prepared(RESHAPE, "x s")
    for size in (4, 4, -1, 4):
        assert made.run([rows(2), np.array([size])])[0].shape == (4,)
    assert compiled == [(2, 2), (2, 2)]
    assert made.compiled_for([rows(2), np.array([4])]) is None


def test_inputs_without_elements() -> None:
    made = prepared(model([op("Concat", "x z", "y", axis=0)], {"x": (F, ["n", 2]), "z": (F, ["m", 2])}, ["y"]), "x z")
    np.testing.assert_array_equal(made.run([rows(0), rows(3)])[0], rows(3))
    assert made.compiled_for([rows(0), rows(3)]) is None
    np.testing.assert_array_equal(made.run([rows(1), rows(3)])[0], np.concatenate([rows(1), rows(3)]))
    assert made.compiled_for([rows(1), rows(3)]) is not None


def test_models_of_which_shapes_decide_all() -> None:
    imported, compilation = prepared(NEGATION).compiled_for([rows(3)]) or (None, None)
    assert imported is not None and compilation is not None
    assert imported.outputs[0].shape == (3, 2)


@pytest.mark.parametrize("outputs", [["z"], ["y", "z"], ["z", "y"]], ids=str)
def test_models_with_outputs_whose_sizes_data_decide(outputs: list[str]) -> None:
    nodes = [op("Neg", "x", "y"), op("NonZero", "x", "z")]
    made = prepared(model(nodes, {"x": (F, ["n", 2])}, outputs))
    assert made.compiled_for([rows(3)]) is None
    found = dict(zip(outputs, made.run([rows(3)]), strict=True))
    np.testing.assert_array_equal(found["z"], np.nonzero(rows(3)))


def test_models_that_are_compiled_before_they_run(compiled: list[tuple[int, ...]]) -> None:
    made = prepared(NEGATION)
    assert made.compile({"x": (3, 2)}) is not None
    assert compiled == [(3, 2)]
    made.run([rows(3)])
    assert compiled == [(3, 2)]
    assert prepared(RESHAPE, "x s").compile({"x": (2, 2), "s": (1,)}) is None
    refused = model([op("Transpose", "x", "y", perm=[0, 0])], {"x": (F, [4, 4])}, ["y"])
    with pytest.raises(OnnxImportError, match="the permutation must name"):
        prepared(refused).compile({"x": (4, 4)})
    with pytest.raises(OnnxImportError, match="the permutation must name"):
        prepared(refused).run([np.zeros((4, 4), F)])


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models run on the preferred device alone."""
    assert NnvkBackend.supports_device("CPU")
    assert not NnvkBackend.supports_device("CUDA")
    made = model([op("Add", "x w", "y")], {"x": (F, [2]), "w": (F, [2])}, ["y"], {"w": np.ones(2, F)})
    used: list[Any] = []
    real = backend.Compilation

    def compilation(compiled: Any, devices: Any) -> Any:
        used.append(list(devices))
        return real(compiled, devices)

    monkeypatch.setattr(backend, "Compilation", compilation)
    found = NnvkBackend.prepare(made)
    assert found.names == ["x"]  # a constant is no input, though it may be declared as one
    np.testing.assert_array_equal(found.run([np.zeros(2, F)])[0], np.ones(2, F))
    assert used == [[get_devices()[0]]]
