"""Whole numbers of 64 bits in two words on the GPU: the reference's words, and its complaint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.ops.extension.int64 import parted

ANY = "~2147483647"
SHAPES = [("[7]", "[7]"), ("[3,5]", "[5]"), ("[2,1,5]", "[3,1]"), ("[1,3,1,4]", "[2,1,5,4]"), ("[1]", "[2,3]")]
EDGES = np.array(
    [0, 1, -1, 2, -3, 7, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, -(2**32), 2**62 + 1, 2**63 - 1, -(2**63)]
)


@pytest.mark.parametrize("code", ["ADD_INT64", "SUB_INT64", "MUL_INT64", "DIV_INT64", "COMPARE_INT64"])
@pytest.mark.parametrize(("first", "second"), SHAPES)
@pytest.mark.parametrize("wide", ["both", "first", "second", "neither"])
@pytest.mark.crossed
def test_pairs(vulkan: VulkanDevice, code: str, first: str, second: str, wide: str) -> None:
    words = [f"i32{first}{ANY}", f"i32{first}{ANY}" if wide in ("both", "first") else "none"]
    words += [f"i32{second}{ANY}", f"i32{second}{ANY}" if wide in ("both", "second") else "none"]
    results = "i32" if code == "COMPARE_INT64" else "i32 i32"
    check_like_the_reference(vulkan, f"{code} {' '.join(words)} -> {results}")


@pytest.mark.parametrize("code", ["ADD_INT64", "SUB_INT64", "MUL_INT64", "DIV_INT64", "COMPARE_INT64"])
def test_edges(vulkan: VulkanDevice, code: str) -> None:
    """Every number with every other one, at the ends of 32 and 64 bits."""
    size = EDGES.size
    results = "i32" if code == "COMPARE_INT64" else "i32 i32"
    row = parse(f"{code} i32[{size},1] i32[{size},1] i32[{size}] i32[{size}] -> {results}")
    words = parted(EDGES)
    row = replace(row, inputs=(*(word.reshape(-1, 1) for word in words), *words))
    check_like_the_reference(vulkan, row)


FLOATS = [0.0, -0.0, 0.5, -0.99, 1.0, -1.5, 3e9, -3e9, 2.0**31, 2.0**32 + 512, 1e-42, 9.1e18, 9.3e18, -(2.0**63), -1e30]


def test_from_floats(vulkan: VulkanDevice) -> None:
    row = parse(f"FLOAT_TO_INT64 f32[{len(FLOATS) + 3}] -> i32 i32")
    check_like_the_reference(vulkan, replace(row, inputs=(np.array([*FLOATS, np.nan, np.inf, -np.inf], np.float32),)))


def test_to_floats(vulkan: VulkanDevice) -> None:
    """Numbers half-way between two floats, and next to that, go to the nearest and to the even one."""
    float16 = (np.arange(2**24 - 3, 2**24 + 6) * 2**9)[:, np.newaxis] + np.array([-1, 0, 1])
    numbers = np.concatenate(
        [EDGES, float16.reshape(-1), -float16.reshape(-1), np.arange(2**24, 2**24 + 9), float16[:, 1] * 2**28]
    )
    row = parse(f"INT64_TO_FLOAT i32[{numbers.size}] i32[{numbers.size}] -> f32")
    check_like_the_reference(vulkan, replace(row, inputs=tuple(parted(numbers))))


@pytest.mark.parametrize("text", ["INT64_TO_INT32 i32[2,5] none", "INT64_TO_INT32 i32[7]~100 i32[7]=0 false"])
def test_numbers_that_fit(vulkan: VulkanDevice, text: str) -> None:
    row = parse(text)
    if len(row.inputs) == 2:
        row = replace(row, inputs=tuple(parted(row.inputs[0].astype(np.int64))))
    check_like_the_reference(vulkan, row)


@pytest.mark.parametrize(
    ("number", "unsigned", "text"),
    [
        (2**31, "false", r"must be in \[-2147483648, 2147483647\], got 1 \* 2\^32 \+ -2147483648"),
        (-(2**31) - 1, "false", r"got -1 \* 2\^32 \+ 2147483647"),
        (5 * 2**32 + 7, "false", r"got 5 \* 2\^32 \+ 7"),
        (-1, "true", r"must be in \[0, 2147483647\], got 0 \* 2\^32 \+ -1"),
        (2**31, "true", r"got 1 \* 2\^32 \+ -2147483648"),
    ],
)
def test_numbers_that_do_not_fit(vulkan: VulkanDevice, number: int, unsigned: str, text: str) -> None:
    row = parse(f"INT64_TO_INT32 i32[5] i32[5] {unsigned}")
    row = replace(row, inputs=tuple(parted(np.array([1, 2, 3, 4, number]))))
    with pytest.raises(NnapiError, match=text):
        reference(row)
    with pytest.raises(NnapiError, match=text) as raised:
        execute(vulkan, row, empty_like([row.inputs[0]]))
    assert raised.value.code is ResultCode.OP_FAILED
