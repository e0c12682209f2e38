"""The common part of LSTM, GRU and RNN: directions, layouts, lengths, states and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.base.sizes import everything
from nnvk.importers.decompositions.arithmetic import each, scalar
from nnvk.importers.decompositions.moving import sliced, transposed
from nnvk.importers.emitter import BOOL8
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers import activations
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.operand import OperandType

Op = OperationCode


_Made = Callable[[Context, Value, float, float], Value]
_FUNCTIONS: dict[str, tuple[float | None, float | None, _Made]] = {
    "HardSigmoid": (0.2, 0.5, activations.hard_sigmoid_of),
    "Relu": (None, None, lambda c, x, *_: each(c, Op.RELU, x)),
    "Sigmoid": (None, None, lambda c, x, *_: each(c, Op.LOGISTIC, x)),
    "Tanh": (None, None, lambda c, x, *_: each(c, Op.TANH, x)),
}
"""Activations of recurrent operators: alpha and beta unless they are given, as onnxruntime has them; None: no such."""
_BY_NAME = {name.lower(): name for name in _FUNCTIONS}


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation with its parameters."""

    name: str
    alpha: float
    beta: float

    def of(self, c: Context, x: Value) -> Value:
        """The result of the activation."""
        return _FUNCTIONS[self.name][2](c, x, self.alpha, self.beta)


