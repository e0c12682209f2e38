"""A graph of NNAPI operations under construction: shapes inferred, constants folded, dead operations dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from nnvk.api import Model
from nnvk.base.errors import NnapiError
from nnvk.base.extents import has_extents, hint, is_extent, is_open, once, tracing
from nnvk.base.sizes import whole_numbers
from nnvk.importers import bounds
from nnvk.importers.bounds import Bounds
from nnvk.importers.budget import PART_COST, SCALE_COST, Budget
from nnvk.importers.errors import NotConstant, Unmapped
from nnvk.ops import registry
from nnvk.ops.call import Call
from nnvk.types.codes import ExtensionCode, OperandCode, OperationCode
from nnvk.types.constant import (
    Constant,
    DeferredConstant,
    OpenConstant,
    QuantisedConstant,
    converted,
    elements,
    origin,
    reshaped,
)
from nnvk.types.extension import AnyCode, ExtendedOperationCode, KnownCode
from nnvk.types.model import Lifetime, Operand, Operation
from nnvk.types.operand import OperandType, Shape

Op = OperationCode
Extended = ExtendedOperationCode

_WIDE: Mapping[KnownCode, KnownCode] = {
    Op.ADD: Extended.ADD_INT64,
    Op.SUB: Extended.SUB_INT64,
    Op.MUL: Extended.MUL_INT64,
}
_F32 = OperandType(OperandCode.TENSOR_FLOAT32)
MAX_RANK = 4
"""The largest rank of most NNAPI operations."""
SMALL = 1 << 14
"""The most bytes of a constant that is computed at once. Such constants take little memory, and importers read them."""
_MAX_FOLDED = 1 << 22
"""The most elements of an operation's outputs that are computed at import."""


class MaybeConstant:
    """A tensor whose elements may be known at import."""

    __slots__ = ()
    constant: Constant | None

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.constant is not None

    @property
    def array(self) -> np.ndarray:
        """The elements of a constant, which are made if they are deferred."""
        assert self.constant is not None
        return elements(self.constant)

    @property
    def known_array(self) -> np.ndarray | None:
        """`array`; None where the elements are not known."""
        return self.array if self.is_constant else None


@dataclass(slots=True, eq=False)
class Value(MaybeConstant):
    """The output of an operation, or a constant. ``type`` has all dimensions."""

    type: OperandType
    constant: Constant | None = None
    """The elements of a constant, which may be deferred."""
    index: int = -1
    """The operand in the graph; -1 for a constant or another shape that no operation has used so far."""
    origin: Value | None = None
    """The tensor that this one is another shape of."""
    memo: dict[Any, tuple[Any, Value]] = field(default_factory=dict)
    """Values that were derived from this one, so that each is derived only once."""
    known: Bounds | None = None
    """The bounds of TENSOR_INT32 elements, if more is known than the type's range."""

    @property
    def bounds(self) -> Bounds:
        """Between which numbers the elements lie, of whole numbers."""
        if self.known is None:
            if isinstance(self.constant, OpenConstant) and self.constant.bounds is not None:
                self.known = self.constant.bounds
            elif self.is_constant:
                self.known = bounds.of_array(self.array)
            else:
                self.known = bounds.INT32 if self.origin is None else self.origin.bounds
        return self.known

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value that ``make`` gave when it was first called for ``key``."""
        return once(self.memo, key, make)

    @property
    def shape(self) -> Shape:
        """All dimensions."""
        return self.type.dimensions

    @property
    def code(self) -> OperandCode:
        """The operand code."""
        return self.type.code

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Source:
    """The operator of a file that an operation comes from: a layer."""

    number: int
    """Its position in the file."""
    operator: str
    """The operator's kind."""
    name: str
    """Its own name, or that of the first tensor that it gives."""


Argument = Value | np.ndarray | bool | int | float | Model | None
"""An input of an operation: arrays become constants of TENSOR_INT32, numbers scalars, None an omitted operand."""


