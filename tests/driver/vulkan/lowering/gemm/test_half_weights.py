"""Weights of 8 bits as floats of 16 or 32 bits, which GPUs with small subgroups get, in all of their forms."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from builder import Builder
from profiles import GPU

from nnvk.check.model_rows import Row, parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.half_weights import Form, form_of
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.codes import OperandCode, OperationCode, PaddingCode
from nnvk.types.operand import OperandType

pytestmark = pytest.mark.numbers
CASES = """
CONV_2D u8[1,5,7,16]*0.05+120 #u8[37,1,1,16]*0.02+131 #i32[37] VALID 1 1 RELU nhwc -> u8*0.08+100
CONV_2D i8[2,5,6,24]*0.05-7 #i8[9,3,2,24]*0.02+5 #i32[9] SAME 1 1 NONE nhwc -> i8*0.3-20
CONV_2D u8[1,9,8,3]*0.05+255 #u8[10,3,3,3]*0.02+0 #i32[10] SAME 2 2 NONE nhwc -> u8*0.2+128
CONV_2D i8[1,19,7,1]*0.05-7 #i8[12,10,4,1]*0.02+5 #i32[12] SAME 2 1 RELU nhwc -> i8*0.3-20
CONV_2D i8[1,7,5,44]*0.05+127 #pc0[36,1,1,44] #i32[36] VALID 1 1 RELU1 nhwc -> i8*0.08-20
GROUPED_CONV_2D u8[1,5,5,16]*0.05+120 #u8[10,3,3,8]*0.02+255 #i32[10] SAME 1 1 2 NONE nhwc -> u8*0.3+100
""".strip().splitlines()
BY_CHANNEL = """
DEPTHWISE_CONV_2D u8[1,11,9,36]*0.05+120 #u8[1,3,3,36]*0.02+131 #i32[36] SAME 1 1 1 RELU nhwc -> u8*0.08+100
DEPTHWISE_CONV_2D i8[2,7,10,7]*0.05-7 #pc3[1,3,3,7] #i32[7] SAME 2 2 1 NONE nhwc -> i8*0.08-20
DEPTHWISE_CONV_2D u8[1,9,11,6]*0.05+0 #u8[1,5,5,12]*0.02+255 #i32[12] VALID 1 1 2 NONE nhwc -> u8*0.08+100
DEPTHWISE_CONV_2D u8[1,17,15,5]*0.05+255 #u8[1,7,7,5]*0.02+0 #i32[5] SAME 1 1 1 NONE nhwc -> u8*0.3+100
""".strip().splitlines()
OTHERS = """
CONV_2D u8[1,5,7,16]*0.05+120 u8[37,1,1,16]*0.02+131 #i32[37] VALID 1 1 RELU nhwc -> u8*0.08+100
CONV_2D u8[1,5,7,16]*0.05+120 #u8[37,1,1,16]*0.02+131 i32[37] VALID 1 1 RELU nhwc -> u8*0.08+100
TRANSPOSE_CONV_2D u8[1,5,5,8]*0.05+120 #u8[6,3,3,8]*0.02+131 #i32[6] 0 1 0 1 2 2 NONE nhwc -> u8*0.3+100
""".strip().splitlines()


def constants(device: VulkanDevice, row: Row) -> dict[str, int]:
    """The specialisation constants of a row's product, if it may have such weights."""
    commands = device.planner.lower(row.model, [array.shape for array in row.inputs]).commands
    every = [each.shader.named_constants(each.specialization) for each in commands if isinstance(each, Dispatch)]
    return next((each for each in every if "HALF_WEIGHTS" in each), {})


def expected_forms(device: DeviceProfile, rows: int) -> list[Form]:
    """The form of weights that are multiplied by so many pixels; none for plain halves."""
    if "shaderInt16" not in device.features:
        return []
    return [Form.FLOAT32 if device.subgroup_size == 16 and rows >= 32 else Form.HIGH_WORDS]


def few_strategies(work: Work, device: DeviceProfile) -> list[Strategy]:
    """The tiles that take such weights, whole and with the first split of K."""
    every = [way for way in candidates(work, device) if way.takes_half_weights(work, device)]
    return list({(way.rows, way.vec4s, way.split_k > 1): way for way in reversed(every)}.values())


