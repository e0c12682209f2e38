"""The edge of an imported model: what TFLite's caller sees, and how NNAPI has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnvk.api import Model, OperandType
from nnvk.base.checks import sequence
from nnvk.base.errors import bad_data
from nnvk.base.text import printable
from nnvk.importers.tflite.errors import NAME_SHOWN
from nnvk.importers.tflite.operands import DTYPES
from nnvk.runtime.inputs import Inputs, as_array, in_order
from nnvk.types.operand import QUANT8_CODES, Shape


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the model.

    ``encode`` and ``decode`` go between an array as TFLite's interpreter has it and the operand's: INT64 is
    INT32 in NNAPI, and a single element of rank 0 is [1].
    """

    name: str
    """Name of the TFLite tensor."""
    type: OperandType
    """The operand in the NNAPI model."""
    tflite_type: str
    """Name of the TFLite tensor's type: "FLOAT32", "INT8", "UINT8", "INT64", ..."""
    shape: Shape
    """Shape of the TFLite tensor."""
    signature: Shape = ()
    """The shape in the file, with -1 for a size that it leaves open: `load` takes ``shapes``."""

    def __str__(self) -> str:
        return f"'{printable(self.name, NAME_SHOWN)}'"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the TFLite tensor's elements."""
        return DTYPES[self.tflite_type]

    @property
    def is_quantised(self) -> bool:
        """Whether elements are steps of ``scale`` from ``zero_point``."""
        return self.type.code in QUANT8_CODES

    @property
    def scale(self) -> float:
        """Real units per step; 0.0 where the tensor is not quantised."""
        return self.type.scale if self.is_quantised else 0.0

    @property
    def zero_point(self) -> int:
        """The step that stands for 0.0."""
        return self.type.zero_point

    def encode(self, array: Any) -> np.ndarray:
        """An array of the TFLite tensor's dtype and shape as the operand has it. BAD_DATA names the tensor.

        It may be one of another package, which `numpy.asarray` or DLPack takes.
        """
        array = as_array(array, str(self))
        if array.dtype != self.dtype:
            raise bad_data(f"{self} must be an array of {self.dtype}, got {array.dtype}")
        if array.shape not in (self.shape, self.type.dimensions):
            other = "; load(..., shapes=...) takes others" if -1 in self.signature else ""
            raise bad_data(f"{self} must have shape {list(self.shape)}, got {list(array.shape)}{other}")
        if array.dtype == np.int64 and np.any(array != array.astype(np.int32)):
            raise bad_data(f"{self} must have values of 32 bits, got {array.min()} to {array.max()}")
        return np.ascontiguousarray(array.reshape(self.type.dimensions), self.type.dtype)

    def decode(self, array: np.ndarray) -> np.ndarray:
        """What the operand holds, in the TFLite tensor's dtype and shape. BAD_DATA where it is something else."""
        array = as_array(array, str(self))
        if array.dtype != self.type.dtype or array.shape != self.type.dimensions:
            raise bad_data(f"{self} must hold {self.type}, got {array.dtype}{list(array.shape)}")
        return array.reshape(self.shape).astype(self.dtype, copy=False)

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Real numbers in the TFLite tensor's dtype: steps, rounded and saturated, where it is quantised."""
        real = np.asarray(real)
        if not self.is_quantised:
            return real.astype(self.dtype)
        limits = np.iinfo(self.dtype)
        steps = np.rint(real / self.scale) + self.zero_point
        return np.clip(steps, limits.min, limits.max).astype(self.dtype)

    def dequantize(self, array: np.ndarray) -> np.ndarray:
        """Elements as real numbers, float32; unchanged where the tensor is not quantised."""
        array = np.asarray(array)
        if not self.is_quantised:
            return array
        return (array.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class State:
    """A variable tensor: an input and an output of the NNAPI model, zero at first."""

    input: Port
    output: Port


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModel:
    """A finished NNAPI model and what its inputs and outputs are in the file it came from.

    The model's inputs are ``inputs`` and then the states' inputs, its outputs ``outputs`` and then the states'
    outputs.
    """

    model: Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[State, ...] = ()
    description: str = ""
    """What the file says of itself."""

    def initial_state(self) -> list[np.ndarray]:
        """The states before the first execution: zeros, which quantised states have at their zero point."""
        types = [state.input.type for state in self.states]
        return [np.full(type_.dimensions, type_.zero_point, type_.dtype) for type_ in types]

    def encode(self, arrays: Inputs, state: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """All inputs of ``model``, from TFLite's by position or by name and the states, initial if None.

        BAD_DATA says what does not fit. TypeError: an object is of a wrong kind.
        """
        states = self.initial_state() if state is None else list(sequence("the state", state))
        if len(states) != len(self.states):
            raise bad_data(f"expected {len(self.states)} states, got {len(states)}")
        arrays = in_order(arrays, [port.name for port in self.inputs], "encode")
        if len(arrays) != len(self.inputs):
            raise bad_data(f"expected {len(self.inputs)} inputs, got {len(arrays)}")
        encoded = [port.encode(array) for port, array in zip(self.inputs, arrays, strict=True)]
        return [*encoded, *states]

    def decode(self, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """TFLite's outputs, and the states for the next execution, from all outputs of ``model``."""
        if len(arrays) != len(self.outputs) + len(self.states):
            raise bad_data(f"expected {len(self.outputs) + len(self.states)} outputs, got {len(arrays)}")
        own = len(self.outputs)
        decoded = [port.decode(array) for port, array in zip(self.outputs, arrays, strict=False)]
        return decoded, list(arrays[own:])
