"""The pass pad: the padding that convolutions and pools take, and the padding that stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fused import U8, Net, Op, byte_conv
from rewritten import fused, rewritten

from nnvk.driver.vulkan.planning.passes.pad import fold_pads
from nnvk.types.codes import FuseCode
from nnvk.types.operand import OperandType

BYTES = OperandType(U8, (), 0.05, 128)


@pytest.mark.parametrize(
    ("pads", "value", "folds"),
    [
        (((0, 0), (1, 2), (3, 0), (0, 0)), None, True),
        (((0, 0), (0, 0), (0, 1), (0, 0)), None, True),
        (((1, 0), (0, 0), (0, 1), (0, 0)), None, False),
        (((0, 0), (0, 0), (0, 1), (0, 1)), None, False),
        (((0, 0), (1, 2), (3, 0), (0, 0)), 0.0, True),
        (((0, 0), (1, 2), (3, 0), (0, 0)), -0.0, False),
        (((0, 0), (1, 2), (3, 0), (0, 0)), 1.0, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("nchw", [False, True])
def test_padding_of_convolutions(pads: Sequence[tuple[int, int]], value: float | None, folds: bool, nchw: bool) -> None:
    net = Net()
    table = np.array([pads[0], pads[3], pads[1], pads[2]] if nchw else pads, np.int32)
    shape = (2, 4, 6, 5) if nchw else (2, 6, 5, 4)
    x = net.input(*shape)
    padded = net.op(Op.PAD, x, table) if value is None else net.op(Op.PAD_V2, x, table, value)
    depth = 5 if pads[3][1] else 4
    rest = [*map(net.code, (1, 0, 2, 1, 1, 1, FuseCode.NONE)), net.build.value(nchw)]
    y = net.op(Op.CONV_2D, padded, net.weights(3, 3, 2, depth), net.weights(3), *rest)
    names, count = fused(net, fold_pads, y)
    assert (names, count) == ((["CONV_2D"], 1) if folds else (["PAD" if value is None else "PAD_V2", "CONV_2D"], 0))


@pytest.mark.parametrize("value", [None, 128, 0])
def test_padding_of_bytes_stands_for_zeros_at_the_zero_point(value: int | None) -> None:
    net = Net()
    x, table = (
        net.input(2, 6, 5, 8, code=U8, scale=0.05, zero=128),
        np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32),
    )
    if value is None:
        padded = net.op(Op.PAD, x, table, type_=BYTES)
    else:
        padded = net.op(Op.PAD_V2, x, table, net.code(value), type_=BYTES)
    names, count = fused(net, fold_pads, byte_conv(net, U8, padded, 8, 8, BYTES))
    folds = value != 0
    assert (names, count) == ((["CONV_2D"], 1) if folds else (["PAD_V2", "CONV_2D"], 0))


@pytest.mark.parametrize(
    ("code", "value", "folds"),
    [
        (Op.MAX_POOL_2D, None, True),
        (Op.MAX_POOL_2D, 1.0, True),
        (Op.AVERAGE_POOL_2D, None, True),
        (Op.AVERAGE_POOL_2D, 1.0, False),
    ],
    ids=lambda value: value.name if isinstance(value, Op) else str(value),
)
def test_padding_of_pools(code: Op, value: float | None, folds: bool) -> None:
    """A sum would have its terms in another order if numbers other than zero were around the image."""
    net = Net()
    x, table = net.input(2, 6, 5, 4), np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32)
    padded = net.op(Op.PAD, x, table) if value is None else net.op(Op.PAD_V2, x, table, value)
    y = net.op(code, padded, *map(net.code, (2, 1, 1, 3, 2, 0)))
    graph, count = rewritten(net.finish(y), fold_pads)
    assert count == folds
    if folds:
        (node,) = graph.nodes
        padding = node.call.pool_padding
        assert (padding.top, padding.bottom, padding.left, padding.right) == (1, 2, 3, 0)
        assert padding.value == (value or 0.0)


def test_padding_that_others_read_is_computed_too() -> None:
    net = Net()
    padded = net.op(Op.PAD, net.input(2, 6, 5, 4), np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    names, count = fused(net, fold_pads, net.conv(padded, 4, 4), net.op(Op.TANH, padded))
    assert (names, count) == (["PAD", "CONV_2D", "TANH"], 1)


def test_padding_stays_if_the_device_refuses_the_rest() -> None:
    net = Net()
    padded = net.op(Op.PAD, net.input(2, 6, 5, 4), np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    names, count = fused(net, fold_pads, net.conv(padded, 4, 4), refuse=lambda call: "no shader")
    assert (names, count) == (["PAD", "CONV_2D"], 0)
