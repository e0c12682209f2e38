"""IF and WHILE, with small models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.ops.signature import BOOL8, F16, F32, I32, Q8
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType
from recipes.draw import Arg, Case, Draw, given, like
from recipes.table import recipe

_FLAG = OperandType(BOOL8, (1,))
_COUNTER = OperandType(I32, (1,))


class _Builder:
    """A model of a few operations; operands are numbered as they are added."""

    def __init__(self, inputs: Sequence[OperandType]) -> None:
        self.operands = [Operand(type_, Lifetime.SUBGRAPH_INPUT) for type_ in inputs]
        self.operations: list[Operation] = []
        self.inputs = tuple(range(len(inputs)))

    def constant(self, type_: OperandType, value: object) -> int:
        data = np.asarray(value, type_.dtype).reshape(type_.dimensions)
        self.operands.append(Operand(type_, Lifetime.CONSTANT, data))
        return len(self.operands) - 1

    def add(self, code: Op, inputs: Sequence[int], type_: OperandType) -> int:
        """Add an operation; its output, which is one of the model's."""
        self.operands.append(Operand(type_, Lifetime.SUBGRAPH_OUTPUT))
        self.operations.append(Operation(code, tuple(inputs), (len(self.operands) - 1,)))
        return len(self.operands) - 1

    def model(self, *outputs: int) -> Model:
        return Model(tuple(self.operands), tuple(self.operations), self.inputs, outputs)


def _argument(model: Model) -> Arg:
    return Arg(OperandType(OperandCode.MODEL), None, is_parameter=True, model=model)


@recipe(Op.IF)
def _if(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(d.pick((F32, F16, Q8, I32)))
    second = d.new(first.type)
    branches = []
    for operation in d.pick(((Op.MAXIMUM, Op.MINIMUM), (Op.ADD, Op.MAXIMUM), (Op.ADD, Op.SUB))):
        branch = _Builder([first.type, second.type])
        fused = () if operation in (Op.MAXIMUM, Op.MINIMUM) else (branch.constant(OperandType(OperandCode.INT32), 0),)
        result = branch.add(operation, (0, 1, *fused), first.type)
        branches.append(_argument(branch.model(result)))
    condition = given(_FLAG, [d.chance()])
    return Case(code, (condition, *branches, first, second), (like(first),))


@recipe(Op.WHILE)
def _while(d: Draw, code: Op, t: OperandCode) -> Case:
    """Add a tensor to another a few times."""
    carried = d.any(d.pick((F32, F16, Q8)))
    added = d.new(carried.type)
    types = [_COUNTER, carried.type, added.type]
    condition = _Builder(types)
    verdict = condition.add(Op.LESS, (0, condition.constant(_COUNTER, [d.integer(0, 4)])), _FLAG)
    body = _Builder(types)
    none = body.constant(OperandType(OperandCode.INT32), 0)
    counter = body.add(Op.ADD, (0, body.constant(_COUNTER, [1]), none), _COUNTER)
    total = body.add(Op.ADD, (1, 2, none), carried.type)
    models = _argument(condition.model(verdict)), _argument(body.model(counter, total))
    return Case(code, (*models, given(_COUNTER, [0]), carried, added), (_COUNTER, carried.type))
