"""Models of which a library beside nnvk, onnxruntime or LiteRT, computes what NNAPI has nothing for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from nnvk.api import Device
from nnvk.base.errors import NnapiError, ResultCode, VerificationError, is_callers, op_failed
from nnvk.base.text import printable
from nnvk.importers.errors import ModelImportError
from nnvk.importers.graph_builder import Source
from nnvk.importers.metadata import Metadata
from nnvk.importers.parts import Loadable
from nnvk.importers.ports import Port, Signature

_OF_DATA = (ResultCode.BAD_DATA, ResultCode.OP_FAILED, ResultCode.OUTPUT_INSUFFICIENT_SIZE)
_REASON_SHOWN = 400


@dataclass(frozen=True, slots=True)
class PlacedOperator:
    """An operator of the file that the library computes, or gives to a device of nnvk's."""

    source: Source
    device: str
    reason: str
    """Why no device of nnvk's computes it; empty if one does."""


class LibraryPart(Protocol):
    """A graph that the library computes. Threads may share it."""

    @property
    def operators(self) -> Sequence[PlacedOperator]:
        """The operators of the graph."""

    def reset(self) -> None:
        """Begin anew, with the first states of a graph that has some."""

    def prepare(self) -> None:
        """Make what computes the graph, before the first run needs it. Raises OP_FAILED that says what failed."""

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs, as the file has them. Raises OP_FAILED with the library's reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Operators that are computed together."""

    reads: Sequence[str]
    """The names of the tensors that it takes."""
    writes: Sequence[str]
    library: LibraryPart
    """Computes them; where nnvk does, those whose data it can't."""
    own: Loadable | None = None
    """The part from which nnvk makes models; None if the library computes the operators."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of ``own.load_in_parts``."""


class Described(Protocol):
    """The inputs and outputs of a file, and what it says of them."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs."""

    @property
    def metadata(self) -> Metadata:
        """The file's metadata."""


@dataclass(frozen=True, slots=True, eq=False)
class MixedFile:
    """A file as steps, one behind the other."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    steps: Sequence[Step]
    reads: Sequence[str]
    """The names by which steps know the inputs, which need not differ in the file."""
    writes: Sequence[str]
    """Those of the outputs."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Tensors that no step gives and that are no inputs, by name."""
    metadata: Metadata = field(default_factory=Metadata)
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    reason: str = ""
    """The first operator that can't be mapped, and why."""


class Library(Protocol):
    """A file, for a library that may compute it."""

    name: str
    """The name of the library."""

    def mixed(self, refusal: ModelImportError, devices: Sequence[Device]) -> MixedFile:
        """The file in steps. ``refusal`` is raised again, with the library's reason, if it can't compute them."""

    def whole(self, inputs: Sequence[str], outputs: Sequence[str]) -> LibraryPart:
        """The whole file, which must have these inputs. BAD_DATA: it has others, or the library must not meet it."""


def first_reason(refusal: ModelImportError) -> str:
    """The first problem that an importer has found, in one line."""
    return str(refusal.problems[0]) if refusal.problems else refusal.reason


def may_compute(error: NnapiError) -> bool:
    """Whether a library may compute what has failed: it is the data's or the importer's fault, and not the device's."""
    if isinstance(error, ModelImportError):
        return error.is_valid
    is_foreign = error.__cause__ is not None and not isinstance(error.__cause__, NnapiError)  # a driver has failed
    return error.code in _OF_DATA and not (is_foreign or is_callers(error) or isinstance(error, VerificationError))


@contextmanager
def failing(library: str) -> Iterator[None]:
    """While a library computes: what it raises becomes OP_FAILED, with its reason in one line.

    Their exceptions have no base of their own.
    """
    try:
        yield
    except Exception as error:
        text = f"{library}: {printable(' '.join(str(error).split()), _REASON_SHOWN)}"
        raise op_failed(text) from None  # with a cause it would be a device that has failed: see `may_compute`
