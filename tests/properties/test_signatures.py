"""Signatures of every operation: the number, types, dimensions and sizes of operands, and what may be omitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generators.build import build, names, with_arg, with_output
from generators.draw import Arg, omitted
from refusals import CPU, base, refused
from samples import compiled

import nnvk
from nnvk import ResultCode
from nnvk.ops import registry
from nnvk.ops.signature import BOOL8, F32, I32, Q8, Q8S
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import OperandType

# --- every operation -----------------------------------------------------------------------------------------

EVERY = pytest.mark.parametrize("code", list(Op), ids=lambda code: code.name)


@EVERY
def test_numbers_of_inputs(code: Op) -> None:
    case = base(code)
    signatures = registry.lookup(code).signatures
    least = min(signature.arity[0] for signature in signatures)
    most = [signature.arity[1] for signature in signatures]
    fewer = replace(case, inputs=case.inputs[: least - 1])
    assert f"{code.name}: " in refused(build(fewer)[0].finish)
    if None not in most:
        more = replace(case, inputs=(*case.inputs, *[case.inputs[-1]] * (max(most) + 1 - len(case.inputs))))
        reason = refused(build(more)[0].finish)
        assert f"{code.name}: expected" in reason
        assert f"got {len(more.inputs)}" in reason


VARIADIC = {
    Op.SPLIT: "num_splits must be the number of outputs, {}",
    Op.IF: "then_model must have {} outputs, got",
    Op.WHILE: "body_model must have {} to ",
}
"""Operations with any number of outputs, and what ties it to their inputs."""


@EVERY
def test_too_many_outputs(code: Op) -> None:
    case, params = base(code), registry.lookup(code).outputs
    assert (code in VARIADIC) == any(param.variadic for param in params)
    for extra in (1, 9):
        more = replace(case, outputs=(*case.outputs, *[case.outputs[0]] * extra))
        if code not in VARIADIC and len(more.outputs) <= len(params):
            continue  # it has optional outputs
        reason = refused(build(more)[0].finish)
        expected = VARIADIC[code].format(len(more.outputs)) if code in VARIADIC else "expected"
        assert reason.startswith(f"{code.name}: {expected}"), reason
        assert "outputs" in reason


@EVERY
def test_too_few_outputs(code: Op) -> None:
    """Less than the required ones; WHILE may give the first of its state only, but something."""
    case, params = base(code), registry.lookup(code).outputs
    required = sum(not param.optional for param in params)
    least = len(case.outputs) if code in (Op.SPLIT, Op.IF) else required
    for count in range(least):
        fewer = replace(case, outputs=case.outputs[:count])
        assert code.name in refused(lambda fewer=fewer: build(fewer)[0].finish())


def wrong_type(code: Op, place: int, count: int, leading: OperandCode) -> OperandCode | None:
    """A type that no overload accepts in a place, None where every type is."""
    accepted: set[OperandCode] = set()
    for signature in registry.lookup(code).signatures:
        least, most = signature.arity
        if count >= least and (most is None or count <= most):
            accepted |= signature.spread(count)[place].accepts(leading)
    types = registry.lookup(code).types
    candidates = (BOOL8, F32, I32, OperandCode.UINT32, OperandCode.MODEL)
    return next((each for each in candidates if each not in accepted and each not in types), None)


@EVERY
def test_types_of_inputs(code: Op) -> None:
    """Each input in turn gets a type that it can't have."""
    case = base(code)
    definition = registry.lookup(code)
    labels = names(case)
    place_of_leading = labels.index(definition.leading) if definition.leading in labels else 0
    leading = case.inputs[place_of_leading].type.code
    for place, label in enumerate(labels):
        type_ = wrong_type(code, place, len(labels), leading)
        if type_ is None:
            continue
        data = (
            None
            if type_ is OperandCode.MODEL
            else np.zeros(() if type_ is OperandCode.UINT32 else (1,), OperandType(type_).dtype)
        )
        if data is None:
            continue
        wrong = Arg(OperandType(type_, data.shape), data)
        reason = refused(build(with_arg(case, place, wrong))[0].finish)
        alternatives = {
            signature.spread(len(labels))[place].name
            for signature in definition.signatures
            if signature.arity[0] <= len(labels) <= (signature.arity[1] or len(labels))
        }
        assert reason.startswith(f"{code.name}: "), reason
        assert any(name in reason for name in {label, *alternatives}), reason
        assert type_.name in reason


