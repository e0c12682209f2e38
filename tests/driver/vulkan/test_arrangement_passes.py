"""Passes on transpositions, layouts and views: the operations that they rewrite and leave, without a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fused import U8, Net, Op, byte_conv, joined, multiplied, shaped, split, transposed
from rewritten import codes, fused, nchw_conv, rewritten

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.passes.heads import write_heads
from nnvk.driver.vulkan.planning.passes.layouts import legalise_layouts
from nnvk.driver.vulkan.planning.passes.quantisation import legalise_quantisation
from nnvk.driver.vulkan.planning.passes.transposes import move_transposes
from nnvk.types.codes import OperandCode
from nnvk.types.operand import OperandType

BOOL = OperandType(OperandCode.TENSOR_BOOL8)

# --- transpositions ----------------------------------------------------------------------------------------------


def moved(net: Net, *outputs: int) -> tuple[list[str], int]:
    return fused(net, move_transposes, *outputs)


def test_two_transpositions_become_one_or_none() -> None:
    net = Net()
    x = net.input(2, 3, 5)
    assert moved(net, transposed(net, transposed(net, x, 2, 0, 1), 1, 2, 0))[0] == ["VIEW"]
    net = Net()
    x = net.input(2, 3, 5)
    assert moved(net, transposed(net, transposed(net, x, 2, 0, 1), 2, 0, 1))[0] == ["ARRANGE"]


def test_a_transposition_and_a_reshape_by_themselves_stay() -> None:
    net = Net()
    x = net.input(2, 3, 5)
    assert moved(net, net.op(Op.RESHAPE, x, np.array([6, 5], np.int32)), transposed(net, x, 2, 0, 1)) == (
        ["RESHAPE", "TRANSPOSE"],
        0,
    )


def flat(net: Net, x: int) -> int:
    return shaped(net, "float32", x, 6, 20)


def swapped(net: Net, x: int) -> int:
    return transposed(net, x, 0, 2, 1, 3)


def peak(net: Net, x: int) -> int:
    return net.op(Op.REDUCE_MAX, x, np.array([1], np.int32), net.build.value(True))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda net, x: [transposed(net, flat(net, x), 1, 0)], (["ARRANGE"], 1)),
        (lambda net, x: [flat(net, swapped(net, x))], (["ARRANGE"], 1)),
        (lambda net, x: [transposed(net, shaped(net, "float32", swapped(net, x), 8, 15), 1, 0)], (["ARRANGE"], 2)),
        (
            lambda net, x: [shaped(net, "float32", transposed(net, flat(net, x), 1, 0), 20, 3, 2)],
            (["ARRANGE"], 2),
        ),
        (lambda net, x: [shaped(net, "float32", flat(net, x), 60, 2)], (["RESHAPE", "RESHAPE"], 0)),
        (lambda net, x: [peak(net, y := swapped(net, x)), flat(net, y)], (["TRANSPOSE", "REDUCE_MAX", "RESHAPE"], 0)),
        (
            lambda net, x: [peak(net, y := flat(net, x)), transposed(net, y, 1, 0)],
            (["RESHAPE", "REDUCE_MAX", "ARRANGE"], 1),
        ),
    ],
    ids=[
        "reshaped before",
        "reshaped behind",
        "reshaped between",
        "reshaped before and behind",
        "two reshapes",
        "a transposed tensor that is read",
        "a reshaped tensor that is read",
    ],
)
def test_transpositions_and_reshapes_become_one(
    build: Callable[[Net, int], list[int]], expected: tuple[list[str], int]
) -> None:
    """Two reshapes cost nothing as they are, and what somebody else reads is transposed once."""
    net = Net()
    assert moved(net, *build(net, net.input(2, 3, 4, 5))) == expected


def test_elementwise_operations_are_computed_before_transpositions() -> None:
    net = Net()
    y = net.op(Op.TANH, transposed(net, net.op(Op.ABS, net.input(2, 3, 5)), 2, 0, 1))
    assert moved(net, y)[0] == ["ABS", "TANH", "ARRANGE"]


def test_what_becomes_of_one_operation_makes_another_one_possible() -> None:
    """Once the second transposition undoes the first one, TANH alone reads that, and can go before it."""
    net = Net()
    y = transposed(net, net.op(Op.RSQRT, net.input(2, 3, 5)), 2, 0, 1)
    names, _ = moved(net, net.op(Op.TANH, y), transposed(net, y, 1, 2, 0))
    assert names == ["RSQRT", "TANH", "ARRANGE", "VIEW"]


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("both alike", ["ADD", "ARRANGE"]),
        ("the same twice", ["MUL", "ARRANGE"]),
        ("one of them", ["TRANSPOSE", "ADD"]),
        ("another order", ["TRANSPOSE", "TRANSPOSE", "ADD"]),
        ("a number", ["ADD", "ARRANGE"]),
        ("a row", ["ADD", "ARRANGE"]),
        ("two axes", ["ADD", "ARRANGE"]),
        ("two axes in another order", ["TRANSPOSE", "ADD"]),
        ("read by others", ["TRANSPOSE", "TANH", "REDUCE_MAX"]),
        ("an output", ["TRANSPOSE", "TANH"]),
    ],
)
def test_operands_of_elementwise_operations(case: str, names: list[str]) -> None:
    net = Net()
    x = net.op(Op.RSQRT, net.input(2, 3, 5))
    y, outputs = transposed(net, x, *((1, 0, 2) if case == "two axes" else (2, 0, 1))), []
    if case == "both alike":
        result = net.op(Op.ADD, y, transposed(net, net.input(2, 3, 5), 2, 0, 1))
    elif case == "the same twice":
        result = net.op(Op.MUL, y, y)
    elif case == "one of them":
        result = net.op(Op.ADD, y, net.input(5, 2, 3))
    elif case == "another order":
        result = net.op(Op.ADD, y, transposed(net, net.input(2, 5, 3), 1, 0, 2))
    elif case == "a number":
        result = net.op(Op.ADD, net.scalar(2.0), y)
    elif case == "a row":
        result = net.op(Op.ADD, y, net.weights(5, 1, 1))
    elif case == "two axes":
        result = net.op(Op.ADD, y, net.weights(1, 2, 5))
    elif case == "two axes in another order":
        result = net.op(Op.ADD, y, net.weights(5, 2, 1))
    elif case == "read by others":
        result = net.op(Op.TANH, y)
        outputs = [net.op(Op.REDUCE_MAX, y, np.array([1], np.int32), net.build.value(True))]
    else:
        outputs, result = [y], net.op(Op.TANH, y)
    found, _ = moved(net, result, *outputs)
    assert [name for name in found if name not in ("RSQRT", "VIEW")] == names


@pytest.mark.parametrize(("channels", "names"), [(4, ["ADD", "ARRANGE"]), (3, ["TRANSPOSE", "TRANSPOSE", "ADD"])])
def test_arrangements_of_padded_pixels_stay(channels: int, names: list[str]) -> None:
    """Bytes of a GEMM lie in whole words for each pixel, so that a copy is needed where there are three channels."""
    net = Net()
    type_ = OperandType(U8, (), 0.05, 128)
    one, two = (net.input(1, 5, 4, size, code=U8, scale=0.05, zero=128) for size in (8, channels))
    one = byte_conv(net, U8, one, channels, 8, type_)
    sides = [net.op(Op.TRANSPOSE, x, np.array([0, 3, 1, 2], np.int32), type_=type_) for x in (one, two)]
    found, _ = moved(net, net.op(Op.ADD, *sides, net.code(0), type_=type_))
    assert found == ["CONV_2D", *names]


def axis_of(graph: Graph) -> int:
    """The axis along which tensors are concatenated: 2 if images in NHWC order are, as pixels of channels."""
    (axis,) = (node.call.axis for node in graph.nodes if node.code is Op.CONCATENATION)
    return int(axis)


@pytest.mark.parametrize(
    ("readers", "axis"), [(["transposed"], 2), (["computed"], 2), (["pooled"], 1), (["pooled", "computed"], 1)], ids=str
)
def test_images_are_concatenated_before_they_are_transposed(readers: Sequence[str], axis: int) -> None:
    """If all who read them can do without the transposition."""
    net = Net()
    parts = [transposed(net, net.op(Op.RSQRT, net.input(2, 3, 4, each)), 0, 3, 1, 2) for each in (8, 4)]
    y = joined(net, 1, *parts)
    outputs = {
        "transposed": lambda: transposed(net, y, 0, 3, 2, 1),
        "computed": lambda: net.op(Op.TANH, y),
        "pooled": lambda: net.op(Op.MAX_POOL_2D, y, *map(net.code, (1, 1, 1, 2, 2, 0))),
    }
    graph, _ = rewritten(net.finish(*(outputs[reader]() for reader in readers)), move_transposes)
    assert axis_of(graph) == axis


@pytest.mark.parametrize("case", ["an output", "of one that is not transposed", "other pixels", "read elsewhere"])
def test_images_that_are_transposed_before_they_are_concatenated(case: str) -> None:
    net = Net()
    one = transposed(net, net.input(2, 3, 4, 8), 0, 3, 1, 2)
    two = transposed(net, net.input(2, 3, 4, 4), 0, 3, 1, 2)
    outputs = []
    if case == "of one that is not transposed":
        two = net.input(2, 4, 3, 4)
    if case == "other pixels":
        two = transposed(net, net.input(2, 4, 3, 4), 0, 3, 2, 1)
    if case == "read elsewhere":
        outputs = [one, two]
    y = joined(net, 1, one, two)
    y = y if case == "an output" else net.op(Op.TANH, y)
    graph, _ = rewritten(net.finish(y, *outputs), move_transposes)
    assert axis_of(graph) == 1


@pytest.mark.parametrize("is_read", [False, True])
def test_parts_of_a_split_are_read_where_they_lie(is_read: bool) -> None:
    """A part that somebody else reads is there anyway."""
    net = Net()
    x = net.op(Op.RSQRT, net.input(6, 8))
    one, two = split(net, x, 1, 2)
    outputs = [joined(net, 1, two, one), *([net.op(Op.TANH, one)] if is_read else [])]
    graph, _ = rewritten(net.finish(*outputs), move_transposes)
    assert codes(graph) == ["RSQRT", *["ARRANGE"] * is_read, "CONCATENATION", *["TANH"] * is_read]
    (call,) = (node.call for node in graph.nodes if node.code is Op.CONCATENATION)
    assert [tensor.view is not None for tensor in call.inputs] == [True, not is_read]


# --- layouts -----------------------------------------------------------------------------------------------------


def test_images_are_transposed_once_for_all_who_read_them() -> None:
    """A convolution reads what another one gives before it is transposed back."""
    net = Net()
    x = net.input(1, 4, 6, 5)
    one, two = nchw_conv(net, x, 8, 4), nchw_conv(net, x, 8, 4)
    names, count = fused(net, legalise_layouts, nchw_conv(net, one, 4, 8), two)
    assert (names, count) == (["ARRANGE", *["CONV_2D", "ARRANGE"] * 3], 3)


def test_images_of_one_channel_or_pixel_are_only_reshaped() -> None:
    net = Net()
    names, _ = fused(net, legalise_layouts, nchw_conv(net, net.input(2, 1, 6, 5), 1, 1))
    assert names == ["VIEW", "CONV_2D", "VIEW"]


def test_left_matrices_are_transposed() -> None:
    for adj_x, expected in ((True, (["ARRANGE", "BATCH_MATMUL"], 1)), (False, (["BATCH_MATMUL"], 0))):
        net = Net()
        left = net.input(2, 5, 3) if adj_x else net.input(2, 3, 5)
        flags = [net.build.value(flag) for flag in (adj_x, False)]
        y = net.op(Op.BATCH_MATMUL, left, net.input(2, 5, 7), *flags)
        assert fused(net, legalise_layouts, y) == expected


def test_levels_are_brought_to_the_scale_of_the_output() -> None:
    """Once for each tensor, and not those that have it, or have no elements."""
    net = Net()
    out = OperandType(U8, (), 0.5, 3)
    one = net.input(2, 3, code=U8, scale=0.5, zero=3)
    two, three = (net.input(2, 3, code=U8, scale=scale, zero=zero) for scale, zero in ((0.25, 3), (0.5, 4)))
    y = net.build.operation(Op.CONCATENATION, [one, two, three, two, net.code(1)], out)
    names, count = fused(net, legalise_quantisation, y)
    assert (names, count) == (["TABLE_LOOKUP", "TABLE_LOOKUP", "CONCATENATION"], 2)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (Op.MAXIMUM, ["TABLE_LOOKUP", "MAXIMUM"]),
        (Op.MINIMUM, ["TABLE_LOOKUP", "MINIMUM"]),
        (Op.SELECT, ["LESS", "TABLE_LOOKUP", "SELECT"]),
    ],
    ids=lambda value: value.name if isinstance(value, Op) else None,
)
def test_levels_that_are_compared_are_brought_to_the_scale_of_the_output(code: Op, names: list[str]) -> None:
    """A condition has no scale."""
    net = Net()
    one, two = (net.input(2, 3, code=U8, scale=scale, zero=3) for scale in (0.5, 0.25))
    condition = [] if code is not Op.SELECT else [net.op(Op.LESS, net.input(2, 3), net.input(2, 3), type_=BOOL)]
    y = net.op(code, *condition, one, two, type_=OperandType(U8, (), 0.5, 3))
    graph, count = rewritten(net.finish(y), legalise_quantisation, near=0.0)
    assert (codes(graph), count) == (names, 1)
    (lookup,) = (node for node in graph.nodes if node.code.name == "TABLE_LOOKUP")
    assert lookup.call.input.scale == 0.25


def test_real_numbers_have_no_levels() -> None:
    net = Net()
    assert fused(net, legalise_quantisation, joined(net, 1, net.input(2, 3), net.input(2, 5))) == (["CONCATENATION"], 0)


def test_the_shape_of_a_transposed_convolution_is_transposed_too() -> None:
    net = Net()
    shape = np.array([1, 5, 8, 6], np.int32)
    rest = [*map(net.code, (1, 2, 2, 0)), net.build.value(True)]
    x = net.input(1, 2, 4, 3)
    y = net.op(Op.TRANSPOSE_CONV_2D, x, net.weights(5, 3, 3, 2), net.weights(5), shape, *rest)
    graph, count = rewritten(net.finish(y), legalise_layouts)
    assert (codes(graph), count) == (["ARRANGE", "TRANSPOSE_CONV_2D", "ARRANGE"], 1)
    assert graph.nodes[1].call.output_shape.data.tolist() == [1, 8, 6, 5]


# --- views -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("merged", ["BATCH_MATMUL", "RESHAPE"]),
        ("transposed", ["BATCH_MATMUL"]),
        ("reshaped before", ["BATCH_MATMUL"]),
        ("transposed again", ["BATCH_MATMUL", "TRANSPOSE", "RESHAPE", "TRANSPOSE"]),
        ("read by others", ["BATCH_MATMUL", "TRANSPOSE", "RESHAPE", "SOFTMAX"]),
        ("an output", ["BATCH_MATMUL", "TRANSPOSE", "RESHAPE"]),
    ],
)
def test_heads_are_written_where_an_arrangement_would_put_them(case: str, names: list[str]) -> None:
    """A reshape behind it changes nothing; another arrangement is for the pass transposes."""
    net = Net()
    x = multiplied(net, "float32", net.input(2, 3, 9, 8), net.input(2, 3, 8, 4), adj_y=False)
    if case == "reshaped before":
        x = multiplied(net, "float32", net.input(6, 9, 8), net.input(6, 8, 4), adj_y=False)
        x = net.op(Op.RESHAPE, x, np.array([2, 3, 9, 4], np.int32))
    y = transposed(net, x, 0, 2, 1, 3)
    outputs = [x] if case == "an output" else []
    if case == "read by others":
        outputs.append(net.op(Op.SOFTMAX, x, 1.0))
    if case not in ("transposed", "reshaped before"):
        y = net.op(Op.RESHAPE, y, np.array([2, 9, 12], np.int32))
    if case == "transposed again":
        y = transposed(net, y, 0, 2, 1)
    graph, _ = rewritten(net.finish(y, *outputs), eliminate_common_subexpressions, write_heads)
    assert sorted(codes(graph)) == sorted(names)


@pytest.mark.parametrize("case", ["an input", "a constant", "reshaped"])
def test_weights_that_are_views(case: str) -> None:
    """A constant is arranged once, and all elements in order are no view."""
    net = Net()
    if case == "reshaped":
        weights = net.op(Op.RESHAPE, net.input(12, 4), np.array([6, 8], np.int32))
    else:
        source = net.weights(8, 6) if case == "a constant" else net.input(8, 6)
        weights = transposed(net, source, 1, 0)
    y = net.op(Op.FULLY_CONNECTED, net.input(3, 8), weights, net.weights(6), net.code(0))
    graph, _ = rewritten(net.finish(y), move_transposes)
    (call,) = (node.call for node in graph.nodes if node.code is Op.FULLY_CONNECTED)
    assert (call.weights.view is not None) == (case == "an input")
