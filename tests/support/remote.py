"""Devices whose driver lives in another process, for tests: the reference device's, which needs no GPU."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass

from c_library import await_end

import nnvk
from nnvk.driver import process
from nnvk.driver.process.connection import Connection

SERVE = """
import socket, sys
sys.path[:] = sys.argv[2:]
from nnvk.driver import process
from nnvk.driver.cpu import CpuDevice
process.serve([CpuDevice()], "", socket.socket(fileno=int(sys.argv[1])), lambda: 0.0)
"""


def command(descriptor: int) -> list[str]:
    """A process that serves the reference device."""
    return [sys.executable, "-c", SERVE, str(descriptor), *sys.path]


@dataclass
class Remote:
    """A device, and the process that its driver lives in."""

    device: nnvk.Device

    @property
    def connection(self) -> Connection:
        """To the process that lives, or lived last."""
        driver = self.device.driver
        assert isinstance(driver, process.RemoteDevice)
        current = driver._process._current
        assert current is not None
        return current

    @property
    def pid(self) -> int:
        """The process."""
        return self.connection._process.pid

    def kill(self) -> None:
        """Kill the process; it is a zombie until somebody notices."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        await_end(pid)


def remote() -> Remote:
    """The reference device in a new process."""
    (device,), data_errors = process.find_devices(command)
    assert not data_errors
    return Remote(nnvk.Device(device))
