"""The charges of an import of ONNX to its budget: each amount of memory and of work that a file's numbers decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import ModelProto, external_data_helper, helper
from onnx_case import I64, MICROSOFT, Case, F, ints, x
from onnx_net import model, op, subgraph
from onnx_spent import Spent, watched

from nnvk.importers import budget
from nnvk.importers.budget import BASE, FACTOR, Budget
from nnvk.importers.onnx import builder, load
from nnvk.importers.onnx.file import OnnxFile

U8 = np.uint8


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    return watched(monkeypatch)


def zeros(*shape: int, dtype: Any = F) -> np.ndarray:
    return np.zeros(shape, dtype)


# --- nodes -----------------------------------------------------------------------------------------------------------

NODES = {
    "Resize": (
        Case("Resize", {"a": x(7, 3), "r": None, "s": None, "z": ints(11, 3)}, "", {"mode": "cubic"}),
        7 * 11 * 8,
    ),
    "GatherBlockQuantized": (
        Case(
            "GatherBlockQuantized",
            {"w": zeros(7, 17, dtype=U8), "i": x(3, dtype=I64), "s": zeros(7, 2)},
            "",
            {"bits": 8, "block_size": 16},
            domain=MICROSOFT,
        ),
        7 * 17 * 8,
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_arrays_that_a_node_makes(name: str, spent: Spent) -> None:
    case, nbytes = NODES[name]
    case.load()
    assert spent["charge", nbytes] == 1


def test_a_mask_that_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated number takes no memory, nor does what was read for the last time: all in all 2 times the mask."""
    monkeypatch.setattr(budget, "BASE", 2 * 4 * 512 * 512 + (1 << 16))
    nodes = [
        op("ConstantOfShape", "shape", "f"),
        op("Trilu", "f one", "m"),
        op("Mul", "m m", "n"),
        op("Reshape", "n flat", "r"),
        op("ReduceMax", "r", "s", keepdims=0),
        op("Add", "x s", "y"),
    ]
    constants = {"shape": np.array([512, 512]), "one": np.int64(1), "flat": np.array([-1])}
    load(model(nodes, {"x": (np.float32, [1])}, ["y"], constants).SerializeToString())


# --- constants of the file -------------------------------------------------------------------------------------------

STORED = {
    "float32": (np.float32, [4 * 77]),
    "float64": (np.float64, [8 * 77]),
    "int64": (np.int64, [8 * 77]),
    "bfloat16": (ml_dtypes.bfloat16, [4 * 77, 2 * 77]),
    "float8": (ml_dtypes.float8_e4m3fn, [4 * 77, 77]),
    "int4": (ml_dtypes.int4, [77, 77]),
}


@pytest.mark.parametrize("is_beside", [False, True])
@pytest.mark.parametrize("name", STORED)
def test_constants_that_are_read(name: str, is_beside: bool, spent: Spent, tmp_path: Path) -> None:
    """Elements of types that NumPy has not are charged as they are carried, too."""
    dtype, charges = STORED[name]
    made = model(
        [op("Shape", "a", "s"), op("Identity", "x", "y")], {"x": (F, [1])}, ["y"], {"a": zeros(7, 11, dtype=dtype)}
    )
    path = tmp_path / "model.onnx"
    if is_beside:
        external_data_helper.convert_model_to_external_data(made, location="beside", size_threshold=0)
        external_data_helper.write_external_data_tensors(made, str(tmp_path))
    path.write_bytes(made.SerializeToString())
    load(path)
    wanted = Counter(("charge", amount) for amount in charges)
    assert {one: spent[one] for one in wanted} == dict(wanted)


def test_elements_of_several_imports(spent: Spent) -> None:
    """Imports of a file with open sizes share its constants, and each is charged for them."""
    made = model([op("Add", "x a", "y")], {"x": (F, ["n", 11])}, ["y"], {"a": zeros(7, 11)})
    file = OnnxFile(made.SerializeToString())
    amounts = []
    for _ in range(2):
        spent.clear()
        file.load(shapes={"x": (7, 11)})
        amounts.append(dict(spent))
    assert amounts[0] == amounts[1]


