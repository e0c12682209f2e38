"""Tensors without elements between operators of ONNX, whose results have some, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

F = np.float32
NOTHING = op("Slice", "x two two axis", "s")
PARTS = {"two": np.array([2]), "axis": np.array([0])}

CASES: Mapping[str, tuple[Sequence[Any], Mapping[str, np.ndarray]]] = {
    "concatenated": ([NOTHING, op("Relu", "s", "r"), op("Concat", "r x", "y", axis=0)], PARTS),
    "summed": ([NOTHING, op("ReduceSum", "s axis", "y")], PARTS),
    "averaged": ([NOTHING, op("ReduceMean", "s", "y", axes=[0])], PARTS),
    "averaged integers": ([NOTHING, op("Cast", "s", "i", to=6), op("ReduceMean", "i", "y", axes=[0])], PARTS),
    "multiplied": ([NOTHING, op("Transpose", "s", "t", perm=[1, 0]), op("MatMul", "t s", "y")], PARTS),
    "padded": ([NOTHING, op("Pad", "s p v", "y")], {**PARTS, "p": np.array([1, 0, 2, 0]), "v": np.array(7, F)}),
    "gathered": ([op("Gather", "x i", "s"), op("Concat", "s x", "y", axis=0)], {"i": np.zeros(0, np.int64)}),
    "split": ([op("Split", "x n", "s t", axis=0), op("Neg", "t", "y")], {"n": np.array([0, 3])}),
    "repeated": ([op("Tile", "x n", "s"), op("Concat", "s x", "y", axis=1)], {"n": np.array([1, 0])}),
    "picked": ([op("TopK", "x n", "s t", axis=0), op("Concat", "s x", "y", axis=0)], {"n": np.array([0])}),
    "scattered": ([NOTHING, op("ScatterND", "x i s", "y")], {**PARTS, "i": np.zeros((0, 1), np.int64)}),
    "scattered by elements": (
        [NOTHING, op("ScatterElements", "x i s", "t"), op("Neg", "t", "y")],
        {**PARTS, "i": np.zeros((0, 4), np.int64)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_in_between(name: str) -> None:
    nodes, constants = CASES[name]
    x = np.arange(12, dtype=F).reshape(3, 4)
    check(model(nodes, {"x": (F, [3, 4])}, ["y"], constants), {"x": x}, tolerance=0)
