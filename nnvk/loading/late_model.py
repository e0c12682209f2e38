"""A model whose rest is compiled when the part before it has computed its sizes and parameters."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnvk.api import Event
from nnvk.base import forks
from nnvk.importers.ports import ImportedModel, Rest
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import Arrays, ShapedModel


def shaped_model(imported: ImportedModel, settings: Settings, plans: Plans) -> ShapedModel:
    """Compile a model, or the first part of it. ``plans`` keep the plans for the rest."""
    if imported.rest is None:
        return ShapedModel(imported, settings)
    return LateModel(imported, imported.rest, settings, plans)


class LateModel(ShapedModel):
    """The first part of a model, compiled, and plans for the rest: one for each set of sizes and parameters."""

    def __init__(self, imported: ImportedModel, rest: Rest, settings: Settings, plans: Plans) -> None:
        super().__init__(imported, settings)
        self._rest = rest
        self._settings = settings
        self._plans = plans
        self._latest: Callable[[], ShapedModel | None] = lambda: None
        """The rest's latest plan, which only ``plans`` keep."""
        self._lock = forks.lock()

    def run(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """The file's outputs for the file's inputs. Raises the importer's errors, and what compiling raises, too."""
        results = super().run(arrays)
        plan = self._plan(results)
        late = plan.run(self._rest.taken(results, plan.imported)) if isinstance(plan, ShapedModel) else plan
        return self._rest.outputs_of(results, late)

    def start(self, arrays: Sequence[np.ndarray]) -> tuple[Event, Callable[[], Arrays]]:
        """See `ShapedModel.start`; a thread computes."""
        return self._start_unbound(arrays)

    def parts(self) -> list[ShapedModel]:
        """The first part, and those of the rest's latest plan."""
        latest = self._latest()
        return [self] if latest is None else [self, *latest.parts()]

    def encoded(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[ShapedModel, Arrays]]:
        """Each part with the inputs of its model. The parts are computed for it."""
        yield from super().encoded(arrays)
        results = super().run(arrays)
        plan = self._plan(results)
        if isinstance(plan, ShapedModel):
            yield from plan.encoded(self._rest.taken(results, plan.imported))

    def _plan(self, results: Arrays) -> ShapedModel | Arrays:
        """The rest's plan for results of the first part, or its outputs, if no execution is needed for them."""
        with self._lock:
            plan = self._plans.get((self._rest, self._rest.key(results)))
            if plan is None:
                imported = self._rest.load(results)
                if not isinstance(imported, ImportedModel):
                    return imported
                key = self._rest.key(results)
                plan = shaped_model(imported, self._settings.for_rest(key), self._plans)
                self._plans.put((self._rest, key), plan)
            self._latest = weakref.ref(plan)
            return plan
