"""Small models, and short ways to compile and run them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from builder import Builder

import nnvk
from nnvk import OperandCode, OperandType, OperationCode, ResultCode

F32 = OperandCode.TENSOR_FLOAT32
SQUARE = OperandType(F32, (2, 2))
FOUR = OperandType(F32, (4,))
INT = OperandType(OperandCode.INT32)
BOOL8 = OperandType(OperandCode.TENSOR_BOOL8, (1,))
COUNTER = OperandType(OperandCode.TENSOR_INT32, (1,))


def f32(*dimensions: int) -> OperandType:
    """A float32 tensor."""
    return OperandType(F32, dimensions)


@contextmanager
def raises(code: ResultCode, match: str | None = None) -> Iterator[pytest.ExceptionInfo[nnvk.NnapiError]]:
    """Expects an `NnapiError` of this code."""
    with pytest.raises(nnvk.NnapiError, match=match) as caught:
        yield caught
    assert caught.value.code is code, caught.value


def label(value: object) -> str:
    """A short name of a test's parameter, the same in every process."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{list(value.shape)}" + ("" if value.flags.c_contiguous else " with gaps")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{type(value).__name__} of {len(value)}"
    return str(value) if isinstance(value, (int, float, list, tuple, OperandType)) else type(value).__name__


def add_model(type_: OperandType = SQUARE, output: OperandType | None = None) -> nnvk.Model:
    """Output = input 0 + input 1."""
    build = Builder()
    a, b = build.operand(type_), build.operand(type_)
    return build.finish([a, b], [build.operation(OperationCode.ADD, [a, b], output or type_)])


def unary_model(
    code: OperationCode = OperationCode.RELU,
    type_: OperandType = SQUARE,
    output: OperandType | None = None,
) -> nnvk.Model:
    """Output = code(input)."""
    build = Builder()
    source = build.operand(type_)
    return build.finish([source], [build.operation(code, [source], output or type_)])


def chain_model(codes: Sequence[OperationCode], type_: OperandType = SQUARE) -> nnvk.Model:
    """One operation after the other, each with one operand."""
    build = Builder()
    source = current = build.operand(type_)
    for code in codes:
        current = build.operation(code, [current], type_)
    return build.finish([source], [current])


def increment_model(amount: float = 1.0, type_: OperandType = FOUR) -> nnvk.Model:
    """Output = input + amount."""
    build = Builder()
    source = build.operand(type_)
    addend = build.constant(type_, np.full(type_.dimensions, amount, type_.dtype))
    return build.finish([source], [build.operation(OperationCode.ADD, [source, addend], type_)])


def matrix_model(size: int = 256, products: int = 24) -> nnvk.Model:
    """Products with a square matrix, one after the other: work that takes a while."""
    build = Builder()
    type_ = f32(size, size)
    source = current = build.operand(type_)
    weights = build.constant(type_, np.eye(size, dtype=np.float32))
    bias = build.constant(f32(size), np.zeros(size, np.float32))
    for _ in range(products):
        inputs = [current, weights, bias, build.value(0)]
        current = build.operation(OperationCode.FULLY_CONNECTED, inputs, type_)
    return build.finish([source], [current])


def if_model(type_: OperandType = SQUARE) -> nnvk.Model:
    """Output = input 1 + input 2 if input 0, else their product."""
    branches = []
    for code in (OperationCode.ADD, OperationCode.MUL):
        build = Builder()
        a, b = build.operand(type_), build.operand(type_)
        branches.append(build.finish([a, b], [build.operation(code, [a, b], type_)]))
    build = Builder()
    condition, a, b = build.operand(BOOL8), build.operand(type_), build.operand(type_)
    inputs = [condition, *(build.reference(branch) for branch in branches), a, b]
    return build.finish([condition, a, b], [build.operation(OperationCode.IF, inputs, type_)])


