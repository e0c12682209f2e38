"""Operators that have changed between versions of ONNX: the same node, as each version has it, is the same model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, Case, F, ints, x

INT, U8 = np.int32, np.uint8
A = {"a": x(2, 3, 4)}
IMAGE = {"a": x(1, 2, 6, 5)}
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
Form = tuple[int, Mapping[str, Any], Mapping[str, Any]]
"""A version, the inputs and the attributes."""


def real(number: float) -> np.ndarray:
    return np.array(number, F)


FORMS: list[tuple[str, str, list[Form]]] = [
    ("Squeeze", "y", [(11, {"a": x(1, 3, 1)}, {"axes": [2]}), (13, {"a": x(1, 3, 1), "b": ints(2)}, {})]),
    (
        "Squeeze",
        "y",
        [(11, {"a": x(1, 3, 1)}, {}), (13, {"a": x(1, 3, 1)}, {}), (13, {"a": x(1, 3, 1), "b": ints(0, -1)}, {})],
    ),
    (
        "Unsqueeze",
        "y",
        [(11, A, {"axes": [1, 3]}), (13, {**A, "b": ints(3, 1)}, {}), (13, {**A, "b": ints(-2, -4)}, {})],
    ),
    (
        "Slice",
        "y",
        [
            (9, A, {"starts": [1, 0], "ends": [3, 2], "axes": [1, 2]}),
            (10, {**A, "s": ints(1, 0), "e": ints(3, 2), "x": ints(1, 2)}, {}),
            (13, {**A, "s": ints(0, -2), "e": ints(2, 99), "x": ints(-1, -2), "t": ints(1, 1)}, {}),
        ],
    ),
    ("Slice", "y", [(9, A, {"starts": [1, 0], "ends": [2, 2]}), (10, {**A, "s": ints(1, 0), "e": ints(2, 2)}, {})]),
    ("Split", "y z", [(11, A, {"split": [1, 2], "axis": 1}), (13, {**A, "s": ints(1, 2)}, {"axis": 1})]),
    (
        "Split",
        "y z",
        [
            (11, A, {"axis": 2}),
            (13, A, {"axis": -1}),
            (18, A, {"axis": 2, "num_outputs": 2}),
            (13, {**A, "s": ints(2, 2)}, {"axis": 2}),
        ],
    ),
    ("Clip", "y", [(10, A, {"min": -1.5, "max": 2.5}), (11, {**A, "l": real(-1.5), "h": real(2.5)}, {})]),
    ("Clip", "y", [(10, A, {"max": 2.5}), (11, {**A, "l": None, "h": real(2.5)}, {})]),
    ("Clip", "y", [(10, A, {"min": 0.0}), (11, {**A, "l": real(0)}, {}), (14, A, {"min": 0.0})]),
    (
        "Pad",
        "y",
        [
            (10, A, {"pads": [0, 1, 2, 0, 0, 1], "value": 0.5}),
            (11, {**A, "p": ints(0, 1, 2, 0, 0, 1), "v": real(0.5)}, {}),
            (18, {**A, "p": ints(1, 2, 0, 1), "v": real(0.5), "x": ints(1, 2)}, {}),
            (18, {**A, "p": ints(2, 1, 1, 0), "v": real(0.5), "x": ints(-1, -2)}, {}),
        ],
    ),
    (
        "TopK",
        "y z",
        [
            (9, A, {"k": 2, "axis": 1}),
            (10, {**A, "k": ints(2)}, {"axis": 1}),
            (11, {**A, "k": ints(2)}, {"axis": 1, "largest": 1, "sorted": 0}),
        ],
    ),
    *((f"Reduce{kind}", "y", [(13, A, {"axes": [0, 2]}), (18, {**A, "b": ints(-1, 0)}, {})]) for kind in REDUCTIONS),
    ("ReduceSum", "y", [(11, A, {"axes": [0, 2]}), (13, {**A, "b": ints(0, 2)}, {})]),
    *((f"Reduce{kind}", "y", [(13, A, {}), (18, A, {}), (18, {**A, "b": ints(0, 1, 2)}, {})]) for kind in REDUCTIONS),
    *(
        (kind, "y", [(11, A, {"axis": 2}), (13, A, {"axis": 2}), (13, A, {"axis": -1}), (13, A, {})])
        for kind in ("Softmax", "LogSoftmax")
    ),
    (
        "Upsample",
        "y",
        [(7, IMAGE, {"scales": [1.0, 1.0, 2.0, 3.0]}), (9, {**IMAGE, "s": np.array([1, 1, 2, 3], F)}, {})],
    ),
    (
        "Resize",
        "y",
        [
            (10, {**IMAGE, "s": np.array([1, 1, 2, 3], F)}, {"mode": "linear"}),
            (
                11,
                {**IMAGE, "r": None, "s": np.array([1, 1, 2, 3], F)},
                {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
            ),
            (
                18,
                {**IMAGE, "r": None, "s": np.array([3, 2], F)},
                {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "axes": [3, 2]},
            ),
            (
                18,
                {**IMAGE, "r": np.zeros(0, F), "s": np.zeros(0, F), "z": ints(12, 15)},
                {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "axes": [-2, -1]},
            ),
        ],
    ),
    (
        "Resize",
        "y",
        [
            (10, {**IMAGE, "s": np.array([1, 1, 2, 3], F)}, {}),
            (
                11,
                {**IMAGE, "r": None, "s": np.array([1, 1, 2, 3], F)},
                {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
            ),
        ],
    ),
    (
        "GridSample",
        "y",
        [
            (16, {**IMAGE, "g": x(1, 3, 4, 2)}, {"mode": "bilinear"}),
            (20, {**IMAGE, "g": x(1, 3, 4, 2)}, {"mode": "linear"}),
            (20, {**IMAGE, "g": x(1, 3, 4, 2)}, {}),
        ],
    ),
    (
        "GridSample",
        "y",
        [
            (16, {**IMAGE, "g": x(1, 3, 4, 2)}, {"mode": "bicubic"}),
            (20, {**IMAGE, "g": x(1, 3, 4, 2)}, {"mode": "cubic"}),
        ],
    ),
    (
        "DFT",
        "y",
        [
            (17, {"a": x(2, 4, 5, 2)}, {"axis": 2}),
            (20, {"a": x(2, 4, 5, 2), "l": None, "x": np.array(2)}, {}),
            (20, {"a": x(2, 4, 5, 2)}, {}),
            (20, {"a": x(2, 4, 5, 2), "l": np.array(5), "x": np.array(-2)}, {}),
        ],
    ),
    ("DFT", "y", [(17, {"a": x(2, 4, 5, 2)}, {}), (20, {"a": x(2, 4, 5, 2), "l": np.array(4), "x": np.array(1)}, {})]),
    (
        "Reshape",
        "y",
        [
            (13, {**A, "s": ints(0, -1)}, {}),
            (14, {**A, "s": ints(2, 12)}, {"allowzero": 1}),
            (7, {**A, "s": ints(-1, 12)}, {}),
        ],
    ),
    (
        "DequantizeLinear",
        "y",
        [
            (10, {"a": x(2, 3, dtype=U8), "s": real(0.5)}, {}),
            (13, {"a": x(2, 3, dtype=U8), "s": real(0.5), "z": np.array(0, U8)}, {"axis": 0}),
        ],
    ),
    (
        "QuantizeLinear",
        "y",
        [
            (10, {**A, "s": real(0.5)}, {}),
            (13, {**A, "s": real(0.5), "z": np.array(0, U8)}, {"axis": 0}),
            (21, {**A, "s": real(0.5)}, {"output_dtype": 2}),
        ],
    ),
    (
        "BatchNormalization",
        "y",
        [(version, {"a": x(2, 3, 4), **{name: x(3) for name in "gbmv"}}, {}) for version in (9, 14, 15)],
    ),
    (
        "Dropout",
        "y",
        [
            (7, A, {"ratio": 0.3}),
            (12, {**A, "r": real(0.3)}, {}),
            (12, {**A, "r": real(0.3), "t": np.array(False)}, {}),
        ],
    ),
    ("Cast", "y", [(9, A, {"to": 6}), (19, A, {"to": 6, "saturate": 0})]),
    (
        "CastLike",
        "y",
        [(15, {**A, "b": np.zeros(1, INT)}, {}), (19, {**A, "b": np.zeros((2, 2), INT)}, {"saturate": 0})],
    ),
    (
        "RoiAlign",
        "y",
        [
            (10, {**IMAGE, "b": x(3, 4), "c": x(3, dtype=I64)}, {}),
            (
                16,
                {**IMAGE, "b": x(3, 4), "c": x(3, dtype=I64)},
                {"coordinate_transformation_mode": "output_half_pixel"},
            ),
        ],
    ),
]


@pytest.mark.parametrize(
    ("kind", "outputs", "forms"), [pytest.param(*one, id=f"{number}-{one[0]}") for number, one in enumerate(FORMS)]
)
def test_forms(kind: str, outputs: str, forms: list[Form]) -> None:
    made = [Case(kind, inputs, "", attributes, {}, outputs, opset).encoded() for opset, inputs, attributes in forms]
    assert set(made) == {made[0]}


def test_scatter_is_scatter_elements() -> None:
    inputs = {"a": x(3, 3), "i": ints(2, 0).reshape(1, 2), "u": x(1, 2)}
    old, new = (
        Case(kind, inputs, "", {"axis": 1}, opset=opset) for kind, opset in (("Scatter", 10), ("ScatterElements", 11))
    )
    assert old.encoded() == new.encoded()
