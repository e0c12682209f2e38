"""NON_MAX_SUPPRESSION on the GPU: what the reference gives, of more boxes than a dispatch decides on."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.kernels import non_max_suppression

SIZES = [
    ("[1,7,4]^9x7 f32[1,1,7]", 5),
    ("[2,61,4]^31x23 f32[2,3,61]~4", 17),
    ("[1,1009,4]^31x23 f32[1,2,1009]~200", 700),
    ("[2,67,4]^5x3 f32[2,150,67]", 3),
    ("[1,513,4] f32[1,1,513]~9", 513),
]
OPTIONS = ["", "f32[1]=0 1 false 0.0f", "#f32[1]=0.5 1 true 0.0f", "f32[1]=0 0 false 0.5f", "f32[1]=0.25 1 true 2.0f"]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: size[0])
@pytest.mark.crossed
def test_like_the_reference(vulkan: VulkanDevice, size: tuple[str, int], options: str) -> None:
    check(vulkan, size, options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("size", [SIZES[2], SIZES[4]], ids=lambda size: size[0])
def test_large_workgroups_of_gpus(as_gpu: VulkanDevice, size: tuple[str, int], options: str) -> None:
    check(as_gpu, size, options)


def check(device: VulkanDevice, size: tuple[str, int], options: str) -> None:
    given, most = size
    for overlap in (0, 0.5):
        row = f"NON_MAX_SUPPRESSION f32{given} {most} f32[1]={overlap} {options} -> i32 f32 i32"
        check_like_the_reference(device, row)


def test_turns_that_a_dispatch_does_not_come_to(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(non_max_suppression, "MOST_DYNAMIC_ROUNDS", 40)
    row = "NON_MAX_SUPPRESSION f32[1,101,4]^31x23 f32[1,2,101] 71 f32[1]=0.75 f32[1]=0 0 false 0.5f -> i32 f32 i32"
    check_like_the_reference(vulkan, row)


def test_more_boxes_than_a_turn_looks_at(vulkan: VulkanDevice) -> None:
    count = non_max_suppression.MOST + 1
    parameters = "f32[1]=0.5 f32[1]=0 0 false 0.5f"
    row = parse(f"NON_MAX_SUPPRESSION f32[1,{count},4] f32[1,1,{count}] 5 {parameters} -> i32 f32 i32")
    (support,) = vulkan.get_supported_operations(row.model)
    assert support.reason.endswith(f"the shader lets those of at most {count - 1} boxes decay")
