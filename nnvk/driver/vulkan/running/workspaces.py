"""Memory for activations and staging, which the plans of one model use in turn.

Another size of the inputs has another plan, and one execution runs at a time where one thread calls. So plans of all
sizes record on the same buffers, and a new size allocates and clears nothing. There are as many workspaces as
executions have been under way together. Recordings on device memory have memory of their own, so that those of a loop's
states do not wait for each other's.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnvk.base import forks
from nnvk.driver.vulkan.shaders.commands import Storage

if TYPE_CHECKING:
    import nnvk._native as _native

SCRATCH = (Storage.ARENA, Storage.STAGING, Storage.UPLOAD)
"""The kinds of memory whose contents matter for the length of an execution."""

_MOST_AHEAD = 1 << 27
"""The bytes up to which a buffer grows by more than it must: what Vulkan lets shaders bind on every device."""


class Workspace:
    """The buffers of one execution at a time. They grow to what the largest plan needs."""

    def __init__(self, device: _native.Device) -> None:
        self.device = device
        """The Vulkan device that owns the memory."""
        self.turn = threading.Lock()  # not one of `forks`: a child has another device
        """Held by the one execution that uses the memory: at first by that for which the workspace is made."""
        self.turn.acquire()
        self._buffers: Mapping[Storage, list[_native.Buffer]] = {storage: [] for storage in SCRATCH}

    def buffers(self, pages: Mapping[Storage, Sequence[int]]) -> dict[Storage, list[_native.Buffer]]:
        """The buffers for pages of these sizes, each at least as large.

        A larger buffer replaces one that is too small, which lives as long as something is recorded on it.
        """
        new: list[_native.Buffer] = []
        for storage, known in self._buffers.items():
            for number, size in enumerate(pages[storage]):
                before = known[number].size if number < len(known) else 0
                if before < size:
                    known[number:] = [self._grown(storage, before, size), *known[number + 1 :]]
                    new += [known[number]] if storage is Storage.ARENA else []
        self._clear(new)
        return {storage: self._buffers[storage][: len(pages[storage])] for storage in SCRATCH}

    def _grown(self, storage: Storage, before: int, size: int) -> _native.Buffer:
        """A buffer that is larger than it must be in the place of another one, because sizes may grow on."""
        try:
            return self._create(storage, max(size, min(2 * before, _MOST_AHEAD)))
        except MemoryError:
            return self._create(storage, size)

    def _create(self, storage: Storage, size: int) -> _native.Buffer:
        is_upload = storage is Storage.UPLOAD
        return self.device.create_buffer(size, host_visible=storage is not Storage.ARENA, device_local=is_upload)

    def _clear(self, buffers: Sequence[_native.Buffer]) -> None:
        """Clear memory, so that no execution sees data of another process or model."""
        if buffers:
            program = self.device.create_program()
            for buffer in buffers:
                program.fill(buffer, 0, buffer.size, 0)
            program.finish([], [])
            program.run([], [])


class Workspaces:
    """The workspaces of a model. Threads may share them. A workspace lives as long as something is recorded on it."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.name = f"workspaces {next(self._numbers)}"
        """A name that no other ones of this process have."""
        self._lock = forks.lock()
        self._all: weakref.WeakSet[Workspace] = weakref.WeakSet()

    def take(self, device: _native.Device) -> Workspace:
        """A workspace for exclusive use, new if none is free. Release its ``turn`` when the work is done."""
        with self._lock:
            for known in list(self._all):
                if known.device is device and known.turn.acquire(blocking=False):  # else lost, or a parent's
                    return known
            made = Workspace(device)
            self._all.add(made)
            return made
