"""Nodes of ONNX that are refused for one condition of several, and parameters that no constant of this size can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, Case, F, ints, x
from onnx_net import op, subgraph
from test_onnx_refused_operands import family, reals, zeros

INT, U8 = np.int32, np.uint8
ONE = subgraph([op("Constant", "", "o", value_float=1.0)], ["o"])
ROW = subgraph([op("Neg", "i", "o")], ["o"], {"i": (F, [2])})
TURN = {"n": (I64, []), "go": (np.bool_, []), "s": (F, None)}


def turns(*nodes: Any) -> Any:
    """The body of a loop that carries ``s`` on as ``t``, and gives ``o`` in each turn."""
    return subgraph([op("Identity", "go", "on"), *nodes], ["on", "t", "o"], TURN, {"on": (np.bool_, [])})


STEADY = turns(op("Neg", "s", "t"), op("Neg", "s", "o"))
GROWING = turns(op("Concat", "s s", "t", axis=0), op("Neg", "s", "o"))

CASES = [
    *family(
        "If",
        {"c": x(1, dtype=np.bool_)},
        {"then_branch": ONE, "else_branch": ONE},
        ("the condition must be one boolean, got bool [2]", {"c": x(2, dtype=np.bool_)}),
        ("the condition must be one boolean, got int32 [1]", {"c": x(1, dtype=INT)}),
        ("attribute 'else_branch' is missing, a graph", {"else_branch": None}),
    ),
    *family(
        "Scan",
        {"a": x(3, 2)},
        {"body": ROW, "num_scan_inputs": 1},
        ("there must be an input to go along", {"num_scan_inputs": 0}),
        ("the inputs must be of one length of 1024 at most", {"a": x(1025, 2)}),
        ("a loop without turns gives nothing", {"a": zeros(0, 2)}),
    ),
    *family(
        "Loop",
        {"m": ints(2).reshape(()), "c": None, "s": x(3)},
        {"body": STEADY},
        ("a loop without turns gives nothing", {"m": ints(0).reshape(())}),
        ("a loop without turns gives nothing", {"m": ints(-1).reshape(())}),
        ("what a loop gives in each turn must be of one shape", {"body": GROWING}),
        outputs="y z",
    ),
    *family(
        "FusedConv",
        {"a": x(1, 2, 4, 3), "w": zeros(3, 2, 2, 2)},
        {"activation": "Relu", "activation_params": [0.0, 1.0]},
        ("activation 'Gelu' with 2 numbers is unknown here", {"activation": "Gelu"}),
        ("activation 'Clip' with 1 numbers is unknown here", {"activation": "Clip", "activation_params": [1.0]}),
        ("activation 'Clip' with 0 numbers is unknown here", {"activation": "Clip", "activation_params": None}),
        ("activation 'HardSigmoid' with 3 numbers", {"activation": "HardSigmoid", "activation_params": [1.0] * 3}),
        ("activation 'LeakyRelu' with 0 numbers", {"activation": "LeakyRelu", "activation_params": None}),
        domain=MICROSOFT,
    ),
    *family(
        "NonMaxSuppression",
        {"a": x(1, 6, 4), "b": x(1, 2, 6), "c": ints(3)},
        {},
        ("boxes of shape [1, 6] and scores of shape [1, 2, 6] do not fit together", {"a": x(1, 6)}),
        ("boxes of shape [1, 6, 4] and scores of shape [2, 6] do not fit together", {"b": x(2, 6)}),
        ("boxes of shape [1, 6, 4] and scores of shape [1, 6, 2] do not fit", {"b": x(1, 6, 2)}),
        ("boxes of shape [1, 6, 4] and scores of shape [2, 2, 6] do not fit", {"b": x(2, 2, 6)}),
        ("boxes of shape [1, 6, 3] and scores of shape [1, 2, 6] do not fit", {"a": x(1, 6, 3)}),
        ("max_output_boxes_per_class (input 2) must be one number, got int64 [2]", {"c": ints(3, 3)}),
    ),
    *family(
        "Clip",
        {"a": x(2, 3), "b": x(1), "c": None},
        {},
        ("min (input 1) must be one number, got shape [3]", {"b": x(3)}),
        ("max (input 2) must be one number, got shape [2]", {"c": x(2)}),
    ),
    *family(
        "MatMulInteger",
        {"a": x(2, 3, dtype=U8), "b": zeros(3, 4, dtype=U8), "p": None, "q": np.arange(4, dtype=U8)},
        {},
        ("zero points of shape [3] do not fit [3, 4]", {"q": np.arange(3, dtype=U8)}),
        ("zero points of shape [2, 1, 4] do not fit [3, 4]", {"q": np.arange(8, dtype=U8).reshape(2, 1, 4)}),
    ),
    *family(
        "STFT",
        {"a": x(1, 16, 1), "s": np.array(4, I64), "w": zeros(8), "l": np.array(8, I64)},
        {},
        ("the window must have shape [8], got [7]", {"w": zeros(7)}),
        ("the window must have shape [9], got [8]", {"l": np.array(9, I64)}),
    ),
    *family("NonZero", {"a": x(2, 3)}, {}, ("the input must have rank 1 at least", {"a": x()}), outputs="y"),
    *family(
        "Split",
        {"a": x(2, 5), "s": ints(2, 3)},
        {"axis": 1},
        ("the sizes [2, 2] do not make up axis 1, of size 5, of 2 outputs", {"s": ints(2, 2)}),
        ("the sizes [-1, 6] do not make up axis 1", {"s": ints(-1, 6)}),
        ("the sizes [5] do not make up axis 1, of size 5, of 2 outputs", {"s": ints(5)}),
        outputs="y z",
    ),
    *family(
        "GRU",
        {"a": x(2, 3, 4), "b": zeros(1, 15, 4), "c": zeros(1, 15, 5)},
        {"hidden_size": 5, "linear_before_reset": 1},
        ("NNAPI's cells don't clip the inputs of their activations (clip is 0.5)", {"clip": 0.5}),
    ),
    *family("Sin", {"a": x(2, 3)}, {}, ("input 0 must be of real numbers, got int32", {"a": x(2, 3, dtype=INT)})),
    *family(
        "Tile",
        {"a": x(2, 3), "s": ints(2, 1)},
        {},
        ("(input 1) must be whole numbers, got float32", {"s": reals(2, 1)}),
        ("(input 1) must be at most 4096 numbers, got 4097", {"s": ints(*[1] * 4097)}),
    ),
    *(
        Case(kind, {**good, name: None}, f"input {position} is missing", attributes, {name: good[name]})
        for kind, good, attributes in (
            ("Add", {"a": x(2), "b": x(2)}, {}),
            ("MatMul", {"a": x(2, 3), "b": x(3, 4)}, {}),
            ("Where", {"a": x(2, dtype=np.bool_), "b": x(2), "c": x(2)}, {}),
            ("Concat", {"a": x(2), "b": x(2)}, {"axis": 0}),
            ("Gather", {"a": x(2), "b": ints(0)}, {}),
        )
        for position, name in enumerate(good)
        if position
    ),
    *family(
        "CumSum",
        {"a": x(2, 3), "s": ints(1).reshape(())},
        {},
        ("(input 1) must be one number, got int64 [2]", {"s": ints(0, 1)}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    case.check()
