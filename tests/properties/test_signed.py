"""Signed and unsigned quantisation give the same result up to 128, for every operation that has both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from drawn import HypothesisDraw
from generators import Arg, Case, draw_case, run_case
from hypothesis import given
from hypothesis import strategies as st

from nnvk.ops import registry
from nnvk.ops.signature import Q8, Q8S
from nnvk.types.codes import OperationCode
from nnvk.types.model import Model, Operand
from nnvk.types.operand import OperandType

T = TypeVar("T")

_DIFFERENT = {
    OperationCode.AVERAGE_POOL_2D: "halves go away from level 0, not from what it stands for",
    OperationCode.CAST: "numbers are cast, not what they stand for",
    OperationCode.HASHTABLE_LOOKUP: "rows that are missed are 0",
    OperationCode.L2_NORMALIZATION: "unsigned levels are rounded twice",
    OperationCode.LSH_PROJECTION: "bytes are hashed, not what they stand for",
    OperationCode.MEAN: "the fraction of numbers is dropped, not of what they stand for",
    OperationCode.PAD_V2: "the value to pad with is a number",
    OperationCode.QUANTIZED_16BIT_LSTM: "it has one quantisation",
}


class UnsignedDraw(HypothesisDraw):
    """Takes the unsigned type wherever both are allowed."""

    def pick(self, items: Sequence[T]) -> T:
        return Q8 if {Q8, Q8S} <= set(items) else super().pick(items)  # type: ignore[return-value]


def _has_both(code: OperationCode) -> bool:
    """Whether some operand may be of either type."""
    definition = registry.lookup(code)
    params = [*definition.outputs, *(param for signature in definition.signatures for param in signature.params)]
    accepted = [param.accepts(leading) for leading in definition.types for param in params]
    return set(definition.types) >= {Q8, Q8S} or any(codes >= {Q8, Q8S} for codes in accepted)


CODES = [code for code in OperationCode if _has_both(code) and code not in _DIFFERENT]


def signed_type(type_: OperandType) -> OperandType:
    """The signed type of the same real numbers."""
    if type_.code is not Q8:
        return type_
    return replace(type_, code=Q8S, zero_point=type_.zero_point - 128)


def signed_data(type_: OperandType, data: np.ndarray | None) -> np.ndarray | None:
    """Steps in the signed type."""
    return data if data is None or type_.code is not Q8 else (data ^ np.uint8(128)).view(np.int8)


def signed_model(model: Model | None) -> Model | None:
    """A model with all operands signed."""
    if model is None:
        return None
    operands = tuple(
        Operand(signed_type(each.type), each.lifetime, signed_data(each.type, each.value), signed_model(each.subgraph))
        for each in model.operands
    )
    return replace(model, operands=operands)


def signed(case: Case) -> Case:
    """The same operation on signed operands."""
    inputs = tuple(
        Arg(signed_type(arg.type), signed_data(arg.type, arg.data), arg.is_parameter, signed_model(arg.model))
        for arg in case.inputs
    )
    return Case(case.code, inputs, tuple(map(signed_type, case.outputs)))


def test_the_exceptions_have_quantised_types() -> None:
    for code in _DIFFERENT:
        types = registry.lookup(code).types
        inputs = registry.lookup(code).signatures[0].params
        assert Q8 in types or any(Q8 in param.accepts(leading) for param in inputs for leading in types)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@given(data=st.data())
def test_signed_is_unsigned_less_128(code: OperationCode, data: st.DataObject) -> None:
    leading = Q8 if Q8 in registry.lookup(code).types else None
    case = draw_case(UnsignedDraw(data), code, leading)
    for type_, unsigned, result in zip(case.outputs, run_case(case), run_case(signed(case)), strict=True):
        np.testing.assert_array_equal(signed_data(type_, unsigned), result)
