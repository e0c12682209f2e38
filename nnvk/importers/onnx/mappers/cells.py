"""The common part of LSTM, GRU and RNN: directions, layouts, lengths, states and activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.base.extents import hint
from nnvk.base.sizes import everything
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import chosen, scalar, with_number
from nnvk.importers.decompositions.moving import gathered, sliced, transposed
from nnvk.importers.emitter import BOOL8, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.shape import joined
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.operand import OperandType

Op = OperationCode

_ACTIVATIONS = {"relu": int(FuseCode.RELU), "sigmoid": 6, "tanh": 4}
"""The numbers that NNAPI's recurrent operations have for activations."""

Sequenced = Sequence[Value]
"""The results of one direction: all time steps [time, batch, units], and the last states [batch, units]."""


class Lengths:
    """The lengths of sequences [time, batch, ...], which are not all as long as the input."""

    def __init__(self, c: Context, lengths: Value, time: int, batch: int) -> None:
        self._c, self._lengths = c, c.reshape(lengths, (1, batch))
        self._time, self._batch = time, batch
        self._time_steps = self._numbers(time, 1)
        self._last = with_number(c, Op.SUB, self._lengths, 1, NONE)
        self._is_inside = c.reshape(c.emit(Op.GREATER, self._lengths, self._time_steps, out=BOOL8), (time, batch, 1))
        """Whether a time step is within the length of a sequence."""

    def _numbers(self, *shape: int) -> Value:
        """0, 1, 2, ... in a shape with one size that may not be 1."""
        return self._c.whole_numbers(shape, (0, hint(max(*shape, 1)) - 1), _counted, shape)

    def _picked(self, value: Value, time_steps: Value) -> Value:
        """The rows of sequences at time steps [..., batch]."""
        c = self._c
        firsts = with_number(c, Op.MUL, time_steps, self._batch, NONE)
        rows = c.emit(Op.ADD, firsts, self._numbers(1, self._batch), NONE, out=I32)
        return gathered(c, c.reshape(value, (self._time * self._batch, value.shape[2])), 0, rows)

    def turned(self, value: Value) -> Value:
        """Each sequence in the other direction, with what is beyond its length in place."""
        places = self._c.emit(Op.SUB, self._last, self._time_steps, NONE, out=I32)
        is_inside = self._c.reshape(self._is_inside, (self._time, self._batch))
        return self._picked(value, chosen(self._c, is_inside, places, self._time_steps))

    def _within(self, value: Value) -> Value:
        """A sequence, which is 0 beyond the lengths."""
        return chosen(self._c, self._is_inside, value, scalar(self._c, 0, value))

    def marked(self, value: Value) -> Value:
        """A sequence, which is 0 beyond the lengths, and beside it a further element, which is 1 there and else 0."""
        is_outside = self._c.emit(Op.LOGICAL_NOT, self._is_inside, out=BOOL8)
        return joined(self._c, [self._within(value), self._c.as_number(is_outside, OperandType(value.code))], 2)

    def cut_off(self, sequence: Value, *others: Value) -> Sequenced:
        """Outputs, which beyond a sequence's length are 0, and states; the first is the last output.

        The states of a sequence without time steps are 0.
        """
        c, zero, sequence = self._c, scalar(self._c, 0, sequence), self._within(sequence)
        state = self._picked(sequence, with_number(c, Op.MAXIMUM, self._last, 0))
        lengths = c.reshape(self._lengths, (self._batch, 1))
        is_some = c.emit(Op.GREATER, lengths, scalar(c, 0, lengths), out=BOOL8)
        return sequence, state, *(chosen(c, is_some, other, zero) for other in others)


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
        self.state_type = self.type.with_dimensions((self.batch, self.units))
        if clip := c.node.real("clip", 0.0):
            raise Unmapped(f"NNAPI's cells don't clip the inputs of their activations (clip is {clip:g})")
        self.lengths = self._lengths()
        """None if all are as long as the input."""
        self.activations = self._activations(defaults)
        """The number of each direction's activation, beside the logistic function of gates."""

    def _check(self, position: int, shape: tuple[int, ...]) -> None:
        if self.c.tensor(position).shape != shape:
            raise Unmapped(f"input {position} must have shape {list(shape)}, got {list(self.c.tensor(position).shape)}")

    def _lengths(self) -> Lengths | None:
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
        return Lengths(self.c, self.c.plain(lengths), self.time, self.batch)

    def _activations(self, defaults: Sequence[str]) -> list[int]:
        count, directions = len(defaults), len(self.backwards)
        names = [name.lower() for name in self.c.node.texts("activations") or list(defaults) * directions]
        if count == 1 and names == ["tanh", "tanh"]:
            names = names[:directions]  # RNN's default in ONNX, for one direction too
        if len(names) != count * directions:
            raise Unmapped(f"there must be {count} activations for each direction, got {names}")
        found = []
        for first in range(0, len(names), count):
            gate, *others = names[first : first + count] if count > 1 else ("sigmoid", names[first])
            if gate != "sigmoid" or len(set(others)) > 1 or others[0] not in _ACTIVATIONS:
                raise Unmapped(f"the activations must be Sigmoid and then one of Relu, Sigmoid and Tanh, got {names}")
            found.append(_ACTIVATIONS[others[0]])
        return found

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
            return self.c.filled(0.0, self.type, (self.batch, self.units))
        value = self.c.real_number(position)
        if self.is_batch_first:
            value = transposed(self.c, value, (1, 0, 2))
        taken = [range(direction, direction + 1), *everything(value.shape[1:])]
        return self.c.reshape(sliced(self.c, value, taken), (self.batch, self.units))

    def biases(self, direction: int) -> list[Value]:
        """Those of the gates and then those of the recurrent gates."""
        if not self.c.has(3):
            return [self.c.filled(0.0, self.type, (self.units,))] * (2 * self.gates)
        return self.cut(self.row(3, direction), 2 * self.gates)

    # --- outputs -------------------------------------------------------------------------------------------------

    def _turned(self, value: Value) -> Value:
        """A sequence in the other direction."""
        if self.lengths is not None:
            return self.lengths.turned(value)
        return self.c.keep(Op.REVERSE, value, np.array([0])) if value.shape[0] > 1 else value

    def run(self, layer: Callable[[int, Value], Sequenced]) -> list[Tensor]:
        """The outputs of a ``layer`` of each direction: [time, directions, batch, units], and each last state as
        [directions, batch, units].

        ``layer`` takes a direction and its input in the order of computation.
        """
        c, sequences, states = self.c, [], []
        for direction, backwards in enumerate(self.backwards):
            sequence, *ends = layer(direction, self._turned(self.x) if backwards else self.x)
            if self.lengths is not None:
                sequence, *ends = self.lengths.cut_off(sequence, *ends[1:])
            sequence = self._turned(sequence) if backwards else sequence
            sequences.append(c.reshape(sequence, (self.time, 1, self.batch, self.units)))
            states.append([c.reshape(end, (1, self.batch, self.units)) for end in ends])
        whole = joined(c, sequences, 1) if len(sequences) > 1 else sequences[0]
        ends = [joined(c, [*each], 0) if len(each) > 1 else each[0] for each in zip(*states, strict=True)]
        if self.is_batch_first:
            whole = transposed(c, whole, (2, 0, 1, 3))
            ends = [transposed(c, one, (1, 0, 2)) for one in ends]
        return [c.give(one) for one in (whole, *ends)]


def _counted(shape: Sequence[int]) -> np.ndarray:
    return charged.arange(math.prod(shape), dtype=np.int32).reshape(shape)
