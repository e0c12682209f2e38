"""TABLE_LOOKUP on the reference device."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder
from samples import compiled

import nnvk
from nnvk import ExtendedOperationCode, Model, NnapiError, OperandCode, OperandType

Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
Q16 = OperandCode.TENSOR_QUANT16_SYMM


def model(source: OperandType, table: OperandType, result: OperandType) -> Model:
    build = Builder()
    inputs = [build.operand(source), build.operand(table)]
    return build.finish(inputs, [build.operation(ExtendedOperationCode.TABLE_LOOKUP, inputs, result)])


@pytest.mark.parametrize(("source", "result"), [(Q8, Q8), (Q8S, Q8S), (Q8, Q8S), (Q8S, Q8), (Q16, Q16)])
def test_entries_are_at_the_bits_of_steps(source: OperandCode, result: OperandCode) -> None:
    type_, out = OperandType(source, (2, 3), 0.5, 0), OperandType(result, (2, 3), 0.1, 0)
    limits = np.iinfo(type_.dtype)
    steps = np.array([[limits.min, limits.min + 1, -1 if limits.min else 255], [0, 1, limits.max]]).astype(type_.dtype)
    entries = 1 << limits.bits
    table = (np.arange(entries) * 7 + 3).astype(out.dtype)
    wanted = [[table[step % entries] for step in row] for row in steps.tolist()]
    made = model(type_, out.with_dimensions((entries,)), out)
    got = nnvk.run(compiled(made, nnvk.get_device("nnapi-reference")), [steps, table])[0]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("table", "result", "message"),
    [
        (OperandType(Q8, (255,), 0.1, 0), OperandType(Q8, (3,), 0.1, 0), r"table must have shape \[256\], got \[255\]"),
        (
            OperandType(Q8, (256,), 0.1, 0),
            OperandType(Q8, (3,), 0.2, 0),
            "output must have the scale and zero point of",
        ),
        (OperandType(Q8, (256,), 0.1, 0), OperandType(Q8S, (3,), 0.1, 0), "output must have the type of table"),
        (OperandType(Q16, (256,), 0.1), OperandType(Q16, (3,), 0.1), r"table \(input 1\) must be TENSOR_QUANT8_ASYMM"),
    ],
    ids=["entries", "quantisation", "type", "width"],
)
def test_tables_that_do_not_fit_are_refused(table: OperandType, result: OperandType, message: str) -> None:
    with pytest.raises(NnapiError, match=f"TABLE_LOOKUP: {message}"):
        model(OperandType(Q8, (3,), 0.5, 0), table, result)
