"""A device or the library beside nnvk computes, whichever is measured to be faster for inputs of the same sizes.

The first calls with some sizes measure both in turn, and each call is computed once. The choice is kept for other
processes, by the file, its options, the sizes, the device, its driver and the library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib import import_module, metadata
from statistics import median
from typing import TypeVar

from nnvk import __version__
from nnvk.api import Device
from nnvk.base import forks
from nnvk.base.errors import NnapiError
from nnvk.base.files import FileKind
from nnvk.base.forks import cached_property
from nnvk.base.kept_choices import KeptChoices
from nnvk.base.log import logger
from nnvk.base.machine import describe_machine
from nnvk.base.settings import settings
from nnvk.base.text import dimensions
from nnvk.driver.vulkan import is_compiling
from nnvk.runtime.verification import Verified, verified_setting
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
DEVICE, LIBRARY = "device", "library"
_KIND = FileKind(b"nnvkfast", 1)
_log = logger("compilation")
Shapes = tuple[Shape, ...]
_R = TypeVar("_R")


class Times:
    """The times of calls with inputs of the same sizes. Threads may share it."""

    def __init__(self) -> None:
        self.winner = ""
        self.spent: dict[str, list[float]] = {DEVICE: [], LIBRARY: []}
        self._begun = 0
        self._under_way = 0
        self._lock = forks.lock()

    def begin(self) -> tuple[str, int]:
        """The one that computes the next call, and the call's number. Calls at once would change each other's times."""
        with self._lock:
            self._begun += 1
            self._under_way += 1
            if self.winner or self._under_way > 1 or is_compiling():
                return self.winner or DEVICE, 0
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
            self.winner = LIBRARY if median(library) * _GAIN < median(device) else DEVICE
            return True

    def compute(self, ways: Mapping[str, Callable[[], _R]], settle: Callable[[str], object]) -> _R:
        """Compute a call in one of the ways. The device computes what the library can't, so that errors are the same.

        ``settle`` is called when it is known which is faster, with the reason if the library can't compute.
        """
        which, number = self.begin()
        begin, seconds, why = time.perf_counter(), None, ""
        try:
            try:
                results = ways[which]()
                seconds = time.perf_counter() - begin
            except NnapiError as error:
                if which == DEVICE:
                    raise
                results = ways[DEVICE]()
                why = error.reason
        finally:
            is_known = self.end(which, number, seconds)
        if why or is_known:
            settle(why)
        return results


class Choices:
    """The device or the library for a file, by the shapes of its inputs."""

    def __init__(
        self, name: str, digest: str, device: Device, version: tuple[str, str], library: Callable[[], str]
    ) -> None:
        """``digest`` is that of the file and its options, ``version`` that of the library, behind its package."""
        self._name = name
        self._digest = digest
        self._device = device
        self._version = version
        self._library = library
        self._chosen: dict[Shapes, str] = {}
        self._times: dict[Shapes, Times] = {}

    def known(self, shapes: Shapes, can_library: Callable[[], bool] = lambda: True) -> str:
        """The one that computes these: that of before, also of another process; empty: it has to be measured."""
        if shapes not in self._chosen:
            kept = self._kept.known.get(self._key(shapes), "")
            if kept == DEVICE or (kept == LIBRARY and can_library()):
                self._times.pop(shapes, None)
                self._chosen[shapes] = kept
                computes = self._device.name if kept == DEVICE else self._library()
                _log.info("%s: %s computes %s, which was measured before", self._name, computes, _named(shapes))
        return self._chosen.get(shapes, "")

    def times(self, shapes: Shapes) -> Times | None:
        """The times of calls with these; None where so many others are measured that these are not."""
        if shapes not in self._times and len(self._times) + len(self._chosen) >= _MOST_SIZES:
            return None
        return self._times.setdefault(shapes, Times())

    def settle(self, shapes: Shapes, why: str) -> str:
        """The faster one of those that were measured, or the device if ``why`` says why the library can't compute."""
        times = self._times.pop(shapes, None)
        if times is None:
            return ""
        chosen, device, library = times.winner or DEVICE, self._device.name, self._library()
        computes = library if chosen == LIBRARY else device
        self._chosen[shapes] = chosen
        if why:
            _log.info("%s: %s computes %s, %s can't: %s", self._name, device, _named(shapes), library, why)
        else:
            took = {which: f"{median(spent[1:]) * 1e3:.3g} ms" for which, spent in times.spent.items()}
            says = f"it takes {took[DEVICE]} on {device} and {took[LIBRARY]} in {library}"
            _log.info("%s: %s computes %s: %s", self._name, computes, _named(shapes), says)
            self._kept.add({self._key(shapes): chosen})
        return chosen

    def compute(self, shapes: Shapes, device: Callable[[], _R], library: Callable[[], _R]) -> _R:
        """Compute a call with inputs of these shapes, and measure it if that is not known; see `Times.compute`."""
        chosen = self.known(shapes)
        times = None if chosen else self.times(shapes)
        if times is not None:
            return times.compute({DEVICE: device, LIBRARY: library}, partial(self.settle, shapes))
        if chosen == LIBRARY:
            with suppress(NnapiError):
                return library()
        return device()

    @property
    def needs_library(self) -> bool:
        """Whether the library computes some inputs, or is measured."""
        return bool(self._times) or LIBRARY in list(self._chosen.values())

    @cached_property
    def _kept(self) -> KeptChoices:
        names = (self._device.name, self._device.version, *self._version, describe_machine(), __version__)
        return KeptChoices(_KIND, "faster", json.dumps(names), _log)

    def _key(self, shapes: Shapes) -> str:
        return sha256(json.dumps([self._digest, shapes]).encode()).hexdigest()


def version_of(package: str) -> tuple[str, str]:
    """A library's package and its version."""
    try:
        return package, metadata.version(package)
    except metadata.PackageNotFoundError:  # onnxruntime-gpu, say, which has this package, too
        return package, str(getattr(import_module(package), "__version__", ""))


def why_device(package: str, is_there: bool, verified: Verified | None) -> str:
    """Why the device computes all inputs; empty: the library may."""
    if not is_there:
        return f"{package} is not installed, or NNVK_CPU_LIBRARIES=0 switches it off"
    has_checks = verified_setting(settings().verified) if verified is None else verified
    return "only devices verify their results" if has_checks else ""


def _named(shapes: Shapes) -> str:
    return f"inputs of {', '.join(map(dimensions, shapes))}"
