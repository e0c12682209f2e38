"""The driver interface (HAL 1.3): what the runtime asks of a device, and nothing about how it is done."""

from nnvk.hal.deferred import DeferredExecution, FinishedExecution, in_background
from nnvk.hal.device import IBuffer, IBurst, IDevice, IExecution, IFencedExecution, IPreparedModel, MemoryUse, Support
from nnvk.hal.dropped import expect_dropped, leave_dropped, settle_dropped

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
    "expect_dropped",
    "in_background",
    "leave_dropped",
    "settle_dropped",
]
