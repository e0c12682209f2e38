"""Operators of StableHLO that the importer can't map: each condition alone, beside one that it maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stablehlo import longs
from tflite_case import Case
from tflite_net import Net, T
from tflite_oracle import boolean, f32, f32c, i32, out


def given(**lists: Sequence[int] | int) -> dict[str, Any]:
    """Options, of which lists are in the form that the schema takes."""
    return {name: value if isinstance(value, int) else longs(value) for name, value in lists.items()}


def case(
    name: str,
    table: str | None,
    inputs: Sequence[T | None],
    reason: str,
    *,
    bad: dict[str, Any] | None = None,
    good: dict[str, Any] | None = None,
    good_inputs: Sequence[T | None] | None = None,
    result: T | None = None,
    good_result: T | None = None,
    nets: Sequence[Net] = (),
) -> Case:
    """A case of which options, inputs or the output differ from one that is mapped."""
    return Case(
        f"STABLEHLO_{name}",
        inputs,
        reason,
        table and f"Stablehlo{table}Options",
        bad or good or {},
        good_inputs,
        good or {},
        (result or out(),),
        None if good_result is None else (good_result,),
        nets,
    )


def broadcast(reason: str, **bad: Any) -> Case:
    good = given(BroadcastDimensions=[0, 2])
    return case(
        "BROADCAST_IN_DIM", "BroadcastInDim", [f32(2, 3)], reason, bad=bad, good=good, result=out("FLOAT32", (2, 4, 3))
    )


def sliced(reason: str, starts: list[int], limits: list[int], strides: list[int], **good: list[int]) -> Case:
    options = given(StartIndices=starts, LimitIndices=limits, Strides=strides)
    return case("SLICE", "Slice", [f32(4, 5)], reason, bad=options, good=options | given(**good))


DOT = given(
    LhsBatchingDimensions=[0], RhsBatchingDimensions=[0], LhsContractingDimensions=[2], RhsContractingDimensions=[1]
)


def dot(reason: str, first: T, second: T) -> Case:
    return case(
        "DOT_GENERAL",
        "DotGeneral",
        [first, second],
        reason,
        good=DOT,
        good_inputs=[f32(2, 3, 4), f32(2, 4, 5)],
    )


CONVOLUTION = given(
    InputSpatialDimensions=[1, 2],
    KernelSpatialDimensions=[0, 1],
    OutputSpatialDimensions=[1, 2],
    InputFeatureDimension=3,
    KernelInputFeatureDimension=2,
    KernelOutputFeatureDimension=3,
    OutputFeatureDimension=3,
    FeatureGroupCount=1,
    BatchGroupCount=1,
)


def convolution(reason: str, first: T | None = None, second: T | None = None, **bad: Any) -> Case:
    good = [f32(1, 5, 6, 4), f32c(3, 2, 4, 6)]
    return case(
        "CONVOLUTION",
        "Convolution",
        [first or good[0], second or good[1]],
        reason,
        bad=CONVOLUTION | given(**bad),
        good=CONVOLUTION,
        good_inputs=good,
        result=out("FLOAT32", (1, 3, 5, 6)),
    )


def boxed(reason: str, sizes: list[int], *starts: T) -> Case:
    given_sizes = given(SliceSizes=sizes)
    return case(
        "DYNAMIC_SLICE",
        "DynamicSlice",
        [f32(4, 5), *(starts or (i32(), i32()))],
        reason,
        bad=given_sizes,
        good=given(SliceSizes=[4, 1]),
        good_inputs=[f32(4, 5), i32(), i32()],
    )


def selected(reason: str, *tensors: T) -> Case:
    return case("SELECT", None, tensors, reason, good_inputs=[boolean(2, 3), f32(2, 3), f32(2, 3)])


def clamped(reason: str, *tensors: T) -> Case:
    return case("CLAMP", None, tensors, reason, good_inputs=[f32(), f32(2, 3), f32(2, 3)])


SHAPED = out("FLOAT32", (3, 2))
CASES = [
    case("RESHAPE", None, [f32(2, 3)], "the output's shape must be declared", good_result=SHAPED),
    case(
        "TRANSPOSE",
        "Transpose",
        [f32(2, 3)],
        "there must be 2 of Permutation, got [1]",
        bad=given(Permutation=[1]),
        good=given(Permutation=[1, 0]),
    ),
    broadcast("axes [] do not fit an input of [2, 3]", **given(BroadcastDimensions=[])),
    case(
        "BROADCAST_IN_DIM",
        "BroadcastInDim",
        [f32(1)],
        "axes [5] do not fit an input of [1] and an output of [2, 4]",
        bad=given(BroadcastDimensions=[5]),
        good=given(BroadcastDimensions=[]),
        result=out("FLOAT32", (2, 4)),
    ),
    broadcast("axes [0] do not fit an input of [2, 3]", **given(BroadcastDimensions=[0])),
    broadcast("axes [0, 0] do not fit an input of [2, 3]", **given(BroadcastDimensions=[0, 0])),
    broadcast("axes [0, 3] do not fit an input of [2, 3]", **given(BroadcastDimensions=[0, 3])),
    broadcast("axes [0, 1, 2] do not fit an input of [2, 3]", **given(BroadcastDimensions=[0, 1, 2])),
    broadcast("can't be broadcast", **given(BroadcastDimensions=[0, 1])),
    case(
        "BROADCAST_IN_DIM",
        "BroadcastInDim",
        [f32(2, 3)],
        "the output's shape must be declared",
        good=given(BroadcastDimensions=[0, 2]),
        good_result=out("FLOAT32", (2, 4, 3)),
    ),
    *(
        case(
            "IOTA",
            "Iota",
            [],
            reason,
            bad=given(IotaDimension=axis),
            good=given(IotaDimension=1),
            result=result,
            good_result=out("INT32", (2, 3)),
        )
        for reason, axis, result in (
            ("the output must be FLOAT32 or INT32 and its shape declared", 1, out("FLOAT32")),
            ("the output must be FLOAT32 or INT32 and its shape declared", 1, out("BOOL", (2, 3))),
            ("must be in [-2, 2), got 2", 2, out("INT32", (2, 3))),
        )
    ),
    sliced("the slice from [-1, 0] to [4, 5] is not within [4, 5]", [-1, 0], [4, 5], [1, 1], StartIndices=[0, 0]),
    sliced("the slice from [0, 0] to [4, 6] is not within [4, 5]", [0, 0], [4, 6], [1, 1], LimitIndices=[4, 5]),
    sliced("the slice from [0, 5] to [4, 5] is not within [4, 5]", [0, 5], [4, 5], [1, 1], StartIndices=[0, 4]),
    sliced("there must be 2 of StartIndices, got [0]", [0], [4, 5], [1, 1], StartIndices=[0, 0]),
    sliced("there must be 2 of LimitIndices, got [4]", [0, 0], [4], [1, 1], LimitIndices=[4, 5]),
    sliced("there must be 2 of Strides, got [2]", [0, 0], [4, 5], [2], Strides=[]),
    boxed("a slice of [0, 1] does not fit [4, 5]", [0, 1]),
    boxed("a slice of [4, 6] does not fit [4, 5]", [4, 6]),
    boxed("there must be 2 of SliceSizes, got [4]", [4]),
    boxed("there must be 2 first indices of INT32, got 2", [4, 1], f32(), i32()),
    boxed("there must be 2 first indices of INT32, got 2", [4, 1], i32(), f32()),
    boxed("there must be 2 first indices of INT32, got 3", [4, 1], i32(), i32(), i32()),
    dot("its inputs must be FLOAT32", f32(2, 3, 4), i32(2, 4, 5)),
    dot("its inputs must be FLOAT32", i32(2, 3, 4), f32(2, 4, 5)),
    dot("the axes [0] and [0] have the sizes [2] and [3]", f32(2, 3, 4), f32(3, 4, 5)),
    dot("the axes [2] and [1] have the sizes [4] and [6]", f32(2, 3, 4), f32(2, 6, 5)),
    convolution("its inputs must be FLOAT32", first=i32(1, 5, 6, 4)),
    convolution("its inputs must be FLOAT32", second=i32(3, 2, 4, 6)),
    convolution("NNAPI has one or two spatial axes", first=f32(1, 5, 6, 4, 1)),
    convolution("NNAPI has one or two spatial axes", InputSpatialDimensions=[1]),
    convolution("NNAPI has one or two spatial axes", KernelSpatialDimensions=[0]),
    convolution("NNAPI has one or two spatial axes", OutputSpatialDimensions=[1]),
    convolution("NNAPI has no groups of batches, got 2", BatchGroupCount=2),
    convolution("the output's axes must be 4", OutputFeatureDimension=2),
    convolution("2 groups do not fit images", FeatureGroupCount=2),
    convolution("4 groups do not fit images", FeatureGroupCount=4, second=f32c(3, 2, 1, 6)),
    selected("does not choose between", boolean(2, 3), f32(2, 3), f32(3, 2)),
    selected("does not choose between", boolean(2, 3), f32(2, 3), i32(2, 3)),
    selected("does not choose between", boolean(2), f32(2, 3), f32(2, 3)),
    clamped("a limit of", i32(), f32(2, 3), f32(2, 3)),
    clamped("a limit of", f32(), f32(2, 3), i32(2, 3)),
    clamped("a limit of", f32(3), f32(2, 3), f32(2, 3)),
    clamped("a limit of", f32(), f32(2, 3), f32(3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    case.check()
