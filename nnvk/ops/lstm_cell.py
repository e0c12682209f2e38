"""The floating-point LSTM cell behind LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM.

Operands of one cell have the same names in all three, after a prefix ("fw_" and "bw_" in the last). Optional
groups: input gate (left out: CIFG, the input gate is 1 - forget gate), peephole, projection, layer norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.quant import dequantize
from nnvk.ops.recurrent import (
    Activation,
    Arithmetic,
    check,
    check_activation,
    check_state,
    forbid,
    initial_state,
    matrix,
    present,
    together,
)
from nnvk.ops.signature import Accepts, Param, optional_tensor, same, tensor

GATES = ("input", "forget", "cell", "output")
_PEEPHOLE_GATES = ("input", "forget", "output")


# --- parameters ----------------------------------------------------------------------------------------------


def _gates(template: str, rank: int, gates: Sequence[str], accepts: Accepts, optional: Sequence[str]) -> list[Param]:
    return [
        (optional_tensor if gate in optional else tensor)(template.format(gate), accepts, rank=rank) for gate in gates
    ]


def weight_params(
    prefix: str = "", weights: Accepts = same, peephole: Accepts = same, bias: Accepts = same
) -> list[Param]:
    """The 17 weights and biases of a cell, in the order of all operations."""
    return [
        *_gates(prefix + "input_to_{}_weights", 2, GATES, weights, ["input"]),
        *_gates(prefix + "recurrent_to_{}_weights", 2, GATES, weights, ["input"]),
        *_gates(prefix + "cell_to_{}_weights", 1, _PEEPHOLE_GATES, peephole, _PEEPHOLE_GATES),
        *_gates(prefix + "{}_gate_bias", 1, GATES, bias, ["input"]),
        optional_tensor(prefix + "projection_weights", weights, rank=2),
        optional_tensor(prefix + "projection_bias", bias, rank=1),
    ]


def state_params(
    prefix: str = "", output: Accepts = same, cell: Accepts = same, *, any_shape: bool = False
) -> list[Param]:
    """Output state and cell state before the first time step: matrices, or of ``any_shape``."""
    rank = None if any_shape else 2
    return [tensor(prefix + "output_state_in", output, rank=rank), tensor(prefix + "cell_state_in", cell, rank=rank)]


def norm_params(prefix: str = "", accepts: Accepts = same) -> list[Param]:
    """Weights of the layer normalisation."""
    return _gates(prefix + "{}_layer_norm_weights", 1, GATES, accepts, GATES)


def aux_params(prefix: str) -> list[Param]:
    """Weights of the auxiliary input."""
    return _gates(prefix + "aux_input_to_{}_weights", 2, GATES, same, GATES)


def aux_names(call: Call, prefix: str) -> list[str]:
    """The names of a cell's auxiliary weights. With CIFG there are none for the input gate."""
    gates = GATES if present(call, prefix + "input_to_input_weights") else GATES[1:]
    return [f"{prefix}aux_input_to_{gate}_weights" for gate in gates]


# --- rules ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CellShape:
    """The sizes of a cell, and its optional groups of operands."""

    units: int
    """Size of the cell state."""
    outputs: int
    """Size of the output state."""
    cifg: bool
    peephole: bool
    projection: bool
    layer_norm: bool


def check_cell(call: Call, prefix: str, batches: int, input_size: int, *, any_shape: bool = False) -> CellShape:
    """Sizes of a cell; BAD_DATA where its operands don't fit together, UnknownValue where that is not known yet.

    States of ``any_shape`` need no more than the right number of elements.
    """
    units, width = matrix(call, prefix + "input_to_output_weights")
    if width != input_size:
        raise bad_data(f"{prefix}input_to_output_weights must have {input_size} columns as the input has, got {width}")
    outputs = matrix(call, prefix + "recurrent_to_output_weights")[1]
    cifg = not together(
        call, [prefix + name for name in ("input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias")]
    )
    peephole = together(call, [prefix + "cell_to_forget_weights", prefix + "cell_to_output_weights"])
    projection = present(call, prefix + "projection_weights")
    layer_norm = together(call, [f"{prefix}{gate}_layer_norm_weights" for gate in GATES[1:]])
    _check_groups(call, prefix, cifg=cifg, peephole=peephole, projection=projection, layer_norm=layer_norm)
    if not projection and outputs != units:
        raise bad_data(
            f"{prefix}recurrent_to_output_weights must have as many columns as rows without a projection, "
            f"got [{units}, {outputs}]"
        )
    gates = GATES[1:] if cifg else GATES
    for gate in gates:
        check(call, f"{prefix}input_to_{gate}_weights", units, input_size)
        check(call, f"{prefix}recurrent_to_{gate}_weights", units, outputs)
        check(call, f"{prefix}{gate}_gate_bias", units)
        if peephole and gate != "cell":
            check(call, f"{prefix}cell_to_{gate}_weights", units)
        if layer_norm:
            check(call, f"{prefix}{gate}_layer_norm_weights", units)
    if projection:
        check(call, prefix + "projection_weights", outputs, units)
    if present(call, prefix + "projection_bias"):
        check(call, prefix + "projection_bias", outputs)
    check_state(call, prefix + "output_state_in", batches, outputs, any_shape=any_shape)
    check_state(call, prefix + "cell_state_in", batches, units, any_shape=any_shape)
    return CellShape(units, outputs, cifg, peephole, projection, layer_norm)


