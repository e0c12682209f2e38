"""Ranks: what the signatures say, checked when a model is finished, whatever else is known only at execution."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from generators import Case
from generators.build import build, names, with_arg
from refusals import CPU, base, refused
from samples import compiled

import nnvk
from nnvk.ops import registry
from nnvk.ops.signature import Param
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import KnownCode

CONTROL = (Op.IF, Op.WHILE)
RANKED: list[tuple[KnownCode, str, tuple[int, int]]] = sorted(
    {
        (code, param.name, param.rank)
        for code, definition in registry.definitions().items()
        for signature in definition.signatures
        for param in signature.params
        if param.rank is not None
    },
    key=lambda ranked: (ranked[0].name, *ranked[1:]),
)
"""Every tensor of whose rank a signature says something."""
NINE = (1,) * 9


def params(code: KnownCode) -> dict[str, Param]:
    """All parameters of an operation."""
    return {param.name: param for signature in registry.lookup(code).signatures for param in signature.params}


def with_rank(case: Case, name: str, dimensions: tuple[int, ...], *, constant: bool) -> Case:
    """The case with a tensor of these dimensions, of one element where they say so."""
    place = names(case).index(name)
    arg = case.inputs[place]
    data = np.resize(np.asarray(arg.data), dimensions)
    return with_arg(
        case, place, replace(arg, type=arg.type.with_dimensions(dimensions), data=data, is_parameter=constant)
    )


def scalars(case: Case) -> set[str]:
    """The operands that are numbers."""
    return {
        name
        for name, arg in zip(names(case), case.inputs, strict=True)
        if arg.data is not None and not arg.type.is_tensor
    }


def wrong_ranks(rank: tuple[int, int]) -> list[int]:
    least, most = rank
    return [wrong for wrong in (least - 1, most + 1) if wrong > 0]


def words(name: str, rank: tuple[int, int]) -> str:
    least, most = rank
    return (
        f"{name} must have rank {f'{most} at most' if not least else most if least == most else f'{least} to {most}'}"
    )


@cache
def some_case(code: Op, name: str) -> Case:
    """A case in which the tensor is given, and has elements."""

    def fits(case: Case) -> bool:
        arg = case.inputs[names(case).index(name)]
        return arg.data is not None and arg.data.size > 0 and arg.type.channel_quant is None

    return base(code, name, fits=fits)


def test_what_has_ranks() -> None:
    assert len(RANKED) > 250
    assert {code for code, *_ in RANKED} >= {
        *(Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.RELU, Op.RELU1, Op.RELU6, Op.TANH, Op.LOGISTIC, Op.REVERSE),
        *(Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.GROUPED_CONV_2D, Op.TRANSPOSE_CONV_2D, Op.FULLY_CONNECTED),
        *(Op.LOCAL_RESPONSE_NORMALIZATION, Op.RNN, Op.LSTM, Op.SVDF, Op.ROI_ALIGN, Op.HEATMAP_MAX_KEYPOINT),
        *(Op.GENERATE_PROPOSALS, Op.UNIDIRECTIONAL_SEQUENCE_RNN, Op.BIDIRECTIONAL_SEQUENCE_RNN),
        *(Op.UNIDIRECTIONAL_SEQUENCE_LSTM, Op.BIDIRECTIONAL_SEQUENCE_LSTM),
    }


@pytest.mark.parametrize("late", [False, True], ids=["constants", "inputs"])
@pytest.mark.parametrize(("code", "name", "rank"), [pytest.param(*row, id=f"{row[0].name}-{row[1]}") for row in RANKED])
def test_wrong_ranks_fail_at_finish(code: Op, name: str, rank: tuple[int, int], late: bool) -> None:
    """Also where all numbers are inputs of the model, and where the tensor's sizes are open."""
    for wrong in wrong_ranks(rank):
        case = with_rank(some_case(code, name), name, (1,) * wrong, constant=False)
        reason = refused(build(case, scalars(case) if late else ())[0].finish)
        assert reason.startswith(f"{code.name}: {words(name, rank)}, got shape {[1] * wrong}"), reason
        if params(code)[name].optional:
            continue
        place = names(case).index(name)
        arg = case.inputs[place]
        opened = with_arg(case, place, replace(arg, type=arg.type.with_dimensions((0,) * wrong)))
        reason = refused(build(opened, {name, *(scalars(case) if late else ())})[0].finish)
        assert reason.startswith(f"{code.name}: {words(name, rank)}, got shape {[0] * wrong}"), reason


@pytest.mark.parametrize("code", [code for code in Op if code not in CONTROL], ids=lambda code: code.name)
def test_what_is_refused_beside_constants_is_refused_beside_inputs(code: Op) -> None:
    """Every tensor in turn has rank 9: where that is wrong, it is whatever the numbers are."""
    for name, param in params(code).items():
        case = base(code)
        labels = names(case)
        if param.variadic or name not in labels:
            continue
        arg = case.inputs[labels.index(name)]
        if arg.data is None or not arg.type.is_tensor or arg.type.channel_quant is not None:
            continue
        case = with_rank(case, name, NINE, constant=arg.is_parameter)
        try:
            build(case)[0].finish()
        except nnvk.NnapiError as error:
            if "must have rank" in error.reason or "must have shape" in error.reason:
                refused(build(case, scalars(case))[0].finish)


def test_inputs_of_pack_have_one_shape_whatever_the_axis_is() -> None:
    case = base(Op.PACK, fits=lambda case: len(case.inputs) > 2)
    place = len(case.inputs) - 1
    arg = case.inputs[place]
    other = (*arg.shape, 1)
    case = with_arg(
        case, place, replace(arg, type=arg.type.with_dimensions(other), data=np.asarray(arg.data)[..., None])
    )
    assert "inputs[1] must have the shape" in refused(build(case, {"axis"})[0].finish).replace(f"[{place - 1}]", "[1]")


@pytest.mark.parametrize("code", [Op.RELU, Op.RELU1, Op.RELU6, Op.TANH, Op.LOGISTIC], ids=lambda code: code.name)
def test_activations_take_up_to_four_dimensions(code: Op) -> None:
    case = base(code)
    place = names(case).index("input")
    for rank in range(1, 5):
        fits = with_rank(case, "input", (1,) * rank, constant=False)
        model, values = build(fits)
        model.finish()
        assert nnvk.run(compiled(model, CPU), values)[0].shape == (1,) * rank
    arg = replace(case.inputs[place], type=case.inputs[place].type.with_dimensions(()))
    model, _ = build(with_arg(case, place, arg))
    model.finish()
    five = np.resize(np.asarray(arg.data), (1,) * 5)
    assert "rank 4 at most" in refused(lambda: nnvk.run(compiled(model, CPU), [five]), nnvk.ResultCode.OP_FAILED)


@pytest.mark.parametrize("count", range(20, 30))
def test_lstm_takes_23_or_27_inputs(count: int) -> None:
    case = base(Op.LSTM, fits=lambda case: len(case.inputs) == 27)
    model, _ = build(
        replace(case, inputs=case.inputs[:count])
        if count <= 27
        else replace(case, inputs=case.inputs + case.inputs[-1:] * (count - 27))
    )
    if count in (23, 27):
        model.finish()
    else:
        assert f"got {count}" in refused(model.finish)