def while_model(type_: OperandType = FOUR, *, endless: bool = False) -> nnvk.Model:
    """Output = input 1, doubled input 0 (an INT32 of shape [1]) times; or for ever."""
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(type_)
    limit = build.constant(COUNTER, np.array([0], np.int32))
    code = OperationCode.GREATER_EQUAL if endless else OperationCode.GREATER
    condition = build.finish([counter, state], [build.operation(code, [counter, limit], BOOL8)])
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(type_)
    one = build.constant(COUNTER, np.array([0 if endless else 1], np.int32))
    less = build.operation(OperationCode.SUB, [counter, one], COUNTER)
    doubled = build.operation(OperationCode.ADD, [state, state], type_)
    body = build.finish([counter, state], [less, doubled])
    build = Builder()
    counter, state = build.operand(COUNTER), build.operand(type_)
    inputs = [build.reference(condition), build.reference(body), counter, state]
    _, result = build.outputs(OperationCode.WHILE, inputs, COUNTER, type_)
    return build.finish([counter, state], [result])


def compiled(model: nnvk.Model, *devices: nnvk.Device) -> nnvk.Compilation:
    """A finished compilation, for all devices where none is named."""
    compilation = nnvk.Compilation(model, list(devices) or None)
    compilation.finish()
    return compilation


def execution(
    compilation: nnvk.Compilation, inputs: Sequence[Any], outputs: Sequence[Any], *, reusable: bool = False
) -> nnvk.Execution:
    """An execution with its arguments: arrays, or memories."""
    made = nnvk.Execution(compilation)
    if reusable:
        made.set_reusable(True)
    for index, source in enumerate(inputs):
        if isinstance(source, nnvk.Memory):
            made.set_input_from_memory(index, source, 0, 0 if isinstance(source, nnvk.DeviceMemory) else source.size)
        else:
            made.set_input(index, source)
    for index, target in enumerate(outputs):
        if isinstance(target, nnvk.Memory):
            made.set_output_from_memory(index, target, 0, 0 if isinstance(target, nnvk.DeviceMemory) else target.size)
        else:
            made.set_output(index, target)
    return made


def added(device: nnvk.Device, *, reusable: bool = False) -> tuple[nnvk.Execution, np.ndarray]:
    """A ready execution of `add_model` on 1 + 2, and its output, now -1."""
    output = np.full((2, 2), -1, np.float32)
    inputs = [np.full((2, 2), 1, np.float32), np.full((2, 2), 2, np.float32)]
    return execution(compiled(add_model(), device), inputs, [output], reusable=reusable), output


def device_memory(
    inputs: Sequence[tuple[nnvk.Compilation, int]] = (),
    outputs: Sequence[tuple[nnvk.Compilation, int]] = (),
    dimensions: Sequence[int] = (),
) -> nnvk.DeviceMemory:
    """Memory for these roles."""
    desc = nnvk.MemoryDesc()
    for compilation, index in inputs:
        desc.add_input_role(compilation, index)
    for compilation, index in outputs:
        desc.add_output_role(compilation, index)
    if dimensions:
        desc.set_dimensions(dimensions)
    desc.finish()
    memory = nnvk.Memory.create_from_desc(desc)
    assert isinstance(memory, nnvk.DeviceMemory)
    return memory


def updated_memory(compilation: nnvk.Compilation, *pairs: tuple[int, int]) -> nnvk.DeviceMemory:
    """Memory with update roles: pairs of an input and an output."""
    desc = nnvk.MemoryDesc()
    for source, target in pairs:
        desc.add_update_role(compilation, source, target)
    desc.finish()
    memory = nnvk.Memory.create_from_desc(desc)
    assert isinstance(memory, nnvk.DeviceMemory)
    return memory


def shared_memory(content: np.ndarray | int) -> nnvk.Memory:
    """Shared memory with these bytes, or of this size."""
    size = content if isinstance(content, int) else content.nbytes
    buffer = nnvk.HardwareBuffer(size)
    if not isinstance(content, int):
        buffer.lock()[:] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    return nnvk.Memory.create_from_hardware_buffer(buffer)


class Pipe:
    """A fence of somebody else: a pipe that signals when its other end is closed."""

    def __init__(self) -> None:
        self.readable, self._writable = os.pipe()
        self.event = nnvk.Event.create_from_sync_fence_fd(self.readable)

    def signal(self) -> None:
        """Signal, once or again."""
        if self._writable >= 0:
            os.close(self._writable)
            self._writable = -1

    def __del__(self) -> None:
        self.signal()
        os.close(self.readable)


def is_signalled(descriptor: int, timeout_s: float = 0) -> bool:
    """Whether a sync fence signals in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
