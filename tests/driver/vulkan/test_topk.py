"""TOPK_V2 on the GPU: the reference's elements and positions, of equal ones the first."""

import pytest
from against_reference import check_like_the_reference

TYPES = ["f32{}", "f32{}~3", "f16{}~9", "i32{}", "i32{}~5", "u8{}*0.5+120", "i8{}*0.25-7~4"]
SHAPES = ["[1] 1", "[17] 5", "[5,11] 11", "[2,3,31] 7", "[3,509] 499", "[2,4099] 3"]


BLOCKS = ["[3,64] 64", "[3,65] 65", "[1,1024] 1000", "[1,1025] 1025", "[5,2049] 10", "[1,10007] 1000"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type_", TYPES)
def test_like_the_reference(vulkan, type_, shape):
    check(vulkan, type_, shape)


@pytest.mark.parametrize("shape", SHAPES + BLOCKS)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.crossed
def test_blocks_that_workgroups_of_gpus_sort(as_gpu, type_, shape):
    check(as_gpu, type_, shape)


def check(device, type_: str, shape: str) -> None:
    sizes, k = shape.split()
    output = type_.format("").split("~")[0]
    check_like_the_reference(device, f"TOPK_V2 {type_.format(sizes)} {k} -> {output} i32")


def test_rows_that_are_long(vulkan):
    check_like_the_reference(vulkan, "TOPK_V2 f32[200003] 1009 -> f32 i32")
