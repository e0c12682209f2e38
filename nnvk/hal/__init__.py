"""The driver interface (HAL 1.3): what the runtime asks of a device, and nothing about how it is done."""

from nnvk.hal.deferred import DeferredExecution, FinishedExecution, in_background
from nnvk.hal.detached_work import expect_detached_work, leave_detached_work, settle_detached_work
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
    "expect_detached_work",
    "in_background",
    "leave_detached_work",
    "settle_detached_work",
]
