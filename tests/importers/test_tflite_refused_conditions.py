"""Operators of TFLite that are refused for one condition of several: ranks, types, functions and lists."""

from __future__ import annotations

import pytest
from test_tflite_refused_operands import family
from tflite_case import Case
from tflite_net import T
from tflite_oracle import f32, f32c, i32, i32c, out, q8, scalar

from nnvk.importers.tflite import TfliteImportError

BASIC = [f32(2, 3), f32c(4, 3), f32c(4, 4), f32c(4), T("FLOAT32", (2, 4), variable=True)]
FUSED = {"FusedActivationFunction": 3}
CASES = [
    *family(
        "REAL",
        [T("COMPLEX64", (2, 3))],
        ("the input must be of COMPLEX64, got", [f32(2, 3)]),
    ),
    *family(
        "EXPAND_DIMS",
        [f32(2, 3), scalar(0)],
        ("the axis (input 1) must be one number, got 2", [f32(2, 3), i32c(0, 1)]),
        ("the axis (input 1) must be one number, got 0", [f32(2, 3), T("INT32", (0,), data=[])]),
    ),
    *family(
        "SLICE",
        [f32(4, 5), i32(2), i32c(2, 3)],
        ("and the file does not say its output's shape", [f32(4, 5), i32(2), i32c(2, -1)]),
        ("and the file does not say its output's shape", [f32(4, 5), i32(2), i32(2)]),
    ),
    *family(
        "SLICE",
        [f32(4, 5), i32c(1, 0), i32c(2, -1)],
        ("and the file does not say its output's shape", [f32(4, 5), i32c(1, 0), i32(2)]),
    ),
    *(
        Case(
            "STRIDED_SLICE",
            [f32(4, 5), i32(2), i32c(2, 3), i32c(*strides)],
            "the begin (input 1) must be a constant where there is an ellipsis, a new axis or a stride",
            "StridedSliceOptions",
            good_inputs=[f32(4, 5), i32(2), i32c(2, 3), i32c(1, 1)],
            outputs=[T("FLOAT32", (1, 2))],
        )
        for strides in ([1, 2], [2, 1], [-1, 1])
    ),
    *family(
        "CONCATENATION",
        [f32(2, 3), f32(2, 3)],
        ("CONCATENATION: ", [f32(2, 3), i32(2, 3)]),
        ("CONCATENATION: ", [i32(2, 3), f32(2, 3)]),
        table="ConcatenationOptions",
    ),
    *family(
        "REVERSE_V2",
        [f32(2, 3), i32c(*[0] * 64)],
        ("the axes (input 1) must be a constant", [f32(2, 3), i32(1)]),
        ("the axes (input 1) must be whole numbers, got float32", [f32(2, 3), f32c(1)]),
        ("the axes (input 1) must be at most 64 numbers, got 65", [f32(2, 3), i32c(*[0] * 65)]),
        ("must be in [-2, 2), got -3", [f32(2, 3), i32c(-3)]),
        ("must be in [-2, 2), got 2", [f32(2, 3), i32c(2)]),
    ),
    *family(
        "ARG_MIN",
        [f32(2, 3), T("INT64", data=[1])],
        ("the axis (input 1) must be one number, got 2", [f32(2, 3), i32c(0, 1)]),
        ("the axis (input 1) must be a constant", [f32(2, 3), i32(1)]),
        outputs=[out("INT32")],
    ),
    *(
        Case(
            name, inputs, f"NNAPI has no fused activation {kind}", table, {"FusedActivationFunction": kind}, good=FUSED
        )
        for kind in (4, 5)
        for name, table, inputs in (
            ("ADD", "AddOptions", [f32(2), f32(2)]),
            ("CONCATENATION", "ConcatenationOptions", [f32(2), f32(2)]),
            ("L2_NORMALIZATION", "L2NormOptions", [f32(2, 3)]),
        )
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


STRIDES = {"StrideD": 1, "StrideH": 1, "StrideW": 1}
DISTANCES = {"DilationDFactor": 1, "DilationHFactor": 1, "DilationWFactor": 1}
ALLOWED = [
    Case("ONE_HOT", [i32(3), scalar(1), f32c(), f32c()], "a depth of 1", "OneHotOptions", {"Axis": -1}),
    Case("GATHER_ND", [f32(2, 3), i32(4, 2)], "as many indices as axes", "GatherNdOptions"),
    Case("GATHER", [f32(2, 3, 4), i32(2, 3, 5)], "as many batches", "GatherOptions", {"Axis": 2, "BatchDims": 2}),
    Case("GATHER", [f32(2, 3, 4), i32(2, 3, 5)], "batches from the end", "GatherOptions", {"Axis": 2, "BatchDims": -1}),
    Case("DYNAMIC_UPDATE_SLICE", [f32(4, 5), f32(4, 5), i32(2)], "an update of all"),
    Case(
        "SPLIT_V",
        [f32(65), i32c(*[1] * 65), scalar(0)],
        "a size for each of 65 outputs",
        "SplitVOptions",
        outputs=[T() for _ in range(65)],
    ),
    Case("STRIDED_SLICE", [f32(4), i32c(3), i32c(4), i32c(1)], "the last element", "StridedSliceOptions"),
    Case(
        "NON_MAX_SUPPRESSION_V4",
        [f32(5, 4), f32(5), scalar(1), f32c(), f32c()],
        "one box",
        outputs=[out("INT32"), out("INT32")],
    ),
    Case("CONV_3D", [f32(1, 2, 2, 2, 1), f32c(2, 2, 2, 1, 1)], "a window of all", "Conv3DOptions", STRIDES | DISTANCES),
    Case("FAKE_QUANT", [f32(2)], "2 bits", "FakeQuantOptions", {"Min": 0.0, "Max": 1.0, "NumBits": 2}),
    Case("FAKE_QUANT", [f32(2)], "16 bits", "FakeQuantOptions", {"Min": 0.0, "Max": 1.0, "NumBits": 16}),
    Case("RESHAPE", [f32(2, 3), i32c(-1)], "one open size"),
    Case("SQUEEZE", [f32(1, 3, 1)], "no axes", "SqueezeOptions"),
    Case("PADV2", [i32(2), i32c([[0, 0]]), scalar(1)], "no paddings", outputs=[out("INT32")]),
    Case("ARG_MAX", [f32(2, 3), scalar(-2)], "the first axis from the end", outputs=[out("INT32")]),
]


@pytest.mark.parametrize("case", ALLOWED, ids=str)
def test_allowed(case: Case) -> None:
    """At the end of what the conditions allow."""
    case.load(mapped=True)


def test_an_output_without_elements() -> None:
    reason = "output 0: an output of shape [2, 0] has no elements"
    parts = Case("SPLIT_V", [f32(2, 5), i32c(0, 5), scalar(1)], reason, "SplitVOptions", outputs=[T(), T()])
    with pytest.raises(TfliteImportError) as caught:
        parts.load(mapped=False)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("bits", "low", "high", "narrow"),
    [(1, 0.0, 1.0, False), (17, 0.0, 1.0, False), (8, 1.0, 1.0, False), (8, 2.0, 1.0, False), (8, 0.0, 1.0, True)],
)
def test_ranges_of_fake_quant(bits: int, low: float, high: float, narrow: bool) -> None:
    options = {"Min": low, "Max": high, "NumBits": bits, "NarrowRange": narrow}
    reason = (
        "a narrow range is for weights, and not for activations"
        if narrow
        else f"expected 2 to 16 bits and a minimum below the maximum, got {bits} from {low:.1f} to {high:.1f}"
    )
    good = {"Min": 0.0, "Max": 1.0, "NumBits": 8, "NarrowRange": False}
    Case("FAKE_QUANT", [f32(2)], reason, "FakeQuantOptions", options, None, good).check()
