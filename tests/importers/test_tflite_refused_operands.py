"""Operators of TFLite that are refused for operands that do not fit each other: each condition alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tflite_case import Case
from tflite_net import T
from tflite_oracle import f32, f32c, i32, i32c, out, q8, scalar

Tensors = Sequence[T | None]


def family(
    name: str,
    good: Tensors,
    *rows: tuple[str, Tensors],
    table: str | None = None,
    outputs: Sequence[T] = (T(),),
    **options: Any,
) -> list[Case]:
    """For each reason the inputs that are refused for it; ``good`` ones are mapped."""
    return [Case(name, inputs, reason, table, options, good, outputs=outputs) for reason, inputs in rows]


def optional(
    name: str,
    inputs: Tensors,
    table: str,
    good: dict[str, Any],
    *rows: tuple[str, dict[str, Any]],
    outputs: Sequence[T] = (T(),),
) -> list[Case]:
    """For each reason the options that are refused for it, beside ``good`` ones."""
    return [Case(name, inputs, reason, table, {**good, **bad}, None, good, outputs) for reason, bad in rows]


def real(number: float) -> T:
    return T("FLOAT32", (), np.float32(number))


VOLUME = f32(1, 4, 5, 6, 2), f32c(2, 3, 3, 2, 4), f32c(4)
WINDOW = {"StrideD": 1, "StrideH": 1, "StrideW": 1, "DilationDFactor": 1, "DilationHFactor": 1, "DilationWFactor": 1}
UPSIDE = i32c(1, 8, 5, 6, 3), f32c(2, 3, 3, 3, 2), f32(1, 4, 5, 6, 2)
TWICE = {**WINDOW, "StrideD": 2}
BASIC = f32(1, 3), T("FLOAT32", (1, 2), variable=True), f32c(8, 5), f32c(8), T("FLOAT32", (1, 2), variable=True)
BOXES = f32(5, 4), f32(5), scalar(3), real(0.5), real(0.0)
PAIR = [out("INT32"), out("INT32")]
TRIPLE = [out("INT32"), out("FLOAT32"), out("INT32")]
PLACES = i32c(0, 1), i32c([[0, 0], [1, 0]]), i32c(2, 1), f32(2), f32c(3, 4)

CASES = [
    *optional(
        "SQUEEZE",
        [f32(1, 3, 1)],
        "SqueezeOptions",
        {"SqueezeDims": [0, 2]},
        ("the dimensions [0, 1] of [1, 3, 1] must be of size 1", {"SqueezeDims": [0, 1]}),
        ("the dimensions [1, 2] of [1, 3, 1] must be of size 1", {"SqueezeDims": [-1, 1]}),
        ("must be in [-3, 3), got 3", {"SqueezeDims": [0, 3]}),
    ),
    *family(
        "RANGE",
        [real(0), real(5), real(2)],
        *(
            ("start, limit and delta must be finite and delta not 0", numbers)
            for numbers in (
                [real(np.inf), real(5), real(2)],
                [real(0), real(-np.inf), real(2)],
                [real(0), real(5), real(np.nan)],
                [real(0), real(5), real(0)],
            )
        ),
        *(
            ("start, limit and delta (inputs 0 to 2) must be constants", numbers)
            for numbers in (
                [f32(), real(5), real(2)],
                [real(0), f32c(2), real(2)],
                [real(0), real(5), f32(1)],
            )
        ),
        table="RangeOptions",
    ),
    *family(
        "FILL",
        [i32c(2), f32(1)],
        ("the dimensions (input 0) must be constants, or the output's shape declared", [i32(2), f32(1)]),
        ("the dimensions (input 0) must be constants, or the output's shape declared", [i32(2), f32c(1)]),
        outputs=[T("FLOAT32")],
    ),
    *family(
        "ATAN2",
        [f32(2, 3), f32(2, 3)],
        ("its inputs must be FLOAT32 of one shape", [f32(2, 3), f32(3, 2)]),
        ("its inputs must be FLOAT32 of one shape", [i32(2, 3), f32(2, 3)]),
        ("its inputs must be FLOAT32 of one shape", [f32(2, 3), i32(2, 3)]),
    ),
    *family(
        "DYNAMIC_UPDATE_SLICE",
        [f32(4, 5), f32(4, 2), i32(2)],
        ("an update of shape [5, 2] does not fit [4, 5]", [f32(4, 5), f32(5, 2), i32(2)]),
        ("an update of shape [4, 6] does not fit [4, 5]", [f32(4, 5), f32(4, 6), i32(2)]),
        ("an update of shape [4] does not fit [4, 5]", [f32(4, 5), f32(4), i32(2)]),
        ("an update of shape [4, 2] does not fit [4, 5]", [f32(4, 5), f32(4, 2), i32(3)]),
    ),
    *family(
        "REVERSE_SEQUENCE",
        [f32(2, 3, 4), i32(3)],
        ("lengths of shape [2] do not fit axis 1", [f32(2, 3, 4), i32(2)]),
        ("lengths of shape [3, 1] do not fit axis 1", [f32(2, 3, 4), i32(3, 1)]),
        table="ReverseSequenceOptions",
        BatchDim=1,
        SeqDim=2,
    ),
    *optional(
        "REVERSE_SEQUENCE",
        [f32(3, 3, 4), i32(3)],
        "ReverseSequenceOptions",
        {"BatchDim": 1, "SeqDim": 0},
        ("do not fit axis 1", {"SeqDim": 1}),
        ("must be in [-3, 3), got 3", {"SeqDim": 3}),
        ("must be in [-3, 3), got -4", {"BatchDim": -4}),
    ),
    *family(
        "GATHER_ND",
        [f32(2, 3), i32(4, 2)],
        ("3 indices for an input of rank 2", [f32(2, 3), i32(4, 3)]),
        table="GatherNdOptions",
    ),
    *family(
        "ONE_HOT",
        [i32(3), scalar(1), real(1), real(0)],
        ("the depth (input 1) must be positive, got 0", [i32(3), scalar(0), real(1), real(0)]),
        table="OneHotOptions",
        Axis=-1,
    ),
    *optional(
        "GATHER",
        [f32(2, 3, 4), i32(2, 3, 2)],
        "GatherOptions",
        {"Axis": 2, "BatchDims": 2},
        ("have no 3 batch dimensions before axis 2 in common", {"BatchDims": 3}),
        ("have no 2 batch dimensions before axis 1 in common", {"Axis": 1}),
        ("have no -1 batch dimensions before axis 2 in common", {"BatchDims": -4}),
        ("must be in [-3, 3), got 3", {"Axis": 3}),
    ),
    *family(
        "GATHER",
        [f32(2, 3, 4), i32(2, 5)],
        ("have no 1 batch dimensions before axis 1 in common", [f32(2, 3, 4), i32(3, 5)]),
        table="GatherOptions",
        Axis=1,
        BatchDims=1,
    ),
    *family(
        "SPLIT_V",
        [f32(2, 5), i32c(2, 3), scalar(1)],
        ("the sizes [2, 2] do not make up axis 1, of size 5", [f32(2, 5), i32c(2, 2), scalar(1)]),
        ("the sizes [-2, 7] do not make up axis 1, of size 5", [f32(2, 5), i32c(-2, 7), scalar(1)]),
        ("the sizes [6, -1] do not make up axis 1, of size 5", [f32(2, 5), i32c(6, -1), scalar(1)]),
        ("3 sizes do not fit 2 outputs", [f32(2, 5), i32c(2, 2, 1), scalar(1)]),
        table="SplitVOptions",
        outputs=[T(), T()],
    ),
    *family(
        "CONV_3D",
        VOLUME,
        ("the input must have rank 5", [f32(4, 5, 6, 2), *VOLUME[1:]]),
        ("the filter must have rank 5", [VOLUME[0], f32c(3, 3, 2, 4), VOLUME[2]]),
        ("volumes must be of FLOAT32", [i32(1, 4, 5, 6, 2), *VOLUME[1:]]),
        ("a filter of 3 channels does not fit", [VOLUME[0], f32c(2, 3, 3, 3, 4), VOLUME[2]]),
        table="Conv3DOptions",
        **WINDOW,
    ),
    *optional("CONV_3D", VOLUME, "Conv3DOptions", WINDOW, ("depth", {"StrideD": 0}), ("depth", {"DilationDFactor": 0})),
    *family(
        "LSTM",
        BASIC,
        ("the basic kernel for TENSOR_FLOAT32 and TENSOR_QUANT8_ASYMM only", [q8(1, 3), *BASIC[1:]]),
        ("weights and biases (inputs 2 and 3) must be constants", [*BASIC[:2], f32(8, 5), *BASIC[3:]]),
        ("weights and biases (inputs 2 and 3) must be constants", [*BASIC[:3], f32(8), BASIC[4]]),
        ("weights must have shape [8, 5]", [*BASIC[:2], f32c(8, 6), *BASIC[3:]]),
        ("weights must have shape [8, 5]", [*BASIC[:2], f32c(4, 5), *BASIC[3:]]),
        ("biases 8 elements", [*BASIC[:3], f32c(4), BASIC[4]]),
        table="LSTMOptions",
        outputs=[T(), T()],
        KernelType=1,
        FusedActivationFunction=4,
    ),
    *family(
        "NON_MAX_SUPPRESSION_V4",
        BOXES,
        ("boxes of shape [4, 4] and scores of [5] do not fit together", [f32(4, 4), *BOXES[1:]]),
        ("boxes of shape [5, 3] and scores of [5] do not fit together", [f32(5, 3), *BOXES[1:]]),
        ("boxes of shape [5, 4] and scores of [5, 1] do not fit together", [f32(5, 4), f32(5, 1), *BOXES[2:]]),
        ("the maximum (input 2) is 0", [*BOXES[:2], scalar(0), *BOXES[3:]]),
        outputs=PAIR,
    ),
    *family(
        "NON_MAX_SUPPRESSION_V5",
        [*BOXES, real(0.5)],
        ("sigma (input 5) must be a constant", [*BOXES, f32()]),
        ("sigma (input 5) must be one real number, and a constant", [*BOXES, f32c(2)]),
        ("sigma (input 5) must be one real number, and a constant", [*BOXES, scalar(1)]),
        outputs=TRIPLE,
    ),
    *family(
        "FULLY_CONNECTED",
        [f32(2, 6), f32c(4, 3), None],
        ("does not divide into rows of 5", [f32(2, 6), f32c(4, 5), None]),
        ("the weights must have rank 2", [f32(2, 6), f32c(4, 3, 1), None]),
        table="FullyConnectedOptions",
    ),
    *family(
        "BATCH_MATMUL",
        [f32(2, 1, 3, 4), f32(5, 4, 6)],
        ("don't broadcast", [f32(2, 3, 3, 4), f32(2, 4, 6)]),
        table="BatchMatMulOptions",
    ),
    *family(
        "DEPTHWISE_CONV_2D",
        [f32(1, 5, 6, 2), f32c(1, 3, 3, 4), f32c(4)],
        ("the input must have rank 4", [f32(5, 6, 2), f32c(1, 3, 3, 4), f32c(4)]),
        ("the filter must have rank 4", [f32(1, 5, 6, 2), f32c(3, 3, 4), f32c(4)]),
        table="DepthwiseConv2DOptions",
        StrideW=1,
        StrideH=1,
        DilationWFactor=1,
        DilationHFactor=1,
        DepthMultiplier=2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    case.check()
