"""IF and WHILE, with small models."""

from __future__ import annotations

from builder import Builder

import nnvk
from generators.draw import Arg, Case, Draw, given, like
from generators.table import generator
from nnvk.ops.signature import BOOL8, F16, F32, I32, Q8
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType

_FLAG = OperandType(BOOL8, (1,))
_COUNTER = OperandType(I32, (1,))


def _argument(model: nnvk.Model) -> Arg:
    return Arg(OperandType(OperandCode.MODEL), None, is_parameter=True, model=model.frozen)


@generator(Op.IF)
def _if(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(d.pick((F32, F16, Q8, I32)))
    second = d.new(first.type)
    branches = []
    for operation in d.pick(((Op.MAXIMUM, Op.MINIMUM), (Op.ADD, Op.MAXIMUM), (Op.ADD, Op.SUB))):
        branch = Builder()
        inputs = [branch.operand(first.type), branch.operand(second.type)]
        branches.append(_argument(branch.finish(inputs, [branch.operation(operation, inputs, first.type)])))
    condition = given(_FLAG, [d.chance()])
    return Case(code, (condition, *branches, first, second), (like(first),))


@generator(Op.WHILE)
def _while(d: Draw, code: Op, t: OperandCode) -> Case:
    """Add a tensor to another a few times."""
    carried = d.any(d.pick((F32, F16, Q8)))
    added = d.new(carried.type)
    types = [_COUNTER, carried.type, added.type]
    condition, body = Builder(), Builder()
    state = [condition.operand(type_) for type_ in types]
    verdict = condition.operation(Op.LESS, [state[0], condition.constant(_COUNTER, [d.integer(0, 4)])], _FLAG)
    once = condition.finish(state, [verdict])
    state = [body.operand(type_) for type_ in types]
    counter = body.operation(Op.ADD, [state[0], body.constant(_COUNTER, [1])], _COUNTER)
    total = body.operation(Op.ADD, state[1:], carried.type)
    models = _argument(once), _argument(body.finish(state, [counter, total]))
    return Case(code, (*models, given(_COUNTER, [0]), carried, added), (_COUNTER, carried.type))
