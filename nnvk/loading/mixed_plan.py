"""A model in steps, of which a library beside nnvk computes those that NNAPI has nothing for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnvk.api import Device, Event, get_devices
from nnvk.base import forks
from nnvk.base.errors import NnapiError
from nnvk.base.text import plural
from nnvk.importers.errors import ModelImportError
from nnvk.importers.mixed import MixedFile, Step, may_compute
from nnvk.importers.parts import ByValue
from nnvk.importers.ports import ImportedModel
from nnvk.inputs.reader import Say
from nnvk.insight.limits import Limits
from nnvk.insight.placement import Placed, where
from nnvk.insight.profiling import Part as ProfiledPart
from nnvk.insight.profiling import PartitionTime, Profile, take_profile
from nnvk.loading.late_model import shaped_model
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import Arrays, ShapedModel

_MOST_REFUSED = 256
"""Sets of shapes and values for which a part could not be imported that are remembered."""


NEVER = ((np.dtype(object), ()),)
"""Types and shapes that no inputs have, so that calls ask for the plan."""


class MixedPlan(ShapedModel):
    """A model in steps, for inputs of all shapes. Threads may share it."""

    def __init__(self, file: MixedFile, library: str, settings: Settings, plans: Plans, tell: Say) -> None:
        """``settings`` name the device of nnvk's own steps; ``tell`` takes why it could not compute some data."""
        self._file = file
        self._steps = [_Computing(step, library, settings, plans, tell) for step in file.steps]
        self.step_count = len(file.steps)
        self.library = library
        self.expected = NEVER
        self._begin(has_states=False)

    def prepare(self) -> None:
        """Make the library's sessions, before the first call needs them."""
        for step in self._steps:
            step.prepare()

    def run(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """See `ShapedModel.run`; what is no array of numbers is as the library has it."""
        values = self._values(arrays)
        for step in self._steps:
            step.run(values)
        return [values[name] for name in self._file.writes]

    def start(self, arrays: Sequence[np.ndarray]) -> tuple[Event, Callable[[], Arrays]]:
        """See `ShapedModel.start`; a thread computes."""
        return self._start_unbound(arrays)

    def reset(self) -> None:
        """See `ShapedModel.reset`."""
        for step in self._file.steps:
            step.library.reset()

    def parts(self) -> list[ShapedModel]:
        """The latest plans of nnvk's own steps."""
        return [part for step in self._steps for part in step.latest()]

    def encoded(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[ShapedModel, Arrays]]:
        """The parts that nnvk computes, with the inputs of their models. All steps are computed for it."""
        values = self._values(arrays)
        for step in self._steps:
            yield from step.encoded(values)
            step.run(values)

    def where(self) -> list[Placed]:
        """Each operation with the device that runs it; of an operator that the library computes, with its name."""
        return [placed for step in self._steps for placed in step.where()]

    def summary(self) -> str:
        """Where the steps run, in a few words."""
        words = []
        for step in self._steps:
            counts = Counter(placed.device for placed in step.where())
            words.append(", ".join(f"{plural(count, 'operation')} on {name}" for name, count in counts.items()))
        return ", then ".join(words)

    def profiles(self, title: str, device: Device, arrays: Sequence[np.ndarray], limits: Limits) -> Iterator[Profile]:
        """The time of each step."""
        values = self._values(arrays)
        for number, step in enumerate(self._steps):
            yield from step.profiles(f"{title}, step {number}", device, values, limits)
            step.run(values)

    def _values(self, arrays: Sequence[Any]) -> dict[str, Any]:
        return {**self._file.constants, **dict(zip(self._file.reads, arrays, strict=True))}


class _Computing:
    """A step, and the plans for it if nnvk computes it."""

    def __init__(self, step: Step, library: str, settings: Settings, plans: Plans, tell: Say) -> None:
        self._step = step
        self._library = library
        self._settings = settings
        self._plans = plans
        self._tell = tell
        self._source = None if step.own is None else ByValue(step.own, step.reads, step.options)
        self._refused: set[Any] = set()
        self._latest: ShapedModel | None = None
        self._lock = forks.lock()

    def prepare(self) -> None:
        if self._source is None:
            self._step.library.prepare()

    def run(self, values: dict[str, Any]) -> None:
        """Add the outputs to ``values``."""
        given = [values[name] for name in self._step.reads]
        values.update(zip(self._step.writes, self._results(given), strict=True))

    def _results(self, given: Sequence[Any]) -> Sequence[Any]:
        source = self._source
        if source is None:
            return self._step.library.run(given)
        arrays = dict(zip(self._step.reads, given, strict=True))
        try:
            plan = self._plan(source, arrays)
            if plan is None:
                return self._step.library.run(given)
            if not isinstance(plan, ShapedModel):
                return plan
            return plan.run([arrays[port.name] for port in plan.imported.inputs])
        except NnapiError as error:
            if not may_compute(error):
                raise
            if isinstance(error, ModelImportError) and len(self._refused) < _MOST_REFUSED:
                self._refused.add(source.key(arrays))
            try:
                results = self._step.library.run(given)
            except NnapiError:
                raise error from None
            self._tell(error.reason)
            return results

    def _plan(self, source: ByValue, arrays: Mapping[str, np.ndarray]) -> ShapedModel | Arrays | None:
        """The plan for these inputs, or the outputs if no execution is needed. None: there was none for such inputs."""
        with self._lock:
            key = source.key(arrays)
            if key in self._refused:
                return None
            plan = self._plans.get((self, key))
            if plan is None:
                imported = source.load(arrays)
                if not isinstance(imported, ImportedModel):
                    return imported
                key = source.key(arrays)
                settings = self._settings.for_rest((tuple(self._step.reads), key))
                plan = shaped_model(imported, settings, self._plans)
                self._plans.put((self, key), plan)
            self._latest = plan
            return plan

    def latest(self) -> list[ShapedModel]:
        """The parts of the latest plan."""
        return [] if self._latest is None else self._latest.parts()

    def encoded(self, values: Mapping[str, Any]) -> Iterator[tuple[ShapedModel, Arrays]]:
        """The parts with the inputs of their models."""
        if self._source is not None:
            arrays = {name: values[name] for name in self._step.reads}
            plan = self._plan(self._source, arrays)
            if isinstance(plan, ShapedModel):
                yield from plan.encoded([arrays[port.name] for port in plan.imported.inputs])

    def where(self) -> Iterator[Placed]:
        """See `MixedPlan.where`; of a step that was not compiled yet, the operators of the file."""
        if self._source is not None and self._latest is not None:
            for part in self._latest.parts():
                yield from where(part.imported.model, part.compilation, part.imported.sources)
            return
        for one in self._step.library.operators:
            device = one.device if self._source is None else (self._settings.devices or get_devices())[0].name
            yield Placed(one.source.operator, (), one.source, device, one.reason, "")

    def profiles(self, title: str, device: Device, values: Mapping[str, Any], limits: Limits) -> Iterator[Profile]:
        """The time of the parts, or that of the library as a whole."""
        if self._source is not None:
            for own, encoded in self.encoded(values):
                yield take_profile(title, device, own.compilation, encoded, limits, own.imported.sources)
            return
        given = [values[name] for name in self._step.reads]
        begin = time.perf_counter_ns()
        runs = len(limits.repeat(lambda: self._step.library.run(given)))
        mean = (time.perf_counter_ns() - begin) // runs
        operators = self._step.library.operators
        layer = operators[0].source if len(operators) == 1 else None
        name = layer.operator if layer else f"{len(operators)} operators"
        part = ProfiledPart(None, name, (), layer, "", self._library, 0, mean, 1.0)
        yield Profile(title, self._library, runs, mean, (part,), (PartitionTime(self._library, (), mean, 1.0),))
