"""UNIDIRECTIONAL_SEQUENCE_GRU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnvk.driver.vulkan.kernels.recurrent import (
    SHADERS,
    Layer,
    Limits,
    LoopSize,
    Rows,
    Span,
    drive_time_steps,
    loop,
    loop_size,
    one_direction,
    packed_once,
    refuse_long,
    takes_loop,
    time_step,
)
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import matrix, vectors
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.extension.gru import GATES
from nnvk.types.extension import ExtendedOperationCode


class _GruLayer(Layer):
    """A unit has four adjacent sums: the update gate, the reset gate, and the candidate's parts of the input and of the
    state. Without ``reset_after`` the last one is not used.
    """

    def __init__(
        self, g: Lowering, call: Call, prefix: str, span: Span, source: Tensor, target: TensorRef, *, aux: bool = False
    ) -> None:
        self._units = call.hidden_state_in.shape[1]
        super().__init__(g, span, self._units, call.hidden_state_in, target)
        self._limits = Limits.of(call.activation)
        self._reset_after = bool(call.reset_after)
        if not span.time:
            return
        weights, recurrent, biases = (
            [getattr(call, name.format(gate)) for gate in GATES]
            for name in ("input_to_{}_weights", "recurrent_to_{}_weights", "{}_bias")
        )
        self._candidate = matrix(g, self._units, [recurrent[2:]])
        if not self._reset_after and self._loop_size() is None:
            inputs = matrix(g, self._units, [weights[2:]])
            self._candidate_driven = drive_time_steps(g, source, inputs, vectors(g, self._units, [biases[2:]]))
            weights[2] = biases[2] = None
        inner = call.recurrent_to_candidate_bias if self._reset_after else None
        self._recurrent = matrix(g, self._units, [[*recurrent[:2], None, recurrent[2] if self._reset_after else None]])
        bias = vectors(g, self._units, [[*biases, inner]])
        self._driven = drive_time_steps(g, source, matrix(g, self._units, [[*weights, None]]), bias)

    def _loop_size(self) -> LoopSize | None:
        vectors_behind = 0 if self._reset_after else 2 * round_up(self._units, 4)
        size = loop_size(self._g.device, self._units, self._units, vectors_behind)
        weights = self._units**2 * (4 if self._reset_after else 5)
        return size if takes_loop(self._g, "gru", size, self._span, weights) else None

    def _loop(self, size: LoopSize, part: Sequence[int], state: Rows) -> None:
        loop(
            self._g,
            "gru",
            size,
            self._span,
            len(part),
            quads=self._units,
            length=self._units,
            state=state,
            weights=packed_once(self._g, self._recurrent),
            driven=self._sums(part[0]),
            target=self._rows(part[0]),
            limits=self._limits,
            spec={"RESET_AFTER": self._reset_after},
            tensors={"projection": packed_once(self._g, self._candidate)},
        )

    def _time_step(self, number: int, state: Rows) -> Iterator[None]:
        """The gates and the new state at once, or one after the other."""
        updates, target = self._g.scratch(4 * self._span.batches * self._units), self._rows(number)
        if self._reset_after:
            self._product(self._recurrent, state, state, self._sums(number), target, updates)
            yield
            return
        reset = Rows(self._g.scratch(4 * self._span.batches * self._units), 0, self._units)
        self._product(self._recurrent, state, state, self._sums(number), reset, updates, gates=True)
        yield
        driven = self._candidate_driven
        sums = self._span.rows(driven.tensor, round_up(self._units, 4), number, driven.row)
        self._product(self._candidate, reset, state, sums, target, updates)
        yield

    def _product(
        self,
        weights: Tensor,
        source: Rows,
        state: Rows,
        driven: Rows,
        target: Rows,
        updates: TensorRef,
        *,
        gates: bool = False,
    ) -> None:
        """Multiply ``source``, and compute the new state or, without ``reset_after``, first only the ``gates``."""
        time_step(
            self._g,
            "gru",
            rows=self._span.batches,
            columns=self._units,
            source=source,
            length=self._units,
            weights=weights,
            driven=driven,
            target=target,
            limits=self._limits,
            spec={"RESET_AFTER": self._reset_after, "GATES": gates},
            tensors={"states": state.tensor, "updates": updates},
            states_first=state.first,
            states_stride=state.stride,
        )

    def _sums(self, number: int) -> Rows:
        """The contribution of a time step's inputs to the sums of its units."""
        return self._span.rows(self._driven.tensor, 4 * self._units, number, self._driven.row)


def _refuse(call: Call) -> str | None:
    return refuse_long(call.input.shape[-1], call.hidden_state_in.shape[1])


@kernel(ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU, shaders=SHADERS, refuse=_refuse)
def lower_sequence(call: Call, g: Lowering) -> None:
    """Lower a sequence of time steps."""
    time, batches, _ = call.input.shape
    one_direction(g, call, _GruLayer, Span(time, batches, True), call.result, call.outputs[1:])
