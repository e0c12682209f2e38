"""The frozen model that the runtime hands to drivers (HAL 1.3's Model with its Subgraphs)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from nnvk.types.codes import ExtensionCode, OperationCode
from nnvk.types.operand import OperandType


class Lifetime(Enum):
    """Where an operand's value comes from (HAL 1.3 OperandLifeTime)."""

    TEMPORARY_VARIABLE = "temporary"
    SUBGRAPH_INPUT = "input"
    SUBGRAPH_OUTPUT = "output"
    CONSTANT = "constant"
    NO_VALUE = "omitted"
    SUBGRAPH = "subgraph"


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One operand. ``value`` is the array of a CONSTANT (read-only, shaped, of the type's dtype)."""

    type: OperandType
    lifetime: Lifetime
    value: np.ndarray | None = None
    subgraph: Model | None = None
    """The referenced model of a SUBGRAPH operand (IF's branches, WHILE's condition and body)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; ``inputs`` and ``outputs`` index the model's operands."""

    code: OperationCode | ExtensionCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        return self.code.name


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A finished model: operations in an order in which every operand is written before it is read."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relaxed: bool = False
    """FLOAT32 may be computed with the range and precision of FLOAT16 (relaxComputationFloat32toFloat16)."""

    def input_types(self) -> tuple[OperandType, ...]:
        """Types of the model's inputs, in order."""
        return tuple(self.operands[index].type for index in self.inputs)

    def output_types(self) -> tuple[OperandType, ...]:
        """Types of the model's outputs, in order."""
        return tuple(self.operands[index].type for index in self.outputs)

    def with_relaxed(self, relaxed: bool) -> Model:
        """The model, and all that it refers to, with the setting of a main model, which overrides theirs."""
        operands = tuple(_with_relaxed(operand, relaxed) for operand in self.operands)
        if relaxed == self.relaxed and operands == self.operands:
            return self
        return replace(self, operands=operands, relaxed=relaxed)


def _with_relaxed(operand: Operand, relaxed: bool) -> Operand:
    if operand.subgraph is None:
        return operand
    subgraph = operand.subgraph.with_relaxed(relaxed)
    return operand if subgraph is operand.subgraph else replace(operand, subgraph=subgraph)
