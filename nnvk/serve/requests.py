"""Handlers of requests that a row of the table can't describe: arguments, computations, descriptors."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

from nnvk.api import (
    Burst,
    Compilation,
    Event,
    Execution,
    Memory,
    Model,
    NnapiError,
    OperandType,
    ResultCode,
    get_devices,
)
from nnvk.base.lanes import OK, SUCCESS, Handler, Reply, Session, failure
from nnvk.base.packets import Descriptors, Reader, Writer
from nnvk.serve.function_rows import operand_type, table_handlers
from nnvk.serve.protocol import Request
from nnvk.types.codes import BYTE_SIZE_OF_CACHE_TOKEN

_SMALL = failure(NnapiError(ResultCode.OUTPUT_INSUFFICIENT_SIZE, "the output's buffer is too small"))


class _Served(Execution):
    """An execution, and what the library has to know of its outputs."""

    def __init__(self, compilation: Compilation) -> None:
        super().__init__(compilation)
        self.types = compilation.model.output_types()
        self.capacities: list[int | None] = [None] * len(self.types)
        """Bytes of the outputs' buffers; None for those that are not wanted or lie in device memory."""
        self.is_exact = all(type_.is_fully_specified for type_ in self.types)
        """The outputs fill their buffers."""

    def output_size(self, index: int) -> int:
        """Bytes of an output of the last computation."""
        type_ = self.types[index]
        return type_.with_dimensions(self.get_output_operand_dimensions(index)).size if type_.is_tensor else type_.size

    def is_small(self, index: int) -> bool:
        """Whether an output of the last computation was larger than its buffer."""
        capacity = self.capacities[index]
        return capacity is not None and self.output_size(index) > capacity


# --- models and executions -----------------------------------------------------------------------------------------