class Graph:
    """Collects operations in the order of execution and becomes a finished `Model`."""

    def __init__(self, budget: Budget, relaxed: bool) -> None:
        self.budget = budget
        self._relaxed = relaxed
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._models: dict[int, Model] = {}
        self._inputs: list[int] = []
        self._filled: dict[Any, tuple[Any, Value]] = {}
        self.is_checked = False
        """Whether an execution fails if integers of the added operations leave 32 bits."""
        self.source: Source | None = None
        """The source of operations that are added."""
        self._sources: dict[int, Source | None] = {}
        self._places: dict[int, int] = {}
        """Operands of the finished model by their indexes here."""

    def input(self, type: OperandType, known: Bounds | None = None) -> Value:
        """Add an input of the model, whose whole numbers lie within bounds."""
        edge = Value(type.with_dimensions(edge_shape(type.dimensions)), known=known)
        edge.index = self._add(Operand(edge.type, Lifetime.SUBGRAPH_INPUT))
        self._inputs.append(edge.index)
        return edge if edge.shape == type.dimensions else Value(type, origin=edge)

    def constant(self, type: OperandType, make: Callable[[], np.ndarray]) -> Value:
        """A constant of a type with all its dimensions; ``make`` gives the elements once there is room for them."""
        self.budget.check(type.size)
        array = np.ascontiguousarray(make(), type.dtype).reshape(type.dimensions)
        self.budget.hold(array)
        return Value(type, array)

    def deferred(self, type: OperandType, make: Callable[[], np.ndarray]) -> Value:
        """A constant of a type with all its dimensions whose elements ``make`` gives whenever somebody looks at them.

        ``make`` must not fail, and keeps what the elements are made from. Small constants are made at once.
        """
        return self.kept(type, DeferredConstant(type.dimensions, type.dtype, make))

    def computed(self, type: OperandType, function: Callable[..., np.ndarray], source: Constant) -> Value:
        """A constant of a type with all its dimensions, which a function makes of a constant and of the dimensions."""
        if isinstance(source, OpenConstant) or has_extents(type.dimensions):
            made = OpenConstant.made(type.dimensions, type.dtype, function, source, type.dimensions)
            if isinstance(source, np.ndarray) and source.dtype.kind in "iu":
                made.bounds = bounds.of_array(source)
            return Value(type, made)
        return self.deferred(type, lambda: function(elements(source), type.dimensions))

    def kept(self, type: OperandType, constant: Constant) -> Value:
        """A constant of a type with all its dimensions. If it is large, nothing is copied now."""
        if isinstance(constant, OpenConstant):
            return Value(type, constant)
        is_small = type.size < SMALL
        if is_small or (
            isinstance(constant, np.ndarray) and constant.flags.c_contiguous and constant.dtype == type.dtype
        ):
            return self.constant(type, lambda: elements(constant))
        self.budget.charge(type.size)
        if tracing() and (has_extents(type.dimensions) or not _is_of_memory(constant)):
            elements(constant)  # what needs the sizes themselves must do so now
        if isinstance(constant, DeferredConstant) and constant.dtype == type.dtype:
            return Value(type, constant)
        return Value(type, converted(constant, type.dimensions, type.dtype))

    def filled(self, number: np.ndarray, type: OperandType) -> Value:
        """The constant of one element everywhere, of which there is one for each number and type."""
        number = np.array(number, type.dtype)  # which is all that a large one keeps
        return once(self._filled, (number.tobytes(), type), lambda: self._repeated(number, type))

    def _repeated(self, number: np.ndarray, type: OperandType) -> Value:
        if has_extents(type.dimensions):
            return self.computed(type, np.broadcast_to, number)
        if type.size < SMALL:
            return self.constant(type, lambda: np.full(type.dimensions, number))
        repeat = DeferredConstant(type.dimensions, type.dtype, lambda: np.broadcast_to(number, type.dimensions))
        return Value(type, repeat)

    def emit(
        self,
        code: KnownCode,
        inputs: Sequence[Argument],
        types: Sequence[OperandType],
        *,
        declared: Sequence[Shape] | None = None,
        fold: bool = True,
        open_: bool = False,
    ) -> list[Value]:
        """Add an operation and return its outputs, of ``types`` with the dimensions that inference gives.

        ``declared`` are the dimensions to believe in where inference needs values known only when the model
        runs; with ``open_``, a 0 in them is a size that even then depends on data, as in NNAPI. Constants give
        constants (``fold``). `Unmapped` where the operation does not take these operands.
        """
        if self.is_checked and types[0].code is OperandCode.TENSOR_INT32:
            wide = self._wide(code, inputs)
            if wide:
                return self.emit(Extended.INT64_TO_INT32, wide, types)
        reals = OperandCode.FLOAT16 if _is_half(inputs) else OperandCode.FLOAT32
        operands = [_operand(argument, reals) for argument in inputs]
        results = [Operand(type_, Lifetime.TEMPORARY_VARIABLE) for type_ in types]
        code = registry.fitting(code, [operand.type for operand in (*operands, *results)])
        call, types = _inferred(code, operands, results, declared, open_)
        if (
            fold
            and registry.lookup(call.code).traits.foldable
            and all(operand.constant is not None for operand in operands if operand.type.is_tensor)
        ):
            folded = self._fold(call, operands, types)
            if folded is not None:
                return folded
        values = self._append(code, inputs, operands, types)
        _bound(call.code, inputs, operands, values)
        return values

    def call(self, code: ExtensionCode, inputs: Sequence[Value], types: Sequence[OperandType]) -> list[Value]:
        """Add an operation that only its driver knows and return its outputs, of ``types`` with their dimensions."""
        return self._append(code, inputs, [_operand(value, OperandCode.FLOAT32) for value in inputs], types)

    def copy(self, value: Value) -> Value:
        """The same elements, written by an operation: what an output of the model must be."""
        if value.is_constant and not value.size:
            raise Unmapped(f"an output of shape {list(value.shape)} has no elements")
        if 0 in value.shape:
            raise Unmapped("a tensor whose size data decide is an output twice")
        if value.code is OperandCode.TENSOR_BOOL8:
            return self.emit(Op.LOGICAL_OR, [value, value], [value.type], fold=False)[0]
        shape = whole_numbers(value.shape, np.int32)
        return self.emit(Op.RESHAPE, [value, shape], [value.type], fold=False)[0]

    def expose(self, value: Value) -> None:
        """Add what it takes to make a value an output of the model; `Unmapped` where it can't be one."""
        self._materialize(self.edge(value))

    def edge(self, value: Value) -> Value:
        """The value as an input or output of a model has it, of rank `MAX_RANK` at most."""
        shape = edge_shape(value.shape)
        return value if shape == value.shape else self.reshape(value, shape)

    def reshape(self, value: Value, shape: Shape) -> Value:
        """The same elements in another shape; the operation is added with the first use."""
        if shape == value.shape:
            return value
        type_ = value.type.with_dimensions(shape)
        if (constant := value.constant) is not None:
            return value.once(shape, lambda: Value(type_, reshaped(constant, shape)))
        source = value.origin or value
        return source if source.shape == shape else source.once(shape, lambda: Value(type_, origin=source))

    def finish(self, outputs: Sequence[Value], names: Sequence[str]) -> Model:
        """The finished model with these outputs and names of inputs, without the operations that they don't need.

        Raises `OverBudget` if its activations take too much memory at once.
        """
        outputs = [self.edge(value) for value in outputs]
        for value in outputs:
            self.expose(value)
        self.budget.check_sizes()
        written = {index for operation in self._operations for index in operation.outputs}
        results: dict[int, None] = {}
        for value in outputs:
            if value.index not in written or value.index in results:
                value = self.copy(value)
            results[value.index] = None
        live, operations = set(results), []
        held = sum(map(self._activation, results))
        for operation in reversed(self._operations):
            if not live.isdisjoint(operation.outputs):
                read_here = {*operation.inputs, *operation.outputs} - live
                held += sum(map(self._activation, read_here))
                self.budget.check_activations(held)
                held -= sum(map(self._activation, operation.outputs))
                live |= read_here
                operations.append(operation)
        return self._build(sorted(live.union(self._inputs)), operations[::-1], list(results), names)

    def sources(self, model: Model) -> tuple[Source | None, ...]:
        """The source of each operation of the finished model, in the order of execution."""
        by_result = {self._places[index]: source for index, source in self._sources.items() if index in self._places}
        return tuple(by_result.get(operation.outputs[0]) for operation in model.frozen.operations)

    def place(self, value: Value) -> int | None:
        """The operand of the finished model that has a value's elements, if one has."""
        origin = value if value.index >= 0 else value.origin
        return None if origin is None else self._places.get(origin.index)

    # --- internals -----------------------------------------------------------------------------------------------

    def _activation(self, index: int) -> int:
        """The bytes of an operand that an execution computes; 0 for others."""
        operand = self._operands[index]
        return operand.type.size if operand.lifetime is Lifetime.TEMPORARY_VARIABLE else 0

    def _append(
        self, code: AnyCode, inputs: Sequence[Argument], operands: Sequence[Operand], types: Sequence[OperandType]
    ) -> list[Value]:
        """Add an operation on operands and return its outputs."""
        read = [self._place(argument, operand) for argument, operand in zip(inputs, operands, strict=True)]
        values = [Value(type_, index=self._add(Operand(type_, Lifetime.TEMPORARY_VARIABLE))) for type_ in types]
        self.budget.charge(PART_COST)
        self._operations.append(Operation(code, tuple(read), tuple(value.index for value in values)))
        self._sources[values[0].index] = self.source
        return values

    def _wide(self, code: KnownCode, inputs: Sequence[Argument]) -> list[Value]:
        """Both words of an operation's results if 32 bits may not be enough, otherwise nothing."""
        values = [one for one in inputs if isinstance(one, Value)]
        word = OperandType(OperandCode.TENSOR_INT32)
        if code is Op.CAST and values[0].code is OperandCode.TENSOR_FLOAT32:
            return self.emit(Extended.FLOAT_TO_INT64, values, [word, word])
        if code in _WIDE and not bounds.within(bounds.PAIRS[code](values[0].bounds, values[1].bounds), bounds.INT32):
            return self.emit(_WIDE[code], [values[0], None, values[1], None], [word, word])
        if code in bounds.SINGLE and values[0].bounds[0] == bounds.INT32[0]:
            zero = self.filled(np.zeros((), np.int32), word.with_dimensions((1,)))
            negated = self.emit(Extended.SUB_INT64, [zero, None, values[0], None], [word, word])
            if code is Op.NEG:
                return negated
            positive = self.emit(Extended.INT64_TO_INT32, negated, [word])
            return [self.emit(Op.MAXIMUM, [values[0], *positive], [word])[0]]
        return []

    def _add(self, operand: Operand) -> int:
        channels, value = operand.type.channel_quant, operand.constant
        scales = 0 if channels is None else SCALE_COST * len(channels.scales)
        self.budget.charge(PART_COST + scales + (0 if value is None else value.nbytes))
        self._operands.append(operand)
        return len(self._operands) - 1

    def _place(self, argument: Argument, operand: Operand) -> int:
        """The operand of an argument; constants get theirs with their first use."""
        if isinstance(argument, Value):
            self._materialize(argument)
            if argument.index < 0:
                argument.index = self._add(operand)
            return argument.index
        index = self._add(operand)
        if isinstance(argument, Model):
            self._models[index] = argument
        return index

    def _materialize(self, value: Value) -> None:
        """Add the RESHAPE that gives a value its shape, unless it is there already."""
        if value.index < 0 and value.origin is not None:
            is_bool = value.code is OperandCode.TENSOR_BOOL8
            moved = self._as_number(value.origin) if is_bool else value.origin
            moved = self.emit(Op.RESHAPE, [moved, whole_numbers(value.shape, np.int32)], [moved.type])[0]
            if is_bool:
                zero = self.filled(np.array(0, np.float32), _F32.with_dimensions((1,)))
                moved = self.emit(Op.NOT_EQUAL, [moved, zero], [value.type])[0]
            value.index = moved.index

    def _as_number(self, value: Value) -> Value:
        """Cast booleans to 1 and 0, because NNAPI cannot move booleans."""
        ones, zeros = (
            self.filled(np.array(number, np.float32), _F32.with_dimensions(value.shape)) for number in (1, 0)
        )
        return self.emit(Op.SELECT, [value, ones, zeros], [_F32])[0]

    def _fold(self, call: Call, operands: Sequence[Operand], types: Sequence[OperandType]) -> list[Value] | None:
        """The results of the operation's reference on constants; None where they are too large to keep."""
        reference = registry.lookup(call.code).reference
        if any(isinstance(one.constant, OpenConstant) for one in operands):
            return self._fold_later(call.code, operands, types)
        if reference is None or sum(math.prod(type_.dimensions) for type_ in types) > _MAX_FOLDED:
            return None
        self.budget.charge(sum(type_.size for type_ in types))
        with np.errstate(all="ignore"):
            result = reference(call)
        arrays = result if isinstance(result, list) else [result]
        return [
            Value(type_, np.ascontiguousarray(array, type_.dtype)) for array, type_ in zip(arrays, types, strict=True)
        ]

    def _fold_later(
        self, code: KnownCode, operands: Sequence[Operand], types: Sequence[OperandType]
    ) -> list[Value] | None:
        """The one result on constants that depend on sizes, which is computed when these are known."""
        if len(types) != 1:
            return None
        self.budget.charge(types[0].size)
        constants = [one.constant for one in operands]
        plain = [replace(one, constant=None) for one in operands]
        compute = partial(_reference, code, plain, types[0].with_dimensions(()))
        made = OpenConstant.made(types[0].dimensions, types[0].dtype, compute, *constants)
        value = Value(types[0], made)
        _bound(code, [Value(one.type, one.constant) for one in operands], operands, [value])
        made.bounds = value.known
        return [value]

    def _build(
        self, kept: Sequence[int], operations: Sequence[Operation], outputs: Sequence[int], names: Sequence[str]
    ) -> Model:
        model = Model()
        number = self._places
        for index in kept:
            operand = self._operands[index]
            channels = operand.type.channel_quant
            plain = OperandType(operand.type.code, operand.type.dimensions, operand.type.scale, operand.type.zero_point)
            number[index] = model.add_operand(plain)
            if channels is not None:
                model.set_operand_symm_per_channel_quant_params(number[index], channels.channel_dim, channels.scales)
            if index in self._models:
                model.set_operand_value_from_model(number[index], self._models[index])
            elif operand.lifetime in (Lifetime.CONSTANT, Lifetime.NO_VALUE):
                model.set_operand_value(number[index], operand.constant)
        for operation in operations:
            model.add_operation(
                operation.code,
                [number[index] for index in operation.inputs],
                [number[index] for index in operation.outputs],
            )
        model.identify_inputs_and_outputs(
            [number[index] for index in self._inputs], [number[index] for index in outputs]
        )
        model.name_inputs(names)
        model.relax_computation_float32_to_float16(self._relaxed)
        model.finish()
        return model


