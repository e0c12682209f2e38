"""Every generator draws cases that the reference device runs: of all operations, on all types."""

from __future__ import annotations

import pytest
from generators import Draw, draw_case, run_case

from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode

TYPES = [(code, leading) for code, definition in registry.definitions().items() for leading in definition.types]


@pytest.mark.parametrize("code, leading", TYPES, ids=lambda value: value.name)
def test_generator(code: KnownCode, leading: OperandCode) -> None:
    for seed in range(5):
        case = draw_case(Draw(seed), code, leading)
        outputs = run_case(case)
        assert [output.dtype for output in outputs] == [type_.dtype for type_ in case.outputs]
