"""From a file's subgraphs to finished models: reads tensors, calls the mappers, gathers what can't be mapped."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from nnvk.api import Model, OperandType
from nnvk.base.errors import NnapiError
from nnvk.importers.tflite import mappers as _mappers  # noqa: F401  (registers the mappers)
from nnvk.importers.tflite.context import Context, same_quantisation
from nnvk.importers.tflite.errors import Malformed, Problem, TfliteImportError, Unmapped
from nnvk.importers.tflite.graph import Budget, Graph, Value
from nnvk.importers.tflite.operands import at_least_1d, constant, operand_type
from nnvk.importers.tflite.ports import ImportedModel, Port, State
from nnvk.importers.tflite.registry import mappers
from nnvk.importers.tflite.schema import File, Operator, Subgraph, Tensor
from nnvk.types.operand import QUANT8_CODES

_COMPUTED_BASE, _COMPUTED_FACTOR = 64 << 20, 16
"""Bytes of constants that an import may compute: so many, and so many times the file's size."""
_DAMAGED = (struct.error, IndexError, KeyError, ValueError, TypeError, ArithmeticError, MemoryError, AttributeError)
"""What a mapper may raise on options or shapes that make no sense."""
_NOTHING = np.zeros(0, np.uint8)
"""The bytes of a constant without elements, which has no buffer."""


def load(source: str | os.PathLike[str] | bytes, *, round_hybrid: bool = True) -> ImportedModel:
    """Import a ``.tflite`` model, from a path or from its bytes.

    Where weights of 8 bits meet real activations (dynamic-range quantisation), TFLite rounds the activations to
    8 bits as well. ``round_hybrid`` adds operations that do so too, and give TFLite's results; without it, the
    model is faster and nearer to what was trained, and its results differ from TFLite's by that rounding.

    Raises `TfliteImportError` where the file is malformed, or has operators that NNAPI can't express: it then
    lists them all. Raises OSError where the path can't be read.
    """
    if isinstance(source, bytes):
        data, name = source, "the model"
    else:
        data, name = Path(source).read_bytes(), os.fspath(source)
    try:
        return _Import(File(data), name, Budget(_COMPUTED_BASE + _COMPUTED_FACTOR * len(data)), round_hybrid).run()
    except Malformed as error:
        raise TfliteImportError(name, f"malformed: {error}") from error


@dataclass(slots=True, eq=False)
class _Finished:
    """A subgraph that was imported."""

    model: Model
    inputs: list[Value]
    outputs: list[Value]
    states: list[tuple[Tensor, Value]]
    """Variable tensors and their values as inputs."""


@dataclass(slots=True, eq=False)
class _Import:
    """One import: subgraphs are imported once each, however often control flow refers to them."""

    file: File
    name: str
    budget: Budget
    round_hybrid: bool
    problems: list[Problem] = field(default_factory=list)
    finished: dict[int, _Finished] = field(default_factory=dict)
    under_way: list[int] = field(default_factory=list)

    def run(self) -> ImportedModel:
        subgraph = self.file.subgraph(0)
        finished = self.subgraph(0)
        if finished is None:
            count = len(self.problems)
            raise TfliteImportError(
                self.name, f"{count} operator{'s' if count > 1 else ''} can't be mapped to NNAPI:", self.problems
            )
        ports = [
            _port(subgraph.tensors[index], value.type)
            for indexes, values in ((subgraph.inputs, finished.inputs), (subgraph.outputs, finished.outputs))
            for index, value in zip(indexes, values, strict=False)
        ]
        states = tuple(
            State(_port(tensor, value.type), _port(tensor, value.type)) for tensor, value in finished.states
        )
        count = len(subgraph.inputs)
        return ImportedModel(
            finished.model, tuple(ports[:count]), tuple(ports[count:]), states, self.file.description
        )

    def subgraph(self, index: int) -> _Finished | None:
        """A subgraph's model; None where operators of it could not be mapped."""
        if index not in self.finished:
            if index in self.under_way:
                raise Malformed(f"subgraph {index} contains itself")
            self.under_way.append(index)
            before = len(self.problems)
            result = _Builder(self, self.file.subgraph(index)).build()
            self.under_way.pop()
            if result is None or len(self.problems) > before:
                return None
            self.finished[index] = result
        return self.finished[index]

    def branch(self, index: int) -> Model:
        """The model of a subgraph that control flow refers to."""
        finished = self.subgraph(index)
        if finished is None:
            raise Unmapped(f"subgraph {index} has operators that can't be mapped")
        if finished.states:
            raise Unmapped(f"subgraph {index} has variable tensors, which NNAPI's control flow does not carry")
        return finished.model


def _port(tensor: Tensor, type_: OperandType) -> Port:
    shape = tensor.shape if at_least_1d(tensor.shape) == type_.dimensions else type_.dimensions
    return Port(tensor.name, type_, tensor.type, shape)


