"""A model for one set of input shapes, compiled, with executions that are bound to their memory once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnvk.api import Compilation, Event, Execution, run
from nnvk.base import forks
from nnvk.base.errors import ResultCode
from nnvk.hal import DeferredExecution
from nnvk.importers.ports import ImportedModel, Port
from nnvk.loading.settings import Settings
from nnvk.types.request import ExecutionResult

_MOST_IDLE = 4
"""Bound executions that are kept for the next calls, of which several threads may make some at once."""
_LARGE = 1 << 21
"""The bytes of inputs and outputs from which binding an execution to the caller's arrays costs less than copying."""
_HOST_BYTES = 2 << 10
"""The bytes of the host's memory for an operation, about: objects of models and plans, descriptors of commands."""
Arrays = list[np.ndarray]


class BoundExecution:
    """A reusable execution with arrays of its own, so that a call only copies and computes."""

    __slots__ = ("compute", "execution", "inputs", "outputs", "results")

    def __init__(self, compilation: Compilation, ports: Sequence[Port]) -> None:
        model = compilation.model
        self.inputs = [np.empty(type_.dimensions, type_.dtype) for type_ in model.input_types()]
        self.outputs = [np.empty(type_.dimensions, type_.dtype) for type_ in model.output_types()]
        self.results: list[np.ndarray | None] = [
            array.reshape(port.shape) if port.is_plain else None
            for array, port in zip(self.outputs, ports, strict=False)
        ]
        """Views of the file's outputs in the file's shape; None for those that have to be decoded."""
        self.execution = Execution(compilation)
        self.execution.set_reusable(True)
        for index, array in enumerate(self.inputs):
            self.execution.set_input(index, array)
        for index, array in enumerate(self.outputs):
            self.execution.set_output(index, array)
        self.compute = self.execution.compute


class ShapedModel:
    """A model for one set of input shapes. Threads may share it.

    Calls of a model with states follow one another, and each gets the states that the one before has left.
    """

    def __init__(self, imported: ImportedModel, settings: Settings) -> None:
        self.imported = imported
        self.compilation = Compilation(imported.model, settings.devices)
        if settings.folder is not None:
            settings.folder.apply(self.compilation, [port.shape for port in imported.inputs])
        self.compilation.share_families(settings.families)
        if settings.verified is not None:
            self.compilation.set_verified(settings.verified)
        self.compilation.set_reproducible(settings.reproducible)
        if settings.progress is not None:
            self.compilation.set_progress(settings.progress)
        self.compilation.finish()
        self.expected = tuple((port.dtype, port.shape) for port in imported.inputs)
        """The type and shape of each input of the file."""
        self._encoded = [None if port.is_plain else port for port in imported.inputs]
        self._is_bound = not imported.states and all(
            type_.is_fully_specified for type_ in self.compilation.model.output_types()
        )
        types = (*self.compilation.model.input_types(), *self.compilation.model.output_types())
        nbytes = sum(type_.size for type_ in types) if self._is_bound else _LARGE
        self._copies = nbytes < _LARGE
        """Whether a call copies its arrays to and from those of an execution that is bound already."""
        operations = len(self.compilation.model.operations)
        self.host_bytes = operations * _HOST_BYTES + (nbytes if self._copies else 0)
        """The bytes that it takes in the host's memory, about."""
        self._idle: deque[BoundExecution] = deque()
        self._begin(bool(imported.states))

    def _begin(self, has_states: bool) -> None:
        """Set what calls need that follow one another."""
        self._has_states = has_states
        self._state: Arrays | None = None
        self._turn = forks.lock()
        self._started: DeferredExecution | None = None
        """The last call that was started, if the model has states: the next call waits for it."""

    @property
    def now(self) -> ShapedModel:
        """The plan that computes the next call: this one, unless several are measured."""
        return self

    def run(self, arrays: Sequence[np.ndarray]) -> Arrays:
        """The file's outputs for the file's inputs, which have the expected types and shapes."""
        if not self._copies:
            return self._run_unbound(arrays)
        try:
            bound = self._idle.pop()
        except IndexError:
            bound = BoundExecution(self.compilation, self.imported.results)
        for target, array, port in zip(bound.inputs, arrays, self._encoded, strict=True):
            if port is None:
                target[...] = array if target.shape == array.shape else array.reshape(target.shape)
            else:
                target[...] = port.encode(array)
        bound.compute()
        outputs = [
            port.decode(array.copy()) if plain is None else plain.copy()
            for plain, array, port in zip(bound.results, bound.outputs, self.imported.results, strict=True)
        ]
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(bound)
        return outputs

    def start(self, arrays: Sequence[np.ndarray]) -> tuple[Event, Callable[[], Arrays]]:
        """Begin to compute: the event, and the function that gives the outputs after it.

        Inputs are copied, so that the caller may change them.
        """
        if not self._is_bound:
            return self._start_unbound(arrays)
        bound = BoundExecution(self.compilation, self.imported.results)
        for target, array in zip(bound.inputs, self.imported.encode(list(arrays)), strict=True):
            target[...] = array
        return bound.execution.start_compute(), lambda: self.imported.decode(bound.outputs)[0]

    def parts(self) -> list[ShapedModel]:
        """The parts that are compiled one behind the other: this one."""
        return [self]

    def encoded(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[ShapedModel, Arrays]]:
        """Each part with the inputs of its model, for the file's inputs."""
        yield self, self.imported.encode(list(arrays))

    def reset(self) -> None:
        """Begin anew, with the first states."""
        with self._turn:
            self._state = None

    def _run_unbound(self, arrays: Sequence[np.ndarray]) -> Arrays:
        if not self._has_states:
            return self.imported.decode(run(self.compilation, self.imported.encode(list(arrays))))[0]
        previous = self._started
        if previous is not None:
            previous.wait()
        return self._run_in_turn(arrays)

    def _run_in_turn(self, arrays: Sequence[np.ndarray]) -> Arrays:
        with self._turn:
            encoded = self.imported.encode(list(arrays), self._state)
            outputs, self._state = self.imported.decode(run(self.compilation, encoded))
        return outputs

    def _start_unbound(self, arrays: Sequence[np.ndarray]) -> tuple[Event, Callable[[], Arrays]]:
        """A thread computes, because data decide how large outputs are, or the call before decides the states."""
        given = [np.array(array) if isinstance(array, np.ndarray) else array for array in arrays]
        outputs: Arrays = []

        def work() -> ExecutionResult:
            if previous is not None:
                previous.wait()
            outputs[:] = self._run_in_turn(given) if self._has_states else self.run(given)
            return ExecutionResult(ResultCode.NO_ERROR, ())

        with self._turn:
            previous = self._started if self._has_states else None
            fence = DeferredExecution(work)
            self._started = fence if self._has_states else None
        event = Event(fence, lambda fence: _raise_error(fence.result()))
        return event, lambda: list(outputs)


def _raise_error(result: ExecutionResult) -> None:
    """`DeferredExecution.result` has raised the error of the work."""
    assert result.code is ResultCode.NO_ERROR
