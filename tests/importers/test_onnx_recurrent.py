"""LSTM, GRU and RNN against onnxruntime: lengths, activations and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import actual, check, operations

from nnvk.importers.onnx import ImportedModel, OnnxImportError, load

F = np.float32
TIME, BATCH, SIZE, UNITS = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def drawn(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def compared(
    kind: str,
    *,
    lengths: Sequence[int] | None = None,
    computed: bool = False,
    without: str = "",
    tolerance: float = 2e-5,
    scale: float = 1.0,
    devices: Sequence[str] | None = None,
    **attributes: Any,
) -> ImportedModel:
    """A node with all inputs, but for those named by letters; ``computed``: lengths are an input of the model."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(F)

    gates, count = GATES[kind], 2 if attributes.get("direction") == "bidirectional" else 1
    constants: dict[str, np.ndarray] = {
        "w": drawn(count, gates * UNITS, SIZE),
        "r": drawn(count, gates * UNITS, UNITS),
        "b": drawn(count, 2 * gates * UNITS),
        "h": drawn(count, BATCH, UNITS),
        "c": drawn(count, BATCH, UNITS),
        "p": drawn(count, 3 * UNITS),
    }
    feeds = {"x": 2 * drawn(TIME, BATCH, SIZE)}
    if lengths is not None:
        (feeds if computed else constants)["l"] = np.array(lengths, np.int32)
        feeds["x"][np.arange(TIME)[:, np.newaxis] >= lengths] = np.nan  # nobody reads what is beyond
    names = [name if name in {**constants, **feeds} and name not in without else "-" for name in "xwrblhcp"]
    names = names if kind == "LSTM" else names[:6]
    outputs = "y yh yc" if kind == "LSTM" else "y yh"
    node = op(kind, " ".join(names), outputs, hidden_size=UNITS, **attributes)
    inputs = {name: (array.dtype, list(array.shape)) for name, array in feeds.items()}
    used = {name: array for name, array in constants.items() if name in names}
    return check(model([node], inputs, outputs.split(), used), feeds, tolerance=tolerance, devices=devices)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("computed", [False, True], ids=["known", "computed"])
