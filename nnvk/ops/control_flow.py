"""IF and WHILE: the rules for their models. They have no reference, because devices run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnvk.base.errors import NnapiError, bad_data
from nnvk.ops.call import Call, Tensor, UnknownValue
from nnvk.ops.registry import compatible, define
from nnvk.ops.signature import BOOL8, Param, Signature, one_of, same, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model, Operation
from nnvk.types.operand import OperandType, Shape

CONDITION = OperandType(BOOL8, (1,))
"""The type of IF's condition and of the output of WHILE's condition model."""


MOST_LEVELS = 64
"""The most models nested in each other, because devices run them recursively."""
MOST_OPERATIONS = 1 << 16
"""Operations that control flow may take in one pass, with one round for each WHILE: models that all refer to others
several times would take any number of them."""


def check_nesting(model: Model) -> None:
    """Raise BAD_DATA where a model's control flow is nested too deep, or takes too many operations in one pass."""
    levels: dict[Model, int] = {}
    passes: dict[Model, int] = {}
    for each in (*model.referenced(), model):
        inner = [operand.subgraph for operand in each.operands if operand.subgraph is not None]
        levels[each] = 1 + max((levels[referenced] for referenced in inner), default=0)
        if levels[each] > MOST_LEVELS:
            raise bad_data(f"models are nested more than {MOST_LEVELS} deep")
        inside = sum(_inside(each, operation, passes) for operation in each.operations)
        if inside > MOST_OPERATIONS:
            raise bad_data(f"control flow takes {inside} operations in one pass, at most {MOST_OPERATIONS} are allowed")
        passes[each] = inside + len(each.operations)


def _inside(model: Model, operation: Operation, passes: Mapping[Model, int]) -> int:
    """Operations of the models that an operation refers to: of IF's larger branch, of WHILE's both."""
    referenced = [model.operands[index].subgraph for index in operation.inputs]
    inner = [passes[each] for each in referenced if each is not None]
    return max(inner, default=0) if operation.code is OperationCode.IF else sum(inner)


def _agree(one: OperandType, other: OperandType) -> bool:
    """Whether two types are the same where both are specified."""
    alike = (one.code, one.scale, one.zero_point, one.channel_quant) == (
        other.code,
        other.scale,
        other.zero_point,
        other.channel_quant,
    )
    unranked = not one.dimensions or not other.dimensions
    sizes = zip(one.dimensions, other.dimensions, strict=False)
    # Where either leaves a size open, the other's is as good as its own.
    filled = tuple(a or b for a, b in sizes)
    return alike and (unranked or (compatible(one.dimensions, filled) and compatible(other.dimensions, filled)))


def _mismatch(what: str, expected: OperandType, got: OperandType) -> NnapiError:
    return bad_data(f"{what} must be {expected}, got {got}")


def _check_model(
    name: str, model: Model, inputs: Sequence[Tensor | int | float | None], outputs: Sequence[Tensor]
) -> None:
    """Raise BAD_DATA unless a model takes ``inputs`` and gives ``outputs`` first."""
    types = model.input_types()
    if len(types) != len(inputs):
        raise bad_data(f"{name} must have {len(inputs)} inputs, got {len(types)}")
    for position, (type_, source) in enumerate(zip(types, inputs, strict=True)):
        if source is None:
            raise bad_data(f"inputs[{position}] can't be omitted")
        if isinstance(source, Tensor):
            if not _agree(type_, source.type):
                raise _mismatch(f"input {position} of {name}", source.type, type_)
        elif type_.is_tensor:  # the codes of scalars are compared with the data, at execution
            raise bad_data(f"input {position} of {name} must be a scalar, got {type_}")
    for position, (type_, result) in enumerate(zip(model.output_types(), outputs, strict=False)):
        if not _agree(type_, result.type):
            raise _mismatch(f"output {position} of {name}", result.type, type_)


def _check_if(call: Call) -> None:
    if call.condition.type.dimensions != CONDITION.dimensions:
        raise _mismatch("condition", CONDITION, call.condition.type)
    for name in ("then_model", "else_model"):
        model = getattr(call, name)
        if len(model.outputs) != len(call.outputs):
            raise bad_data(f"{name} must have {len(call.outputs)} outputs, got {len(model.outputs)}")
        _check_model(name, model, call.inputs, call.outputs)


def _check_while(call: Call) -> None:
    verdicts = call.condition_model.output_types()
    if len(verdicts) != 1:
        raise bad_data(f"condition_model must have 1 output, got {len(verdicts)}")
    if (verdicts[0].code, verdicts[0].dimensions) != (CONDITION.code, CONDITION.dimensions):
        raise _mismatch("output 0 of condition_model", CONDITION, verdicts[0])
    carried = len(call.body_model.outputs)
    if not len(call.outputs) <= carried <= len(call.inputs):
        raise bad_data(f"body_model must have {len(call.outputs)} to {len(call.inputs)} outputs, got {carried}")
    _check_model("condition_model", call.condition_model, call.inputs, ())
    _check_model("body_model", call.body_model, call.inputs, call.outputs)
    for position, (source, given) in enumerate(
        zip(call.body_model.input_types(), call.body_model.output_types(), strict=False)
    ):
        if not _agree(source, given):
            raise _mismatch(f"output {position} of body_model, the next input {position},", source, given)


def _known_shapes(types: Sequence[OperandType]) -> list[Shape]:
    if not all(type_.is_fully_specified for type_ in types):
        raise UnknownValue("the shapes of the outputs are not known before the models have run")
    return [type_.dimensions for type_ in types]


def _if_shapes(call: Call) -> list[Shape]:
    declared = [result.type for result in call.outputs]
    taken, other = call.then_model.output_types(), call.else_model.output_types()
    for position, (type_, one, two) in enumerate(zip(declared, taken, other, strict=True)):
        if not type_.is_fully_specified and one.dimensions == two.dimensions:
            declared[position] = one
    return _known_shapes(declared)


def _while_shapes(call: Call) -> list[Shape]:
    return _known_shapes([result.type for result in call.outputs])


_ANY = one_of(*(code for code in OperandCode if code is not OperandCode.MODEL))
_INPUTS = Param("inputs", _ANY, default=None, variadic=True)
_OUTPUTS = (Param("outputs", _ANY, variadic=True),)


def _model(name: str) -> Param:
    return Param(name, one_of(OperandCode.MODEL))


define(
    OperationCode.IF,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={BOOL8: 4},
    signatures=Signature(tensor("condition"), _model("then_model"), _model("else_model"), _INPUTS),
    outputs=_OUTPUTS,
    infer=_if_shapes,
    reference=None,
    validate=_check_if,
)
define(
    OperationCode.WHILE,
    traits=Traits(foldable=False, fp16=Fp16.NEVER),
    types={OperandCode.MODEL: 4},
    signatures=Signature(Param("condition_model", same), _model("body_model"), _INPUTS),
    outputs=_OUTPUTS,
    infer=_while_shapes,
    reference=None,
    validate=_check_while,
)
