"""The C library, called from Python: what tests and benchmarks need of it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nnvk.api import NnapiError, OperandType, ResultCode
from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.installed import library_paths
from nnvk.serve.table import Function

_TYPES: dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "ANeuralNetworksOperationType": ctypes.c_int32,
    "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
}
"""All others are pointers."""


class COperandType(ctypes.Structure):
    """``ANeuralNetworksOperandType``."""

    _fields_ = (
        ("type", ctypes.c_int32),
        ("dimensionCount", ctypes.c_uint32),
        ("dimensions", ctypes.POINTER(ctypes.c_uint32)),
        ("scale", ctypes.c_float),
        ("zeroPoint", ctypes.c_int32),
    )

    @classmethod
    def of(cls, type_: OperandType) -> COperandType:
        """An operand's type in C's structure."""
        dimensions = numbers(type_.dimensions)
        return cls(type_.code, len(type_.dimensions), dimensions, type_.scale, type_.zero_point)


class CChannels(ctypes.Structure):
    """``ANeuralNetworksSymmPerChannelQuantParams``."""

    _fields_ = (
        ("channelDim", ctypes.c_uint32),
        ("scaleCount", ctypes.c_uint32),
        ("scales", ctypes.POINTER(ctypes.c_float)),
    )


class Library:
    """libneuralnetworks.so: the functions of the table are attributes, by their names without ``ANeuralNetworks``."""

    def __init__(self, path: Path) -> None:
        self.loaded = ctypes.CDLL(str(path))
        for row in ALL_FUNCTIONS:
            setattr(self, row.name.removeprefix("ANeuralNetworks").lstrip("_"), self._function(row))

    def _function(self, row: Function) -> Any:
        function = getattr(self.loaded, row.name)
        function.restype = _TYPES.get(row.returns)
        function.argtypes = [_TYPES.get(parameter.type, ctypes.c_void_p) for parameter in row.parameters]
        return function

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the table. `nnvk.NnapiError` where its result code is an error; the log says why."""
        code = getattr(self, name)(*arguments)
        if code != ResultCode.NO_ERROR:
            raise NnapiError(ResultCode(code), f"ANeuralNetworks{name} failed")

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function whose last parameter is where a new object, or a device, goes."""
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def device(self, name: str) -> ctypes.c_void_p:
        """A device by its name."""
        count = ctypes.c_uint32()
        self.call("getDeviceCount", ctypes.byref(count))
        for index in range(count.value):
            device, found = self.make("getDevice", index), ctypes.c_char_p()
            self.call("Device_getName", device, ctypes.byref(found))
            if (found.value or b"").decode() == name:
                return device
        raise ValueError(f"the C library has no device {name}")


@lru_cache(maxsize=1)
def library() -> Library:
    """The installed one, loaded. FileNotFoundError: it was not built."""
    return Library(Path(library_paths().library))


def numbers(values: Sequence[int]) -> Any:
    """Numbers as an array of uint32_t."""
    return (ctypes.c_uint32 * len(values))(*values)


def address(array: np.ndarray | None) -> tuple[Any, int]:
    """An array, which must stay, as a pointer to its bytes and their number."""
    return (None, 0) if array is None else (ctypes.c_void_p(array.ctypes.data), array.nbytes)


class CModel:
    """A model of the C library, with what `nnvk.Model` has."""

    def __init__(self) -> None:
        self.library = library()
        self.handle = self.library.make("Model_create")
        self.operations = 0

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.Model_free(self.handle)  # type: ignore[attr-defined]

    def add_operand(self, type: OperandType) -> int:
        """As `nnvk.Model.add_operand`, but for the result."""
        self.library.call("Model_addOperand", self.handle, ctypes.byref(COperandType.of(type)))
        return -1

    def set_operand_symm_per_channel_quant_params(self, index: int, channel_dim: int, scales: Sequence[float]) -> None:
        """As `nnvk.Model.set_operand_symm_per_channel_quant_params`."""
        given = CChannels(channel_dim, len(scales), (ctypes.c_float * len(scales))(*scales))
        self.library.call("Model_setOperandSymmPerChannelQuantParams", self.handle, index, ctypes.byref(given))

    def set_operand_value(self, index: int, value: np.ndarray | None) -> None:
        """As `nnvk.Model.set_operand_value`."""
        self.library.call("Model_setOperandValue", self.handle, index, *address(value))

    def set_operand_value_from_model(self, index: int, value: CModel) -> None:
        """As `nnvk.Model.set_operand_value_from_model`."""
        self.library.call("Model_setOperandValueFromModel", self.handle, index, value.handle)

    def add_operation(self, code: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As `nnvk.Model.add_operation`."""
        given = (len(inputs), numbers(inputs), len(outputs), numbers(outputs))
        self.library.call("Model_addOperation", self.handle, code, *given)
        self.operations += 1

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """As `nnvk.Model.identify_inputs_and_outputs`."""
        given = (len(inputs), numbers(inputs), len(outputs), numbers(outputs))
        self.library.call("Model_identifyInputsAndOutputs", self.handle, *given)

    def relax_computation_float32_to_float16(self, allow: bool) -> None:
        """As `nnvk.Model.relax_computation_float32_to_float16`."""
        self.library.call("Model_relaxComputationFloat32toFloat16", self.handle, allow)

    def finish(self) -> None:
        """As `nnvk.Model.finish`."""
        self.library.call("Model_finish", self.handle)

    def supported_operations(self, device: str) -> list[bool]:
        """Return for each operation whether a device runs it."""
        supported = (ctypes.c_bool * self.operations)()
        devices = (ctypes.c_void_p * 1)(self.library.device(device))
        self.library.call("Model_getSupportedOperationsForDevices", self.handle, devices, 1, supported)
        return list(supported)


class CCompilation:
    """A compilation of the C library for one device, finished."""

    def __init__(self, model: CModel, device: str) -> None:
        self.library = model.library
        devices = (ctypes.c_void_p * 1)(self.library.device(device))
        self.handle = self.library.make("Compilation_createForDevices", model.handle, devices, 1)
        self.library.call("Compilation_finish", self.handle)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.Compilation_free(self.handle)  # type: ignore[attr-defined]


class CExecution:
    """An execution of the C library. Its arguments must stay until it is gone."""

    def __init__(self, compilation: CCompilation) -> None:
        self.library = compilation.library
        self.handle = self.library.make("Execution_create", compilation.handle)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.Execution_free(self.handle)  # type: ignore[attr-defined]

    def set_input(self, index: int, value: np.ndarray | None) -> None:
        """As `nnvk.Execution.set_input`."""
        self.library.call("Execution_setInput", self.handle, index, None, *address(value))

    def set_output(self, index: int, value: np.ndarray) -> None:
        """As `nnvk.Execution.set_output`; there must be a byte for an output that will be empty."""
        pointer, size = address(value)
        self.library.call("Execution_setOutput", self.handle, index, None, pointer, max(size, 1))

    def compute(self) -> None:
        """As `nnvk.Execution.compute`."""
        self.library.call("Execution_compute", self.handle)

    def get_output_operand_dimensions(self, index: int) -> tuple[int, ...]:
        """As `nnvk.Execution.get_output_operand_dimensions`."""
        rank = ctypes.c_uint32()
        self.library.call("Execution_getOutputOperandRank", self.handle, index, ctypes.byref(rank))
        dimensions = numbers([0] * rank.value)
        self.library.call("Execution_getOutputOperandDimensions", self.handle, index, dimensions)
        return tuple(dimensions)
