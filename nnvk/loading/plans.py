"""The plans of a model, of which those that were used last are kept."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Iterator

from nnvk.base import forks
from nnvk.insight.placement import held_alone, held_bytes
from nnvk.loading.shaped_model import ShapedModel

MOST_HOST_BYTES = 1 << 28
"""The bytes of the host's memory that plans may take together; `ShapedModel.host_bytes` estimates them."""


class Plans:
    """Plans of all parts of a model, by what they were made for. Threads may share it."""

    def __init__(self, most: int) -> None:
        """``most``: the bytes on devices that plans may take beside what they share. The latest one is always kept."""
        self._most = most
        self._plans: OrderedDict[Hashable, ShapedModel] = OrderedDict()
        self._held = 0
        """The bytes that each plan holds alone, added up."""
        self._sharing: Counter[tuple[str, str]] = Counter()
        """The number of plans that hold memory which they may share."""
        self._shared: dict[tuple[str, str], int] = {}
        """The bytes of that memory: the most that a plan has needed."""
        self._host_bytes = 0
        """The bytes that the plans take in the host's memory."""
        self._lock = forks.lock()

    def __iter__(self) -> Iterator[ShapedModel]:
        """All plans, the latest one at the end."""
        with self._lock:
            return iter(list(self._plans.values()))

    def get(self, key: Hashable) -> ShapedModel | None:
        """A plan, which becomes the latest one; None without it."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
            return found

    def put(self, key: Hashable, plan: ShapedModel) -> None:
        """Keep a plan, and drop those that were not used for the longest time, until the others are small enough."""
        with self._lock:
            self._remove(key)
            self._plans[key] = plan
            held, shared = held_alone(plan.compilation)
            self._shared |= {name: max(nbytes, self._shared.get(name, 0)) for name, nbytes in shared.items()}
            self._held += held
            self._host_bytes += plan.host_bytes
            self._sharing.update(shared.keys())
            while len(self._plans) > 1 and (self._freeable() > self._most or self._host_bytes > MOST_HOST_BYTES):
                self._drop(self._plans.popitem(last=False)[1])

    def _freeable(self) -> int:
        """The bytes that go with the plans: not weights and workspaces of several, which stay with those that stay."""
        return self._held + sum(nbytes for name, nbytes in self._shared.items() if self._sharing[name] == 1)

    def drop(self, key: Hashable) -> None:
        """Drop a plan, if there is one."""
        with self._lock:
            self._remove(key)

    def _remove(self, key: Hashable) -> None:
        removed = self._plans.pop(key, None)
        if removed is not None:
            self._drop(removed)

    def _drop(self, plan: ShapedModel) -> None:
        held, shared = held_alone(plan.compilation)
        self._host_bytes -= plan.host_bytes
        self._held -= held
        self._sharing.subtract(shared.keys())
        for name in shared:
            if not self._sharing[name]:
                del self._sharing[name], self._shared[name]

    def clear(self) -> None:
        """Drop all plans."""
        with self._lock:
            self._plans.clear()
            self._sharing.clear()
            self._shared.clear()
            self._held = self._host_bytes = 0

    def nbytes(self, others: Iterable[ShapedModel]) -> int:
        """The bytes that they and others hold on devices. Constants that several plans share count once."""
        plans = {id(plan): plan for plan in (*self, *others)}
        return held_bytes(plan.compilation for plan in plans.values())
