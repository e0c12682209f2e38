"""The longest loops and sums of ONNX nodes: boundaries by smaller limits, for the real ones take long."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, Case, F, x
from onnx_net import model, op, subgraph

from nnvk.importers.onnx import OnnxImportError, load
from nnvk.importers.onnx.mappers import control_flow

INT = np.int32


def loop(turns: int) -> bytes:
    body = subgraph(
        [op("Identity", "go", "on"), op("Neg", "s", "t")],
        ["on", "t"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, None)},
        {"on": (np.bool_, [])},
    )
    count = {} if turns < 0 else {"m": np.array(turns)}
    node = op("Loop", f"{'m' if count else '-'} - x", "y", body=body)
    return model([node], {"x": (F, [2])}, ["y"], count).SerializeToString()


def scan(turns: int) -> Case:
    body = subgraph([op("Neg", "i", "o")], ["o"], {"i": (F, [2])})
    return Case("Scan", {"a": x(turns, 2)}, "", {"body": body, "num_scan_inputs": 1})


def reason_of(raised: pytest.ExceptionInfo[OnnxImportError]) -> str:
    (problem,) = raised.value.problems
    return problem.reason


@pytest.mark.parametrize("turns", [1025, -1])
def test_turns_of_a_loop(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a trip count a loop is endless."""
    reason = "a loop of more than 1024 turns is too long to unroll"
    with pytest.raises(OnnxImportError) as raised:
        load(loop(turns))
    assert reason_of(raised) == reason
    monkeypatch.setattr(control_flow, "_MOST_TURNS", 3)
    assert len(load(loop(3)).model.frozen.operations) == 3
    with pytest.raises(OnnxImportError, match="a loop of more than 3 turns"):
        load(loop(4))


def test_turns_of_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OnnxImportError) as raised:
        scan(1025).load()
    assert reason_of(raised) == "the inputs must be of one length of 1024 at most"
    monkeypatch.setattr(control_flow, "_MOST_TURNS", 3)
    scan(3).load()
    with pytest.raises(OnnxImportError, match="of one length of 3 at most"):
        scan(4).load()


def test_pieces_of_integers() -> None:
    """NNAPI joins no integers: they are packed in pieces of one size."""
    for size in (256, 257):
        case = Case("Concat", {"a": x(size - 1, dtype=INT), "b": x(1, dtype=INT)}, "", {"axis": 0})
        if size == 256:
            case.load()
            continue
        with pytest.raises(OnnxImportError) as raised:
            case.load()
        assert reason_of(raised) == "NNAPI joins no integers, and 257 pieces of one size are too many to pack"


def test_conditions_of_loops_that_are_not_known() -> None:
    body = subgraph(
        [op("ReduceMax", "s", "m", keepdims=0), op("Cast", "m", "on", to=9), op("Neg", "s", "t")],
        ["on", "t"],
        {"n": (I64, []), "go": (np.bool_, []), "s": (F, [2])},
        {"on": (np.bool_, [])},
    )
    made = model([op("Loop", "m - x", "y", body=body)], {"x": (F, [2])}, ["y"], {"m": np.array(2)})
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    text = "NNAPI's loops carry no such tensors, and the condition is not known at import"
    assert reason_of(raised) == text


def test_the_oldest_scan() -> None:
    with pytest.raises(OnnxImportError) as raised:
        body = subgraph([op("Neg", "i", "o")], ["o"], {"i": (F, [2])})
        Case("Scan", {"n": None, "a": x(1, 3, 2)}, "", {"body": body, "num_scan_inputs": 1}, opset=8).load()
    assert reason_of(raised) == "the oldest form of this operator, with batches, is unknown here"
