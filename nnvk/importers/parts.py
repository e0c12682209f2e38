"""Files that are imported in parts, where operators wait for sizes and parameters that others compute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np

from nnvk.base import forks
from nnvk.base.errors import Guard, NnapiError, ResultCode
from nnvk.base.log import logger, timed
from nnvk.importers.errors import Inexpressible, Malformed, ModelImportError, Problem, Unmapped
from nnvk.importers.ports import ImportedModel, Port
from nnvk.importers.shapes import Shapes
from nnvk.importers.sized import SizedImports

_log = logger("model")


class Loadable(Protocol):
    """A source of models, each for other shapes and constants: a file, or a part that was saved."""

    def load_in_parts(
        self,
        *,
        shapes: Shapes | None = None,
        constants: Mapping[str, Any] | None = None,
        knows_inputs: bool = False,
        **options: Any,
    ) -> ImportedModel:
        """A model, which may have a `rest`; see `FileInParts.load_in_parts`."""

    def known_outputs(self, shapes: Shapes, constants: Mapping[str, Any]) -> list[np.ndarray] | None:
        """The outputs if no execution is needed for them."""


class FileInParts(ABC):
    """A file from which models are imported: whole, or in parts."""

    keeps_doubles = False
    """Whether imports refuse operators that compute with FLOAT64, so that a library does."""
    refusal: ClassVar[type[ModelImportError]]
    """The format's error."""

    def __init__(self, name: str) -> None:
        """``name`` is the file's in errors."""
        self._name = name
        self._numbers: Sequence[int] = ()
        """The numbers of the operators, if they are a part of those of a file."""
        self._cut: FileCut | None = None
        self._waited: dict[Hashable, frozenset[int]] = {}
        """Operators that have waited before, by `_key`. Parts of a file share them."""
        self._lock = forks.rlock()
        """One thread at a time imports parts of a file, which share it."""

    def load_in_parts(
        self,
        *,
        shapes: Shapes | None = None,
        constants: Mapping[str, Any] | None = None,
        knows_inputs: bool = False,
        **options: Any,
    ) -> ImportedModel:
        """Import the file; if operators wait for what others compute, only these others, with a `rest`.

        Sizes and parameters that data decide are known when the model has run. Then the rest is imported. A caller who
        ``knows_inputs`` rather has an error that names those whose values are needed. ``options`` are the importer's.
        """
        with self._lock:
            return self._load_in_parts(shapes or {}, constants or {}, knows_inputs, options)

    def _load_in_parts(
        self, shapes: Shapes, constants: Mapping[str, Any], knows_inputs: bool, options: Mapping[str, Any]
    ) -> ImportedModel:
        before = self._waited.get(self._key(constants))
        if before is not None:
            with suppress(ModelImportError):
                return self._load_first(before, shapes, constants, options)
        try:
            return self._load_whole(shapes, constants, options)
        except ModelImportError as error:
            whole = error
        waiting: frozenset[int] = frozenset()
        more = frozenset() if knows_inputs and whole.unknown else frozenset(whole.waiting)
        while not waiting.issuperset(more):
            waiting |= more
            try:
                return self._load_first(waiting, shapes, constants, options)
            except ModelImportError as error:  # more of it may wait
                more = frozenset(error.waiting)
                if not more and any(problem.operation == "output" for problem in error.problems):
                    raise
        raise whole

    def _share(self, whole: FileInParts) -> None:
        """Be a part of a file."""
        self._waited, self._lock = whole._waited, whole._lock

    def _load_first(
        self, waiting: frozenset[int], shapes: Shapes, constants: Mapping[str, Any], options: Mapping[str, Any]
    ) -> ImportedModel:
        """Import the operators that do not depend on those that wait, and keep the others as the rest."""
        made = self._cut
        if made is None or not made.is_of(waiting, constants):
            made = self._cut_before(waiting, constants)
        imported = made.load(shapes, options)
        self._cut = made
        self._waited[self._key(constants)] = waiting
        return imported

    def _key(self, constants: Mapping[str, Any]) -> Hashable:
        """Stands for operators and constants that are known, whatever their values are."""
        return (frozenset(constants), tuple(self._numbers))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Name the file in errors, and log how long something of its import takes."""
        with Guard(self._name):
            try:
                with timed(_log, "importing %s", self._name):
                    yield
            except Malformed as error:
                is_valid = isinstance(error, Inexpressible)
                raise self.refusal(error.what, self._name, detail=str(error), is_valid=is_valid) from error
            except MemoryError as error:
                text = f"{self._name}: there is too little memory to import it"
                raise NnapiError(ResultCode.OUT_OF_MEMORY, text) from error

    @abstractmethod
    def _load_whole(self, shapes: Shapes, constants: Mapping[str, Any], options: Mapping[str, Any]) -> ImportedModel:
        """One model of the file."""

    @abstractmethod
    def _cut_before(self, waiting: frozenset[int], constants: Mapping[str, Any]) -> FileCut:
        """The file, cut in front of operators, by their numbers."""


class FileCut(ABC):
    """A file in two parts."""

    _first: Any
    """The file of the first part."""

    def __init__(
        self,
        waiting: frozenset[int],
        constants: Mapping[str, np.ndarray],
        taken: int,
        places: Sequence[tuple[bool, int]],
        name: str,
    ) -> None:
        """``name`` is the file's. ``taken`` is the number of the first part's outputs that the rest takes.

        ``places`` are those of `Cut`.
        """
        self._waiting = waiting
        self._constants = {name: array.tobytes() for name, array in constants.items()}
        self._taken = taken
        self._places = places
        self._name = name

    def is_of(self, waiting: frozenset[int], constants: Mapping[str, Any]) -> bool:
        """Whether the file was cut in front of these operators and with these constants."""
        return (
            self._waiting == waiting
            and self._constants.keys() == constants.keys()
            and all(np.asarray(constants[name]).tobytes() == data for name, data in self._constants.items())
        )

    def load(self, shapes: Shapes, options: Mapping[str, Any]) -> ImportedModel:
        """The first part for these shapes, and the rest. Raises the importer's error."""
        first: ImportedModel = self._first.load(shapes=shapes, **options)
        results = first.outputs
        taken = results[: self._taken]
        of_rest = {name: option for name, option in options.items() if name != "lists_all"}  # whose errors are shown
        rest = ByValue(*self._rest_for(taken), of_rest)
        ports = [
            self._late_port(position) if is_late else results[place]
            for position, (is_late, place) in enumerate(self._places)
        ]
        return replace(first, outputs=tuple(ports), rest=LaterPart(rest, results, self._places))

    def _late_port(self, position: int) -> Port:
        try:
            return self._late_output(position)
        except (Malformed, Unmapped) as error:
            problem, valid = Problem("output", position, str(error)), isinstance(error, Unmapped)
            raise ModelImportError("NNAPI can't express this model", self._name, [problem], is_valid=valid) from error

    @abstractmethod
    def _rest_for(self, taken: Sequence[Port]) -> tuple[Loadable, Sequence[str]]:
        """The rest, which takes these outputs of the first part, and their names there; their sizes are open."""

    @abstractmethod
    def _late_output(self, position: int) -> Port:
        """An output of the whole file that the rest computes, as the file declares it. `Unmapped`: NNAPI can't."""


