"""Copies of what is contiguous on both sides: CONCATENATION and PACK are written in place, SPLIT and SLICE read so.

A tensor that would be copied lies in the other one from the start. If a plan would need much more memory for it, the
tensor is copied.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.copies.copied import copied_by
from nnvk.driver.vulkan.planning.command_passes.alive import Alive
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph, TensorPart
from nnvk.driver.vulkan.shaders.commands import FOUR, Command, Dispatch, Storage, TensorRef


@dataclass(frozen=True, slots=True)
class Copying:
    """The copy of a dispatch, in bytes: one contiguous run."""

    position: int
    source: TensorRef
    source_first: int
    target: TensorRef
    target_first: int
    nbytes: int


def fuse_copies(graph: CommandGraph) -> None:
    """Lay tensors that are copied into what they are copied to, or out of what they are copied from."""
    alive, layout = Alive(graph), _RangeLayout(graph)
    split: set[TensorRef] = set()
    joined: set[TensorRef] = set()
    for position, dispatch in graph.dispatches("move", "arrange"):
        copying = run_of(position, dispatch)
        if copying is None:
            continue
        if copying.source not in split:
            split.add(copying.source)
            parts = layout.readable_of(copying.source)
            # Without what is there for the longest while, the source is alive for less.
            while parts and not alive.may_lay([part.target for part in parts], copying.source):
                parts.remove(max(parts, key=lambda part: max(graph.readers(part.target), default=0)))
            for part in parts:
                layout.lay(part.target, part.source, part.source_first, part.position)
            if copying in parts:
                continue
        if copying.target not in joined:
            joined.add(copying.target)
            sources = layout.parts_of(copying.target)
            if alive.may_lay(list(sources), copying.target):
                for source, part in sources.items():
                    layout.lay(source, part.target, part.target_first, part.position)


def run_of(position: int, command: Command | None) -> Copying | None:
    """The copy of a command; None if it is not one run."""
    copied = copied_by(command)
    run = None if copied is None else copied.run
    if run is None or not isinstance(command, Dispatch):
        return None
    source_first, target_first, nbytes = run
    return Copying(position, command.tensors["src"], source_first, command.tensors["dst"], target_first, nbytes)


class _RangeLayout:
    """The tensors that may lie in others."""

    def __init__(self, graph: CommandGraph) -> None:
        self._graph = graph
        self._wholes = {part.whole for part in graph.parts.values()}  # in which others lie

    def may_read(self, copying: Copying) -> bool:
        """Whether the target can be a part of the source: that stays as it is, and nobody else writes the target."""
        source, target = copying.source, copying.target
        return (
            source.storage is not Storage.CONSTANTS
            and self._may_lie(target, source, copying.source_first)
            and copying.nbytes == target.nbytes
            and list(self._graph.writers(target)) == [copying.position]
            and self._graph.may_wait(copying.position)
        )

    def readable_of(self, source: TensorRef) -> list[Copying]:
        """All that is copied from a tensor and can be a part of it."""
        runs = (run_of(reader, self._graph.commands[reader]) for reader in sorted(self._graph.readers(source)))
        return [run for run in runs if run is not None and run.source == source and self.may_read(run)]

    def parts_of(self, target: TensorRef) -> dict[TensorRef, Copying]:
        """The tensor that can be a part of its copy, because all others that write there are copies too."""
        writers = self._graph.writers(target)
        spans = [_span(self._graph.commands[writer], target) for writer in writers]
        known = sorted(span for span in spans if span is not None)
        if len(known) < len(spans) or any(end > begin for (_, end), (begin, _) in itertools.pairwise(known)):
            return {}
        parts: dict[TensorRef, Copying] = {}
        for writer in writers:
            copying = run_of(writer, self._graph.commands[writer])
            if copying is not None and self._may_write(copying):
                parts.setdefault(copying.source, copying)
        return parts

    def _may_write(self, copying: Copying) -> bool:
        """Whether the source can be a part of the target: it is all there when it is copied, and lies by itself."""
        source, target = copying.source, copying.target
        writers = self._graph.writers(source)
        return (
            self._may_lie(source, target, copying.target_first)
            and copying.nbytes == source.nbytes
            and (bool(writers) or source in self._wholes)
            and all(writer < copying.position for writer in writers)
            # Shaders write whole vec4s: what comes after the end must be padding.
            and (source.nbytes % FOUR == 0 or copying.target_first + source.nbytes == target.nbytes)
        )

    def _may_lie(self, tensor: TensorRef, whole: TensorRef, offset: int) -> bool:
        return (
            tensor.storage is Storage.ARENA
            and self._graph.place_of(tensor).whole == tensor
            and self._graph.place_of(whole).whole != tensor
            and self._graph.place_of(whole).view is None
            and offset % FOUR == 0
        )

    def lay(self, tensor: TensorRef, whole: TensorRef, offset: int, position: int) -> None:
        """Let a tensor be a part of another one."""
        self._wholes.add(whole)
        self._graph.lay(tensor, TensorPart(whole, offset), position)


def _span(command: Command | None, target: TensorRef) -> tuple[int, int] | None:
    """The elements that a copy writes: the first one, and the one behind the last one; None for another command."""
    copied = copied_by(command)
    is_target = isinstance(command, Dispatch) and command.tensors.get("dst") == target
    return copied.written if copied is not None and is_target else None
