"""Into which tiles depthwise convolutions are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from against_reference import check_like_the_reference
from profiles import DEVICES, EIGHT_LANES, GPU

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import depthwise_conv2d
from nnvk.driver.vulkan.kernels.depthwise_conv2d import DepthwiseTile, tiles
from nnvk.driver.vulkan.lowering.gemm.problem import Gemm
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.window import axis
from nnvk.types.codes import PaddingCode

FEW_REGISTERS = replace(GPU, largest_subgroup=128)


def product_of(size: int, channels: int, *, stride: int = 1, dilation: int = 1) -> Gemm:
    """Windows of 3 x 3 on square images."""
    each = axis("height", size, 3, stride, PaddingCode.SAME, dilation=dilation)
    return Gemm((1, size, size, channels), (1, each.out, each.out, channels), each, each)


def test_a_window_is_held_in_registers_if_it_fits() -> None:
    for device in DEVICES.values():
        assert not any(tile.window_loops for tile in tiles(product_of(30, 8), "f32", device))
        assert [tile.window_loops for tile in tiles(product_of(30, 8, dilation=6), "f32", device)] == [True]


@pytest.mark.parametrize("kind", ["f32", "f16", "q8", "q16"])
def test_a_gpu_with_more_units_than_work_gets_smaller_tiles(kind: str) -> None:
    def pixels(units: int) -> int:
        tile = tiles(product_of(14, 384), kind, replace(GPU, units=units))[0]
        return tile.height * tile.width

    assert pixels(80) < pixels(8) <= pixels(1)


def test_halves_are_multiplied_as_such_on_gpus_where_they_may() -> None:
    def chosen(device: DeviceProfile, float16: bool) -> str:
        return tiles(product_of(14, 384), "f16", device, float16)[0].arithmetic

    assert chosen(GPU, True) == "half"
    assert chosen(GPU, False) == chosen(EIGHT_LANES, True) == "none"


def test_a_cpu_loads_each_value_as_rarely_as_it_can() -> None:
    assert list(map(str, tiles(product_of(56, 64), "f32", EIGHT_LANES))) == ["tiles of 4x28"]


def test_small_subgroups_compute_small_tiles_line_by_line() -> None:
    """The shader has room for four sums."""
    small = replace(GPU, subgroup_size=16)
    for tile in tiles(product_of(14, 384), "f32", small):
        assert tile.by_lines
        assert tile.height * tile.width <= 4
    assert not any(tile.by_lines for tile in tiles(product_of(14, 384), "f32", GPU))


def test_few_registers_hold_small_tiles_and_one_column_at_once() -> None:
    for stride in (1, 2):
        for tile in tiles(product_of(28, 96, stride=stride), "f32", FEW_REGISTERS):
            assert tile.at_once == 1
            assert tile.height <= 2
            assert not tile.by_lines


def test_no_tile_is_larger_than_the_image() -> None:
    for tile in tiles(product_of(3, 8, stride=2), "f32", GPU):
        assert max(tile.height, tile.width) <= 2


CASES = """
DEPTHWISE_CONV_2D f32[2,11,9,36]~3 #f32[1,3,3,36]~3 #f32[36]~9 SAME 1 1 1 RELU6 nhwc
DEPTHWISE_CONV_2D f32[1,12,13,6]~3 #f32[1,3,3,6]~3 #f32[6]~9 SAME 2 2 1 NONE nhwc
DEPTHWISE_CONV_2D f32[1,13,14,4]~3 #f32[1,2,1,4]~3 #f32[4]~9 SAME 3 4 1 NONE nhwc
DEPTHWISE_CONV_2D f16[1,9,11,8]~3 #f16[1,5,5,8]~2 #f16[8]~9 SAME 1 1 1 NONE nhwc
DEPTHWISE_CONV_2D f16[1,5,7,3]~3 #f16[1,3,2,9]~2 #f16[9]~9 VALID 1 1 3 RELU nhwc
DEPTHWISE_CONV_2D u8[1,11,9,36]*0.05+120 #u8[1,3,3,36]*0.02+131 #i32[36] SAME 1 1 1 RELU nhwc -> u8*0.08+100
DEPTHWISE_CONV_2D i8[2,7,10,7]*0.05-7 #pc3[1,3,3,7] #i32[7] SAME 2 2 1 NONE nhwc -> i8*0.08-20
DEPTHWISE_CONV_2D i16[1,7,9,12]*0.001 #i8[1,3,3,12]*0.02+0 #i32[12] SAME 1 1 1 NONE nhwc -> i16*0.03
"""


@pytest.mark.parametrize("text", CASES.strip().splitlines(), ids=str)
def test_every_tile(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Whichever is chosen, on whatever device."""
    every: list[DepthwiseTile] = []

    def record(gemm: Gemm, kind: str, device: object, float16: bool) -> list[DepthwiseTile]:
        every.extend(
            tile for profile in (*DEVICES.values(), FEW_REGISTERS) for tile in tiles(gemm, kind, profile, float16)
        )
        return every

    model = parse(text).model
    with monkeypatch.context() as patch:
        patch.setattr(depthwise_conv2d, "tiles", record)
        vulkan.planner.lower(model, [type_.dimensions for type_ in model.input_types()])
    assert len(set(every)) > 4
    for tile in dict.fromkeys(every):
        monkeypatch.setattr(depthwise_conv2d, "tiles", lambda *rest, tile=tile: [tile])
        check_like_the_reference(vulkan, text)
