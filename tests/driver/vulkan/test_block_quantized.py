"""BLOCK_QUANTIZED_FULLY_CONNECTED: few and many rows on all plans, and weights that stay 4 bits in device memory."""

from __future__ import annotations

import pytest
from against_reference import check_like_the_reference

from nnvk.check.device import plan_of
from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.shaders.commands import Storage

ROW = (
    "BLOCK_QUANTIZED_FULLY_CONNECTED {type}[{rows},{size}]~3 #i32[{units},{words}]~2147483647 "
    "#f32[{units},{blocks}]~3/64 {block} {zeros} none NONE"
)


def row(rows: int, size: int, units: int, block: int, *, type_: str = "f32", has_zeros: bool = True) -> str:
    """Sums are whole numbers by a power of two, and so the same in any order."""
    blocks = -(-size // block)
    zeros = f"#i32[{units},{-(-blocks // 8)}]~2147483647" if has_zeros else "none"
    words = blocks * block // 8
    return ROW.format(
        type=type_, rows=rows, size=size, units=units, words=words, blocks=blocks, block=block, zeros=zeros
    )


SIZES = [
    row(*sizes, type_=type_, has_zeros=has_zeros)
    for type_ in ("f32", "f16")
    for has_zeros in (True, False)
    for sizes in ((1, 1031, 37, 128), (2, 96, 100, 16), (5, 132, 33, 64), (67, 129, 61, 32), (130, 64, 36, 24))
]


@pytest.mark.parametrize("text", SIZES)
def test_sizes(own: VulkanDevice, text: str) -> None:
    check_like_the_reference(own, text)


@pytest.mark.parametrize("text", SIZES)
def test_sizes_on_gpus(as_gpu: VulkanDevice, text: str) -> None:
    check_like_the_reference(as_gpu, text)


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("rows", [1, 512])
def test_memory(device: VulkanDevice, rows: int, block: int) -> None:
    """A plan has 4 bits for each weight, and no unpacked weights in its arena."""
    size, units = 256, 320
    weights, scales = size * units // 2, 4 * size // block * units
    pages = plan_of(device.planner, parse(row(rows, size, units, block, has_zeros=False))).pages
    assert sum(pages[Storage.CONSTANTS]) <= weights + scales + 4 * units + 1024
    assert sum(pages.get(Storage.ARENA, ())) <= 4 * rows * (size + units) + 1024
