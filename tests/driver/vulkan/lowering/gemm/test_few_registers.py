"""Products of floats on GPUs with small subgroups, which compute them in registers, by elements of K."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from fused import Net, Op, families, run_both

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, constrain
from nnvk.types.codes import FuseCode

pytestmark = pytest.mark.numbers
UNROLLED = """
CONV_2D f32[1,9,8,3]~3 #f32[16,3,3,3]~3 #f32[16]~9 SAME 2 2 RELU6 nhwc
CONV_2D f32[2,7,10,1]~3 #f32[10,5,8,1]~3 #f32[10]~9 VALID 1 1 NONE nhwc
CONV_2D f32[1,8,11,4]~3 #f32[12,3,2,4]~3 #f32[12]~9 SAME 1 2 RELU1 nhwc 2 1
CONV_2D f16[1,9,8,3]~3 #f16[16,3,3,3]~3 #f16[16]~9 SAME 2 2 RELU nhwc
CONV_2D f32[1,9,8,3]~3 f32[10,3,3,3]~3 #f32[10]~9 SAME 2 2 NONE nhwc
GROUPED_CONV_2D f32[1,5,6,4]~3 #f32[16,3,3,2]~3 #f32[16]~9 SAME 1 1 2 RELU nhwc
""".strip().splitlines()
OTHERS = """
CONV_2D f32[1,5,7,48]~3 #f32[24,1,1,48]~3 #f32[24]~9 VALID 1 1 RELU6 nhwc
CONV_2D f32[1,7,5,13]~3 #f32[19,3,3,13]~3 #f32[19]~9 SAME 1 1 RELU nhwc
CONV_2D f32[1,9,12,2]~3 #f32[6,1,9,2]~3 #f32[6]~9 SAME 1 1 NONE nhwc
TRANSPOSE_CONV_2D f32[1,4,5,3]~3 #f32[8,3,3,3]~3 #f32[8]~9 0 1 0 1 2 2 RELU6 nhwc
""".strip().splitlines()
"""Taps of many channels, a line of many taps, and phases."""


@pytest.fixture(scope="module", params=[True, False], ids=["16-bit integers", "none"])
def small(request: pytest.FixtureRequest) -> VulkanDevice:
    """A GPU with small subgroups that computes with integers of 16 bits, as Mali, or does not, as VideoCore."""
    device = find_devices()[0][0]
    kept = device.profile.features & {"shaderSignedZeroInfNanPreserveFloat32"} | {"shaderInt16"}
    profile = replace(constrain(device.profile, "mobile-min"), subgroup_size=16, units=8)
    device.gpu.profile = device.planner.profile = replace(profile, features=kept if request.param else frozenset())
    return device


def few_strategies(work: Work, device: DeviceProfile) -> list[Strategy]:
    """The smallest of each form of the tile `register`: vec4s of channels, rows, packed weights, split K."""
    every = [way for way in candidates(work, device) if way.tile == "register"]
    keys = [(way.rows == 1, way.vec4s, way.packed, way.split_k > 1) for way in every]
    return list(dict(zip(reversed(keys), reversed(every), strict=True)).values())


def constants(device: VulkanDevice, text: str) -> dict[str, int]:
    """The specialisation constants of a row's product."""
    row = parse(text)
    commands = device.planner.lower(row.model, [array.shape for array in row.inputs]).commands
    products = [each for each in commands if isinstance(each, Dispatch) and each.shader.family == "gemm"]
    return products[-1].shader.named_constants(products[-1].specialization)


@pytest.mark.parametrize("text", UNROLLED + OTHERS, ids=str)
def test_every_form(small: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The taps of a line are unrolled if they have few channels, in the order of packed weights."""
    ways: list[Strategy] = []

    def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
        ways[:] = few_strategies(work, device)
        return ways

    monkeypatch.setattr(gemm, "ranked", ranked)
    constants(small, text)
    assert {way.vec4s for way in ways} == {1, 2}
    for way in ways:
        monkeypatch.setattr(gemm, "ranked", lambda *_, way=way: [way])
        check_like_the_reference(small, text)
        assert (constants(small, text)["LINE_TAPS"] > 0) == (text in UNROLLED and way.packed)


@pytest.mark.parametrize("activation", [code.name for code in FuseCode])
def test_activations_keep_nan(small: VulkanDevice, activation: str) -> None:
    """Shaders compare where the device preserves NaN, test bits where not, and do nothing without an activation."""
    text = f"CONV_2D f32[1,3,3,1] #f32[5,1,1,1]~3 #f32[5]~9 VALID 1 1 {activation} nhwc"
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, -2.5, -0.75, 0.5, 1.25, 6.25], np.float32).reshape(1, 3, 3, 1)
    check_like_the_reference(small, replace(parse(text), inputs=[x]))
    found = constants(small, text)
    assert found["ACTIVATED"] == (activation != "NONE")
    assert found["PRESERVES_NAN"] == (activation != "NONE" and small.profile.preserves_special)


@pytest.mark.parametrize("vec4s", [1, 2])
@pytest.mark.parametrize("split_k", [1, 2])
def test_residuals_behind_products(
    small: VulkanDevice, monkeypatch: pytest.MonkeyPatch, vec4s: int, split_k: int
) -> None:
    """The place of a result and what an epilogue needs are found after the loop, also of pixels that do not exist."""

    def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
        ways = [way for way in few_strategies(work, device) if way.packed and way.vec4s == vec4s and way.rows > 1]
        return [replace(way, split_k=split_k) for way in ways if way.split_k == 1]

    monkeypatch.setattr(gemm, "ranked", ranked)
    net = Net()
    x = net.input(1, 5, 7, 24)
    y = net.op(Op.TANH, net.op(Op.ADD, net.conv(x, 24, 24, 1), x))
    plan = run_both(small, net.finish(y), net.arrays)
    assert families(plan) == "gemm end"
    (product,) = (command for command in plan.commands if isinstance(command, Dispatch))
    assert product.shader.named_constants(product.specialization)["BY_ELEMENTS"]
