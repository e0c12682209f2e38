"""The REDUCE family on axes that are folded in one pass and in several."""

import numpy as np
import pytest
from guarded import run_guarded

from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan.kernels.reduce import PART, Pass, passes

CASES = """
[1] (0) nhwc
[7] (0) nchw
[3,5] (0,1) nhwc
[2,3,5,7] (1) nhwc
[2,3,5,7] (-1,1) nchw
[2,3,5,7] (0,2) nhwc
[2,3,5,8] (0,1,2,3) nhwc
[64] (0) nhwc
[65] (0) nhwc
[3,4097] (1) nhwc
[4097,3] (0) nhwc
[262145] (0) nhwc
[2,70,3,70] (1,3) nhwc
"""  # nchw stands for keep_dims here: a BOOL
TYPES = {"f32{}": ("MAX", "MIN", "PROD", "SUM"), "u8{}*0.5+120": ("MAX", "MIN"), "i8{}*0.25-7": ("MAX", "MIN")}
ROWS = [
    f"REDUCE_{kind} {type_.format(shape)} {axes} {keep}"
    for shape, axes, keep in map(str.split, CASES.strip().splitlines())
    for type_, kinds in TYPES.items()
    for kind in kinds
]


@pytest.mark.parametrize("text", ROWS)
def test_like_the_reference(vulkan, text):
    row = parse(text)
    source = row.inputs[0]
    if "PROD" in text:
        source[:] = np.exp(source / np.float32(source.size**0.5))  # so that it neither vanishes nor overflows
    if "SUM" in text and source.size > 1000:
        source[:] = np.abs(source)  # nor loses everything to cancellation
    expected = reference(row)
    outputs = empty_like(expected)
    execute(vulkan, row, outputs)
    if source.dtype == np.float32:
        axes = tuple(row.model.operands[1].value.tolist())
        # Not the reference: over so many elements its order of summation is not the better one.
        exact = getattr(np, text.split()[0].removeprefix("REDUCE_").lower())(source.astype(np.float64), axis=axes)
        tolerance = 6e-7 if "PROD" not in text else 1.2e-7 * max(5, source.size**0.5)
        np.testing.assert_allclose(outputs[0], exact.reshape(outputs[0].shape), rtol=tolerance, atol=1e-5)
    else:
        np.testing.assert_array_equal(outputs[0], expected[0])
    assert run_guarded(vulkan, row.model, row.inputs, outputs) == []


def test_passes():
    assert list(passes((2, 3, 5), [])) == []
    assert list(passes((2, 1, 5), [1])) == []
    assert list(passes((2, 3, 5), [1, 2])) == [Pass(2, 15, 1)]
    assert list(passes((2, 3, 5), [0, 2])) == [Pass(6, 5, 1), Pass(1, 2, 3)]
    assert list(passes((PART * PART + 1,), [0])) == [Pass(1, PART * PART + 1, 1), Pass(1, PART + 1, 1), Pass(1, 2, 1)]
