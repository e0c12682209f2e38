"""IDevice, IPreparedModel, IBuffer, IBurst and fenced execution: the contract between the runtime and its drivers.

The rules are those of HAL 1.3's interfaces of the same names; every method may be called from several threads at
once. Failures are raised as `NnapiError`. A driver trusts nobody: it checks models and requests itself
(`nnvk.ops.check`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, ExecuteOptions, ExecutionResult, PrepareOptions, Request


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a device runs one operation of a model, and if not, why."""

    reason: str | None = None
    """The reason why the device does not support the operation, or None."""

    def __post_init__(self) -> None:
        if self.reason == "":
            raise ValueError("the reason of a Support must be None or not empty")

    @property
    def supported(self) -> bool:
        """True where there is no reason against it."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory for the activations of one execution, in bytes."""

    arena: int
    """The bytes that are allocated for all of them, although they share memory in turns."""
    most_alive: int
    """The largest number of bytes that are needed at one time."""


class IFencedExecution(ABC):
    """An execution under way. Its fence signals when the outputs can be fetched."""

    @abstractmethod
    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait until the fence has signalled, at most ``timeout_ns`` (-1: without limit). False: not yet."""

    @abstractmethod
    def result(self) -> ExecutionResult:
        """Wait, write the outputs into the request's buffers, and say how it went. Raises `NnapiError`."""

    def export_sync_fd(self) -> int | None:
        """A sync file descriptor of the fence, which the caller owns; None where the driver has none to give."""
        return None


class IBuffer(ABC):
    """Memory of a device, allocated for operands of prepared models. It is not initialised at first."""

    @property
    @abstractmethod
    def token(self) -> int:
        """The token by which requests name the buffer; positive, and unique on the device."""

    @abstractmethod
    def copy_to(self, target: np.ndarray) -> None:
        """Copy the content to the host: as many bytes as ``target``, flat uint8, has."""

    @abstractmethod
    def copy_from(self, source: np.ndarray) -> None:
        """Replace the content by the bytes of ``source``, flat uint8."""


class IExecution(ABC):
    """A request bound to a prepared model: checked once, executed any number of times, one after the other."""

    @abstractmethod
    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        """Execute and return when the outputs are written. Raises `NnapiError`."""

    @abstractmethod
    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Start an execution that begins when all of ``wait_for`` have signalled; returns at once."""


class IBurst(ABC):
    """A lane for one execution after the other, with what they need kept ready between them."""

    @abstractmethod
    def execute(self, execution: IExecution, options: ExecuteOptions) -> ExecutionResult:
        """Execute what the same prepared model bound; not from two threads at once."""


class IPreparedModel(ABC):
    """A model made ready for one device. It may be executed any number of times, concurrently too."""

    preferred_alignment = 64
    """Bytes to which inputs and outputs in memory are best aligned; a power of 2."""
    preferred_padding = 1
    """Bytes of which the size of inputs and outputs is best a multiple; a power of 2."""

    @abstractmethod
    def create_reusable_execution(self, request: Request) -> IExecution:
        """Check a request and bind it. Raises `NnapiError`."""

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Bind a request and execute it once."""
        return self.create_reusable_execution(request).execute(options)

    def memory_bytes(self) -> Mapping[str, int]:
        """Bytes that it holds on its device, or one execution takes there, by what they are for; empty: unknown."""
        return {}

    def shared_memory(self) -> Mapping[str, int]:
        """The bytes of that part of `memory_bytes` which other prepared models use too, by a name for each piece.

        The name is the same for the same memory of a device, of which models that use it in turn need different sizes.
        """
        return {}

    def configure_execution_burst(self) -> IBurst:
        """A burst. The default one has nothing to keep ready."""
        return _PlainBurst()


class IDevice(ABC):
    """One device of a driver."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique name."""

    @property
    @abstractmethod
    def type(self) -> DeviceTypeCode:
        """Kind of device."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Version of driver and hardware, for people and for caches."""

    @property
    def feature_level(self) -> FeatureLevelCode:
        """Highest feature level that the device knows."""
        return FeatureLevelCode.LEVEL_8

    reproduces = False
    """Whether floats of a reproducible model have the bits that `nnvk.ops.reproducible` defines."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of vendor extensions."""
        return ()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """The performance that the device promises."""

    @abstractmethod
    def get_supported_operations(self, model: Model) -> list[Support]:
        """For each operation of ``model``, whether the device runs it."""

    def describe_operations(self, model: Model) -> list[str]:
        """For each operation of a model that the device runs whole how, for people; empty where that is plain."""
        return [""] * len(model.operations)

    def describe_memory(self, model: Model) -> MemoryUse | None:
        """The memory that an execution needs for activations if the device runs the whole model; None: unknown."""
        return None

    @abstractmethod
    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Make a model ready. Raises `NnapiError`: BAD_DATA for a model that is not valid or not supported."""

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Memory for an operand of ``type`` with these dimensions, all known. The default device has none to give.

        Raises OP_FAILED where the device has no memory of its own, OUT_OF_MEMORY where there is not enough.
        """
        raise NnapiError(ResultCode.OP_FAILED, f"{self.name} has no memory of its own")

    def wait(self) -> None:
        """Wait until the device is alive again after an internal error (DEAD_OBJECT); the default one always is."""
        return


class _PlainBurst(IBurst):
    def execute(self, execution: IExecution, options: ExecuteOptions) -> ExecutionResult:
        return execution.execute(options)
