"""Parts that recurrent operations share: optional operands, activations, and sequences in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, UnknownValue
from nnvk.ops.quant import dequantize
from nnvk.ops.shapes import check_shape, check_size
from nnvk.ops.signature import F16, F32
from nnvk.ops.unary import logistic
from nnvk.types.codes import OperandCode
from nnvk.types.operand import Shape

FLOATS_3: Mapping[OperandCode, int] = {F32: 3, F16: 3}

Activation = Callable[[np.ndarray], np.ndarray]

ACTIVATIONS: Mapping[int, Activation] = {
    0: lambda x: x,
    1: lambda x: np.maximum(x, 0),
    2: lambda x: np.clip(x, -1, 1),
    3: lambda x: np.clip(x, 0, 6),
    4: np.tanh,
    6: logistic,
}
"""The FuseCodes, and two numbers that only recurrent operations know: 4 is tanh, 6 the logistic function."""
NORM_EPSILON = np.float32(1e-8)
"""The number that is added to variances."""


def _dense(rows: np.ndarray, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    sums: np.ndarray = rows @ weights.T
    return sums if bias is None else sums + bias


def _normalise(x: np.ndarray) -> np.ndarray:
    centred: np.ndarray = x - x.mean(axis=1, keepdims=True)
    centred /= np.sqrt((centred * centred).mean(axis=1, keepdims=True) + NORM_EPSILON)
    return centred


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The functions of real numbers that references of cells call."""

    dense: Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray] = _dense
    """The products of rows [..., K] with weights [units, K], added to a bias [units]."""
    total: Callable[[np.ndarray], np.ndarray] = lambda terms: terms.sum(axis=-1)
    """The sums along the last axis."""
    activations: Mapping[int, Activation] = field(default_factory=lambda: ACTIVATIONS)
    normalise: Callable[[np.ndarray], np.ndarray] = _normalise
    """Rows with mean 0 and variance 1."""

    @property
    def logistic(self) -> Activation:
        """The function of most gates."""
        return self.activations[6]


NEAREST = Arithmetic()
"""The arithmetic of NumPy, which adds up products in any order."""


def check_activation(activation: int) -> None:
    """Raise BAD_DATA for a number that is no activation of a recurrent operation."""
    if activation not in ACTIVATIONS:
        raise bad_data(f"activation must be one of {sorted(ACTIVATIONS)} (4: tanh, 6: sigmoid), got {activation}")


# --- optional operands ---------------------------------------------------------------------------------------


def present(call: Call, name: str) -> bool:
    """Whether an optional tensor was given. UnknownValue where only the execution tells.

    Left out is an operand without a value, which a model input is that an execution omits, and one with no elements.
    """
    operand = getattr(call, name) if call.has(name) else None
    if operand is None:
        return False
    if operand.may_be_omitted and not operand.is_constant:
        raise UnknownValue(f"whether {name} is given is not known yet", operand.index)
    return bool(operand.size)


def together(call: Call, names: Sequence[str]) -> bool:
    """Whether a group of optional tensors was given; BAD_DATA where only a part was."""
    given = [name for name in names if present(call, name)]
    if given and len(given) < len(names):
        raise bad_data(f"{_list(names)} must be given together or not at all, got only {_list(given)}")
    return bool(given)


def forbid(call: Call, name: str, reason: str) -> None:
    """Raise BAD_DATA where an optional tensor was given that makes no sense."""
    if present(call, name):
        raise bad_data(f"{name} must not be given {reason}")


