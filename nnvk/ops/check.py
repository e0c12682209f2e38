"""Checks of the models and requests that a driver gets."""

from __future__ import annotations

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops import registry
from nnvk.ops.control_flow import check_nesting
from nnvk.types.codes import OperandCode
from nnvk.types.constant import Constant
from nnvk.types.extension import AnyCode
from nnvk.types.model import Lifetime, Model, Operand
from nnvk.types.operand import OperandType
from nnvk.types.request import InputArgument, OutputArgument, Request
from nnvk.types.template import sizes_of

_GIVEN = (Lifetime.SUBGRAPH_INPUT, Lifetime.CONSTANT, Lifetime.NO_VALUE, Lifetime.SUBGRAPH)


def validate_model(model: Model) -> None:
    """Raise BAD_DATA unless a model keeps every rule of HAL 1.3: indexes, lifetimes, data, order, signatures."""
    validate_structure(model)
    for each in (*model.referenced(), model):
        check_calls(each)


def validate_structure(model: Model) -> None:
    """Raise BAD_DATA unless a model keeps the rules of HAL 1.3, except for its operations' (see `check_calls`)."""
    sizes = sizes_of(model)
    if sizes is not None and sizes.template.is_checked:
        return
    for each in (*model.referenced(), model):
        _check_structure(each)
    check_nesting(model)
    if sizes is not None:
        sizes.template.is_checked = True


def check_calls(model: Model) -> None:
    """Raise BAD_DATA unless every operation keeps its signature and its rules, as far as values are known."""
    for _ in registry.calls(model, [type_.dimensions for type_ in model.input_types()]):
        pass  # each call was bound and inferred, which is the check


def _check_structure(model: Model) -> None:
    for number, operation in enumerate(model.operations):
        if not isinstance(operation.code, AnyCode):
            raise bad_data(f"operation {number} has the code {operation.code!r}, which is none of feature level 8")
    count = len(model.operands)
    for index in (*model.inputs, *model.outputs, *(i for op in model.operations for i in (*op.inputs, *op.outputs))):
        if not isinstance(index, int) or not 0 <= index < count:
            raise bad_data(f"operand {index} does not exist, there are {count}")
    for index, operand in enumerate(model.operands):
        _check_operand(index, operand)
    _check_interface(model)
    _check_order(model)


def _check_operand(index: int, operand: Operand) -> None:
    what, type_, value = f"operand {index}", operand.type, operand.constant
    type_.check(what)
    type_.check_channels(what)
    if (value is not None) != (operand.lifetime is Lifetime.CONSTANT):
        raise bad_data(f"{what} of lifetime {operand.lifetime.value} {'has no' if value is None else 'has a'} value")
    if (operand.subgraph is not None) != (operand.lifetime is Lifetime.SUBGRAPH):
        raise bad_data(f"{what} of lifetime {operand.lifetime.value} must have a model exactly if that is subgraph")
    if (type_.code is OperandCode.MODEL) != (operand.lifetime is Lifetime.SUBGRAPH):
        raise bad_data(f"{what} of lifetime {operand.lifetime.value} is {type_}: MODEL stands for a model")
    if value is None:
        return
    if not isinstance(value, Constant):
        raise bad_data(f"{what} is {type_}, its value a {type(value).__name__}")
    if value.dtype != type_.dtype or value.shape != type_.dimensions:
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
    for position, (source, type_) in enumerate(zip(request.inputs, model.input_types(), strict=True)):
        _check_input(f"input {position}", source, type_)
    for position, target in enumerate(request.outputs):
        _check_output(f"output {position}", target)


def _check_input(what: str, source: InputArgument, type_: OperandType) -> None:
    array = source.array
    if array is not None:
        if source.token:
            raise bad_data(f"{what} is given by an array and a device buffer")
        if not isinstance(array, np.ndarray) or array.dtype != type_.dtype or not array.flags.c_contiguous:
            raise bad_data(f"{what} must be a C-contiguous array of {type_.dtype}, got {array!r:.80}")
    shape = source.shape
    if shape is None:
        return
    if source.token and not all(isinstance(size, int) and size > 0 for size in shape):
        raise bad_data(f"{what} is a device buffer of dimensions {shape}: they must be positive")
    if (type_.dimensions or not type_.is_tensor) and not registry.compatible(type_.dimensions, shape):
        raise bad_data(f"{what} has shape {list(shape)}, the model says {list(type_.dimensions)}")


def _check_output(what: str, target: OutputArgument) -> None:
    buffer = target.buffer
    if buffer is None:
        return
    if target.token:
        raise bad_data(f"{what} is given by bytes and a device buffer")
    if not isinstance(buffer, np.ndarray) or buffer.dtype != np.uint8 or buffer.ndim != 1:
        raise bad_data(f"{what} must be a flat array of uint8, got {buffer!r:.80}")
    if not (buffer.flags.c_contiguous and buffer.flags.writeable):
        raise bad_data(f"{what} must be contiguous and writable")
