"""The scales that sums of bytes end with: every form of them is the reference's two roundings, ties and ends too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from builder import Builder

from nnvk.check.model_rows import Row
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.quantised.tensors import SMALL
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import FuseCode, OperandCode, OperationCode, PaddingCode
from nnvk.types.model import Model
from nnvk.types.operand import ChannelQuant, OperandType

pytestmark = pytest.mark.numbers
U8, I8 = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
CHANNELS = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
CONV, DEPTHWISE, FULL = OperationCode.CONV_2D, OperationCode.DEPTHWISE_CONV_2D, OperationCode.FULLY_CONNECTED
DEPTH, OUTPUTS = 7, 67
LARGEST = SMALL - 1 - 9 * DEPTH * 255 * 255
"""All sums stay small beside a bias of at most this magnitude."""
POWERS = tuple(2.0**-power for power in (1, 2, 3, 9, 20, 28, 29, 30))
"""With these many sums lie between two results."""
OTHERS = (0.9999, 0.75, 0.3, 0.01, 1.7e-4, 3e-8, 0.75 * 2**-28, 0.9999 * 2**-29)
TO_BYTES = (*(2.0**-power for power in (3, 4, 7, 11)), 0.2499, 0.2, 0.13, 0.03, 0.0041, 7e-4, 4.9e-4)
"""All of these are in the range of `multiply_to_bytes`."""
TOO_SMALL, TOO_LARGE = (0.75 * 2**-30, 0.75 * 2**-31), (1.0, 1.5, 77.0, 2.0**20)


def biases(rng: np.random.Generator, most: int) -> np.ndarray:
    """Small ones, large ones, and the largest that there may be."""
    powers = 1 << rng.integers(0, 30, OUTPUTS)
    drawn = np.minimum(rng.integers(0, 2 * powers), most) * rng.choice((-1, 1), OUTPUTS)
    drawn[:4] = most, -most, most, 0
    return drawn.astype(np.int32)


def row_of(
    code: OperationCode,
    multipliers: tuple[float, ...],
    *,
    most: int = LARGEST,
    activation: FuseCode = FuseCode.NONE,
    zero: int = -128,
    result: int = -128,
    late: bool = False,
) -> Row:
    """A GEMM whose sums are taken by these multipliers in turn; FULLY_CONNECTED has the first one alone.

    ``zero`` and ``result`` are the zero points of input and output; ``late``: the bias comes with the execution.
    """
    rng, build = np.random.default_rng(len(multipliers)), Builder()
    scales = np.resize(np.array(multipliers, np.float32), OUTPUTS)
    shapes = {
        CONV: ((1, 5, 3, DEPTH), (OUTPUTS, 3, 3, DEPTH)),
        DEPTHWISE: ((1, 5, 3, OUTPUTS), (1, 3, 3, OUTPUTS)),
        FULL: ((3, DEPTH), (OUTPUTS, DEPTH)),
    }
    source, filter_ = shapes[code]
    x = build.operand(OperandType(I8, source, 1.0, zero))
    if code is FULL:
        weights_type = OperandType(I8, filter_, float(scales[0]), 3)
    else:
        channels = ChannelQuant(tuple(scales.tolist()), 3 if code is DEPTHWISE else 0)
        weights_type = OperandType(CHANNELS, filter_, channel_quant=channels)
    weights = build.constant(weights_type, rng.integers(-127, 128, filter_).astype(np.int8))
    bias_type = OperandType(OperandCode.TENSOR_INT32, (OUTPUTS,), float(scales[0]) if code is FULL else 0.0)
    values = biases(rng, most)
    bias = build.operand(bias_type) if late else build.constant(bias_type, values)
    parameters: list[int] = [] if code is FULL else [PaddingCode.SAME, 1, 1]
    parameters += [1] if code is DEPTHWISE else []
    operands = [x, weights, bias, *map(build.value, [*parameters, int(activation)])]
    y = build.operation(code, operands, OperandType(I8, (), 1.0, result))
    inputs = [x, bias] if late else [x]
    data = [rng.integers(-128, 128, source).astype(np.int8), *([values] if late else [])]
    return Row(build.finish(inputs, [y]).frozen, data)


def constant(device: VulkanDevice, model: Model, name: str) -> bool:
    """A specialisation constant of a model's product."""
    shapes = [type_.dimensions for type_ in model.input_types()]
    commands = lower(model, shapes, device.profile, device.planner.library).commands
    constants = [each.shader.named_constants(each.specialization) for each in commands if isinstance(each, Dispatch)]
    (value,) = (each[name] for each in constants if name in each)
    return bool(value)


