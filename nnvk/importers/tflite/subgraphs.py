"""From a file's subgraphs to finished models: reads tensors, calls the mappers, gathers what can't be mapped."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from nnvk.api import Model
from nnvk.base.errors import NnapiError
from nnvk.base.extents import identity
from nnvk.base.text import printable
from nnvk.importers.budget import PART_COST, Budget
from nnvk.importers.decompositions.int64 import Number, Words, low, narrowed, together
from nnvk.importers.dynamic_extents import DynamicExtent, cut
from nnvk.importers.emitter import Emitter, same_quantisation
from nnvk.importers.errors import NAME_SHOWN, NotConstant, OverBudget, Problem, Unmapped
from nnvk.importers.graph_builder import Graph, Source, Value, at_least_1d
from nnvk.importers.metadata import Metadata
from nnvk.importers.ports import COMPLEX, ImportedModel, Signature, Signatures, State
from nnvk.importers.recovery import Damage, Recovery
from nnvk.importers.shapes import Shapes, wanted_shapes
from nnvk.importers.tflite import extent_rules, int64, offset_levels
from nnvk.importers.tflite import mappers as mappers  # registers them
from nnvk.importers.tflite.by_function import by_function
from nnvk.importers.tflite.context import Context
from nnvk.importers.tflite.errors import Malformed, TfliteImportError
from nnvk.importers.tflite.finished import Finished, is_alike, port
from nnvk.importers.tflite.mappers.spectral import ON_COMPLEX
from nnvk.importers.tflite.metadata import read_metadata
from nnvk.importers.tflite.operands import PAIRS, UNSIGNED, constant, operand_type
from nnvk.importers.tflite.registry import Mapper, find, look_among_contributed
from nnvk.importers.tflite.resizing import resized
from nnvk.importers.tflite.schema import Operator, SignatureDef, Subgraph, Tensor
from nnvk.importers.tflite.variables import Kept, Variables
from nnvk.importers.user_functions import is_function
from nnvk.types.codes import OperandCode
from nnvk.types.operand import QUANTISED_CODES, Shape

_MAX_DEPTH = 16
"""How deep subgraphs may be nested."""
_DAMAGE = Damage(
    (struct.error, IndexError, KeyError, ValueError, TypeError, ArithmeticError, AttributeError),
    lambda error: f"its options or shapes make no sense ({error})",
)
_COUNTS = frozenset({"INT32", "INT64"})
"""Types of tensors that may be indexes, axes or shapes, of which many operators need to know the numbers."""
_NOTHING = np.zeros(0, np.uint8)
_MOVING_BITS = frozenset(
    [
        *("CONCATENATION", "EXPAND_DIMS", "PACK", "PAD", "RESHAPE", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE"),
        *("STRIDED_SLICE", "TRANSPOSE", "UNPACK"),
    ]
)
"""Operators that take UINT32: their outputs only have elements of their inputs, and zeros."""
"""The bytes of a constant without elements, which has no buffer."""


class Subgraphs(Protocol):
    """Where subgraphs come from, and what is said of them."""

    data: bytes
    description: str
    metadata: bytes | None
    signatures: list[SignatureDef]

    def subgraph(self, index: int) -> Subgraph:
        """A subgraph by its index."""


@dataclass(slots=True, eq=False)
class Import:
    """One import: subgraphs are imported once for each set of shapes, however often control flow refers to them."""

    file: Subgraphs
    name: str
    budget: Budget
    shapes: Shapes
    round_hybrid: bool
    relaxed: bool
    problems: list[Problem] = field(default_factory=list)
    finished: dict[tuple[int, Any], Finished | None] = field(default_factory=dict)
    under_way: list[int] = field(default_factory=list)
    missing: dict[int, tuple[Sequence[str], Collection[int]]] = field(default_factory=dict)
    """The names of inputs that must be known, and the operators that wait for others, by subgraph."""

    def run(self) -> ImportedModel:
        """Import the main subgraph."""
        metadata = Metadata()
        if self.file.metadata is not None:
            metadata = read_metadata(self.file.metadata, self.file.data)
        main = self.imported(0)
        found = {definition.key: definition for definition in self.file.signatures}

        def make(key: str) -> Signature:
            try:
                return self.signature(found[key], main)
            except Malformed as error:
                raise TfliteImportError(error.what, self.name, detail=str(error)) from error

        return replace(main, metadata=metadata, signatures=Signatures(tuple(found), make))

    def imported(self, index: int) -> ImportedModel:
        """A subgraph as a model of its own."""
        subgraph, before = self.file.subgraph(index), len(self.problems)
        wanted = self.shapes
        if index:  # the shapes are the first subgraph's inputs'; those of signatures may have some of these inputs
            names = {subgraph.tensors[tensor].name for tensor in subgraph.inputs}
            wanted = {name: shape for name, shape in self.shapes.items() if name in names}
        shapes = wanted_shapes([subgraph.tensors[tensor] for tensor in subgraph.inputs], wanted)
        done, is_valid = None, True
        try:
            done = self.subgraph(index, shapes)
        except OverBudget:  # which is among the problems
            is_valid = False
        if done is None:
            problems = self.problems[before:]
            self.finished = {key: one for key, one in self.finished.items() if one}  # to say so again when asked again
            hint = _open_inputs(subgraph) if any(find(problem.operation) for problem in problems) else ""
            unknown, waiting = self.missing.get(index, ((), ()))
            raise TfliteImportError(
                "NNAPI can't express this model", self.name, problems, hint, unknown, waiting, is_valid
            )
        return ImportedModel(
            done.model,
            done.inputs,
            done.outputs,
            done.states,
            self.file.description,
            sources=done.sources,
            tensors=done.tensors,
        )

    def signature(self, definition: SignatureDef, main: ImportedModel) -> Signature:
        """A signature, whose subgraph is ``main``'s or imported now."""
        subgraph = self.file.subgraph(definition.subgraph)
        places = []
        for what, named, indexes in (
            ("input", definition.inputs, subgraph.inputs),
            ("output", definition.outputs, subgraph.outputs),
        ):
            if any(index not in indexes for index in named.values()) or (what == "input" and len(named) < len(indexes)):
                raise Malformed(f"the {what}s of signature {definition.key!r} are not those of its subgraph")
            places.append({name: indexes.index(index) for name, index in named.items()})
        imported = self.imported(definition.subgraph) if definition.subgraph else main
        return Signature(definition.key, imported, *places)

    def subgraph(self, index: int, shapes: Sequence[Shape]) -> Finished | None:
        """A subgraph's model with inputs of these shapes; None where operators of it could not be mapped."""
        key = index, identity(tuple(shapes))
        if key not in self.finished:
            with self._inside(index):
                self.finished[key] = Builder(self, resized(self.file.subgraph(index), shapes)).build()
        return self.finished[key]

    def initial(self, index: int) -> Mapping[str, Value]:
        """The values that a subgraph assigns to variables, constants all of them."""
        with self._inside(index):
            return Builder(self, self.file.subgraph(index)).assigned()

    @contextmanager
    def _inside(self, index: int) -> Iterator[None]:
        """While a subgraph is imported."""
        if index in self.under_way:
            raise Malformed(f"subgraph {index} contains itself")
        if len(self.under_way) >= _MAX_DEPTH:
            raise Malformed(f"subgraphs are nested more than {_MAX_DEPTH} deep")
        self.under_way.append(index)
        try:
            yield
        finally:
            self.under_way.pop()

    def branch(self, index: int, inputs: Sequence[Value]) -> Model:
        """The model of a subgraph that control flow refers to, and gives these inputs."""
        subgraph = self.file.subgraph(index)
        shapes = [subgraph.tensors[tensor].shape for tensor in subgraph.inputs]
        if self.shapes and len(shapes) == len(inputs):
            shapes = [value.shape for value in inputs]
        finished = self.subgraph(index, shapes)
        if finished is None:
            raise Unmapped(f"subgraph {index} has operators that can't be mapped")
        if finished.states or finished.has_variables:
            raise Unmapped(f"subgraph {index} has variables, which NNAPI's control flow does not carry")
        return finished.model

    def inlined(self, graph: Graph, index: int, inputs: Sequence[Value]) -> Sequence[Value]:
        """The outputs of a subgraph whose operators are added to ``graph``, with these values as its inputs."""
        subgraph = self.file.subgraph(index)
        if len(inputs) != len(subgraph.inputs):
            raise Unmapped(f"subgraph {index} has {len(subgraph.inputs)} inputs, got {len(inputs)}")
        if self.shapes:
            subgraph = resized(subgraph, [value.shape for value in inputs])
        with self._inside(index):
            return Builder(self, subgraph, graph).inlined(inputs)