def _check_groups(call: Call, prefix: str, *, cifg: bool, peephole: bool, projection: bool, layer_norm: bool) -> None:
    """Members of optional groups that depend on another group."""
    if not peephole:
        forbid(call, prefix + "cell_to_input_weights", f"without {prefix}cell_to_forget_weights (no peephole)")
    elif not cifg and not present(call, prefix + "cell_to_input_weights"):
        raise bad_data(f"{prefix}cell_to_input_weights must be given: there is a peephole and an input gate")
    if cifg:
        forbid(call, prefix + "input_layer_norm_weights", "without an input gate (CIFG)")
    elif present(call, prefix + "input_layer_norm_weights") != layer_norm:
        raise bad_data(f"{prefix}input_layer_norm_weights must be given with the other layer norm weights, or none")
    if not projection:
        forbid(call, prefix + "projection_bias", f"without {prefix}projection_weights")


def check_options(call: Call) -> None:
    """Raise BAD_DATA for an activation or clipping threshold out of range."""
    check_activation(call.activation)
    for name in ("cell_clip", "proj_clip"):
        threshold = getattr(call, name)
        if not threshold >= 0:
            raise bad_data(f"{name} must be 0 (no clipping) or more, got {threshold:g}")


# --- operands ------------------------------------------------------------------------------------------------


