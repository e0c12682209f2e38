"""Random numbers: their distribution, their types, and their seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("onnx")

from onnx import FunctionProto, TensorProto, helper
from onnx_net import model, op, subgraph
from onnx_oracle import DEVICES, actual

import nnvk
from nnvk.importers.onnx import ImportedModel, OnnxImportError, load

F = np.float32
SHAPE = (40, 50)


def imported(kind: str, inputs: dict[str, np.ndarray] | None = None, **attributes: Any) -> ImportedModel:
    feeds = inputs or {"x": np.zeros(SHAPE, F)}
    made = model(
        [op(kind, "x", "y", **attributes)], {name: (one.dtype, one.shape) for name, one in feeds.items()}, ["y"]
    )
    return load(made.SerializeToString())


def drawn(kind: str, device: str, **attributes: Any) -> np.ndarray:
    (y,) = actual(imported(kind, **attributes), {"x": np.zeros(SHAPE, F)}, device)
    return y


@pytest.mark.parametrize("device", DEVICES)
def test_uniform(device: str) -> None:
    y = drawn("RandomUniformLike", device, seed=3.0, low=-2.0, high=5.0)
    assert y.shape == SHAPE
    assert y.dtype == F
    assert -2 < y.min() < -1.9 < 4.9 < y.max() < 5
    assert np.unique(y).size > 1900
    assert stats.kstest(y.reshape(-1), stats.uniform(-2, 7).cdf).pvalue > 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_normal(device: str) -> None:
    y = drawn("RandomNormalLike", device, seed=3.0, mean=10.0, scale=2.0)
    assert np.isfinite(y).all()
    assert stats.kstest(y.reshape(-1), stats.norm(10, 2).cdf).pvalue > 0.01


@pytest.mark.parametrize("where", ["the graph", "a branch", "a loop", "a function", "a function of a function"])
def test_parts_of_a_model_share_what_was_drawn(where: str) -> None:
    """An Expand waits for its shape. The part of the model that computes it does not draw anew."""
    draw = op("RandomNormal", "", "r", shape=[2], dtype=TensorProto.FLOAT)
    functions: list[FunctionProto] = []
    if where == "a branch":
        branch = subgraph([draw], ["r"])
        draw = op("If", "yes", "r", then_branch=branch, else_branch=branch)
    elif where == "a loop":
        ports = {"n": (np.int64, []), "go": (np.bool_, []), "s": (F, [2])}
        draw = op("Loop", "turns - zeros", "r", body=subgraph([draw, op("Identity", "go", "on")], ["on", "r"], ports))
    elif where != "the graph":
        bodies = [draw, op("First", "", "r", domain="own")][: 2 if where.endswith("of a function") else 1]
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        named = zip(("First", "Second"), bodies, strict=False)
        functions = [helper.make_function("own", name, [], ["r"], [body], versions) for name, body in named]
        draw = op(functions[-1].name, "", "r", domain="own")
    nodes = [draw, op("Add", "x r", "added"), op("Expand", "r shape", "y")]
    constants = {"yes": np.array(True), "turns": np.array(1), "zeros": np.zeros(2, F)}
    inputs = {"x": (F, [2]), "shape": (np.int64, [2])}
    made = model(nodes, inputs, ["added", "y"], constants, functions=functions)
    added, y = nnvk.load(made.SerializeToString(), device="cpu")(np.zeros(2, F), np.array([3, 2]))
    np.testing.assert_array_equal(y, np.broadcast_to(added, (3, 2)))


@pytest.mark.parametrize("kind", ["RandomUniformLike", "RandomNormalLike"])
def test_seeds(kind: str) -> None:
    """The same seed gives the same numbers on both devices, another seed others, and no seed ever new ones."""
    one, other = (drawn(kind, device, seed=7.0) for device in DEVICES)
    np.testing.assert_allclose(one, other, atol=2e-6)
    assert not np.allclose(one, drawn(kind, DEVICES[0], seed=8.0))
    net = imported(kind)
    feeds = {"x": np.zeros(SHAPE, F)}
    assert not np.allclose(actual(net, feeds, DEVICES[0])[0], actual(net, feeds, DEVICES[0])[0])


def test_shapes_and_types_that_attributes_say() -> None:
    nodes = [op("RandomNormal", "", "r", shape=[2, 3], dtype=TensorProto.FLOAT16, seed=1.0)]
    nodes += [op("RandomUniform", "", "u", shape=[2, 3], seed=1.0), op("Cast", "r", "s", to=1), op("Add", "s x", "t")]
    nodes += [op("Add", "t u", "y")]
    for node in nodes[:2]:
        del node.input[:]
    made = model(nodes, {"x": (F, [3])}, ["y", "r"])
    for device in DEVICES:
        y, r = actual(load(made.SerializeToString()), {"x": np.zeros(3, F)}, device)
        assert r.dtype == np.float16
        assert y.shape == r.shape == (2, 3)
        assert ((y - r > 0) & (y - r < 1.01)).all()


def test_too_many_numbers() -> None:
    with pytest.raises(OnnxImportError, match="too many at once"):
        imported("RandomNormalLike", {"x": np.zeros((4096, 4096), F)})
