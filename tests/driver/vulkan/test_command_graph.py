"""The graph of commands: what goes when a command is replaced, who names its work, and where tensors lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from rewritten import library, native

from nnvk.driver.vulkan.lowering.copies.move import move
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.command_passes.alive import Alive
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph, TensorPart
from nnvk.driver.vulkan.planning.command_passes.in_place import fuse_copies
from nnvk.driver.vulkan.shaders.commands import Clear, Command, Copy, Storage, StridedView, TensorRef

SIZE = 64


class Copies:
    """Copies from tensor to tensor, which are letters: small ones for activations, capitals for what is exchanged."""

    def __init__(self, *pairs: str, nbytes: dict[str, int] | None = None) -> None:
        letters = sorted({*"".join(pairs)})
        sizes = nbytes or {}
        self.tensors = {
            each: TensorRef(ord(each), sizes.get(each, SIZE), Storage.STAGING if each.isupper() else Storage.ARENA)
            for each in letters
        }
        self.graph = CommandGraph([self.command(pair) for pair in pairs])

    def command(self, pair: str) -> Command:
        """A copy, or for one letter the command that clears a tensor."""
        tensors = [self.tensors[each] for each in pair]
        return Copy(tensors[0], tensors[1], 4) if len(tensors) == 2 else Clear(tensors[0])

    def left(self) -> list[str]:
        """The commands that are left."""
        return [
            "".join(chr(each.number) for each in (*command.reads, *command.writes))
            for command in self.graph.commands
            if command is not None
        ]

    def origins(self) -> list[tuple[int, ...]]:
        """For each command that is left, those that it does the work of."""
        operations = [()] * len(self.graph.commands)
        return [each.origins for each in self.graph.result(operations)]

    def __getitem__(self, letter: str) -> TensorRef:
        return self.tensors[letter]


def test_writers_and_readers() -> None:
    copies = Copies("Ab", "bc", "dc", "bE")
    graph = copies.graph
    assert list(graph.writers(copies["c"])) == [1, 2]
    assert list(graph.readers(copies["b"])) == [1, 3]
    assert list(graph.readers(copies["c"])) == list(graph.writers(copies["A"])) == []
    assert (graph.writer(copies["b"]), graph.writer(copies["c"]), graph.writer(copies["A"])) == (0, None, None)
    assert {chr(tensor.number) for tensor in graph.tensors()} == set("AbcdE")
    assert [graph.is_passed_on(copies[each]) for each in "Ab"] == [False, True]


@pytest.mark.parametrize(
    ("pairs", "position", "new", "swallowed", "left", "origins"),
    [
        (("Ab", "bC"), 1, "AC", (), ["AC"], [(0, 1)]),
        (("Ab", "bc", "cD"), 2, "AD", (), ["AD"], [(0, 1, 2)]),
        (("Ab", "bc", "cD", "bE"), 2, "AD", (), ["Ab", "AD", "bE"], [(0,), (1, 2), (3,)]),
        (("AB", "BC"), 1, "AC", (), ["AB", "AC"], [(0,), (1,)]),
        (("Ab", "Db", "bC"), 2, "AC", (), ["Ab", "Db", "AC"], [(0,), (1,), (2,)]),
        (("b", "bC", "AD"), 1, "AC", (), ["b", "AC", "AD"], [(0,), (1,), (2,)]),
        (("Ab", "bC", "bD"), 1, "AC", (2,), ["AC"], [(0, 1, 2)]),
        (("Ab", "bC", "cD"), 1, "AC", (2,), ["AC"], [(0, 1, 2)]),
    ],
    ids=str,
)
def test_replaced(
    pairs: Sequence[str],
    position: int,
    new: str,
    swallowed: Sequence[int],
    left: list[str],
    origins: list[tuple[int, ...]],
) -> None:
    """A tensor that only the replaced commands read goes, unless several write it, or it is cleared or exchanged."""
    copies = Copies(*pairs)
    copies.graph.replace(position, copies.command(new), swallowed)
    assert copies.left() == left
    assert copies.origins() == origins
    assert copies.graph.rewrites == 1


def test_a_replaced_command_writes_and_reads_other_tensors() -> None:
    copies = Copies("Ab", "bC", "De")
    copies.graph.replace(1, copies.command("DC"))
    graph = copies.graph
    assert sorted(graph.readers(copies["D"])) == [1, 2]
    assert list(graph.readers(copies["b"])) == list(graph.writers(copies["b"])) == []
    assert list(graph.writers(copies["C"])) == [1]


def test_what_nobody_reads_goes() -> None:
    copies = Copies("Ab", "bc", "cd", "bE", "Af")
    copies.graph.sweep()
    assert copies.left() == ["Ab", "bE"]
    assert copies.graph.rewrites == 3


def test_a_command_may_wait_unless_what_it_reads_is_written_again() -> None:
    copies = Copies("Ab", "bc", "Ab", "cd")
    assert [copies.graph.may_wait(position) for position in range(4)] == [True, False, True, True]
    assert Copies("bc", "Ab").graph.may_wait(0) is False
    assert Copies("bb", "Ab").graph.may_wait(0)


def test_origins_are_named_once_each() -> None:
    copies = Copies("Ab", "bc", "cd", "dE")
    for position, new in ((2, "Ad"), (3, "AE")):
        copies.graph.replace(position, copies.command(new))
    assert copies.left() == ["AE"]
    assert copies.origins() == [(0, 1, 2, 3)]


# --- parts -------------------------------------------------------------------------------------------------------


def test_parts_of_parts() -> None:
    copies = Copies("Ab", "bc", "cd", "dE")
    graph = copies.graph
    assert graph.place_of(copies["b"]) == TensorPart(copies["b"], 0)
    graph.lay(copies["b"], TensorPart(copies["c"], 16), 1)
    graph.lay(copies["c"], TensorPart(copies["d"], 32), 2)
    assert graph.place_of(copies["b"]) == TensorPart(copies["d"], 48)
    assert graph.parts == {copies["b"]: TensorPart(copies["d"], 48), copies["c"]: TensorPart(copies["d"], 32)}
    assert copies.left() == ["Ab", "dE"]
    assert graph.rewrites == 2


def test_views_of_parts_are_views_of_the_whole() -> None:
    copies = Copies("Ab", "bc", "cd", "dE")
    graph = copies.graph
    graph.lay(copies["b"], TensorPart(copies["c"], 4, StridedView(4, 8, 16)), 1)
    graph.lay(copies["c"], TensorPart(copies["d"], 16, StridedView(16, 16, 64)), 2)
    assert graph.place_of(copies["b"]) == TensorPart(copies["d"], 20, StridedView(20, 8, 64))
    assert graph.views_of(copies["c"]) == [StridedView(4, 8, 16)]
    assert graph.views_of(copies["d"]) == [StridedView(16, 16, 64)]
    assert graph.views_of(copies["b"]) == []


@pytest.mark.parametrize(
    ("pairs", "origins"),
    [
        (("Ab", "Ab", "bc", "bD", "cE"), [(0,), (1, 2), (3,), (4,)]),  # whoever wrote the part last
        (("bc", "bD", "bE", "cE"), [(0, 1), (2,), (3,)]),  # or reads it first
        (("Fc", "bc", "cE"), [(0, 1), (2,)]),  # or wrote the whole
    ],
    ids=str,
)
def test_another_command_names_the_work_of_a_copy(pairs: Sequence[str], origins: list[tuple[int, ...]]) -> None:
    copies = Copies(*pairs)
    copies.graph.lay(copies["b"], TensorPart(copies["c"], 0), pairs.index("bc"))
    assert copies.origins() == origins


def test_what_only_a_copy_read_goes_with_it() -> None:
    """A tensor may be copied through another one, which is then written for nobody."""
    copies = Copies("Fa", "ab", "bc", "cD")
    copies.graph.lay(copies["a"], TensorPart(copies["c"], 0), 2)
    assert copies.left() == ["Fa", "cD"]


# --- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "nbytes", "may"),
    [
        # c is needed from the start instead of b.
        (("Ab", "bc", "cD"), {"b": 64, "c": 64}, True),
        (("Ab", "bc", "cD"), {"b": 64, "c": 128}, True),
        (("Ab", "bc", "cD"), {"b": 64, "c": 192}, True),
        # While x is needed, b must not become c, which is larger than b and x at their most.
        (("Ab", "Ax", "xY", "bc", "cD"), {"b": 64, "x": 256, "c": 64}, True),
        (("Ab", "Ax", "xY", "bc", "cD"), {"b": 64, "x": 256, "c": 65}, False),
        (("Ab", "Ax", "xY", "bc", "cD"), {"b": 64, "x": 64, "c": 128}, True),
        (("Ab", "Ax", "xY", "bc", "cD"), {"b": 64, "x": 192, "c": 192}, False),
    ],
    ids=str,
)
def test_a_part_takes_no_more_memory(pairs: Sequence[str], nbytes: dict[str, int], may: bool) -> None:
    copies = Copies(*pairs, nbytes=nbytes)
    assert Alive(copies.graph).may_lay([copies["b"]], copies["c"]) == may


def test_memory_is_counted_for_the_next_part() -> None:
    """While x is needed, there is room for one of the wholes."""
    for first, may in ((False, True), (True, False)):
        pairs = "Ab", "Ae", "Ax", "xY", "bc", "cD", "ef", "fG", "Az", "zH"
        copies = Copies(*pairs, nbytes={"x": 128, "c": 128, "f": 128, "z": 320})
        alive = Alive(copies.graph)
        if first:
            assert alive.may_lay([copies["b"]], copies["c"])
        assert alive.may_lay([copies["e"]], copies["f"]) == may


def test_a_whole_is_counted_from_its_first_part_on() -> None:
    """Once for all of its parts, wherever they begin."""
    copies = Copies("XY", "Ab", "Ae", "Ag", "bc", "ec", "gc", "cD", "XY", nbytes={"c": 192})
    alive = Alive(copies.graph)
    assert [alive.may_lay([copies[part]], copies["c"]) for part in "beg"] == [True] * 3


def test_nothing_can_not_be_laid() -> None:
    copies = Copies("Ab", "bC")
    assert not Alive(copies.graph).may_lay([], copies["b"])


def test_parts_count_as_their_whole() -> None:
    copies = Copies("Ab", "bc", "cd", "dE", nbytes={"b": 64, "c": 64, "d": 128})
    copies.graph.lay(copies["b"], TensorPart(copies["c"], 0), 1)
    assert Alive(copies.graph).may_lay([copies["c"]], copies["d"])


def test_what_is_exchanged_takes_no_memory_of_activations() -> None:
    copies = Copies("Ab", "Ax", "xY", "bC", nbytes={"x": 64, "C": 1024})
    alive = Alive(copies.graph)
    assert alive.may_lay([copies["b"]], copies["C"])


# --- copies of one run -------------------------------------------------------------------------------------------


class Moves:
    """Copies of runs of floats by a shader, between tensors that other commands write and read."""

    def __init__(self) -> None:
        self.g = Lowering(native(), library())
        self.source = self.exchanged()

    def exchanged(self) -> TensorRef:
        """A tensor of 16 floats that the host reads or writes."""
        return TensorRef(1000 + len(self.g.commands), 64, Storage.STAGING)

    def written(self, elements: int) -> TensorRef:
        """A tensor that a command has written."""
        tensor = self.g.scratch(4 * elements)
        self.g.add(Copy(self.source, tensor, 4))
        return tensor

    def read(self, *tensors: TensorRef) -> None:
        """Read tensors for outputs of the model."""
        for tensor in tensors:
            self.g.add(Copy(tensor, self.exchanged(), 4))

    def move(self, source: TensorRef, target: TensorRef, count: int, first: int = 0, to: int = 0) -> None:
        """Copy so many floats from the one at ``first`` on to that at ``to``."""
        move(self.g, "b32", source, target, [count], [1], [1], first, to)

    def places(self, *tensors: TensorRef) -> list[tuple[TensorRef, int] | None]:
        """For each tensor the one that it lies in after the pass, and the bytes before it there."""
        graph = CommandGraph(self.g.commands)
        fuse_copies(graph)
        found = [graph.parts.get(tensor) for tensor in tensors]
        return [None if part is None else (part.whole, part.offset) for part in found]


@pytest.mark.parametrize(("first", "offset"), [(0, 0), (4, 16), (2, None), (16, 64)])
def test_a_run_is_read_where_it_lies(first: int, offset: int | None) -> None:
    moves = Moves()
    whole, part = moves.written(32), moves.g.scratch(64)
    moves.move(whole, part, 16, first)
    moves.read(part)
    assert moves.places(part) == [None if offset is None else (whole, offset)]


@pytest.mark.parametrize(
    "change", ["larger", "written twice", "source written again", "a constant", "an output", "each second"]
)
def test_what_is_not_read_where_it_lies(change: str) -> None:
    moves = Moves()
    whole = moves.g.constant(np.zeros(32, np.float32)) if change == "a constant" else moves.written(32)
    part = moves.exchanged() if change == "an output" else moves.g.scratch(128 if change == "larger" else 64)
    if change == "each second":
        move(moves.g, "b32", whole, part, [16], [2], [1])
    else:
        moves.move(whole, part, 16)
    if change == "written twice":
        moves.g.add(Copy(moves.source, part, 4))
    if change == "source written again":
        moves.g.add(Copy(moves.source, whole, 4))
    moves.read(part)
    assert moves.places(part) == [None]


@pytest.mark.parametrize(
    ("counts", "places"),
    [
        ((16, 16), (0, 64)),
        ((4, 4), (0, 16)),
        ((4, 3), (0, 16)),
        ((3, 4), (None, None)),
        ((8, 3, 5), (0, None, None)),
    ],
    ids=str,
)
def test_runs_are_written_in_place(counts: Sequence[int], places: Sequence[int | None]) -> None:
    """Whole vec4s, and what the last one ends with."""
    moves = Moves()
    parts = [moves.written(count) for count in counts]
    whole, to = moves.g.scratch(4 * sum(counts)), 0
    for part, count in zip(parts, counts, strict=True):
        moves.move(part, whole, count, to=to)
        to += count
    moves.read(whole)
    assert moves.places(*parts) == [None if place is None else (whole, place) for place in places]


@pytest.mark.parametrize(
    "change", ["overlapping", "written by others", "written later", "never written", "in part", "an input"]
)
def test_what_is_not_written_in_place(change: str) -> None:
    moves = Moves()
    part = moves.written(20 if change == "in part" else 16)
    if change == "never written":
        part = moves.g.scratch(64)
    if change == "an input":
        part = moves.exchanged()
    other, third, whole = moves.written(16), moves.written(16), moves.g.scratch(192)
    moves.move(part, whole, 16)
    moves.move(other, whole, 16, to=12 if change == "overlapping" else 16)
    moves.move(third, whole, 16, to=32)
    if change == "written by others":
        moves.g.add(Copy(moves.source, whole, 4))
    if change == "written later":
        moves.g.add(Copy(moves.source, part, 4))
    moves.read(whole)
    found = moves.places(part, other, third)
    others = [(whole, 64), (whole, 128)]
    assert found == [None, *([None, None] if change in ("overlapping", "written by others") else others)]


@pytest.mark.parametrize(
    ("to", "places"),
    [(456, (0, 4 * 456)), (457, (0, None)), (455, (None, None)), (452, (None, None))],
)
def test_runs_beside_strided_copies(to: int, places: Sequence[int | None]) -> None:
    """A box of five dimensions is seen as all from its first element to its last: from 16 to before 456."""
    moves = Moves()
    one, box, other = moves.written(16), moves.written(96), moves.written(16)
    whole = moves.g.scratch(4 * (to + 16))
    moves.move(one, whole, 16)
    move(moves.g, "b32", box, whole, [3, 2, 2, 2, 4], [32, 16, 8, 4, 1], [160, 72, 32, 12, 1], 0, 16)
    moves.move(other, whole, 16, to=to)
    moves.read(whole)
    found = moves.places(one, box, other)
    assert found == [None if place is None else (whole, place) for place in (places[0], None, places[1])]


def test_wholes_lie_in_wholes() -> None:
    """Nothing writes the inner whole once its parts lie in it."""
    moves = Moves()
    parts = [moves.written(16) for _ in range(3)]
    inner, outer = moves.g.scratch(128), moves.g.scratch(192)
    for place, part in enumerate(parts[:2]):
        moves.move(part, inner, 16, to=16 * place)
    moves.move(parts[2], outer, 16)
    moves.move(inner, outer, 32, to=16)
    moves.read(outer)
    assert moves.places(*parts, inner) == [(outer, 64), (outer, 128), (outer, 0), (outer, 64)]


def test_a_tensor_lies_in_one_other() -> None:
    moves = Moves()
    part = moves.written(16)
    first, second = moves.g.scratch(64), moves.g.scratch(64)
    for whole in (first, second):
        moves.move(part, whole, 16)
        moves.read(whole)
    (place,) = moves.places(part)
    places = moves.places(first, second)
    assert place is None
    assert places == [(part, 0), (part, 0)]


def test_what_is_read_last_is_copied_if_memory_is_short() -> None:
    """Both parts would keep all of the whole while the large tensor is needed."""
    moves = Moves()
    whole = moves.written(64)
    early, late = moves.g.scratch(128), moves.g.scratch(128)
    moves.move(whole, early, 32)
    moves.move(whole, late, 32, 32)
    moves.read(early)
    large = moves.written(112)
    moves.read(large)
    moves.read(late)
    assert moves.places(early, late) == [(whole, 0), None]