def _open_inputs(subgraph: Subgraph) -> str:
    """A hint on what ``load`` could be told about the inputs, for operators that could be mapped in other shapes."""
    tensors = (subgraph.tensors[index] for index in subgraph.inputs)
    return "; ".join(
        f"'{printable(tensor.name, NAME_SHOWN)}' of shape {list(tensor.signature)} is taken as {list(tensor.shape)}, "
        "--shape or load(..., shapes=...) gives others"
        for tensor in tensors
        if -1 in tensor.signature
    )


def _is_wide(value: Value) -> bool:
    return value.code is OperandCode.TENSOR_QUANT16_SYMM


_BIASES = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
"""Where operators have a bias. One of INT64 is no operand but its words: `Context.wide`."""


class Builder(Recovery[Operator, int]):
    """Builds the model of one subgraph."""

    def __init__(self, owner: Import, subgraph: Subgraph, graph: Graph | None = None) -> None:
        super().__init__(owner.problems, _DAMAGE, owner.budget, subgraph.index)
        self._owner = owner
        self.subgraph = subgraph
        self._graph = graph or Graph(owner.budget, owner.relaxed)
        self._is_part = graph is not None
        self._writers = {index: operator for operator in subgraph.operators for index in operator.outputs}
        self.values: dict[int, Value] = {}
        self.words: dict[int, Words] = {}
        """Tensors of INT64 whose numbers may need 64 bits, which are not among ``values``."""
        self._inputs: dict[int, Value] = {}
        self.extents: dict[int, DynamicExtent] = {}
        """Dynamic extents of tensors."""
        self._cuts: dict[int, Value] = {}
        """The valid elements of those that are outputs."""
        self.states: dict[int, Value] = {}
        """Values of variable tensors before the execution."""
        self._variables = Variables(self._graph, owner.budget, owner.initial)
        self.mapped: set[int] = set()
        """Operators that could be mapped."""
        self._unknown: set[int] = set()
        """Inputs whose elements operators must know."""

    def build(self) -> Finished | None:
        """The finished model; None where operators could not be mapped."""
        subgraph, before = self.subgraph, len(self.problems)
        self.require("input", subgraph.inputs)
        self.require("output", subgraph.outputs)
        self.add_inputs()
        self.map_operators()
        self._graph.source = None
        for position in range(len(subgraph.outputs)):
            self._edge("output", position)
        for name, kept in self._variables.kept.items():
            after = self._variables.values[name]
            if not is_alike(kept.before, after):
                what = f"variable '{printable(name, NAME_SHOWN)}' of {kept.before.type} is assigned {after.type}"
                self.problem("ASSIGN_VARIABLE", self._variables.assigned[name], Unmapped(what))
        if len(self.problems) > before:
            unknown = [subgraph.tensors[index].name for index in subgraph.inputs if index in self._unknown]
            waiting = () if self._has_states else self.waiting_operators(self.problems[before:])
            self._owner.missing[subgraph.index] = unknown, waiting
            return None
        results = [(subgraph.tensors[index], *self._result(subgraph.tensors[index])) for index in subgraph.outputs]
        states = self._all_states()
        try:
            names = [
                *(subgraph.tensors[index].name for index in subgraph.inputs),
                *(kept.tensor.name for kept, _ in states),
            ]
            values = [value for _, value, _ in results] + [value for _, value in states]
            model = self._graph.finish(values, names)
        except (NnapiError, Unmapped) as error:
            self.problem("output", 0, error)
            return None
        return Finished(
            model,
            tuple(port(subgraph.tensors[index], self._inputs[index]) for index in subgraph.inputs),
            tuple(port(*result) for result in results),
            tuple(
                State(port(kept.tensor, kept.before), port(kept.tensor, value), kept.initial) for kept, value in states
            ),
            bool(self._variables.values),
            self._graph.sources(model),
            {index: place for index, value in self.values.items() if (place := self._graph.place(value)) is not None},
        )

    def keeps_state(self, operator: Operator) -> bool:
        """Whether an operator has a state of its own, which is no tensor of the file."""
        return operator.index in self._variables.keepers

    def expose(self, operator: Operator) -> None:
        """Make what an operator gives ready to be outputs of the model; `Unmapped` where it can't be."""
        for index in operator.outputs:
            if index in self.values:
                self._graph.expose(self.values[index])

    def assigned(self) -> Mapping[str, Value]:
        """The values of variables behind all operators, which must be constants: else `Unmapped`."""
        index, before = self.subgraph.index, len(self.problems)
        for operator in self.subgraph.operators:
            self._attempt(operator)
        if len(self.problems) > before:
            raise Unmapped(f"subgraph {index} has operators that can't be mapped")
        for name, value in self._variables.values.items():
            if not value.is_constant:
                raise Unmapped(f"subgraph {index} gives variable '{printable(name, NAME_SHOWN)}' no constant")
        return self._variables.values

    def inlined(self, inputs: Sequence[Value]) -> Sequence[Value]:
        """The values of the outputs where these are the inputs: else `Unmapped`."""
        subgraph, before = self.subgraph, len(self.problems)
        for index, value in zip(subgraph.inputs, inputs, strict=True):
            declared = operand_type(subgraph.tensors[index])
            if value.code is not declared.code:
                raise Unmapped(f"{subgraph.tensors[index]} of subgraph {subgraph.index} is given {value.type}")
            self.values[index] = value
        # Subgraphs that refer to each other many times over are counted out, whatever their operators add.
        self._owner.budget.charge(PART_COST * (1 + len(subgraph.operators)))
        self.map_operators()
        if len(self.problems) > before:
            raise Unmapped(f"subgraph {subgraph.index} has operators that can't be mapped")
        if self.states or self._variables.values:
            raise Unmapped(f"subgraph {subgraph.index} has variables")
        if not self.extents.keys().isdisjoint(subgraph.outputs):
            raise Unmapped(f"data decide the size of an output of subgraph {subgraph.index}")
        return [self._value(subgraph.tensors[index]) for index in subgraph.outputs]

    def _all_states(self) -> list[tuple[Kept, Value]]:
        """Variable tensors and variables: the value before the execution, and the one after."""
        states = []
        for index, before in self.states.items():
            type_ = before.type
            initial = np.full(type_.dimensions, type_.zero_point, type_.dtype)
            tensor = self.subgraph.tensors[index]
            states.append((Kept(tensor, before, initial), self._value(tensor)))
        for name, kept in self._variables.kept.items():
            named = replace(kept, tensor=replace(kept.tensor, name=name))
            states.append((named, self._variables.values[name]))
        return states

    def add_inputs(self) -> None:
        """Make the inputs of the model."""
        for position in range(len(self.subgraph.inputs)):
            self._edge("input", position)

    def map_operators(self) -> None:
        """Map all operators."""
        for operator in self.subgraph.operators:
            self._attempt(operator)

    # --- operators -----------------------------------------------------------------------------------------------

    def _attempt(self, operator: Operator) -> None:
        named = self.subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
        if not self._is_part:  # the operations belong to the operator that refers to the subgraph
            self._graph.source = Source(operator.index, operator.name, named)
        self.try_to_map(operator)

    def describe(self, operator: Operator) -> tuple[str, int, str]:
        """Operators of TFLite have no names."""
        return operator.name, operator.index, ""

    def tensors_of(self, operator: Operator) -> tuple[Sequence[int], Sequence[int]]:
        """The indexes of the inputs and outputs."""
        return [index for index in operator.inputs if index >= 0], operator.outputs

    def look_up(self, operator: Operator) -> Mapper:
        """The mapper of an operator; one of complex numbers has its own."""
        if all(self.subgraph.tensors[index].type != COMPLEX for index in self.tensors_of(operator)[0]):
            if operator.is_custom:
                look_among_contributed(operator.name)
            mapper = by_function if is_function(operator.name) else find(operator.name)
        elif operator.name in ON_COMPLEX:
            mapper = ON_COMPLEX[operator.name]
        else:
            raise Unmapped("there is nothing in NNAPI that does this with complex numbers")
        if mapper is None:
            kind = "custom operator" if operator.is_custom else "operator"
            raise Unmapped(f"NNAPI has no counterpart of this {kind}")
        for index in (*self.tensors_of(operator)[0], *operator.outputs):
            tensor = self.subgraph.tensors[index]
            if tensor.type in UNSIGNED and not (
                mapper is by_function or (tensor.type == "UINT32" and operator.name in _MOVING_BITS)
            ):
                raise Unmapped(f"{tensor} is of type {tensor.type}, which NNAPI does not have")
        if len(set(operator.outputs)) < len(operator.outputs):
            raise Unmapped("a tensor is its output twice")
        return mapper

    @property
    def _has_states(self) -> bool:
        """Whether operators keep something from one execution to the next, so that they are not apart."""
        keep = any(tensor.is_variable or tensor.type == "RESOURCE" for tensor in self.subgraph.tensors)
        return keep or bool(self._variables.keepers)

    def map(self, operator: Operator) -> None:
        """Map an operator, and remember which tensors had to be known."""
        try:
            self._map(operator)
        except OverBudget:
            raise
        except NotConstant as error:
            needed = error.tensors or self._whole_numbers(operator)
            self._unknown.update(needed.intersection(self.subgraph.inputs))
            self.waits(operator, needed)
            raise
        except Unmapped:
            self.waits(operator, self.extents.keys() & set(operator.inputs))
            raise

    def _whole_numbers(self, operator: Operator) -> frozenset[int]:
        """The inputs of an operator that may be parameters, and that are not known."""
        known = {index for index, value in self.values.items() if value.is_constant}
        numbers = {index for index in operator.inputs if index >= 0 and self.may_be_parameter(index)}
        return frozenset(numbers - known)

    def _map(self, operator: Operator) -> None:
        """Map an operator, and bind its outputs."""
        tensors, mapper = self.subgraph.tensors, self.look_up(operator)
        wide_bias = _BIASES.get(operator.name)
        is_tensor = [
            index >= 0
            and tensors[index].type != "RESOURCE"
            and not (position == wide_bias and tensors[index].type == "INT64")
            for position, index in enumerate(operator.inputs)
        ]
        inputs = [
            offset_levels.read(Emitter(self._graph), tensors[index], self._value(tensors[index])) if there else None
            for index, there in zip(operator.inputs, is_tensor, strict=True)
        ]
        context, values = self._mapped(operator, mapper, inputs)
        bound: dict[int, Value] = {}
        words: dict[int, Words] = {}
        for index, number in zip(operator.outputs, values, strict=False):
            if isinstance(number, Words):
                words[index] = self._bind_words(tensors[index], number)
            else:
                bound[index] = self._bind(context, tensors[index], number)
        for position, index in enumerate(operator.outputs[: len(values)]):
            if (known := extent_rules.passed_on(context, position, low(values[position]))) is not None:
                self.extents[index] = known
        self.values.update(bound)
        self.words.update(words)
        self.values.update(context.updates)
        self.mapped.add(operator.index)

    def _mapped(
        self, operator: Operator, mapper: Mapper, inputs: Sequence[Value | None], *, is_real: bool = False
    ) -> tuple[Context, Sequence[Number]]:
        """The outputs of an operator; those of INT16 that can't be computed in integers are so as real numbers."""
        context = Context(
            self._graph,
            operator,
            inputs,
            self.subgraph.tensors,
            self._owner.branch,
            lambda index, values: self._owner.inlined(self._graph, index, values),
            self._owner.round_hybrid and not is_real,  # these are not what hybrid kernels round
            self._writers,
            self._variables,
            [self.extents.get(index) for index in operator.inputs],
            [self.words.get(index) for index in operator.inputs],
            is_real=is_real,
        )
        if mapper is by_function:
            return context, by_function(context)
        extent_rules.check(context)
        try:
            result = int64.mapped(context, mapper)
        except Unmapped:
            real = [context.real(value) if value is not None and _is_wide(value) else value for value in inputs]
            if real == list(inputs):
                raise
            return self._mapped(operator, mapper, real, is_real=True)
        return context, [result] if isinstance(result, Value | Words) else result

    def may_be_parameter(self, tensor: int) -> bool:
        """INT32 and INT64 are the types of indexes, axes and shapes."""
        return self.subgraph.tensors[tensor].type in _COUNTS

    def has_stand_in(self, tensor: int) -> bool:
        """One is made of the declared type and shape."""
        if tensor not in self.values:
            declared = self.subgraph.tensors[tensor]
            if not declared.is_static:
                return False
            try:
                type_ = operand_type(declared)
            except (Unmapped, NnapiError):
                return False
            if not type_.is_fully_specified:
                return False
            self.values[tensor] = self._graph.input(type_)
        return True

    def _bind_words(self, tensor: Tensor, words: Words) -> Words:
        """The numbers of 64 bits of an output, checked against what the file declares."""
        if tensor.index in self.values or tensor.index in self.words or tensor.data is not None:
            raise Unmapped(f"its output {tensor} has a value already")
        if tensor.type != "INT64":
            raise Unmapped(f"its output {tensor} is declared {tensor.type}, its inputs give INT64")
        if tensor.is_static and words.shape != at_least_1d(tensor.shape):
            raise Unmapped(f"its output {tensor} is declared {list(tensor.shape)}, its inputs give {list(words.shape)}")
        return words

    def _bind(self, c: Context, tensor: Tensor, value: Value) -> Value:
        """The value of an output, in the quantisation that the file declares, checked against its shape."""
        if tensor.index in self.values or tensor.index in self.words or tensor.data is not None:
            raise Unmapped(f"its output {tensor} has a value already")
        declared, value = operand_type(tensor), offset_levels.written(c, tensor, value)
        if value.code is not declared.code or (
            value.code in QUANTISED_CODES and not same_quantisation(value.type, declared)
        ):
            value = c.quantized(value, declared)
        if value.code is not declared.code:
            raise Unmapped(f"its output {tensor} is declared {declared.code.name}, its inputs give {value.type}")
        if tensor.type in PAIRS and value.shape[-1] != 2:
            raise Unmapped(f"its output {tensor} is declared {tensor.type}, its inputs give {value.type}")
        if tensor.is_static and value.shape != declared.dimensions:
            raise Unmapped(f"its output {tensor} is declared {list(tensor.shape)}, its inputs give {list(value.shape)}")
        return value

    # --- tensors -------------------------------------------------------------------------------------------------

    def add_input(self, tensor: Tensor) -> None:
        """Make an input of the model of a tensor. `Unmapped` where there can't be one."""
        if tensor.index in self.values:
            raise Unmapped(f"{tensor} is an input twice")
        if tensor.data is not None:
            raise Unmapped(f"{tensor} is an input and a constant")
        type_ = operand_type(tensor)
        if not type_.is_fully_specified:
            raise Unmapped(f"{tensor} is an input of shape {list(tensor.shape)}, without elements")
        if len(self._owner.under_way) <= 1:  # no branch or body
            self._owner.budget.admit(type_.size)
        self.values[tensor.index] = self._inputs[tensor.index] = self._graph.input(type_)

    def _value(self, tensor: Tensor) -> Value:
        """The value that an operator reads; numbers of 64 bits are checked to fit into 32 when the model runs."""
        index = tensor.index
        if index in self.words:
            return narrowed(Emitter(self._graph), self.words[index])
        if index not in self.values:
            self.values[index] = self._first_value(tensor)
        return self.values[index]

    def _first_value(self, tensor: Tensor) -> Value:
        type_ = operand_type(tensor)
        if tensor.is_variable and tensor.data is None:
            self._owner.budget.charge(type_.size)  # who executes the model keeps it
            value = self.states[tensor.index] = self._graph.input(type_)
            return value
        if tensor.data is None and tensor.elements:
            raise Unmapped(f"{tensor} is read before an operator writes it")
        self._owner.budget.charge(type_.size)
        array = constant(tensor if tensor.data is not None else replace(tensor, data=_NOTHING))
        return Value(type_.with_dimensions(array.shape), array)

    def _edge(self, what: str, position: int) -> None:
        """Make an input or look at an output of the subgraph; a failure becomes a problem."""
        indexes = self.subgraph.inputs if what == "input" else self.subgraph.outputs
        tensor = self.subgraph.tensors[indexes[position]]
        if tensor.index in self.lost:
            return
        with self.guarded(what, position, tensor.index):
            if what == "input":
                self.add_input(tensor)
            elif (known := self.extents.get(tensor.index)) is not None:
                self._cuts[tensor.index] = self._cut(self._value(tensor), known)
            else:
                self._value(tensor)

    def _result(self, tensor: Tensor) -> tuple[Value, bool]:
        """An output of the subgraph, and whether it has both words of numbers, as only that of a whole model may."""
        if tensor.index in self._cuts:
            return self._cuts[tensor.index], False
        if tensor.index in self.words and len(self._owner.under_way) <= 1:
            return together(Emitter(self._graph), self.words[tensor.index]), True
        return self._value(tensor), False

    def _cut(self, value: Value, known: DynamicExtent) -> Value:
        """The valid elements of an output with a dynamic extent."""
        if len(self._owner.under_way) > 1:
            raise Unmapped("data decide its size, and NNAPI's control flow has to know it beforehand")
        return value.once("cut", lambda: cut(Emitter(self._graph), value, known))
