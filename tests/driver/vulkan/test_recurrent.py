"""Recurrent operations on the GPU against the reference: sizes around all tiles, weights from anywhere, both ways to go
through the steps, and how many dispatches they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from against_reference import agree, check_like_the_reference
from generators import Case, Draw, draw_case, drawn, frozen
from generators.draw import Arg, boolean, i32, omitted, real

from nnvk.base.errors import NnapiError
from nnvk.check.model_rows import empty_like, request
from nnvk.driver.cpu.executor import Clock, run
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import recurrent
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.ops import registry
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import ExecuteOptions, PrepareOptions

F32 = OperandCode.TENSOR_FLOAT32
OPTIONS = ExecuteOptions()
CODES = (
    Op.RNN,
    Op.UNIDIRECTIONAL_SEQUENCE_RNN,
    Op.BIDIRECTIONAL_SEQUENCE_RNN,
    Extended.UNIDIRECTIONAL_SEQUENCE_GRU,
    Op.LSTM,
    Op.UNIDIRECTIONAL_SEQUENCE_LSTM,
    Op.BIDIRECTIONAL_SEQUENCE_LSTM,
    Op.SVDF,
    Extended.QUANTIZED_SVDF,
    Op.QUANTIZED_16BIT_LSTM,
    Op.QUANTIZED_LSTM,
)
CASES = [
    pytest.param(code, leading, id=f"{code.name}-{leading.name}")
    for code in CODES
    for leading in registry.lookup(code).types
]


class WideDraw(Draw):
    """Sizes of more than one tile; the wider weights are, the smaller they are, so that sums stay moderate."""

    def sizes(self, rank: int, most: int = 5) -> Shape:
        return tuple(self.pick((1, 2, 3, 4, 5, 7, 9, 13, 16, 31, 32, 37)) for _ in range(rank))

    def weights(self, code: OperandCode, *shape: int, scale: float | None = None) -> Arg:
        arg = super().weights(code, *shape, scale=scale)
        data = np.asarray(arg.data)
        return replace(arg, data=(data / np.sqrt(shape[-1])).astype(data.dtype) if data.dtype.kind == "f" else data)


def plan_of(device: VulkanDevice, model: Model) -> Plan:
    """The plan of a model whose shapes are known, with or without the validation layer."""
    shapes = [type_.dimensions for type_ in model.input_types()]
    return lower(model, shapes, replace(device.profile, barriers_by_buffer=False), device.planner.library)


@pytest.fixture(params=["loop", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether a workgroup takes many steps or a dispatch takes one, whatever the size of a cell."""
    for name in ("LOOP_WEIGHTS", "LOOP_READS"):
        monkeypatch.setattr(recurrent, name, 1 << 30 if request.param == "loop" else 0)
    return str(request.param)


# --- everything that is optional ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1000, 1001, 1002])
@pytest.mark.parametrize(("code", "leading"), CASES)
@pytest.mark.crossed
def test_wide_cells(vulkan: VulkanDevice, way: str, code: OperationCode, leading: OperandCode, seed: int) -> None:
    check_like_the_reference(vulkan, drawn(draw_case(WideDraw(seed), code, leading)))


@pytest.mark.parametrize("seed", [2000, 2001])
@pytest.mark.parametrize(("code", "leading"), CASES)
@pytest.mark.crossed
def test_weights_at_run_time(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode, seed: int) -> None:
    case = draw_case(WideDraw(seed), code, leading)
    given = [replace(arg, is_parameter=arg.data is None or not arg.type.is_tensor) for arg in case.inputs]
    check_like_the_reference(vulkan, drawn(replace(case, inputs=tuple(given))))


# --- operands that may be omitted --------------------------------------------------------------------------------


def bidirectional(seed: int) -> tuple[Model, list[Arg]]:
    """A model whose tensors are all inputs, also the auxiliary input and its weights (operands 9 to 11); the inputs."""
    case = draw_case(WideDraw(seed), Op.BIDIRECTIONAL_SEQUENCE_RNN, F32)
    time, batches, _ = case.inputs[0].shape
    given = [replace(arg, is_parameter=not arg.type.is_tensor) for arg in case.inputs]
    for place, shape in ((9, (time, batches, 3)), (10, (given[2].shape[0], 3)), (11, (given[6].shape[0], 3))):
        if given[place].data is None:
            given[place] = WideDraw(place).new(OperandType(F32, shape), -1, 1)
    return frozen(replace(case, inputs=tuple(given))), given


