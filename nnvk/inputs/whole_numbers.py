"""Whole numbers that inputs can be: indices below the size of their table, and flags."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnvk.api import ExtendedOperationCode, OperandCode, OperationCode
from nnvk.types.extension import AnyCode
from nnvk.types.model import Model, Operation

_MOVING: frozenset[AnyCode] = frozenset(
    {
        OperationCode.CONCATENATION,
        OperationCode.EXPAND_DIMS,
        OperationCode.MAXIMUM,
        OperationCode.MINIMUM,
        OperationCode.PACK,
        OperationCode.RESHAPE,
        OperationCode.SLICE,
        OperationCode.SPLIT,
        OperationCode.SQUEEZE,
        OperationCode.STRIDED_SLICE,
        OperationCode.TILE,
        OperationCode.TRANSPOSE,
    }
)
"""Operations whose outputs have elements of their first tensors: a number that is in range stays in range."""
_OF_SEVERAL: frozenset[AnyCode] = frozenset(
    {OperationCode.CONCATENATION, OperationCode.MAXIMUM, OperationCode.MINIMUM, OperationCode.PACK}
)
"""Those with elements of several tensors."""
_WRAPPING: frozenset[AnyCode] = frozenset({OperationCode.CAST, OperationCode.MUL, OperationCode.SELECT})
"""Operations that make the size of a table, or 0, of the sign of an index."""
_JUDGING: frozenset[AnyCode] = frozenset(
    {
        OperationCode.CAST,
        OperationCode.EQUAL,
        OperationCode.GREATER,
        OperationCode.GREATER_EQUAL,
        OperationCode.LESS,
        OperationCode.LESS_EQUAL,
        OperationCode.NOT_EQUAL,
    }
)
"""Operations that take any number, as those behind a mask do."""
FLAGS = 2
"""The limit of numbers that are as good as flags."""


def limits_of_inputs(model: Model) -> list[int]:
    """For each input of whole numbers without a scale, the number below which elements have to be; else 1.

    An index is below the size of the table that it is for. A number that is only compared and converted, as a mask is,
    is 0 or 1. Any other number is 0, because it may be an axis, a count or an index of an unknown table.
    """
    graph = _Graph(model)
    return [graph.limit(index) if _is_number(model, index) else 1 for index in model.inputs]


def _is_number(model: Model, index: int) -> bool:
    type_ = model.operands[index].type
    return type_.code is OperandCode.TENSOR_INT32 and not type_.scale


class _Graph:
    """A model's operands with the operations that read and write them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._readers: dict[int, list[tuple[Operation, int]]] = {}
        self._writers: dict[int, Operation] = {}
        for operation in model.operations:
            for position, operand in enumerate(operation.inputs):
                self._readers.setdefault(operand, []).append((operation, position))
            self._writers.update(dict.fromkeys(operation.outputs, operation))

    def limit(self, index: int) -> int:
        """The number below which the elements of an input have to be."""
        uses = list(self._uses(index))
        limits = [limit for limit in uses if limit is not None]
        # An index of a table is also compared, to see whether it counts from the end.
        return min(limits, default=FLAGS if uses else 1)

    def _uses(self, index: int) -> Iterator[int | None]:
        """For each operation that uses a number, the limit that this sets; None where any number will do."""
        pending, seen = [index], {index}
        while pending:
            operand = pending.pop()
            for operation, position in self._readers.get(operand, []):
                table = _table(self._model, operation, position)
                if table is not None:
                    yield max(table, 1)
                elif self._hands_on(operation, operand):
                    new = [output for output in operation.outputs if output not in seen]
                    pending += new
                    seen.update(new)
                else:
                    yield None if operation.code in _JUDGING else 1

    def _hands_on(self, operation: Operation, operand: int) -> bool:
        """Whether an operation's outputs have an operand's elements, or indices that no longer count from the end."""
        inputs = operation.inputs
        if operation.code is OperationCode.SELECT:
            return operand in inputs[1:3]
        if operation.code is OperationCode.ADD:
            return any(self._is_judgement(other, operand) for other in inputs[:2] if other != operand)
        return operation.code in _MOVING and (operation.code in _OF_SEVERAL or operand == inputs[0])

    def _is_judgement(self, operand: int, of: int) -> bool:
        """Whether an operand is computed of constants and of the sign of another one."""
        writer = self._writers.get(operand)
        if writer is None:
            return self._model.operands[operand].constant is not None
        if writer.code is OperationCode.LESS:
            return writer.inputs[0] == of
        return writer.code in _WRAPPING and all(self._is_judgement(each, of) for each in writer.inputs)


def _table(model: Model, operation: Operation, position: int) -> int | None:
    """The size of the table whose indices an operand is; None where it is none of indices.

    A comparison with all numbers from 0 on, which makes a one-hot code, is such a table.
    """
    types = [model.operands[operand].type for operand in operation.inputs]
    if operation.code is OperationCode.GATHER and position == 2:
        axis = model.operands[operation.inputs[1]].value
        return 1 if axis is None or not types[0].dimensions else types[0].dimensions[int(np.ravel(axis)[0])]
    if operation.code is OperationCode.EMBEDDING_LOOKUP and position == 0:
        return types[1].dimensions[0] if types[1].dimensions else 1
    if operation.code is ExtendedOperationCode.GATHER_ND and position == 1:
        depth = types[1].dimensions[-1] if types[1].dimensions else 0
        return min(types[0].dimensions[:depth], default=1)
    if operation.code is OperationCode.EQUAL:
        classes = model.operands[operation.inputs[1 - position]].value
        if classes is not None and classes.size > FLAGS and np.array_equal(np.ravel(classes), np.arange(classes.size)):
            return classes.size
    return None
