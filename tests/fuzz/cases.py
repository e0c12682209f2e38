"""Damaged operations for the fuzzer: a seed is a valid case of an operation with some operands replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from execution import compile_and_run, devices_for
from generators import Arg, Case, Draw, draw_case, generators
from generators.build import build, with_arg, with_output
from generators.empty import EmptyDraw, build_empty, has_empty

from nnvk.api import Device, NnapiError, OperandCode
from nnvk.types.operand import OperandType

NUMBERS = (0, 1, 2, 3, -1, 4, 5, 7, -2, 100, -100, 2**31 - 1, -(2**31), 65536)


def execute(data: bytes, device: Device) -> str:
    """Build and execute the case of a seed. Says how far that got; raises what is a bug."""
    d = Draw(np.random.default_rng(list(data)))
    case = draw_case(d, d.pick(list(generators())))
    for _ in range(d.integer(0, 3)):
        case = d.pick(_DAMAGES)(d, case)
    try:
        model, values = build(case, data_is_input=d.chance(0.8))
        model.finish()
    except NnapiError as error:
        return f"refused by finish: {error}"
    return compile_and_run(model, [device], values)


def execute_empty(data: bytes, device: Device) -> str:
    """The same with tensors that have no elements."""
    d = EmptyDraw(np.random.default_rng(list(data)))
    case = draw_case(d, d.pick(list(generators())))
    for _ in range(d.integer(0, 1)):
        case = d.pick(_DAMAGES)(d, case)
    if not has_empty(case):
        return "refused: nothing is empty"
    try:
        model, values = build_empty(case, known=d.chance())
        model.finish()
    except NnapiError as error:
        return f"refused by finish: {error}"
    return compile_and_run(model, devices_for(device), values)


def _number(d: Draw, case: Case) -> Case:
    """Another value of a scalar or an integer tensor."""
    places = [i for i, arg in enumerate(case.inputs) if arg.data is not None and arg.data.dtype.kind == "i"]
    if not places:
        return case
    place = d.pick(places)
    arg = case.inputs[place]
    changed = np.array(arg.data).reshape(-1)
    if changed.size:
        changed[d.integer(0, changed.size - 1)] = np.array(d.pick(NUMBERS)).astype(changed.dtype)
    return with_arg(case, place, replace(arg, data=changed.reshape(arg.shape)))


def _float(d: Draw, case: Case) -> Case:
    """An extreme element."""
    places = [i for i, arg in enumerate(case.inputs) if arg.data is not None and arg.data.dtype.kind == "f"]
    if not places:
        return case
    place = d.pick(places)
    arg = case.inputs[place]
    changed = np.array(arg.data).reshape(-1)
    if changed.size:
        with np.errstate(over="ignore"):
            changed[d.integer(0, changed.size - 1)] = d.pick((np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, 1e-40))
    return with_arg(case, place, replace(arg, data=changed.reshape(arg.shape)))


def _shape(d: Draw, case: Case) -> Case:
    """Another shape, with the same elements as far as they go."""
    places = [i for i, arg in enumerate(case.inputs) if arg.data is not None and arg.type.is_tensor]
    if not places:
        return case
    place = d.pick(places)
    arg = case.inputs[place]
    shape = list(arg.shape)
    way = d.integer(0, 3)
    if way == 0 or not shape:
        shape.append(d.integer(0, 3))
    elif way == 1:
        shape.pop(d.integer(0, len(shape) - 1))
    else:
        shape[d.integer(0, len(shape) - 1)] = d.integer(0, 6)
    data = np.resize(np.asarray(arg.data), shape)
    return with_arg(case, place, replace(arg, type=arg.type.with_dimensions(data.shape), data=data))


def _omit(d: Draw, case: Case) -> Case:
    place = d.integer(0, len(case.inputs) - 1)
    return with_arg(case, place, replace(case.inputs[place], data=None, model=None))


def _cut(d: Draw, case: Case) -> Case:
    """Fewer inputs, or one twice."""
    if d.chance() and len(case.inputs) > 1:
        return replace(case, inputs=case.inputs[:-1])
    return replace(case, inputs=(*case.inputs, d.pick(case.inputs)))


def _quantisation(d: Draw, case: Case) -> Case:
    """Another scale or zero point of an input or output."""
    scale, zero_point = d.pick((0.0, 1e-30, 1e30, 0.5, 1 / 256)), d.pick((0, 128, -128, 255, 127))

    def changed(type_: OperandType) -> OperandType:
        return replace(type_, scale=scale, zero_point=zero_point)

    if d.chance() and case.outputs:
        place = d.integer(0, len(case.outputs) - 1)
        return with_output(case, place, changed(case.outputs[place]))
    place = d.integer(0, len(case.inputs) - 1)
    arg = case.inputs[place]
    return with_arg(case, place, replace(arg, type=changed(arg.type)))


def _type(d: Draw, case: Case) -> Case:
    """Another type of the same data."""
    place = d.integer(0, len(case.inputs) - 1)
    arg: Arg = case.inputs[place]
    code = d.pick([code for code in OperandCode if code is not OperandCode.MODEL])
    type_ = OperandType(code, arg.shape, arg.type.scale, arg.type.zero_point)
    with np.errstate(all="ignore"):
        data = None if arg.data is None else np.asarray(arg.data).astype(type_.dtype)
    return with_arg(case, place, replace(arg, type=type_, data=data))


_DAMAGES: list[Callable[[Draw, Case], Case]] = [
    _number,
    _number,
    _float,
    _shape,
    _shape,
    _omit,
    _cut,
    _quantisation,
    _type,
]
