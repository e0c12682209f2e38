"""Unrolled layers: what their steps make of their inputs is computed at once, and each step is one dispatch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from against_reference import check_like_the_reference
from builder import Builder
from fused import plans
from generators import Case, Draw, draw_case

from nnvk.check.model_rows import Row
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.planner import PlanOptions
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType
from nnvk.types.request import Redundancy

STEPS = 5
STATES: dict[KnownCode, dict[int, int]] = {
    Op.FULLY_CONNECTED: {},
    Extended.FULLY_CONNECTED: {},
    Op.RNN: {4: 0},
    Op.LSTM: {18: 1, 19: 2},
    Op.QUANTIZED_LSTM: {18: 0, 19: 1},
    Op.QUANTIZED_16BIT_LSTM: {13: 0, 14: 1},
    Op.UNIDIRECTIONAL_SEQUENCE_RNN: {},
    Op.UNIDIRECTIONAL_SEQUENCE_LSTM: {},
    Op.BIDIRECTIONAL_SEQUENCE_RNN: {},
    Op.BIDIRECTIONAL_SEQUENCE_LSTM: {},
}
"""A cell takes each of these inputs from this output of the time step before."""
CELLS = [
    (Op.FULLY_CONNECTED, OperandCode.TENSOR_FLOAT32),
    (Op.FULLY_CONNECTED, OperandCode.TENSOR_FLOAT16),
    (Op.FULLY_CONNECTED, OperandCode.TENSOR_QUANT8_ASYMM),
    (Extended.FULLY_CONNECTED, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
    (Op.RNN, OperandCode.TENSOR_FLOAT32),
    (Op.RNN, OperandCode.TENSOR_FLOAT16),
    (Op.LSTM, OperandCode.TENSOR_FLOAT32),
    (Op.LSTM, OperandCode.TENSOR_FLOAT16),
    (Op.QUANTIZED_LSTM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
    (Op.QUANTIZED_16BIT_LSTM, OperandCode.TENSOR_QUANT8_ASYMM),
]
SEQUENCES = [(code, OperandCode.TENSOR_FLOAT32) for code in STATES if "SEQUENCE" in code.name]


def unrolled(
    case: Case, *, late: bool = False, anew: bool = False, layers: int = 1, taken: range = range(STEPS)
) -> Row:
    """So many steps of a cell, each on its rows of one input, and several times on the same, or only ``taken`` ones.

    Weights are constants, ``anew`` for each step, or inputs of the model where they are ``late``. All results are
    outputs.
    """
    build, rng = Builder(), np.random.default_rng(1)
    given: list[int] = []
    arrays: list[np.ndarray] = []

    def put_in(type_: OperandType, data: np.ndarray) -> int:
        given.append(build.operand(type_))
        arrays.append(data)
        return given[-1]

    first, *rest = case.inputs
    sequence = np.concatenate([rng.permutation(np.asarray(first.data).reshape(-1)) for _ in range(STEPS)])
    shape = STEPS * first.shape[0], *first.shape[1:]
    whole = put_in(first.type.with_dimensions(shape), sequence.reshape(shape))
    parts = build.outputs(Op.SPLIT, [whole, build.value(0), build.value(STEPS)], *[first.type] * STEPS)
    is_input = [arg.data is not None and arg.type.is_tensor and (late or not arg.is_parameter) for arg in rest]
    own = [
        put_in(arg.type, arg.data) if is_in else build.constant(arg.type, arg.data)
        for arg, is_in in zip(rest, is_input, strict=True)
    ]
    states, outputs = STATES[case.code], []
    for _ in range(layers):
        inputs = list(own)
        for step in taken:
            if anew:
                inputs = [
                    index if is_in or place + 1 in states else build.constant(arg.type, arg.data)
                    for place, (arg, is_in, index) in enumerate(zip(rest, is_input, inputs, strict=True))
                ]
            results = build.outputs(case.code, [parts[step], *inputs], *case.outputs)
            for place, number in states.items():
                inputs[place - 1] = results[number]
            outputs.append(results[-1])
    return Row(build.finish(given, outputs).frozen, arrays)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("code", "leading"), [*CELLS, *SEQUENCES])
@pytest.mark.crossed
def test_steps(vulkan: VulkanDevice, code: KnownCode, leading: OperandCode, seed: int) -> None:
    """Batches, sizes that are no vec4s, projections, peepholes, layer normalisation; several layers on one sequence."""
    check_like_the_reference(vulkan, unrolled(draw_case(Draw(seed), code, leading), layers=1 + seed % 2))


@pytest.mark.parametrize(("code", "leading"), CELLS)
def test_steps_on_gpus(as_gpu: VulkanDevice, code: KnownCode, leading: OperandCode) -> None:
    check_like_the_reference(as_gpu, unrolled(draw_case(Draw(7), code, leading)))


@pytest.mark.parametrize(("code", "leading"), CELLS)
def test_weights_at_run_time(vulkan: VulkanDevice, code: KnownCode, leading: OperandCode) -> None:
    check_like_the_reference(vulkan, unrolled(draw_case(Draw(2), code, leading), late=True))


OPTIONAL: dict[KnownCode, tuple[int, ...]] = {
    Op.FULLY_CONNECTED: (),
    Extended.FULLY_CONNECTED: (),
    Op.RNN: (),
    Op.LSTM: (9, 10, 11, 16, 17, *range(23, 27)),
    Op.QUANTIZED_LSTM: (9, 10, 11, 16, 17, *range(20, 24)),
    Op.QUANTIZED_16BIT_LSTM: (),
}
"""Peepholes, the projection and layer normalisation."""


def simple(code: KnownCode, leading: OperandCode) -> Case:
    """A case of one batch without anything that is optional."""
    cases = (draw_case(Draw(seed), code, leading) for seed in range(1000))
    return next(
        case
        for case in cases
        if case.inputs[0].shape[:-1] == (1,)
        and all(case.inputs[place].data is None for place in OPTIONAL[code] if place < len(case.inputs))
    )


def families(device: VulkanDevice, row: Row) -> list[str]:
    """The shaders of the plan, with fusions."""
    fused, _ = plans(device, row.model, [array.shape for array in row.inputs])
    return [command.shader.family for command in fused.commands if isinstance(command, Dispatch)]


MULTIPLYING = {
    "gemm",
    "quantized_sums",
    "recurrent_step",
    "quantized_lstm_step",
    "recurrent_loop",
    "quantized_16bit_lstm",
}
EVERY_WAY = [each for each in CELLS if each[1] is not OperandCode.TENSOR_FLOAT16]


@pytest.mark.parametrize("anew", [False, True], ids=["shared", "anew"])
@pytest.mark.parametrize(("code", "leading"), EVERY_WAY)
def test_inputs_are_multiplied_once(vulkan: VulkanDevice, code: KnownCode, leading: OperandCode, anew: bool) -> None:
    """Also where each step has constants of its own that are alike."""
    row = unrolled(simple(code, leading), anew=anew)
    multiplying = [each for each in families(vulkan, row) if each in MULTIPLYING]
    assert len(multiplying) == 1 + (STEPS if STATES[code] else 0)


@pytest.mark.parametrize(("code", "leading"), EVERY_WAY)
def test_what_nobody_takes_is_not_computed(vulkan: VulkanDevice, code: KnownCode, leading: OperandCode) -> None:
    """Two steps of five multiply their own inputs alone."""
    row = unrolled(simple(code, leading), taken=range(2))
    separate = 2 if STATES[code] and code is not Op.QUANTIZED_16BIT_LSTM else 1
    assert len([each for each in families(vulkan, row) if each in MULTIPLYING]) == 2 * separate
    check_like_the_reference(vulkan, row)


@pytest.mark.parametrize(("code", "leading"), EVERY_WAY)
def test_verified_plans_multiply_all_inputs_twice(vulkan: VulkanDevice, code: KnownCode, leading: OperandCode) -> None:
    """Also those of all time steps at once, which lie in an input of the model that both computations share."""
    row = unrolled(simple(code, leading))
    shapes, count = [array.shape for array in row.inputs], Counter[Redundancy]()
    for redundancy in (Redundancy.NONE, Redundancy.CHECKSUMS):
        plan = vulkan.planner.lower(row.model, shapes, PlanOptions(redundancy=redundancy))
        shaders = [command.shader.family for command in plan.commands if isinstance(command, Dispatch)]
        # The second of two products may be another shader's, or a checksum.
        count[redundancy] = sum(
            each in MULTIPLYING | {"fully_connected", "gemm_checksum", "gemm_exact"} for each in shaders
        )
    plain, verified = count[Redundancy.NONE], count[Redundancy.CHECKSUMS]
    # The second time, quantised cells multiply the inputs and the state of each step by themselves. Those of floats
    # have a dispatch for the products of a step, and one for its gates.
    more = {Op.QUANTIZED_LSTM: 2 * STEPS, Op.QUANTIZED_16BIT_LSTM: 3 * STEPS}
    of_step = 2 if STATES[code] else 1
    expected = plain + more[code] if code in more else 2 * (1 + of_step * STEPS if STATES[code] else plain)
    assert verified == expected > plain > 0
