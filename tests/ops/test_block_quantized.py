"""BLOCK_QUANTIZED_FULLY_CONNECTED and BLOCK_QUANTIZED_EMBEDDING_LOOKUP against plain loops, and their rules."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.check.model_rows import Row, parse, reference
from nnvk.ops.check import validate_model

ROW = (
    "BLOCK_QUANTIZED_FULLY_CONNECTED {input} #i32[3,{words}]~2147483647 #f32[{scales}]~3/64 {block} "
    "{zeros} {bias} {activation}"
)
GIVEN: dict[str, object] = {
    "input": "f32[2,37]",
    "words": 6,
    "scales": "3,3",
    "block": 16,
    "zeros": "#i32[3,1]~2147483647",
    "bias": "#f32[3]",
    "activation": "NONE",
}


def nibble(words: np.ndarray, row: int, place: int) -> int:
    """The level at a place of a row of words."""
    return (int(words[row, place // 8]) & 0xFFFFFFFF) >> 4 * (place % 8) & 15


@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize("bias", ["#f32[3]", "none"])
@pytest.mark.parametrize("zeros", ["#i32[3,1]~2147483647", "none"])
def test_like_loops(zeros: str, bias: str, activation: str) -> None:
    row = parse(ROW.format(**{**GIVEN, "zeros": zeros, "bias": bias, "activation": activation}))
    source, (result,) = row.inputs[0], reference(Row(row.model, row.inputs))
    words, scales = (np.asarray(row.model.operands[place].constant) for place in (1, 2))
    points, added = (row.model.operands[place].constant for place in (4, 5))
    for n in range(2):
        for unit in range(3):
            total = 0.0 if added is None else float(np.asarray(added)[unit])
            for k in range(37):
                block = k // 16
                zero = 8 if points is None else nibble(np.asarray(points), unit, block)
                total += float(source[n, k]) * (nibble(words, unit, k) - zero) * float(scales[unit, block])
            assert result[n, unit] == pytest.approx(
                max(total, 0) if activation == "RELU" else total, rel=1e-5, abs=1e-5
            )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block": 12}, "block_size must be a positive multiple of 8, got 12"),
        ({"block": 0}, "block_size must be a positive multiple of 8, got 0"),
        ({"words": 5}, "weights must have rows of 6 words, 3 blocks of 16 levels for 37 columns, got shape [3, 5]"),
        ({"input": "f32[2,50]"}, "weights must have rows of 8 words, 4 blocks of 16 levels for 50 columns"),
        ({"scales": "3,2"}, "scales must have shape [3, 3], got [3, 2]"),
        ({"zeros": "#i32[3,2]~9"}, "zero_points must have shape [3, 1], got [3, 2]"),
        ({"bias": "#f32[4]"}, "bias must have shape [3], got [4]"),
        ({"activation": "7"}, "activation must be a FuseCode (0 to 3), got 7"),
        ({"input": "f32[2,3,37]"}, "input must have rank 2"),
    ],
)
def test_rules(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(NnapiError, match=re.escape(reason)):
        validate_model(parse(ROW.format(**{**GIVEN, **changes})).model)


ROWS = (
    "BLOCK_QUANTIZED_EMBEDDING_LOOKUP {lookup} #i32[5,{words}]~2147483647 #f32[{scales}] {block} {columns} {zeros} "
    "-> f32"
)
OF_ROWS: dict[str, object] = {
    **{"lookup": "(3,0,4,3)", "words": 6, "scales": "5,3", "block": 16},
    **{"columns": 37, "zeros": "#i32[5,1]~2147483647"},
}


@pytest.mark.parametrize("zeros", ["#i32[5,1]~2147483647", "none"])
def test_rows_like_loops(zeros: str) -> None:
    row = parse(ROWS.format(**{**OF_ROWS, "zeros": zeros}))
    (result,) = reference(row)
    words, scales, points = (row.model.operands[place].constant for place in (1, 2, 5))
    for place, found in enumerate((3, 0, 4, 3)):
        for k in range(37):
            zero = 8 if points is None else nibble(np.asarray(points), found, k // 16)
            scale = np.float32(np.asarray(scales)[found, k // 16])
            assert result[place, k] == np.float32(nibble(np.asarray(words), found, k) - zero) * scale


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block": 20}, "block_size must be a positive multiple of 8, got 20"),
        ({"columns": 0}, "columns must be positive, got 0"),
        ({"columns": 49}, "weights must have rows of 8 words, 4 blocks of 16 levels for 49 columns, got shape [5, 6]"),
        ({"scales": "5,2"}, "scales must have shape [5, 3], got [5, 2]"),
        ({"zeros": "#i32[4,1]~9"}, "zero_points must have shape [5, 1], got [4, 1]"),
        ({"lookup": "(3,5)"}, "lookup must be in [0, 5), got 5"),
    ],
)
def test_rules_of_rows(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(NnapiError, match=re.escape(reason)):
        validate_model(parse(ROWS.format(**{**OF_ROWS, **changes})).model)
