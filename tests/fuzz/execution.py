"""Executions of the fuzzer: bounded in time and size, and what comes of them in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnvk.api import Compilation, Device, Execution, Model, NnapiError, get_device
from nnvk.types.codes import DeviceTypeCode, OperandCode
from nnvk.types.operand import OperandType

LOOP_NS = 50_000_000
"""How long a WHILE may take."""
MOST_ELEMENTS = 1 << 20
"""A small model has operands of at most so many elements: the fuzzer looks for broken rules, not for full memory."""
LARGE = range(1 << 28, 1 << 36)
"""Bytes of all operands that a device may well have room for, some times over, and the fuzzer's process has not."""
OPEN_BYTES = 1 << 16
"""Buffer of an output whose size is open."""


def devices_for(device: Device) -> list[Device]:
    """Return the devices to compile for: a GPU leaves the rest to the reference device."""
    if device.type is DeviceTypeCode.CPU:
        return [device]
    return [device, get_device("nnapi-reference")]


def compile_and_run(model: Model, devices: Sequence[Device], inputs: Sequence[np.ndarray | None]) -> str:
    """Compile a finished model and compute it. Says how far that got; raises what is a bug."""
    types = [operand.type for operand in model.frozen.operands]
    if sum(type_.size for type_ in types if type_.code is not OperandCode.MODEL) in LARGE:
        return "finished: too large to compute"
    try:
        compilation = Compilation(model, devices)
        compilation.finish()
    except NnapiError as error:
        return f"refused by the device: {error}"
    try:
        compute(compilation, inputs)
    except NnapiError as error:
        return f"refused at execution: {error}"
    return f"executed: {' '.join(sorted({str(operation) for operation in model.frozen.operations}))}"


def compute(compilation: Compilation, inputs: Sequence[np.ndarray | None]) -> None:
    """One execution."""
    execution = Execution(compilation)
    execution.set_loop_timeout(LOOP_NS)
    for index, value in enumerate(inputs):
        execution.set_input(index, value)
    for index, type_ in enumerate(compilation.model.output_types()):
        execution.set_output(index, np.empty(type_.size or OPEN_BYTES, np.uint8))
    execution.compute()


def is_small(types: Sequence[OperandType]) -> bool:
    """Whether values of these types are worth their memory."""
    return all(type_.size <= 4 * MOST_ELEMENTS for type_ in types if type_.code is not OperandCode.MODEL)