@pytest.mark.parametrize(
    ("seed", "sets"), [(5, [(), (9, 10, 11), ()]), (2, [(10, 11), (), (10, 11)])], ids=["crossed", "parallel"]
)
def test_what_is_omitted_comes_with_the_execution(
    vulkan: VulkanDevice, seed: int, sets: Sequence[tuple[int, ...]]
) -> None:
    """The same model is a cell with or without an auxiliary input, as the execution says; some sets make no sense."""
    model, given = bidirectional(seed)
    prepared = vulkan.prepare_model(model, PrepareOptions())
    for left_out in sets:
        inputs = [None if index in left_out else given[index].data for index in model.inputs]
        try:
            expected = run(model, inputs, Clock(None, 2 * 10**9))
        except NnapiError:
            with pytest.raises(NnapiError, match="bw_weights must have"):
                prepared.execute(request(inputs, [np.empty(1, np.float32) for _ in model.outputs]), OPTIONS)
            continue
        outputs = empty_like(expected)
        prepared.execute(request(inputs, outputs), OPTIONS)
        for want, got in zip(expected, outputs, strict=True):
            agree(want, got, f"without {left_out}")


def test_weights_that_are_computed(vulkan: VulkanDevice) -> None:
    """An optional operand that another operation gives is given."""
    case = draw_case(Draw(1), Op.SVDF, F32)
    bias = np.linspace(-1, 1, case.inputs[1].shape[0] // int(case.inputs[5].data), dtype=np.float32)
    case = replace(case, inputs=(*case.inputs[:3], Arg(OperandType(F32, bias.shape), bias, True), *case.inputs[4:]))
    model = frozen(case)
    half = Operand(model.operands[3].type, Lifetime.CONSTANT, bias / 2)
    none = Operand(OperandType(OperandCode.INT32), Lifetime.CONSTANT, np.array(0, np.int32))
    operands = (*model.operands, half, none)
    count = len(model.operands)
    computed = replace(
        model,
        operands=(*operands[:3], Operand(half.type, Lifetime.TEMPORARY_VARIABLE), *operands[4:]),
        operations=(Operation(Op.ADD, (count, count, count + 1), (3,)), *model.operations),
    )
    check_like_the_reference(vulkan, replace(drawn(case), model=computed))


# --- steps -------------------------------------------------------------------------------------------------------


def lstm(
    time: int, batches: int, size: int, units: int, outputs: int = 0, *, norm: bool = False, both: bool = False
) -> Case:
    """A sequence through cells without peephole; with a projection to so many ``outputs``, if any."""
    d, none = WideDraw(0), omitted(F32)
    width = outputs or units

    def cell() -> list[Arg]:
        weights = [d.weights(F32, units, size) for _ in range(4)] + [d.weights(F32, units, width) for _ in range(4)]
        biases = [d.weights(F32, units) for _ in range(4)]
        return [*weights, none, none, none, *biases, d.weights(F32, width, units) if outputs else none, none]

    states = [d.tensor(F32, (batches, width)), d.tensor(F32, (batches, units))]
    options = [i32(4), real(F32, 0.0), real(F32, 0.0), *([boolean(False)] if both else []), boolean(True)]
    norms = [d.weights(F32, units) if norm else none for _ in range(4)]
    source = d.tensor(F32, (time, batches, size))
    if both:
        inputs = [source, *cell(), *cell(), *states, *states, *[none] * 9, *options, *norms, *norms]
        return Case(Op.BIDIRECTIONAL_SEQUENCE_LSTM, tuple(inputs), (OperandType(F32),) * 6)
    return Case(Op.UNIDIRECTIONAL_SEQUENCE_LSTM, (source, *cell(), *states, *options, *norms), (OperandType(F32),) * 3)


def gru(time: int, batches: int, size: int, units: int, *, reset_after: bool, bias: bool = True) -> Case:
    """A sequence through a cell whose reset gate comes after the product of the state, or before it."""
    d = WideDraw(0)
    cell = [d.weights(F32, units, width) for width in (size, units) for _ in range(3)]
    cell += [d.weights(F32, units) for _ in range(3)]
    inner = d.weights(F32, units) if reset_after and bias else omitted(F32)
    inputs = [d.tensor(F32, (time, batches, size)), *cell, inner, d.tensor(F32, (batches, units))]
    return Case(Extended.UNIDIRECTIONAL_SEQUENCE_GRU, (*inputs, i32(4), boolean(reset_after)), (OperandType(F32),) * 2)


SEQUENCES = {
    "a unit, reset after": gru(3, 2, 1, 1, reset_after=True),
    "a unit, reset before": gru(3, 2, 1, 1, reset_after=False),
    "units of no vec4s, reset after": gru(5, 3, 7, 131, reset_after=True, bias=False),
    "units of no vec4s, reset before": gru(5, 3, 7, 131, reset_after=False),
    "many batches, reset after": gru(3, 19, 5, 20, reset_after=True),
    "many batches, reset before": gru(3, 19, 5, 20, reset_after=False),
    "one": lstm(1, 1, 1, 1),
    "a block of weights and a unit": lstm(3, 1, 5, 9),
    "more than the invocations of a workgroup": lstm(3, 2, 7, 131),
    "batches": lstm(3, 19, 8, 8),
    "projected": lstm(4, 3, 6, 11, 5),
    "projected to more": lstm(4, 3, 6, 5, 33),
    "normalised": lstm(4, 3, 6, 67, norm=True),
    "normalised and projected": lstm(4, 5, 6, 31, 7, norm=True),
    "both directions": lstm(5, 2, 6, 21, 10, both=True),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in SEQUENCES.items()])
