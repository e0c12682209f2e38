"""Drivers around drivers: they refuse operations, fail on demand, or count what they are asked for.

A decorated device is one more device to the runtime: ``nnvk.Device(Refusing(driver, seed))``. With a driver that
runs everything beside it, a model is cut into parts; with the seed, into other parts.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Sequence

from nnvk.hal import (
    DeferredExecution,
    IBuffer,
    IBurst,
    IDevice,
    IExecution,
    IFencedExecution,
    IPreparedModel,
    Support,
)
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.model import Model, Operation
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, ExecuteOptions, ExecutionResult, PrepareOptions, Request

_numbers = itertools.count()


class Decorated(IDevice):
    """Hands everything on to another driver, under a name of its own."""

    def __init__(self, inner: IDevice, name: str = "") -> None:
        self.inner = inner
        self._name = name or f"{type(self).__name__.lower()}-{next(_numbers)}"
        self.prepared: list[Model] = []
        """The models that it has been asked to prepare."""
        self.executions = 0
        """How many executions it has been asked for."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> DeviceTypeCode:
        return DeviceTypeCode.ACCELERATOR

    @property
    def version(self) -> str:
        return self.inner.version

    @property
    def feature_level(self) -> FeatureLevelCode:
        return self.inner.feature_level

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def get_supported_operations(self, model: Model) -> list[Support]:
        return self.inner.get_supported_operations(model)

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        self.prepared.append(model)
        return _Prepared(self, self.inner.prepare_model(model, options))

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        return self.inner.allocate(type, dimensions)

    def before_execution(self) -> None:
        """Called before each execution; what it raises is the execution's end."""
        self.executions += 1


class _Prepared(IPreparedModel):
    def __init__(self, device: Decorated, inner: IPreparedModel) -> None:
        self._device = device
        self._inner = inner

    def create_reusable_execution(self, request: Request) -> IExecution:
        return _Execution(self._device, self._inner.create_reusable_execution(request))

    def configure_execution_burst(self) -> IBurst:
        return _Burst()


class _Execution(IExecution):
    def __init__(self, device: Decorated, inner: IExecution) -> None:
        self._device = device
        self._inner = inner

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        self._device.before_execution()
        return self._inner.execute(options)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)


class _Burst(IBurst):
    def execute(self, execution: IExecution, options: ExecuteOptions) -> ExecutionResult:
        return execution.execute(options)


class Refusing(Decorated):
    """Refuses about one operation in ``one_in``, by a hash of the operation and a seed.

    An operation has the same hash wherever it stands, so that what was supported in a model is in a part of it.
    """

    def __init__(self, inner: IDevice, seed: int, one_in: float = 2.0, name: str = "") -> None:
        super().__init__(inner, name)
        self._seed = seed
        self._share = 1 / one_in

    def get_supported_operations(self, model: Model) -> list[Support]:
        return [
            Support("the hash says no") if not support.reason and self._refuses(model, operation) else support
            for operation, support in zip(model.operations, self.inner.get_supported_operations(model), strict=True)
        ]

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        refused = [str(operation) for operation in model.operations if self._refuses(model, operation)]
        assert not refused, f"{self.name} has refused {refused} and is asked to prepare them"
        return super().prepare_model(model, options)

    def _refuses(self, model: Model, operation: Operation) -> bool:
        digest = hashlib.sha256(f"{self._seed} {operation}".encode())
        for index in (*operation.inputs, *operation.outputs):
            operand = model.operands[index]
            digest.update(str(operand.type).encode())
            if operand.value is not None:
                digest.update(operand.value.tobytes())
        return int.from_bytes(digest.digest()[:4], "big") < self._share * 2**32


class Failing(Decorated):
    """Fails to prepare, to bind or to execute: ``fail`` maps these words to what makes the error."""

    def __init__(self, inner: IDevice, name: str = "", **fail: Callable[[], BaseException]) -> None:
        super().__init__(inner, name)
        self.fail = fail

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        prepared = super().prepare_model(model, options)
        self._maybe("prepare")
        return _FailingPrepared(self, prepared) if "bind" in self.fail else prepared

    def before_execution(self) -> None:
        super().before_execution()
        self._maybe("execute")

    def _maybe(self, word: str) -> None:
        if word in self.fail:
            raise self.fail[word]()


class _FailingPrepared(_Prepared):
    def create_reusable_execution(self, request: Request) -> IExecution:
        raise self._device.fail["bind"]()
