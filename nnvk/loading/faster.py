"""``device="auto"``: a device or the library beside nnvk computes, whichever is faster for inputs of the same sizes.

The first calls with some sizes measure both in turn, and each call is computed once. The choice is kept for other
processes, by the file, its options, the sizes, the device, its driver and the library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from statistics import median
from typing import Any

import numpy as np

from nnvk import __version__
from nnvk.api import Device, Event, get_devices
from nnvk.base import forks
from nnvk.base.errors import Guard, NnapiError, op_failed
from nnvk.base.files import FileKind
from nnvk.base.forks import cached_property
from nnvk.base.kept_choices import KeptChoices
from nnvk.base.log import logger
from nnvk.base.machine import describe_machine
from nnvk.base.settings import settings as environment
from nnvk.base.text import dimensions
from nnvk.driver.vulkan import is_compiling
from nnvk.importers.mixed import Described
from nnvk.importers.ports import ImportedModel
from nnvk.loading.beside import Beside
from nnvk.loading.mixed_plan import NEVER, MixedPlan
from nnvk.loading.plans import Plans
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import Arrays, ShapedModel
from nnvk.runtime.verification import verified_setting
from nnvk.types.operand import Shape

_TIMED, _MOST_TIMED = 3, 7
"""Calls of each that are timed; the most of them where the times of one are not all shorter than those of the other."""
MOST_CALLS = 2 * (1 + _MOST_TIMED)
"""The calls that measure: the first of either is not counted, since it touches memory and wakes clocks."""
_FAR, _LONG_S = 3.0, 0.1
"""One time of each is enough if one is so many times the other, and takes so long."""
_GAIN = 1.05
"""The library must be so many times as fast as the device, which leaves the CPU to other work."""
_MOST_SIZES = 1000
"""The device computes inputs of further sizes."""
_STATELESS = "onnxruntime"
"""A file of this library has no states. The rest of another file, for sizes that data decide, may have some."""
_DEVICE, _LIBRARY = "device", "library"
_KIND = FileKind(b"nnvkfast", 1)
_log = logger("compilation")
Shapes = tuple[Shape, ...]


class _Times:
    """The times of calls with inputs of the same sizes. Threads may share it."""

    def __init__(self) -> None:
        self.winner = ""
        self.spent: dict[str, list[float]] = {_DEVICE: [], _LIBRARY: []}
        self._begun = 0
        self._under_way = 0
        self._lock = forks.lock()

    def begin(self) -> tuple[str, int]:
        """The one that computes the next call, and the call's number. Calls at once would change each other's times."""
        with self._lock:
            self._begun += 1
            self._under_way += 1
            if self.winner or self._under_way > 1 or is_compiling():
                return self.winner or _DEVICE, 0
            return min(self.spent, key=lambda which: len(self.spent[which])), self._begun

    def end(self, which: str, number: int, seconds: float | None) -> bool:
        """The end of a call, and its time, unless it has failed. Returns whether the winner is known just now."""
        with self._lock:
            self._under_way -= 1
            if self.winner or seconds is None or number != self._begun:
                return False
            self.spent[which].append(seconds)
            device, library = (times[1:] for times in self.spent.values())
            if not device or not library:
                return False
            short, long = sorted((device[0], library[0]))
            wanted = 1 if long > max(_LONG_S, _FAR * short) else _TIMED
            if max(device) >= min(library) and max(library) >= min(device):  # other programs may have disturbed some
                wanted = _MOST_TIMED
            if min(len(device), len(library)) < wanted:
                return False
            self.winner = _LIBRARY if median(library) * _GAIN < median(device) else _DEVICE
            return True


class MeasuredPlan(ShapedModel):
    """The plans of a device and of the library, one of which computes each call. Threads may share it."""

    def __init__(self, device: ShapedModel, library: MixedPlan, times: _Times, settle: Callable[[str], None]) -> None:
        """``settle`` is called when it is known which is faster, with the reason if the library can't compute."""
        self._plans = {_DEVICE: device, _LIBRARY: library}
        self._times = times
        self._settle = settle
        self.expected = NEVER  # so that each call asks anew what computes it
        self._begin(has_states=False)

    @property
    def now(self) -> ShapedModel:
        """The plan of the faster one; while that is not known, the device's."""
        return self._plans[self._times.winner or _DEVICE]

    def run(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """See `ShapedModel.run`. The device computes what the library can't, so that errors are those of the device."""
        which, number = self._times.begin()
        begin, seconds, why = time.perf_counter(), None, ""
        try:
            try:
                results = self._plans[which].run(arrays)
                seconds = time.perf_counter() - begin
            except NnapiError as error:
                if which == _DEVICE:
                    raise
                results = self._plans[_DEVICE].run(arrays)
                why = error.reason
        finally:
            is_known = self._times.end(which, number, seconds)
        if why or is_known:
            self._settle(why)
        return results

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
        self._digest = beside.digest()  # while the file is as it was read
        self._settings = settings
        self._plans = plans
        self._device_plan = device_plan
        self._chosen: dict[Shapes, str] = {}
        self._times: dict[Shapes, _Times] = {}
        self._is_refused = False
        self.library: MixedPlan | None = None
        """The library's plan for all shapes; None where nothing needs it."""

    def plan(self, shapes: Shapes) -> ShapedModel:
        """The plan for inputs of these shapes; the model's lock is held. Raises what ``device_plan`` does."""
        chosen = self._chosen.get(shapes) or self._known_before(shapes)
        if chosen == _LIBRARY and self.library is not None:
            dtypes = [port.dtype for port in self._file.inputs]
            if object not in dtypes:  # texts come in several forms
                self.library.expected = tuple(zip(dtypes, shapes, strict=True))
            return self.library
        device = self._device_plan(shapes)
        is_one_more = shapes not in self._times and len(self._times) + len(self._chosen) >= _MOST_SIZES
        if chosen or is_one_more or (isinstance(device, MixedPlan) and device.step_count == 1):
            return device
        library = self._library_plan()
        if library is None:
            return device
        times = self._times.setdefault(shapes, _Times())
        return MeasuredPlan(device, library, times, partial(self._settle, shapes))

    def _known_before(self, shapes: Shapes) -> str:
        """The choice of another process, or of another model of this file; empty: there is none."""
        chosen = self._kept.known.get(self._key(shapes), "")
        if chosen == _DEVICE or (chosen == _LIBRARY and self._library_plan() is not None):
            self._times.pop(shapes, None)
            self._chosen[shapes] = chosen
            computes = self._device.name if chosen == _DEVICE else self._beside.library_name
            _log.info("%s: %s computes %s, which was measured before", self._name, computes, _named(shapes))
        return self._chosen.get(shapes, "")

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
        """Let the faster one compute inputs of these shapes, or the device if ``why`` says why the library can't."""
        times = self._times.pop(shapes, None)
        if times is None:
            return
        chosen, device, library = times.winner or _DEVICE, self._device.name, self._beside.library_name
        computes = library if chosen == _LIBRARY else device
        self._chosen[shapes] = chosen
        if why:
            _log.info("%s: %s computes %s, %s can't: %s", self._name, device, _named(shapes), library, why)
        else:
            took = {which: f"{median(spent[1:]) * 1e3:.3g} ms" for which, spent in times.spent.items()}
            says = f"it takes {took[_DEVICE]} on {device} and {took[_LIBRARY]} in {library}"
            _log.info("%s: %s computes %s: %s", self._name, computes, _named(shapes), says)
            self._kept.add({self._key(shapes): chosen})
        if chosen == _LIBRARY:
            self._plans.drop(shapes)
        elif not self._times and _LIBRARY not in list(self._chosen.values()):
            self.library = None

    @property
    def _device(self) -> Device:
        return (self._settings.devices or get_devices())[0]

    @cached_property
    def _kept(self) -> KeptChoices:
        names = (self._device.name, self._device.version, *self._beside.version, describe_machine(), __version__)
        return KeptChoices(_KIND, "faster", json.dumps(names), _log)

    def _key(self, shapes: Shapes) -> str:
        return sha256(json.dumps([self._digest, shapes]).encode()).hexdigest()


def faster(
    name: str,
    file: Any,
    beside: Beside | None,
    settings: Settings,
    plans: Plans,
    device_plan: Callable[[Shapes], ShapedModel],
) -> Faster | None:
    """The choices of a model; None where there are none, and the log says why."""
    verified = verified_setting(environment().verified) if settings.verified is None else settings.verified
    if beside is None:
        why = "fallback=False allows no library"
    elif not beside.is_there:
        why = f"{beside.package} is not installed, or NNVK_CPU_LIBRARIES=0 switches it off"
    elif isinstance(file, ImportedModel) and (file.states or (file.rest and beside.package != _STATELESS)):
        why = "the model has states, or may have some"
    elif verified:
        why = "only devices verify their results"
    else:
        return Faster(name, file, beside, settings, plans, device_plan)
    _log.info("%s: the device computes: %s", name, why)
    return None


def _named(shapes: Shapes) -> str:
    return f"inputs of {', '.join(map(dimensions, shapes))}"