def _set_scales(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    model, index, dimension, scales = session.get(reader.u64(), Model), reader.i32(), reader.u32(), reader.f32s()
    reader.end()
    model.set_operand_symm_per_channel_quant_params(index, dimension, scales)
    return OK


def _create_execution(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    compilation, number = session.get(reader.u64(), Compilation), reader.u64()
    reader.end()
    session.put(number, _Served(compilation))
    return OK


def _enable_padding(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, enable = session.get(reader.u64(), _Served), bool(reader.u8())
    reader.end()
    execution.enable_input_and_output_padding(enable)
    execution.is_exact = not enable and all(type_.is_fully_specified for type_ in execution.types)
    return OK


def _set_input(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index, given = _argument(session, reader)
    buffer = _buffer(session, reader)
    execution.set_input(index, buffer, _given(execution.compilation.model.input_types(), index, given))
    return OK


def _set_output(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index, given = _argument(session, reader)
    buffer = _buffer(session, reader)
    execution.set_output(index, buffer, _given(execution.types, index, given))
    execution.capacities[index] = None if buffer is None else len(buffer)
    return OK


def _set_input_from_memory(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index, given = _argument(session, reader)
    memory, offset, length = _place(session, reader)
    type_ = _given(execution.compilation.model.input_types(), index, given)
    execution.set_input_from_memory(index, memory, offset, length, type_)
    return OK


def _set_output_from_memory(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index, given = _argument(session, reader)
    memory, offset, length = _place(session, reader)
    execution.set_output_from_memory(index, memory, offset, length, _given(execution.types, index, given))
    execution.capacities[index] = length or None
    return OK


def _argument(session: Session, reader: Reader) -> tuple[_Served, int, OperandType | None]:
    return session.get(reader.u64(), _Served), reader.i32(), operand_type(reader)


def _buffer(session: Session, reader: Reader) -> memoryview | None:
    """A part of a segment; None for what is omitted."""
    is_there, segment, offset, length = reader.u8(), reader.u32(), reader.u64(), reader.u64()
    reader.end()
    return session.segment(segment, offset, length) if is_there else None


def _place(session: Session, reader: Reader) -> tuple[Memory, int, int]:
    memory, offset, length = session.get(reader.u64(), Memory), reader.u64(), reader.u64()
    reader.end()
    return memory, offset, length


def _given(types: Sequence[OperandType], index: int, given: OperandType | None) -> OperandType | None:
    """The model's type with the given dimensions, which are all that counts of a given type."""
    if given is None or not 0 <= index < len(types):
        return given
    given.check(f"operand {index}")
    return types[index].with_dimensions(given.dimensions)


def _output_rank(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index = session.get(reader.u64(), _Served), reader.i32()
    reader.end()
    rank = execution.get_output_operand_rank(index)
    return Reply((_SMALL if execution.is_small(index) else SUCCESS) + struct.pack("<I", rank))


def _output_dimensions(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, index = session.get(reader.u64(), _Served), reader.i32()
    reader.end()
    shape = execution.get_output_operand_dimensions(index)
    return Reply((_SMALL if execution.is_small(index) else SUCCESS) + struct.pack(f"<{len(shape)}I", *shape))


def _set_caching(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    compilation, folder = session.get(reader.u64(), Compilation), reader.string()
    token = bytes(reader.bytes(BYTE_SIZE_OF_CACHE_TOKEN))
    reader.end()
    compilation.set_caching(folder, token)
    return OK


# --- computations --------------------------------------------------------------------------------------------------


def _compute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution = session.get(reader.u64(), _Served)
    reader.end()
    return Reply(_outcome(execution, execution.compute))


def _burst_compute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, burst = session.get(reader.u64(), _Served), session.get(reader.u64(), Burst)
    reader.end()
    return Reply(_outcome(execution, lambda: execution.burst_compute(burst)))


def _start_compute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, number = session.get(reader.u64(), _Served), reader.u64()
    reader.end()
    return _started(session, number, execution, execution.start_compute())


def _start_compute_with_dependencies(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, number, duration = session.get(reader.u64(), _Served), reader.u64(), reader.u64()
    dependencies = [session.get(event, Event) for event in reader.u64s()]
    is_gated = reader.u8()
    reader.end()
    if is_gated:  # the library opens the gate once the inputs are where the server finds them
        dependencies.append(_fence(descriptors))
    return _started(session, number, execution, execution.start_compute_with_dependencies(dependencies, duration))


def _started(session: Session, number: int, execution: _Served, event: Event) -> Reply:
    session.put(number, event)
    return Reply(SUCCESS, then=lambda: _outcome(execution, event.wait))


def _outcome(execution: _Served, compute: Callable[[], None]) -> bytes:
    """The reply of a computation: its result, and sizes of outputs that need not fill their buffers. Never raises."""
    try:
        compute()
        if execution.is_exact:
            return SUCCESS
        sizes = [execution.output_size(index) for index in range(len(execution.types))]
        return SUCCESS + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    except Exception as error:
        return failure(error)


# --- memory, fences, devices ---------------------------------------------------------------------------------------


def _add_memory(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, size, protect, offset = reader.u64(), reader.u64(), reader.i32(), reader.u64()
    reader.end()
    descriptor = descriptors.take()
    try:
        session.put(number, Memory.create_from_fd(size, protect, descriptor, offset))
    finally:
        os.close(descriptor)
    return OK


def _add_fence(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number = reader.u64()
    reader.end()
    session.put(number, _fence(descriptors))
    return OK


def _fence(descriptors: Descriptors) -> Event:
    descriptor = descriptors.take()
    try:
        return Event.create_from_sync_fence_fd(descriptor)
    finally:
        os.close(descriptor)


def _list_devices(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    reader.end()
    writer = Writer(len(get_devices()))
    for device in get_devices():
        writer.string(device.name).string(device.version).i32(device.type).i64(device.feature_level)
        writer.u32(len(device.extensions))
        for extension in device.extensions:
            writer.string(extension)
    return Reply(SUCCESS + b"".join(writer.parts))


def handlers() -> dict[int, Handler]:
    """The handler of each request, except for those on the control socket."""
    by_name: dict[str, Handler] = {
        "ANeuralNetworksCompilation_setCaching": _set_caching,
        "ANeuralNetworksExecution_burstCompute": _burst_compute,
        "ANeuralNetworksExecution_compute": _compute,
        "ANeuralNetworksExecution_create": _create_execution,
        "ANeuralNetworksExecution_enableInputAndOutputPadding": _enable_padding,
        "ANeuralNetworksExecution_getOutputOperandDimensions": _output_dimensions,
        "ANeuralNetworksExecution_getOutputOperandRank": _output_rank,
        "ANeuralNetworksExecution_setInput": _set_input,
        "ANeuralNetworksExecution_setInputFromMemory": _set_input_from_memory,
        "ANeuralNetworksExecution_setOutput": _set_output,
        "ANeuralNetworksExecution_setOutputFromMemory": _set_output_from_memory,
        "ANeuralNetworksExecution_startCompute": _start_compute,
        "ANeuralNetworksExecution_startComputeWithDependencies": _start_compute_with_dependencies,
        "ANeuralNetworksModel_setOperandSymmPerChannelQuantParams": _set_scales,
    }
    return {
        **table_handlers(by_name),
        Request.DEVICES: _list_devices,
        Request.MEMORY: _add_memory,
        Request.FENCE: _add_fence,
    }
