"""Small files whose activations take much memory are refused; files and inputs of the same proportions are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_net import model, op
from tflite_net import Net, T, write

import nnvk
from nnvk import NnapiError
from nnvk.base.settings import override
from nnvk.importers import onnx
from nnvk.importers.errors import ModelImportError

F, I64 = np.float32, np.int64
MIB = 1 << 18
"""The elements of FLOAT32 that are a MiB."""
REFUSAL = r"activations take \d+ bytes at once, more than the \d+ .* NNVK_IMPORT_MEMORY raises that"


def tiled(elements: int, repeats: Sequence[int], outputs: Sequence[str]) -> bytes:
    """A model that repeats its input ``repeats[i]`` times for each of some results, and gives some of them."""
    nodes = [op("Tile", f"x n{index}", f"y{index}") for index in range(len(repeats))]
    sizes = {f"n{index}": np.array([count], I64) for index, count in enumerate(repeats)}
    return model(nodes, {"x": (F, [elements])}, outputs, sizes).SerializeToString()


@pytest.mark.parametrize(
    ("repeats", "outputs"), [([300 * MIB], ["y0"]), ([100 * MIB] * 3, ["y0", "y1", "y2"])], ids=["one", "together"]
)
def test_large_activations(repeats: list[int], outputs: list[str]) -> None:
    with pytest.raises(ModelImportError, match=REFUSAL):
        onnx.load(tiled(1, repeats, outputs))
    with pytest.raises(NnapiError, match=REFUSAL):  # so onnxruntime does not compute it either
        nnvk.load(tiled(1, repeats, outputs))


def test_large_activations_one_after_the_other() -> None:
    """A sum of each is all that remains, so the memory of one of them is enough."""
    nodes, sums = [], []
    for index in range(4):
        sums.append(f"s{index}")
        nodes += [op("Tile", "x n", f"t{index}"), op("ReduceSum", f"t{index}", sums[-1])]
    made = model(
        [*nodes, op("Concat", " ".join(sums), "y", axis=0)], {"x": (F, [1])}, ["y"], {"n": np.array([100 * MIB], I64)}
    )
    onnx.load(made.SerializeToString())


def test_large_inputs_allow_large_activations() -> None:
    onnx.load(tiled(2 * MIB, [300], ["y0"]))


def test_the_user_allows_large_activations() -> None:
    with override(import_memory=1000):
        onnx.load(tiled(1, [300 * MIB], ["y0"]))


def test_large_activations_of_a_branch() -> None:
    branch = helper.make_graph(
        [op("Tile", "x n", "t"), op("ReduceSum", "t", "s")],
        "branch",
        [],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, [1])],
    )
    made = model(
        [op("If", "c", "y", then_branch=branch, else_branch=branch)],
        {"x": (F, [1]), "c": (np.bool_, [])},
        ["y"],
        {"n": np.array([300 * MIB], I64)},
    )
    with pytest.raises(ModelImportError, match=REFUSAL):
        onnx.load(made.SerializeToString())


def test_large_activations_of_a_tflite_file() -> None:
    x, y = T("FLOAT32", (1,)), T("FLOAT32", (300 * MIB,))
    net = Net([x], [y])
    net.op("TILE", [x, T("INT32", data=[300 * MIB])], y)
    with pytest.raises(NnapiError, match=REFUSAL):
        nnvk.load(write(net))