@pytest.mark.parametrize("where", ["bytes", "a file", "files"])
def test_limits_by_the_size_of_a_file(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the files beside a model count, too."""
    sizes: list[int] = []

    class Noted(Budget):
        def __init__(self, file_size: int) -> None:
            super().__init__(file_size)
            sizes.append(file_size)

    monkeypatch.setattr("nnvk.importers.onnx.file.Budget", Noted)
    constants = {"a": zeros(7, 11), "b": zeros(11)}
    made = model([op("Add", "x a", "c"), op("Add", "c b", "y")], {"x": (F, [7, 11])}, ["y"], constants)
    path = tmp_path / "model.onnx"
    beside = 0
    if where == "files":
        external_data_helper.convert_model_to_external_data(made, all_tensors_to_one_file=False, size_threshold=0)
        external_data_helper.write_external_data_tensors(made, str(tmp_path))
        beside = 4 * 88
    data = made.SerializeToString()
    path.write_bytes(data)
    load(data if where == "bytes" else path)
    assert sizes == [len(data) + beside]


def test_weights_in_memory_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model([op("Neg", "x", "y")], {"x": (F, [1])}, ["y"])
    data = made.SerializeToString()
    file = OnnxFile(data, memoryview(bytes(77)))
    budget = file.shared(relaxed=False).budget
    budget.charge(BASE + FACTOR * (len(data) + 77))
    with pytest.raises(Exception, match="take more than"):
        budget.charge(1)


# --- nodes of graphs and functions -----------------------------------------------------------------------------------

PRICE = 4001
"""The price of a node in these tests, which no other charge has."""


def test_the_price_of_a_node(spent: Spent) -> None:
    load(model([op("Neg", "x", "y")], {"x": (F, [1])}, ["y"]).SerializeToString())
    assert spent["charge", 4096] >= 1
    assert builder.NODE_COST == 4096


def branches(condition: np.ndarray | None) -> ModelProto:
    graph = subgraph([op("Neg", "x", "t"), op("Abs", "t", "o")], ["o"])
    inputs: dict[str, Any] = {"x": (F, [2])} | ({"c": (np.bool_, [])} if condition is None else {})
    constants = {} if condition is None else {"c": condition}
    return model([op("If", "c", "y", then_branch=graph, else_branch=graph)], inputs, ["y"], constants)


def loop(turns: int) -> ModelProto:
    body = subgraph(
        [op("Identity", "go", "on"), op("Neg", "s", "t")],
        ["on", "t"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, None)},
        {"on": (np.bool_, [])},
    )
    return model([op("Loop", "m - x", "y", body=body)], {"x": (F, [2])}, ["y"], {"m": np.array(turns)})


def function() -> ModelProto:
    body = [op("Neg", "a", "b"), op("Abs", "b", "c")]
    own = helper.make_function("f", "F", ["a"], ["c"], body, [helper.make_opsetid("", 17)])
    nodes = [op("F", "x", "z", domain="f"), op("F", "z", "y", domain="f")]
    return model(nodes, {"x": (F, [2])}, ["y"], functions=[own])


PRICES: dict[str, tuple[Callable[[], ModelProto], int]] = {
    "two nodes": (lambda: model([op("Neg", "x", "z"), op("Abs", "z", "y")], {"x": (F, [2])}, ["y"]), 2),
    "a known branch": (lambda: branches(np.array(True)), 1 + 1 + 2),
    "two branches": (lambda: branches(None), 1 + 2 * (1 + 2)),
    "three turns": (lambda: loop(3), 1 + 3 * (1 + 2)),
    "two calls": (function, 2 * (1 + 1 + 2)),
}


@pytest.mark.parametrize("name", PRICES)
def test_nodes_that_are_mapped(name: str, spent: Spent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node costs as much each time that it is mapped, and so does each time that a graph in it is entered."""
    monkeypatch.setattr(builder, "NODE_COST", PRICE)
    make, count = PRICES[name]
    load(make().SerializeToString())
    assert spent["charge", PRICE] == count


def test_nodes_that_have_no_counterpart(spent: Spent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is looked through once it is refused: itself and each node in it."""
    monkeypatch.setattr(builder, "NODE_COST", PRICE)
    graph = subgraph([op("Neg", "x", "t"), op("Other", "t", "o", domain="d")], ["o"])
    made = model(
        [op("If", "c", "y", then_branch=graph, else_branch=graph)], {"x": (F, [2]), "c": (np.bool_, [])}, ["y"]
    )
    with pytest.raises(Exception, match=r"in it, d\.Other \(2 nodes\): NNAPI has no counterpart of this operator"):
        load(made.SerializeToString())
    assert spent["charge", PRICE] == (1 + 1 + 2) + (1 + 4)
