"""Gemm against onnxruntime: its factors, transpositions and addends, alone and together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

F = np.float32
ROWS, DEPTH, COLUMNS = 3, 5, 4
ADDENDS = [None, (), (1,), (COLUMNS,), (1, COLUMNS), (ROWS, 1), (ROWS, COLUMNS)]


def drawn(*shape: int, seed: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), F)


@pytest.mark.parametrize("addend", ADDENDS, ids=str)
@pytest.mark.parametrize("constants", ["", "b", "c", "bc"])
def test_gemm(constants: str, addend: tuple[int, ...] | None) -> None:
    for alpha, beta, left, right in itertools.product((1.0, 0.5), (1.0, 2.0), (0, 1), (0, 1)):
        arrays = {
            "a": drawn(*((DEPTH, ROWS) if left else (ROWS, DEPTH)), seed=1),
            "b": drawn(*((COLUMNS, DEPTH) if right else (DEPTH, COLUMNS)), seed=2),
            **({} if addend is None else {"c": drawn(*addend, seed=3)}),
        }
        node = op("Gemm", " ".join(arrays), "y", alpha=alpha, beta=beta, transA=left, transB=right)
        known = {name: array for name, array in arrays.items() if name in constants}
        feeds = {name: array for name, array in arrays.items() if name not in constants}
        inputs = {name: (F, array.shape) for name, array in feeds.items()}
        check(model([node], inputs, ["y"], known), feeds, devices=["nnapi-reference"])
