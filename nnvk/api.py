"""The composition root: hands the drivers to the runtime and gathers the public names."""

from __future__ import annotations

import math
import multiprocessing.spawn
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points

import numpy as np

from nnvk.base import log
from nnvk.base.checks import instance
from nnvk.base.errors import NnapiError, ResultCode, VerificationError
from nnvk.base.log import logger
from nnvk.base.settings import settings
from nnvk.driver import process
from nnvk.driver.cpu import CpuDevice
from nnvk.driver.vulkan import Enumeration, check_settings, enumerate_all, find_devices, longest_call_s
from nnvk.hal import IDevice
from nnvk.runtime.burst import Burst
from nnvk.runtime.compilation import Compilation
from nnvk.runtime.device_memory import DeviceMemory, MemoryDesc
from nnvk.runtime.devices import (
    Device,
    get_default_loop_timeout,
    get_device,
    get_devices,
    get_maximum_loop_timeout,
    get_runtime_feature_level,
    manager,
    unavailable,
)
from nnvk.runtime.event import Event
from nnvk.runtime.execution import Execution
from nnvk.runtime.execution_plan import Partition
from nnvk.runtime.inputs import Inputs, as_array, in_order, is_array
from nnvk.runtime.memory import HardwareBuffer, Memory
from nnvk.runtime.model import Model
from nnvk.runtime.verification import Stats, stats
from nnvk.types.codes import (
    DeviceTypeCode,
    DurationCode,
    FeatureLevelCode,
    FuseCode,
    OperandCode,
    OperationCode,
    PaddingCode,
    PreferenceCode,
    PriorityCode,
)
from nnvk.types.extension import EXTENSION, ExtendedOperationCode
from nnvk.types.operand import OperandType

__all__ = [
    "EXTENSION",
    "Burst",
    "Compilation",
    "Device",
    "DeviceMemory",
    "DeviceTypeCode",
    "DurationCode",
    "Event",
    "Execution",
    "ExtendedOperationCode",
    "FeatureLevelCode",
    "FuseCode",
    "HardwareBuffer",
    "Memory",
    "MemoryDesc",
    "Model",
    "NnapiError",
    "OperandCode",
    "OperandType",
    "OperationCode",
    "PaddingCode",
    "Partition",
    "PreferenceCode",
    "PriorityCode",
    "ResultCode",
    "Stats",
    "VerificationError",
    "get_default_loop_timeout",
    "get_device",
    "get_devices",
    "get_maximum_loop_timeout",
    "get_runtime_feature_level",
    "run",
    "stats",
    "unavailable",
]

_log = logger("manager")
PLUGINS = "nnvk.drivers"
"""Entry point group of third-party drivers: each names an object that, called, returns `nnvk.hal.IDevice` objects."""


_HIDDEN = "Vulkan is switched off by NNVK_VULKAN=0"


def _vulkan() -> tuple[Sequence[IDevice], str]:
    if not settings().vulkan:
        return (), _HIDDEN
    if settings().driver_process:
        check_settings()  # the other process could only say that it ends
        return process.find_devices(driver_command)
    return find_devices()


def enumerate_vulkan() -> Enumeration:
    """Everything that Vulkan has on this machine, and what keeps parts of it from being used."""
    return enumerate_all("" if settings().vulkan else _HIDDEN)


def driver_command(descriptor: int) -> list[str]:
    """The command of the Vulkan driver's own process: this Python, with modules from where this process has them."""
    script = "import sys; sys.path[:] = sys.argv[2:]; from nnvk.api import serve_vulkan; serve_vulkan(int(sys.argv[1]))"
    return [os.fsdecode(multiprocessing.spawn.get_executable()), "-c", script, str(descriptor), *map(str, sys.path)]


def serve_vulkan(descriptor: int) -> None:
    """Serve the Vulkan devices to the process at the other end of a socket, until that ends."""
    with socket.socket(fileno=descriptor) as control:
        process.serve(*find_devices(), control, longest_call_s)


def _plugins() -> tuple[Sequence[IDevice], str]:
    """Devices of other packages' drivers: what the objects give that their entry points name, called."""
    devices: list[IDevice] = []
    failures: list[str] = []
    for plugin in sorted(entry_points(group=PLUGINS), key=lambda plugin: plugin.name):
        try:
            devices += _devices_of(plugin)
        except Exception as error:  # whatever it is, it is not nnvk's to break on
            _log.warning("driver %s fails", plugin.name, exc_info=error)
            failures.append(f"driver {plugin.name} ({plugin.value}) fails: {type(error).__name__}: {error}")
    return devices, "; ".join(failures)


def _devices_of(plugin: EntryPoint) -> list[IDevice]:
    found = list(plugin.load()())
    for device in found:
        if not isinstance(device, IDevice):
            raise TypeError(f"it gives {device!r}, which is no nnvk.hal.IDevice")
        if not isinstance(device.name, str) or not device.name:
            raise ValueError(f"a device of it has the name {device.name!r}")
    return found


def _cpu() -> tuple[Sequence[IDevice], str]:
    return (CpuDevice(),), ""


with suppress(ValueError):  # of a bad environment variable, which the first use of a setting raises again
    log.configure()
manager.install([_vulkan, _plugins, _cpu])


def run(compilation: Compilation, inputs: Inputs) -> list[np.ndarray]:
    """Compute once and return the outputs, whatever their shapes turn out to be.

    A convenience over `Execution` with the arrays allocated for the caller. ``inputs`` are in the model's order, or by
    the names that `Model.name_inputs` or an importer has given them. Each is an array, of NumPy or of a package whose
    arrays `numpy.asarray` or DLPack takes, or what `Execution.set_input` takes, and may have any strides. Raises what
    `Execution.compute` raises, and BAD_DATA for inputs that can't be told.
    """
    instance("the compilation", compilation, Compilation)
    given = [
        as_array(value, f"input {index}") if is_array(value) else value
        for index, value in enumerate(in_order(inputs, compilation.model.input_names, "run"))
    ]
    types = compilation.model.output_types()
    arrays = [np.empty(type_.dimensions if type_.is_fully_specified else 0, type_.dtype) for type_ in types]
    while True:
        execution = Execution(compilation)
        for index, value in enumerate(given):
            execution.set_input(index, value)
        for index, array in enumerate(arrays):
            execution.set_output(index, array)
        try:
            execution.compute()
        except NnapiError as error:
            if error.code is not ResultCode.OUTPUT_INSUFFICIENT_SIZE:
                raise
            shapes = _output_shapes(execution, types)
            arrays = [np.empty(shape, type_.dtype) for shape, type_ in zip(shapes, types, strict=True)]
            continue
        return [
            array.reshape(-1)[: math.prod(shape)].reshape(shape)
            for array, shape in zip(arrays, _output_shapes(execution, types), strict=True)
        ]


def _output_shapes(execution: Execution, types: Sequence[OperandType]) -> list[tuple[int, ...]]:
    """Shapes of the outputs, that of scalars ()."""
    return [
        execution.get_output_operand_dimensions(index) if type_.is_tensor else () for index, type_ in enumerate(types)
    ]
