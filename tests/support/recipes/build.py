"""Cases as models that an application would build, and what they are changed into."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

import nnvk
from nnvk.ops import registry
from nnvk.types.model import Model as FrozenModel
from nnvk.types.operand import OperandType, Shape
from recipes.draw import Arg, Case


def names(case: Case) -> list[str]:
    """The operands' names in the overload that fits."""
    definition = registry.lookup(case.code)
    for signature in definition.signatures:
        least, most = signature.arity()
        count = len(case.inputs)
        if count < least or (most is not None and count > most):
            continue
        params = signature.spread(count)
        labels = [param.name for param in params]
        place = labels.index(definition.leading) if definition.leading in labels else 0
        leading = case.inputs[place].type.code
        if all(
            arg.type.code in param.accepts(leading) or (arg.data is None and arg.model is None)
            for param, arg in zip(params, case.inputs, strict=True)
        ):
            return labels
    raise ValueError(f"{case.code.name} has no overload for these operands")


def with_value(case: Case, name: str, value: object) -> Case:
    """The case with a constant in the place of an operand: a number, nested lists, or what it has in another shape."""
    place = names(case).index(name)
    arg = case.inputs[place]
    data = np.resize(np.asarray(arg.data), value) if isinstance(value, tuple) else np.asarray(value, arg.type.dtype)
    changed = replace(arg, type=arg.type.with_dimensions(data.shape), data=data, is_parameter=True)
    return with_arg(case, place, changed)


def with_arg(case: Case, place: int, arg: Arg) -> Case:
    """The case with another input."""
    return replace(case, inputs=(*case.inputs[:place], arg, *case.inputs[place + 1 :]))


def with_output(case: Case, place: int, type_: OperandType) -> Case:
    """The case with another output."""
    return replace(case, outputs=(*case.outputs[:place], type_, *case.outputs[place + 1 :]))


def reference_of(model: FrozenModel) -> nnvk.Model:
    """A finished builder of a frozen model, for operands that refer to it."""
    builder = nnvk.Model()
    for operand in model.operands:
        index = builder.add_operand(operand.type)
        if operand.value is not None:
            builder.set_operand_value(index, operand.value)
    for operation in model.operations:
        builder.add_operation(operation.code, operation.inputs, operation.outputs)
    builder.identify_inputs_and_outputs(model.inputs, model.outputs)
    builder.finish()
    return builder


def add_operand(builder: nnvk.Model, type_: OperandType) -> int:
    """Add an operand, with its scales per channel."""
    channels = type_.channel_quant
    index = builder.add_operand(replace(type_, channel_quant=None))
    if channels is not None:
        builder.set_operand_symm_per_channel_quant_params(index, channels.channel_dim, channels.scales)
    return index


def add_arg(builder: nnvk.Model, arg: Arg, *, is_input: bool) -> int:
    """Add an operand; it has its value unless it is an input of the model."""
    index = add_operand(builder, arg.type)
    if arg.model is not None:
        builder.set_operand_value_from_model(index, reference_of(arg.model))
    elif not is_input or arg.data is None:
        builder.set_operand_value(index, arg.data)
    return index


def build(
    case: Case, inputs: Collection[str] = (), *, data_is_input: bool = True
) -> tuple[nnvk.Model, list[np.ndarray]]:
    """A model of one operation, not yet finished, and what its inputs are fed.

    Its inputs are the operands named, and data if ``data_is_input``; the rest are constants.
    """
    builder = nnvk.Model()
    labels = names(case) if inputs else [""] * len(case.inputs)
    indexes, fed, values = [], [], []
    for arg, label in zip(case.inputs, labels, strict=True):
        is_input = arg.data is not None and (label in inputs or (data_is_input and not arg.is_parameter))
        indexes.append(add_arg(builder, arg, is_input=is_input))
        if is_input:
            fed.append(indexes[-1])
            values.append(np.asarray(arg.data))
    results = [add_operand(builder, type_) for type_ in case.outputs]
    builder.add_operation(case.code, indexes, results)
    builder.identify_inputs_and_outputs(fed, results)
    return builder, values


__all__ = ["Shape", "add_arg", "add_operand", "build", "names", "with_arg", "with_output", "with_value"]
