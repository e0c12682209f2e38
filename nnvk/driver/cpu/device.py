"""The reference device ``nnapi-reference``: every operation by its NumPy reference."""

from __future__ import annotations

import itertools
import math
import time
import weakref
from collections.abc import Sequence

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.cpu.executor import run
from nnvk.hal import DeferredExecution, IBuffer, IDevice, IExecution, IFencedExecution, IPreparedModel, Support
from nnvk.ops import functions, registry
from nnvk.ops.check import validate_model, validate_request
from nnvk.ops.flow import Clock
from nnvk.types.codes import DeviceTypeCode
from nnvk.types.extension import EXTENSION
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import (
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputShape,
    PrepareOptions,
    Request,
    Timing,
)


class CpuBuffer(IBuffer):
    """Device memory of a device that computes in the host's memory: an array."""

    def __init__(self, token: int, nbytes: int) -> None:
        self._token = token
        self.data = np.zeros(nbytes, np.uint8)

    @property
    def token(self) -> int:
        """The number that requests name it by."""
        return self._token

    def copy_to(self, target: np.ndarray) -> None:
        """Copy out."""
        target[:] = self.data[: target.nbytes]

    def copy_from(self, source: np.ndarray) -> None:
        """Copy in."""
        self.data[: source.nbytes] = source


class CpuDevice(IDevice):
    """Runs every operation. NumPy decides how many threads a product uses."""

    name = "nnapi-reference"
    type = DeviceTypeCode.CPU
    version = f"numpy {np.__version__}"
    capabilities = Capabilities()
    extensions = (EXTENSION,)
    reproduces = True

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._buffers: weakref.WeakValueDictionary[int, CpuBuffer] = weakref.WeakValueDictionary()

    def get_supported_operations(self, model: Model) -> list[Support]:
        """Operations that are defined, or that a function in Python computes, are supported."""
        defined = registry.definitions()
        return [
            Support(
                None
                if operation.code in defined or functions.has(operation.code)
                else f"{operation} is no operation of NNAPI or nnvk's extension, and no function computes it"
            )
            for operation in model.operations
        ]

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Nothing to prepare: references take their parameters from the model."""
        validate_model(model)
        for number, (operation, support) in enumerate(
            zip(model.operations, self.get_supported_operations(model), strict=True)
        ):
            if not support.supported:
                raise bad_data(f"operation {number} ({operation}) is not supported: {support.reason}")
        return _PreparedModel(self, model)

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Memory of the host."""
        nbytes = type.with_dimensions(dimensions).size
        try:
            buffer = CpuBuffer(next(self._tokens), nbytes)
        except MemoryError as error:
            raise NnapiError(ResultCode.OUT_OF_MEMORY, f"{self.name}: {nbytes} bytes: {error}") from error
        self._buffers[buffer.token] = buffer
        return buffer

    def buffer(self, token: int) -> CpuBuffer:
        """The buffer of a token; BAD_DATA where there is none."""
        found = self._buffers.get(token)
        if found is None:
            raise bad_data(f"{self.name} has no buffer {token}")
        return found


class _PreparedModel(IPreparedModel):
    def __init__(self, device: CpuDevice, model: Model) -> None:
        self._device = device
        self._model = model

    def create_reusable_execution(self, request: Request) -> IExecution:
        validate_request(self._model, request)
        return _Execution(self._device, self._model, request)


class _Execution(IExecution):
    def __init__(self, device: CpuDevice, model: Model, request: Request) -> None:
        self._model = model
        self._inputs = [
            _source(device, f"input {position}", argument, type_)
            for position, (argument, type_) in enumerate(zip(request.inputs, model.input_types(), strict=True))
        ]
        self._outputs = [
            device.buffer(argument.token).data if argument.token else argument.buffer for argument in request.outputs
        ]
        self._updates_input = any(argument.updates_input for argument in request.outputs)

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        began = time.perf_counter_ns()
        # NaN and infinity are results, as on any device.
        with np.errstate(all="ignore"), registry.at_execution():
            arrays = run(self._model, self._inputs, Clock(options.deadline_ns, options.loop_timeout_ns))
        computed = time.perf_counter_ns()
        shapes = tuple(
            OutputShape(array.shape, buffer is None or buffer.nbytes >= array.nbytes)
            for array, buffer in zip(arrays, self._outputs, strict=True)
        )
        if not all(shape.is_sufficient for shape in shapes):
            return ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, shapes)
        if self._updates_input:
            arrays = [np.array(array) for array in arrays]  # some may be views of an input that changes now
        for array, buffer in zip(arrays, self._outputs, strict=True):
            if buffer is not None and array.nbytes:
                buffer[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        timing = Timing(computed - began, time.perf_counter_ns() - began) if options.measure else Timing()
        return ExecutionResult(ResultCode.NO_ERROR, shapes, timing)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)


def _source(device: CpuDevice, what: str, argument: InputArgument, type_: OperandType) -> np.ndarray | None:
    if not argument.token:
        return argument.array
    data = device.buffer(argument.token).data
    nbytes = math.prod(argument.dimensions) * type_.dtype.itemsize
    if nbytes > data.nbytes:
        raise bad_data(f"{what} takes {nbytes} bytes, buffer {argument.token} has {data.nbytes}")
    return data[:nbytes].view(type_.dtype).reshape(argument.dimensions)
