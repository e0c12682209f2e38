"""Commands of a device: dispatches of shaders, copies and fills, on tensors that have a name but no address yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from nnvk.driver.vulkan.shaders.library import CompiledShader
from nnvk.types.model import Model

ALIGNMENT = 64
"""Bytes to which tensors are aligned and padded: a cache line, which is more than shaders need."""
FOUR = 16
"""Bytes to which views into other tensors are aligned: shaders read and write whole vec4s of elements."""


def padded(size: int) -> int:
    """``size`` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def whole_vec4s(size: int) -> int:
    """``size`` rounded up to the bytes that shaders may read and write."""
    return -(-size // FOUR) * FOUR


FLAG = "flag"
"""The name of the tensor by which a shader raises a flag (``shaders/include/flag.glsl``)."""


class Storage(Enum):
    """The kind of buffer that a tensor lies in."""

    ARENA = "arena"
    """Activations; each execution that is under way has its own."""
    CONSTANTS = "constants"
    """Packed weights and constant operands, uploaded once and shared by all recordings."""
    STAGING = "staging"
    """Host-visible memory for inputs and outputs of the model, and for reports of shaders to the host."""
    UPLOAD = "upload"
    """Device memory for inputs of the model, which the host writes directly and shaders read in place."""

    __hash__ = object.__hash__  # that of enumerations is a function in Python


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor that commands name. It gets an address when all commands are known."""

    number: int
    nbytes: int
    storage: Storage

    def __hash__(self) -> int:
        return self.number  # of a plan's tensors each has its own, and planning looks them up all the time


def name_of(binding: str, number: int) -> str:
    """The name in a dispatch of one more tensor that lies behind a tensor of the shader, in the same page."""
    return f"{binding}#{number}"


def binding_of(name: str) -> str:
    """The name in the shader of a tensor of a dispatch: of one more, that of the tensor which it lies behind."""
    return name.partition("#")[0]


@lru_cache(maxsize=1024)
def _names(bindings: frozenset[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these names whose binding is among ``bindings``; plans ask it for the same shaders all the time."""
    return tuple(name for name in names if binding_of(name) in bindings)


@dataclass(frozen=True, slots=True)
class StridedView:
    """The byte range of each row of a larger tensor that holds the rows of a smaller one."""

    first: int
    width: int
    pitch: int
    """Bytes of a larger row."""

    @property
    def are_inside(self) -> bool:
        """Whether the larger rows have them."""
        return 0 <= self.first <= self.pitch - self.width

    def within(self, outer: StridedView | None) -> StridedView:
        """The same where the larger tensor is columns of a yet larger one."""
        return self if outer is None else StridedView(outer.first + self.first, self.width, outer.pitch)

    def elements(self, itemsize: int) -> StridedView | None:
        """In elements of so many bytes; None where one would be cut, or the first one's place is within a word."""
        if self.first % max(itemsize, 4) or self.width % itemsize or self.pitch % itemsize:
            return None
        return StridedView(self.first // itemsize, self.width // itemsize, self.pitch // itemsize)

    def are_multiples(self, number: int) -> bool:
        """Whether all of them begin and end so."""
        return not (self.first % number or self.width % number or self.pitch % number)


class Access(ABC):
    """How the shader of a dispatch reads and writes those of its tensors that can be strided views."""

    __slots__ = ()

    @abstractmethod
    def on_views(self, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
        """The dispatch with tensors of these names as strided views; None if its shader can't take them."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch of a shader variant. ``tensors`` maps the shader's names to tensors.

    A shader may find more tensors in the page of one that it binds, by a `Table`. They have names by `name_of`.
    """

    shader: CompiledShader
    groups: tuple[int, int, int]
    tensors: Mapping[str, TensorRef]
    specialization: tuple[int, ...]
    push: Mapping[str, int | float]
    operation: int
    """Position of the operation in the model that it belongs to."""
    fused: tuple[int, ...] = ()
    """Positions of other operations that it computes too."""
    access: Access | None = field(default=None, compare=False, repr=False)
    """How it takes strided views, until a plan has laid tensors into others; None if it takes none."""

    @property
    def reads(self) -> list[TensorRef]:
        """Tensors that the dispatch may read."""
        return [self.tensors[name] for name in _names(self.shader.reads, tuple(self.tensors))]

    @property
    def writes(self) -> list[TensorRef]:
        """Tensors that the dispatch may write."""
        return [self.tensors[name] for name in _names(self.shader.writes, tuple(self.tensors))]

    @property
    def flags(self) -> list[TensorRef]:
        """Those of both that other dispatches may read and write at the same time as flags, by atomic operations."""
        return [tensor for name, tensor in self.tensors.items() if name == FLAG]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Distances of tensors in a constant of a dispatch, to be added when all tensors are placed."""

    tensor: TensorRef
    """The constant."""
    data: np.ndarray
    """Its words, to some of which distances are added."""
    distances: Mapping[int, tuple[str, int]]
    """The places of these words, and for each the name of the tensor in the dispatch (`name_of`), and the place of a
    word from which the distance is subtracted.
    """


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of bytes from the start of one tensor to the start of another."""

    source: TensorRef
    target: TensorRef
    nbytes: int

    @property
    def reads(self) -> list[TensorRef]:
        """The source."""
        return [self.source]

    @property
    def writes(self) -> list[TensorRef]:
        """The target."""
        return [self.target]


@dataclass(frozen=True, slots=True)
class Clear:
    """A fill of a whole tensor with zeros."""

    target: TensorRef

    @property
    def reads(self) -> list[TensorRef]:
        """Nothing."""
        return []

    @property
    def writes(self) -> list[TensorRef]:
        """The target."""
        return [self.target]


Command = Dispatch | Copy | Clear


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of one of several candidates for a computation."""

    operation: int
    """Position in the model of the operation that it belongs to."""
    tuning_key: str
    """The tuning key: the computation and everything that its time depends on, except the device."""
    candidates: tuple[str, ...]
    """All candidates, the one with the lowest estimated time first. A plan from a file has only that one."""
    chosen: str
    commands: tuple[int, ...] = ()
    """Positions of the commands that compute it."""


def another_candidate(names: Sequence[str], known: Sequence[int], preferred: Sequence[int]) -> int:
    """The place of another candidate than those at the known places: the first one of another kind, or else any.

    The last known one if there is no other. ``preferred`` has the places of candidates that come first.
    """
    others = [place for place in range(len(names)) if place not in known]
    others = [place for place in others if place in preferred] or others
    kinds = {names[place].split()[0] for place in known}
    return next((place for place in others if names[place].split()[0] not in kinds), (*others, known[-1])[0])


def describe(command: Command, model: Model) -> tuple[str, dict[str, Any]]:
    """A name and details of a command for ``model``, for traces and profiles."""
    if isinstance(command, Copy):
        return "copy", {"bytes": command.nbytes}
    if isinstance(command, Clear):
        return "clear", {"bytes": command.target.nbytes}
    together = [model.operations[position] for position in sorted((command.operation, *command.fused))]
    return command.shader.name, {
        "operation": command.operation,
        "code": " + ".join(operation.code.name for operation in together),
        "dimensions": list(model.operands[together[-1].outputs[0]].type.dimensions),
        "groups": list(command.groups),
    }
