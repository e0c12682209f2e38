"""Common subexpressions among commands: which dispatches are equal, and whose results may take the place of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rewritten import library, native

from nnvk.driver.vulkan.lowering.copies.arrange import arrange
from nnvk.driver.vulkan.lowering.copies.move import move
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph
from nnvk.driver.vulkan.planning.command_passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.shaders.commands import Command, Copy, Dispatch, Storage, TensorRef
from nnvk.ops.strided import Box


class Twice:
    """A tensor that two dispatches copy to other tensors, each of which a third dispatch reads."""

    def __init__(self, **changes: Any) -> None:
        self.g, change = Lowering(native(), library()), changes.get
        self.commands: list[Command] = []
        self.source, self.other = (self.g.scratch(64) for _ in range(2))
        for each in (self.source, self.other):
            self.write(each)
        self.first = change("first") or self.g.scratch(64)
        self.second = change("second") or self.g.scratch(change("nbytes", 64))
        self.copy(self.source, self.first)
        if change("adds"):
            self.add()
        if change("written between"):
            self.write(self.source)
        if change("written before"):
            self.write(self.first)
        self.copy(self.other if change("another") else self.source, self.second, **change("copied", {}))
        self.change(**change("dispatch", {}))
        if change("adds"):
            self.add()
        if change("written after"):
            self.write(self.second)
        self.results = [self.g.scratch(64) for _ in range(2)]
        for part, result in zip((self.first, self.second), self.results, strict=True):
            if change("read by a copy"):
                self.commands.append(Copy(part, result, 64))
            else:
                self.copy(part, result)

    def write(self, tensor: TensorRef) -> None:
        """Write a tensor from an input of the model."""
        self.commands.append(Copy(TensorRef(1000 + len(self.commands), 64, Storage.STAGING), tensor, 64))

    def copy(self, source: TensorRef, target: TensorRef, count: int = 16, first: int = 0) -> None:
        """Copy so many floats, from the one at ``first`` on, by a shader."""
        arrange(self.g, "b32", source, target, Box(((count, 1),), first))
        self.commands.append(self.g.commands[-1])

    def change(self, **changes: Any) -> None:
        """Change the last dispatch."""
        dispatch = self.commands[-1]
        assert isinstance(dispatch, Dispatch)
        self.commands[-1] = replace(dispatch, **changes)

    def add(self) -> None:
        """Let the last dispatch be one by a shader that reads its output too, as a strided copy may."""
        dispatch = self.commands[-1]
        assert isinstance(dispatch, Dispatch)
        move(self.g, "b32", dispatch.tensors["src"], dispatch.tensors["dst"], [16], [1], [1])
        self.commands[-1] = self.g.commands[-1]
        assert set(self.commands[-1].writes) <= set(self.commands[-1].reads)

    def after(self) -> CommandGraph:
        """The commands after the pass."""
        graph = CommandGraph(self.commands)
        eliminate_common_subexpressions(graph)
        return graph


def exchanged(number: int) -> TensorRef:
    return TensorRef(number, 64, Storage.STAGING)


def test_who_reads_the_second_result_reads_the_first() -> None:
    twice = Twice()
    graph = twice.after()
    left = [each for each in graph.commands if isinstance(each, Dispatch)]
    assert [each.tensors["dst"] for each in left] == [twice.first, *twice.results]
    assert [each.tensors["src"] for each in left] == [twice.source, twice.first, twice.first]
    assert graph.rewrites == 1


@pytest.mark.parametrize(
    ("changes", "is_equal"),
    [
        ({}, True),
        ({"written before": True}, False),
        ({"another": True}, False),
        ({"copied": {"first": 4, "count": 12}}, False),
        ({"dispatch": {"groups": (2, 1, 1)}}, False),
        ({"nbytes": 128}, False),
        ({"written between": True}, False),
        ({"written after": True}, False),
        ({"read by a copy": True}, False),
        ({"first": exchanged(900)}, False),
        ({"second": exchanged(901)}, False),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, dict) else str(value),
)
def test_equal_dispatches(changes: dict[str, Any], is_equal: bool) -> None:
    """The same shader, numbers and sources; no other command writes the results; and who reads them can change."""
    twice = Twice(**changes)
    last = twice.after().commands[-1]
    assert last is not None
    assert list(last.reads) == [twice.first if is_equal else twice.second]


def test_a_dispatch_that_adds_to_its_result_is_not_equal_to_another() -> None:
    twice = Twice(adds=True)
    last = twice.after().commands[-1]
    assert last is not None
    assert list(last.reads) == [twice.second]