def _list(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def floats(call: Call, name: str) -> np.ndarray:
    """The elements of a floating-point operand, in float32."""
    return dequantize(getattr(call, name))


def optional_floats(call: Call, name: str) -> np.ndarray | None:
    """The elements of an optional operand, in float32, or None where it was left out."""
    return floats(call, name) if present(call, name) else None


def check(call: Call, name: str, *shape: int) -> None:
    """Raise BAD_DATA unless an operand has this shape."""
    check_shape(getattr(call, name), shape)


def check_state(call: Call, name: str, batches: int, size: int, *, any_shape: bool) -> None:
    """Raise BAD_DATA unless a state has the shape [batches, size]; or ``any_shape`` of as many elements."""
    (check_size if any_shape else check_shape)(getattr(call, name), (batches, size))


def initial_state(call: Call, name: str, batches: int, size: int) -> np.ndarray:
    """The elements of a state, which may have another shape, in float32: [batches, size]."""
    return floats(call, name).reshape(batches, size)


def matrix(call: Call, name: str) -> tuple[int, int]:
    """Rows and columns of an operand of rank 2."""
    rows, columns = getattr(call, name).shape
    return rows, columns


# --- sequences -----------------------------------------------------------------------------------------------


def sequence_shape(call: Call, name: str = "input") -> tuple[int, int, int]:
    """Time steps, batches and elements of a sequence, which is time-major or batch-major as ``time_major`` says."""
    first, second, size = getattr(call, name).shape
    return (first, second, size) if call.time_major else (second, first, size)


def layout(call: Call, time: int, batches: int, size: int) -> Shape:
    """The shape of a sequence in the layout that ``time_major`` says."""
    return (time, batches, size) if call.time_major else (batches, time, size)


def sequence(call: Call, name: str = "input") -> np.ndarray:
    """A sequence in float32 and time-major, [time, batches, elements]."""
    data = floats(call, name)
    return data if call.time_major else data.swapaxes(0, 1)


def to_layout(call: Call, time_major: np.ndarray) -> np.ndarray:
    """A time-major sequence in the layout and type of the operation's outputs."""
    data = time_major if call.time_major else time_major.swapaxes(0, 1)
    return np.ascontiguousarray(data.astype(call.output.dtype, copy=False))


# --- both directions -----------------------------------------------------------------------------------------


def linking(call: Call, aux_weights: Sequence[str]) -> tuple[str, bool]:
    """How a bidirectional operation feeds its cells, from what was given of ``aux_input`` and its weights.

    Gives the name of the backward cell's input, and whether both cells also take ``aux_input`` through weights
    (cross-linking). With an auxiliary input but no weights it is the backward cell's input (parallel linking).
    """
    weighted = together(call, aux_weights)
    if not present(call, "aux_input"):
        if weighted:
            raise bad_data(f"{_list(aux_weights)} must not be given without aux_input")
        return "input", False
    if sequence_shape(call, "aux_input")[:2] != sequence_shape(call)[:2]:
        raise bad_data(
            f"aux_input must have the time steps and batches of input, {list(call.input.shape)}, "
            f"got {list(call.aux_input.shape)}"
        )
    return ("input", True) if weighted else ("aux_input", False)


def bidirectional_shapes(call: Call, forward: int, backward: int, states: Sequence[Shape]) -> list[Shape]:
    """Output shapes of cells with ``forward`` and ``backward`` elements: sequences, then states if asked for.

    BAD_DATA unless the number of outputs fits ``merge_outputs``.
    """
    time, batches, _ = sequence_shape(call)
    sizes = [forward + backward] if call.merge_outputs else [forward, backward]
    count = len(call.outputs)
    if count not in (len(sizes), len(sizes) + len(states)):
        merged = "" if call.merge_outputs else "not "
        raise bad_data(f"expected {len(sizes)} or {len(sizes) + len(states)} outputs ({merged}merged), got {count}")
    shapes = [layout(call, time, batches, size) for size in sizes]
    return shapes + list(states) if count > len(sizes) else shapes


def bidirectional_outputs(
    call: Call, forward: np.ndarray, backward: np.ndarray, states: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Outputs, as `bidirectional_shapes` says, from time-major sequences and final states."""
    sequences = [np.concatenate((forward, backward), axis=2)] if call.merge_outputs else [forward, backward]
    outputs = [to_layout(call, data) for data in sequences]
    if len(call.outputs) > len(outputs):
        final = zip(call.outputs[len(outputs) :], states, strict=True)
        outputs += [state.astype(result.dtype, copy=False).reshape(result.shape) for result, state in final]
    return outputs
