"""Layer normalisation in one pass over each row, in the forms that models compose it in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fused import Net, Op, families, run_both

from nnvk.driver.vulkan import VulkanDevice

Shape = tuple[int, ...]
SHAPES: list[Shape] = [(7, 384), (1, 5, 48), (2, 3, 37), (1, 515), (3, 4, 5, 16), (2, 9000)]
SHAPES += [(300, 20), (259, 33), (300, 2052)]


def mean(net: Net, x: int, *axes: int) -> int:
    return net.op(Op.MEAN, x, np.array(axes or (-1,), np.int32), net.code(1))


def centred(net: Net, x: int) -> int:
    return net.op(Op.SUB, x, mean(net, x))


def inverse(net: Net, x: int, epsilon: float = 1e-5) -> int:
    return net.op(Op.RSQRT, net.op(Op.ADD, mean(net, net.op(Op.MUL, x, x)), net.scalar(epsilon)))


def layer_norm(net: Net, x: int, length: int) -> int:
    less = centred(net, x)
    y = net.op(Op.MUL, net.op(Op.MUL, less, inverse(net, less)), net.weights(length))
    return net.op(Op.ADD, y, net.weights(length))


def without_bias(net: Net, x: int, length: int) -> int:
    less = centred(net, x)
    return net.op(Op.MUL, net.weights(length), net.op(Op.MUL, inverse(net, less), less))


def plain(net: Net, x: int, length: int) -> int:
    less = centred(net, x)
    return net.op(Op.MUL, less, inverse(net, less, 1e-3))


def by_root(net: Net, x: int, length: int) -> int:
    less = centred(net, x)
    variance = mean(net, net.op(Op.POW, less, net.scalar(2.0)))
    y = net.op(Op.DIV, less, net.op(Op.SQRT, net.op(Op.ADD, net.scalar(1e-5), variance)))
    return net.op(Op.ADD, net.weights(length), net.op(Op.MUL, y, net.weights(length)))


def with_weights_first(net: Net, x: int, length: int) -> int:
    """As Keras has it: x times something plus something."""
    mid = mean(net, x)
    scale = net.op(Op.MUL, inverse(net, net.op(Op.SUB, x, mid), 1e-3), net.weights(length))
    return net.op(Op.ADD, net.op(Op.MUL, x, scale), net.op(Op.SUB, net.weights(length), net.op(Op.MUL, mid, scale)))


def by_difference(net: Net, x: int, length: int) -> int:
    """As TFLite has it, whose SQUARED_DIFFERENCE takes the mean away once more."""
    mid = mean(net, x)
    less, again = (net.op(Op.SUB, x, mid) for _ in range(2))
    return net.op(Op.MUL, net.op(Op.MUL, less, inverse(net, again)), net.weights(length))


def root_mean_square(net: Net, x: int, length: int) -> int:
    return net.op(Op.MUL, net.op(Op.MUL, x, inverse(net, x)), net.weights(length))


FORMS: dict[str, Callable[[Net, int, int], int]] = {
    each.__name__: each
    for each in (layer_norm, without_bias, plain, by_root, with_weights_first, by_difference, root_mean_square)
}


def run(vulkan: VulkanDevice, net: Net, *outputs: int) -> str:
    """The shaders that are left; results are near those of each operation by itself, as near as Android's tests ask."""
    return families(run_both(vulkan, net.finish(*outputs), net.arrays, tolerance=1e-5))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.crossed
def test_forms(vulkan: VulkanDevice, form: str, shape: Shape) -> None:
    net = Net()
    assert run(vulkan, net, FORMS[form](net, net.input(*shape), shape[-1])) == "normalize_rows"