class ByValue:
    """Imports a file for arrays. Inputs whose elements operators must know (axes, shapes, counts) become constants."""

    def __init__(self, file: Loadable, names: Sequence[str], options: Mapping[str, Any]) -> None:
        self.file = file
        self.names = names
        """The names of the inputs, in their order."""
        self.options = options
        self._known: tuple[str, ...] = ()
        self._by_shapes = SizedImports(lambda shapes: file.load_in_parts(shapes=shapes, knows_inputs=True, **options))

    @property
    def is_by_shapes(self) -> bool:
        """Whether models depended on nothing but shapes so far."""
        return not self._known

    def key(self, arrays: Mapping[str, np.ndarray]) -> tuple[object, ...]:
        """Stands for all that an import depends on, as far as earlier imports have shown."""
        shapes = tuple(array.shape for array in arrays.values())
        return (*shapes, *((name, arrays[name].tobytes()) for name in self._known))

    def load(self, arrays: Mapping[str, np.ndarray]) -> ImportedModel | list[np.ndarray]:
        """A model for inputs by name, or its outputs, if none is needed for them. Raises the importer's error."""
        while True:
            known = {name: array for name, array in arrays.items() if name in self._known or 0 in array.shape}
            shapes = {name: array.shape for name, array in arrays.items() if name not in known}
            try:
                if not known:
                    return self._by_shapes(shapes)
                return self.file.load_in_parts(shapes=shapes, constants=known, knows_inputs=True, **self.options)
            except ModelImportError as error:
                more = [name for name in error.unknown if name in arrays and name not in known]
                if not more:
                    outputs = self.file.known_outputs(shapes, known)
                    if outputs is None:
                        raise
                    return outputs
                self._known = (*self._known, *more)


class LaterPart:
    """The `nnvk.importers.ports.Rest` of a file that was cut."""

    def __init__(self, source: ByValue, results: Sequence[Port], places: Sequence[tuple[bool, int]]) -> None:
        """``results`` are those of the first part, of which the source takes the first ones.

        ``places`` tell for each output of the file whether it is the source's, and its position.
        """
        self.inputs = tuple(results)
        self._source = source
        self._places = places

    def _named(self, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self._source.names, arrays, strict=False))

    def key(self, arrays: Sequence[np.ndarray]) -> Hashable:
        """See `Rest`."""
        return self._source.key(self._named(arrays))

    def load(self, arrays: Sequence[np.ndarray]) -> ImportedModel | list[np.ndarray]:
        """See `Rest`."""
        return self._source.load(self._named(arrays))

    def taken(self, arrays: Sequence[np.ndarray], imported: ImportedModel) -> list[np.ndarray]:
        """See `Rest`."""
        named = self._named(arrays)
        return [named[port.name] for port in imported.inputs]

    def outputs_of(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `Rest`."""
        return [results[place] if is_late else arrays[place] for is_late, place in self._places]
