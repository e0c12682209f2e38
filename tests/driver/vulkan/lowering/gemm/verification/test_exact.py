"""Products of integers that another shader computes once more: the same bits, and shaders that are wrong each time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from forced import forced_strategies
from kernel_cases import supported
from verified import MULTIPLYING, VERIFIED, families, outcomes, plan_of, run, with_wrong_products

from nnvk.base.errors import VerificationError
from nnvk.check.model_rows import parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm.verification.exact import BY_CHANNEL, EXACT, variant
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.request import PrepareOptions, Redundancy

ROWS = """
CONV_2D i8[2,9,7,16]*0.05+12 i8[24,1,1,16]*0.02 i32[24] SAME 1 1 NONE -> i8*0.3-10
CONV_2D u8[1,5,7,3]*0.05+120 u8[5,3,2,3]*0.02+99 i32[5] SAME 2 1 RELU -> u8*0.08+100
CONV_2D u8[2,11,9,8]*0.05+120 #pc0[7,3,3,8] i32[7] VALID 1 2 RELU6 -> u8*0.08+3
CONV_2D i8[2,7,5,4]*0.05-9 i8[5,3,3,7]*0.02+5 i32[5] SAME 1 1 NONE nchw -> i8*0.3
CONV_2D i8[1,3,5,602]*0.05-9 i8[4,1,1,602]*0.02+5 i32[4] SAME 1 1 NONE -> i8*2.5
GROUPED_CONV_2D u8[1,7,6,8]*0.05+130 u8[8,3,3,4]*0.02+99 i32[8] SAME 1 1 2 NONE nhwc -> u8*0.3+99
GROUPED_CONV_2D i8[2,7,5,9]*0.05+3 i8[15,3,2,3]*0.02+9 i32[15] SAME 1 1 3 RELU nhwc -> i8*0.08-20
FULLY_CONNECTED i8[19,33]*0.05-7 i8[7,33]*0.02+5 i32[7] RELU -> i8*0.08-20
FULLY_CONNECTED u8[1,517]*0.05+127 u8[44,517]*0.02+121 i32[44] NONE -> u8*0.9+99
FULLY_CONNECTED i8[3,5]*100.0 i8[6,5]*50.0 i32[6] NONE -> i8*0.001
BATCH_MATMUL i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20
BATCH_MATMUL i8[2,3,17,64]*0.5+3 i8[2,3,64,28]*0.25-7 -> i8*19.5-20
BATCH_MATMUL i8[2,13,24]*0.5+3 i8[2,11,24]*0.25-7 false true -> i8*9.5
BATCH_MATMUL i8[2,24,13]*0.5+3 i8[2,11,24]*0.25-7 true true -> i8*9.5
BATCH_MATMUL i32[3,9,22] #i32[3,5,22] false true
BATCH_MATMUL i32[3,9,22] i32[3,22,8]
TRANSPOSE_CONV_2D u8[1,5,3,4]*1 #u8[8,3,3,4]*1 #i32[8] (1,9,5,8) SAME 2 2 NONE nhwc -> u8*9
TRANSPOSE_CONV_2D i8[2,4,3,5]*0.05+9 i8[7,5,2,5]*0.02-3 i32[7] (2,14,7,7) VALID 3 2 RELU nhwc -> i8*0.08
TRANSPOSE_CONV_2D i8[2,6,5,3]*0.05 #pc0[4,2,3,6] #i32[4] (2,4,5,3) SAME 1 1 NONE nchw -> i8*0.08
DEPTHWISE_CONV_2D i8[1,7,6,8]*0.05-3 i8[1,3,3,8]*0.02 i32[8] SAME 1 1 1 NONE -> i8*0.08-20
DEPTHWISE_CONV_2D u8[2,9,7,3]*0.05+99 u8[1,2,5,9]*0.02+99 i32[9] VALID 1 2 3 RELU -> u8*0.08+20
DEPTHWISE_CONV_2D i8[1,9,41,5]*0.05-3 i8[1,5,3,5]*0.02 i32[5] SAME 2 1 1 RELU1 -> i8*0.08-20
GROUPED_CONV_2D u8[1,9,37,8]*0.05+99 u8[8,3,3,1]*0.02+99 i32[8] SAME 1 1 8 NONE nhwc -> u8*0.08+20
CONV_2D i16[1,5,7,8]*0.001 #i8[8,3,3,8]*0.02+0 #i32[8] SAME 1 1 NONE -> i16*0.01
CONV_2D i16[2,5,7,8]*0.001 #i8[7,3,2,8]*0.02+0 #i32[14] VALID 2 1 RELU -> i16*3000
CONV_2D i16[1,3,5,7]*0.001 #pc0[5,3,3,3] #i32[10] SAME 1 1 NONE nchw -> i16*3000
CONV_2D i16[1,3,3,601]*0.001 #i8[3,3,3,601]*0.02+0 #i32[6] VALID 1 1 NONE -> i16*5000
GROUPED_CONV_2D i16[1,5,5,8]*0.001 #pc0[8,3,3,4] #i32[16] SAME 1 1 2 RELU nhwc -> i16*3000
DEPTHWISE_CONV_2D i16[1,7,5,6]*0.001 #pc3[1,3,3,6] #i32[12] SAME 1 1 1 NONE -> i16*3000
DEPTHWISE_CONV_2D i16[2,7,5,3]*0.001 i8[1,3,2,6]*0.02+0 i32[6] VALID 1 2 2 NONE -> i16*0.01
TRANSPOSE_CONV_2D i16[2,5,3,3]*0.001 #pc0[5,2,3,3] #i32[5] 1 0 0 2 3 1 RELU nhwc -> i16*0.01
FULLY_CONNECTED i16[5,257]*0.001 #i8[7,257]*0.02+0 #i32[7] NONE -> i16*0.05
FULLY_CONNECTED i16[1,1024]*0.001 i8[8,1024]*0.02+0 i32[16] NONE -> i16*3000
""".strip().splitlines()
FAULTS = 12
CELLS = "quantized_sums", "quantized_lstm_step", "quantized_16bit_lstm"
"""The shaders that multiply, of quantised cells."""


def with_wrong_sums(plan: Plan) -> Plan:
    """The plan with cells that all take another zero point of the weights."""

    def wrong(command: Command) -> Command:
        if not isinstance(command, Dispatch) or command.shader.family not in CELLS:
            return command
        return replace(command, push={**command.push, "weight_zero": command.push["weight_zero"] + 1})

    return replace(plan, commands=tuple(map(wrong, plan.commands)))


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_products_of_integers_are_computed_by_another_shader(device: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    name = (BY_CHANNEL if ROWS[place].startswith("DEPTHWISE") or "[8,3,3,1]" in ROWS[place] else EXACT).name
    plain, independent, twice = (
        families(plan_of(device, row.model, row.inputs, PrepareOptions(redundancy=each))) for each in Redundancy
    )
    assert (plain[name], independent[name], twice[name]) == (0, 1, 0)
    assert sum(independent[each] for each in MULTIPLYING) == 1
    for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_extreme_levels_raise_no_alarm(device: VulkanDevice, place: int) -> None:
    """The largest sums, of both signs."""
    row, rng = parse(ROWS[place]), np.random.default_rng(place)
    for likely in (0.0, 0.5, 1.0):
        inputs = [
            np.where(rng.random(array.shape) < likely, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min).astype(
                array.dtype
            )
            for array in row.inputs
        ]
        run(device, row.model, inputs, reference(row))


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_a_shader_that_is_wrong_each_time_is_found(device: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    with pytest.raises(VerificationError, match=rf"{row.model.operations[0].code.name}.*: element"):
        run(device, row.model, row.inputs, reference(row), with_wrong_products)


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_no_fault_is_missed(own: VulkanDevice, place: int) -> None:
    row = parse(ROWS[place])
    found = outcomes(own, row.model, row.inputs, reference(row), range(place * FAULTS, (place + 1) * FAULTS))
    assert found["missed"] == 0
    assert found["found"] >= FAULTS // 3


@pytest.mark.numbers
@pytest.mark.parametrize("tile", ["register", "quads", "shared", "subgroup", "vector"])
@pytest.mark.parametrize("place", [0, 8, 10, 16, 23])
def test_no_strategy_raises_an_alarm(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, place: int, tile: str
) -> None:
    row = parse(ROWS[place])
    plan = partial(plan_of, device, row.model, row.inputs, PrepareOptions())
    for _ in forced_strategies(monkeypatch, device, plan, tile):
        for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
            np.testing.assert_array_equal(ours, theirs)


HEADS = (
    "RESHAPE i8[2,7,24]*0.5+3 (2,7,3,8) | TRANSPOSE $ (0,2,1,3) | "
    "BATCH_MATMUL $ i8[2,3,8,12]*0.25-7 false false -> i8*9.5-20 | TRANSPOSE $ (0,2,1,3) | RESHAPE $ (2,7,36)"
)
"""Matrices that lie side by side, so that the product reads and writes them where they are."""


def test_matrices_side_by_side_are_computed_again(device: VulkanDevice) -> None:
    row = parse(HEADS)
    plan = plan_of(device, row.model, row.inputs, VERIFIED)
    assert families(plan)[EXACT.name] == 1
    for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(VerificationError, match="BATCH_MATMUL"):
        run(device, row.model, row.inputs, reference(row), with_wrong_products)


@pytest.mark.parametrize("seed", range(300, 303))
@pytest.mark.parametrize(
    ("code", "leading"),
    [
        (OperationCode.QUANTIZED_LSTM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
        (OperationCode.QUANTIZED_16BIT_LSTM, OperandCode.TENSOR_QUANT8_ASYMM),
    ],
)
def test_sums_of_cells_are_added_up_by_another_shader(
    device: VulkanDevice, code: OperationCode, leading: OperandCode, seed: int
) -> None:
    _, row = next(supported(device, code, leading, range(seed, seed + 10)))
    plan = plan_of(device, row.model, row.inputs, VERIFIED)
    assert families(plan)[EXACT.name] >= 2
    for ours, theirs in zip(run(device, row.model, row.inputs, reference(row)), reference(row), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(VerificationError, match=code.name):
        run(device, row.model, row.inputs, reference(row), with_wrong_sums)


def test_svdf_is_added_up_by_another_shader(device: VulkanDevice) -> None:
    row = parse(
        "QUANTIZED_SVDF i8[2,37]*0.5+3 #i8[4,37]*0.25 #i16[4,5]*0.125 #i32[2]*0 i16[2,20]*0.01 2 -> i16*0.01 i8*0.3"
    )
    assert families(plan_of(device, row.model, row.inputs, VERIFIED))[EXACT.name] == 1


def test_a_device_that_avoids_the_shader_takes_another_strategy(fresh: VulkanDevice) -> None:
    row = parse(ROWS[0])
    fresh.planner.profile = replace(fresh.profile, avoided=frozenset({variant(fresh.profile, "q8").name}))
    found = families(plan_of(fresh, row.model, row.inputs, VERIFIED))
    assert (found[EXACT.name], found["gemm"]) == (0, 2)


def test_long_sums_take_another_strategy(own: VulkanDevice) -> None:
    """Loops of so many rounds are not safe."""
    row = parse("FULLY_CONNECTED i8[1,240001]*0.05-7 i8[4,240001]*0.02+5 i32[4] NONE -> i8*0.08-20")
    assert families(plan_of(own, row.model, row.inputs, VERIFIED))[EXACT.name] == 0