def _is_of_memory(constant: Constant) -> bool:
    """Whether elements are known to be made of memory alone."""
    return isinstance(constant, QuantisedConstant) or origin(constant) is not None


def at_least_1d(shape: Shape) -> Shape:
    """A shape as NNAPI has it: a single element, of rank 0 elsewhere, is [1]."""
    return shape or (1,)


def edge_shape(shape: Shape) -> Shape:
    """The shape of an input or output: above `MAX_RANK`, leading dimensions are merged."""
    head = len(shape) - MAX_RANK + 1
    return shape if head < 2 else (math.prod(shape[:head]), *shape[head:])


def _is_half(inputs: Sequence[Argument]) -> bool:
    first = next((argument for argument in inputs if isinstance(argument, Value)), None)
    return first is not None and first.code is OperandCode.TENSOR_FLOAT16


def _bound(code: KnownCode, inputs: Sequence[Argument], operands: Sequence[Operand], values: Sequence[Value]) -> None:
    """Note between which numbers results of TENSOR_INT32 lie."""
    if all(value.code is not OperandCode.TENSOR_INT32 for value in values):
        return
    given = [one.bounds if isinstance(one, Value) and one.code is OperandCode.TENSOR_INT32 else None for one in inputs]
    found = bounds.of_results(code, given, [operand.type for operand in operands], len(values))
    for value, one in zip(values, found, strict=True):
        value.known = one if value.code is OperandCode.TENSOR_INT32 else None


