"""MEAN and ROUNDED_MEAN of levels: what they make of fractions, in one pass and in several."""

import numpy as np
import pytest
from guarded import run_guarded

from nnvk.check.model_rows import empty_like, execute, parse, reference

CASES = """
[7] (0) 0
[3,5] (1) 1
[2,3,5,7] (1,2) 0
[2,3,5,8] (0,2) 1
[2,3,5,8] (0,1,2,3) 0
[64,12] (0) 1
[3,20011] (1) 0
[40009,4] (0) 0
"""
CASES_16 = """
i16[7] (0) 0
i16[2,3,5,7] (1,2) 0
i16[2,3,5,8] (0,2) 1
i16[3,20011] (1) 0
"""
TYPES = ("u8{}*0.5+120", "u8{}*0.25+0", "u8{}*0.1+255", "i8{}*0.25-7", "i8{}*0.5+127", "i8{}*0.5-128")
ROWS = [
    f"{code} {type_.format(shape)} {axes} {keep}"
    for shape, axes, keep in map(str.split, CASES.strip().splitlines())
    for type_ in TYPES
    for code in ("MEAN", "ROUNDED_MEAN")
] + [f"ROUNDED_MEAN {shape}*0.25 {axes} {keep}" for shape, axes, keep in map(str.split, CASES_16.strip().splitlines())]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    row = parse(text)
    expected = reference(row)
    outputs = empty_like(expected)
    execute(vulkan, row, outputs)
    np.testing.assert_array_equal(outputs[0], expected[0])
    assert run_guarded(vulkan, row.model, row.inputs, outputs) == []


def test_fractions_are_dropped_or_rounded(vulkan):
    """The reference's own results are tested against whole numbers; here, that the two differ on the device."""
    results = []
    for code in ("MEAN", "ROUNDED_MEAN"):
        row = parse(f"{code} i8[2,4]*0.5+3 (1) 0")
        row.inputs[0][:] = [[-3, -2, -3, -3], [3, 2, 3, 3]]
        outputs = empty_like(reference(row))
        execute(vulkan, row, outputs)
        results.append(outputs[0].tolist())
    assert results == [[-2, 2], [-3, 3]]
