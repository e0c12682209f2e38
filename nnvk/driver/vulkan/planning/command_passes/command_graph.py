"""The commands of a plan as a graph that passes rewrite: who writes each tensor, and who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.shaders.commands import Command, Copy, Dispatch, Storage, StridedView, TensorRef


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A command of the new plan."""

    command: Command
    origins: tuple[int, ...]
    """Positions, in the plan before, of the commands that it does the work of."""


@dataclass(frozen=True, slots=True)
class TensorPart:
    """Where a tensor lies that has no memory of its own."""

    whole: TensorRef
    """The tensor that it lies in, which has."""
    offset: int
    """Bytes of that before it."""
    view: StridedView | None = None
    """The columns of the whole that it is, if rows of others lie between its own."""


@dataclass(frozen=True, slots=True, eq=False)
class _Origins:
    """Commands of the plan before, as a tree: a command takes over those of many others, again and again."""

    own: tuple[int, ...] = ()
    of_others: tuple[_Origins, ...] = ()

    def positions(self) -> tuple[int, ...]:
        """All of them, in order."""
        left, seen, found = [self], {self}, set(self.own)
        while left:
            others = [each for each in left.pop().of_others if each not in seen]
            left += others
            seen.update(others)
            found.update(position for each in others for position in each.own)
        return tuple(sorted(found))


