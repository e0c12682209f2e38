"""GATHER_ND and SCATTER_ND on the GPU: what the reference gives, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels.scatter_nd import FEW, MOST

TYPES = ["f32{}", "f16{}", "i32{}", "b8{}", "u8{}*0.5+120", "i8{}*0.25-7", "i16{}*0.5"]
GATHERED = [
    ("[7]", "(6;0;-1)"),
    ("[3,5]", "(2,4;0,-5;-3,1)"),
    ("[3,5,8]", "@(2;-3;1;1)"),
    ("[3,5,7]", "@(2,4;0,-5)"),
    ("[2,3,2,5]", "@(1,2,0;0,-1,-2;0,0,1)"),
    ("[3,5,2]", "(4;0;-5) 1"),
    ("[3,5,2]", "@(4,1;0,0;-5,1) 1"),
]
SCATTERED = [
    ("[7]", "[5]", "(6;0;-1;2;0)"),
    ("[3,5]", "[3]", "@(2,4;2,-1;-3,1)"),
    ("[3,4]", "[5,4]", "@(2;0;2;-1;1)"),
    ("[4,3,7]", "[6,7]", "@(2,1;0,0;-2,1;3,-1;3,2;2,1)"),
    ("[4,3,7]", "[6,7]", "(2,1;0,0;-2,1;3,-1;3,2;2,1)"),
]


@pytest.mark.parametrize("text", [f"GATHER_ND {t.format(s)} {i}" for t in TYPES for s, i in GATHERED])
def test_gather_nd(vulkan: VulkanDevice, text: str) -> None:
    check_like_the_reference(vulkan, text)


@pytest.mark.parametrize("reduction", range(5))
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.crossed
def test_scatter_nd(vulkan: VulkanDevice, type_: str, reduction: int) -> None:
    if reduction > 1 and type_ not in TYPES[:3]:
        pytest.skip("defined for numbers")
    for shape, updates, indices in SCATTERED:
        row = f"SCATTER_ND {type_.format(shape)} {indices} {type_.format(updates)} {reduction} -> same"
        check_like_the_reference(vulkan, row)


@pytest.mark.parametrize("type_", TYPES)
def test_scatter_nd_into_zeros(vulkan: VulkanDevice, type_: str) -> None:
    for shape, updates, indices in SCATTERED:
        sizes = shape.replace("[", "(").replace("]", ")")
        output = type_.format("")
        check_like_the_reference(vulkan, f"SCATTER_ND {indices} {type_.format(updates)} {sizes} -> {output}")


def test_many_updates_of_one_place_are_added_in_their_order(vulkan: VulkanDevice) -> None:
    row = parse("SCATTER_ND f32[3] i32[1000,1]~1 f32[1000] 1 -> same")
    outputs = empty_like(reference(row))
    execute(vulkan, row, outputs)
    np.testing.assert_array_equal(outputs, reference(row))


@pytest.mark.parametrize("indices", ["i32[70001,1]~2", "#i32[70001,1]~2"])
def test_of_any_number_of_updates_the_last_counts(vulkan: VulkanDevice, indices: str) -> None:
    check_like_the_reference(vulkan, f"SCATTER_ND f32[3] {indices} f32[70001] 0 -> same")


ROWS = [(3, 64), (7, 66), (5, 63), (11, 8), (2, 1), (2, 2), (2, 5)]


@pytest.mark.parametrize("type_", ["f32{}", "f16{}", "u8{}*0.5+120"])
def test_rows_of_any_units(vulkan: VulkanDevice, type_: str) -> None:
    for size, inner in ROWS:
        source, updates = type_.format(f"[{size},3,{inner}]"), type_.format(f"[23,{inner}]")
        check_like_the_reference(vulkan, f"GATHER {source} 1 i32[29]<3")
        check_like_the_reference(vulkan, f"GATHER {source} 0 #i32[29]<{size}")
        indices = f"i32[23,2]~{min(size, 3) - 1}"
        check_like_the_reference(vulkan, f"GATHER_ND {source} {indices}")
        for reduction in range(2):
            check_like_the_reference(vulkan, f"SCATTER_ND {source} {indices} {updates} {reduction} -> same")
        indices, updates = f"i32[{FEW + 1},2]~{min(size, 3) - 1}", type_.format(f"[{FEW + 1},{inner}]")
        check_like_the_reference(vulkan, f"SCATTER_ND {source} {indices} {updates} 0 -> same")


def test_indices_of_rows_without_elements(vulkan: VulkanDevice) -> None:
    row = parse("GATHER f32[3,0] 0 @(0,3) -> f32")
    with pytest.raises(NnapiError, match="got 3"):
        execute(vulkan, row, [np.zeros(4, np.float32)])


def test_more_updates_than_an_invocation_may_combine(vulkan: VulkanDevice) -> None:
    row = parse(f"SCATTER_ND f32[3] i32[{MOST + 1},1]~1 f32[{MOST + 1}] 1 -> same")
    (support,) = vulkan.get_supported_operations(row.model)
    assert support.reason == f"there are {MOST + 1} updates, the shader combines at most {MOST}"


@pytest.mark.parametrize(
    "text",
    [
        "GATHER_ND f32[3,5] @(2,4;0,5)",
        "GATHER_ND f32[3,5] @(-4,0;0,0)",
        "GATHER_ND f32[3,5] @(0;5;0) 1",
        "SCATTER_ND f32[3,5] @(2,4;0,5) f32[2] 1 -> same",
        "SCATTER_ND f32[3,5] @(2,4;0,5) f32[2] 0 -> same",
        "SCATTER_ND @(3;0) f32[2,5] (3,5) -> f32",
    ],
)
def test_indices_out_of_range(vulkan: VulkanDevice, text: str) -> None:
    row = parse(text)
    with pytest.raises(NnapiError) as expected:
        reference(row)
    with pytest.raises(NnapiError) as error:
        execute(vulkan, row, [np.zeros(64, np.float32)])
    assert error.value.code is ResultCode.OP_FAILED
    assert error.value.reason.split(", got")[1] == expected.value.reason.split(", got")[1]
