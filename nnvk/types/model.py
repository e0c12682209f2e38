"""The frozen model that the runtime hands to drivers (HAL 1.3's Model with its Subgraphs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from nnvk.base.text import plural, printable
from nnvk.types.constant import Constant, elements
from nnvk.types.extension import AnyCode
from nnvk.types.operand import OperandType


class Lifetime(Enum):
    """The origin of an operand's value (HAL 1.3 OperandLifeTime)."""

    TEMPORARY_VARIABLE = "temporary"
    SUBGRAPH_INPUT = "input"
    SUBGRAPH_OUTPUT = "output"
    CONSTANT = "constant"
    NO_VALUE = "omitted"
    SUBGRAPH = "subgraph"


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One operand of a model."""

    type: OperandType
    lifetime: Lifetime
    constant: Constant | None = field(default=None, repr=False)
    """The elements of a CONSTANT: read-only, shaped, of the type's dtype."""
    subgraph: Model | None = field(default=None, repr=False)
    """The referenced model of a SUBGRAPH operand (IF's branches, WHILE's condition and body)."""

    @property
    def value(self) -> np.ndarray | None:
        """The elements of a CONSTANT as an array, which is made if they are deferred."""
        return None if self.constant is None else elements(self.constant)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; ``inputs`` and ``outputs`` index the model's operands."""

    code: AnyCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        return self.code.name


class _Referable:
    """A base class with slots whose objects can be referred to weakly."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False)
class Model(_Referable):
    """A finished model: operations in an order in which every operand is written before it is read."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relaxed: bool = False
    """FLOAT32 may be computed with the range and precision of FLOAT16 (relaxComputationFloat32toFloat16)."""
    input_names: tuple[str, ...] = ()
    """Names of the inputs, for callers; NNAPI has none. Empty where they were not given."""
    sizes: object = None
    """See `nnvk.types.template.sizes_of`."""
    reproducible: bool = False
    """Floats have the bits that `nnvk.ops.reproducible` defines, on every device."""

    def input_types(self) -> tuple[OperandType, ...]:
        """Types of the model's inputs, in order."""
        return tuple(self.operands[index].type for index in self.inputs)

    def output_types(self) -> tuple[OperandType, ...]:
        """Types of the model's outputs, in order."""
        return tuple(self.operands[index].type for index in self.outputs)

    def __repr__(self) -> str:
        ends = " -> ".join(
            ", ".join(type_.brief for type_ in types) for types in (self.input_types(), self.output_types())
        )
        return f"<model of {plural(len(self.operations), 'operation')}: {printable(ends)}>"

    def with_omitted(self, omitted: Sequence[bool]) -> Model:
        """The model with these inputs omitted: operands without a value. They keep their places among the inputs."""
        indexes = {index for index, is_omitted in zip(self.inputs, omitted, strict=True) if is_omitted}
        if not indexes:
            return self
        operands = tuple(
            replace(operand, lifetime=Lifetime.NO_VALUE) if index in indexes else operand
            for index, operand in enumerate(self.operands)
        )
        return replace(self, operands=operands)

    def referenced(self) -> list[Model]:
        """All models that it refers to, directly or not: each once, and after all that it refers to itself."""
        begun: set[Model] = set()
        done: dict[Model, None] = {}
        ahead = [(self, False)]
        while ahead:
            model, is_complete = ahead.pop()
            if is_complete:
                done[model] = None
            elif model not in begun:
                begun.add(model)
                ahead.append((model, True))
                ahead += [(operand.subgraph, False) for operand in model.operands if operand.subgraph is not None]
        del done[self]
        return list(done)

    def with_relaxed(self, relaxed: bool) -> Model:
        """The model, and all that it refers to, with the setting of a main model, which overrides theirs."""
        return self._with(relaxed=relaxed, reproducible=False)

    def as_reproducible(self) -> Model:
        """The model, and all that it refers to, to be computed with reproducible floats, which are never relaxed."""
        return self._with(relaxed=False, reproducible=True)

    def _with(self, *, relaxed: bool, reproducible: bool) -> Model:
        made: dict[Model, Model] = {}
        for model in (*self.referenced(), self):
            operands = tuple(_with_subgraph(operand, made) for operand in model.operands)
            same = (operands, relaxed, reproducible) == (model.operands, model.relaxed, model.reproducible)
            changed = replace(model, operands=operands, relaxed=relaxed, reproducible=reproducible)
            made[model] = model if same else changed
        return made[self]


def _with_subgraph(operand: Operand, made: Mapping[Model, Model]) -> Operand:
    """The operand with its model replaced."""
    if operand.subgraph is None or made[operand.subgraph] is operand.subgraph:
        return operand
    return replace(operand, subgraph=made[operand.subgraph])
