"""Random models of a few operations, from the generators: small, valid, and connected as far as types and shapes
allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from builder import Builder
from generators import Arg, Case, Draw, draw_case, run_case
from generators.build import add_arg

import nnvk
from nnvk.base.errors import NnapiError
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape


@dataclass(slots=True)
class Graph:
    """A finished model, what it is fed, and what its operations give one by one."""

    model: nnvk.Model
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]

    @property
    def frozen(self) -> Model:
        """The frozen model."""
        return self.model.frozen


@dataclass(slots=True)
class _Value:
    """An operand that operations can read."""

    index: int
    type: OperandType
    """With all dimensions."""
    data: np.ndarray
    uses: int = 0


@dataclass(slots=True)
class _Draft:
    build: Builder = field(default_factory=Builder)
    values: list[_Value] = field(default_factory=list)
    inputs: list[_Value] = field(default_factory=list)
    results: list[_Value] = field(default_factory=list)


class GraphDraw(Draw):
    """Gives generators operands that the graph has already, more often than not."""

    def __init__(self, seed: int, values: list[_Value]) -> None:
        super().__init__(seed)
        self._values = values

    def _pick_value(self, code: OperandCode, least: int, most: int, shape: Shape | None = None) -> Arg | None:
        found = [
            value
            for value in self._values
            if value.type.code is code
            and (value.type.dimensions == shape if shape is not None else least <= len(value.type.dimensions) <= most)
        ]
        if not found:
            return None
        # A value that nothing has read yet comes first, and else the latest: graphs grow deep.
        value = min(found, key=lambda each: (each.uses, -each.index)) if self.chance(0.7) else self.pick(found)
        return Arg(value.type, value.data, index=value.index)

    def tensor(self, code: OperandCode, shape: Shape) -> Arg:
        taken = self._pick_value(code, 0, 9, shape) if self.chance(0.8) else None
        return taken or super().tensor(code, shape)

    def any(self, code: OperandCode, least: int = 1, most: int = 4) -> Arg:
        taken = self._pick_value(code, least, most) if self.chance(0.9) else None
        return taken or super().any(code, least, most)


_LARGE = 4096
"""Elements up to which results stay in the graph."""


def random_graph(seed: int, operations: int = 12, codes: Sequence[KnownCode] = tuple(registry.definitions())) -> Graph:
    """A model of so many operations of these codes; the same for the same seed.

    The first two are those whose turn it is, so that a range of seeds has all codes; the others read what they can.
    """
    draft = _Draft()
    d = GraphDraw(seed, draft.values)
    added = 0
    for _ in range(20 * operations):
        if added == operations:
            break
        turn = codes[(2 * seed + added) % len(codes)]
        case = _any_case(d, [turn]) if added < 2 else _connected_case(d, codes)
        try:
            results = run_case(case)
        except NnapiError:  # what the graph has may break a rule on data, as an infinite size of a box
            continue
        if all(0 < result.size <= _LARGE for result in results):
            _add(d, draft, case, results)
            added += 1
    return _finish(d, draft)


def _connected_case(d: GraphDraw, codes: Sequence[KnownCode]) -> Case:
    """A case of any code that reads what the graph has, or one that does not where none is found soon."""
    for _ in range(6):
        case = _any_case(d, codes)
        if any(arg.index is not None for arg in case.inputs):
            break
    return case


def _any_case(d: GraphDraw, codes: Sequence[KnownCode]) -> Case:
    code = d.pick(codes)
    types = list(registry.lookup(code).types)
    present = [leading for leading in types if any(value.type.code is leading for value in d._values)]
    return draw_case(d, code, d.pick(present) if present and d.chance(0.8) else d.pick(types))


def _add(d: GraphDraw, draft: _Draft, case: Case, results: Sequence[np.ndarray]) -> None:
    indexes = []
    reused = {arg.index for arg in case.inputs if arg.index is not None}
    for value in draft.values:
        value.uses += value.index in reused
    for arg in case.inputs:
        if arg.index is not None:
            indexes.append(arg.index)
            continue
        # Parameters are mostly constants and data mostly inputs.
        is_input = arg.data is not None and d.chance(0.05 if arg.is_parameter else 0.7)
        index = add_arg(draft.build, arg, is_input=is_input)
        indexes.append(index)
        if arg.data is not None:
            value = _Value(index, arg.type, np.asarray(arg.data))
            if is_input:
                draft.inputs.append(value)
            if arg.type.is_tensor and arg.type.channel_quant is None and not arg.is_parameter:
                draft.values.append(value)
    types = [type_.with_dimensions(result.shape) for type_, result in zip(case.outputs, results, strict=True)]
    outputs = draft.build.outputs(case.code, indexes, *(_declared(d, full) for full in types))
    for index, full, result in zip(outputs, types, results, strict=True):
        value = _Value(index, full, result)
        draft.results.append(value)
        if full.is_tensor and full.channel_quant is None:
            draft.values.append(value)


def _declared(d: GraphDraw, type_: OperandType) -> OperandType:
    """A result's type as the model says it: whole, with open dimensions, or with an open rank."""
    if not type_.is_tensor or type_.channel_quant is not None or d.chance(0.6):
        return type_
    if d.chance():
        return replace(type_, dimensions=())
    return type_.with_dimensions(tuple(0 if d.chance() else size for size in type_.dimensions))


def _finish(d: GraphDraw, draft: _Draft) -> Graph:
    """Make an output of each value that nothing reads, and of some values that something reads."""
    read = {value.index for value in draft.values if value.uses}
    outputs = [value for value in draft.results if value.index not in read or d.chance(0.2)]
    model = draft.build.finish([value.index for value in draft.inputs], [value.index for value in outputs])
    return Graph(model, [value.data for value in draft.inputs], [value.data for value in outputs])
