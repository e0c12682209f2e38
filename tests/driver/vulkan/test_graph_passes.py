"""Passes on the graph: the operations that they rewrite and those that they leave, without a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F16, U8, Net, Op, byte_conv, heads, joined, multiplied, split, transposed
from profiles import EIGHT_LANES
from rewritten import codes, context_of, graph_of, library, native, rewritten, through

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes import PIPELINE, run
from nnvk.driver.vulkan.planning.passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.passes.constants import deduplicate_constants
from nnvk.driver.vulkan.planning.passes.context import Rewrite
from nnvk.driver.vulkan.planning.passes.elementwise import fuse_elementwise
from nnvk.driver.vulkan.planning.passes.epilogue import fuse_epilogues
from nnvk.driver.vulkan.planning.passes.heads import write_heads
from nnvk.driver.vulkan.planning.passes.horizontal import fuse_horizontally
from nnvk.driver.vulkan.planning.passes.layouts import legalise_layouts
from nnvk.driver.vulkan.planning.passes.pad import fold_pads
from nnvk.driver.vulkan.planning.passes.quantisation import legalise_quantisation
from nnvk.driver.vulkan.planning.passes.time_steps import fuse_time_steps
from nnvk.driver.vulkan.planning.passes.transposes import move_transposes
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import FuseCode
from nnvk.types.operand import OperandType

EVERY = [each for _, each in PIPELINE]


def fused(net: Net, rewrite: Rewrite, *outputs: int, **options: Any) -> tuple[list[str], int]:
    """The operations after one pass, and how often it was applied."""
    graph, count = rewritten(net.finish(*outputs), rewrite, **options)
    return codes(graph), count


@pytest.mark.parametrize("rewrite", dict.fromkeys(EVERY), ids=lambda each: each.__name__)
@pytest.mark.parametrize("is_relaxed", [False, True])
def test_a_pass_that_finds_nothing_gives_the_same_graph(rewrite: Rewrite, is_relaxed: bool) -> None:
    net = Net()
    pooled = net.op(Op.L2_POOL_2D, net.input(1, 4, 4, 3), *map(net.code, (1, 1, 1, 2, 2, 0)))
    model = net.finish(net.op(Op.REDUCE_MAX, pooled, np.array([1], np.int32), net.build.value(True)))
    model = model.with_relaxed(is_relaxed)
    graph = graph_of(model)
    assert rewrite(graph, context_of(model)) == (graph, 0)


def test_how_often_passes_were_applied() -> None:
    """Both runs of a pass count together; one that is switched off, or has no switch, is not named."""
    net = Net()
    x = net.input(1, 4, 6, 5)
    one, two = (net.op(Op.TANH, nchw_conv(net, x, 8, 4)) for _ in range(2))
    model = net.finish(net.op(Op.ADD, one, two), net.op(Op.ADD, net.op(Op.EXP, x), net.op(Op.EXP, x)))
    profile = replace(native(), disabled_passes=frozenset({Pass.ELEMENTWISE.value}))
    seen: list[str] = []
    _, applied = run(graph_of(model), context_of(model, profile), observe=lambda name, lines: seen.append(name))
    switches = dict.fromkeys(each for each, _ in PIPELINE if each not in (None, Pass.ELEMENTWISE))
    assert list(applied) == list(switches)
    assert applied[Pass.CSE] == 1
    assert applied[Pass.EPILOGUE] == 1
    names = [each.value if each else rewrite.__name__ for each, rewrite in PIPELINE if each is not Pass.ELEMENTWISE]
    assert seen == ["build", *names]


# --- common subexpressions and constants -------------------------------------------------------------------------


def test_equal_operations_are_computed_once() -> None:
    net = Net()
    x = net.input(3, 5)
    one, two, other = (net.op(code, x) for code in (Op.TANH, Op.TANH, Op.ABS))
    names, count = fused(net, eliminate_common_subexpressions, net.op(Op.MUL, net.op(Op.ADD, one, two), other))
    assert (names, count) == (["TANH", "ABS", "ADD", "MUL"], 1)


def test_what_nobody_reads_is_not_computed() -> None:
    net = Net()
    x = net.input(3, 5)
    net.op(Op.EXP, net.op(Op.TANH, x))
    assert fused(net, eliminate_common_subexpressions, net.op(Op.ABS, x)) == (["ABS"], 2)


def test_equal_constants_are_one() -> None:
    net = Net()
    x, data = net.input(3, 5), np.arange(15, dtype=np.float32).reshape(3, 5)
    y = net.op(Op.ADD, net.op(Op.MUL, x, data), data.copy())
    y = net.op(Op.SUB, net.op(Op.SUB, y, data.reshape(1, 3, 5)), data + 1)
    graph, count = rewritten(net.finish(y), deduplicate_constants)
    assert count == 1
    indices = [tensor.index for node in graph.nodes for tensor in node.inputs if tensor.is_constant]
    assert len(set(indices)) == 3


# --- elementwise operations --------------------------------------------------------------------------------------


def test_elementwise_operations_become_one() -> None:
    net = Net()
    x = net.input(3, 8)
    y = net.op(Op.TANH, net.op(Op.MUL, x, net.op(Op.ABS, x)))
    assert fused(net, fuse_elementwise, y) == (["ABS>2"], 1)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("alone", ["ABS"]),
        ("another size", ["ABS", "ADD"]),
        ("another type", ["ABS", "CAST"]),
        ("read by others", ["ABS", "REDUCE_MAX", "ADD>1"]),
        ("an output", ["ABS>1"]),
        ("reshaped", ["ABS>1"]),
        ("two groups", ["ABS>3"]),
        ("levels", ["ABS", "RELU", "RELU6"]),
    ],
)
def test_groups(case: str, names: list[str]) -> None:
    net = Net()
    x = net.input(3, 8)
    y = net.op(Op.ABS, x)
    outputs = []
    if case == "another size":
        y = net.op(Op.ADD, y, net.input(2, 3, 8))
    elif case == "another type":
        y = net.op(Op.CAST, y, type_=OperandType(F16))
    elif case == "read by others":
        largest = net.op(Op.REDUCE_MAX, y, np.array([1], np.int32), net.build.value(True))
        y = net.op(Op.TANH, net.op(Op.ADD, y, largest))
    elif case == "an output":
        outputs, y = [y], net.op(Op.TANH, y)
    elif case == "reshaped":
        y = net.op(Op.TANH, net.op(Op.RESHAPE, y, np.array([8, 3], np.int32)))
    elif case == "two groups":
        y = net.op(Op.MUL, net.op(Op.TANH, y), net.op(Op.EXP, net.input(3, 8)))
    elif case == "levels":
        type_ = OperandType(U8, (), 0.5, 3)
        y = net.op(Op.RELU, net.input(3, 8, code=U8, scale=0.5, zero=3), type_=type_)
        y = net.op(Op.RELU6, y, type_=type_)
    graph, count = rewritten(net.finish(y, *outputs), fuse_elementwise)
    assert codes(graph) == names
    assert count == sum(">" in name for name in names)


def test_a_shader_that_has_to_be_avoided_fuses_nothing() -> None:
    net = Net()
    y = net.op(Op.TANH, net.op(Op.ABS, net.input(3, 8)))
    avoided = frozenset(name for name in _variants("fused_elementwise"))
    profile = replace(native(), avoided=avoided)
    assert fused(net, fuse_elementwise, y, profile=profile) == (["ABS", "TANH"], 0)


def _variants(family: str) -> Sequence[str]:
    return [name for name in library()._compiled if name.partition(".")[0] == family]


# --- epilogues ---------------------------------------------------------------------------------------------------


def after_dense(case: str) -> tuple[Net, list[int]]:
    """Elementwise operations behind a GEMM of rows of 8."""
    net = Net()
    y = net.dense(net.input(3, 8), 8, 8)
    outputs: list[int] = []
    if case == "an activation":
        result = net.op(Op.TANH, y)
    elif case == "a chain":
        result = net.op(Op.ABS, net.op(Op.MUL, net.op(Op.TANH, y), net.weights(8)))
    elif case == "another tensor":
        result = net.op(Op.ADD, net.input(3, 8), y)
    elif case == "of another GEMM":
        result = net.op(Op.ADD, net.dense(net.input(3, 8), 8, 8), y)
    elif case == "an output":
        outputs, result = [y], net.op(Op.TANH, y)
    elif case == "read by others":
        outputs, result = [net.op(Op.REDUCE_MAX, y, np.array([1], np.int32), net.build.value(True))], net.op(Op.TANH, y)
    elif case == "two results":
        tanh = net.op(Op.TANH, y)
        outputs, result = [tanh], net.op(Op.ABS, tanh)
    elif case == "reshaped":
        result = net.op(Op.TANH, net.op(Op.RESHAPE, y, np.array([6, 4], np.int32)))
    else:
        result = net.op(Op.ADD, y, net.input(2, 3, 8))
    return net, [result, *outputs]


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("an activation", ["FULLY_CONNECTED>1"]),
        ("a chain", ["FULLY_CONNECTED>3"]),
        ("another tensor", ["FULLY_CONNECTED>1"]),
        ("of another GEMM", ["FULLY_CONNECTED", "FULLY_CONNECTED>1"]),
        ("an output", ["FULLY_CONNECTED", "TANH"]),
        ("read by others", ["FULLY_CONNECTED", "REDUCE_MAX", "TANH"]),
        ("two results", ["FULLY_CONNECTED", "TANH", "ABS"]),
        ("reshaped", ["FULLY_CONNECTED>1"]),
        ("broadcast", ["FULLY_CONNECTED", "ADD"]),
    ],
)
def test_epilogues(case: str, names: list[str]) -> None:
    net, outputs = after_dense(case)
    found, count = fused(net, fuse_epilogues, *outputs)
    assert sorted(found) == sorted(names)
    assert count == sum(">" in name for name in names)


def test_the_later_gemm_takes_what_combines_two() -> None:
    net, outputs = after_dense("of another GEMM")
    graph, _ = rewritten(net.finish(*outputs), fuse_epilogues)
    assert [node.operation for node in graph.nodes if node.behind] == [1]


@pytest.mark.parametrize(
    ("avoided", "names"),
    [("gemm.f32.register.none.whole.fused", ["FULLY_CONNECTED", "TANH"]), ("pool2d.", ["FULLY_CONNECTED>1"])],
)
def test_an_epilogue_needs_no_shader_that_has_to_be_avoided(avoided: str, names: list[str]) -> None:
    every = frozenset(name for name in library()._compiled if name.startswith(avoided))
    assert every
    net, outputs = after_dense("an activation")
    found, _ = fused(net, fuse_epilogues, *outputs, profile=replace(native(), avoided=every))
    assert found == names


BYTES = OperandType(U8, (), 0.05, 128)


def after_bytes(case: str) -> tuple[Net, list[int]]:
    """Operations behind a convolution of bytes."""
    net = Net()
    x = net.input(1, 5, 4, 8, code=U8, scale=0.05, zero=128)
    y = byte_conv(net, U8, x, 8, 8, BYTES)
    outputs: list[int] = []
    if case == "a table":
        result = net.op(Op.TANH, y, type_=OperandType(U8, (), 1 / 128, 128))
    elif case == "two tables":
        result = net.op(Op.RELU6, net.op(Op.RELU, y, type_=BYTES), type_=BYTES)
    elif case == "a sum":
        result = net.op(Op.ADD, x, y, net.code(0), type_=BYTES)
    elif case == "a sum and a table":
        result = net.op(Op.RELU, net.op(Op.ADD, y, x, net.code(0), type_=BYTES), type_=BYTES)
    elif case == "two sums":
        total = net.op(Op.ADD, y, x, net.code(0), type_=BYTES)
        result = net.op(Op.ADD, total, x, net.code(0), type_=BYTES)
    elif case == "a sum of two":
        result = net.op(Op.ADD, y, byte_conv(net, U8, x, 8, 8, BYTES), net.code(0), type_=BYTES)
    elif case == "an output":
        outputs, result = [y], net.op(Op.RELU, y, type_=BYTES)
    else:
        outputs = [net.op(Op.MAX_POOL_2D, y, *map(net.code, (1, 1, 1, 2, 2, 0)), type_=BYTES)]
        result = net.op(Op.RELU, y, type_=BYTES)
    return net, [result, *outputs]


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("a table", ["CONV_2D>1"]),
        ("two tables", ["CONV_2D>1", "RELU6"]),
        ("a sum", ["CONV_2D>1"]),
        ("a sum and a table", ["CONV_2D>2"]),
        ("two sums", ["CONV_2D>1", "ADD"]),
        ("a sum of two", ["CONV_2D", "CONV_2D>1"]),
        ("an output", ["CONV_2D", "RELU"]),
        ("read by others", ["CONV_2D", "MAX_POOL_2D", "RELU"]),
    ],
)
def test_epilogues_of_bytes(case: str, names: list[str]) -> None:
    net, outputs = after_bytes(case)
    found, count = fused(net, fuse_epilogues, *outputs)
    assert found == names
    assert count == sum(int(name.partition(">")[2] or 0) for name in names)


# --- padding -----------------------------------------------------------------------------------------------------


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


# --- horizontal fusion -------------------------------------------------------------------------------------------

HEADS, ROWS, COLUMNS = 3, 9, 8
WIDTH = HEADS * COLUMNS


class Two:
    """Two FULLY_CONNECTED of one input, whose results a BATCH_MATMUL multiplies."""

    def __init__(self) -> None:
        self.net = Net()
        self.source = self.net.input(ROWS, WIDTH)

    def dense(self, activation: int = FuseCode.NONE, source: int | None = None) -> int:
        net, x = self.net, self.source if source is None else source
        return net.op(Op.FULLY_CONNECTED, x, net.weights(WIDTH, WIDTH), net.weights(WIDTH), net.code(activation))

    def fused(self, one: int, two: int, *outputs: int, **options: Any) -> tuple[list[str], int]:
        """The operations but for transpositions and reshapes, and the number of families."""
        left, right = (heads(self.net, "float32", x, 1, HEADS, ROWS, COLUMNS) for x in (one, two))
        y = multiplied(self.net, "float32", left, right, adj_y=True)
        names, count = fused(self.net, fuse_horizontally, y, *outputs, **options)
        return [name for name in names if name not in ("TRANSPOSE", "RESHAPE", "VIEW")], count


TOGETHER = ["FULLY_CONNECTED", "ARRANGE", "ARRANGE", "BATCH_MATMUL"]
APART = ["FULLY_CONNECTED", "FULLY_CONNECTED", "BATCH_MATMUL"]


def test_gemms_of_one_input_become_one() -> None:
    two = Two()
    assert two.fused(two.dense(), two.dense()) == (TOGETHER, 1)


def test_a_cpu_computes_them_one_by_one() -> None:
    two = Two()
    assert two.fused(two.dense(), two.dense(), profile=EIGHT_LANES) == (APART, 0)


def test_gemms_of_two_inputs_or_activations_stay_apart() -> None:
    two = Two()
    assert two.fused(two.dense(), two.dense(source=two.net.input(ROWS, WIDTH))) == (APART, 0)
    two = Two()
    assert two.fused(two.dense(), two.dense(FuseCode.RELU)) == (APART, 0)
    two = Two()
    assert two.fused(two.dense(FuseCode.RELU), two.dense(FuseCode.RELU)) == (TOGETHER, 1)


def test_a_result_that_others_read_stays_apart() -> None:
    for read in (False, True):
        two = Two()
        one, other = two.dense(), two.dense()
        assert two.fused(one, other, two.net.op(Op.TANH, one) if read else one)[1] == 0


def _term(net: Net, x: int, case: str) -> int:
    """A vector or a number that is combined with rows."""
    if case == "vector":
        return net.op(Op.ADD, x, net.weights(WIDTH))
    if case == "vector first":
        return net.op(Op.ADD, net.weights(WIDTH), x)
    if case == "number":
        return net.op(Op.MUL, x, net.scalar(0.5))
    if case == "both":
        return net.op(Op.MUL, net.op(Op.ADD, x, net.weights(WIDTH)), net.scalar(0.5))
    if case == "number, vector":
        return net.op(Op.ADD, net.op(Op.MUL, x, net.scalar(0.5)), net.weights(WIDTH))
    if case == "two vectors":
        return net.op(Op.ADD, net.op(Op.ADD, x, net.weights(WIDTH)), net.weights(WIDTH))
    if case == "a vector of one":
        return net.op(Op.ADD, x, net.scalar(0.5))
    if case == "a matrix":
        return net.op(Op.ADD, x, net.weights(ROWS, WIDTH))
    if case == "an activation":
        return net.op(Op.ADD, x, net.weights(WIDTH), net.code(FuseCode.RELU))
    if case == "an input":
        return net.op(Op.ADD, x, net.input(WIDTH))
    if case == "a difference":
        return net.op(Op.SUB, x, net.weights(WIDTH))
    return net.op(Op.MUL, x, net.weights(WIDTH))


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("vector", ["FULLY_CONNECTED", "ADD"]),
        ("vector first", ["FULLY_CONNECTED", "ADD"]),
        ("number", ["FULLY_CONNECTED", "MUL"]),
        ("both", ["FULLY_CONNECTED", "ADD", "MUL"]),
        ("number, vector", []),
        ("two vectors", []),
        ("a vector of one", []),
        ("a matrix", []),
        ("an activation", []),
        ("an input", []),
        ("a difference", []),
        ("a product of vectors", []),
    ],
)
def test_what_is_combined_with_all_columns_at_once(case: str, names: list[str]) -> None:
    two = Two()
    found, count = two.fused(*(_term(two.net, two.dense(), case) for _ in range(2)))
    assert count == bool(names)
    if names:
        assert found == [*names, "ARRANGE", "ARRANGE", "BATCH_MATMUL"]


def test_numbers_of_some() -> None:
    """The columns of the others are multiplied by 1; a vector is added to all or to none."""
    two = Two()
    assert two.fused(_term(two.net, two.dense(), "number"), two.dense())[1] == 1
    two = Two()
    assert two.fused(_term(two.net, two.dense(), "vector"), two.dense())[1] == 0


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
        ("read by others", ["TRANSPOSE", "TANH", "REDUCE_MAX"]),
        ("an output", ["TRANSPOSE", "TANH"]),
    ],
)
def test_operands_of_elementwise_operations(case: str, names: list[str]) -> None:
    net = Net()
    x = net.op(Op.RSQRT, net.input(2, 3, 5))
    y, outputs = transposed(net, x, 2, 0, 1), []
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
    elif case == "read by others":
        result = net.op(Op.TANH, y)
        outputs = [net.op(Op.REDUCE_MAX, y, np.array([1], np.int32), net.build.value(True))]
    else:
        outputs, result = [y], net.op(Op.TANH, y)
    found, _ = moved(net, result, *outputs)
    assert [name for name in found if name not in ("RSQRT", "VIEW")] == names


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


def test_parts_of_a_split_are_read_where_they_lie() -> None:
    net = Net()
    x = net.op(Op.RSQRT, net.input(6, 8))
    one, two = split(net, x, 1, 2)
    graph, _ = rewritten(net.finish(joined(net, 1, two, one)), move_transposes)
    assert codes(graph) == ["RSQRT", "CONCATENATION"]
    assert all(tensor.view is not None for tensor in graph.nodes[-1].call.inputs)


# --- layouts -----------------------------------------------------------------------------------------------------


def nchw_conv(net: Net, x: int, outputs: int, depth: int) -> int:
    rest = [*map(net.code, (1, 1, 1, 0)), net.build.value(True)]
    return net.op(Op.CONV_2D, x, net.weights(outputs, 3, 3, depth), net.weights(outputs), *rest)


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


# --- time steps --------------------------------------------------------------------------------------------------


def unrolled(steps: int, taken: Sequence[int], **change: Any) -> tuple[list[str], int]:
    """Cells that multiply some of so many rows of one tensor by the same weights."""
    net = Net()
    x = net.op(Op.RSQRT, net.input(steps, 16))
    weights, bias = net.weights(8, 16), net.weights(8)
    outputs = []
    for number, row in enumerate(taken):
        begin, size = np.array([row, 0], np.int32), np.array([1, 16], np.int32)
        part = net.op(Op.SLICE, x, begin, size)
        own = net.weights(8, 16) if change.get("own weights") else weights
        activation = change.get("activation", 0) if number else 0
        outputs.append(net.op(Op.FULLY_CONNECTED, part, own, bias, net.code(activation)))
    graph, count = rewritten(net.finish(*outputs), *through(fuse_time_steps))
    return codes(graph), count


def test_the_inputs_of_all_time_steps_are_multiplied_at_once() -> None:
    names, count = unrolled(4, range(4))
    assert (names.count("FULLY_CONNECTED"), count) == (1, 1)


def test_time_steps_that_stay_apart() -> None:
    assert unrolled(4, range(4), **{"own weights": True})[1] == 0
    assert unrolled(4, [2])[1] == 0
    names, count = unrolled(4, range(4), activation=FuseCode.RELU)
    assert (names.count("FULLY_CONNECTED"), count) == (2, 2)