def _operand(argument: Argument, reals: OperandCode) -> Operand:
    if isinstance(argument, Value):
        lifetime = Lifetime.TEMPORARY_VARIABLE if argument.constant is None else Lifetime.CONSTANT
        return Operand(argument.type, lifetime, argument.constant)
    if isinstance(argument, Model):
        return Operand(OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=argument.frozen)
    if isinstance(argument, np.ndarray):
        if is_open(argument):
            return Operand(OperandType(OperandCode.TENSOR_INT32, argument.shape), Lifetime.CONSTANT, argument)
        array = argument.astype(np.int32, order="C")
        if not np.array_equal(array, argument):
            raise Unmapped(f"parameters must be whole numbers of 32 bits, got {argument.reshape(-1)[:8].tolist()}")
        return Operand(OperandType(OperandCode.TENSOR_INT32, array.shape), Lifetime.CONSTANT, array)
    if argument is None:
        return Operand(OperandType(OperandCode.TENSOR_FLOAT32), Lifetime.NO_VALUE)
    number = hint(argument)
    code = OperandCode.BOOL if isinstance(number, bool) else OperandCode.INT32 if isinstance(number, int) else reals
    type_ = OperandType(code)
    if is_extent(argument):
        return Operand(type_, Lifetime.CONSTANT, np.array(argument, object))
    with np.errstate(over="ignore"):  # beyond FLOAT16 is infinity
        return Operand(type_, Lifetime.CONSTANT, np.array(argument, type_.dtype))


