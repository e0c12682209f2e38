"""The REDUCE family on axes that are folded in one pass and in several."""

import numpy as np
import pytest
from against_reference import agree
from guarded import run_guarded

from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan.kernels.reduce import ReductionPass, passes

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
# Axes that several invocations of a GPU share, in one pass and in several.
SHARED = """
[1,4096] (1) nhwc
[5,4099] (1) nhwc
[9,131] (1) nchw
[1,10007] (1) nhwc
[3001] (0) nhwc
[2,1009,8] (1) nhwc
[2,1009,3] (1) nchw
[5,9001,3] (1) nhwc
[1,31,33,5] (0,1,2,3) nhwc
[401,64] (1) nhwc
"""
TYPES = {"f32{}": ("MAX", "MIN", "PROD", "SUM"), "u8{}*0.5+120": ("MAX", "MIN"), "i8{}*0.25-7": ("MAX", "MIN")}


def rows(cases: str, types: dict[str, tuple[str, ...]]) -> list[str]:
    return [
        f"REDUCE_{kind} {type_.format(shape)} {axes} {keep}"
        for shape, axes, keep in map(str.split, filter(None, cases.splitlines()))
        for type_, kinds in types.items()
        for kind in kinds
    ]


@pytest.mark.parametrize("text", rows(CASES, TYPES))
def test_like_the_reference(vulkan, text):
    check(vulkan, text)


@pytest.mark.parametrize("text", rows(CASES + SHARED, {**TYPES, "f16{}": ("MAX", "MIN", "SUM")}))
@pytest.mark.crossed
def test_elements_that_invocations_share(as_gpu, text):
    check(as_gpu, text)


@pytest.mark.parametrize("text", rows("[7,131] (1) nhwc\n[131,4] (0) nhwc\n[131,3] (0) nhwc", {"b8{}": ("ALL", "ANY")}))
def test_truth_values(vulkan, as_gpu, text):
    row = parse(text)
    (source,) = row.inputs
    for fill in (0, 1):
        source[:] = fill
        for place in (0, 1, source.size // 2, source.size - 1):
            source.reshape(-1)[place] = 1 - fill
            expected = reference(row)
            outputs = empty_like(expected)
            for device in (vulkan, as_gpu):
                execute(device, row, outputs)
                np.testing.assert_array_equal(outputs[0], expected[0])


@pytest.mark.parametrize(
    "text", rows("[5,131] (1) nhwc\n[131,4] (0) nhwc\n[131,3] (0) nhwc", {"f32{}": ("MAX", "MIN", "SUM")})
)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.crossed
def test_special_values(vulkan, as_gpu, text, special):
    """One of them decides, wherever it is, and also if all elements are alike."""
    row = parse(text)
    (source,) = row.inputs
    flat = source.reshape(-1)
    for places in (slice(0, 1), slice(flat.size // 2, flat.size // 2 + 1), slice(flat.size - 1, None), slice(None)):
        flat[places] = special
        expected = reference(row)
        outputs = empty_like(expected)
        for device in (vulkan, as_gpu):
            execute(device, row, outputs)
            np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-5, equal_nan=True)


def check(device, text: str) -> None:
    row = parse(text)
    source = row.inputs[0]
    if "PROD" in text:
        source[:] = np.exp(source / np.float32(source.size**0.5))  # so that it neither vanishes nor overflows
    if "SUM" in text and source.size > 1000:
        source[:] = np.abs(source)  # nor loses everything to cancellation
    expected = reference(row)
    outputs = empty_like(expected)
    execute(device, row, outputs)
    if source.dtype == np.float32:
        axes = tuple(row.model.operands[1].value.tolist())
        # Not the reference: over so many elements its order of summation is not the better one.
        exact = getattr(np, text.split()[0].removeprefix("REDUCE_").lower())(source.astype(np.float64), axis=axes)
        tolerance = 6e-7 if "PROD" not in text else 1.2e-7 * max(5, source.size**0.5)
        np.testing.assert_allclose(outputs[0], exact.reshape(outputs[0].shape), rtol=tolerance, atol=1e-5)
    else:
        agree(expected[0], outputs[0])
    assert run_guarded(device, row.model, row.inputs, outputs) == []


def test_passes():
    assert list(passes((2, 3, 5), [], 64)) == []
    assert list(passes((2, 1, 5), [1], 64)) == []
    assert list(passes((2, 3, 5), [1, 2], 64)) == [ReductionPass(2, 15, 1, 64)]
    assert list(passes((2, 3, 5), [0, 2], 64)) == [ReductionPass(6, 5, 1, 64), ReductionPass(1, 2, 3, 64)]
    assert list(passes((101,), [0], 10)) == [
        ReductionPass(1, 101, 1, 10),
        ReductionPass(1, 11, 1, 10),
        ReductionPass(1, 2, 1, 10),
    ]
