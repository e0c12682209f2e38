"""Copy elimination: the copies of columns that plans have, for a device that need not be there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F16, Net, Op, families, joined, maximum, split
from rewritten import graph_of, library, native

from nnvk.driver.vulkan.lowering.copies.copied import copied_by
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.node import lower as lower_node
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph
from nnvk.driver.vulkan.planning.command_passes.copy_elimination import eliminate_copies
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.model import Model


def planned(net: Net, *outputs: int, disabled: frozenset[str] = frozenset(), **changes: Any) -> Plan:
    """A plan for a GPU that shares the memory of the host, so that inputs and outputs are not copied."""
    model = net.finish(*outputs)
    profile = replace(native(), unified_memory=True, disabled_passes=disabled, **changes)
    return lower(model, [type_.dimensions for type_ in model.input_types()], profile, library())


def copies(plan: Plan) -> int:
    """The dispatches that copy columns."""
    return sum(name in ("move", "arrange") for name in families(plan).split())


def views(plan: Plan) -> list[tuple[int, int, int]]:
    """The columns that tensors are of larger ones, in bytes."""
    found = [address.view for number, address in plan.addresses.items() if number in plan.parts]
    return sorted((view.first, view.width, view.pitch) for view in found if view is not None)


def pointwise(net: Net, x: int, outputs: int, depth: int = 8) -> int:
    """A convolution of single pixels."""
    return net.conv(x, outputs, depth, size=1)


def test_columns_are_written_in_place() -> None:
    net = Net()
    x = net.input(1, 4, 6, 8)
    y = joined(net, 3, pointwise(net, x, 8), pointwise(net, x, 4), pointwise(net, x, 12))
    plan = planned(net, maximum(net, y))
    assert copies(plan) == 0
    assert views(plan) == [(0, 32, 96), (32, 16, 96), (48, 48, 96)]
    assert plan.applied[Pass.IN_PLACE] == 3


def test_columns_of_columns_are_written_in_place() -> None:
    net = Net()
    x = net.input(1, 4, 6, 8)
    inner = joined(net, 3, pointwise(net, x, 8), pointwise(net, x, 4))
    outer = joined(net, 3, pointwise(net, x, 4), inner)
    plan = planned(net, maximum(net, outer))
    assert copies(plan) == 0
    assert views(plan) == [(0, 16, 64), (16, 32, 64), (16, 48, 64), (48, 16, 64)]


def test_columns_are_read_in_place() -> None:
    net = Net()
    x = maximum(net, net.input(1, 5, 7, 24))
    plan = planned(net, *(maximum(net, part) for part in split(net, x, 3, 3)))
    assert copies(plan) == 0
    assert views(plan) == [(0, 32, 96), (32, 32, 96), (64, 32, 96)]


CASES = {
    "the same twice": 1,
    "an input": 1,
    "a constant": 1,
    "an output": 1,
    "in another whole": 2,
    "read before it is whole": 0,
    "of 16 bits amid words": 2,
}


@pytest.mark.parametrize("case", CASES)
def test_columns_that_are_copied(case: str) -> None:
    net = Net(real=F16) if case == "of 16 bits amid words" else Net()
    x = net.input(1, 4, 6, 8)
    one = pointwise(net, x, 3 if case == "of 16 bits amid words" else 8)
    two = pointwise(net, x, 5 if case == "of 16 bits amid words" else 8)
    outputs: list[int] = []
    if case == "the same twice":
        y = joined(net, 3, one, two, one)
    elif case == "an input":
        y = joined(net, 3, one, x)
    elif case == "a constant":
        y = joined(net, 3, one, net.weights(1, 4, 6, 8))
    elif case == "an output":
        outputs, y = [one], joined(net, 3, one, two)
    elif case == "in another whole":
        outputs, y = [maximum(net, joined(net, 3, two, one))], joined(net, 3, one, two)
    elif case == "read before it is whole":
        y = joined(net, 3, one, pointwise(net, one, 8))
    else:
        y = joined(net, 3, one, two, kind="float16")
    kind = "float16" if case == "of 16 bits amid words" else "float32"
    assert copies(planned(net, maximum(net, y, kind), *outputs)) == CASES[case]


def test_a_part_that_is_read_as_other_rows_is_copied() -> None:
    """An operation on the elements in another shape cannot go from row to row."""
    for is_reshaped in (False, True):
        net = Net()
        x = net.input(1, 4, 6, 8)
        one, two = pointwise(net, x, 8), pointwise(net, x, 8)
        reader = net.op(Op.RESHAPE, one, np.array([1, 2, 3, 32], np.int32)) if is_reshaped else one
        plan = planned(net, maximum(net, joined(net, 3, one, two)), maximum(net, reader))
        assert copies(plan) == is_reshaped


def lowered(model: Model) -> Lowering:
    """The commands of a model before passes on commands."""
    g = Lowering(replace(native(), unified_memory=True), library())
    for index, type_ in zip(model.inputs, model.input_types(), strict=True):
        g.input(index, type_.size)
    graph = graph_of(model)
    g.users = Counter(tensor.index for node in graph.nodes for tensor in node.inputs)
    for node in graph.nodes:
        lower_node(node, g)
    return g


def laid(commands: Sequence[Command]) -> set[TensorRef]:
    """The tensors that lie in others after the pass on these commands."""
    graph = CommandGraph(commands)
    eliminate_copies(graph)
    return set(graph.parts)


def copied(commands: Sequence[Command], family: str) -> list[Dispatch]:
    return [each for each in commands if isinstance(each, Dispatch) and each.shader.family == family]


@pytest.mark.parametrize("change", ["none", "written later", "written twice before", "never written"])
def test_a_part_is_all_there_before_it_is_copied(change: str) -> None:
    net = Net()
    x = net.input(1, 4, 6, 8)
    g = lowered(net.finish(maximum(net, joined(net, 3, pointwise(net, x, 8), pointwise(net, x, 4)))))
    commands = list(g.commands)
    one, two = (each.tensors["src"] for each in copied(commands, "move"))
    assert laid(commands) == {one, two}
    (writer,) = (each for each in commands if one in each.writes)
    place = commands.index(writer)
    if change == "written later":
        commands.append(writer)
    elif change == "written twice before":
        commands.insert(place, writer)
    elif change == "never written":
        del commands[place]
    assert laid(commands) == ({one, two} if change in ("none", "written twice before") else {two})


@pytest.mark.parametrize("change", ["none", "two overlap", "read before the last"])
def test_a_whole_is_made_of_parts_before_it_is_read(change: str) -> None:
    """Two of three parts that lie over each other, or one reader that comes too early, are enough to copy all."""
    net = Net()
    x = net.input(1, 4, 6, 8)
    y = joined(net, 3, *(pointwise(net, x, count) for count in (8, 4, 12)))
    g = lowered(net.finish(maximum(net, y), net.op(Op.RESHAPE, y, np.array([4, 6, 24], np.int32))))
    commands = list(g.commands)
    copies_ = copied(commands, "move")
    parts = {each.tensors["src"] for each in copies_}
    assert len(parts) == 3
    assert laid(commands) == parts
    if change == "two overlap":
        own = copied_by(copies_[1])
        assert own is not None
        elsewhere = replace(own, target=replace(own.target, first=own.target.first - 4))
        moved = elsewhere.dispatch(copies_[1].tensors["src"], copies_[1].tensors["dst"], copies_[1].operation)
        assert moved is not None
        commands[commands.index(copies_[1])] = moved
    elif change == "read before the last":
        (reader, *_) = (each for each in commands if copies_[0].tensors["dst"] in each.reads and each not in copies_)
        commands.insert(commands.index(copies_[2]), reader)
    assert laid(commands) == (parts if change == "none" else set())


@pytest.mark.parametrize("change", ["none", "written by others", "whole written again"])
def test_a_part_that_is_read_in_place_stays_as_it_is(change: str) -> None:
    net = Net()
    x = maximum(net, net.input(1, 5, 7, 24))
    g = lowered(net.finish(*(maximum(net, part) for part in split(net, x, 3, 3))))
    commands = list(g.commands)
    copies_ = copied(commands, "arrange") or copied(commands, "move")
    parts = {each.tensors["dst"] for each in copies_}
    assert laid(commands) == parts and len(parts) == 3
    (whole,) = {each.tensors["src"] for each in copies_}
    (writer,) = (each for each in commands if whole in each.writes)
    if change == "written by others":
        (first, *_) = copies_
        reader = next(each for each in commands if first.tensors["dst"] in each.reads)
        commands.insert(commands.index(reader), first)
        assert laid(commands) == parts - {first.tensors["dst"]}
    elif change == "whole written again":
        commands.append(writer)
        assert laid(commands) == set()


def test_results_are_named_for_all_operations() -> None:
    """The commands that write parts name the concatenation too."""
    net = Net()
    x = net.input(1, 4, 6, 8)
    plan = planned(net, maximum(net, joined(net, 3, pointwise(net, x, 8), pointwise(net, x, 4))))
    fused = [command.fused for command in plan.commands if isinstance(command, Dispatch)]
    assert sum(2 in each for each in fused) >= 1


@pytest.mark.parametrize(
    ("order", "is_read", "copied", "found"),
    [
        ("abc", False, 0, [(0, 96, 128), (96, 32, 128)]),
        ("abc", True, 0, [(0, 96, 128), (32, 32, 128), (96, 32, 128)]),
        ("bac", False, 3, [(96, 32, 128)]),
        ("ab", False, 2, [(64, 32, 96)]),
        ("aac", False, 3, [(0, 32, 96), (96, 32, 128)]),
    ],
)
def test_a_tensor_that_was_split_is_joined_again(
    order: str, is_read: bool, copied: int, found: list[tuple[int, int, int]]
) -> None:
    """All of its columns in their order are the tensor, whoever reads a part of it too."""
    net = Net()
    x = maximum(net, net.input(1, 5, 7, 24))
    parts = dict(zip("abc", split(net, x, 3, 3), strict=True))
    y = joined(net, 3, *(parts[each] for each in order), pointwise(net, x, 8, 24))
    plan = planned(net, maximum(net, y), *([maximum(net, parts["b"])] if is_read else []))
    assert (copies(plan), views(plan)) == (copied, found)


@pytest.mark.parametrize(
    ("case", "copied"),
    [("an input", 0), ("in other rows", 0), ("a constant", 3), ("outputs", 3), ("that begin amid vec4s", 3)],
)
def test_columns_that_are_read_in_place(case: str, copied: int) -> None:
    net = Net()
    width = 18 if case == "that begin amid vec4s" else 24
    x = net.weights(1, 5, 7, width) if case == "a constant" else net.input(1, 5, 7, width)
    x = x if case in ("an input", "a constant") else maximum(net, x)
    parts = split(net, x, 3, 3)
    if case == "in other rows":
        parts = [net.op(Op.ABS, net.op(Op.RESHAPE, part, np.array([7, 40], np.int32))) for part in parts]
    elif case != "outputs":
        parts = [maximum(net, part) for part in parts]
    plan = planned(net, *parts)
    assert copies(plan) == copied
    assert views(plan) == ([] if copied else [(0, 32, 96), (32, 32, 96), (64, 32, 96)])


def test_what_is_there_first_is_copied_if_memory_is_short() -> None:
    """The whole would take memory while much else is needed; a little more memory than before is allowed."""
    for size, is_short in ((32, False), (32, True), (64, True)):
        net = Net()
        small = pointwise(net, net.input(1, 4, 6, 8), 4)
        other = maximum(net, maximum(net, net.input(1, size, size, 8))) if is_short else net.input(1, size, size, 8)
        rest = net.op(Op.SLICE, other, np.zeros(4, np.int32), np.array([1, 4, 6, 8], np.int32))
        plan = planned(net, maximum(net, joined(net, 3, small, pointwise(net, rest, 64))))
        assert (copies(plan), views(plan)[-1]) == (1 + (is_short and size == 32), (16, 256, 272))
