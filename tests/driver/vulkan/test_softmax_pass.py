"""The pass softmax: the scales and masks that it takes, and the operations that it leaves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attention_step import zeros_for_nan
from fused import F16, Net, Op, families, run_both
from profiles import GPU
from rewritten import codes, context_of, graph_of, library, rewritten

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.planning.passes.softmax import fuse_softmax
from nnvk.driver.vulkan.shaders.profile import NATIVE_16
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.operand import OperandType

ROWS, LENGTH = 6, 8
SHAPE = (ROWS, LENGTH)


def fused(net: Net, *outputs: int, **options: Any) -> tuple[list[str], Node]:
    """The operations after the pass, and the last one."""
    graph, count = rewritten(net.finish(*outputs), fuse_softmax, **options)
    assert count == sum(node.code is InternalCode.SOFTMAX_ROWS for node in graph.nodes)
    return codes(graph), graph.nodes[-1]


@pytest.mark.parametrize(
    ("shape", "axis", "is_fused"),
    [
        ((2, 1), -1, True),
        ((1, 1 << 14), -1, True),
        ((1, (1 << 14) + 1), -1, False),
        ((3, 4, 5), 2, True),
        ((3, 4, 5), -2, False),
        ((3, 4, 1), 1, True),
        ((3, 4, 1), -2, True),
        ((4, 3, 2), 1, False),
    ],
    ids=str,
)
def test_rows(shape: tuple[int, ...], axis: int, is_fused: bool) -> None:
    net = Net()
    y = net.op(Op.SOFTMAX, net.input(*shape), 1.0, net.code(axis))
    names, node = fused(net, y)
    assert names == (["SOFTMAX_ROWS"] if is_fused else ["SOFTMAX"])
    if is_fused:
        assert node.call.length == shape[axis]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)], ids=str)
def test_rows_of_nothing(shape: tuple[int, ...]) -> None:
    net = Net()
    model = net.finish(net.op(Op.SOFTMAX, net.input(*shape), 1.0))
    graph, _ = fuse_softmax(graph_of(model), context_of(model))
    assert codes(graph) == (["SOFTMAX_ROWS"] if shape[1] else ["SOFTMAX"])


def test_the_factor() -> None:
    net = Net()
    names, node = fused(net, net.op(Op.SOFTMAX, net.input(*SHAPE), 0.5))
    assert (names, node.call.beta) == (["SOFTMAX_ROWS"], 0.5)


def test_levels_stay() -> None:
    net = Net()
    x = net.input(*SHAPE, code=OperandCode.TENSOR_QUANT8_ASYMM, scale=0.5, zero=3)
    type_ = replace(net.real, code=OperandCode.TENSOR_QUANT8_ASYMM, scale=1 / 256)
    assert fused(net, net.op(Op.SOFTMAX, x, 1.0, type_=type_))[0] == ["SOFTMAX"]


class Scores:
    """Scores with a scale and a mask before a SOFTMAX, in parts that can be exchanged."""

    def __init__(self, **changes: Any) -> None:
        self.net = net = Net()
        change = changes.get
        x = net.input(*SHAPE)
        if change("gemm"):
            x = net.dense(x, LENGTH, LENGTH)
        self.scores = x
        if change("scale", True):
            factor = change("factor", [0.5])
            factor = net.input(1) if factor is None else net.build.value(np.array(factor, np.float32))
            pair = (factor, x) if change("swapped scale") else (x, factor)
            x = net.op(change("scaled by", Op.MUL), *pair, net.code(change("scale's activation", FuseCode.NONE)))
        self.scaled = x
        if change("reshaped"):
            x = net.op(Op.RESHAPE, x, np.array(change("reshaped"), np.int32))
        if change("mask", True):
            mask = net.input(*change("shape", SHAPE))
            pair = (mask, x) if change("swapped mask") else (x, mask)
            x = net.op(Op.ADD, *pair, net.code(change("mask's activation", FuseCode.NONE)))
        self.masked = x
        for _ in range(change("between", 0)):
            x = net.op(Op.ABS, x)
        if change("reshaped after"):
            x = net.op(Op.RESHAPE, x, np.array(change("reshaped after"), np.int32))
        self.result = net.op(Op.SOFTMAX, x, 1.0)


@pytest.mark.parametrize(
    ("changes", "names", "taken"),
    [
        ({}, [], (0.5, True)),
        ({"swapped scale": True}, [], (0.5, True)),
        ({"swapped mask": True}, [], (0.5, True)),
        ({"mask": False}, [], (0.5, False)),
        ({"scale": False}, [], (None, True)),
        ({"scale": False, "mask": False}, [], (None, False)),
        ({"shape": (LENGTH,)}, [], (0.5, True)),
        ({"shape": (ROWS, 1)}, [], (0.5, True)),
        ({"shape": (1,)}, [], (0.5, True)),
        ({"factor": [[0.25]]}, [], (0.25, True)),
        ({"reshaped": (2, 3, LENGTH), "shape": (2, 1, LENGTH)}, ["MUL"], (None, True)),
        ({"reshaped after": (2, 3, LENGTH)}, [], (0.5, True)),
        ({"reshaped after": (3, 2 * LENGTH)}, ["MUL", "ADD"], (None, False)),
        ({"mask": False, "reshaped": (3, 2 * LENGTH)}, [], (0.5, False)),
        ({"factor": [0.5] * LENGTH}, ["MUL"], (None, True)),
        ({"factor": None}, ["MUL"], (None, True)),
        ({"scale's activation": FuseCode.RELU}, ["MUL"], (None, True)),
        ({"mask's activation": FuseCode.RELU}, ["MUL", "ADD"], (None, False)),
        ({"scaled by": Op.DIV}, ["DIV"], (None, True)),
        ({"between": 1}, ["MUL", "ADD", "ABS"], (None, False)),
        # The epilogue of a GEMM scales, and adds what each row has alike.
        ({"gemm": True}, ["FULLY_CONNECTED", "MUL", "ADD"], (None, False)),
        ({"gemm": True, "mask": False}, ["FULLY_CONNECTED", "MUL"], (None, False)),
        ({"gemm": True, "shape": (LENGTH,)}, ["FULLY_CONNECTED", "MUL", "ADD"], (None, False)),
        ({"gemm": True, "shape": (1, LENGTH)}, ["FULLY_CONNECTED", "MUL", "ADD"], (None, False)),
        ({"gemm": True, "shape": (1,)}, ["FULLY_CONNECTED", "MUL", "ADD"], (None, False)),
        ({"gemm": True, "shape": (ROWS, 1)}, ["FULLY_CONNECTED", "MUL"], (None, True)),
    ],
    ids=str,
)
def test_what_a_softmax_takes(changes: dict[str, Any], names: list[str], taken: tuple[float | None, bool]) -> None:
    scores = Scores(**changes)
    found, node = fused(scores.net, scores.result)
    assert [each for each in found if each != "RESHAPE"] == [*names, "SOFTMAX_ROWS"]
    assert (node.call.scale, node.call.mask is not None) == taken


@pytest.mark.parametrize(("seen", "taken"), [("masked", (None, False)), ("scaled", (None, True))])
def test_what_others_read_is_not_taken(seen: str, taken: tuple[float | None, bool]) -> None:
    for is_read in (False, True):
        scores = Scores()
        tensor = getattr(scores, seen)
        other = scores.net.op(Op.TANH, tensor) if is_read else tensor
        graph, _ = rewritten(scores.net.finish(scores.result, other), fuse_softmax)
        (call,) = (node.call for node in graph.nodes if node.code is InternalCode.SOFTMAX_ROWS)
        assert (call.scale, call.mask is not None) == taken


def test_the_scores_are_what_a_gemm_computes() -> None:
    """The other term is the mask if both have the same size. Without a GEMM, a result goes before an input."""
    for other_first in (False, True):
        for gemm in (False, True):
            net = Net()
            x = net.input(ROWS, LENGTH)
            computed = net.dense(x, LENGTH, LENGTH) if gemm else net.op(Op.ABS, x)
            other = net.op(Op.TANH, net.input(*SHAPE)) if gemm else net.input(*SHAPE)
            # A mask for each row and matrix is none that an epilogue could add.
            pair = (other, computed) if other_first else (computed, other)
            total = net.op(Op.ADD, *(net.op(Op.RESHAPE, each, np.array([2, 3, LENGTH], np.int32)) for each in pair))
            graph, _ = rewritten(net.finish(net.op(Op.SOFTMAX, total, 1.0)), fuse_softmax)
            (node,) = (each for each in graph.nodes if each.code is InternalCode.SOFTMAX_ROWS)
            if not gemm:
                producer = graph.producer(graph.producer(node.call.input).call.input)
                assert producer is not None and producer.code is Op.ABS


@pytest.mark.parametrize(("columns", "native", "is_taken"), [(8, False, False), (6, False, True), (6, True, False)])
def test_packed_results_of_gemms_are_not_scaled_there(columns: int, native: bool, is_taken: bool) -> None:
    """16-bit floats lie in pairs without native ones: rows of no whole vec4s have no epilogue."""
    net = Net(real=F16)
    y = net.dense(net.input(ROWS, LENGTH), columns, LENGTH)
    y = net.op(Op.SOFTMAX, net.op(Op.MUL, y, net.scalar(0.5)), 1.0)
    features = library().features if native else library().features - NATIVE_16
    graph, _ = rewritten(net.finish(y), fuse_softmax, profile=replace(GPU, features=features), near=1e-2)
    assert (graph.nodes[-1].call.scale is not None) == is_taken


def test_what_a_device_refuses_stays() -> None:
    scores = Scores()
    model = scores.net.finish(scores.result)

    def refuse(call: Call) -> str | None:
        return "no shader" if call.code is InternalCode.SOFTMAX_ROWS else None

    graph = graph_of(model)
    assert fuse_softmax(graph, context_of(model, refuse=refuse)) == (graph, 0)


@pytest.mark.parametrize("shape", [(5, 7), (3, 8), (2, 3, 260)], ids=str)
def test_zeros_for_nan(vulkan: VulkanDevice, shape: tuple[int, ...]) -> None:
    """As exporters write it for rows that are masked out completely."""
    net = Net()
    scores = net.input(*shape)
    net.arrays[-1][..., 1, :] = -np.inf
    net.arrays[-1][..., 0, 3] = np.nan
    rows = net.op(Op.RESHAPE, scores, np.array([math.prod(shape[:-1]), shape[-1]], np.int32))
    shares = net.op(Op.RESHAPE, net.op(Op.SOFTMAX, rows, 1.0), np.array(shape, np.int32))
    model = net.finish(zeros_for_nan(net, shares, *shape))
    assert families(run_both(vulkan, model, net.arrays, tolerance=1e-6)) == "softmax_rows"


@pytest.mark.parametrize("other", ["number", "tensor", "order", "output"])
def test_what_is_not_zeros_for_nan_stays(other: str) -> None:
    net = Net()
    shares = net.op(Op.SOFTMAX, net.input(*SHAPE), 1.0)
    is_nan = net.op(Op.NOT_EQUAL, shares, shares, type_=OperandType(OperandCode.TENSOR_BOOL8))
    instead = np.full(SHAPE, other == "number", np.float32)
    ways = {"tensor": (instead, net.input(*SHAPE)), "order": (shares, instead)}
    chosen = net.op(Op.SELECT, is_nan, *ways.get(other, (instead, shares)))
    graph, _ = rewritten(net.finish(chosen, *([shares] if other == "output" else [])), fuse_softmax)
    assert codes(graph) == ["SOFTMAX_ROWS", "NOT_EQUAL", "SELECT"]
