"""Operators of TFLite that are refused for one condition of several: ranks, types, functions and lists."""

from __future__ import annotations

import pytest
from stablehlo import function, longs
from test_tflite_refused_operands import family, optional
from tflite_case import Case
from tflite_net import T
from tflite_oracle import boolean, f32, f32c, i32, i32c, out, q8, scalar

HEAD = {"Dimensions": longs([1]), "BodySubgraphIndex": 1}
WINDOWS = {"WindowDimensions": longs([1, 2]), "BodySubgraphIndex": 1}
SCATTERED = {
    "UpdateWindowDims": longs([1]),
    "InsertedWindowDims": longs([0]),
    "ScatterDimsToOperandDims": longs([0]),
    "IndexVectorDim": 1,
    "UpdateComputationSubgraphIndex": 1,
}
SUM, BOTH = function("STABLEHLO_ADD"), function("STABLEHLO_AND", "BOOL")
BASIC = [f32(2, 3), f32c(4, 3), f32c(4, 4), f32c(4), T("FLOAT32", (2, 4), variable=True)]


def reduced(reason: str, inputs: list[T], good: list[T], body: object = SUM, windows: bool = False) -> Case:
    kind = "STABLEHLO_REDUCE_WINDOW" if windows else "STABLEHLO_REDUCE"
    table = "StablehloReduceWindowOptions" if windows else "StablehloReduceOptions"
    return Case(kind, inputs, reason, table, WINDOWS if windows else HEAD, good, nets=[body])


REAL, NUMBER = f32(2, 3), f32c()
CASES = [
    *(
        one
        for windows in (False, True)
        for one in (
            reduced(
                "only one tensor is reduced at a time, got 3 inputs",
                [REAL, NUMBER, NUMBER],
                [REAL, NUMBER],
                windows=windows,
            ),
            reduced("SUM does not reduce", [REAL, scalar(1)], [REAL, NUMBER], windows=windows),
            reduced("SUM does not reduce", [i32(2, 3), NUMBER], [REAL, NUMBER], windows=windows),
            reduced("SUM does not reduce", [boolean(2, 3), boolean()], [REAL, NUMBER], windows=windows),
        )
    ),
    Case(
        "STABLEHLO_REDUCE",
        [REAL, NUMBER],
        "ALL does not reduce",
        "StablehloReduceOptions",
        HEAD,
        [boolean(2, 3), boolean()],
        outputs=[out("BOOL")],
        nets=[BOTH],
    ),
    Case(
        "STABLEHLO_SCATTER",
        [f32(5, 4), i32(3, 1), f32(3, 4)],
        "NNAPI scatters no truth values",
        "StablehloScatterOptions",
        {**SCATTERED, "UpdateComputationSubgraphIndex": 2},
        good=SCATTERED,
        nets=[SUM, BOTH],
    ),
    *optional(
        "REDUCE_WINDOW",
        [REAL, NUMBER, i32c(1, 2), i32c(1, 1), i32c(1, 1)],
        "ReduceWindowOptions",
        {"ReduceFunction": 1},
        ("unknown function 0", {"ReduceFunction": 0}),
        ("unknown function 7", {"ReduceFunction": 7}),
        ("ALL does not reduce", {"ReduceFunction": 5}),
    ),
    *family(
        "REAL",
        [T("COMPLEX64", (2, 3))],
        ("the input must be of COMPLEX64, got", [f32(2, 3)]),
    ),
    Case(
        "RESHAPE",
        [T("COMPLEX64", (2, 3)), i32c(3, 2)],
        "complex numbers have a new shape that the file must say",
        "ReshapeOptions",
        outputs=[T("COMPLEX64", None)],
        good_outputs=[T("COMPLEX64", (3, 2))],
    ),
    *family(
        "EXPAND_DIMS",
        [f32(2, 3), scalar(0)],
        ("the axis (input 1) must be one number, got 2", [f32(2, 3), i32c(0, 1)]),
        ("the axis (input 1) must be one number, got 0", [f32(2, 3), T("INT32", (0,), data=[])]),
    ),
    *family(
        "RNN",
        BASIC,
        ("NNAPI has RNN for real activations only", [q8(2, 3), *BASIC[1:]]),
        table="RNNOptions",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    case.check()