def test_sequences(vulkan: VulkanDevice, way: str, case: Case) -> None:
    check_like_the_reference(vulkan, drawn(case))


def test_loops_are_cut(vulkan: VulkanDevice, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As llvmpipe ends them after 65,535 rounds: here after some hundreds."""
    monkeypatch.setattr(recurrent, "MOST_ROUNDS", 100)
    cases = (
        lstm(23, 2, 3, 8, both=True),
        lstm(23, 2, 3, 5, 3, norm=True),
        gru(23, 2, 3, 6, reset_after=True),
        gru(23, 2, 3, 6, reset_after=False),
        draw_case(WideDraw(4), Op.RNN, F32),
    )
    for case in cases:
        check_like_the_reference(vulkan, drawn(case))
    if way == "loop":
        assert 2 < len(plan_of(vulkan, frozen(lstm(23, 1, 3, 8))).commands) < 23


@pytest.mark.parametrize(
    ("case", "dispatches"),
    [
        (lstm(40, 1, 8, 16), lambda steps: 1),
        (lstm(40, 1, 8, 136), lambda steps: steps),
        (lstm(40, 1, 8, 136, 104), lambda steps: 2 * steps),
        (lstm(40, 1, 8, 136, norm=True), lambda steps: 2 * steps),
        (lstm(40, 1, 8, 136, both=True), lambda steps: 2 * steps),
        (gru(40, 1, 8, 16, reset_after=True), lambda steps: 1),
        (gru(40, 1, 8, 16, reset_after=False), lambda steps: 1),
        (gru(40, 1, 8, 136, reset_after=True), lambda steps: steps),
        (gru(40, 1, 8, 136, reset_after=False), lambda steps: 2 * steps),
    ],
    ids=[
        *("small", "large", "projected", "normalised", "both directions"),
        *("small GRU, reset after", "small GRU, reset before", "GRU, reset after", "GRU, reset before"),
    ],
)
def test_steps_are_few_dispatches(own: VulkanDevice, case: Case, dispatches: Callable[[int], int]) -> None:
    """And those of two directions wait for nothing but the step before of their own."""
    plan = plan_of(own, frozen(case))
    few = 10
    assert dispatches(40) < len(plan.commands) <= dispatches(40) + few
    if case.code is Op.BIDIRECTIONAL_SEQUENCE_LSTM:
        assert len(plan.barriers) <= 40 + few


@pytest.mark.parametrize("reset_after", [False, True])
def test_no_steps_of_a_gru(own: VulkanDevice, reset_after: bool) -> None:
    """The state goes through."""
    case = gru(1, 2, 3, 5, reset_after=reset_after)
    empty = Arg(OperandType(F32, (0, 2, 3)), np.empty((0, 2, 3), np.float32))
    check_like_the_reference(own, drawn(replace(case, inputs=(empty, *case.inputs[1:]))))


@pytest.mark.parametrize("units", [5, 131])
@pytest.mark.parametrize("spoilt", [0, 11])
def test_infinite_numbers_of_a_gru(vulkan: VulkanDevice, units: int, spoilt: int) -> None:
    """An infinite input or state does not reach what it is not a factor of."""
    case = gru(2, 3, 3, units, reset_after=True)
    data = np.array(case.inputs[spoilt].data)
    data[..., 1, 1] = np.inf
    inputs = [replace(arg, data=data) if number == spoilt else arg for number, arg in enumerate(case.inputs)]
    check_like_the_reference(vulkan, drawn(replace(case, inputs=tuple(inputs))))


def test_no_steps(own: VulkanDevice) -> None:
    """The states go through."""
    case = lstm(1, 2, 3, 5, 4)
    model = frozen(case)
    inputs = [case.inputs[index].data for index in model.inputs]
    operands = list(model.operands)
    operands[0] = replace(operands[0], type=OperandType(F32, (0, 0, 0)))
    inputs[0] = np.empty((0, 2, 3), np.float32)
    outputs = [np.empty((0, 2, 4), np.float32), np.empty((2, 4), np.float32), np.empty((2, 5), np.float32)]
    prepared = own.prepare_model(replace(model, operands=tuple(operands)), PrepareOptions())
    prepared.execute(request(inputs, outputs), OPTIONS)
    for state, output in zip(inputs[1:], outputs[1:], strict=True):
        np.testing.assert_array_equal(output, state)


# --- quantised ---------------------------------------------------------------------------------------------------


class ExtremeDraw(WideDraw):
    """Steps are the lowest or highest that there are, and so are INT32s."""

    def values(self, type_: OperandType, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        data = super().values(type_, low, high)
        if data.dtype.kind not in "iu":
            return data
        info = np.iinfo(data.dtype)
        ends = self.rng.choice(np.array([info.min, info.max], data.dtype), data.shape)
        return np.where(self.rng.random(data.shape) < 0.9, ends, data) if type_.is_tensor else data


@pytest.mark.parametrize("seed", range(3000, 3006))
@pytest.mark.parametrize(("code", "leading"), CASES[-2:])
def test_extreme_steps(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode, seed: int) -> None:
    """Sums leave 32 bits, squares need 64, zero points are anything."""
    case = draw_case(ExtremeDraw(seed), code, leading)
    if code is Op.QUANTIZED_LSTM:
        zero = [0, 2**31 - 1, -(2**31), 12345678][seed % 4]
        inputs = list(case.inputs)
        inputs[-2] = replace(inputs[-2], data=np.array(zero, np.int32))
        for place in range(-6, -2):  # scales between steps and gates
            inputs[place] = replace(inputs[place], data=np.array([1e-12, 1.0, 1e6, 2.0**-12][seed % 4], np.float32))
        case = replace(case, inputs=tuple(inputs))
    check_like_the_reference(vulkan, drawn(case))


@pytest.mark.parametrize("seed", range(4000, 4004))
@pytest.mark.parametrize(("code", "leading"), CASES[-2:])
def test_bytes_are_shared_out_on_gpus(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, code: OperationCode, leading: OperandCode, seed: int
) -> None:
    """As devices are told to that are no CPU, with and without dot products."""
    features = own.profile.features - ({"shaderIntegerDotProduct"} if seed % 2 else set())
    monkeypatch.setattr(own.planner, "profile", replace(own.profile, is_cpu=False, features=features))
    check_like_the_reference(own, drawn(draw_case((WideDraw, ExtremeDraw)[seed // 2 % 2](seed), code, leading)))


def test_quantised_cell_is_one_dispatch(own: VulkanDevice) -> None:
    """Sums and gates: models have one such cell behind the other."""
    case = draw_case(WideDraw(1), Op.QUANTIZED_16BIT_LSTM, OperandCode.TENSOR_QUANT8_ASYMM)
    assert len(plan_of(own, frozen(case)).commands) == 1
