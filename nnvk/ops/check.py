"""What a driver checks at its door: models and requests, whoever they come from."""

from __future__ import annotations

from nnvk.base.errors import bad_data
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.model import Lifetime, Model, Operand
from nnvk.types.request import Request

_GIVEN = (Lifetime.SUBGRAPH_INPUT, Lifetime.CONSTANT, Lifetime.NO_VALUE, Lifetime.SUBGRAPH)


def validate_model(model: Model) -> None:
    """Raise BAD_DATA unless a model keeps every rule of HAL 1.3's Model: indexes, lifetimes, data, order, signatures."""
    count = len(model.operands)
    for index in (*model.inputs, *model.outputs, *(i for op in model.operations for i in (*op.inputs, *op.outputs))):
        if not 0 <= index < count:
            raise bad_data(f"operand {index} does not exist, there are {count}")
    for index, operand in enumerate(model.operands):
        _check_operand(index, operand)
    _check_interface(model)
    _check_order(model)
    for operation, _ in registry.calls(model, [type_.dimensions for type_ in model.input_types()]):
        for index in operation.inputs:
            subgraph = model.operands[index].subgraph
            if subgraph is not None:
                validate_model(subgraph)


def _check_operand(index: int, operand: Operand) -> None:
    what, type_, value = f"operand {index}", operand.type, operand.value
    type_.check(what)
    if (value is not None) != (operand.lifetime is Lifetime.CONSTANT):
        raise bad_data(f"{what} of lifetime {operand.lifetime.value} {'has no' if value is None else 'has a'} value")
    if (operand.subgraph is not None) != (operand.lifetime is Lifetime.SUBGRAPH):
        raise bad_data(f"{what} of lifetime {operand.lifetime.value} must have a model exactly if that is subgraph")
    if operand.subgraph is not None and type_.code is not OperandCode.MODEL:
        raise bad_data(f"{what} refers to a model and is {type_}")
    if value is not None and (value.dtype != type_.dtype or value.shape != type_.dimensions):
        raise bad_data(f"{what} is {type_}, its value {value.dtype}{list(value.shape)}")


def _check_interface(model: Model) -> None:
    for what, indexes, lifetime in (
        ("input", model.inputs, Lifetime.SUBGRAPH_INPUT),
        ("output", model.outputs, Lifetime.SUBGRAPH_OUTPUT),
    ):
        if len(set(indexes)) != len(indexes):
            raise bad_data(f"an operand is named twice among the {what}s {list(indexes)}")
        declared = {index for index, operand in enumerate(model.operands) if operand.lifetime is lifetime}
        if declared != set(indexes):
            raise bad_data(f"{what}s are {sorted(indexes)}, operands of lifetime {lifetime.value} {sorted(declared)}")


def _check_order(model: Model) -> None:
    known = {index for index, operand in enumerate(model.operands) if operand.lifetime in _GIVEN}
    for number, operation in enumerate(model.operations):
        for index in operation.inputs:
            if index not in known:
                raise bad_data(f"operation {number} ({operation}): operand {index} is read before it is written")
        for index in operation.outputs:
            if index in known:
                raise bad_data(f"operation {number} ({operation}): operand {index} can't be written")
            known.add(index)
    for index in model.outputs:
        if index not in known:
            raise bad_data(f"operand {index}, an output of the model, is written by no operation")


def validate_request(model: Model, request: Request) -> None:
    """Raise BAD_DATA unless a request's arguments fit the model's inputs and outputs."""
    for what, arguments, types in (
        ("input", request.inputs, model.input_types()),
        ("output", request.outputs, model.output_types()),
    ):
        if len(arguments) != len(types):
            raise bad_data(f"the model has {len(types)} {what}s, the request {len(arguments)}")
    for position, (argument, type_) in enumerate(zip(request.inputs, model.input_types(), strict=True)):
        what = f"input {position}"
        array, shape = argument.array, argument.shape
        if argument.token and array is not None:
            raise bad_data(f"{what} is given by an array and a device buffer")
        if array is not None and (array.dtype != type_.dtype or not array.flags.c_contiguous):
            raise bad_data(f"{what} must be C-contiguous {type_.dtype}, got {array.dtype} with strides {array.strides}")
        if shape is not None and type_.is_tensor and type_.dimensions:
            if not registry.compatible(type_.dimensions, shape):
                raise bad_data(f"{what} has shape {list(shape)}, the model says {list(type_.dimensions)}")
    for position, target in enumerate(request.outputs):
        buffer = target.buffer
        if buffer is None:
            continue
        flags = buffer.flags
        if target.token or buffer.ndim != 1 or buffer.itemsize != 1 or not (flags.c_contiguous and flags.writeable):
            raise bad_data(f"output {position} must be flat, writable bytes, or a device buffer, not both")
