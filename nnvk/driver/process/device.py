"""IDevice and IBuffer of a driver in another process."""

from __future__ import annotations

import itertools
import struct
import weakref
from dataclasses import dataclass

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.base.packets import Reader, Writer
from nnvk.driver.process.connection import Command, Connection, DriverProcess, SharedBlock
from nnvk.driver.process.encoding import write_prepare_options
from nnvk.driver.process.prepared_model import RemotePreparedModel
from nnvk.driver.process.protocol import Request
from nnvk.hal import IBuffer, IDevice, IPreparedModel, MemoryUse, Support
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.encoding import write_model, write_type
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, PrepareOptions


def find_devices(command: Command) -> tuple[list[RemoteDevice], str]:
    """The devices of a driver whose process a command starts, and why there is none, or not all."""
    process = DriverProcess(command)
    try:
        reader = process.running().ask(Writer(Request.DEVICES))
    except NnapiError as error:
        return [], error.reason
    problems = reader.string()
    return [RemoteDevice(process, _read_description(reader)) for _ in range(reader.u32())], problems


@dataclass(frozen=True, slots=True)
class _Description:
    """The properties of a device that do not change."""

    name: str
    version: str
    type: DeviceTypeCode
    feature_level: FeatureLevelCode
    capabilities: Capabilities
    extensions: tuple[str, ...]


def _read_description(reader: Reader) -> _Description:
    name, version = reader.string(), reader.string()
    type_, feature_level = DeviceTypeCode(reader.i32()), FeatureLevelCode(reader.u32())
    capabilities = Capabilities(reader.f64(), reader.f64())
    extensions = tuple(reader.string() for _ in range(reader.u32()))
    return _Description(name, version, type_, feature_level, capabilities, extensions)


class RemoteDevice(IDevice):
    """A device whose driver lives in another process.

    If that dies, what was prepared and allocated there is dead, for good: DEAD_OBJECT. The device itself is not: what
    is asked of it next starts a new process.
    """

    def __init__(self, process: DriverProcess, description: _Description) -> None:
        self._process = process
        self._description = description
        self._tokens = itertools.count(1)
        self._buffers: weakref.WeakValueDictionary[int, RemoteBuffer] = weakref.WeakValueDictionary()

    @property
    def name(self) -> str:
        """As the driver calls it."""
        return self._description.name

    @property
    def type(self) -> DeviceTypeCode:
        """As the driver has it."""
        return self._description.type

    @property
    def version(self) -> str:
        """As the driver has it, so that caches are the same."""
        return self._description.version

    @property
    def feature_level(self) -> FeatureLevelCode:
        """As the driver has it."""
        return self._description.feature_level

    @property
    def extensions(self) -> tuple[str, ...]:
        """As the driver has them."""
        return self._description.extensions

    @property
    def capabilities(self) -> Capabilities:
        """As the driver has them."""
        return self._description.capabilities

    def get_supported_operations(self, model: Model) -> list[Support]:
        """The driver's answer."""
        return [Support(reason or None) for reason in self._ask_about(Request.SUPPORT, model)]

    def describe_operations(self, model: Model) -> list[str]:
        """The driver's answer."""
        return self._ask_about(Request.DESCRIBE, model)

    def describe_memory(self, model: Model) -> MemoryUse | None:
        """The driver's answer."""
        reader = self._ask(_with_model(Writer(Request.DESCRIBE_MEMORY).string(self.name), model))
        return MemoryUse(reader.u64(), reader.u64()) if reader.u8() else None

    def _ask_about(self, request: Request, model: Model) -> list[str]:
        reader = self._ask(_with_model(Writer(request).string(self.name), model))
        return [reader.string() for _ in range(reader.u32())]

    def _ask(self, writer: Writer) -> Reader:
        """The answer of a process, old or new. If it dies meanwhile, the next process is asked."""
        try:
            return self._process.running().ask(writer)
        except NnapiError as error:
            if error.code is not ResultCode.DEAD_OBJECT:
                raise
            return self._process.running().ask(writer)

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Have the driver make the model ready."""

        def prepare() -> tuple[Connection, int, Reader]:
            connection = self._process.running()
            number = connection.new_number()
            writer = Writer(Request.PREPARE).u64(number).string(self.name)
            write_prepare_options(writer, options)
            return connection, number, connection.ask(_with_model(writer, model))

        return RemotePreparedModel(prepare, model, self.remote_token)

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Memory of the driver."""
        connection = self._process.running()
        number = connection.new_number()
        writer = Writer(Request.ALLOCATE).u64(number).string(self.name)
        try:
            write_type(writer, type)
            writer.u64s(dimensions)
        except struct.error as error:
            raise bad_data(f"{type} of dimensions {dimensions} can't be told the driver's process: {error}") from error
        remote_token = connection.ask(writer).u64()
        # A driver that was started anew gives the same tokens again.
        buffer = RemoteBuffer(connection, number, next(self._tokens), remote_token)
        self._buffers[buffer.token] = buffer
        return buffer

    def remote_token(self, token: int, connection: Connection) -> int:
        """The token by which a process knows a buffer. BAD_DATA: there is none. DEAD_OBJECT: another process had it."""
        buffer = self._buffers.get(token)
        if buffer is None:
            raise bad_data(f"{self.name} has no buffer {token}")
        if buffer.connection is not connection:
            raise NnapiError(ResultCode.DEAD_OBJECT, "device memory lives in a process of the driver that has died")
        return buffer.remote_token

    def wait(self) -> None:
        """Start the driver's process anew if it has died; and what the driver does."""
        self._ask(Writer(Request.WAIT).string(self.name))

    def end(self, reason: str) -> None:
        """End the driver's process if it lives. Requests that wait for it raise DEAD_OBJECT with this reason."""
        self._process.end(reason)


class RemoteBuffer(IBuffer):
    """Memory of a driver in another process."""

    def __init__(self, connection: Connection, number: int, token: int, remote_token: int) -> None:
        self.connection = connection
        """The process that it lives in."""
        self.remote_token = remote_token
        """The number that the other process names it by."""
        self._number = number
        self._token = token

    def __del__(self) -> None:
        self.connection.release(self._number)

    @property
    def token(self) -> int:
        """The number that requests of this process name it by."""
        return self._token

    def copy_to(self, target: np.ndarray) -> None:
        """Copy the content to the host."""
        target[:] = self._exchange(Request.COPY_TO, target.nbytes, None).array[: target.nbytes]

    def copy_from(self, source: np.ndarray) -> None:
        """Replace the content."""
        self._exchange(Request.COPY_FROM, source.nbytes, source)

    def _exchange(self, request: Request, nbytes: int, source: np.ndarray | None) -> SharedBlock:
        block = self.connection.allocate(nbytes)
        if source is not None:
            block.array[:nbytes] = source
        writer = Writer(request).u64(self._number).u32(block.number).u64(block.offset).u64(nbytes)
        try:
            self.connection.ask(writer)
        except BaseException as error:
            if not isinstance(error, NnapiError):  # Ctrl-C: the driver may still be at it
                block.abandon()
            raise
        return block


def _with_model(writer: Writer, model: Model) -> Writer:
    """The packet, with a model at its end. BAD_DATA: that holds what none may."""
    try:
        write_model(writer, model)
    except (struct.error, AttributeError, TypeError) as error:
        raise bad_data(f"the model can't be told the driver's process: {error}") from error
    return writer
