"""The plans of a model, of which those that were used last are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator

from nnvk.api import Compilation
from nnvk.insight.placement import held_bytes
from nnvk.loading.shaped_model import ShapedModel


class Plans:
    """Plans by what they were made for. Whoever uses them has a lock."""

    def __init__(self, most: int) -> None:
        """``most`` are the bytes on devices that they may take together; the latest plan is always kept."""
        self._most = most
        self._plans: OrderedDict[Hashable, ShapedModel] = OrderedDict()

    def __iter__(self) -> Iterator[ShapedModel]:
        """All plans, the latest one at the end."""
        return iter(self._plans.values())

    def get(self, key: Hashable) -> ShapedModel | None:
        """A plan, which becomes the latest one; None without it."""
        found = self._plans.get(key)
        if found is not None:
            self._plans.move_to_end(key)
        return found

    def put(self, key: Hashable, plan: ShapedModel) -> None:
        """Keep a plan, and drop those that were not used for the longest time, until the others are small enough."""
        self._plans[key] = plan
        while len(self._plans) > 1 and self.nbytes > self._most:
            self._plans.popitem(last=False)

    def clear(self) -> None:
        """Drop all plans."""
        self._plans.clear()

    def compilations(self) -> list[Compilation]:
        """The compilations of all plans."""
        return [compilation for plan in self for compilation in plan.compilations()]

    @property
    def nbytes(self) -> int:
        """The bytes that they hold on devices. Constants that several plans share count once."""
        return held_bytes(self.compilations())
