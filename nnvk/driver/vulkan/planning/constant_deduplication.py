"""Constant deduplication: equal constants become one, because frontends write the weights of an unrolled layer again
for each of its steps.

They are then packed and uploaded once, and what is computed twice, or for several steps at once, is known as such.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from nnvk.types.constant import beginning, bytes_of
from nnvk.types.model import Lifetime, Model


def with_deduplicated_constants(model: Model) -> Model:
    """The model where operations take the first of all tensors that have the same type and bytes."""
    known: dict[Hashable, list[int]] = {}
    instead: dict[int, int] = {}
    for index, operand in enumerate(model.operands):
        constant = operand.constant
        if operand.lifetime is not Lifetime.CONSTANT or constant is None or not operand.type.is_tensor:
            continue
        others = known.setdefault((operand.type, constant.shape, beginning(constant)), [])
        same = next((other for other in others if _are_equal(model, index, other)), None)
        if same is None:
            others.append(index)
        else:
            instead[index] = same
    if not instead:
        return model
    operations = tuple(
        replace(operation, inputs=tuple(instead.get(index, index) for index in operation.inputs))
        if not instead.keys().isdisjoint(operation.inputs)
        else operation
        for operation in model.operations
    )
    return replace(model, operations=operations)


def _are_equal(model: Model, one: int, other: int) -> bool:
    constants = [model.operands[index].constant for index in (one, other)]
    first, second = (bytes_of(constant) for constant in constants if constant is not None)
    return np.array_equal(first, second)