def small(device: VulkanDevice, model: Model) -> bool:
    """Whether a model's product takes the form for small numbers."""
    return constant(device, model, "SMALL")


@pytest.mark.parametrize("activation", [FuseCode.NONE, FuseCode.RELU, FuseCode.RELU1], ids=lambda each: each.name)
@pytest.mark.parametrize(("zero", "result"), [(-128, -128), (127, 127), (-5, 0), (-128, 11)])
@pytest.mark.parametrize("code", [CONV, DEPTHWISE], ids=lambda code: code.name)
def test_small_multipliers(
    vulkan: VulkanDevice, code: OperationCode, zero: int, result: int, activation: FuseCode
) -> None:
    for multipliers in (POWERS[:-1], OTHERS, (*POWERS[:-1], *OTHERS), TO_BYTES):
        row = row_of(code, multipliers, activation=activation, zero=zero, result=result)
        assert small(vulkan, row.model)
        to_bytes = multipliers is TO_BYTES and vulkan.profile.lacks_high_products
        assert constant(vulkan, row.model, "TO_BYTES") == to_bytes
        check_like_the_reference(vulkan, row, str(multipliers))


@pytest.mark.parametrize("multiplier", [*POWERS, *OTHERS, *TOO_SMALL, *TOO_LARGE])
def test_one_multiplier(vulkan: VulkanDevice, multiplier: float) -> None:
    for activation in (FuseCode.NONE, FuseCode.RELU):
        row = row_of(FULL, (multiplier,), activation=activation, result=-20)
        assert small(vulkan, row.model) == (2.0**-30 <= multiplier < 1.0)
        check_like_the_reference(vulkan, row)


@pytest.mark.parametrize("code", [CONV, DEPTHWISE], ids=lambda code: code.name)
def test_other_multipliers(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, code: OperationCode) -> None:
    """One that is too large or too small, sums that may be too large, and those that nobody knows before.

    The pass that settles channels with such multipliers is disabled.
    """
    profile = replace(vulkan.profile, disabled_passes=vulkan.profile.disabled_passes | {Pass.CHANNELS.value})
    monkeypatch.setattr(vulkan.gpu, "profile", profile)
    monkeypatch.setattr(vulkan.planner, "profile", profile)
    for multipliers in (TOO_SMALL, TOO_LARGE, (*OTHERS, TOO_LARGE[0]), (*OTHERS, TOO_SMALL[0])):
        row = row_of(code, multipliers)
        assert not small(vulkan, row.model)
        check_like_the_reference(vulkan, row, str(multipliers))
    for row in (row_of(code, OTHERS, most=SMALL), row_of(code, OTHERS, late=True)):
        assert not small(vulkan, row.model)
        check_like_the_reference(vulkan, row)


@pytest.mark.parametrize(
    "text",
    [
        "ADD u8[3,7,5]*0.5+0 u8[3,7,5]*0.25+255 NONE -> u8*0.75+128",
        "ADD i8[3,7,5]*0.5+127 i8[5]*0.5-128 RELU -> i8*0.25-128",
        "ADD i8[3,7,5]*0.5-3 i8[3,7,5]*1e-9+4 NONE -> i8*1e-7+0",
        "SUB u8[3,7,5]*0.5+9 u8[3,7,5]*0.5+255 NONE -> u8*64.0+128",
        "SUB i8[3,7,5]*3.0+0 i8[3,1,5]*0.001+100 NONE -> i8*1e-8+3",
        "MUL u8[3,7,5]*0.5+0 u8[3,7,5]*0.25+255 NONE -> u8*0.126+128",
        "MUL i8[3,7,5]*0.5-128 i8[3,7,5]*0.5+127 RELU1 -> i8*128.0-5",
        "PRELU u8[3,7,5]*0.5+99 u8[5]*0.25+255 -> u8*0.5+128",
        "PRELU i8[3,7,5]*0.5+9 i8[3,7,5]*4.0-128 -> i8*0.125+0",
    ],
)
def test_two_tensors(vulkan: VulkanDevice, text: str) -> None:
    """Some multipliers of ADD, SUB, MUL and PRELU are at most 1, and others are larger."""
    check_like_the_reference(vulkan, text)