@pytest.mark.parametrize("text", CASES, ids=str)
def test_every_tile(small_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    works: list[Work] = []

    def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
        works.append(work)
        return few_strategies(work, device)

    monkeypatch.setattr(gemm, "ranked", ranked)
    found = constants(small_gpu, parse(text))
    assert (found["HALF_WEIGHTS"], found["SHORT_SUMS"]) == (1, 1)
    forms = {"HIGH_WORDS": Form.HIGH_WORDS, "WHOLE_FLOATS": Form.FLOAT32}
    assert [form for name, form in forms.items() if found[name]] == expected_forms(small_gpu.profile, works[0].rows)
    ways = few_strategies(works[0], small_gpu.profile)
    assert len(ways) >= 4
    for way in ways:
        monkeypatch.setattr(gemm, "ranked", lambda *_, way=way: [way])
        check_like_the_reference(small_gpu, text)


@pytest.mark.parametrize("text", BY_CHANNEL, ids=str)
def test_by_channel(small_gpu: VulkanDevice, text: str) -> None:
    assert constants(small_gpu, parse(text))["HALF_WEIGHTS"]
    check_like_the_reference(small_gpu, text)


@pytest.mark.parametrize("text", OTHERS, ids=str)
def test_others_stay_bytes(small_gpu: VulkanDevice, text: str) -> None:
    """Weights or a bias that come with the execution, and filters of which a phase sees a part."""
    assert not constants(small_gpu, parse(text)).get("HALF_WEIGHTS")
    check_like_the_reference(small_gpu, text)


def extreme(depth: int, weight: int, level: int, bias: int = 1 << 24) -> Row:
    """A convolution of large numbers, whose sums are as large as they can be."""
    build, u8 = Builder(), OperandCode.TENSOR_QUANT8_ASYMM
    x = build.operand(OperandType(u8, (1, 3, 7, depth), 0.5, 3))
    filters = np.full((5, 1, 1, depth), weight, np.uint8)
    filters[1, :, :, ::2], filters[2, :, :, : depth // 2] = 255 - weight, 128
    weights = build.constant(OperandType(u8, filters.shape, 0.5, 128), filters)
    biases = np.array([-bias, 1, -1, bias, -9], np.int32)
    y = build.operation(
        OperationCode.CONV_2D,
        [
            x,
            weights,
            build.constant(OperandType(OperandCode.TENSOR_INT32, (5,), 0.25), biases),
            *map(build.value, [PaddingCode.VALID, 1, 1, 0]),
        ],
        OperandType(u8, (), depth * 0.2 * 64, 100),
    )
    values = np.full((1, 3, 7, depth), level, np.uint8)
    values[0, 1] = np.random.default_rng(depth).integers(0, 256, (7, depth))
    return Row(build.finish([x], [y]).frozen, [values])


@pytest.mark.parametrize("level", [255, 0, 254])
@pytest.mark.parametrize("weight", [255, 0])
@pytest.mark.parametrize(("depth", "is_short"), [(512, True), (528, False), (2096, False)])
def test_sums_of_any_length(
    small_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, depth: int, is_short: bool, weight: int, level: int
) -> None:
    """Floats have the partial sums of 512 products of 255 and -128, and not of more: those are carried."""
    monkeypatch.setattr(gemm, "ranked", few_strategies)
    row = extreme(depth, weight, level)
    found = constants(small_gpu, row)
    assert (found["SHORT_SUMS"], found["FLOAT_TOTALS"]) == (is_short, False)
    check_like_the_reference(small_gpu, row)


@pytest.mark.parametrize(("depth", "is_float"), [(480, True), (496, False)])
def test_sums_that_begin_with_the_bias(
    small_gpu: VulkanDevice, monkeypatch: pytest.MonkeyPatch, depth: int, is_float: bool
) -> None:
    """Floats have the sums of 480 products of 255 and -128 and a bias of 800,000, and not of more."""
    monkeypatch.setattr(gemm, "ranked", lambda *given: [way for way in few_strategies(*given) if way.split_k == 1])
    for weight, level in itertools.product((255, 0), (255, 0, 254)):
        row = extreme(depth, weight, level, bias=800_000)
        assert constants(small_gpu, row)["FLOAT_TOTALS"] == is_float
        check_like_the_reference(small_gpu, row)


def test_floats_of_32_bits_are_for_weights_of_many_pixels_that_the_device_can_bind() -> None:
    mali = replace(GPU, subgroup_size=16, features=frozenset({"shaderInt16"}), max_buffer=1 << 20)
    forms = [form_of(mali, rows, count) for rows, count in ((32, 1 << 18), (31, 1 << 18), (32, (1 << 18) + 1))]
    assert forms == [Form.FLOAT32, Form.HIGH_WORDS, Form.HIGH_WORDS]
    assert form_of(replace(mali, features=frozenset()), 32, 4) is Form.FLOAT16
    assert form_of(replace(mali, subgroup_size=32), 32, 4) is Form.HIGH_WORDS
