"""Operands without elements. An application has none of its own, in NNAPI: they are results of other operations."""

from __future__ import annotations

import numpy as np
from builder import Builder

import nnvk
from generators.build import add_arg
from generators.draw import Arg, Case, Draw, ints
from nnvk.ops import registry
from nnvk.types.codes import OperationCode
from nnvk.types.operand import Shape


class EmptyDraw(Draw):
    """Draws dimensions of 0 among others. A case that would pick something from nothing is refused."""

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, or to ``low``."""
        return super().integer(low, max(low, high))

    def sizes(self, rank: int, most: int = 5) -> Shape:
        """A shape in which every fifth size is 0."""
        return tuple(0 if self.rng.random() < 0.2 else size for size in super().sizes(rank, most))


def has_empty(case: Case) -> bool:
    """Whether an operand of a type that TILE makes has no elements, and none of another type."""
    empty = [arg for arg in case.inputs if arg.data is not None and np.size(arg.data) == 0]
    tiled = registry.lookup(OperationCode.TILE).types
    return bool(empty) and all(arg.type.code in tiled for arg in empty)


def build_empty(case: Case, *, known: bool = True) -> tuple[nnvk.Model, list[np.ndarray]]:
    """A model of the operation, not yet finished, and what its inputs are fed.

    Its data are inputs, its parameters constants. A TILE makes a tensor without elements from one that has some.
    The TILE's multiples are constants if they shall be ``known`` before the execution.
    """
    made = Builder()
    fed: dict[int, np.ndarray] = {}

    def add(arg: Arg, *, is_input: bool) -> int:
        index = add_arg(made, arg, is_input=is_input)
        if is_input and arg.data is not None:
            fed[index] = np.asarray(arg.data)
        return index

    def add_empty(arg: Arg) -> int:
        shape = tuple(size or 1 for size in arg.shape)
        source = add(Arg(arg.type.with_dimensions(shape), np.ones(shape, arg.type.dtype)), is_input=True)
        multiples = add(ints(*(min(1, size) for size in arg.shape)), is_input=not known)
        return made.operation(OperationCode.TILE, [source, multiples], arg.type.with_dimensions(()))

    indexes = [
        add_empty(arg) if arg.data is not None and not np.size(arg.data) else add(arg, is_input=not arg.is_parameter)
        for arg in case.inputs
    ]
    results = made.outputs(case.code, indexes, *case.outputs)
    made.model.identify_inputs_and_outputs(list(fed), results)
    return made.model, list(fed.values())
