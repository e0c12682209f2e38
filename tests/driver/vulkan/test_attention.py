"""SOFTMAX in one pass over each row, with the scores' scale and mask before it."""

from __future__ import annotations

import numpy as np
import pytest
from fused import F16, F32, Net, Op, families, run_both

from nnvk.driver.vulkan import VulkanDevice
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

SHAPES = [(5, 200), (3, 4, 129), (2, 3, 5, 7), (300, 4), (70, 128), (2, 2, 80, 36), (1, 3), (2, 1, 130, 1), (3, 513)]


def softmax(net: Net, x: int, beta: float = 1.0) -> int:
    return net.op(Op.SOFTMAX, x, beta)


def scores(net: Net, batch: int, heads: int, rows: int, columns: int) -> int:
    query, key = net.input(batch, heads, rows, 8), net.input(batch, heads, columns, 8)
    flags = [net.build.value(flag) for flag in (False, True)]
    return net.op(Op.BATCH_MATMUL, query, key, *flags)


TOLERANCES = {F32: 2e-6, F16: 2e-2}
"""Sums in another order differ by a few units in the last place; scores of 16 bits are not rounded before."""
both_kinds = pytest.mark.parametrize("kind", [F32, F16], ids=["f32", "f16"])


def run(vulkan: VulkanDevice, net: Net, *outputs: int) -> list[str]:
    """The shaders that are left."""
    tolerance = TOLERANCES[net.real.code]
    return families(run_both(vulkan, net.finish(*outputs), net.arrays, tolerance=tolerance)).split()


@both_kinds
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.crossed
def test_rows(vulkan: VulkanDevice, shape: tuple[int, ...], beta: float, kind: OperandCode) -> None:
    net = Net(real=kind)
    assert run(vulkan, net, softmax(net, net.input(*shape), beta)) == ["softmax_rows"]


@pytest.mark.parametrize("what", ["another axis", "parts", "logarithms"])
def test_others_take_two_passes(vulkan: VulkanDevice, what: str) -> None:
    net = Net()
    one = net.build.value(1.0)
    if what == "another axis":
        y = net.build.operation(Op.SOFTMAX, [net.input(4, 6, 5), one, net.code(1)], OperandType(F32))
    elif what == "parts":
        y = softmax(net, net.input(2, 40_000))
    else:
        y = net.build.operation(Op.LOG_SOFTMAX, [net.input(4, 6), one, net.code(1)], OperandType(F32))
    assert "softmax_rows" not in run(vulkan, net, y)


@both_kinds
@pytest.mark.parametrize("values", ["masked rows", "infinities", "nothing"])
def test_special_values(vulkan: VulkanDevice, values: str, kind: OperandCode) -> None:
    for length in (5, 150):
        net = Net(real=kind)
        model = net.finish(softmax(net, net.input(4, length)))
        data = np.random.default_rng(0).normal(0, 3, (4, length)).astype(net.real.dtype)
        if values == "masked rows":
            data[0], data[1, ::2] = -np.inf, -np.inf
        elif values == "infinities":
            data[0, 1], data[1, 2], data[2, 3] = np.inf, np.nan, np.finfo(net.real.dtype).min
        run_both(vulkan, model, [data], tolerance=TOLERANCES[kind])


MASKS = {
    "of columns": (1, 1, 1, 130),
    "of rows and columns": (1, 1, 6, 130),
    "of each of a batch": (2, 1, 1, 130),
    "of rows of each of a batch": (2, 1, 6, 130),
    "of heads": (1, 3, 1, 1),
    "of everything": (2, 3, 6, 130),
    "that lie anywhere": (2, 1, 6, 1),
}


@both_kinds
@pytest.mark.parametrize(("scaled", "swapped"), [(False, True), (True, False)], ids=["plain", "scaled"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.crossed
def test_masks_of_what_products_give(
    vulkan: VulkanDevice, mask: str, swapped: bool, scaled: bool, kind: OperandCode
) -> None:
    net = Net(real=kind)
    x = scores(net, 2, 3, 6, 130)
    x = net.op(Op.MUL, x, net.scalar(0.35)) if scaled else x
    pair = (net.input(*MASKS[mask]), x)
    names = run(vulkan, net, softmax(net, net.op(Op.ADD, *(pair if swapped else pair[::-1]))))
    assert names[-1] == "softmax_rows"
    assert "binary" not in names
    assert "unary" not in names


@both_kinds
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.crossed
def test_masks_of_other_scores(vulkan: VulkanDevice, mask: str, kind: OperandCode) -> None:
    net = Net(real=kind)
    x = net.op(Op.MUL, net.scalar(0.35), net.input(2, 3, 6, 130))
    assert run(vulkan, net, softmax(net, net.op(Op.ADD, x, net.input(*MASKS[mask])))) == ["softmax_rows"]


def test_scores_that_others_read_are_there(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.op(Op.MUL, net.input(4, 130), net.scalar(0.35))
    y = net.op(Op.ADD, x, net.input(130))
    assert "softmax_rows" in run(vulkan, net, softmax(net, y), y)
    net = Net()
    x = net.op(Op.MUL, net.input(4, 130), net.scalar(0.35))
    y = net.op(Op.ADD, x, net.input(130))
    assert "softmax_rows" in run(vulkan, net, softmax(net, y), x)


@both_kinds
def test_attention(vulkan: VulkanDevice, kind: OperandCode) -> None:
    """All of it: at most four dispatches where there were ten."""
    net = Net(real=kind)
    x = net.op(Op.ADD, net.op(Op.MUL, scores(net, 1, 2, 16, 16), net.scalar(0.35)), net.input(1, 1, 16, 16))
    flags = [net.build.value(False), net.build.value(False)]
    y = net.op(Op.BATCH_MATMUL, softmax(net, x), net.input(1, 2, 16, 8), *flags)
    names = run(vulkan, net, y)
    assert names.count("softmax_rows") + names.count("attention_tile") == 1
    assert "softmax" not in names
    assert "binary" not in names


@both_kinds
@pytest.mark.parametrize("behind", ["the scale", "the mask", "both"])
def test_views_between(vulkan: VulkanDevice, behind: str, kind: OperandCode) -> None:
    """A mask broadcasts to the shape that the scores have there."""
    net = Net(real=kind)
    x = net.op(Op.MUL, net.input(2, 3, 6, 130), net.scalar(0.35))
    if behind != "the mask":
        x = net.op(Op.RESHAPE, x, np.array([6, 6, 130], np.int32))
    mask = (2, 3, 1, 130) if behind == "the mask" else (6, 1, 130)
    x = net.op(Op.ADD, x, net.input(*mask))
    if behind != "the scale":
        x = net.op(Op.RESHAPE, x, np.array([36, 130], np.int32))
    assert run(vulkan, net, softmax(net, x))[-1] == "softmax_rows"
