"""Passes on the graph: the operations that they rewrite and those that they leave, without a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F16, U8, Net, Op, byte_conv, heads, joined, multiplied
from profiles import EIGHT_LANES
from rewritten import codes, context_of, fused, graph_of, library, native, nchw_conv, rewritten, through

from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.graph.verifier import InvalidGraph
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.planning import passes
from nnvk.driver.vulkan.planning.passes import PIPELINE, run
from nnvk.driver.vulkan.planning.passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.passes.constants import deduplicate_constants
from nnvk.driver.vulkan.planning.passes.context import Context, Rewrite
from nnvk.driver.vulkan.planning.passes.elementwise import fuse_elementwise
from nnvk.driver.vulkan.planning.passes.epilogue import fuse_epilogues
from nnvk.driver.vulkan.planning.passes.horizontal import fuse_horizontally
from nnvk.driver.vulkan.planning.passes.time_steps import fuse_time_steps
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.operand import OperandType

EVERY = [each for _, each in PIPELINE]


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


def test_a_graph_is_checked_after_each_pass_that_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    model = net.finish(net.op(Op.TANH, net.op(Op.ABS, net.input(3, 5))))

    def backwards(graph: Graph, context: Context) -> tuple[Graph, int]:
        return graph.with_nodes(reversed(graph.nodes)), 1

    monkeypatch.setattr(passes, "PIPELINE", ((Pass.PAD, backwards),))
    run(graph_of(model), context_of(model), verify=0)
    with pytest.raises(InvalidGraph, match=r"^pad: "):
        run(graph_of(model), context_of(model), verify=1)


def test_a_graph_is_checked_before_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    model = net.finish(net.op(Op.TANH, net.op(Op.ABS, net.input(3, 5))))
    graph = graph_of(model)
    monkeypatch.setattr(passes, "PIPELINE", ())
    assert run(graph, context_of(model), verify=1) == (graph, {})
    with pytest.raises(InvalidGraph, match=r"^build: "):
        run(graph.with_nodes(reversed(graph.nodes)), context_of(model), verify=1)


# --- common subexpressions and constants -------------------------------------------------------------------------


def test_equal_operations_are_computed_once() -> None:
    net = Net()
    x = net.input(3, 5)
    one, two, other = (net.op(code, x) for code in (Op.TANH, Op.TANH, Op.ABS))
    names, count = fused(net, eliminate_common_subexpressions, net.op(Op.MUL, net.op(Op.ADD, one, two), other))
    assert (names, count) == (["TANH", "ABS", "ADD", "MUL"], 1)


Build = Callable[[Net, int, int, int], int]
"""Adds an operation to a net that reads two tensors, and perhaps paddings."""


@pytest.mark.parametrize(
    ("one", "two", "is_same"),
    [
        (lambda net, x, y, pads: joined(net, 0, x, y), lambda net, x, y, pads: joined(net, 0, x, y), True),
        (lambda net, x, y, pads: joined(net, 0, x, y), lambda net, x, y, pads: joined(net, 0, y, x), False),
        (lambda net, x, y, pads: joined(net, 0, x, y), lambda net, x, y, pads: joined(net, 1, x, y), False),
        (lambda net, x, y, pads: net.op(Op.SUB, x, y), lambda net, x, y, pads: net.op(Op.SUB, y, x), False),
        (
            lambda net, x, y, pads: net.op(Op.PAD_V2, x, pads, 0.0),
            lambda net, x, y, pads: net.op(Op.PAD_V2, x, pads, 0.0),
            True,
        ),
        (
            lambda net, x, y, pads: net.op(Op.PAD_V2, x, pads, 0.0),
            lambda net, x, y, pads: net.op(Op.PAD_V2, x, pads, -0.0),
            False,
        ),
    ],
    ids=["lists", "another order", "another axis", "swapped", "numbers", "zeros of both signs"],
)
def test_operations_that_are_equal(one: Build, two: Build, is_same: bool) -> None:
    net = Net()
    x, y, pads = net.input(3, 5), net.input(3, 5), net.build.value(np.array([[0, 0], [1, 1]], np.int32))
    outputs = net.op(Op.ABS, one(net, x, y, pads)), net.op(Op.EXP, two(net, x, y, pads))
    names, count = fused(net, eliminate_common_subexpressions, *outputs)
    assert (len(names), count) == (4 - is_same, int(is_same))


def test_equal_operations_of_other_types_or_that_are_outputs_are_both_computed() -> None:
    net = Net()
    x = net.input(3, 5)
    outputs = [net.op(Op.CAST, x, type_=OperandType(code)) for code in (F16, OperandCode.TENSOR_INT32)]
    assert fused(net, eliminate_common_subexpressions, *outputs) == (["CAST", "CAST"], 0)
    net = Net()
    x = net.input(3, 5)
    assert fused(net, eliminate_common_subexpressions, net.op(Op.ABS, x), net.op(Op.ABS, x)) == (["ABS", "ABS"], 0)


def test_random_numbers_are_drawn_for_each_operation() -> None:
    net = Net()
    seeds, logits = np.array([0, 0], np.int32), net.input(2, 5)
    type_ = OperandType(OperandCode.TENSOR_INT32)
    seeded = net.build.value(seeds)
    one, two = (net.op(Op.RANDOM_MULTINOMIAL, logits, net.code(3), seeded, type_=type_) for _ in range(2))
    model = net.finish(net.op(Op.ADD, one, two, net.code(0), type_=type_))
    graph, count = eliminate_common_subexpressions(graph_of(model), context_of(model))
    assert (codes(graph).count("RANDOM_MULTINOMIAL"), count) == (2, 0)


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
    return [name for name in library().variants if name.partition(".")[0] == family]


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
    assert [node.operation for node in graph.nodes if node.epilogue] == [1]


@pytest.mark.parametrize(
    ("avoided", "names"),
    [("gemm.f32.register.none.whole.fused", ["FULLY_CONNECTED", "TANH"]), ("pool2d.", ["FULLY_CONNECTED>1"])],
)
def test_an_epilogue_needs_no_shader_that_has_to_be_avoided(avoided: str, names: list[str]) -> None:
    every = frozenset(name for name in library().variants if name.startswith(avoided))
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


def test_the_later_gemm_of_bytes_takes_what_combines_two() -> None:
    net, outputs = after_bytes("a sum of two")
    graph, _ = rewritten(net.finish(*outputs), fuse_epilogues)
    assert [node.operation for node in graph.nodes if node.epilogue] == [1]


# --- horizontal fusion -------------------------------------------------------------------------------------------

HEADS, ROWS, COLUMNS = 3, 9, 8
WIDTH = HEADS * COLUMNS


class Two:
    """Two FULLY_CONNECTED of one input, whose results a BATCH_MATMUL multiplies."""

    def __init__(self, rows: int = ROWS) -> None:
        self.net, self.rows = Net(), rows
        self.source = self.net.input(rows, WIDTH)

    def dense(self, activation: int = FuseCode.NONE, source: int | None = None) -> int:
        net, x = self.net, self.source if source is None else source
        return net.op(Op.FULLY_CONNECTED, x, net.weights(WIDTH, WIDTH), net.weights(WIDTH), net.code(activation))

    def fused(self, one: int, two: int, *outputs: int, **options: Any) -> tuple[list[str], int]:
        """The operations but for transpositions and reshapes, and the number of families."""
        left, right = (heads(self.net, "float32", x, 1, HEADS, self.rows, COLUMNS) for x in (one, two))
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


@pytest.mark.parametrize(("rows", "columns"), [(ROWS, WIDTH), (7 * WIDTH, WIDTH)])
def test_the_device_can_bind_the_weights_and_the_results(rows: int, columns: int) -> None:
    """Weights lie in blocks of columns, in rows of whole vec4s; the results of all members are one tensor."""
    needed = padded(4 * round_up(2 * columns, BLOCK) * max(rows, WIDTH))
    for missing in (0, 1):
        two = Two(rows)
        profile = replace(native(), max_buffer=needed - missing)
        assert two.fused(two.dense(), two.dense(), profile=profile)[1] == 1 - missing


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


def cells(net: Net, sequence: int, weights: int, biases: Sequence[int], count: int = 4, skipped: int = 0) -> list[int]:
    """So many cells on one row of a sequence each, without some rows at its begin; they take turns in the biases."""
    outputs = []
    for row in range(count):
        begin, size = np.array([skipped + row, 0], np.int32), np.array([1, 16], np.int32)
        part = net.op(Op.SLICE, sequence, begin, size)
        outputs.append(net.op(Op.FULLY_CONNECTED, part, weights, biases[row % len(biases)], net.code(0)))
    return outputs


def test_time_steps_of_a_part_are_computed_on_the_whole() -> None:
    """The first row of a part of a part is counted from the begin of the whole."""
    net = Net()
    x = net.op(Op.SLICE, net.input(6, 16), np.array([2, 0], np.int32), np.array([4, 16], np.int32))
    rows = cells(net, x, net.weights(8, 16), [net.weights(8)], count=3, skipped=1)
    graph, count = rewritten(net.finish(*rows), fuse_time_steps)
    (gemm,) = (node for node in graph.nodes if node.code is Op.FULLY_CONNECTED)
    assert (count, gemm.call.input.shape) == (1, (6, 16))


def test_layers_of_the_same_sequence_stay_apart() -> None:
    """One GEMM has one matrix of weights and one bias."""
    net = Net()
    x, weights = net.input(4, 16), net.weights(8, 16)
    one, two = (net.weights(8) for _ in range(2))
    outputs = [
        *cells(net, x, weights, [one]),
        *cells(net, x, weights, [two]),
        *cells(net, x, net.weights(8, 16), [one]),
    ]
    names, count = fused(net, fuse_time_steps, *outputs)
    assert (names.count("FULLY_CONNECTED"), count) == (3, 3)


@pytest.mark.parametrize("case", ["a bias for each", "a constant", "all of a tensor", "columns"])
def test_rows_that_are_no_time_steps(case: str) -> None:
    net = Net()
    x = net.weights(4, 16) if case == "a constant" else net.input(4, 16)
    weights, bias = net.weights(8, 16), net.weights(8)
    if case in ("a bias for each", "a constant"):
        biases = [net.weights(8) for _ in range(4)] if case == "a bias for each" else [bias]
        outputs = cells(net, x, weights, biases)
    elif case == "all of a tensor":
        outputs = [net.op(Op.FULLY_CONNECTED, x, weights, bias, net.code(0)) for _ in range(4)]
    else:
        sizes = np.array([4, 4], np.int32)
        parts = [net.op(Op.SLICE, x, np.array([0, first], np.int32), sizes) for first in (0, 4, 8, 12)]
        outputs = [net.op(Op.FULLY_CONNECTED, part, weights, bias, net.code(0)) for part in parts]
    _, count = fused(net, fuse_time_steps, *outputs)
    assert count == 0
