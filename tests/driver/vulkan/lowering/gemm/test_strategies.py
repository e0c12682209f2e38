"""The cost model chooses a strategy for a GEMM, on devices that need not be there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from profiles import DEVICES, EIGHT_LANES, FOUR_LANES, GPU

from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates, cost, ranked
from nnvk.driver.vulkan.lowering.gemm.tiles.register import Register
from nnvk.driver.vulkan.lowering.gemm.tiles.shared import Shared
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, DeviceProfile

IMAGE = Work("f32", 3136, 64, 1, 9, 64, constant=True, in_order=False, matrix=False)
BYTES = replace(IMAGE, kind="q8")
SHORTS = replace(IMAGE, kind="q16", narrow=True)
MATRIX = Work("f32", 1, 1001, 1, 1, 1280, constant=True, in_order=False, matrix=True)


@pytest.mark.parametrize(
    ("device", "work", "chosen"),
    [
        (EIGHT_LANES, IMAGE, "subgroup 16 in 8x1"),
        (EIGHT_LANES, replace(IMAGE, rows=49), "subgroup 16 in 8x1"),
        (EIGHT_LANES, BYTES, "quads 16x4 in 4x4, bytes by dot"),
        (EIGHT_LANES, replace(SHORTS, depth=16, columns=16), "quads 16x4 in 4x4, bytes by float"),
        (EIGHT_LANES, replace(SHORTS, rows=196), "quads 8x8 in 4x4, bytes by float"),
        (EIGHT_LANES, MATRIX, "register 1x4 in 8x2"),
        (EIGHT_LANES, replace(IMAGE, columns=2), "register 8x4 in 1x16"),
        (FOUR_LANES, IMAGE, "quads 8x8 in 4x4"),
        (FOUR_LANES, BYTES, "quads 8x8 in 4x4, bytes by float"),
        (FOUR_LANES, SHORTS, "quads 8x8 in 4x4, bytes by float"),
        (FOUR_LANES, MATRIX, "register 1x4 in 8x2"),
    ],
)
def test_choices_that_were_measured(device: DeviceProfile, work: Work, chosen: str) -> None:
    assert str(ranked(work, device)[0]) == chosen


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("kind", ["f32", "f16", "i32", "q8", "q16"])
@pytest.mark.parametrize("rows", [1, 7, 50_000])
@pytest.mark.parametrize("columns", [1, 5, 1001])
def test_everything_has_a_strategy_that_the_device_can_run(
    device: DeviceProfile, kind: str, rows: int, columns: int
) -> None:
    work = Work(kind, rows, columns, 3, 9, 7, constant=False, in_order=columns % 4 == 0, matrix=False)
    for strategy in (ways := ranked(work, device)):
        assert strategy.local[0] * strategy.local[1] <= device.max_invocations
        assert kind == "q16" or (strategy.arithmetic != "none") == (kind == "q8")
        assert cost(strategy, work, device) > 0
        if not device.features:
            assert strategy.tile in ("register", "shared")
            assert strategy.arithmetic != "dot"
    assert len(set(map(str, ways))) == len(ways) > 0


@pytest.mark.parametrize("depth", range(0, 300, 7))
def test_no_piece_is_without_work(depth: int) -> None:
    """Each K slice multiplies at least once if its strategy uses shared memory."""
    work = replace(IMAGE, rows=19, taps=1, depth=depth)
    ways = list(candidates(work, GPU))
    for way in ways:
        assert way.is_busy(work) or way.tile != "shared"
    assert any(way.tile == "shared" for way in ways) == (depth > 0)


@pytest.mark.parametrize("work", [BYTES, SHORTS, replace(IMAGE, kind="f16", float16=True)], ids=lambda work: work.kind)
def test_gpus_do_not_swap_what_is_packed(work: Work) -> None:
    """Mesa's compiler for AMD's GPUs, up to version 22, makes an instruction of swap and product that is none."""
    device = replace(GPU, features=GPU.features | {"shaderIntegerDotProduct", "subgroupQuad"})
    ways = {strategy.arithmetic for strategy in candidates(work, device)}
    assert ways & {"dot", "half"}
    swapped = {strategy.arithmetic for strategy in candidates(work, device) if strategy.tile == "quads"}
    assert swapped == ways - {"dot", "half"}


def test_bytes_come_a_texel_at_a_time_where_rounds_are_many() -> None:
    ways = {way.tile: way for way in candidates(BYTES, EIGHT_LANES)}

    def spans(work: Work, device: DeviceProfile = EIGHT_LANES) -> list[int]:
        return [ways[tile].span(work, device) for tile in ("subgroup", "quads", "register", "shared")]

    assert spans(BYTES) == [16, 16, 16, 4]
    assert spans(replace(BYTES, taps=1)) == [16, 4, 4, 4]
    assert spans(replace(BYTES, depth=24)) == [4, 4, 4, 4]
    assert spans(replace(BYTES, depth=6)) == [1, 1, 1, 1]
    assert spans(BYTES, replace(EIGHT_LANES, texel_loads=False)) == [16, 4, 4, 4]
    float16 = Register(8, (8, 2), arithmetic="half")
    assert float16.span(replace(IMAGE, kind="f16", float16=True), GPU) == 8


def test_sums_that_would_take_too_many_rounds_as_floats_take_another_tile() -> None:
    work = Work("q8", 1, 9, 1, 1, 259_000, constant=True, in_order=False, matrix=False)
    assert {strategy.tile for strategy in candidates(work, GPU) if strategy.arithmetic == "float"} == {"shared"}


@pytest.mark.parametrize("units", [2, 8, 100])
def test_a_gpu_with_more_units_gets_smaller_pieces_of_small_images(units: int) -> None:
    """So that all of them have something to do."""

    def size(units: int) -> float:
        chosen = ranked(replace(IMAGE, rows=49), replace(GPU, units=units))[0]
        return math.prod(chosen.size) / chosen.split_k

    assert size(2) >= size(units)


def test_gpus_stage_large_products_in_shared_memory() -> None:
    """With tiles of which each vector that is read is multiplied often, and K in as many pieces as fill the units."""
    gemm = Work("f32", 1024, 1024, 1, 1, 1024, constant=True, in_order=False, matrix=True)
    for units in (8, 64, 80):
        chosen = ranked(gemm, replace(GPU, units=units))[0]
        assert (chosen.tile, chosen.sums) == ("shared", 16)
        groups = chosen.tiles(gemm) * chosen.split_k
        assert groups / (-(-groups // units) * units) > 0.9


def test_k_is_split_where_there_are_few_tiles_for_many_units() -> None:
    deep = Work("f32", 49, 512, 1, 9, 512, constant=True, in_order=False, matrix=False)
    assert ranked(deep, GPU)[0].split_k > 1
    assert ranked(replace(deep, rows=50_000), GPU)[0].split_k == 1
    assert {strategy.split_k for strategy in candidates(deep, EIGHT_LANES)} == {1}


def test_dot_products_of_16_bit_steps_are_for_sums_of_32_bits() -> None:
    for work in (SHORTS, replace(SHORTS, narrow=False)):
        assert {way.arithmetic for way in candidates(work, GPU)} == {"none", "float", *(["dot"] if work.narrow else [])}


@pytest.mark.parametrize("kind", ["f32", "f16", "q8", "q16", "i32"])
def test_gpus_with_small_subgroups_hold_few_registers(kind: str) -> None:
    """Their compilers spill registers of larger tiles. Large ones stay for the others."""
    work = replace(IMAGE, kind=kind)
    held = {
        size: {
            strategy.held
            for strategy in candidates(work, replace(GPU, subgroup_size=size))
            if strategy.tile != "vector"
        }
        for size in (8, 16, 32)
    }
    assert max(held[8] | held[16]) <= 40 < max(held[32])
    assert held[16] == {each for each in held[32] if each <= 40}
    assert Register(2, (8, 8), 2).held == 4 * (4 + 2 + 2)
    assert Shared(32, (16, 8)).held == 4 * (4 + 4 + 1)


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_gpus_with_small_subgroups_multiply_floats_in_registers(kind: str) -> None:
    """Their compilers take more instructions for the addresses of shared memory, and for swaps, than for products."""
    work = Work(kind, 196, 512, 1, 1, 512, constant=True, in_order=False, matrix=False)
    small = replace(GPU, subgroup_size=16, unified_memory=True, units=8)
    chosen = ranked(work, small)[0]
    assert (chosen.tile, chosen.rows, chosen.vec4s) == ("register", 2, 2)
    assert chosen.by_elements(work, small)
    assert chosen.span(work, small) == 4  # VideoCore
    assert not chosen.by_elements(work, GPU)


def test_gpus_with_small_subgroups_convert_bytes_one_after_the_other() -> None:
    """The tiles `shared` and `quads` hold more converted bytes than there are registers."""
    small = replace(GPU, subgroup_size=16, unified_memory=True, units=8, features=GPU.features - {ACCELERATED_DOTS})
    every = ranked(BYTES, small)
    assert {way.arithmetic for way in every} == {"float"}
    assert {way.tile for way in every} == {"register", "shared", "quads"}
    few = [way for way in every if way.tile == "register" and way.vec4s == 1]
    assert every[: len(few)] == few
    assert all(way.by_elements(BYTES, small) == (way.tile == "register") for way in every)


def test_video_core_computes_first_layers_by_few_sums() -> None:
    """Its compiler keeps four vectors of sums in memory there, and weights' addresses of 8 channels everywhere."""
    layer = Work("f32", 112 * 112, 32, 1, 9, 3, constant=True, in_order=False, matrix=False)
    mali = replace(GPU, subgroup_size=16, unified_memory=True, units=2, features=GPU.features | {"shaderInt16"})
    video_core = replace(mali, features=GPU.features - {"shaderInt16"})
    assert ranked(layer, video_core)[0].sums <= 4
    way = next(way for way in candidates(layer, mali) if str(way) == "register 2x8 in 4x16")
    assert cost(way, layer, video_core) > 1.2 * cost(way, layer, mali)
    wide = replace(layer, taps=1, depth=48)
    assert cost(way, wide, video_core) == pytest.approx(cost(way, wide, mali), rel=0.05)
    for depth in (8, 48, 72):
        deep = replace(layer, taps=1, depth=depth)
        assert [way.span(deep, device) for device in (mali, video_core)] == [16 if depth == 48 else 8, 4]


