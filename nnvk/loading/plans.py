"""The plans of a model, of which those that were used last are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator

from nnvk.base import forks
from nnvk.insight.placement import held_bytes
from nnvk.loading.shaped_model import ShapedModel


class Plans:
    """Plans of all parts of a model, by what they were made for. Threads may share it."""

    def __init__(self, most: int) -> None:
        """``most`` are the bytes on devices that they may take together; the latest plan is always kept."""
        self._most = most
        self._plans: OrderedDict[Hashable, ShapedModel] = OrderedDict()
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
            self._plans[key] = plan
            while len(self._plans) > 1 and _held(self._plans.values()) > self._most:
                self._plans.popitem(last=False)

    def clear(self) -> None:
        """Drop all plans."""
        with self._lock:
            self._plans.clear()

    def nbytes(self, others: Iterable[ShapedModel]) -> int:
        """The bytes that they and others hold on devices. Constants that several plans share count once."""
        return _held({id(plan): plan for plan in (*self, *others)}.values())


def _held(plans: Iterable[ShapedModel]) -> int:
    return held_bytes(plan.compilation for plan in plans)
