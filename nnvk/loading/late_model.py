"""A model whose rest is compiled when the part before it has computed its sizes and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnvk.api import Compilation, Event
from nnvk.base import forks
from nnvk.importers.ports import ImportedModel, Rest
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import Arrays, ShapedModel


def shaped_model(imported: ImportedModel, settings: Settings) -> ShapedModel:
    """Compile a model, or the first part of it."""
    if imported.rest is None:
        return ShapedModel(imported, settings)
    return LateModel(imported, imported.rest, settings)


class LateModel(ShapedModel):
    """The first part of a model, compiled, and plans for the rest: one for each set of sizes and parameters."""

    def __init__(self, imported: ImportedModel, rest: Rest, settings: Settings) -> None:
        super().__init__(imported, settings)
        self._rest = rest
        self._settings = settings
        self._plans = Plans(settings.plan_bytes)
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
        with self._lock:
            latest = list(self._plans)[-1:]
        return [self, *(part for plan in latest for part in plan.parts())]

    def compilations(self) -> list[Compilation]:
        """Those of the first part and of all plans for the rest."""
        with self._lock:
            return [self.compilation, *self._plans.compilations()]

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
            plan = self._plans.get(self._rest.key(results))
            if plan is not None:
                return plan
            imported = self._rest.load(results)
            if not isinstance(imported, ImportedModel):
                return imported
            key = self._rest.key(results)
            plan = shaped_model(imported, self._settings.for_rest(key))
            self._plans.put(key, plan)
            return plan
