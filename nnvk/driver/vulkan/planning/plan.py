"""A model as commands on placed tensors; no device is needed to make it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.planning.command_passes.command_graph import TensorPart
from nnvk.driver.vulkan.shaders.commands import Choice, Command, Storage, StridedView, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.constant import Constant
from nnvk.types.model import Model
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True)
class Address:
    """Where a tensor lies: the page of its storage, and the offset in it, in bytes."""

    storage: Storage
    page: int
    offset: int
    nbytes: int
    """The bytes of its elements."""
    view: StridedView | None = None
    """The part of a larger tensor's rows that it is, where it lies in one."""

    @property
    def span(self) -> int:
        """Bytes from its first element to its last one."""
        if self.view is None:
            return self.nbytes
        return (self.nbytes // self.view.width - 1) * self.view.pitch + self.view.width


def addresses_of(parts: Mapping[TensorRef, TensorPart], addresses: Mapping[int, Address]) -> dict[int, Address]:
    """Where tensors lie that are parts of others which lie at these addresses."""
    found = {}
    for tensor, part in parts.items():
        around = addresses.get(part.whole.number)
        if around is not None:
            offset = around.offset + part.offset
            found[tensor.number] = Address(around.storage, around.page, offset, tensor.nbytes, part.view)
    return found


@dataclass(frozen=True, slots=True)
class Flag:
    """An assertion that a shader may raise."""

    address: Address
    """Whether it does, and the numbers that are wrong: a word each."""
    assertion: str
    """With the operation, and places for the numbers (`worded`)."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparisons of a verified plan."""

    address: Address
    """The first difference: whether there is one, the comparison, the place of the word, both words, and a sum that
    says which checksums were compared."""
    subjects: tuple[Subject, ...]
    """The tensor of each comparison."""
    checksums: int = 0
    """This sum after each execution."""

    def has_failed(self, words: np.ndarray) -> bool:
        """Whether there is a difference, or a checksum was not compared."""
        return bool(words[0]) or int(words[-1]) != self.checksums

    def worded(self, model: Model, words: np.ndarray) -> str:
        """Say which element of which tensor of a model differs, and how, from the words that were reported."""
        if not words[0]:
            sums = f"their numbers add up to {int(words[-1]):#010x}, not to {self.checksums:#010x}"
            return f"some checksums of results were not compared: {sums}"
        number, place, *both = words[1:-1]
        if number >= len(self.subjects) or both[0] == both[1]:
            return f"the report of a difference is wrong itself: {[int(word) for word in words]}"
        subject = self.subjects[number]
        where = "an exchange with the host" if subject.operation < 0 else str(model.operations[subject.operation])
        if subject.tile:
            sums = f"{both[0]:#010x} as computed and {both[1]:#010x} by inputs and memory"
            return f"{where}: the checksum of {_tile_at(int(place), subject)} is {sums}"
        dtype = np.dtype(subject.dtype)
        first, second = (np.array([word], np.uint32).view(dtype) for word in both)
        inside = int(np.flatnonzero(first.view(np.uint8) != second.view(np.uint8))[0]) // dtype.itemsize
        element = int(place) * 4 // dtype.itemsize + inside
        got = f"is {first[inside]} by one computation and {second[inside]} by another one"
        return f"{where}: element {_at(element, subject.shape)} of {subject.name} {got}"


def _at(place: int, shape: Shape) -> list[int] | int:
    """The indices of a place in a tensor; the place itself if the tensor ends before it."""
    return [int(index) for index in np.unravel_index(place, shape)] if place < math.prod(shape) else place


def _tile_at(place: int, subject: Subject) -> str:
    """The tile that begins at a pixel: its size, and its first row."""
    pixels, tile = subject.shape[:-1], subject.tile
    if len(tile) == 1:
        size = f"{min(*tile, max(math.prod(pixels) - place, 1))} rows"
    else:
        width, line = pixels[-1], place // pixels[-1]
        size = f"{min(tile[0], pixels[-2] - line % pixels[-2])} x {min(tile[1], width - place % width)} pixels"
    return f"the tile of {size} from {_at(place, pixels)} of {subject.name} on"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A model lowered for given input shapes. Recording it needs nothing else than buffers of these sizes."""

    commands: tuple[Command, ...]
    barriers: frozenset[int]
    """Positions of the commands that need a barrier before them."""
    addresses: Mapping[int, Address]
    """The places of tensors, by `TensorRef.number`."""
    pages: Mapping[Storage, tuple[int, ...]]
    """Sizes of the buffers of each storage, in bytes."""
    constants: tuple[tuple[Address, Constant], ...]
    inputs: tuple[Address | None, ...]
    """Where each model input is put; None for one that no command reads."""
    outputs: tuple[Address | None, ...]
    """Where each model output is fetched; None for one without elements."""
    output_shapes: tuple[Shape, ...]
    """The largest, where the number of rows depends on data."""
    flags: tuple[Flag, ...] = ()
    counts: tuple[Address | None, ...] = ()
    """For each model output where its number of rows is, if that depends on data; nothing if no output's does."""
    entropy: tuple[Address, ...] = ()
    """Where the host puts random bytes for each execution."""
    choices: tuple[Choice, ...] = ()
    """The choices of kernels among several candidates."""
    parts: Mapping[int, int] = field(default_factory=dict)
    """Tensors that lie in others: by `TensorRef.number`, the number of the tensor that has the memory."""
    most_alive: int = 0
    """The most bytes of the arena that are needed at once."""
    verification: Verification | None = None
    """The comparisons of two computations of each result; None where there is one computation."""
    applied: Mapping[Pass, int] = field(default_factory=dict)
    """How often each pass has found something to rewrite; nothing where the plan comes from a cache."""

    def place_in_whole(self, number: int) -> tuple[Address, int]:
        """The tensor that has the memory in which one lies, perhaps that itself, and the bytes before it there."""
        whole = self.addresses[self.parts.get(number, number)]
        return whole, self.addresses[number].offset - whole.offset

    @property
    def reports(self) -> tuple[Address, ...]:
        """The tensors that the host reads besides the outputs: flags, then counts, each once, then the difference."""
        counts = dict.fromkeys(count for count in self.counts if count is not None)
        difference = () if self.verification is None else (self.verification.address,)
        return *(flag.address for flag in self.flags), *counts, *difference
