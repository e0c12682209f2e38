"""Planning a model takes work in proportion to its size, whatever it consists of: calls are counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest
from fused import F32, Net, Op

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

SHAPE = (1, 8, 8, 8)
SMALL, GROWTH = 40, 4
"""Rounds of the smaller model, and how many times as many the larger one has."""


def convolutions(net: Net, x: int) -> int:
    y = net.op(Op.HARD_SWISH, net.conv(x, 8, 8, 1))
    return net.op(Op.RELU, net.op(Op.ADD, y, x))


def elements(net: Net, x: int) -> int:
    return net.op(Op.TANH, net.op(Op.MUL, net.op(Op.ABS, x), net.scalar(0.5)))


def transposes(net: Net, x: int) -> int:
    there, back = np.array([0, 2, 3, 1], np.int32), np.array([0, 3, 1, 2], np.int32)
    return net.op(Op.TRANSPOSE, net.op(Op.ABS, net.op(Op.TRANSPOSE, x, there)), back)


def parts(net: Net, x: int) -> int:
    a, b = net.build.outputs(Op.SPLIT, [x, net.code(1), net.code(2)], *[OperandType(F32)] * 2)
    return net.build.operation(Op.CONCATENATION, [net.op(Op.ABS, b), a, net.code(1)], OperandType(F32))


def norms(net: Net, x: int) -> int:
    def mean(of: int) -> int:
        return net.op(Op.MEAN, of, np.array([1, 2, 3], np.int32), net.code(1))

    less = net.op(Op.SUB, x, mean(x))
    variance = net.op(Op.ADD, mean(net.op(Op.MUL, less, less)), net.scalar(1e-5))
    return net.op(Op.MUL, less, net.op(Op.RSQRT, variance))


def _repeated(round_: Callable[[Net, int], int], count: int) -> Model:
    net = Net()
    x = net.input(*SHAPE)
    for _ in range(count):
        x = round_(net, x)
    return net.finish(x)


def wide(count: int) -> Model:
    """One tensor that everybody reads, and one that everybody gives something to."""
    net = Net()
    x = net.input(*SHAPE)
    begin, size = np.zeros(4, np.int32), np.array([1, 4, 8, 8], np.int32)
    every = [net.op(Op.SLICE, x, begin, size) for _ in range(count)]
    every += [net.op(Op.ABS, x) for _ in range(count)]
    return net.finish(net.build.operation(Op.CONCATENATION, [*every, net.code(1)], OperandType(F32)))


MODELS: dict[str, Callable[[int], Model]] = {
    each.__name__: lambda count, each=each: _repeated(each, count)
    for each in (convolutions, elements, transposes, parts, norms)
}
MODELS["wide"] = wide


def calls(device: VulkanDevice, model: Model) -> int:
    """Calls of functions, Python's and built-in ones, that planning a model takes."""
    count = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        lower(model, [SHAPE], device.profile, device.planner.library)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", MODELS)
def test_work_grows_with_the_model(own: VulkanDevice, name: str) -> None:
    calls(own, MODELS[name](2))  # what is done once
    small, large = (calls(own, MODELS[name](count)) for count in (SMALL, SMALL * GROWTH))
    assert large <= 1.25 * GROWTH * small, (small, large)
