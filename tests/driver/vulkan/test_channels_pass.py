"""Channels of quantised convolutions whose result is the same for all inputs."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference
from builder import Builder
from profiles import GPU

from nnvk.check.model_rows import Row
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import FuseCode, OperandCode, OperationCode, PaddingCode
from nnvk.types.operand import ChannelQuant, OperandType

pytestmark = pytest.mark.numbers
I8, U8 = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, OperandCode.TENSOR_QUANT8_ASYMM
CONV, DEPTHWISE, GROUPED = (
    OperationCode.CONV_2D,
    OperationCode.DEPTHWISE_CONV_2D,
    OperationCode.GROUPED_CONV_2D,
)
DEAD = [(1e-9, 1 << 30), (1e-9, -(1 << 30)), (2e-11, 12345), (4e-7, 60_000_000), (3e-8, -900_000_000), (1e-30, 7)]
"""Scales of channels and biases that give one result whatever the input is: the largest, the least, or one between."""
ALIVE = [(0.02, 100), (0.005, -9), (2e-5, 1 << 22), (1e-4, 1 << 19), (4e-5, 1 << 20), (3.0, 0)]
"""Those of others, some of which have multipliers or biases of the same kind."""


def row_of(code: OperationCode, some: list[tuple[float, int]], activation: FuseCode, type_: OperandCode) -> Row:
    """A convolution by channels with these scales and biases in turn."""
    outputs, depth = len(some), len(some) if code is DEPTHWISE else 6
    rng, build = np.random.default_rng(outputs), Builder()
    shapes = {CONV: (outputs, 3, 2, depth), DEPTHWISE: (1, 3, 2, outputs), GROUPED: (outputs, 3, 2, depth // 2)}
    shape, middle = shapes[code], 0 if type_ is I8 else 128
    x = build.operand(OperandType(type_, (1, 7, 5, depth), 0.5, middle + 9))
    channels = ChannelQuant(tuple(scale for scale, _ in some), 3 if code is DEPTHWISE else 0)
    filters = build.constant(
        OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, shape, channel_quant=channels),
        rng.integers(-127, 128, shape).astype(np.int8),
    )
    bias = build.constant(
        OperandType(OperandCode.TENSOR_INT32, (outputs,)), np.array([bias for _, bias in some], np.int32)
    )
    others = [1] if code is DEPTHWISE else [2] if code is GROUPED else []
    parameters = [PaddingCode.SAME, 1, 1, *others, int(activation), *([False] if code is GROUPED else [])]
    result = OperandType(type_, (), 0.4, middle - 11)
    y = build.operation(code, [x, filters, bias, *map(build.value, parameters)], result)
    least = middle - 128
    data = rng.integers(least, least + 256, (1, 7, 5, depth)).astype(np.int8 if type_ is I8 else np.uint8)
    data[0, 0], data[0, 1] = least, least + 255
    return Row(build.finish([x], [y]).frozen, [data])


def planned(row: Row) -> tuple[int, dict[str, int]]:
    """How often a plan for a GPU has applied the pass, and the constants of its product."""
    plan = lower(row.model, [array.shape for array in row.inputs], GPU, ShaderLibrary())
    (product,) = (command for command in plan.commands if isinstance(command, Dispatch))
    return plan.applied[Pass.CHANNELS], dict(product.shader.named_constants(product.specialization))


@pytest.mark.parametrize("type_", [I8, U8], ids=lambda type_: type_.name)
@pytest.mark.parametrize("activation", [FuseCode.NONE, FuseCode.RELU, FuseCode.RELU6], ids=lambda each: each.name)
@pytest.mark.parametrize("code", [CONV, DEPTHWISE, GROUPED], ids=lambda code: code.name)
def test_results_stay_the_same(
    vulkan: VulkanDevice, code: OperationCode, activation: FuseCode, type_: OperandCode
) -> None:
    mixed = [each for pair in zip(DEAD, ALIVE, strict=True) for each in pair]
    for some in (mixed, DEAD, [*DEAD, *ALIVE[:2]]):
        check_like_the_reference(vulkan, row_of(code, some, activation, type_))


@pytest.mark.parametrize("code", [CONV, DEPTHWISE, GROUPED], ids=lambda code: code.name)
def test_the_others_get_short_arithmetic(code: OperationCode) -> None:
    applied, found = planned(row_of(code, [*DEAD, *ALIVE[:2]], FuseCode.NONE, I8))
    assert (applied, found["SMALL"]) == (1, 1)


@pytest.mark.parametrize("code", [CONV, DEPTHWISE, GROUPED], ids=lambda code: code.name)
def test_channels_with_several_results_stay_as_they_are(code: OperationCode) -> None:
    """A result of a channel with a large bias, or a small multiplier, depends on the input."""
    applied, found = planned(row_of(code, [*ALIVE, *ALIVE[:2]], FuseCode.NONE, I8))
    assert (applied, found["SMALL"]) == (0, 0)
