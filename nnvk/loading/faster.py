"""``device="auto"`` of `nnvk.load`: what `nnvk.importers.measured` measures are plans of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nnvk.api import Event, get_devices
from nnvk.base.errors import Guard, NnapiError, op_failed
from nnvk.base.log import logger
from nnvk.importers.measured import DEVICE, LIBRARY, Choices, Shapes, Times, version_of, why_device
from nnvk.importers.mixed import Described
from nnvk.importers.ports import ImportedModel
from nnvk.loading.beside import Beside
from nnvk.loading.mixed_plan import NEVER, MixedPlan
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import Arrays, ShapedModel

_STATELESS = "onnxruntime"
"""A file of this library has no states. The rest of another file, for sizes that data decide, may have some."""
_log = logger("compilation")


class MeasuredPlan(ShapedModel):
    """The plans of a device and of the library, one of which computes each call. Threads may share it."""

    def __init__(self, device: ShapedModel, library: MixedPlan, times: Times, settle: Callable[[str], object]) -> None:
        """``settle`` is that of `Times.compute`."""
        self._plans = {DEVICE: device, LIBRARY: library}
        self._times = times
        self._settle = settle
        self.expected = NEVER  # so that each call asks anew what computes it
        self._begin(has_states=False)

    @property
    def now(self) -> ShapedModel:
        """The plan of the faster one; while that is not known, the device's."""
        return self._plans[self._times.winner or DEVICE]

    def run(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """See `ShapedModel.run`."""
        ways = {which: partial(plan.run, arrays) for which, plan in self._plans.items()}
        return self._times.compute(ways, self._settle)

    def start(self, arrays: Sequence[np.ndarray]) -> tuple[Event, Callable[[], Arrays]]:
        """See `ShapedModel.start`; without measuring."""
        return self.now.start(arrays)


class Faster:
    """Chooses the device or the library for a model, by the shapes of its inputs."""

    def __init__(
        self,
        name: str,
        file: Described,
        beside: Beside,
        settings: Settings,
        plans: Plans,
        device_plan: Callable[[Shapes], ShapedModel],
    ) -> None:
        """``device_plan`` makes a plan as without the library, or returns the one that there is in ``plans``."""
        self._name = name
        self._file = file
        self._beside = beside
        self._plans = plans
        self._device_plan = device_plan
        device = (settings.devices or get_devices())[0]
        # The digest is that of the file as it was read.
        self._choices = Choices(name, beside.digest(), device, version_of(beside.package), lambda: beside.library_name)
        self._is_refused = False
        self.library: MixedPlan | None = None
        """The library's plan for all shapes; None where nothing needs it."""

    def plan(self, shapes: Shapes) -> ShapedModel:
        """The plan for inputs of these shapes; the model's lock is held. Raises what ``device_plan`` does."""
        chosen = self._choices.known(shapes, lambda: self._library_plan() is not None)
        if chosen == LIBRARY and self.library is not None:
            dtypes = [port.dtype for port in self._file.inputs]
            if object not in dtypes:  # texts come in several forms
                self.library.expected = tuple(zip(dtypes, shapes, strict=True))
            return self.library
        device = self._device_plan(shapes)
        if chosen or (isinstance(device, MixedPlan) and device.step_count == 1):
            return device
        library = self._library_plan()
        times = None if library is None else self._choices.times(shapes)
        if library is None or times is None:
            return device
        return MeasuredPlan(device, library, times, partial(self._settle, shapes))

    def _library_plan(self) -> MixedPlan | None:
        """The plan by which the library computes the whole file; None, which is logged, if it can't."""
        if self.library is None and not self._is_refused:
            try:
                with Guard(self._name):
                    made = self._beside.whole(op_failed("it refuses the file"), self._file, self._plans)
                    made.prepare()
                self.library = made
            except (NnapiError, OSError) as error:
                self._is_refused = True
                _log.info("%s: the device computes, %s can't: %s", self._name, self._beside.library_name, error)
        return self.library

    def _settle(self, shapes: Shapes, why: str) -> None:
        """Let the faster one compute inputs of these shapes, and free what the other one has."""
        chosen = self._choices.settle(shapes, why)
        if chosen == LIBRARY:
            self._plans.drop(shapes)
        elif chosen and not self._choices.needs_library:
            self.library = None


def faster(
    name: str,
    file: Any,
    beside: Beside | None,
    settings: Settings,
    plans: Plans,
    device_plan: Callable[[Shapes], ShapedModel],
) -> Faster | None:
    """The choices of a model; None where there are none, and the log says why."""
    if beside is None:
        why = "fallback=False allows no library"
    elif isinstance(file, ImportedModel) and (file.states or (file.rest and beside.package != _STATELESS)):
        why = "the model has states, or may have some"
    else:
        why = why_device(beside.package, beside.is_there, settings.verified)
        if not why:
            return Faster(name, file, beside, settings, plans, device_plan)
    _log.info("%s: the device computes: %s", name, why)
    return None
