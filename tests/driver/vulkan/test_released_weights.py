"""Weights are free as soon as nobody has the compiled model: nothing waits for the collector of cycles."""

from __future__ import annotations

import gc
import mmap
import weakref

import numpy as np
import pytest

import nnvk
from nnvk.api import Compilation, Model, OperandCode, OperandType, OperationCode, get_device
from nnvk.base.settings import override

VULKAN = [device.name for device in nnvk.get_devices() if device.name.startswith("vulkan")]


class Weights(mmap.mmap):
    """Memory that a weak reference can watch."""


@pytest.mark.parametrize(("rows", "outputs", "depth"), [(1, 256, 256), (67, 131, 129), (64, 64, 64)])
@pytest.mark.parametrize("device", VULKAN)
def test_weights_are_released(device: str, rows: int, outputs: int, depth: int) -> None:
    memory = Weights(-1, 4 * outputs * depth)
    watched = weakref.ref(memory)
    model = Model()
    for shape in ((rows, depth), (outputs, depth), (outputs,)):
        model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, shape))
    model.add_operand(OperandType(OperandCode.INT32))
    model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, (rows, outputs)))
    model.set_operand_value(1, np.frombuffer(memory, np.float32).reshape(outputs, depth))
    model.set_operand_value(2, np.zeros(outputs, np.float32))
    model.set_operand_value(3, 0)
    model.add_operation(OperationCode.FULLY_CONNECTED, [0, 1, 2, 3], [4])
    model.identify_inputs_and_outputs([0], [4])
    model.finish()
    gc.collect()
    gc.disable()
    try:
        compilation = Compilation(model, [get_device(device)])
        with override(verify_graph=0):  # the checks of passes have cycles of their own
            compilation.finish()
        nnvk.run(compilation, [np.ones((rows, depth), np.float32)])
        del compilation, model, memory
        assert watched() is None
    finally:
        gc.enable()