def states(call: Call, prefix: str, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Output state [batches, outputs] and cell state [batches, units] before the first time step, in float32."""
    units, outputs = matrix(call, prefix + "recurrent_to_output_weights")
    output_state = initial_state(call, prefix + "output_state_in", batches, outputs)
    return output_state, initial_state(call, prefix + "cell_state_in", batches, units)


@dataclass(frozen=True, slots=True)
class CellOperands:
    """The operands that a cell was given, by gate where each gate has one: what all devices compute with."""

    gates: tuple[str, ...]
    """All four, or three with CIFG."""
    input_weights: Mapping[str, Tensor]
    recurrent_weights: Mapping[str, Tensor]
    aux_weights: Mapping[str, Tensor]
    """Empty without an auxiliary input."""
    bias: Mapping[str, Tensor]
    peephole: Mapping[str, Tensor]
    """Empty without a peephole."""
    norm: Mapping[str, Tensor]
    """Empty without layer normalisation."""
    projection_weights: Tensor | None
    projection_bias: Tensor | None
    output_state: Tensor
    cell_state: Tensor

    @property
    def is_coupled(self) -> bool:
        """Whether the forget gate does for the input gate (CIFG)."""
        return len(self.gates) < len(GATES)

    @classmethod
    def of(cls, call: Call, prefix: str = "", *, aux: bool = False) -> CellOperands:
        """Those whose names have this prefix, with or without weights of an auxiliary input."""
        gates = GATES if present(call, prefix + "input_to_input_weights") else GATES[1:]

        def optional(name: str) -> Tensor | None:
            tensor: Tensor | None = getattr(call, prefix + name) if present(call, prefix + name) else None
            return tensor

        def by_gate(template: str, members: Sequence[str] = gates) -> dict[str, Tensor]:
            named = {gate: optional(template.format(gate)) for gate in members}
            return {gate: operand for gate, operand in named.items() if operand is not None}

        def of_all_gates(template: str) -> dict[str, Tensor]:
            return {gate: getattr(call, prefix + template.format(gate)) for gate in gates}

        return cls(
            gates=gates,
            input_weights=of_all_gates("input_to_{}_weights"),
            recurrent_weights=of_all_gates("recurrent_to_{}_weights"),
            aux_weights=of_all_gates("aux_input_to_{}_weights") if aux else {},
            bias=of_all_gates("{}_gate_bias"),
            peephole=by_gate("cell_to_{}_weights", [gate for gate in gates if gate != "cell"]),
            norm=by_gate("{}_layer_norm_weights"),
            projection_weights=optional("projection_weights"),
            projection_bias=optional("projection_bias"),
            output_state=getattr(call, prefix + "output_state_in"),
            cell_state=getattr(call, prefix + "cell_state_in"),
        )


# --- arithmetic ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LstmCell:
    """A cell's weights, in float32, its gates stacked: G gates (3 with CIFG, else 4) of U units."""

    gates: tuple[str, ...]
    input_weights: np.ndarray
    """[G * U, input size], to which the auxiliary input is added"""
    recurrent_weights: np.ndarray
    """[G * U, output size]"""
    bias: Mapping[str, np.ndarray]
    peephole: Mapping[str, np.ndarray]
    norm: Mapping[str, np.ndarray]
    projection_weights: np.ndarray | None
    projection_bias: np.ndarray | None
    activation: Activation
    cell_clip: float
    proj_clip: float
    arithmetic: Arithmetic

    @classmethod
    def of(cls, call: Call, arithmetic: Arithmetic, prefix: str = "", *, aux: bool = False) -> LstmCell:
        """The cell whose operands have this prefix, with or without weights of an auxiliary input."""
        operands = CellOperands.of(call, prefix, aux=aux)

        def stacked(weights: Mapping[str, Tensor]) -> np.ndarray:
            return np.concatenate([dequantize(weights[gate]) for gate in operands.gates])

        def by_gate(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
            return {gate: dequantize(tensor) for gate, tensor in tensors.items()}

        parts = [operands.input_weights, operands.aux_weights] if aux else [operands.input_weights]
        weights, bias = operands.projection_weights, operands.projection_bias
        return cls(
            gates=operands.gates,
            input_weights=np.concatenate([stacked(part) for part in parts], axis=1),
            recurrent_weights=stacked(operands.recurrent_weights),
            bias=by_gate(operands.bias),
            peephole=by_gate(operands.peephole),
            norm=by_gate(operands.norm),
            projection_weights=None if weights is None else dequantize(weights),
            projection_bias=None if bias is None else dequantize(bias),
            activation=arithmetic.activations[call.activation],
            cell_clip=call.cell_clip,
            proj_clip=call.proj_clip,
            arithmetic=arithmetic,
        )

    def run(
        self,
        inputs: np.ndarray,
        output_state: np.ndarray,
        cell_state: np.ndarray,
        aux: np.ndarray | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run over a time-major sequence [time, batches, size]: all outputs, the last output state and cell state."""
        if aux is not None:
            inputs = np.concatenate((inputs, aux), axis=2)
        bias = None if self.norm else np.concatenate([self.bias[gate] for gate in self.gates])
        # The part of the sums that no state is in, of all time steps.
        driven = self.arithmetic.dense(inputs, self.input_weights, bias)
        outputs = np.empty((*inputs.shape[:2], output_state.shape[1]), np.float32)
        time_steps = range(len(inputs))
        for time_step in reversed(time_steps) if reverse else time_steps:
            output_state, cell_state = self._time_step(driven[time_step], output_state, cell_state)
            outputs[time_step] = output_state
        return outputs, output_state, cell_state

    def _time_step(
        self, driven: np.ndarray, output_state: np.ndarray, cell_state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        logistic, dense = self.arithmetic.logistic, self.arithmetic.dense
        products = dense(output_state, self.recurrent_weights, None)
        sums = np.split(products + driven, len(self.gates), axis=1)

        def gate(name: str, peek: np.ndarray) -> np.ndarray:
            x: np.ndarray = sums[self.gates.index(name)]
            if name in self.peephole:
                x += self.peephole[name] * peek
            if name in self.norm:
                x = self.arithmetic.normalise(x) * self.norm[name] + self.bias[name]
            return x

        forget = logistic(gate("forget", cell_state))
        write = logistic(gate("input", cell_state)) if "input" in self.gates else 1 - forget
        cell_state = _clip(forget * cell_state + write * self.activation(gate("cell", cell_state)), self.cell_clip)
        output_state = logistic(gate("output", cell_state)) * self.activation(cell_state)
        if self.projection_weights is not None:
            output_state = dense(output_state, self.projection_weights, None)
            if self.projection_bias is not None:
                output_state = output_state + self.projection_bias
            output_state = _clip(output_state, self.proj_clip)
        return output_state, cell_state


def _clip(x: np.ndarray, threshold: float) -> np.ndarray:
    if threshold > 0:
        x = np.clip(x, -threshold, threshold)
    return x
