"""Constants on the device: made, uploaded and shared by all plans that need the same bytes.

A model whose input sizes differ from call to call has a plan for each set of sizes, and all of these read the same
weights. The memory plan gives each large constant a page of its own (`memory_plan.place_constants`). The store finds
the buffer of such a page by the digest of its bytes, whatever model or file the bytes come from.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nnvk.base import forks
from nnvk.base.background import executor
from nnvk.base.limits import cores
from nnvk.driver.vulkan.planning.memory_plan import LEAST_SHARED
from nnvk.driver.vulkan.planning.plan import Address, Plan
from nnvk.driver.vulkan.shaders.commands import Storage, padded
from nnvk.types.constant import Constant, DeferredConstant, bytes_of, origin

if TYPE_CHECKING:
    import nnvk._native as _native

_MOST_THREADS = 4
"""The most threads that make constants."""
_MUCH = 1 << 20
"""The bytes of constants from which on several threads make them."""
_STAGED = 32 << 20
"""Bytes of constants that are uploaded together; a larger constant goes alone."""


ForAll = Callable[..., Iterable[Any]]
"""The results of a function for the items of sequences, as of `map`."""


class SharedConstant:
    """A buffer with a constant, which is freed with the last plan that refers to it."""

    __slots__ = ("__weakref__", "_error", "_filled", "buffer", "name", "native")
    _numbers = itertools.count(1)

    def __init__(self, native: _native.Device, size: int) -> None:
        self.native = native
        """The Vulkan device that owns the memory."""
        self.name = str(next(self._numbers))
        """A name that no other constant of this process has."""
        self.buffer = native.create_buffer(size, host_visible=False)
        self._filled = threading.Event()
        self._error: BaseException | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the upload has failed."""
        return self._error is not None

    def end(self, error: BaseException | None = None) -> None:
        """Say that the buffer has the constant, or by which error the upload has failed."""
        if not self._filled.is_set():
            self._error = error
            self._filled.set()

    def wait(self) -> None:
        """Wait until the buffer has the constant. Raises the error of the upload."""
        self._filled.wait()
        if self._error is not None:
            raise self._error