class _Builder:
    """Builds the model of one subgraph."""

    def __init__(self, owner: _Import, subgraph: Subgraph) -> None:
        self._owner = owner
        self._subgraph = subgraph
        self._graph = Graph(owner.budget)
        self._values: dict[int, Value] = {}
        self._states: dict[int, Value] = {}
        self._lost: set[int] = set()
        """Tensors that operators could not give; their readers are not to blame."""

    def build(self) -> _Finished | None:
        subgraph, before = self._subgraph, len(self._owner.problems)
        inputs = [self._attempt(subgraph.tensors[index], self._input) for index in subgraph.inputs]
        for operator in subgraph.operators:
            self._map(operator)
        outputs = [self._attempt(subgraph.tensors[index], self._value) for index in subgraph.outputs]
        if len(self._owner.problems) > before or self._lost:
            return None
        states = [(subgraph.tensors[index], value) for index, value in self._states.items()]
        present = [value for value in outputs if value is not None]
        try:
            model = self._graph.finish([*present, *(self._values[tensor.index] for tensor, _ in states)])
        except (NnapiError, Unmapped) as error:
            raise Malformed(f"subgraph {subgraph.index}: {error}") from error
        return _Finished(model, [value for value in inputs if value is not None], present, states)

    # --- operators -----------------------------------------------------------------------------------------------

    def _map(self, operator: Operator) -> None:
        """Map one operator; a failure becomes a problem and its outputs are lost."""
        tensors = self._subgraph.tensors
        if not self._lost.isdisjoint(operator.inputs):
            self._lost.update(operator.outputs)
            return
        try:
            mapper = mappers().get(operator.name)
            if mapper is None:
                kind = "custom operator" if operator.is_custom else "operator"
                raise Unmapped(f"NNAPI has no counterpart of this {kind}")
            inputs = [None if index < 0 else self._value(tensors[index]) for index in operator.inputs]
            context = Context(self._graph, operator, inputs, tensors, self._owner.branch, self._owner.round_hybrid)
            result = mapper(context)
            values: Sequence[Value] = [result] if isinstance(result, Value) else result
            bound = {
                index: self._bind(context, tensors[index], value)
                for index, value in zip(operator.outputs, values, strict=False)
            }
        except (Unmapped, NnapiError, *_DAMAGED) as error:
            self._problem(operator.name, operator.index, error)
            self._lost.update(operator.outputs)
            return
        self._values.update(bound)
        self._values.update(context.updates)

    def _bind(self, c: Context, tensor: Tensor, value: Value) -> Value:
        """The value of an output, in the quantisation that the file declares, checked against its shape."""
        if tensor.index in self._values or tensor.data is not None:
            raise Unmapped(f"its output {tensor} has a value already")
        declared = operand_type(tensor)
        if value.code is not declared.code or (
            value.code in QUANT8_CODES and not same_quantisation(value.type, declared)
        ):
            value = c.quantized(value, declared)
        if value.code is not declared.code:
            raise Unmapped(f"its output {tensor} is declared {declared.code.name}, its inputs give {value.type}")
        if tensor.is_static and value.shape != declared.dimensions:
            raise Unmapped(f"its output {tensor} is declared {list(tensor.shape)}, its inputs give {list(value.shape)}")
        return value

    # --- tensors -------------------------------------------------------------------------------------------------

    def _input(self, tensor: Tensor) -> Value:
        if tensor.index in self._values:
            raise Unmapped(f"{tensor} is an input twice")
        if tensor.data is not None:
            raise Unmapped(f"{tensor} is an input and a constant")
        type_ = operand_type(tensor)
        if not type_.is_fully_specified:
            raise Unmapped(f"{tensor} is an input of shape {list(tensor.shape)}, without elements")
        self._values[tensor.index] = self._graph.input(type_)
        return self._values[tensor.index]

    def _value(self, tensor: Tensor) -> Value:
        """The value that an operator reads."""
        index = tensor.index
        if index not in self._values:
            self._values[index] = self._first_value(tensor)
        return self._values[index]

    def _first_value(self, tensor: Tensor) -> Value:
        type_ = operand_type(tensor)
        if tensor.is_variable and tensor.data is None:
            value = self._states[tensor.index] = self._graph.input(type_)
            return value
        if tensor.data is None and tensor.elements:
            raise Unmapped(f"{tensor} is read before an operator writes it")
        array = constant(tensor if tensor.data is not None else replace(tensor, data=_NOTHING))
        return Value(type_.with_dimensions(array.shape), array)

    def _attempt(self, tensor: Tensor, get: Callable[[Tensor], Value]) -> Value | None:
        """An input or output of the subgraph; a failure becomes a problem."""
        if tensor.index in self._lost:
            return None
        try:
            return get(tensor)
        except (Unmapped, NnapiError, *_DAMAGED) as error:
            what = "input" if get == self._input else "output"
            self._problem(what, tensor.index, error)
            self._lost.add(tensor.index)
            return None

    def _problem(self, name: str, index: int, error: Exception) -> None:
        if isinstance(error, Unmapped):
            reason = str(error)
        elif isinstance(error, NnapiError):
            reason = error.reason
        else:
            reason = f"its options or shapes make no sense ({error})"
        self._owner.problems.append(Problem(name, index, reason, self._subgraph.index))
