"""GROUPED_CONV_2D, TRANSPOSE_CONV_2D and BATCH_MATMUL on the GPU: products in parts, by every tile, with every tail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm, tiles
from nnvk.driver.vulkan.lowering.gemm import strategy as strategies
from nnvk.driver.vulkan.lowering.gemm.problem import WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates, ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.tiles.cooperative_matrix import Matrix
from nnvk.driver.vulkan.lowering.gemm.vector import Vector
from nnvk.driver.vulkan.lowering.gemm.weights import are_four_bits
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.request import PrepareOptions

# T is the input; C[shape] is a filter with its bias. Small integers, so that sums of floats are exact in any order.
FILTERS = {
    "f32": ("f32{}~3", "#f32{}~3 #f32[{}]~9", ""),
    "f32, at run time": ("f32{}~3", "f32{}~3 f32[{}]~9", ""),
    "f16": ("f16{}~3", "#f16{}~2 #f16[{}]~9", ""),
    "f16, at run time": ("f16{}~3", "f16{}~2 f16[{}]~9", ""),
    "u8": ("u8{}*0.05+120", "#u8{}*0.02+131 #i32[{}]", " -> u8*0.08+100"),
    "u8, at run time": ("u8{}*0.05+120", "u8{}*0.02+131 i32[{}]", " -> u8*0.08+100"),
    "i8": ("i8{}*0.05-7", "#i8{}*0.02+5 #i32[{}]", " -> i8*0.08-20"),
    "i8, at run time": ("i8{}*0.05-7", "i8{}*0.02+5 i32[{}]", " -> i8*0.08-20"),
    "u8, per channel": ("u8{}*0.05+120", "#pc0{} #i32[{}]", " -> u8*0.08+100"),
    "i8, per channel, at run time": ("i8{}*0.05-7", "pc0{} i32[{}]", " -> i8*0.08-20"),
    "i16": ("i16{}*0.001", "#i8{}*0.02+0 #i32[{}]", " -> i16*0.03"),
    "i16, per channel, 64 bits": ("i16{}*0.001", "#pc0{0} #i32[{2}]", " -> i16*3000"),
    "i16, at run time": ("i16{}*0.001", "i8{0}*0.02+0 i32[{2}]", " -> i16*3000"),
}
CONVOLUTIONS = """
GROUPED_CONV_2D T[1,5,5,3] C[4,3,3,3] SAME 1 1 1 NONE nhwc
GROUPED_CONV_2D T[1,5,7,4] C[4,3,3,2] SAME 1 1 2 RELU nhwc
GROUPED_CONV_2D T[2,5,6,6] C[9,2,3,2] VALID 2 1 3 NONE nhwc
GROUPED_CONV_2D T[1,4,5,12] C[12,1,1,1] SAME 1 1 12 RELU6 nhwc
GROUPED_CONV_2D T[1,1,1,4] C[12,1,1,1] SAME 1 1 4 NONE nhwc
GROUPED_CONV_2D T[1,6,5,8] C[40,3,3,4] 1 0 2 1 1 1 2 NONE nhwc
GROUPED_CONV_2D T[1,3,4,26] C[66,1,2,13] SAME 1 1 2 RELU1 nhwc
GROUPED_CONV_2D T[2,6,5,7] C[3,3,3,2] SAME 1 1 3 NONE nchw
GROUPED_CONV_2D T[1,6,5,7] C[10,2,2,3] SAME 2 2 2 NONE nchw
GROUPED_CONV_2D T[1,16,3,3] C[48,1,1,8] VALID 1 1 2 NONE nchw
TRANSPOSE_CONV_2D T[1,3,4,5] C[2,3,3,5] 0 0 0 0 2 2 NONE nhwc
TRANSPOSE_CONV_2D T[2,3,4,4] C[35,3,2,4] 1 0 0 1 2 3 RELU nhwc
TRANSPOSE_CONV_2D T[1,4,3,8] C[24,2,2,8] (1,8,6,24) SAME 2 2 RELU6 nhwc
TRANSPOSE_CONV_2D T[1,4,3,3] C[5,3,3,3] (1,9,7,5) VALID 2 2 NONE nhwc
TRANSPOSE_CONV_2D T[1,4,3,3] C[5,3,3,3] (1,11,8,5) VALID 2 2 RELU nhwc
TRANSPOSE_CONV_2D T[2,4,3,3] C[18,3,5,3] (2,7,5,18) SAME 2 2 NONE nhwc
TRANSPOSE_CONV_2D T[1,3,3,4] C[3,1,2,4] 0 0 0 0 3 4 NONE nhwc
TRANSPOSE_CONV_2D T[1,1,1,4] C[6,2,2,4] 0 0 0 0 9 7 NONE nhwc
TRANSPOSE_CONV_2D T[1,2,3,3] C[2,8,8,3] 0 0 0 0 8 8 RELU nhwc
TRANSPOSE_CONV_2D T[1,5,6,6] C[33,3,3,6] 1 1 1 1 1 1 NONE nhwc
TRANSPOSE_CONV_2D T[2,3,4,5] C[4,3,3,3] 1 1 1 1 1 2 NONE nchw
TRANSPOSE_CONV_2D T[1,8,5,4] C[33,4,4,8] (1,33,10,8) SAME 2 2 NONE nchw
"""

MATRICES = {
    "f32": ("f32{}~3", "f32{}~3", ""),
    "f32, constant": ("f32{}~3", "#f32{}~3", ""),
    "f16": ("f16{}~3", "f16{}~3", ""),
    "f16, constant": ("f16{}~3", "#f16{}~3", ""),
    "i32": ("i32{}", "i32{}", ""),
    "i8": ("i8{}*0.5+3", "i8{}*0.25-7", " -> i8*9.5-20"),
    "i8, constant": ("i8{}*0.5+3", "#i8{}*0.25-7", " -> i8*9.5-20"),
}
PRODUCTS = """
[1,1] [1,1]
[3,5] [5,7]
[2,7] [7,4] false false
[5,3] [5,7] true false
[3,5] [7,5] false true
[5,3] [7,5] true true
[2,3,5] [2,5,1]
[3,2,1] [3,1,6]
[2,8,16] [2,16,40]
[2,16,9] [2,16,40] true false
[2,3,17,12] [2,3,12,36]
[2,3,17,12] [2,3,36,12] false true
[1,2,12,17] [1,2,33,12] true true
[5,1,1,9] [5,1,9,20]
[70,33] [33,66]
"""


def convolutions() -> Iterator[str]:
    for template in CONVOLUTIONS.strip().splitlines():
        shape, outputs = re.search(r"C(\[([0-9]+).*?\])", template).groups()
        for source, weights, output in FILTERS.values():
            row = template.replace(f"C{shape}", weights.format(shape, outputs, 2 * int(outputs)))
            yield re.sub(r"T(\[.*?\])", lambda match, kind=source: kind.format(match[1]), row, count=1) + output


def products() -> Iterator[str]:
    for template in PRODUCTS.strip().splitlines():
        left, right, *options = template.split()
        for first, second, output in MATRICES.values():
            yield " ".join(["BATCH_MATMUL", first.format(left), second.format(right), *options]) + output


@pytest.mark.parametrize("text", [*convolutions(), *products()], ids=str)
@pytest.mark.crossed
def test_like_the_reference(vulkan: VulkanDevice, text: str) -> None:
    check_like_the_reference(vulkan, text)


EVERY_STRATEGY = """
CONV_2D f32[1,7,5,13]~3 #f32[19,3,3,13]~3 #f32[19]~9 SAME 1 1 RELU nhwc
CONV_2D f16[2,5,7,8]~3 #f16[33,2,3,8]~2 #f16[33]~9 SAME 2 1 NONE nhwc
CONV_2D u8[1,7,11,13]*0.05+120 #u8[19,3,3,13]*0.02+131 #i32[19] SAME 1 1 RELU nhwc -> u8*0.08+100
CONV_2D i8[1,3,5,300]*0.05-7 #pc0[37,1,1,300] #i32[37] SAME 1 1 NONE nhwc -> i8*0.08-20
CONV_2D u8[1,3,5,300]*0.05+0=255 #u8[37,1,1,300]*0.02+255=255 #i32[37] SAME 1 1 NONE nhwc -> u8*0.08+100
CONV_2D u8[1,3,5,300]*0.05+0=255 #u8[37,1,1,300]*0.02+1=255 #i32[37] SAME 1 1 NONE nhwc -> u8*900+100
CONV_2D f32[1,9,17,32]~3 #f32[69,3,3,32]~3 #f32[69]~9 SAME 1 1 NONE nhwc
CONV_2D f32[1,9,17,24]~3 #f32[23,3,2,24]~3 #f32[23]~9 VALID 2 1 NONE nhwc
CONV_2D i8[1,9,15,32]*0.05-7 #pc0[40,3,3,32] #i32[40] SAME 1 1 NONE nhwc -> i8*0.08-20
GROUPED_CONV_2D f32[1,5,6,10]~3 #f32[74,3,2,5]~3 #f32[74]~9 SAME 1 1 2 NONE nhwc
GROUPED_CONV_2D u8[1,5,6,16]*0.05+120 u8[10,3,2,8]*0.02+131 i32[10] SAME 1 1 2 NONE nhwc -> u8*0.08+100
GROUPED_CONV_2D i8[1,5,7,32]*0.05-7 i8[10,3,2,16]*0.02+5 i32[10] SAME 1 1 2 NONE nhwc -> i8*0.08-20
CONV_2D i16[1,7,5,13]*0.001 #i8[19,3,3,13]*0.02+0 #i32[38] SAME 1 1 RELU nhwc -> i16*3000
CONV_2D i16[1,3,5,300]*0.001 #pc0[37,1,1,300] #i32[37] SAME 1 1 NONE nhwc -> i16*0.01
CONV_2D i16[1,3,5,300]*0.001=-32768 #i8[21,3,1,300]*0.02+0=-127 #i32[42]=-1 SAME 1 1 NONE nhwc -> i16*30
FULLY_CONNECTED i16[3,31]*0.001=-32768 #i8[23,31]*0.02+0=127 #i32[46] NONE -> i16*3000
FULLY_CONNECTED i16[3,31]*0.001 #i8[23,31]*0.02+0 #i32[23]~9 NONE -> i16*0.03
FULLY_CONNECTED i16[2,600]*0.001 i8[12,600]*0.02+0 i32[24] NONE -> i16*3000
GROUPED_CONV_2D i16[1,5,6,16]*0.001 #i8[10,3,2,8]*0.02+0 #i32[20]=0 SAME 1 1 2 NONE nhwc -> i16*0.03
TRANSPOSE_CONV_2D i16[2,4,5,3]*0.001 pc0[3,4,3,3] i32[3] 1 0 2 1 3 2 NONE nhwc -> i16*0.03
TRANSPOSE_CONV_2D f16[2,4,5,4]~3 #f16[37,3,4,4]~2 #f16[37]~9 1 0 2 1 2 3 NONE nhwc
TRANSPOSE_CONV_2D f16[1,5,7,16]~3 #f16[37,3,4,16]~2 #f16[37]~9 1 0 2 1 2 3 NONE nhwc
TRANSPOSE_CONV_2D i8[2,4,5,3]*0.05-7 pc0[3,4,3,3] i32[3] 1 0 2 1 3 2 NONE nhwc -> i8*0.08-20
FULLY_CONNECTED f32[3,29]~3 #f32[23,29]~3 #f32[23]~9 NONE
FULLY_CONNECTED u8[3,31]*0.05+120 u8[12,31]*0.02+131 i32[12] RELU -> u8*0.08+100
FULLY_CONNECTED f32[3,29]~3 #f32i8[23,29]+5~3 #f32[23]~9 NONE
FULLY_CONNECTED f32[19,37]~3 #f32i8[45,37]*0.5~3 #f32[45]~9 RELU | ADD $ f32[19,45]~9 RELU1
CONV_2D f32[1,9,17,96]~3 #f32u8[69,1,1,96]+131~3 #f32[69]~9 SAME 1 1 NONE nhwc
CONV_2D i8[1,7,11,13]*0.05-7 #i8[19,3,3,13]*0.02+5~7 #i32[19] SAME 1 1 RELU nhwc -> i8*0.08-20
CONV_2D u8[1,3,5,300]*0.05+120 #u8[37,1,1,300]*0.02+131~7 #i32[37] SAME 1 1 NONE nhwc -> u8*0.08+100
CONV_2D i16[1,3,5,300]*0.001 #i8[37,1,1,300]*0.02+0~7 #i32[37] SAME 1 1 NONE nhwc -> i16*0.01
GROUPED_CONV_2D u8[1,5,6,16]*0.05+120 #u8[10,3,2,8]*0.02+131~7 #i32[10] SAME 1 1 2 NONE nhwc -> u8*0.08+100
TRANSPOSE_CONV_2D i8[2,4,5,3]*0.05-7 #i8[3,4,3,3]*0.02+0~7 #i32[3] 1 0 2 1 3 2 NONE nhwc -> i8*0.08-20
FULLY_CONNECTED i8[3,31]*0.05-7 #i8[45,31]*0.02+0~7 #i32[45] RELU -> i8*0.08-20
FULLY_CONNECTED f32[3,29]~3 #f32i8[23,29]+5~7 #f32[23]~9 NONE
BATCH_MATMUL f32[3,41,24]~3 f32[3,24,68]~3
BATCH_MATMUL i32[3,9,22] #i32[3,5,22] false true
BATCH_MATMUL i8[3,9,22]*0.5+3 i8[3,22,5]*0.25-7 -> i8*9.5-20
BATCH_MATMUL f16[2,35,8]~3 f16[2,8,3]~3
"""
AS_LARGE_AS_CAN_BE = ("f32[1,9,17,", "f16[2,35,8]", "i8[1,9,15,32]", "i16[1,5,6,16]", "i32[3,9,22]")
"""Only these cases use the largest tiles, as drivers take seconds to compile one. The others use the smallest."""
TILES = [each.tile for each in (*tiles.TILES.values(), Vector) if each is not Matrix and not each.follows_depthwise]
"""Those of cooperative matrices have tests of their own, and so have those that follow a depthwise convolution."""


def is_for_large_tiles(text: str) -> bool:
    return text.split()[1].startswith(AS_LARGE_AS_CAN_BE)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=text, marks=() if is_for_large_tiles(text) else pytest.mark.numbers)
        for text in EVERY_STRATEGY.strip().splitlines()
    ],
)
def test_every_strategy(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, tile: str) -> None:
    """Whichever is chosen, a result is the reference's; of bytes that is: bit by bit."""
    work, found = asked_for(vulkan, text)
    offered = list(candidates(work, vulkan.profile))
    assert sorted(map(str, offered)) == sorted(found)
    if tile == "shared":
        offered = shared_on_gpus(work, vulkan.profile)
    forced = extremes([strategy for strategy in offered if strategy.tile == tile], is_for_large_tiles(text))
    if not forced:
        pytest.skip(f"no strategy {tile} for this product on this device")
    # A GPU with many units splits K: by vec4s of channels, of taps, of phases that may have none.
    alone: dict[str, Strategy] = {}
    if all(strategy.splits_k for strategy in forced) and (is_for_large_tiles(text) or text.startswith("TRANSPOSE")):
        alone = {strategy.arithmetic: strategy for strategy in forced}
    for strategy in (*forced, *(replace(each, split_k=3) for each in alone.values())):
        monkeypatch.setattr(gemm, "ranked", lambda work, device, strategy=strategy: [strategy])
        check_like_the_reference(vulkan, text)