def test_several_axes(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(3, 4, 5, 8)
    less = net.op(Op.SUB, x, mean(net, x, 1, 2, 3))
    variance = mean(net, net.op(Op.MUL, less, less), 1, 2, 3)
    y = net.op(Op.MUL, less, net.op(Op.RSQRT, net.op(Op.ADD, variance, net.scalar(1e-5))))
    y = net.op(Op.ADD, net.op(Op.MUL, y, net.weights(4, 5, 8)), net.weights(4, 5, 8))
    assert run(vulkan, net, y) == "normalize_rows"


def test_rows_of_large_numbers(vulkan: VulkanDevice) -> None:
    """The mean is taken away before squares are added up."""
    net = Net()
    model = net.finish(layer_norm(net, net.input(3, 64), 64))
    data = np.random.default_rng(0).normal(1000, 1, (3, 64)).astype(np.float32)
    run_both(vulkan, model, [data], tolerance=1e-3)  # the mean of 1000 has a step of 6e-5


def test_special_values(vulkan: VulkanDevice) -> None:
    net = Net()
    model = net.finish(layer_norm(net, net.input(6, 32), 32))
    data = np.random.default_rng(0).normal(0, 1, (6, 32)).astype(np.float32)
    data[0, 3], data[1, 5], data[2], data[3] = np.nan, np.inf, 0.0, 7.0
    data[4] *= 1e18
    run_both(vulkan, model, [data], tolerance=1e-5)


@pytest.mark.parametrize("what", ["mean", "inverse", "less", "normalised"])
def test_what_others_read_is_there(vulkan: VulkanDevice, what: str) -> None:
    net = Net()
    x = net.input(5, 48)
    mid = mean(net, x)
    less = net.op(Op.SUB, x, mid)
    root = inverse(net, less)
    normalised = net.op(Op.MUL, less, root)
    y = net.op(Op.MUL, normalised, net.weights(48))
    seen = {"mean": mid, "inverse": root, "less": less, "normalised": normalised}[what]
    names = run(vulkan, net, y, seen)
    assert ("normalize_rows" in names) == (what == "normalised")


@pytest.mark.parametrize(("exponent", "is_square"), [(2.0, True), (4.0, False)])
def test_the_exponent_must_be_2(vulkan: VulkanDevice, exponent: float, is_square: bool) -> None:
    net = Net()
    less = centred(net, net.input(6, 48))
    power = mean(net, net.op(Op.POW, less, net.scalar(exponent)))
    y = net.op(Op.DIV, less, net.op(Op.SQRT, net.op(Op.ADD, power, net.scalar(1e-5))))
    assert ("normalize_rows" in run(vulkan, net, y)) == is_square


def test_others_stay_as_they_are(vulkan: VulkanDevice) -> None:
    """Along another axis, with an activation, with weights for each row, of another mean."""
    net = Net()
    x = net.input(6, 48)
    less = net.op(Op.SUB, x, mean(net, x, 0))
    root = net.op(Op.RSQRT, net.op(Op.ADD, mean(net, net.op(Op.MUL, less, less), 0), net.scalar(1e-5)))
    assert "normalize_rows" not in run(vulkan, net, net.op(Op.MUL, less, root))
    net = Net()
    x = net.input(6, 48)
    less = net.op(Op.SUB, x, mean(net, net.input(6, 48)))
    assert run(vulkan, net, net.op(Op.MUL, less, inverse(net, less))).endswith("normalize_rows")
    net = Net()
    less = centred(net, net.input(6, 48))
    y = net.op(Op.MUL, net.op(Op.MUL, less, inverse(net, less)), net.weights(6, 1))
    assert run(vulkan, net, y) == "normalize_rows binary"


def test_amid_a_network(vulkan: VulkanDevice) -> None:
    """GEMMs before and behind, and what is normalised goes around it."""
    net = Net()
    x = net.dense(net.input(9, 32), 48, 32)
    y = net.dense(layer_norm(net, x, 48), 48, 48)
    y = layer_norm(net, net.op(Op.ADD, y, x), 48)
    names = run(vulkan, net, y)
    assert names.count("normalize_rows") == 2
    assert len(names.replace(" end", "").split()) == 4


@pytest.mark.parametrize("residual", [False, True])
def test_channels_first(vulkan: VulkanDevice, residual: bool) -> None:
    """Along the channels of images between convolutions, in NCHW order: nothing is transposed."""
    net = Net()
    first = nchw_conv(net, net.input(1, 8, 6, 5), 24, 8)
    x = net.op(Op.ADD, first, nchw_conv(net, first, 24, 24)) if residual else first
    less = net.op(Op.SUB, x, mean(net, x, 1))
    root = net.op(Op.RSQRT, net.op(Op.ADD, mean(net, net.op(Op.MUL, less, less), 1), net.scalar(1e-6)))
    y = net.op(Op.MUL, net.op(Op.MUL, less, root), net.weights(24, 1, 1))
    y = nchw_conv(net, net.op(Op.ADD, y, net.weights(24, 1, 1)), 8, 24)
    names = run(vulkan, net, y).split()
    assert "normalize_rows" in names
    assert names.count("arrange") == 2  # of the model's input and output


def nchw_conv(net: Net, x: int, outputs: int, depth: int) -> int:
    rest = [net.code(each) for each in (1, 1, 1, 0)]
    return net.op(Op.CONV_2D, x, net.weights(outputs, 3, 3, depth), net.weights(outputs), *rest, net.build.value(True))
