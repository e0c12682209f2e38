"""Handlers of requests that a row of the table can't describe: arguments, computations, descriptors."""

from __future__ import annotations

import os
from collections.abc import Sequence

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
from nnvk.base.fields import BOOL, F32S, I32, I64, NEW, STRING, U32, U64S, Keep, all_of, encoded, many, object_of, parts
from nnvk.base.lanes import SUCCESS, Handler, Reply, answering, failure, keeping, read_descriptors
from nnvk.base.packets import Descriptors, Reader
from nnvk.serve.function_rows import operand_type, table_handlers
from nnvk.serve.protocol import Request
from nnvk.serve.table import PREFIX
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

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """As ever; padded outputs don't fill their buffers."""
        super().enable_input_and_output_padding(enable)
        self.is_exact = not enable and all(type_.is_fully_specified for type_ in self.types)

    def sizes(self) -> bytes:
        """The sizes of outputs that need not fill their buffers; they belong to a computation's result."""
        if self.is_exact:
            return b""
        return encoded(U64S.write, [self.output_size(index) for index in range(len(self.types))])

    def is_small(self, index: int) -> bool:
        """Whether an output of the last computation was larger than its buffer."""
        capacity = self.capacities[index]
        return capacity is not None and self.output_size(index) > capacity


# --- arguments and results -----------------------------------------------------------------------------------------


def _set_input(execution: _Served, index: int, given: OperandType | None, buffer: memoryview | None) -> None:
    execution.set_input(index, buffer, _given(execution.compilation.model.input_types(), index, given))


def _set_output(execution: _Served, index: int, given: OperandType | None, buffer: memoryview | None) -> None:
    execution.set_output(index, buffer, _given(execution.types, index, given))
    execution.capacities[index] = None if buffer is None else len(buffer)


def _set_input_from_memory(
    execution: _Served, index: int, given: OperandType | None, memory: Memory, offset: int, length: int
) -> None:
    type_ = _given(execution.compilation.model.input_types(), index, given)
    execution.set_input_from_memory(index, memory, offset, length, type_)


def _set_output_from_memory(
    execution: _Served, index: int, given: OperandType | None, memory: Memory, offset: int, length: int
) -> None:
    execution.set_output_from_memory(index, memory, offset, length, _given(execution.types, index, given))
    execution.capacities[index] = length or None


def _given(types: Sequence[OperandType], index: int, given: OperandType | None) -> OperandType | None:
    """The model's type with the given dimensions, which are all that counts of a given type."""
    if given is None or not 0 <= index < len(types):
        return given
    given.check(f"operand {index}")
    return types[index].with_dimensions(given.dimensions)


def _buffer(reader: Reader) -> memoryview | None:
    """A part of a segment; None for what is omitted."""
    is_there, segment, offset, length = reader.u8(), reader.u32(), reader.u64(), reader.u64()
    part: memoryview | None = reader.session.segment(segment, offset, length) if is_there else None
    return part


def _output_rank(execution: _Served, index: int) -> Reply:
    rank = execution.get_output_operand_rank(index)
    return Reply((_SMALL if execution.is_small(index) else SUCCESS) + encoded(U32.write, rank))


def _output_dimensions(execution: _Served, index: int) -> Reply:
    shape = execution.get_output_operand_dimensions(index)
    return Reply((_SMALL if execution.is_small(index) else SUCCESS) + encoded(all_of(U32.write), shape))


# --- computations --------------------------------------------------------------------------------------------------


def _compute(execution: _Served) -> Reply:
    execution.compute()
    return Reply(SUCCESS + execution.sizes())


def _burst_compute(execution: _Served, burst: Burst) -> Reply:
    execution.burst_compute(burst)
    return Reply(SUCCESS + execution.sizes())


def _start_compute(execution: _Served, keep: Keep) -> Reply:
    return _started(execution, keep(execution.start_compute()))


def _start_compute_with_dependencies(
    execution: _Served,
    keep: Keep,
    duration: int,
    dependencies: Sequence[Event],
    gate: Descriptors | None,
) -> Reply:
    # The library opens the gate once the inputs are where the server finds them.
    wait_for = dependencies if gate is None else [*dependencies, _fence(gate)]
    return _started(execution, keep(execution.start_compute_with_dependencies(wait_for, duration)))


def _started(execution: _Served, event: Event) -> Reply:
    def content() -> bytes:
        event.wait()
        return execution.sizes()

    return Reply(SUCCESS, then=content)


# --- memory, fences, devices ---------------------------------------------------------------------------------------


def _memory(keep: Keep, size: int, protect: int, offset: int, descriptors: Descriptors) -> None:
    descriptor = descriptors.take()
    try:
        keep(Memory.create_from_fd(size, protect, descriptor, offset))
    finally:
        os.close(descriptor)


def _fence(descriptors: Descriptors) -> Event:
    descriptor = descriptors.take()
    try:
        return Event.create_from_sync_fence_fd(descriptor)
    finally:
        os.close(descriptor)


def _gate(reader: Reader) -> Descriptors | None:
    return reader.descriptors if reader.u8() else None


def _token(reader: Reader) -> bytes:
    return bytes(reader.bytes(BYTE_SIZE_OF_CACHE_TOKEN))


_DEVICE = parts(STRING, STRING, I32, I64, many(STRING))


def _devices() -> list[tuple[object, ...]]:
    return [(each.name, each.version, each.type, each.feature_level, each.extensions) for each in get_devices()]


def handlers() -> dict[int, Handler]:
    """The handler of each request, except for those on the control socket."""
    execution, new, i32, u64 = object_of(_Served).read, NEW.read, Reader.i32, Reader.u64
    argument = execution, i32, operand_type
    place = object_of(Memory).read, u64, u64
    compilation, burst = object_of(Compilation).read, object_of(Burst).read
    model, events = object_of(Model).read, many(object_of(Event)).read
    by_name: dict[str, Handler] = {
        "Compilation_setCaching": answering(Compilation.set_caching, compilation, Reader.string, _token),
        "Execution_burstCompute": answering(_burst_compute, execution, burst),
        "Execution_compute": answering(_compute, execution),
        "Execution_create": answering(keeping(_Served), compilation, new),
        "Execution_enableInputAndOutputPadding": answering(
            _Served.enable_input_and_output_padding, execution, BOOL.read
        ),
        "Execution_getOutputOperandDimensions": answering(_output_dimensions, execution, i32),
        "Execution_getOutputOperandRank": answering(_output_rank, execution, i32),
        "Execution_setInput": answering(_set_input, *argument, _buffer),
        "Execution_setInputFromMemory": answering(_set_input_from_memory, *argument, *place),
        "Execution_setOutput": answering(_set_output, *argument, _buffer),
        "Execution_setOutputFromMemory": answering(_set_output_from_memory, *argument, *place),
        "Execution_startCompute": answering(_start_compute, execution, new),
        "Execution_startComputeWithDependencies": answering(
            _start_compute_with_dependencies, execution, new, u64, events, _gate
        ),
        "Model_setOperandSymmPerChannelQuantParams": answering(
            Model.set_operand_symm_per_channel_quant_params, model, i32, Reader.u32, F32S.read
        ),
    }
    return {
        **table_handlers({PREFIX + name: handler for name, handler in by_name.items()}),
        Request.DEVICES: answering(_devices, result=many(_DEVICE).write),
        Request.MEMORY: answering(_memory, new, u64, i32, u64, read_descriptors),
        Request.FENCE: answering(keeping(_fence), read_descriptors, new),
    }
