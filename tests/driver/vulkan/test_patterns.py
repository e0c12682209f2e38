"""Patterns of operations: the expressions that match, and the predicates that passes share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fused import F16, Net, Op
from rewritten import graph_of

from nnvk.driver.vulkan.planning.passes.patterns import Match, Pattern, are_last, behind_views
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.operand import OperandType

I32 = OperandType(OperandCode.TENSOR_INT32)


def matched(net: Net, y: int, pattern: Pattern) -> Match | None:
    """The match of an output of a model, if there is one."""
    graph = graph_of(net.finish(y))
    match = Match(graph)
    return match if match.matches(graph.nodes[-1].outputs[0], pattern) else None


def test_a_name_stands_for_one_tensor() -> None:
    pattern: Pattern = (Op.ADD, (Op.ABS, "x"), "x")
    for is_same in (True, False):
        net = Net()
        x = net.input(3, 5)
        match = matched(net, net.op(Op.ADD, net.op(Op.ABS, x), x if is_same else net.input(3, 5)), pattern)
        assert (match is not None) == is_same
        if match is not None:
            assert [node.code for node in match.nodes] == [Op.ADD, Op.ABS]
            assert match.named["x"].index == x


def test_an_operation_is_named_once() -> None:
    net = Net()
    y = net.op(Op.ABS, net.input(3, 5))
    match = matched(net, net.op(Op.MUL, y, y), (Op.MUL, (Op.ABS, "x"), (Op.ABS, "x")))
    assert match is not None
    assert [node.code for node in match.nodes] == [Op.MUL, Op.ABS]


@pytest.mark.parametrize(
    ("pattern", "refused", "matches"),
    [
        ((Op.ADD, (Op.ABS, "x"), "y"), None, True),
        ((Op.SUB, (Op.ABS, "x"), "y"), None, False),
        ((Op.ADD, (Op.EXP, "x"), "y"), None, False),
        ((Op.ADD, "x", (Op.ABS, "y")), None, False),  # no operation gives an input of the model
        ((Op.ADD, (Op.ABS, "x"), "y"), Op.ABS, False),
        ((Op.ADD, (Op.ABS, "x"), "y"), Op.MUL, True),
    ],
    ids=str,
)
def test_operations_that_match(pattern: Pattern, refused: Op | None, matches: bool) -> None:
    """The codes are those of the pattern, and each node is accepted."""
    net = Net()
    graph = graph_of(net.finish(net.op(Op.ADD, net.op(Op.ABS, net.input(3, 5)), net.input(3, 5))))
    match = Match(graph, lambda node: node.code is not refused)
    assert match.matches(graph.nodes[-1].outputs[0], pattern) == matches


@pytest.mark.parametrize("activation", [FuseCode.NONE, FuseCode.RELU, FuseCode.RELU6])
def test_an_activation_is_not_part_of_a_pattern(activation: FuseCode) -> None:
    net = Net()
    y = net.op(Op.ADD, net.input(3, 5), net.input(3, 5), net.code(activation))
    assert (matched(net, y, (Op.ADD, "x", "y")) is not None) == (activation is FuseCode.NONE)


@pytest.mark.parametrize(
    ("value", "matches"),
    [([2.0], True), ([[2.0]], True), ([3.0], False), ([2.0, 2.0], False), ([-2.0], False)],
    ids=str,
)
def test_a_number_stands_for_one_constant_of_its_value(value: Sequence[float], matches: bool) -> None:
    net = Net()
    constant = net.build.value(np.array(value, np.float32))
    y = net.op(Op.MUL, net.input(3, 2), constant)
    assert (matched(net, y, (Op.MUL, "x", 2.0)) is not None) == matches


def test_a_number_stands_for_no_input_and_no_integer() -> None:
    net = Net()
    assert matched(net, net.op(Op.MUL, net.input(3, 2), net.input(1)), (Op.MUL, "x", 2.0)) is None
    net = Net()
    x, two = net.input(3, 2, code=OperandCode.TENSOR_INT32), net.build.value(np.array([2], np.int32))
    assert matched(net, net.op(Op.MUL, x, two, type_=I32), (Op.MUL, "x", 2.0)) is None


def test_a_number_is_rounded_to_the_type_of_the_constant() -> None:
    net = Net(real=F16)
    assert matched(net, net.op(Op.MUL, net.input(3, 2), net.scalar(0.1)), (Op.MUL, "x", 0.1)) is not None
    assert float(np.float16(0.1)) != 0.1


def test_views_are_passed_from_the_last_one_back() -> None:
    net = Net()
    y = net.op(Op.RESHAPE, net.op(Op.ABS, net.input(3, 10)), np.array([5, 6], np.int32))
    graph = graph_of(net.finish(net.op(Op.RESHAPE, y, np.array([2, 15], np.int32))))
    absolute, first, second = graph.nodes
    assert behind_views(graph, second.outputs[0]) == ([second, first], absolute)
    assert behind_views(graph, absolute.outputs[0]) == ([], absolute)
    assert behind_views(graph, absolute.inputs[0]) == ([], None)


def test_a_transposition_is_no_view_of_elements_in_order() -> None:
    net = Net()
    graph = graph_of(net.finish(net.op(Op.TRANSPOSE, net.input(3, 5), np.array([1, 0], np.int32))))
    assert behind_views(graph, graph.nodes[0].outputs[0]) == ([], graph.nodes[0])


@pytest.mark.parametrize(
    ("axes", "shape", "are_rows"),
    [
        ((1,), (3, 5), True),
        ((0,), (3, 5), False),
        ((0, 1), (3, 5), True),
        ((1, 2), (2, 3, 5), True),
        ((0, 2), (2, 3, 5), False),
        ((1,), (2, 3, 5), False),
        ((1,), (2, 3, 1), True),  # axes of one element lie anywhere
        ((0, 2), (1, 3, 5), True),
        ((0, 2), (2, 1, 5), True),
        ((0,), (1, 3), True),
        ((0,), (3, 1), True),
        ((), (3, 5), True),
        ((), (), True),
    ],
    ids=str,
)
def test_axes_of_rows(axes: Sequence[int], shape: tuple[int, ...], are_rows: bool) -> None:
    assert are_last(axes, shape) == are_rows