@EVERY
def test_required_inputs_can_not_be_omitted(code: Op) -> None:
    case = base(code)
    params = {param.name: param for signature in registry.lookup(code).signatures for param in signature.params}
    for place, label in enumerate(names(case)):
        arg = case.inputs[place]
        if params[label].optional or arg.model is not None:
            continue
        nothing = replace(omitted(), type=arg.type)
        reason = refused(build(with_arg(case, place, nothing))[0].finish)
        assert reason.startswith(f"{code.name}: "), reason
        assert "omitted" in reason or "must" in reason, reason


@EVERY
def test_types_of_outputs(code: Op) -> None:
    definition = registry.lookup(code)
    case = base(code)
    for place in range(len(case.outputs)):
        param = definition.outputs[min(place, len(definition.outputs) - 1)]
        if param.variadic and code in (Op.IF, Op.WHILE):
            wrong = OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (), 1.0, 0)
        else:
            leading = F32 if F32 in definition.types else next(iter(definition.types))  # what `base` took
            allowed = param.accepts(leading)
            wrong = OperandType(next(each for each in (I32, BOOL8, F32) if each not in allowed))
        reason = refused(build(with_output(case, place, wrong))[0].finish)
        assert code.name in reason
        assert param.name in reason or "output" in reason


_LATE = {
    Op.BOX_WITH_NMS_LIMIT: "sizes hang on the data",
    Op.GENERATE_PROPOSALS: "sizes hang on the data",
    Op.RANK: "a scalar has no dimensions",
}


@EVERY
def test_declared_dimensions_of_outputs(code: Op) -> None:
    """They must be those that the inputs give."""
    case = base(code)
    if code is Op.RANK:
        return
    wrong = with_output(case, 0, case.outputs[0].with_dimensions((97, 89)))
    model, values = build(wrong)
    if code in _LATE:
        model.finish()
        reason = refused(lambda: nnvk.run(compiled(model, CPU), values), ResultCode.OP_FAILED)
    else:
        reason = refused(model.finish)
    assert code.name in reason
    assert "97, 89" in reason


@pytest.mark.parametrize("code", [code for code in Op if code not in (Op.IF, Op.WHILE)], ids=lambda code: code.name)
def test_sizes_of_data(code: Op) -> None:
    """Constants are measured when they are set, inputs when an execution gets them."""
    case = base(code)
    for place, arg in enumerate(case.inputs):
        if arg.data is None:
            continue
        longer = np.zeros(arg.data.size + 1, arg.type.dtype)
        wrong = with_arg(case, place, replace(arg, data=longer, is_parameter=True))
        assert f"operand {place}: " in refused(lambda case=wrong: build(case))
    model, values = build(case, data_is_input=True)
    model.finish()
    compilation = nnvk.Compilation(model, [CPU])
    compilation.finish()
    for place, value in enumerate(values):
        execution = nnvk.Execution(compilation)
        wrong_input = np.zeros(value.size + 1, value.dtype)
        assert f"input {place}" in refused(lambda e=execution, p=place, w=wrong_input: e.set_input(p, w))


# --- operands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_, words",
    [
        (OperandType(Q8, (2,), 0.0, 0), "positive scale"),
        (OperandType(Q8, (2,), -0.5, 0), "scale"),
        (OperandType(Q8, (2,), float("nan"), 0), "scale"),
        (OperandType(Q8, (2,), float("inf"), 0), "scale"),
        (OperandType(Q8, (2,), 0.5, 256), "zero point"),
        (OperandType(Q8S, (2,), 0.5, 128), "zero point"),
        (OperandType(OperandCode.TENSOR_QUANT16_SYMM, (2,), 0.5, 1), "zero point"),
        (OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (2,), 0.5, -1), "zero point"),
        (OperandType(OperandCode.TENSOR_QUANT8_SYMM, (2,), 0.0), "positive scale"),
        (OperandType(F32, (2,), 0.5), "scale"),
        (OperandType(F32, (-1,)), "dimensions"),
        (OperandType(F32, (2**32,)), "dimensions"),
        (OperandType(F32, (2**20, 2**20)), "4 GiB"),
        (OperandType(OperandCode.INT32, (1,)), "scalar"),
    ],
    ids=str,
)
def test_types_that_contradict_themselves(type_: OperandType, words: str) -> None:
    model = nnvk.Model()
    model.add_operand(OperandType(F32, (1,)))
    reason = refused(lambda: model.add_operand(type_))
    assert reason.startswith("operand 1")
    assert words in reason