FEW_REGISTERS = replace(GPU, smallest_subgroup=8, unified_memory=True, units=8)


@pytest.mark.parametrize("rows", [196, 784, 3136])
def test_gpus_with_few_registers_hold_fewer_sums(rows: int) -> None:
    work = Work("f32", rows, 512, 1, 1, 512, constant=True, in_order=False, matrix=False)
    few, many = (ranked(work, device)[0] for device in (FEW_REGISTERS, replace(FEW_REGISTERS, smallest_subgroup=32)))
    assert few.tile == many.tile == "shared"
    assert few.sums <= 5 <= many.sums
    assert rows < 784 or few.sums < many.sums


@pytest.mark.parametrize(("least", "most"), [(8, 32), (64, 128)], ids=["Intel", "Adreno"])
def test_gpus_with_few_registers_have_no_tiles_that_are_spilled(least: int, most: int) -> None:
    """Nor windows of depthwise convolutions beside sums, but for bytes on Adreno."""
    device = replace(FEW_REGISTERS, smallest_subgroup=least, largest_subgroup=most)
    for work in (IMAGE, BYTES, replace(IMAGE, taps=1), MATRIX):
        ways = [way for way in candidates(work, device) if way.tile in ("shared", "register", "quads")]
        assert max(way.registers(work) for way in ways) <= (60 if least == 8 else 96)
        assert {"register 4x8 in 4x16", "shared 32x64 in 16x8"} <= {str(way).split(",")[0] for way in ways}
        assert ("shared 40x64 in 16x8" in map(str, ways)) == (work.kind != "q8" and (work.taps == 1 or least == 64))
        behind = [*candidates(replace(work, depthwise=9), device)]
        assert bool(behind) == (work.kind == "q8" and least == 64)


def test_gpus_with_few_registers_convert_bytes_one_after_the_other_without_dot_products() -> None:
    constant = replace(BYTES, can_fold=True)
    slow = replace(FEW_REGISTERS, features=GPU.features - {ACCELERATED_DOTS})
    chosen = ranked(constant, slow)[0]
    assert (chosen.tile, chosen.arithmetic) == ("register", "float")
    assert chosen.takes_half_weights(constant, slow)
    assert max(way.held for way in candidates(constant, slow) if way.tile != "vector") <= 40
    assert not any(way.takes_half_weights(constant, FEW_REGISTERS) for way in candidates(constant, FEW_REGISTERS))


def test_gpus_without_an_instruction_for_dot_products_multiply_bytes_as_floats() -> None:
    slow = replace(GPU, features=GPU.features - {ACCELERATED_DOTS})
    assert {way.arithmetic for way in candidates(BYTES, slow)} == {"float"}
    assert {way.arithmetic for way in candidates(BYTES, GPU)} == {"float", "dot"}
    assert "dot" in {way.arithmetic for way in candidates(BYTES, replace(slow, is_cpu=True))}
