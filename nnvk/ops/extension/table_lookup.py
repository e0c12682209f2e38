"""TABLE_LOOKUP: any function of quantised elements, by a table that has the result of each level."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_same_quantisation, check_shape
from nnvk.ops.signature import Q8, Q8S, Q16_SYMM, Signature, by_type, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

_AS_WIDE = by_type(dict.fromkeys((Q8, Q8S), frozenset((Q8, Q8S))))
"""Types with as many bits as the leading one."""


def _infer(call: Call) -> list[Shape]:
    check_shape(call.table, (1 << 8 * call.input.dtype.itemsize,))
    return [call.input.shape]


def _check(call: Call) -> None:
    if call.output.code is not call.table.code:
        raise bad_data(f"output must have the type of table, {call.table.type}, got {call.output.type}")
    check_same_quantisation(call.table, call.output)


def _table_lookup(call: Call) -> np.ndarray:
    """A level's entry is at its bits, read as a number that is not negative."""
    source = call.input.data
    found: np.ndarray = call.table.data[source.view(f"u{source.dtype.itemsize}")]
    return found


define(
    ExtendedOperationCode.TABLE_LOOKUP,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={Q8: 3, Q8S: 4, Q16_SYMM: 3},
    signatures=Signature(tensor("input"), tensor("table", _AS_WIDE, rank=1)),
    outputs=(tensor("output", _AS_WIDE),),
    infer=_infer,
    reference=_table_lookup,
    validate=_check,
)
