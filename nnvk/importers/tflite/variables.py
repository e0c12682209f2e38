"""Resource variables: tensors that operators read and assign by a handle, and that keep their value between executions.

In NNAPI they are states, as variable tensors are: an input of the model for the value before, an output for the one
after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nnvk.base.text import printable
from nnvk.importers.budget import Budget
from nnvk.importers.errors import NAME_SHOWN, Unmapped
from nnvk.importers.graph_builder import Graph, Value
from nnvk.importers.tflite.schema import Tensor
from nnvk.types.operand import OperandType


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A variable whose value before the execution is read."""

    tensor: Tensor
    """The tensor that it was read into first, under the variable's name."""
    before: Value
    """The model's input."""
    initial: np.ndarray
    """The elements before the first execution."""


class Variables:
    """The variables of one subgraph while its operators are mapped, in the order of execution."""

    def __init__(self, graph: Graph, budget: Budget, initial: Callable[[int], Mapping[str, Value]]) -> None:
        self._graph = graph
        self._budget = budget
        self._initial = initial
        self._names: dict[int, str] = {}
        self._first: dict[str, Value] = {}
        self.values: dict[str, Value] = {}
        """The value of each variable that was read or assigned so far."""
        self.assigned: dict[str, int] = {}
        """The operator that assigned each variable last."""
        self.kept: dict[str, Kept] = {}
        """The states, by the names of the variables."""
        self.keepers: set[int] = set()
        """Operators that have a state of their own."""

    def declare(self, handle: int, name: str) -> None:
        """A tensor that is the handle of a variable from here on."""
        self._names[handle] = name

    def initialise(self, subgraph: int) -> None:
        """Variables have the values first that a subgraph assigns, which runs once before the first execution."""
        self._first.update(self._initial(subgraph))

    def read(self, handle: int, tensor: Tensor, type: OperandType) -> Value:
        """The value now, for an output ``tensor`` of this type."""
        name = self._name(handle)
        if name not in self.values:
            first = self._first.get(name)
            if first is None or not first.is_constant:
                raise Unmapped(f"{_shown(name)} is read before it is assigned, and no CALL_ONCE initialises it")
            if first.code is not type.code:
                raise Unmapped(f"{_shown(name)} is initialised with {first.type} and read as {type}")
            # Elements are kept, whatever the file says of their scale where they come from.
            self._budget.charge(first.type.size)
            self.values[name] = self._graph.input(type.with_dimensions(first.shape))
            self.kept[name] = Kept(tensor, self.values[name], first.array)
        return self.values[name]

    def assign(self, handle: int, value: Value, operator: int) -> None:
        """The value from here on, and the index of the operator that assigns it."""
        name = self._name(handle)
        self.values[name], self.assigned[name] = value, operator

    def keep(self, operator: int, tensor: Tensor, type: OperandType, first: np.ndarray) -> Value:
        """The value, which is ``first``, of a state that an operator has itself. It becomes what `renew` gives."""
        if tensor.name in self.values:
            raise Unmapped(f"{_shown(tensor.name)} is there already")
        self._budget.charge(type.size)
        before = self._graph.input(type)
        self.keepers.add(operator)
        self.kept[tensor.name] = Kept(tensor, before, first.reshape(type.dimensions))
        self.renew(operator, tensor, before)
        return before

    def renew(self, operator: int, tensor: Tensor, value: Value) -> None:
        """The value after the execution of a state that an operator keeps."""
        self.values[tensor.name], self.assigned[tensor.name] = value, operator

    def _name(self, handle: int) -> str:
        if handle not in self._names:
            raise Unmapped(f"tensor {handle} is no handle that a VAR_HANDLE before it gives")
        return self._names[handle]


def _shown(name: str) -> str:
    return f"variable '{printable(name, NAME_SHOWN)}'"
