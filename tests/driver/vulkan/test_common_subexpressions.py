"""An operation that occurs twice is computed once."""

from __future__ import annotations

import numpy as np
from fused import Net, Op, families, run_both

from nnvk.driver.vulkan import VulkanDevice


def test_the_same_operation(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(3, 5, 7)
    order = np.array([2, 0, 1], np.int32)
    one, two = (net.op(Op.TRANSPOSE, x, order) for _ in range(2))
    y = net.op(Op.GATHER, net.op(Op.MAXIMUM, one, two), net.code(0), np.array([6, 0, 3], np.int32))
    assert families(run_both(vulkan, net.finish(y), net.arrays)).split().count("arrange") == 1


def test_all_that_follows(vulkan: VulkanDevice) -> None:
    """Equal operations on equal results are equal too."""
    net = Net()
    x, rest = net.input(6, 16), (net.weights(8, 16), net.weights(8), net.code(0))
    axis = np.array([0], np.int32)
    one, two = (
        net.op(Op.REDUCE_MAX, net.op(Op.FULLY_CONNECTED, x, *rest), axis, net.build.value(False)) for _ in range(2)
    )
    names = families(run_both(vulkan, net.finish(net.op(Op.SUB, one, two, net.code(0))), net.arrays)).split()
    assert [names.count(name) for name in ("gemm", "fully_connected", "reduce")] in ([1, 0, 1], [0, 1, 1])


def test_outputs_of_the_model_are_both_there(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(6, 16)
    model = net.finish(*(net.op(Op.REDUCE_MAX, x, np.array([0], np.int32), net.build.value(False)) for _ in range(2)))
    assert len(run_both(vulkan, model, net.arrays).output_shapes) == 2


def test_others_are_computed(vulkan: VulkanDevice) -> None:
    """A pool of another tensor or of another size is computed by itself."""
    net = Net()
    x, y = net.input(1, 4, 4, 8), net.input(1, 4, 4, 8)
    pools = [(x, 2), (y, 2), (x, 3), (x, 2)]
    parts = [net.op(Op.MAX_POOL_2D, each, *map(net.code, [1, 1, 1, size, size, 0])) for each, size in pools]
    total = parts[0]
    for part in parts[1:]:
        total = net.op(Op.MAXIMUM, total, part)
    assert families(run_both(vulkan, net.finish(total), net.arrays)).split().count("pool2d") == 3


def test_zeros_of_both_signs_are_told_apart(vulkan: VulkanDevice) -> None:
    net = Net()
    x, pads = net.input(3, 5), np.array([[0, 0], [1, 1]], np.int32)
    padded = [net.op(Op.PAD_V2, x, pads, zero) for zero in (0.0, -0.0)]
    model = net.finish(*(net.op(Op.DIV, net.scalar(1.0), each, net.code(0)) for each in padded))
    run_both(vulkan, model, net.arrays, disabled=frozenset({"cse"}))
