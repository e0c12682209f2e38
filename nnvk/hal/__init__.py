"""The driver interface (HAL 1.3): what the runtime asks of a device, and nothing about how it is done."""

from nnvk.hal.deferred import DeferredExecution, FinishedExecution
from nnvk.hal.device import IBuffer, IBurst, IDevice, IExecution, IFencedExecution, IPreparedModel, MemoryUse, Support

__all__ = [
    "DeferredExecution",
    "FinishedExecution",
    "IBuffer",
    "IBurst",
    "IDevice",
    "IExecution",
    "IFencedExecution",
    "IPreparedModel",
    "MemoryUse",
    "Support",
]