def _reference(
    code: KnownCode, operands: Sequence[Operand], type_: OperandType, *arrays: np.ndarray | None
) -> np.ndarray:
    """The result of an operation's reference on these elements of its operands."""
    given = []
    for operand, array in zip(operands, arrays, strict=True):
        if array is not None:
            sizes = array.shape if operand.type.is_tensor else ()
            array = np.asarray(array, operand.type.dtype)
            operand = replace(operand, type=operand.type.with_dimensions(sizes), constant=array)
        given.append(operand)
    call, _ = _inferred(code, given, [Operand(type_, Lifetime.TEMPORARY_VARIABLE)], None, False)
    reference = registry.lookup(code).reference
    assert reference is not None
    with np.errstate(all="ignore"):
        return np.asarray(reference(call))


def _inferred(
    code: KnownCode,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    declared: Sequence[Shape] | None,
    open_: bool,
) -> tuple[Call, list[OperandType]]:
    """The operation bound to its operands, and the outputs' types with all dimensions that are known."""
    operands = [*inputs, *(Operand(output.type.with_dimensions(()), output.lifetime) for output in outputs)]
    first = len(inputs)
    operation = Operation(code, tuple(range(first)), tuple(range(first, len(operands))))

    def shape(index: int) -> Shape | None:
        dimensions = operands[index].type.dimensions
        return dimensions if dimensions and not (open_ and 0 in dimensions) else None

    try:
        call = registry.bind(operation, operands, lambda index: operands[index].constant, shape)
        shapes = registry.infer(call)
    except NnapiError as error:
        raise Unmapped(error.reason) from error
    if shapes is None:
        if declared is None or not all(declared):
            raise NotConstant(f"{code.name}: {call.unknown}, and the file does not say its output's shape")
        shapes = list(declared)
    types = [output.type.with_dimensions(dims) for output, dims in zip(outputs, shapes, strict=True)]
    for type_ in types:
        if not (open_ or type_.is_fully_specified):
            raise Unmapped(f"{code.name}: an output of shape {list(type_.dimensions)} has no elements")
        try:
            type_.check(f"{code.name}: its output")
        except NnapiError as error:
            raise Unmapped(error.reason) from error
    return call, types
