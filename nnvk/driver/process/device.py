"""IDevice and IBuffer of a driver in another process."""

from __future__ import annotations

import itertools
import struct
import weakref
from typing import Any, TypeVar

import numpy as np

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.process import protocol
from nnvk.driver.process.connection import Command, Connection, DriverProcess, SharedBlock
from nnvk.driver.process.prepared_model import RemotePreparedModel
from nnvk.driver.process.protocol import Description, Row
from nnvk.hal import IBuffer, IDevice, IPreparedModel, MemoryUse, Support
from nnvk.types.codes import DeviceTypeCode, FeatureLevelCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Capabilities, PrepareOptions

T = TypeVar("T")


def find_devices(command: Command) -> tuple[list[RemoteDevice], str]:
    """The devices of a driver whose process a command starts, and why there is none, or not all."""
    process = DriverProcess(command)
    try:
        problems, descriptions = process.running().call(protocol.DEVICES)
    except NnapiError as error:
        return [], error.reason
    return [RemoteDevice(process, description) for description in descriptions], problems


class RemoteDevice(IDevice):
    """A device whose driver lives in another process.

    If that dies, what was prepared and allocated there is dead, for good: DEAD_OBJECT. The device itself is not: what
    is asked of it next starts a new process.
    """

    reproduces = True  # nnvk's drivers alone run in other processes

    def __init__(self, process: DriverProcess, description: Description) -> None:
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
        return list(self._call(protocol.SUPPORT, model))

    def describe_operations(self, model: Model) -> list[str]:
        """The driver's answer."""
        return list(self._call(protocol.DESCRIBE, model))

    def describe_memory(self, model: Model) -> MemoryUse | None:
        """The driver's answer."""
        return self._call(protocol.DESCRIBE_MEMORY, model)

    def _call(self, row: Row[T], *arguments: Any) -> T:
        """The answer of a process, old or new. If it dies meanwhile, the next process is asked."""
        try:
            return self._process.running().call(row, self.name, *arguments)
        except NnapiError as error:
            if error.code is not ResultCode.DEAD_OBJECT:
                raise
            return self._process.running().call(row, self.name, *arguments)

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        """Have the driver make the model ready."""

        def prepare() -> tuple[Connection, int, tuple[int, int]]:
            connection = self._process.running()
            number = connection.new_number()
            return connection, number, connection.call(protocol.PREPARE, self.name, model, options, number)

        return RemotePreparedModel(prepare, model, self.remote_token)

    def allocate(self, type: OperandType, dimensions: Shape) -> IBuffer:
        """Memory of the driver."""
        connection = self._process.running()
        number = connection.new_number()
        try:
            request = protocol.ALLOCATE.request(self.name, type, dimensions, number)
        except struct.error as error:
            raise bad_data(f"{type} of dimensions {dimensions} can't be told the driver's process: {error}") from error
        remote_token = protocol.ALLOCATE.read(connection.ask(request))
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
        self._call(protocol.WAIT)

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
        target[:] = self._exchange(protocol.COPY_TO, target.nbytes, None).array[: target.nbytes]

    def copy_from(self, source: np.ndarray) -> None:
        """Replace the content."""
        self._exchange(protocol.COPY_FROM, source.nbytes, source)

    def _exchange(self, row: Row[None], nbytes: int, source: np.ndarray | None) -> SharedBlock:
        block = self.connection.allocate(nbytes)
        if source is not None:
            block.array[:nbytes] = source
        try:
            self.connection.call(row, self._number, (block.number, block.offset, nbytes))
        except BaseException as error:
            if not isinstance(error, NnapiError):  # Ctrl-C: the driver may still be at it
                block.abandon()
            raise
        return block