@pytest.mark.parametrize("lengths", [[4, 2, 0], [1, 3, 2], [0, 0, 0], [4, 4, 4]], ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_lengths(kind: str, lengths: list[int], computed: bool, direction: str) -> None:
    compared(kind, lengths=lengths, computed=computed, direction=direction)


@pytest.mark.parametrize("kind", GATES)
def test_a_length_beyond_the_input_is_refused(kind: str) -> None:
    gates = GATES[kind]
    constants = {"w": drawn(1, gates * 2, 2, seed=1), "r": drawn(1, gates * 2, 2, seed=2), "l": np.array([5], np.int32)}
    net = model([op(kind, "x w r - l", "y", hidden_size=2)], {"x": (F, [4, 1, 2])}, ["y"], constants)
    with pytest.raises(OnnxImportError, match=r"the lengths \(input 4\) must be between 0 and 4, got 5 to 5"):
        load(net.SerializeToString())


def test_clipped_gates_are_refused() -> None:
    constants = {"w": drawn(1, 8, 2, seed=1), "r": drawn(1, 8, 2, seed=2)}
    node = op("LSTM", "x w r", "y", hidden_size=2, clip=0.5)
    with pytest.raises(OnnxImportError, match=r"NNAPI's cells don't clip .* \(clip is 0.5\)"):
        load(model([node], {"x": (F, [4, 1, 2])}, ["y"], constants).SerializeToString())


@pytest.mark.parametrize("name", ["Relu", "Tanh", "Sigmoid"])
@pytest.mark.parametrize("kind", GATES)
def test_activations(kind: str, name: str) -> None:
    names = {"LSTM": ["Sigmoid", name, name], "GRU": ["Sigmoid", name], "RNN": [name]}[kind]
    compared(kind, activations=names, tolerance=1e-4, scale=0.4)


def test_activations_of_both_directions() -> None:
    """Names are of any case."""
    names = ["SIGMOID", "tanh", "Tanh", "Sigmoid", "relu", "Relu"]
    compared("LSTM", direction="bidirectional", activations=names, scale=0.4, tolerance=1e-4)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_default_of_rnn_is_for_any_direction(direction: str) -> None:
    """ONNX's default is two names, and onnxruntime writes it into its graphs."""
    compared("RNN", activations=["Tanh", "Tanh"], direction=direction)


def test_coupled_gates_are_refused() -> None:
    constants = {"w": drawn(1, 8, 2, seed=1), "r": drawn(1, 8, 2, seed=2)}
    node = op("LSTM", "x w r", "y", hidden_size=2, input_forget=1)
    with pytest.raises(OnnxImportError, match="NNAPI's input gates aren't what the forget gates leave"):
        load(model([node], {"x": (F, [4, 1, 2])}, ["y"], constants).SerializeToString())


@pytest.mark.parametrize(
    ("kind", "names"),
    [("RNN", ["HardSigmoid"]), ("GRU", ["Tanh", "Tanh"]), ("LSTM", ["Sigmoid", "Tanh", "Relu"])],
    ids=["of no operation", "of gates", "of cell and output"],
)
def test_other_activations_are_refused(kind: str, names: list[str]) -> None:
    gates = GATES[kind]
    constants = {"w": drawn(1, 2 * gates, 2, seed=1), "r": drawn(1, 2 * gates, 2, seed=2)}
    node = op(kind, "x w r", "y", hidden_size=2, activations=names)
    net = model([node], {"x": (F, [4, 1, 2])}, ["y"], constants)
    with pytest.raises(OnnxImportError, match=f"the activations must be .* got .*'{names[-1].lower()}'"):
        load(net.SerializeToString())


OPTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "no bias": {"without": "b"},
    "no states": {"without": "hc"},
    "no peepholes": {"without": "p"},
    "no memory": {"without": "c"},
    "backwards": {"direction": "reverse"},
    "backwards without states": {"direction": "reverse", "without": "hc"},
    "both ways": {"direction": "bidirectional"},
    "both ways without a bias": {"direction": "bidirectional", "without": "b"},
    "lengths": {"lengths": [4, 2, 0]},
    "lengths, backwards": {"lengths": [4, 2, 0], "direction": "reverse"},
    "lengths, both ways, without states": {"lengths": [1, 3, 2], "direction": "bidirectional", "without": "hc"},
    "computed lengths": {"lengths": [3, 1, 4], "computed": True},
    "computed lengths, backwards": {"lengths": [0, 1, 4], "computed": True, "direction": "reverse"},
    "whole lengths": {"lengths": [4, 4, 4]},
    "reset behind the product": {"linear_before_reset": 1},
    "reset behind the product, without a bias": {"linear_before_reset": 1, "without": "b"},
}
ONLY = {"linear_before_reset": "GRU"}
"""Attributes that one operator has."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for name, options in OPTIONS.items()
        for kind in GATES
        if all(ONLY.get(key, kind) == kind for key in options)
        and (kind == "LSTM" or options.get("without") not in ("p", "c"))
    ],
)
def test_options(kind: str, name: str) -> None:
    compared(kind, devices=("nnapi-reference",), **OPTIONS[name])


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_directions_are_joined(kind: str, direction: str) -> None:
    """Only where there are two; each is one operation."""
    names = operations(compared(kind, devices=("nnapi-reference",), direction=direction, without="p"))
    count = 2 if direction == "bidirectional" else 1
    assert names.count(f"UNIDIRECTIONAL_SEQUENCE_{kind}") == count
    assert names.count("CONCATENATION") == (0 if count == 1 else 3 if kind == "LSTM" else 2)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_batches_first(kind: str, direction: str) -> None:
    """The same numbers, with the axes of time and batch exchanged."""
    gates, count = GATES[kind], 2 if direction == "bidirectional" else 1
    x, h = drawn(TIME, BATCH, SIZE, seed=0), drawn(count, BATCH, UNITS, seed=1)
    constants = {"w": drawn(count, gates * UNITS, SIZE, seed=2), "r": drawn(count, gates * UNITS, UNITS, seed=3)}
    found = []
    for layout in (0, 1):
        feeds = {"x": x if not layout else x.transpose(1, 0, 2), "h": h if not layout else h.transpose(1, 0, 2)}
        node = op(kind, "x w r - - h", "y z", hidden_size=UNITS, direction=direction, layout=layout)
        net = model([node], {key: (F, one.shape) for key, one in feeds.items()}, ["y", "z"], constants)
        found.append(actual(load(net.SerializeToString()), feeds, "nnapi-reference"))
    (y, z), (turned, last) = found
    np.testing.assert_array_equal(turned, y.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(last, z.transpose(1, 0, 2))