@pytest.mark.numbers
@pytest.mark.parametrize("text", re.findall(r"^CONV_2D .*,32\].*", EVERY_STRATEGY, re.MULTILINE))
def test_every_size_of_the_tile_shared(own: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Invocations share out what they load in another way for each."""
    work, _ = asked_for(own, text)
    sizes = {(each.rows, each.local, each.vec4s): each for each in shared_on_gpus(work, own.profile)}
    assert len(sizes) > 10
    for strategy in sizes.values():
        monkeypatch.setattr(gemm, "ranked", lambda work, device, strategy=strategy: [strategy])
        check_like_the_reference(own, text)


AS_THEY_LIE = {
    "BATCH_MATMUL f32[3,41,32]~3 f32[3,32,68]~3": WeightLayout.BY_K,
    "BATCH_MATMUL f32[2,19,37]~3 f32[2,37,36]~3": WeightLayout.BY_K,
    "BATCH_MATMUL f16[2,35,21]~3 f16[2,21,36]~3": WeightLayout.BY_K,
    "BATCH_MATMUL i32[3,9,22] i32[3,22,8]": WeightLayout.BY_K,
    "BATCH_MATMUL f32[3,41,32]~3 f32[3,70,32]~3 false true": WeightLayout.BY_OUTPUTS,
    "BATCH_MATMUL f16[2,35,20]~3 f16[2,23,20]~3 false true": WeightLayout.BY_OUTPUTS,
    "FULLY_CONNECTED f32[33,20]~3 f32[23,20]~3 f32[23]~9 RELU": WeightLayout.BY_OUTPUTS,
    "CONV_2D f32[1,5,6,8]~3 f32[10,1,1,8]~3 f32[10]~9 SAME 2 1 NONE nhwc": WeightLayout.BY_OUTPUTS,
    "BATCH_MATMUL f32[2,5,7]~3 f32[2,7,9]~3": WeightLayout.IN_BLOCKS,
    "BATCH_MATMUL i8[3,9,20]*0.5+3 i8[3,20,8]*0.25-7 -> i8*9.5-20": WeightLayout.IN_BLOCKS,
    "CONV_2D f32[1,5,6,8]~3 f32[8,3,1,8]~3 f32[8]~9 SAME 1 1 NONE nhwc": WeightLayout.IN_BLOCKS,
    "GROUPED_CONV_2D f32[1,5,6,16]~3 f32[8,1,1,8]~3 f32[8]~9 SAME 1 1 2 NONE nhwc": WeightLayout.IN_BLOCKS,
    "TRANSPOSE_CONV_2D f32[1,3,4,8]~3 f32[4,1,1,8]~3 f32[4]~9 0 0 0 0 2 2 NONE nhwc": WeightLayout.IN_BLOCKS,
}
"""How the tile `shared` takes filters that a model computes."""


@pytest.mark.numbers
@pytest.mark.parametrize("text", AS_THEY_LIE)
def test_the_tile_shared_takes_right_matrices_as_they_lie(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Without anything before it; in one part only, in pieces, and with tails of K and of output channels."""
    work, _ = asked_for(vulkan, text)
    # Where a device has no 16-bit floats these are made 32-bit ones before.
    made = work.kind == "f16" and not vulkan.profile.has_native_16
    assert work.order is (WeightLayout.IN_BLOCKS if made else AS_THEY_LIE[text])
    forced = extremes(shared_on_gpus(work, vulkan.profile), large=False)
    split = [replace(each, split_k=pieces) for each in forced[:1] for pieces in (2, 3)]
    for strategy in (*forced, *(each for each in split if each.is_busy(work))):
        assert strategy.packed == (work.order is WeightLayout.IN_BLOCKS)
        monkeypatch.setattr(gemm, "ranked", lambda work, device, strategy=strategy: [strategy])
        check_like_the_reference(vulkan, text)


FOUR_BITS = {
    "CONV_2D i8[1,5,6,3]*0.05-7 #i8[5,3,2,3]*0.02+5=-3 #i32[5] SAME 1 1 NONE nhwc -> i8*0.08-20": True,
    "CONV_2D i8[1,5,6,3]*0.05-7 #i8[5,3,2,3]*0.02+5=12 #i32[5] SAME 1 1 NONE nhwc -> i8*0.08-20": True,
    "CONV_2D i8[1,5,6,3]*0.05-7 #i8[5,3,2,3]*0.02+5=-4 #i32[5] SAME 1 1 NONE nhwc -> i8*0.08-20": False,
    "CONV_2D i8[1,5,6,3]*0.05-7 #i8[5,3,2,3]*0.02+5=13 #i32[5] SAME 1 1 NONE nhwc -> i8*0.08-20": False,
    "CONV_2D u8[1,5,6,3]*0.05+7 #u8[5,3,2,3]*0.02+8~7 #i32[5] SAME 1 1 NONE nhwc -> u8*0.08+20": True,
    "CONV_2D u8[1,5,6,3]*0.05+7 #u8[5,3,2,3]*0.02+7~7 #i32[5] SAME 1 1 NONE nhwc -> u8*0.08+20": False,
    "CONV_2D u8[1,5,6,3]*0.05+7 #u8[5,3,2,3]*0.02+248~7 #i32[5] SAME 1 1 NONE nhwc -> u8*0.08+20": True,
    "CONV_2D u8[1,5,6,3]*0.05+7 #u8[5,3,2,3]*0.02+249~6 #i32[5] SAME 1 1 NONE nhwc -> u8*0.08+20": False,
    "CONV_2D u8[1,5,6,3]*0.05+7 u8[5,3,2,3]*0.02+8~7 i32[5] SAME 1 1 NONE nhwc -> u8*0.08+20": False,
}
"""Whether weights are packed in 4 bits: constant ones within 8 levels of their zero point, where a byte has these."""


@pytest.mark.parametrize("text", FOUR_BITS)
def test_few_levels_of_weights_take_four_bits(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    work, _ = asked_for(vulkan, text)
    every = candidates(work, vulkan.profile)
    packed = next(each for each in every if each.packed and not each.takes_half_weights(work, vulkan.profile))
    monkeypatch.setattr(gemm, "ranked", lambda work, device: [packed])
    dispatch = gemm_of(vulkan, text)
    assert dispatch.shader.constant(dispatch.specialization, "FOUR_BITS") == FOUR_BITS[text]
    if "#" in text:
        taps, outputs, channels = 6, 32, 4
        assert dispatch.tensors["weights"].nbytes == outputs * taps * channels // (2 if FOUR_BITS[text] else 1)
    check_like_the_reference(vulkan, text)


def test_all_levels_of_weights_must_fit_four_bits() -> None:
    """One more level is too much wherever it is, and there may be none."""
    levels = np.full(60, 7, np.int8)
    assert are_four_bits(levels, 128)
    for place in (0, 20, 59):
        far = levels.copy()
        far[place] = 8
        assert not are_four_bits(far, 128)
    assert not are_four_bits(levels[:0], 128)


def asked_for(vulkan: VulkanDevice, text: str) -> tuple[Work, tuple[str, ...]]:
    """The GEMM of a row, and the candidates for it on the device."""
    works: list[Work] = []

    def record(work: Work, device: DeviceProfile) -> list[Strategy]:
        works.append(work)
        return ranked(work, device)

    model = parse(text).model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemm, "ranked", record)
        plan = vulkan.planner.lower(model, [type_.dimensions for type_ in model.input_types()])
    return works[0], plan.choices[0].candidates


def gemm_of(vulkan: VulkanDevice, text: str) -> Dispatch:
    """The only dispatch of gemm.comp in the plan of a row."""
    row = parse(text)
    plan = vulkan.planner.plan(row.model, [array.shape for array in row.inputs], PrepareOptions())
    (found,) = (each for each in plan.commands if isinstance(each, Dispatch) and each.shader.family == "gemm")
    return found


def shared_on_gpus(work: Work, device: DeviceProfile) -> list[Strategy]:
    """The tiles `shared` that a GPU like the device would be offered, with large subgroups if the device has any.

    CPUs and GPUs with small subgroups are not offered all of the tiles.
    """
    lanes = 32 if device.subgroup_size > 1 else 1
    subgroups = dict.fromkeys(("subgroup_size", "smallest_subgroup", "largest_subgroup"), lanes)
    found = candidates(work, replace(device, is_cpu=False, **subgroups))
    return [each for each in found if each.tile == "shared" and each.split_k == 1]


def extremes(strategies: list[Strategy], large: bool) -> list[Strategy]:
    """The smallest of the longest stages among strategies that multiply alike; for the largest tiles also the
    smallest and the largest of all stages."""
    alike: dict[tuple[str, bool, int], list[Strategy]] = {}
    for strategy in sorted(strategies, key=lambda each: (-each.stage, each.vec4s, each.rows)):
        alike.setdefault((strategy.arithmetic, strategy.packed, strategy.stage if large else 0), []).append(strategy)
    ends = ((each[0], each[-1]) if large else each[:1] for each in alike.values())
    return [strategy for each in ends for strategy in dict.fromkeys(each)]


GRIDS = """
CONV_2D f32[1,5,41,24]~3 #f32[66,1,1,24]~3 #f32[66]~9 SAME 1 1 NONE nhwc
CONV_2D i8[1,29,27,3]*0.05-7 #pc0[70,3,3,3] #i32[70] SAME 2 3 NONE nhwc -> i8*0.08-20
GROUPED_CONV_2D f32[1,5,6,66]~3 #f32[66,2,1,3]~3 #f32[66]~9 SAME 1 1 22 NONE nhwc
TRANSPOSE_CONV_2D f32[2,9,8,24]~3 #f32[37,3,4,24]~2 #f32[37]~9 1 0 2 1 1 2 NONE nhwc
BATCH_MATMUL f32[2,135,24]~3 f32[2,24,36]~3
"""


@pytest.mark.parametrize("pixels_inside", [False, True], ids=["channels first", "pixels first"])
@pytest.mark.parametrize("tile", ["register", "shared", "subgroup"])
@pytest.mark.parametrize("text", GRIDS.strip().splitlines())
def test_grids_of_workgroups(
    fresh: VulkanDevice, monkeypatch: pytest.MonkeyPatch, text: str, tile: str, pixels_inside: bool
) -> None:
    """In both orders, with K slices and without, and folded where a dimension may have no more workgroups."""
    if pixels_inside:
        monkeypatch.setattr(strategies, "_MANY_WEIGHTS", 0)
    work, _ = asked_for(fresh, text)
    own = fresh.profile
    smallest = min(
        (each for each in candidates(work, own) if each.tile == tile), key=lambda each: each.size, default=None
    )
    if smallest is None:
        pytest.skip(f"the device does not compute this by the tile {tile}")
    for split_k in (1, 3) if smallest.splits_k else (1,):
        strategy = replace(smallest, split_k=split_k)
        monkeypatch.setattr(gemm, "ranked", lambda work, device, strategy=strategy: [strategy])
        grids = []
        for is_folded in (False, True):
            most = max(grids[0]) - 1 if is_folded else own.max_groups
            monkeypatch.setattr(fresh.planner, "profile", replace(own, max_groups=most))
            dispatch = gemm_of(fresh, text)
            grids.append(dispatch.groups)
            constant = partial(dispatch.shader.constant, dispatch.specialization)
            assert constant("FOLDED") == is_folded
            assert constant("PIXELS_INSIDE") == (pixels_inside and work.rows < work.columns * work.taps)
            check_like_the_reference(fresh, text)


ORDERS = """
CONV_2D f32[2,13,17,8]~3 #f32[101,1,1,8]~3 #f32[101]~9 SAME 1 1 NONE nhwc
GROUPED_CONV_2D f32[1,13,17,12]~3 #f32[202,1,1,6]~3 #f32[202]~9 SAME 1 1 2 NONE nhwc
FULLY_CONNECTED f32[37,1031]~3 #f32[1033,1031]~3 #f32[1033]~9 NONE
BATCH_MATMUL f32[2,37,1031]~3 f32[2,1031,1033]~3
"""


@pytest.mark.parametrize("text", ORDERS.strip().splitlines(), ids=str)
def test_workgroups_go_along_few_weights_or_along_the_input(vulkan: VulkanDevice, text: str) -> None:
    """Part by part."""
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize("shapes", ["[3,7] [7,5]", "[3,7] [7,40]"])
def test_sums_of_integers_wrap_round(vulkan: VulkanDevice, shapes: str) -> None:
    left, right = shapes.split()
    row = parse(f"BATCH_MATMUL i32{left} i32{right}")
    for number, source in enumerate(row.inputs):
        source[:] = np.random.default_rng(number).integers(-(2**31), 2**31, source.shape)
    check_like_the_reference(vulkan, row)


@pytest.mark.parametrize("kind", ["f32", "f16", "i32", "i8*0.5+3"])
def test_a_sum_of_nothing_is_zero(vulkan: VulkanDevice, kind: str) -> None:
    type_, _, quantisation = kind.partition("*")
    scale = f"*{quantisation}" if quantisation else ""
    for columns in (3, 40):
        check_like_the_reference(vulkan, f"BATCH_MATMUL {type_}[2,5,0]{scale} {type_}[2,0,{columns}]{scale}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("BATCH_MATMUL f32[1,270000] f32[270000,1]", "a sum over 1 x 1 x 270000 values takes"),
        ("GROUPED_CONV_2D f32[1,300,300,2] f32[2,290,290,1] f32[2] VALID 1 1 2 NONE nhwc", "a sum over 290 x 290 x 1"),
        ("TRANSPOSE_CONV_2D f32[1,2,2,1] f32[1,900,900,1] f32[1] 0 0 0 0 3 3 NONE nhwc", "a sum over 300 x 300 x 1"),
    ],
)
def test_sums_that_are_too_long_are_refused(vulkan: VulkanDevice, text: str, reason: str) -> None:
    (support,) = vulkan.get_supported_operations(parse(text).model)
    assert support.reason.startswith(reason)


def test_filters_that_few_taps_of_reach_a_pixel(vulkan: VulkanDevice) -> None:
    check_like_the_reference(
        vulkan, "TRANSPOSE_CONV_2D f32[1,2,2,1]~3 #f32[1,260,260,1]~3 #f32[1]~9 0 0 0 0 130 130 NONE nhwc"
    )


def test_more_parts_than_a_dispatch_has_groups(narrow: VulkanDevice) -> None:
    """In one dimension."""
    check_like_the_reference(narrow, "BATCH_MATMUL f32[23,3,5]~3 f32[23,5,40]~3")
    check_like_the_reference(narrow, "BATCH_MATMUL i8[400,3,5]*0.5+3 i8[400,5,4]*0.25-7 -> i8*9.5-20")
