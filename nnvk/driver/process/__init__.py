"""A driver in a process of its own: devices of another driver, whose crash does not take this process along.

`find_devices` gives the devices, as this process sees them; `serve` is the other process's side.
"""

from nnvk.driver.process.device import RemoteDevice, find_devices
from nnvk.driver.process.host import serve

__all__ = ["RemoteDevice", "find_devices", "serve"]
