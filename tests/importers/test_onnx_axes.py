"""Axes of ONNX's operators: each of every rank, counted from either end, against onnxruntime; others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_case import I64, Case, F, ints, x
from onnx_net import model, op
from onnx_oracle import check

from nnvk.importers.onnx import OnnxImportError

SIZES = (2, 1, 3, 4, 2)
Given = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The inputs of a node, which are free ones or constants, and its attributes."""


def plain(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank])}, {"axis": axis}


def pair(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "b": x(*SIZES[:rank])}, {"axis": axis}


def indexed(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "i": ints(0, -1).reshape(1, 2)}, {"axis": axis}


def by_elements(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "i": np.zeros(SIZES[:rank], I64)}, {"axis": axis}


def updated(axis: int, rank: int) -> Given:
    shape = [1 if one == axis % rank else size for one, size in enumerate(SIZES[:rank])]
    return {"a": x(*SIZES[:rank]), "i": np.zeros(shape, I64), "u": x(*shape)}, {"axis": axis}


def named(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "i": ints(axis)}, {}


def number(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "i": np.array(axis)}, {"exclusive": 1}


def best(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "k": ints(1)}, {"axis": axis}


def hot(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[: rank - 1], dtype=I64), "d": ints(3), "v": x(2)}, {"axis": axis}


def taken(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "b": ints(0), "e": ints(2), "i": ints(axis)}, {}


def halves(axis: int, rank: int) -> Given:
    size = SIZES[axis % rank]
    return {"a": x(*SIZES[:rank]), "s": ints(1, size - 1) if size > 1 else ints(1)}, {"axis": axis}


def squeezed(axis: int, rank: int) -> Given:
    return {"a": x(*(1 if one == axis % rank else size for one, size in enumerate(SIZES[:rank]))), "i": ints(axis)}, {}


def inserted(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[: rank - 1]), "i": ints(axis)}, {}


def normalised(axis: int, rank: int) -> Given:
    shape = SIZES[:rank]
    return {"a": x(*shape), "g": np.ones(shape[axis % rank :], F), "b": np.ones(shape[axis % rank :], F)}, {
        "axis": axis
    }


def levels(axis: int, rank: int) -> Given:
    size = SIZES[axis % rank]
    scales, points = np.linspace(0.5, 1, size, dtype=F), np.arange(size, dtype=np.uint8)
    return {"a": x(*SIZES[:rank], dtype=np.uint8), "s": scales, "z": points}, {"axis": axis}


def padded(axis: int, rank: int) -> Given:
    return {"a": x(*SIZES[:rank]), "p": ints(1, 2), "v": np.array(0.5, F), "i": ints(axis)}, {}


NODES: dict[str, Callable[[int, int], Given]] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "Softmax", "LogSoftmax"), plain),
    "Concat": pair,
    "CumSum": number,
    "Compress": lambda axis, rank: ({"a": x(*SIZES[:rank]), "c": np.array([True])}, {"axis": axis}),
    "DequantizeLinear": levels,
    "Gather": indexed,
    "GatherElements": by_elements,
    "LayerNormalization": normalised,
    "OneHot": hot,
    "Pad": padded,
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceLogSumExp"), named),
    "ScatterElements": updated,
    "Slice": taken,
    "Split": halves,
    "Squeeze": squeezed,
    "TopK": best,
    "Unsqueeze": inserted,
}


def outputs_of(kind: str, constants: Mapping[str, Any]) -> str:
    if kind == "Split":
        return "y z" if constants["s"].size > 1 else "y"
    return "y z" if kind == "TopK" else "y"


def case(kind: str, axis: int, rank: int) -> Case:
    inputs, attributes = NODES[kind](axis, rank)
    return Case(kind, inputs, "", attributes, outputs=outputs_of(kind, inputs), opset=20)


def drawn(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape).astype(F) if dtype is F else rng.integers(0, 3, shape).astype(dtype)


@pytest.mark.parametrize(
    ("kind", "rank"),
    [
        (kind, rank)
        for kind in NODES
        for rank in (1, 2, 3, 4)
        if (kind, rank) != ("OneHot", 1)  # whose input would have rank 0
    ],
)
def test_each_axis(kind: str, rank: int) -> None:
    """One model has a node for each axis."""
    nodes, feeds, inputs, constants, outputs = [], {}, {}, {}, []
    for axis in range(rank):
        made = case(kind, axis, rank)
        for seed, (name, given) in enumerate(made.inputs.items()):
            if isinstance(given, tuple):
                dtype, shape = given
                inputs[f"{name}{axis}"] = dtype, shape
                feeds[f"{name}{axis}"] = drawn(shape, dtype, seed)
            else:
                constants[f"{name}{axis}"] = given
        own = [f"{name}{axis}" for name in made.outputs.split()]
        nodes.append(op(kind, " ".join(f"{name}{axis}" for name in made.inputs), " ".join(own), **made.attributes))
        outputs += own
    check(model(nodes, inputs, outputs, constants, opset=20), feeds, devices=("nnapi-reference",))


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("kind", NODES)
def test_axes_from_the_end(kind: str, rank: int) -> None:
    for axis in range(rank):
        assert case(kind, axis, rank).encoded() == case(kind, axis - rank, rank).encoded(), axis


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("axis", [3, -4])
def test_axes_that_are_none(kind: str, axis: int) -> None:
    with pytest.raises(OnnxImportError) as raised:
        case(kind, axis, 3).load()
    assert f"the axis must be in [-3, 3), got {axis}" in raised.value.reason
