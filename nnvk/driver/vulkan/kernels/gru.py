"""UNIDIRECTIONAL_SEQUENCE_GRU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnvk.driver.vulkan.kernels.recurrent import (
    SHADERS,
    Layer,
    Limits,
    Rows,
    Span,
    drive_time_steps,
    one_direction,
    packed_once,
    refuse_long,
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

    cell = "gru"

    def __init__(
        self, g: Lowering, call: Call, prefix: str, span: Span, source: Tensor, target: TensorRef, *, aux: bool = False
    ) -> None:
        units = call.hidden_state_in.shape[1]
        super().__init__(g, span, units, units, call.hidden_state_in, target)
        self._limits = Limits.of(call.activation)
        self._reset_after = bool(call.reset_after)
        if not span.time:
            return
        weights, recurrent, biases = (
            [getattr(call, name.format(gate)) for gate in GATES]
            for name in ("input_to_{}_weights", "recurrent_to_{}_weights", "{}_bias")
        )
        inner = None
        if self._reset_after:
            recurrent.insert(2, None)
            inner = call.recurrent_to_candidate_bias
        else:
            self._projection = matrix(g, units, [recurrent[2:]])
            self._further = 2 * round_up(units, 4)
            recurrent[2:] = None, None
        self._recurrent = matrix(g, units, [recurrent])
        if self._projection is not None and self._loop_size() is None:
            inputs = matrix(g, units, [weights[2:]])
            self._candidate_driven = drive_time_steps(g, source, inputs, vectors(g, units, [biases[2:]]))
            weights[2] = biases[2] = None
        bias = vectors(g, units, [[*biases, inner]])
        self._driven = drive_time_steps(g, source, matrix(g, units, [[*weights, None]]), bias)

    def _options(self, number: int) -> tuple[Mapping[str, bool], Mapping[str, TensorRef], Mapping[str, float]]:
        projection = self._recurrent if self._projection is None else self._projection
        return {"RESET_AFTER": self._reset_after}, {"projection": packed_once(self._g, projection)}, {}

    def _time_step(self, number: int, state: Rows) -> Iterator[None]:
        """The gates and the new state at once, or one after the other."""
        updates, target = self._g.scratch(4 * self._span.batches * self._width), self._rows(number)
        if self._projection is None:
            self._product(self._recurrent, state, state, self._sums(number), target, updates)
            yield
            return
        reset = Rows(self._g.scratch(4 * self._span.batches * self._width), 0, self._width)
        self._product(self._recurrent, state, state, self._sums(number), reset, updates, gates=True)
        yield
        driven = self._candidate_driven
        sums = self._span.rows(driven.tensor, round_up(self._width, 4), number, driven.row)
        self._product(self._projection, reset, state, sums, target, updates)
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
            self.cell,
            rows=self._span.batches,
            columns=self._width,
            source=source,
            length=self._width,
            weights=weights,
            driven=driven,
            target=target,
            limits=self._limits,
            spec={"RESET_AFTER": self._reset_after, "GATES": gates},
            tensors={"states": state.tensor, "updates": updates},
            states_first=state.first,
            states_stride=state.stride,
        )


def _refuse(call: Call) -> str | None:
    return refuse_long(call.input.shape[-1], call.hidden_state_in.shape[1])


@kernel(ExtendedOperationCode.UNIDIRECTIONAL_SEQUENCE_GRU, shaders=SHADERS, refuse=_refuse)
def lower_sequence(call: Call, g: Lowering) -> None:
    """Lower a sequence of time steps."""
    time, batches, _ = call.input.shape
    one_direction(g, call, _GruLayer, Span(time, batches, True), call.result, call.outputs[1:])
