"""The driver interface (HAL 1.3): what the runtime asks of a device, and nothing about how it is done."""

from nnvk.hal.device import IDevice, IFencedExecution, IPreparedModel, Support

__all__ = ["IDevice", "IFencedExecution", "IPreparedModel", "Support"]
