"""The roundings to FLOAT16 in a row, and what they allow."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.check.comparison import difference
from nnvk.check.model_rows import parse, reference, roundings


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SOFTMAX f16[3,5] 1.0h", 1),
        ("MUL f16[2,3]~9 f16[1]=0.25 NONE | SOFTMAX $ 1.0h", 1),
        ("BATCH_MATMUL f16[3,7]~3 f16[5,7]~3 false true | SOFTMAX $ 1.0h | BATCH_MATMUL $ f16[5,4]<3 false false", 2),
        ("CONV_2D f16[1,7,5,8]~30 #f16[12,3,3,8]~3 #f16[12]~9 SAME 1 1 NONE nhwc -> f16", 1),
    ],
)
def test_operations_count_from_the_first_inexact_one(text: str, count: int) -> None:
    assert roundings(parse(text)) == count


def test_weights_that_are_rounded_the_other_way_pass() -> None:
    """A device may round each weight of attention to the other one of two neighbours."""
    row = parse("SOFTMAX f16[64,128]~9/4 1.0h | BATCH_MATMUL $ f16[128,32]<3 false false")
    (weights,) = reference(parse("SOFTMAX f16[64,128]~9/4 1.0h"))
    values = row.inputs[-1].astype(np.float32)
    want = (weights.astype(np.float32) @ values).astype(np.float16)
    other = np.nextafter(weights, np.float16(1)).astype(np.float32)
    got = (other @ values).astype(np.float16)
    assert roundings(row) == 2
    assert difference(want, got)
    assert difference(want, got, roundings(row)) == ""
    assert difference(want, want * np.float16(1.004), roundings(row)), "four units"
