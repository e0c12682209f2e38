"""QUANTIZED_SVDF against plain loops, and its rules."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.check.model_rows import Row, parse, reference
from nnvk.ops.check import validate_model
from nnvk.ops.quant import quantize_multiplier

ROW = (
    "QUANTIZED_SVDF i8[2,3]*0.5+3 #i8[4,3]*0.25 #i16[4,5]*0.125 #i32[2]*0 i16[2,20]*{state} {rank} "
    "-> i16*{after} i8*4-7"
)


def scaled(x: int, real: float) -> int:
    """A product with two roundings: of the high half, halves up, and of the shift, halves away from zero."""
    mantissa, shift = quantize_multiplier(real)
    high = ((x << max(shift, 0)) * mantissa + (1 << 30)) >> 31
    right = max(-shift, 0)
    half = (1 << right) >> 1
    return (high + half) >> right if high >= 0 else -((-high + half) >> right)


def test_like_loops() -> None:
    rng = np.random.default_rng(4)
    model = parse(ROW.format(state=0.0625, after=0.0625, rank=2)).model
    source, state = rng.integers(-128, 128, (2, 3)), rng.integers(-32768, 32768, (2, 20))
    row = Row(model, [source.astype(np.int8), state.astype(np.int16)])
    features, times, bias = (
        operand.constant for operand in model.operands if operand.constant is not None and operand.type.is_tensor
    )
    after, result = reference(row)
    for batch in range(2):
        sums = [int(number) for number in np.asarray(bias)]
        for filter_ in range(4):
            total = sum((int(source[batch, k]) - 3) * int(np.asarray(features)[filter_, k]) for k in range(3))
            newest = min(max(scaled(total, 0.5 * 0.25 / 0.0625), -32768), 32767)
            memory = [*state[batch, filter_ * 5 + 1 : filter_ * 5 + 5].tolist(), newest]
            assert after[batch, filter_ * 5 : filter_ * 5 + 5].tolist() == memory
            sums[filter_ // 2] += sum(v * int(w) for v, w in zip(memory, np.asarray(times)[filter_], strict=True))
        wrapped = [(one + 2**31) % 2**32 - 2**31 for one in sums]
        levels = [min(max(scaled(one, 0.0625 * 0.125 / 4) - 7, -128), 127) for one in wrapped]
        assert result[batch].tolist() == levels


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rank": 3}, "rank must be a divisor of the 4 rows of weights_feature, got 3"),
        ({"after": 0.5}, "state_out must have the scale of state_in, 0.0625, got 0.5"),
    ],
)
def test_rules(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(NnapiError, match=reason):
        validate_model(parse(ROW.format(**{"state": 0.0625, "after": 0.0625, "rank": 2, **changes})).model)