class CommandGraph:
    """Commands by their positions, which do not change. A command that another one does the work of becomes None."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands: list[Command | None] = list(commands)
        self._origins = [_Origins((position,)) for position in range(len(commands))]
        self._writers: dict[TensorRef, list[int]] = {}
        self._readers: dict[TensorRef, list[int]] = {}
        self._parts: dict[TensorRef, TensorPart] = {}
        self.rewrites = 0
        """How many commands were replaced, or removed by themselves."""
        for position, command in enumerate(commands):
            self._enter(position, command)

    def _enter(self, position: int, command: Command) -> None:
        for tensor in dict.fromkeys(command.writes):
            self._writers.setdefault(tensor, []).append(position)
        for tensor in dict.fromkeys(command.reads):
            self._readers.setdefault(tensor, []).append(position)

    def _leave(self, position: int, command: Command) -> None:
        for tensor in dict.fromkeys(command.writes):
            self._writers[tensor].remove(position)
        for tensor in dict.fromkeys(command.reads):
            self._readers[tensor].remove(position)

    # --- what there is ---------------------------------------------------------------------------------------

    def dispatches(self, *families: str) -> Iterable[tuple[int, Dispatch]]:
        """The dispatches of shaders, of all or of these, in order, as they are when it is their turn."""
        for position in range(len(self.commands)):
            command = self.commands[position]
            if isinstance(command, Dispatch) and (not families or command.shader.family in families):
                yield position, command

    def writer(self, tensor: TensorRef) -> int | None:
        """The position of the one command that writes a tensor; None where none or several do."""
        writers = self._writers.get(tensor, ())
        return writers[0] if len(writers) == 1 else None

    def writers(self, tensor: TensorRef) -> Sequence[int]:
        """The positions of the commands that write a tensor."""
        return self._writers.get(tensor, ())

    def tensors(self) -> Iterable[TensorRef]:
        """All that commands read or write."""
        return dict.fromkeys((*self._writers, *self._readers))

    def place_of(self, tensor: TensorRef) -> TensorPart:
        """Where a tensor lies: in another one, or in itself."""
        place = TensorPart(tensor, 0)
        while (part := self._parts.get(place.whole)) is not None:
            view = part.view if place.view is None else place.view.within(part.view)
            place = TensorPart(part.whole, place.offset + part.offset, view)
        return place

    def views_of(self, tensor: TensorRef) -> list[StridedView]:
        """The views by which other tensors lie in a tensor."""
        return [part.view for part in self._parts.values() if part.whole == tensor and part.view is not None]

    def dispatch_that_writes(self, tensor: TensorRef, family: str) -> tuple[int, Dispatch] | None:
        """The one command that writes a tensor, if that is a dispatch of this shader."""
        position = self.writer(tensor)
        command = None if position is None else self.commands[position]
        if position is None or not isinstance(command, Dispatch) or command.shader.family != family:
            return None
        return position, command

    def readers(self, tensor: TensorRef) -> Sequence[int]:
        """The positions of the commands that read a tensor."""
        return self._readers.get(tensor, ())

    def is_passed_on(self, tensor: TensorRef) -> bool:
        """Whether commands alone see a tensor, and no other one has its elements: it may go once none reads it."""
        return tensor.storage is Storage.ARENA and tensor not in self._parts

    def may_wait(self, position: int) -> bool:
        """Whether a command may run later, ahead of whoever reads what it writes: all that it reads stays as it is.

        But for what it writes too: counters, which everybody leaves as they were.
        """
        command = self.commands[position]
        assert command is not None
        only_read = set(command.reads) - set(command.writes)
        return all(writer < position for tensor in only_read for writer in self._writers.get(tensor, ()))

    # --- what becomes of it ----------------------------------------------------------------------------------

    def replace(self, position: int, command: Command, swallowed: Iterable[int] = ()) -> None:
        """Put a command in the place of another, and of those that it does the work of beside.

        Commands whose results nobody reads any more go too.
        """
        self.rewrites += 1
        gone = {position, *swallowed}
        origins = [self._origins[one] for one in gone]
        read: dict[TensorRef, None] = {}
        for one in gone:
            before = self.commands[one]
            assert before is not None
            read.update(dict.fromkeys(before.reads))
            self._leave(one, before)
            self.commands[one] = None
        self.commands[position] = command
        self._enter(position, command)
        self._origins[position] = _Origins(of_others=(*origins, *self._sweep(read)))

    def _sweep(self, tensors: Iterable[TensorRef]) -> list[_Origins]:
        """Remove what wrote tensors that have lost their last reader, where that was all; their origins."""
        left = list(tensors)
        origins = []
        while left:
            tensor = left.pop()
            position = self.writer(tensor)
            command = None if position is None else self.commands[position]
            if position is None or not isinstance(command, Dispatch | Copy):
                continue
            if any(self.readers(written) or not self.is_passed_on(written) for written in command.writes):
                continue
            self._leave(position, command)
            self.commands[position] = None
            origins.append(self._origins[position])
            left += command.reads
        return origins

    def sweep(self) -> None:
        """Remove commands that give nothing but what nobody reads, and those that only these read."""
        self.rewrites += len(self._sweep([tensor for tensor in self._writers if not self.readers(tensor)]))

    def lay(self, tensor: TensorRef, part: TensorPart, copying: int) -> None:
        """Let a tensor be a part of another one, and leave out a command that copied from one to the other."""
        self.rewrites += 1
        self._parts[tensor], whole = part, part.whole
        command = self.commands[copying]
        assert command is not None
        self._leave(copying, command)
        self.commands[copying] = None
        self._sweep(each for each in command.reads if each not in (tensor, whole))
        others = (*self.writers(tensor)[-1:], *self.readers(tensor)[:1], *self.writers(whole)[-1:])
        for other in others[:1]:
            self._origins[other] = _Origins(of_others=(self._origins[other], self._origins[copying]))

    @property
    def parts(self) -> dict[TensorRef, TensorPart]:
        """The tensors that lie in others."""
        return {tensor: self.place_of(tensor) for tensor in self._parts}

    def alter(self, position: int, command: Command) -> None:
        """Let a command do the same on the same tensors in another way."""
        self.commands[position] = command

    def result(self, operations: Sequence[Sequence[int]]) -> list[Rewritten]:
        """The commands that are left, each naming all operations whose work it does.

        ``operations`` are those of each command before, by its position.
        """
        left = []
        for command, tree in zip(self.commands, self._origins, strict=True):
            if command is None:
                continue
            origins = tree.positions()
            if isinstance(command, Dispatch):
                fused = {each for origin in origins for each in operations[origin]} - {command.operation}
                command = replace(command, fused=tuple(sorted(fused)), access=None)
            left.append(Rewritten(command, origins))
        return left