class ConstantStore:
    """The large constants on a device. Threads may share it."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._known: weakref.WeakValueDictionary[tuple[int, bytes, int], SharedConstant] = weakref.WeakValueDictionary()
        self._digests: dict[Hashable, tuple[weakref.ref[Constant], bytes]] = {}

    def claim(
        self, native: _native.Device, data: Constant, size: int, own: list[SharedConstant]
    ) -> tuple[SharedConstant, np.ndarray | None]:
        """A constant in a buffer of ``size`` bytes, and its bytes if the buffer is new.

        A new one is added to ``own``: the caller must fill it, and call `SharedConstant.end` in any case. Raises the
        error of the device if there is no memory for it, and errors of making the elements.
        """
        source = _source_of(data)
        digest = self._digest_of(source)
        content = None
        if digest is None:
            content = bytes_of(data)
            digest = hashlib.sha256(content.data).digest()
            if source is not None:
                self._note(source, digest)
        with self._lock:
            known = self._made(native, digest, size)
            if known is not None:
                return known, None
            made = SharedConstant(native, size)
            own.append(made)
            self._known[id(native), digest, size] = made  # the constant keeps its device alive
        return made, bytes_of(data) if content is None else content

    def known(self, native: _native.Device, data: Constant, size: int) -> SharedConstant | None:
        """A constant that a buffer of ``size`` bytes has or will have, if that is known without its bytes."""
        digest = self._digest_of(_source_of(data))
        with self._lock:
            return None if digest is None else self._made(native, digest, size)

    def _made(self, native: _native.Device, digest: bytes, size: int) -> SharedConstant | None:
        known = self._known.get((id(native), digest, size))
        return None if known is None or known.has_failed else known

    def _digest_of(self, source: _Source | None) -> bytes | None:
        """The digest of elements, if it was found before and their source lives."""
        lives, digest = (None, None) if source is None else self._digests.get(source[0], (None, None))
        return digest if lives is not None and lives() is not None else None

    def _note(self, source: _Source, digest: bytes) -> None:
        """Remember a digest as long as the source lives."""
        digests, key = self._digests, source[0]
        digests[key] = weakref.ref(source[1], lambda _: digests.pop(key, None)), digest


_Source = tuple[Hashable, Constant]
"""A key, and the object that it stands for: constants of equal keys have equal elements as long as the object lives."""


def _source_of(data: Constant) -> _Source | None:
    """The memory that a constant is made of, or the constant itself if it makes them; None if elements may change."""
    known = origin(data)
    if known is None and isinstance(data, DeferredConstant):
        return ("constant", id(data)), data
    return known


@dataclass(frozen=True, slots=True)
class _Item:
    """A constant, and where it goes."""

    page: int
    address: Address
    data: Constant
    is_shared: bool


class Upload:
    """The upload of a plan's constants. Large ones are made and uploaded by threads, while shaders are compiled."""

    def __init__(self, device: _native.Device, plan: Plan, store: ConstantStore) -> None:
        self._device = device
        self._store = store
        sizes = plan.pages[Storage.CONSTANTS]
        self._sizes = sizes
        self._buffers: list[_native.Buffer | None] = [None] * len(sizes)
        self._shared: dict[int, SharedConstant] = {}
        self._filled: Future[None] | None = None
        items = [item for item in _items(plan) if not self._is_on_device(item)]
        if sum(item.address.nbytes for item in items) < _MUCH:
            self._fill(items, map)
            return
        threads = executor(min(_MOST_THREADS, cores()) + 1, "nnvk-constants")
        self._filled = threads.submit(self._fill, items, partial(_for_all, threads))
        self._filled.add_done_callback(lambda _: threads.shutdown(wait=False))

    @property
    def is_done(self) -> bool:
        """Whether `wait` returns at once."""
        return self._filled is None or self._filled.done()

    def wait(self) -> list[_native.Buffer]:
        """Wait until all constants are uploaded. Returns the buffers by page; raises the error of the upload."""
        if self._filled is not None:
            self._filled.result()
        for shared in self._shared.values():
            shared.wait()  # another plan may be uploading it
        return [buffer for buffer in self._buffers if buffer is not None]

    def shared(self) -> Mapping[str, int]:
        """The bytes of the buffers that other plans may use too, by their names."""
        self.wait()
        return {shared.name: self._sizes[page] for page, shared in self._shared.items()}

    def _is_on_device(self, item: _Item) -> bool:
        """Whether another plan uploads a constant, or has done so."""
        size = self._sizes[item.page]
        shared = self._store.known(self._device, item.data, size) if item.is_shared else None
        if shared is not None:
            self._share(item, shared)
        return shared is not None

    def _share(self, item: _Item, shared: SharedConstant) -> None:
        self._shared[item.page] = shared
        self._buffers[item.page] = shared.buffer

    def _fill(self, items: Sequence[_Item], for_all: ForAll) -> None:
        """Make and upload all constants in batches, through staging memory that batches share."""
        own: list[SharedConstant] = []
        try:
            alone = {item.page for item in items if item.is_shared}
            for page, size in enumerate(self._sizes):
                if page not in alone and self._buffers[page] is None:
                    self._buffers[page] = self._device.create_buffer(size, host_visible=False)
            staging: _native.Buffer | None = None
            for batch in _batches(items):
                contents = [each for each in for_all(self._made, batch, [own] * len(batch)) if each is not None]
                if contents:
                    room = sum(padded(content.nbytes) for _, content in contents)
                    if staging is None or staging.size < room:
                        staging = self._device.create_buffer(room, host_visible=True)
                    self._copy(contents, staging, for_all)
                del contents
        except BaseException as error:
            for shared in own:
                shared.end(error)
            raise
        for shared in own:
            shared.end()

    def _made(self, item: _Item, own: list[SharedConstant]) -> tuple[_Item, np.ndarray] | None:
        """The bytes of a constant that must be uploaded; None for one that is on the device."""
        if not item.is_shared:
            return item, bytes_of(item.data)
        shared, content = self._store.claim(self._device, item.data, self._sizes[item.page], own)
        self._share(item, shared)
        return None if content is None else (item, content)

    def _copy(
        self,
        contents: Sequence[tuple[_Item, np.ndarray]],
        staging: _native.Buffer,
        for_all: ForAll,
    ) -> None:
        """Copy constants to the device."""
        view = staging.view()
        program = self._device.create_program()
        places = []
        at = 0
        for item, content in contents:
            places.append(slice(at, at + content.nbytes))
            target = self._buffers[item.page]
            assert target is not None
            program.copy(staging, at, target, item.address.offset, content.nbytes)
            at += padded(content.nbytes)

        def put(place: slice, made: tuple[_Item, np.ndarray]) -> None:
            view[place] = made[1]

        deque(for_all(put, places, contents), maxlen=0)
        program.finish([], [])
        program.run([], [])


def _for_all(threads: Executor, work: Callable[..., object], *arguments: Iterable[object]) -> list[object]:
    """The results of ``work`` in the order of the arguments. After an error no thread is at work any more."""
    futures = [threads.submit(work, *each) for each in zip(*arguments, strict=True)]
    wait(futures)
    return [future.result() for future in futures]


def _items(plan: Plan) -> list[_Item]:
    """The constants of a plan, page by page. Those that are large and have a page of their own are shared."""
    pages: defaultdict[int, list[tuple[Address, Constant]]] = defaultdict(list)
    for address, data in plan.constants:
        pages[address.page].append((address, data))
    items = []
    for page in sorted(pages):
        placed = sorted(pages[page], key=lambda one: one[0].offset)
        is_shared = len(placed) == 1 and placed[0][0].offset == 0 and placed[0][0].nbytes >= LEAST_SHARED
        items += [_Item(page, address, data, is_shared) for address, data in placed if address.nbytes]
    return items


def _batches(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """The constants in batches that keep staging memory small."""
    some: list[_Item] = []
    staged = 0
    for item in items:
        nbytes = padded(item.address.nbytes)
        if some and staged + nbytes > _STAGED:
            yield some
            some, staged = [], 0
        some.append(item)
        staged += nbytes
    if some:
        yield some