class Cell:
    """One operator."""

    def __init__(self, c: Context, gates: int, defaults: Sequence[str]) -> None:
        self.c = c
        x = c.real_number(0)
        if len(x.shape) != 3:
            raise Unmapped(f"the input must have rank 3, got shape {list(x.shape)}")
        self.is_batch_first = bool(c.node.integer("layout", 0))
        self.x = transposed(c, x, (1, 0, 2)) if self.is_batch_first else x
        self.time, self.batch, self.inputs = self.x.shape
        direction = c.node.text("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise Unmapped(f"attribute 'direction' must be forward, reverse or bidirectional, got '{direction}'")
        self.backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.units = c.tensor(2).shape[-1]
        rows = gates * self.units
        self._check(1, (len(self.backwards), rows, self.inputs))
        self._check(2, (len(self.backwards), rows, self.units))
        if c.has(3):
            self._check(3, (len(self.backwards), 2 * rows))
        self.gates = gates
        self.type = OperandType(self.x.code)
        self.clip = c.node.real("clip", 0.0)
        """The clip threshold of the activations' inputs; 0 for none."""
        self.lengths = self._lengths()
        self.activations = self._activations(defaults)
        """The activations of each direction."""

    def _check(self, position: int, shape: tuple[int, ...]) -> None:
        if self.c.tensor(position).shape != shape:
            raise Unmapped(f"input {position} must have shape {list(shape)}, got {list(self.c.tensor(position).shape)}")

    def _lengths(self) -> Tensor | None:
        """The length of each sequence, or None if all are as long as the input."""
        lengths = self.c.optional(4)
        if lengths is None:
            return None
        self._check(4, (self.batch,))
        if lengths.is_constant:
            low, high = int(lengths.array.min()), int(lengths.array.max())
            if low < 0 or high > self.time:
                raise Unmapped(f"the lengths (input 4) must be between 0 and {self.time}, got {low} to {high}")
            if low == self.time:
                return None
        return lengths

    def _activations(self, defaults: Sequence[str]) -> list[list[Activation]]:
        node, count = self.c.node, len(defaults)
        names = node.texts("activations") or list(defaults) * len(self.backwards)
        if count == 1 and [name.lower() for name in names] == ["tanh", "tanh"]:
            names = names[: len(self.backwards)]  # RNN's default in ONNX, for one direction too
        if len(names) != count * len(self.backwards):
            raise Unmapped(f"there must be {count} activations for each direction, got {names}")
        alphas, betas = iter(node.reals("activation_alpha") or ()), iter(node.reals("activation_beta") or ())
        found = []
        for given in names:
            name = _BY_NAME.get(given.lower())
            if name is None:
                raise Unmapped(f"the activations must be among {', '.join(_FUNCTIONS)}, got {given}")
            alpha, beta, _ = _FUNCTIONS[name]
            alpha = 0.0 if alpha is None else next(alphas, alpha)
            beta = 0.0 if beta is None else next(betas, beta)
            found.append(Activation(name, alpha, beta))
        return [found[place * count : (place + 1) * count] for place in range(len(self.backwards))]

    def has(self, direction: int, *names: str) -> bool:
        """Whether these are a direction's activations, of whole sequences and of numbers that are not clipped."""
        plain = not self.clip and self.lengths is None
        return plain and [one.name for one in self.activations[direction]] == list(names)

    # --- operands ------------------------------------------------------------------------------------------------

    def row(self, position: int, direction: int) -> Value:
        """One direction of an input."""
        value = self.c.real_number(position)
        taken = [range(direction, direction + 1), *everything(value.shape[1:])]
        return self.c.reshape(sliced(self.c, value, taken), value.shape[1:])

    def cut(self, value: Value, count: int) -> list[Value]:
        """Parts of one size along the first axis."""
        size = value.shape[0] // count
        rest = everything(value.shape[1:])
        return [sliced(self.c, value, [range(place * size, (place + 1) * size), *rest]) for place in range(count)]

    def state(self, position: int, direction: int) -> Value:
        """An initial state [batch, units], zeros where it is left out."""
        if not self.c.has(position):
            return self.zeros()
        value = self.c.real_number(position)
        if self.is_batch_first:
            value = transposed(self.c, value, (1, 0, 2))
        taken = [range(direction, direction + 1), *everything(value.shape[1:])]
        return self.c.reshape(sliced(self.c, value, taken), (self.batch, self.units))

    def zeros(self) -> Value:
        """[batch, units] of 0."""
        return self.c.filled(0.0, self.type, (self.batch, self.units))

    def biases(self, direction: int) -> list[Value]:
        """Those of the gates and then those of the recurrent gates."""
        if not self.c.has(3):
            zero = self.c.filled(0.0, self.type, (self.units,))
            return [zero] * (2 * self.gates)
        return self.cut(self.row(3, direction), 2 * self.gates)

    def turned(self, value: Value, backwards: bool) -> Value:
        """A sequence in the other direction."""
        return self.c.keep(Op.REVERSE, value, np.array([0])) if backwards and value.shape[0] > 1 else value

    def inside(self, place: int) -> Value | None:
        """A mask [batch, 1] of the sequences that are longer than ``place`` time steps, or None if all are."""
        lengths = self.lengths
        if lengths is None:
            return None
        if lengths.is_constant:
            longer = lengths.array > place
            return None if longer.all() else self.c.constant(longer.reshape(self.batch, 1), BOOL8)
        column = self.c.reshape(self.c.plain(lengths), (self.batch, 1))
        return self.c.emit(Op.GREATER, column, scalar(self.c, place, column), out=BOOL8)

    # --- outputs -------------------------------------------------------------------------------------------------

    def given(self, sequences: list[Value], states: Sequence[list[Value]]) -> list[Tensor]:
        """The outputs: [time, directions, batch, units], and each last state as [directions, batch, units]."""
        c, count = self.c, len(self.backwards)
        rows = [c.reshape(one, (self.time, 1, self.batch, self.units)) for one in sequences]
        whole = joined(c, rows, 1) if count > 1 else rows[0]
        ends = []
        for state in states:
            last = [c.reshape(one, (1, self.batch, self.units)) for one in state]
            ends.append(joined(c, last, 0) if count > 1 else last[0])
        if self.is_batch_first:
            whole = transposed(c, whole, (2, 0, 1, 3))
            ends = [transposed(c, one, (1, 0, 2)) for one in ends]
        return [c.give(one) for one in (whole, *ends)]
