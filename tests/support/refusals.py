"""Valid cases to be spoilt, and the reasons with which what is spoilt is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from generators import Case, Draw, draw_case
from generators.build import names

import nnvk
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops import registry
from nnvk.ops.signature import F32
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op

CPU = nnvk.get_device("nnapi-reference")


def base(
    code: Op, *required: str, leading: OperandCode | None = None, fits: Callable[[Case], bool] | None = None
) -> Case:
    """A valid case in which these operands are given."""
    types = registry.lookup(code).types
    leading = leading or (F32 if F32 in types else next(iter(types)))
    for seed in range(300):
        case = draw_case(Draw(seed), code, leading)
        given = {name for name, arg in zip(names(case), case.inputs, strict=True) if arg.data is not None}
        if given.issuperset(required) and (fits is None or fits(case)):
            return case
    raise AssertionError(f"no case of {code.name} has {required}")


def refused(call: Callable[[], object], code: ResultCode = ResultCode.BAD_DATA) -> str:
    """The reason with which a call fails."""
    with pytest.raises(NnapiError) as caught:
        call()
    assert caught.value.code is code, caught.value
    return caught.value.reason
