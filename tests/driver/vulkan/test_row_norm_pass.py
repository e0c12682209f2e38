"""The pass row_norm: operations that are a layer normalisation, and operations that only look like one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fused import F16, Net, Op, transposed
from rewritten import codes, rewritten

from nnvk.driver.vulkan.planning.passes.row_norm import fuse_row_norms
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import FuseCode

ROWS, LENGTH = 3, 16
ACTIVATED = {"mean less": "SUB", "square": "MUL", "variance": "ADD", "normalised": "MUL", "weighted": "MUL"}


class Norm:
    """A layer normalisation with parts that can be exchanged; ``changes`` says which."""

    def __init__(self, shape: Sequence[int] = (ROWS, LENGTH), real: Any = None, **changes: Any) -> None:
        self.net = Net() if real is None else Net(real=real)
        self.shape, self.changes = tuple(shape), changes
        self.axes = changes.get("axes", (-1,))
        self.tensors: dict[str, int] = {"source": self.net.input(*self.shape)}
        self._build()

    def mean(self, x: int, axes: Sequence[int]) -> int:
        axes_operand = self.net.build.value(np.array(axes, np.int32))
        return self.net.op(Op.MEAN, x, axes_operand, self.net.code(self.changes.get("keep_dims", 1)))

    def binary(self, name: str, code: Op, one: int, other: int) -> int:
        """An operation, whose operands are swapped or which has an activation if that is what is to be changed."""
        if self.changes.get("swapped") == name:
            one, other = other, one
        activation = FuseCode.RELU6 if self.changes.get("activated") == name else FuseCode.NONE
        self.tensors[name] = self.net.op(code, one, other, self.net.code(activation))
        return self.tensors[name]

    def _build(self) -> None:
        net, change = self.net, self.changes
        source = self.tensors["source"]
        less = source
        if change.get("centred", True):
            of = net.input(*self.shape) if change.get("mean_of_another") else source
            self.tensors["mean"] = self.mean(of, change.get("mean_axes", self.axes))
            less = self.binary("mean less", Op.SUB, source, self.tensors["mean"])
        if "exponent" in change:
            square = net.op(Op.POW, less, net.build.value(np.array(change["exponent"], net.real.dtype)))
        else:
            square = self.binary("square", Op.MUL, less, change["factor"](net) if "factor" in change else less)
        squares = self.tensors["squares"] = self.mean(square, self.axes)
        epsilon = net.build.value(np.array(change.get("epsilon", [1e-5]), net.real.dtype))
        variance = self.binary("variance", Op.ADD, squares, epsilon)
        is_divided = change.get("divided", False)
        root = self.tensors["root"] = net.op(Op.SQRT if is_divided else Op.RSQRT, variance)
        y = self.binary("normalised", Op.DIV if is_divided else Op.MUL, less, root)
        if change.get("weights", True):
            y = self.binary("weighted", Op.MUL, y, net.weights(*change.get("weights_shape", self.shape[-1:])))
        if change.get("bias", True):
            y = self.binary("biased", Op.ADD, y, net.weights(*change.get("bias_shape", self.shape[-1:])))
        self.tensors["result"] = y

    def fused(self, *seen: str) -> tuple[list[str], int]:
        """The operations after the pass; ``seen`` are tensors that are outputs of the model, too."""
        outputs = [self.tensors[name] for name in ("result", *seen)]
        graph, count = rewritten(self.net.finish(*outputs), fuse_row_norms)
        for node in graph.nodes:
            assert node.operation == min(node.operations)
        return codes(graph), count


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"swapped": "variance"},
        {"swapped": "normalised"},
        {"swapped": "weighted"},
        {"swapped": "biased"},
        {"exponent": [2.0]},
        {"divided": True},
        {"centred": False},
        {"weights": False},
        {"bias": False},
        {"weights": False, "bias": False},
        {"shape": (1, 1 << 14)},
        {"shape": (2, 3, 16)},
        {"shape": (3, 2, 8), "axes": (1, 2), "weights_shape": (2, 8), "bias_shape": (1, 2, 8)},
        {"shape": (3, 1, 16), "axes": (1, 2)},
        {"weights_shape": (1, LENGTH)},
        {"epsilon": [[0.5]]},
    ],
    ids=str,
)
def test_all_is_one(changes: dict[str, Any]) -> None:
    assert Norm(**changes).fused() == (["ROW_NORM"], 1)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"weights_shape": (ROWS, 1)}, ["ROW_NORM", "MUL", "ADD"]),
        ({"weights_shape": (2, ROWS, LENGTH)}, ["ROW_NORM", "MUL", "ADD"]),
        ({"weights_shape": (1,)}, ["ROW_NORM", "MUL", "ADD"]),
        ({"bias_shape": (ROWS, LENGTH)}, ["ROW_NORM", "ADD"]),
        ({"bias_shape": (1, 1, LENGTH)}, ["ROW_NORM", "ADD"]),
        ({"activated": "weighted"}, ["ROW_NORM", "MUL", "ADD"]),
        ({"activated": "biased"}, ["ROW_NORM", "ADD"]),
        # The mean is another one than that which has to be subtracted, so that what is normalised is the difference.
        ({"mean_of_another": True}, ["MEAN", "SUB", "ROW_NORM"]),
        ({"mean_axes": (0,)}, ["MEAN", "SUB", "ROW_NORM"]),
        ({"activated": "mean less"}, ["MEAN", "SUB", "ROW_NORM"]),
    ],
    ids=str,
)
def test_a_part_is_one(changes: dict[str, Any], left: list[str]) -> None:
    assert Norm(**changes).fused() == (left, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (ROWS, 15)},
        {"shape": (1, (1 << 14) + 1)},
        {"epsilon": [[1e-5]] * ROWS},
        {"exponent": [3.0]},
        {"exponent": [2.0] * LENGTH},
        {"factor": lambda net: net.weights(LENGTH)},
        {"activated": "square"},
        {"activated": "variance"},
        {"activated": "normalised"},
        {"divided": True, "swapped": "normalised"},
        {"axes": (0,), "shape": (LENGTH, ROWS)},
        {"centred": False, "keep_dims": 0, "shape": (LENGTH, LENGTH)},
        {"real": F16},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_nothing_is_one(changes: dict[str, Any]) -> None:
    names, count = Norm(**changes).fused()
    assert count == 0
    assert "ROW_NORM" not in names


@pytest.mark.parametrize("seen", ["mean", "mean less", "square", "squares", "variance", "root"])
def test_nothing_is_one_if_the_model_gives_what_would_go(seen: str) -> None:
    names, count = Norm().fused(seen)
    assert (count, "ROW_NORM" in names) == (0, False)


@pytest.mark.parametrize(("seen", "left"), [("normalised", ["MUL", "ADD"]), ("weighted", ["ADD"])])
def test_weights_of_what_the_model_gives_stay(seen: str, left: list[str]) -> None:
    assert Norm().fused(seen) == (["ROW_NORM", *left], 1)


def with_scale(changes: dict[str, Any]) -> tuple[list[str], int]:
    """x * scale + (bias - mean * scale), where the scale is the inverse root times the weights."""
    net = Net()
    x = net.input(ROWS, LENGTH)
    axes = net.build.value(np.array([-1], np.int32))
    mean = net.op(Op.MEAN, x, axes, net.code(1))
    less = net.op(Op.SUB, x, mean)
    variance = net.op(Op.MEAN, net.op(Op.MUL, less, less), axes, net.code(1))
    root = net.op(Op.RSQRT, net.op(Op.ADD, variance, net.scalar(1e-3)))
    scale = net.op(Op.MUL, root, net.weights(*changes.get("weights", (LENGTH,))))
    activations = [net.code(changes.get(name, 0)) for name in ("of scaled", "of moved")]
    scaled = net.op(Op.MUL, x, scale, activations[0])
    moved = net.op(Op.MUL, net.input(ROWS, 1) if changes.get("another") else mean, scale, activations[1])
    bias = net.weights(*changes.get("bias", (LENGTH,)))
    rest = net.op(Op.SUB, moved, bias) if changes.get("reversed") else net.op(Op.SUB, bias, moved)
    outputs = [net.op(Op.ADD, net.input(ROWS, LENGTH) if changes.get("added") else rest, scaled)]
    outputs += [rest] if changes.get("added") else []
    outputs += [net.op(Op.ABS, scale)] if changes.get("read") else []
    outputs += [scale] if changes.get("given") else []
    graph, count = rewritten(net.finish(*outputs), fuse_row_norms)
    return codes(graph), count


def test_weights_that_are_applied_first() -> None:
    assert with_scale({}) == (["ROW_NORM"], 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": (ROWS, LENGTH)},
        {"bias": (ROWS, LENGTH)},
        {"of scaled": FuseCode.RELU},
        {"of moved": FuseCode.RELU},
        {"another": True},
        {"reversed": True},
        {"added": True},
        {"read": True},
        {"given": True},
    ],
    ids=str,
)
def test_what_only_looks_like_weights_that_are_applied_first(changes: dict[str, Any]) -> None:
    names, count = with_scale(changes)
    assert (count, "ROW_NORM" in names) == (0, False)


def channels_first(between: Callable[[Net, int], int], shape: Sequence[int] = (1, 4, 5, LENGTH)) -> tuple[Net, int]:
    """A normalisation along the second axis, of what is transposed, and then computed ``between`` that and it."""
    net = Net()
    x = between(net, transposed(net, net.input(*shape), 0, 3, 1, 2))
    axes = net.build.value(np.array([1], np.int32))
    less = net.op(Op.SUB, x, net.op(Op.MEAN, x, axes, net.code(1)))
    variance = net.op(Op.MEAN, net.op(Op.MUL, less, less), axes, net.code(1))
    return net, net.op(Op.MUL, less, net.op(Op.RSQRT, net.op(Op.ADD, variance, net.scalar(1e-5))))


def absolute(count: int) -> Callable[[Net, int], int]:
    """So many elementwise operations."""

    def chain(net: Net, x: int) -> int:
        for _ in range(count):
            x = net.op(Op.ABS, x)
        return x

    return chain


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_rows_that_were_transposed_are_transposed_back(count: int) -> None:
    """At most four elementwise operations may be between the transposition and the normalisation."""
    net, y = channels_first(absolute(count))
    graph, fused = rewritten(net.finish(y), fuse_row_norms)
    if count <= 4:
        assert codes(graph) == ["TRANSPOSE", *["ABS"] * count, "ARRANGE", "ROW_NORM", "ARRANGE"]
    assert fused == (count <= 4)


def test_an_operand_that_broadcasts_is_not_what_was_transposed() -> None:
    def between(net: Net, x: int) -> int:
        image = net.input(1, LENGTH, 4, 5)
        mean = net.op(Op.MEAN, x, np.array([2, 3], np.int32), net.code(1))
        return net.op(Op.ADD, image, mean)

    net, y = channels_first(between)
    assert rewritten(net.finish(y), fuse_row_norms)[1] == 0


def test_the_second_operand_may_be_the_transposed_one() -> None:
    net, y = channels_first(lambda net, x: net.op(Op.ADD, net.input(1, LENGTH, 4, 5), x))
    assert rewritten(net.finish(y), fuse_row_norms)[1] == 1


@pytest.mark.parametrize("code", [InternalCode.ROW_NORM, InternalCode.ARRANGE])
def test_what_a_device_refuses_stays(code: InternalCode) -> None:
    """Each of the operations that normalise rows is asked for."""

    def refuse(call: Call) -> str | None:
        return "no shader" if call.code is code else None

    net, y = channels_first(absolute(0))
    model = net.finish(y)
    graph, count = rewritten(model, fuse_row_norms, refuse=refuse)
    assert (len(graph.nodes), count) == (len(model.operations), 0)


def test_several_are_counted() -> None:
    net = Net()
    x = net.input(ROWS, LENGTH)
    for _ in range(3):
        less = net.op(Op.SUB, x, net.op(Op.MEAN, x, np.array([1], np.int32), net.code(1)))
        variance = net.op(Op.MEAN, net.op(Op.MUL, less, less), np.array([1], np.int32), net.code(1))
        x = net.op(Op.MUL, less, net.op(Op.RSQRT, net.op(Op.ADD, variance, net.scalar(1e-5))))
    graph, count = rewritten(net.finish(x), fuse_row_norms, near=1e-4)
    assert (codes(graph), count) == (["ROW_NORM"] * 3, 3)


def test_rows_are_normalised_where_all_operands_are_there() -> None:
    """The weights are computed between the root and the product with them."""
    net = Net()
    x = net.input(ROWS, LENGTH)
    axes = net.build.value(np.array([-1], np.int32))
    squares = net.op(Op.MEAN, net.op(Op.MUL, x, x), axes, net.code(1))
    root = net.op(Op.RSQRT, net.op(Op.ADD, squares, net.scalar(1e-5)))
    weights = net.op(Op.ABS, net.input(LENGTH))
    y = net.op(Op.MUL, net.op(Op.MUL, x, root), weights)
    graph, count = rewritten(net.finish(net.op(Op.ADD, y, net.op(Op.EXP, net.input(LENGTH)))), fuse_row_norms)
    assert (codes(graph), count) == (["ABS", "EXP", "ROW_NORM"], 1)
