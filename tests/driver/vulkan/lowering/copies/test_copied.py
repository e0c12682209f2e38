"""Copies as boxes of elements: contiguous runs, columns of rows, and what becomes of them in larger tensors."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import GPU

from nnvk.driver.vulkan.lowering.copies.arrange import Arranged
from nnvk.driver.vulkan.lowering.copies.copied import Copied, copied_by
from nnvk.driver.vulkan.lowering.copies.move import Moved
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Clear, Dispatch, StridedView
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.ops.strided import Box

G = Lowering(GPU, ShaderLibrary())


def moved(source: Box, target: Box, dtype: str = "b32") -> Copied:
    return Moved.of(G, dtype, source, target)


def dispatched(copied: Copied, source: int, target: int) -> Dispatch:
    """The dispatch of a copy between tensors of so many bytes."""
    made = copied.dispatch(G.scratch(source), G.scratch(target), operation=7)
    assert made is not None
    return made


RUNS: list[Any] = [
    pytest.param(Box(((4, 8), (8, 1)), 8), Box(((4, 8), (8, 1)), 16), (32, 64, 128), id="rows that follow each other"),
    pytest.param(Box(((1, 0),), 3), Box(((1, 0),), 5), (12, 20, 4), id="one element"),
    pytest.param(Box(((4, 16), (8, 1))), Box(((4, 8), (8, 1))), None, id="columns of the source"),
    pytest.param(Box(((4, 8), (8, 1))), Box(((4, 16), (8, 1))), None, id="columns of the target"),
    pytest.param(Box(((8, 2),)), Box(((8, 1),)), None, id="every other element"),
]


@pytest.mark.parametrize(("source", "target", "run"), RUNS)
def test_runs(source: Box, target: Box, run: tuple[int, int, int] | None) -> None:
    assert moved(source, target).run == run


COLUMNS: list[Any] = [
    pytest.param(
        Box(((2, 24), (3, 8), (8, 1))),
        Box(((2, 72), (3, 24), (8, 1)), 8),
        (StridedView(0, 16, 16), StridedView(16, 16, 48), 6),
        id="rows of two dimensions",
    ),
    pytest.param(Box(((6, 8), (8, 1))), Box(((6, 24), (8, 1)), 20), None, id="beyond the end of a row"),
    pytest.param(Box(((6, 1), (8, 6))), Box(((6, 8), (8, 1))), None, id="transposed"),
    pytest.param(Box(((8, 1),)), Box(((8, 1),)), None, id="one row"),
]


@pytest.mark.parametrize(("source", "target", "columns"), COLUMNS)
def test_columns(source: Box, target: Box, columns: tuple[StridedView, StridedView, int] | None) -> None:
    assert moved(source, target, "b16").columns == columns


def test_elements_that_are_written() -> None:
    assert moved(Box(((6, 8), (8, 1))), Box(((6, 24), (8, 1)), 8)).written == (8, 136)


def test_copies_in_larger_tensors() -> None:
    """A source that lies in the last columns of rows of 24, and a target in the first ones of rows of 40."""
    before = dispatched(moved(Box(((6, 8), (8, 1))), Box(((6, 8), (8, 1)))), 192, 192)
    assert before.access is not None
    after = before.access.on_views(before, {"src": StridedView(64, 32, 96), "dst": StridedView(0, 32, 160)})
    own = copied_by(after)
    assert after is not None
    assert own is not None
    assert (own.source, own.target) == (Box(((6, 24), (8, 1))), Box(((6, 40), (8, 1))))
    assert (after.tensors, after.operation) == (before.tensors, 7)
    assert after.shader.named_constants(after.specialization)["DENSE"]


def test_elements_that_are_not_aligned_are_copied_alone() -> None:
    before = dispatched(moved(Box(((6, 8), (8, 1))), Box(((6, 8), (8, 1)))), 192, 192)
    assert before.access is not None
    after = before.access.on_views(before, {"src": StridedView(4, 32, 96)})
    assert after is not None
    assert not after.shader.named_constants(after.specialization)["DENSE"]


def test_views_that_a_copy_cannot_take() -> None:
    dense = Box(((6, 8), (8, 1)))
    arranged = dispatched(Arranged.of(G, "b32", dense, dense), 192, 192)
    assert arranged.access is not None
    assert arranged.access.on_views(arranged, {"dst": StridedView(0, 32, 96)}) is None
    assert arranged.access.on_views(arranged, {"src": StridedView(2, 32, 96)}) is None
    across = dispatched(moved(Box(((9, 5),)), Box(((9, 1),))), 192, 36)
    assert across.access is not None
    assert across.access.on_views(across, {"src": StridedView(0, 32, 96)}) is None


def test_other_commands_copy_no_elements() -> None:
    assert copied_by(None) is None
    assert copied_by(Clear(G.scratch(16))) is None


def test_too_many_dimensions() -> None:
    box = Box(tuple((2, 3**axis) for axis in reversed(range(6))))
    with pytest.raises(ValueError, match="a copy of more than 5 dimensions"):
        moved(box, box).dispatch(G.scratch(4096), G.scratch(4096), 0)
