"""The driver's own process: answers requests with the driver's devices and what they have made."""

# The HAL's results are only known by their abstract classes, which isinstance accepts.
# mypy: disable-error-code="type-abstract"

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.base import lanes
from nnvk.base.errors import NnapiError, ResultCode, UnfitData, VerificationError
from nnvk.base.lanes import OK, SUCCESS, Handler, Reply, Session, failure
from nnvk.base.packets import Descriptors, Reader, Writer
from nnvk.driver.process.encoding import encoded_result, from_deadline, read_prepare_options
from nnvk.driver.process.protocol import EXECUTE, UNFIT, UNVERIFIED, Request, fingerprint
from nnvk.hal import IBuffer, IBurst, IDevice, IExecution, IFencedExecution, IPreparedModel
from nnvk.types import request
from nnvk.types.encoding import read_dtype, read_model, read_type
from nnvk.types.request import ExecuteOptions, ExecutionResult, InputArgument, OutputArgument

_EXECUTE = struct.Struct("<" + EXECUTE.format[2:])
"""The fields that follow the request's number."""


def serve(
    devices: Sequence[IDevice], problems: str, control: socket.socket, longest_call_s: Callable[[], float]
) -> None:
    """Serve the process at the other end of ``control`` until it has gone; ``longest_call_s`` as of a `Session`."""
    session = new_session(devices, problems)
    session.longest_call_s = longest_call_s
    lanes.serve(control, session, fingerprint())


def new_session(devices: Sequence[IDevice], problems: str) -> Session:
    """A session that answers requests; ``problems`` say why devices are missing."""
    return _Session(_handlers({device.name: device for device in devices}, problems))


class _Session(Session):
    """Objects of the driver. An error says whether another device may do better."""

    def failure(self, error: Exception) -> bytes:
        return _failure(error)


def _failure(error: Exception) -> bytes:
    kinds: dict[type[Exception], bytes] = {UnfitData: UNFIT, VerificationError: UNVERIFIED}
    return failure(error, kinds.get(type(error), b""))


@dataclass(slots=True)
class _Bound:
    """An execution, and its last result: mostly it is the same object again."""

    execution: IExecution
    result: ExecutionResult | None = None
    encoded: bytes = b""

    def reply(self, result: ExecutionResult) -> bytes:
        """The reply with a result."""
        if result is not self.result:
            self.encoded = SUCCESS + encoded_result(result)
            self.result = result
        return self.encoded


# --- devices -------------------------------------------------------------------------------------------------------


