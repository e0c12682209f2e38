"""Every recipe draws cases that the reference device runs: of all operations, on all types."""

from __future__ import annotations

import pytest
from recipes import Draw, draw_case, recipes, run_case

from nnvk.ops import registry
from nnvk.types.codes import OperandCode, OperationCode

TYPES = [(code, leading) for code in OperationCode for leading in registry.lookup(code).types]


def test_every_operation_has_a_recipe() -> None:
    assert set(recipes()) == set(OperationCode)


@pytest.mark.parametrize("code, leading", TYPES, ids=lambda value: value.name)
def test_recipe(code: OperationCode, leading: OperandCode) -> None:
    for seed in range(5):
        case = draw_case(Draw(seed), code, leading)
        outputs = run_case(case)
        assert [output.dtype for output in outputs] == [type_.dtype for type_ in case.outputs]
