"""Models whose outputs are all known at import, and operators that need to know their inputs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op
from onnx_oracle import actual

from nnvk import NnapiError, get_device
from nnvk.importers.onnx.backend import NnvkBackend
from nnvk.importers.onnx.file import OnnxFile

F = np.float32


class Backend(NnvkBackend):
    devices = [get_device("nnapi-reference")]  # noqa: RUF012


def test_outputs_without_elements() -> None:
    parts = {"s": np.array([5]), "e": np.array([9])}
    made = model([op("Slice", "x s e", "y")], {"x": (F, [3, 2])}, ["y"], parts)
    (y,) = Backend.prepare(made).run([np.zeros((3, 2), F)])
    assert (y.shape, y.dtype) == ((0, 2), F)


def test_models_that_have_to_run() -> None:
    made = model([op("Relu", "x", "y")], {"x": (F, [2])}, ["y"]).SerializeToString()
    assert OnnxFile(made).known_outputs(shapes={}, constants={}) is None
    (y,) = OnnxFile(made).known_outputs(shapes={}, constants={"x": np.array([-1, 2], F)}) or []
    assert y.tolist() == [0, 2]


@pytest.mark.parametrize("is_open", [False, True])
def test_another_value_than_the_files(is_open: bool) -> None:
    """An initializer that is an input is a default, which a caller may replace, once and again."""
    net = model(
        [op("Add", "x w", "y")], {"x": (F, ["n" if is_open else 3]), "w": (F, [3])}, ["y"], {"w": np.ones(3, F)}
    )
    file = OnnxFile(net.SerializeToString())
    x = np.arange(3, dtype=F)
    for constants in ({}, {"w": np.array([5, 6, 7], F)}, {"w": x}, {}):
        imported = file.load(shapes={"x": (3,)}, constants=constants)
        assert [port.name for port in imported.inputs] == ["x"]
        (got,) = actual(imported, {"x": x}, "nnapi-reference")
        np.testing.assert_array_equal(got, x + constants.get("w", np.ones(3, F)))
    with pytest.raises(NnapiError, match="'w' must be float32"):
        file.load(constants={"w": np.zeros(2, F)})
    with pytest.raises(NnapiError, match="no input of the model is called 'v'"):
        file.load(constants={"v": x})
