"""IDevice, IPreparedModel and fenced execution: the contract between the runtime and its drivers.

The rules are those of HAL 1.3's ``IDevice`` and ``IPreparedModel``; every method may be called from several
threads at once. Failures are raised as `NnapiError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.model import Model
from nnvk.types.request import Capabilities, ExecuteOptions, ExecutionResult, PrepareOptions, Request


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a device runs one operation of a model, and if not, why."""

    reason: str = ""

    @property
    def supported(self) -> bool:
        """True where there is no reason against it."""
        return not self.reason


class IFencedExecution(ABC):
    """An execution under way. Its fence signals when the outputs can be fetched."""

    @abstractmethod
    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait until the fence has signalled, at most ``timeout_ns`` (-1: without limit). False: not yet."""

    @abstractmethod
    def result(self) -> ExecutionResult:
        """Wait, write the outputs into the request's buffers, and say how it went. Raises `NnapiError`."""


class IPreparedModel(ABC):
    """A model made ready for one device. It may be executed any number of times, concurrently too."""

    @abstractmethod
    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Execute and return when the outputs are written. Raises `NnapiError`."""

    @abstractmethod
    def execute_fenced(
        self, request: Request, wait_for: Sequence[IFencedExecution], options: ExecuteOptions
    ) -> IFencedExecution:
        """Start an execution that begins when all of ``wait_for`` have signalled; returns at once."""


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

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of vendor extensions."""
        return ()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the device promises."""

    @abstractmethod
    def get_supported_operations(self, model: Model) -> list[Support]:
        """For each operation of ``model``, whether the device runs it."""

    @abstractmethod
    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Make a model ready. Raises `NnapiError`: BAD_DATA for a model that is not valid or not supported."""
