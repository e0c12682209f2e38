"""Copy elimination: inputs of CONCATENATION are written in place, and outputs of SPLIT are read in place.

A tensor that would be copied lies in the larger tensor from the start, if every command that reads or writes it can go
from row to row of the larger one. If a plan would need much more memory for it, columns are copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnvk.base.extents import identity
from nnvk.driver.vulkan.lowering.copies.copied import copied_by
from nnvk.driver.vulkan.planning.command_passes.alive import Alive
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph, TensorPart
from nnvk.driver.vulkan.planning.command_passes.in_place import run_of
from nnvk.driver.vulkan.shaders.commands import Dispatch, Storage, StridedView, TensorRef


@dataclass(frozen=True, slots=True)
class _Copying:
    """A copy by a dispatch: columns of one tensor to as many columns of another one."""

    position: int
    source: TensorRef
    taken: StridedView
    target: TensorRef
    given: StridedView
    rows: int


@dataclass(frozen=True, slots=True)
class _Laying:
    """A tensor that can be columns of another one, which makes copies needless."""

    part: TensorRef
    whole: TensorRef
    view: StridedView
    copies: tuple[int, ...]


def eliminate_copies(graph: CommandGraph) -> None:
    """Let tensors lie where they are copied to, or from."""
    layout = _ColumnLayout(graph)
    targets: dict[TensorRef, list[_Copying]] = {}
    for position, dispatch in graph.dispatches("move"):
        copying = _copying(position, dispatch)
        if copying is not None:
            targets.setdefault(copying.target, []).append(copying)
    # The last first: what lies in it has its place there before others come to lie in that.
    for target, every in reversed(targets.items()):
        if _are_all(graph, target, every):
            layout.lay(_gathered(graph, every), written=True)
    sources: dict[TensorRef, list[_Laying]] = {}
    for position, dispatch in graph.dispatches("arrange"):
        copying = _copying(position, dispatch)
        if copying is not None:
            laying = _Laying(copying.target, copying.source, copying.taken, (position,))
            sources.setdefault(copying.source, []).append(laying)
    for some in sources.values():
        layout.lay(some, written=False)
    layout.apply()


# --- what is copied ----------------------------------------------------------------------------------------------


def _copying(position: int, dispatch: Dispatch) -> _Copying | None:
    """The columns that a dispatch copies; None if it copies something else."""
    copied = copied_by(dispatch)
    columns = None if copied is None else copied.columns
    if columns is None:
        return None
    taken, given, rows = columns
    return _Copying(position, dispatch.tensors["src"], taken, dispatch.tensors["dst"], given, rows)


def _are_all(graph: CommandGraph, target: TensorRef, every: Sequence[_Copying]) -> bool:
    """Whether these columns are all that is written to a tensor, none of it twice, and are there before it is read."""
    positions = [copying.position for copying in every]
    ordered = sorted((copying.given for copying in every), key=lambda view: view.first)
    return (
        positions == sorted(graph.writers(target))
        and all((each.given.pitch, each.rows) == (every[0].given.pitch, every[0].rows) for each in every)
        and all(one.first + one.width <= next_.first for one, next_ in itertools.pairwise(ordered))
        # Some copies read the words that they change a part of.
        and all(reader in positions or reader > positions[-1] for reader in graph.readers(target))
    )


def _shift(copying: _Copying) -> int:
    """The bytes by which a copy moves columns."""
    return copying.given.first - copying.taken.first


def _gathered(graph: CommandGraph, every: Sequence[_Copying]) -> list[_Laying]:
    """The tensors that are in another one once all is copied: as they are, or put together again of pieces."""
    pieces: dict[Hashable, list[_Copying]] = {}
    for copying in every:
        for copied in (copying, _through(graph, copying)):
            if copied is not None and copied.source.nbytes == copied.rows * copied.taken.pitch:
                pieces.setdefault(identity((copied.source.number, _shift(copied))), []).append(copied)
    found: dict[TensorRef, _Laying] = {}
    for some in pieces.values():
        source, first, width = some[0].source, _shift(some[0]), some[0].taken.pitch
        ends = [0, *(copying.taken.first + copying.taken.width for copying in some)]
        if [copying.taken.first for copying in some] == ends[:-1] and ends[-1] == width:
            view = StridedView(first, width, some[0].given.pitch)
            laying = _Laying(source, some[0].target, view, tuple(copying.position for copying in some))
            found.setdefault(source, laying)
    # Tensors that were put together again come first, because their pieces then need no place of their own.
    return sorted(found.values(), key=lambda laying: -len(laying.copies))


def _through(graph: CommandGraph, copying: _Copying) -> _Copying | None:
    """The copy as one of an earlier tensor, if its source was copied from that and the elements are still there."""
    found = graph.dispatch_that_writes(copying.source, "arrange")
    before = None if found is None or not graph.may_wait(found[0]) else _copying(*found)
    if before is None or before.rows != copying.rows or before.given.pitch != copying.taken.pitch:
        return None
    return replace(copying, source=before.source, taken=copying.taken.within(before.taken))


# --- where it lies -----------------------------------------------------------------------------------------------


class _ColumnLayout:
    """The tensors that are columns of others."""

    def __init__(self, graph: CommandGraph) -> None:
        self._graph = graph
        self._alive = Alive(graph)

    def lay(self, every: Iterable[_Laying], *, written: bool) -> None:
        """Let as many tensors lie in one other as can be and memory is for.

        ``written``: they are copied there, and not from there.
        """
        found: dict[TensorRef, _Laying] = {}
        copies: set[int] = set()
        for laying in every:
            fits = self._may_write(laying) if written else self._may_read(laying)
            if laying.part not in found and fits and copies.isdisjoint(laying.copies) and self._may_lie(laying, found):
                found[laying.part] = laying
                copies.update(laying.copies)
        # Without what is there for the longest while, the whole is alive for less.
        for part in sorted(found, key=self._first_write if written else self._last_use, reverse=not written):
            if self._alive.may_lay(list(found), next(iter(found.values())).whole):
                break
            del found[part]
        for laying in found.values():
            for copy in laying.copies:
                self._graph.lay(laying.part, TensorPart(laying.whole, laying.view.first, laying.view), copy)

    def _first_write(self, tensor: TensorRef) -> int:
        return min(self._graph.writers(tensor))

    def _last_use(self, tensor: TensorRef) -> int:
        return max(self._graph.readers(tensor), default=0)

    def _may_write(self, laying: _Laying) -> bool:
        """Whether a part is all there before it is copied."""
        writers = self._graph.writers(laying.part)
        return bool(writers) and all(writer < min(laying.copies) for writer in writers)

    def _may_read(self, laying: _Laying) -> bool:
        """Whether what a part is copied from stays as it is, and nobody else writes the part."""
        (position,) = laying.copies
        return (
            laying.whole.storage is not Storage.CONSTANTS
            and list(self._graph.writers(laying.part)) == [position]
            and self._graph.may_wait(position)
        )

    def _may_lie(self, laying: _Laying, others: Mapping[TensorRef, _Laying]) -> bool:
        """Whether a part lies by itself, and all commands on it but for copies that go can have it amid other rows.

        ``others`` will lie in the same tensor.
        """
        graph, part = self._graph, laying.part
        own = graph.place_of(laying.whole)
        if part.storage is not Storage.ARENA or own.whole == part or graph.place_of(part).whole != part:
            return False
        if part.nbytes % laying.view.width or not self._have_equal_rows(laying, own.view):
            return False
        view = {each.part: each.view.within(own.view) for each in (*others.values(), laying)}
        users = {*graph.writers(part), *graph.readers(part)}.difference(laying.copies)
        return all(self._altered(user, view) is not None and not self._is_run(user) for user in users)

    def _have_equal_rows(self, laying: _Laying, outer: StridedView | None) -> bool:
        """Whether tensors that lie in each other have one division into rows, so that a column range stays one.

        ``outer`` is the view of the tensor that the part is to lie in.
        """
        return (outer is None or outer.width == laying.view.pitch) and all(
            view.pitch == laying.view.width for view in self._graph.views_of(laying.part)
        )

    def _is_run(self, position: int) -> bool:
        """Whether a command is a copy that `in_place` makes needless."""
        return run_of(position, self._graph.commands[position]) is not None

    def _altered(self, position: int, more: Mapping[TensorRef, StridedView]) -> Dispatch | None:
        """A command where its tensors lie, more of them than now; None where it can't be."""
        command = self._graph.commands[position]
        if not isinstance(command, Dispatch) or command.access is None:
            return None
        view: dict[str, StridedView] = {}
        for name, tensor in command.tensors.items():
            place = more.get(tensor) or self._graph.place_of(tensor).view
            if place is not None:
                view[name] = place
        return command.access.on_views(command, view)

    def apply(self) -> None:
        """Have all commands on columns as these lie now."""
        for position in self._users(self._graph.parts):
            altered = self._altered(position, {})
            assert altered is not None
            self._graph.alter(position, altered)

    def _users(self, tensors: Collection[TensorRef]) -> set[int]:
        return {user for each in tensors for user in (*self._graph.writers(each), *self._graph.readers(each))}
