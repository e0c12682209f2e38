"""How much memory the tensors of a graph need while they are alive: none is laid into another one if that took more.

A copy costs a launch and a barrier, so a little more is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.base.extents import hint
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph
from nnvk.driver.vulkan.shaders.commands import Storage, TensorRef, padded

_MORE = 32
"""The part of the memory by which it may grow."""


class Alive:
    """How many bytes of the arena are needed at each position, and what tensors take in others would change of that."""

    def __init__(self, graph: CommandGraph) -> None:
        self._graph = graph
        self._spans: dict[TensorRef, tuple[int, int]] = {}
        changes = np.zeros(len(graph.commands) + 1, np.int64)
        for tensor in graph.tensors():
            whole = graph.place_of(tensor).whole
            touched = (*graph.writers(tensor), *graph.readers(tensor))
            if touched and whole.storage is Storage.ARENA:
                before = self._spans.get(whole, (len(graph.commands), 0))
                self._spans[whole] = min(before[0], *touched), max(before[1], *touched)
        for tensor, (first, last) in self._spans.items():
            changes[first] += padded(hint(tensor.nbytes))
            changes[last + 1] -= padded(hint(tensor.nbytes))
        self._bytes = np.cumsum(changes)
        most = int(np.max(self._bytes, initial=0))
        self._most = most + most // _MORE

    def may_lay(self, tensors: Sequence[TensorRef], whole: TensorRef) -> bool:
        """Whether tensors can lie in another one without much more memory being needed; then they are counted so."""
        whole = self._graph.place_of(whole).whole
        spans = [self._spans[tensor] for tensor in tensors]
        if not spans:
            return False
        before = self._spans.get(whole, spans[0])
        first, last = min(span[0] for span in (before, *spans)), max(span[1] for span in (before, *spans))
        change = np.zeros(last + 1 - first, np.int64)
        for tensor, span in zip(tensors, spans, strict=True):
            change[span[0] - first : span[1] + 1 - first] -= padded(hint(tensor.nbytes))
        if whole.storage is Storage.ARENA:
            change += padded(hint(whole.nbytes))
            change[before[0] - first : before[1] + 1 - first] -= padded(hint(whole.nbytes))
        now = self._bytes[first : last + 1] + change
        if np.max(now) > self._most:
            return False
        self._bytes[first : last + 1] = now
        if whole.storage is Storage.ARENA:
            self._spans[whole] = first, last
        return True
