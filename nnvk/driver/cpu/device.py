"""The reference device ``nnapi-reference``: every operation by its NumPy reference."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

import numpy as np

from nnvk.base.errors import ResultCode
from nnvk.driver.cpu.executor import Clock, run
from nnvk.hal import IDevice, IFencedExecution, IPreparedModel, Support
from nnvk.ops import registry
from nnvk.types.codes import DeviceTypeCode
from nnvk.types.model import Model
from nnvk.types.request import (
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    OutputShape,
    PrepareOptions,
    Request,
    Timing,
)


class CpuDevice(IDevice):
    """Runs every operation that has a reference. NumPy decides how many threads a product uses."""

    name = "nnapi-reference"
    type = DeviceTypeCode.CPU
    version = f"numpy {np.__version__}"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(thread_name_prefix=self.name)

    def get_supported_operations(self, model: Model) -> list[Support]:
        """Supported is what is defined."""
        defined = registry.definitions()
        return [
            Support("" if operation.code in defined else f"{operation} is not defined")
            for operation in model.operations
        ]

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Nothing to prepare: references take their parameters from the model."""
        for operation in model.operations:
            registry.lookup(operation.code)
        return _PreparedModel(model, self._workers)


class _PreparedModel(IPreparedModel):
    def __init__(self, model: Model, workers: ThreadPoolExecutor) -> None:
        self._model = model
        self._workers = workers

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        began = time.perf_counter_ns()
        inputs = [argument.array for argument in request.inputs]
        with np.errstate(all="ignore"):  # NaN and infinity are results, as on any device
            arrays = run(self._model, inputs, Clock(options.deadline_ns, options.loop_timeout_ns))
        computed = time.perf_counter_ns()
        shapes = []
        for array, argument in zip(arrays, request.outputs, strict=True):
            room = array.nbytes if argument.buffer is None else argument.buffer.nbytes
            shapes.append(OutputShape(array.shape, room >= array.nbytes))
        if not all(shape.is_sufficient for shape in shapes):
            return ExecutionResult(ResultCode.OUTPUT_INSUFFICIENT_SIZE, tuple(shapes))
        for array, argument in zip(arrays, request.outputs, strict=True):
            if argument.buffer is not None and array.nbytes:
                argument.buffer[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        timing = Timing(computed - began, time.perf_counter_ns() - began) if options.measure else Timing()
        return ExecutionResult(ResultCode.NO_ERROR, tuple(shapes), timing)

    def execute_fenced(
        self, request: Request, wait_for: Sequence[IFencedExecution], options: ExecuteOptions
    ) -> IFencedExecution:
        dependencies = tuple(wait_for)

        def work() -> ExecutionResult:
            for dependency in dependencies:
                dependency.wait()
            return self.execute(request, options)

        return _FencedExecution(self._workers.submit(work))


class _FencedExecution(IFencedExecution):
    def __init__(self, future: Future[ExecutionResult]) -> None:
        self._future = future

    def wait(self, timeout_ns: int = -1) -> bool:
        try:
            self._future.exception(None if timeout_ns < 0 else timeout_ns / 1e9)
        except FutureTimeout:
            return False
        return True

    def result(self) -> ExecutionResult:
        return self._future.result()
