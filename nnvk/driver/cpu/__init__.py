"""The CPU reference driver: runs everything, in NumPy."""

from nnvk.driver.cpu.device import CpuDevice

__all__ = ["CpuDevice"]