def _handlers(devices: Mapping[str, IDevice], problems: str) -> dict[int, Handler]:
    """The function that answers each request."""

    def device(reader: Reader) -> IDevice:
        name = reader.string()
        if name not in devices:
            raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"{name} is not there any more")
        return devices[name]

    def list_devices(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        reader.end()
        writer = Writer().string(problems).u32(len(devices))
        for each in devices.values():
            writer.string(each.name).string(each.version).i32(each.type).u32(each.feature_level)
            writer.f64(each.capabilities.relative_time).f64(each.capabilities.relative_power)
            writer.u32(len(each.extensions))
            for extension in each.extensions:
                writer.string(extension)
        return _reply(writer)

    def support(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        driver, model = device(reader), read_model(reader)
        reader.end()
        return _texts([each.reason or "" for each in driver.get_supported_operations(model)])

    def describe(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        driver, model = device(reader), read_model(reader)
        reader.end()
        return _texts(driver.describe_operations(model))

    def describe_memory(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        driver, model = device(reader), read_model(reader)
        reader.end()
        use = driver.describe_memory(model)
        return _reply(Writer().u8(0) if use is None else Writer().u8(1).u64(use.arena).u64(use.most_alive))

    def prepare(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        number, driver, options, model = reader.u64(), device(reader), read_prepare_options(reader), read_model(reader)
        reader.end()
        prepared = driver.prepare_model(model, options)
        session.put(number, prepared)
        return _reply(Writer(prepared.preferred_alignment, prepared.preferred_padding))

    def wait(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        driver = device(reader)
        reader.end()
        driver.wait()
        return OK

    def allocate(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
        number, driver, type_, dimensions = reader.u64(), device(reader), read_type(reader), reader.u64s()
        reader.end()
        buffer = driver.allocate(type_, dimensions)
        session.put(number, buffer)
        return _reply(Writer().u64(buffer.token))

    return {
        Request.DEVICES: list_devices,
        Request.SUPPORT: support,
        Request.DESCRIBE: describe,
        Request.DESCRIBE_MEMORY: describe_memory,
        Request.PREPARE: prepare,
        Request.WAIT: wait,
        Request.ALLOCATE: allocate,
        Request.COPY_TO: _copy_to,
        Request.COPY_FROM: _copy_from,
        Request.BIND: _bind,
        Request.BURST: _burst,
        Request.EXECUTE: _execute,
        Request.EXECUTE_FENCED: _execute_fenced,
        Request.EXPORT: _export,
        Request.MEMORY: _memory,
    }


def _reply(writer: Writer) -> Reply:
    return Reply(SUCCESS + b"".join(writer.parts))


def _texts(texts: Sequence[str]) -> Reply:
    writer = Writer(len(texts))
    for text in texts:
        writer.string(text)
    return _reply(writer)


# --- buffers -------------------------------------------------------------------------------------------------------


def _copy_to(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    buffer = session.get(reader.u64(), IBuffer)
    place = _place(session, reader)
    reader.end()
    buffer.copy_to(place)
    return OK


def _copy_from(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    buffer = session.get(reader.u64(), IBuffer)
    place = _place(session, reader)
    reader.end()
    buffer.copy_from(place)
    return OK


def _place(session: Session, reader: Reader) -> np.ndarray:
    """Bytes in a segment."""
    segment, offset, nbytes = reader.u32(), reader.u64(), reader.u64()
    return np.ndarray(nbytes, np.uint8, session.segment(segment, offset, nbytes))


# --- executions ----------------------------------------------------------------------------------------------------


def _bind(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, prepared = reader.u64(), session.get(reader.u64(), IPreparedModel)
    segment = reader.u32()
    inputs = [_input(session, segment, reader) for _ in range(reader.u32())]
    outputs = [_output(session, segment, reader) for _ in range(reader.u32())]
    reader.end()
    session.put(number, _Bound(prepared.create_reusable_execution(request.Request(inputs, outputs))))
    return OK


def _input(session: Session, segment: int, reader: Reader) -> InputArgument:
    token = reader.u64()
    if token:
        return InputArgument(None, token, reader.u64s())
    if not reader.u8():
        return InputArgument(None)
    (dtype, shape, nbytes), offset = read_dtype(reader), reader.u64()
    array: np.ndarray = np.ndarray(shape, dtype, session.segment(segment, offset, nbytes))
    array.flags.writeable = False
    return InputArgument(array)


def _output(session: Session, segment: int, reader: Reader) -> OutputArgument:
    token = reader.u64()
    if token:
        return OutputArgument(None, token, updates_input=bool(reader.u8()))
    if not reader.u8():
        return OutputArgument(None)
    offset, nbytes = reader.u64(), reader.u64()
    return OutputArgument(np.ndarray(nbytes, np.uint8, session.segment(segment, offset, nbytes)))


def _memory(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    prepared = session.get(reader.u64(), IPreparedModel)
    reader.end()
    writer = Writer()
    for held in (prepared.memory_bytes(), prepared.shared_constants()):
        writer.u32(len(held))
        for name, nbytes in held.items():
            writer.string(name).u64(nbytes)
    return _reply(writer)


def _burst(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    number, prepared = reader.u64(), session.get(reader.u64(), IPreparedModel)
    reader.end()
    session.put(number, prepared.configure_execution_burst())
    return OK


def _execute(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, burst, *given = reader.unpack(_EXECUTE)
    reader.end()
    bound, options = session.get(execution, _Bound), _options(*given)
    if burst:
        lane = session.get(burst, IBurst)
        return Reply(bound.reply(lane.execute(bound.execution, options)))
    return Reply(bound.reply(bound.execution.execute(options)))


def _execute_fenced(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    execution, number, *given = reader.unpack(_EXECUTE)
    kind: type[IFencedExecution] = IFencedExecution
    wait_for = [session.get(each, kind) for each in reader.u64s()]
    reader.end()
    fenced = session.get(execution, _Bound).execution.execute_fenced(wait_for, _options(*given))
    session.put(number, fenced)
    return Reply(SUCCESS, then=lambda: _outcome(fenced.result))


def _options(measure: int, deadline: int, loop_timeout_ns: int, duration_ns: int) -> ExecuteOptions:
    return ExecuteOptions(bool(measure), from_deadline(deadline), loop_timeout_ns, duration_ns)


def _outcome(result: Callable[[], ExecutionResult]) -> bytes:
    """The reply that comes at an execution's end. Never raises."""
    try:
        return SUCCESS + encoded_result(result())
    except Exception as error:
        return _failure(error)


def _export(session: Session, reader: Reader, descriptors: Descriptors) -> Reply:
    fenced = session.get(reader.u64(), IFencedExecution)
    reader.end()
    exported = fenced.export_sync_fd()
    is_there = exported is not None and exported >= 0
    content = SUCCESS + bytes([is_there])
    return Reply(content, descriptors=(exported,) if is_there and exported is not None else ())
