"""Cases as models that an application would build, and what they are changed into."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from builder import Builder

import nnvk
from generators.draw import Arg, Case
from nnvk.ops import registry
from nnvk.types.operand import OperandType, Shape


def names(case: Case) -> list[str]:
    """The operands' names in the overload that fits."""
    definition = registry.lookup(case.code)
    for signature in definition.signatures:
        least, most = signature.arity
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


def add_arg(build: Builder, arg: Arg, *, is_input: bool) -> int:
    """Add an operand; it has its value unless it is an input of the model."""
    if arg.model is not None:
        return build.reference(arg.model)
    return build.operand(arg.type) if is_input and arg.data is not None else build.constant(arg.type, arg.data)


def build(
    case: Case, inputs: Collection[str] = (), *, data_is_input: bool = True
) -> tuple[nnvk.Model, list[np.ndarray]]:
    """A model of one operation, not yet finished, and what its inputs are fed.

    Its inputs are the operands named, and data if ``data_is_input``; the rest are constants.
    """
    made = Builder()
    labels = names(case) if inputs else [""] * len(case.inputs)
    indexes, fed, values = [], [], []
    for arg, label in zip(case.inputs, labels, strict=True):
        is_input = arg.data is not None and (label in inputs or (data_is_input and not arg.is_parameter))
        indexes.append(add_arg(made, arg, is_input=is_input))
        if is_input:
            fed.append(indexes[-1])
            values.append(np.asarray(arg.data))
    results = made.outputs(case.code, indexes, *case.outputs)
    made.model.identify_inputs_and_outputs(fed, results)
    return made.model, values


__all__ = ["Shape", "add_arg", "build", "names", "with_arg", "with_output", "with_value"]
