"""IPreparedModel, IExecution, IBurst and fenced execution of a driver in another process."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from nnvk.base import forks
from nnvk.base.errors import NnapiError, ResultCode, driver_error
from nnvk.base.packets import ALIGNMENT, Writer
from nnvk.driver.process import protocol
from nnvk.driver.process.connection import Connection
from nnvk.hal import DeferredExecution, IBurst, IExecution, IFencedExecution, IPreparedModel
from nnvk.ops.check import validate_request
from nnvk.types import request as hal
from nnvk.types.encoding import flat
from nnvk.types.model import Model
from nnvk.types.operand import dtype_of
from nnvk.types.request import ExecuteOptions, ExecutionResult, is_unlimited

Prepare = Callable[[], tuple[Connection, int, tuple[int, int]]]
"""Prepares the model in the process that lives: that, the number there, alignment and padding."""
RemoteToken = Callable[[int, Connection], int]
"""Gives the token that a process has for the buffer with a token of this process."""


class RemotePreparedModel(IPreparedModel):
    """A model that was made ready in another process. If that dies, it is dead; in a forked child it is made anew."""

    def __init__(self, prepare: Prepare, model: Model, remote_token: RemoteToken) -> None:
        self._prepare = prepare
        self._remote_token = remote_token
        self._lock = forks.lock()
        self.model = model
        """The model that was prepared."""
        self._enter()

    def _enter(self) -> None:
        self._connection, self._number, (self.preferred_alignment, self.preferred_padding) = self._prepare()

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            self._connection.release(self._number)

    def _place(self) -> tuple[Connection, int]:
        """The process that it lives in, and its number there."""
        if not self._connection.is_here:
            with self._lock:
                if not self._connection.is_here:
                    self._enter()
        return self._connection, self._number

    def create_reusable_execution(self, request: hal.Request) -> IExecution:
        """Bind a request in the other process, to shared memory in the place of its arrays."""
        validate_request(self.model, request)
        connection, number = self._place()
        return RemoteExecution(self.model, connection, number, request, self._remote_token)

    def memory_bytes(self) -> dict[str, int]:
        """The driver's answer."""
        connection, number = self._place()
        return connection.call(protocol.MEMORY_BYTES, number)

    def shared_memory(self) -> dict[str, int]:
        """The driver's answer."""
        connection, number = self._place()
        return connection.call(protocol.SHARED_MEMORY, number)

    def configure_execution_burst(self) -> IBurst:
        """The driver's burst."""
        connection, prepared = self._place()
        number = connection.new_number()
        connection.call(protocol.BURST, prepared, number)
        return RemoteBurst(connection, number)


class RemoteBurst(IBurst):
    """A burst of a driver in another process."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def __del__(self) -> None:
        self._connection.release(self._number)

    def execute(self, execution: IExecution, options: ExecuteOptions) -> ExecutionResult:
        """Execute in the driver's burst."""
        if isinstance(execution, RemoteExecution) and execution.connection is self._connection:
            return execution.execute(options, self._number)
        return execution.execute(options)


class RemoteExecution(IExecution):
    """A request that is bound in another process. Inputs are copied to shared memory, and outputs from there."""

    def __init__(
        self, model: Model, connection: Connection, prepared: int, request: hal.Request, remote_token: RemoteToken
    ) -> None:
        self.connection = connection
        """The process that it lives in."""
        self._model = model
        self._prepared = prepared
        self._request = request
        tokens = [each.token for each in request.inputs] + [each.token for each in request.outputs]
        self._tokens = [remote_token(token, connection) if token else 0 for token in tokens]
        self._bind()

    def _bind(self) -> None:
        inputs, outputs = self._request.inputs, self._request.outputs
        buffers = [*(each.array for each in inputs), *(each.buffer for each in outputs)]
        offsets, size = [], 0
        for buffer in buffers:
            offsets.append(size)
            size += 0 if buffer is None else -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        connection, number = self.connection, self.connection.new_number()
        self._block = block = connection.allocate(max(size, 1))
        places = [
            None if buffer is None else block.array[offset : offset + buffer.nbytes]
            for buffer, offset in zip(buffers, offsets, strict=True)
        ]
        self._copies_in = [
            (place, flat(each.array))
            for place, each in zip(places, inputs, strict=False)
            if place is not None and each.array is not None and place.nbytes
        ]
        self._places_out = places[len(inputs) :]
        self._copies_out: list[tuple[np.ndarray, np.ndarray]] = []
        spots = [
            None if place is None else (block.number, block.offset + offset, place.nbytes)
            for place, offset in zip(places, offsets, strict=True)
        ]
        first = len(inputs)
        told_inputs = [
            (None if token or each.array is None else (each.array, spot), token, each.dimensions)
            for each, token, spot in zip(inputs, self._tokens[:first], spots[:first], strict=True)
        ]
        told_outputs = [
            (None if token else spot, token, each.updates_input)
            for each, token, spot in zip(outputs, self._tokens[first:], spots[first:], strict=True)
        ]
        connection.call(protocol.BIND, self._prepared, told_inputs, told_outputs, number)
        self._number = number
        self._is_abandoned = False
        self._asked: tuple[int | None, ExecuteOptions] | None = None
        self._last = b""  # the last reply: mostly the next one is the same

    def __del__(self) -> None:
        if hasattr(self, "_number"):
            self.connection.release(self._number)

    def execute(self, options: ExecuteOptions, burst: int | None = None) -> ExecutionResult:
        """Copy inputs in, ask, wait, copy outputs out."""
        connection = self.connection
        lane = connection.take_lane()
        is_idle = False
        try:
            self._copy_in()
            connection.send(lane, self._message(burst, options))
            packet, _ = connection.receive(lane)
            is_idle = True
        except BaseException as error:
            if not isinstance(error, NnapiError):  # Ctrl-C: the driver is still at it
                self.abandon()
            raise
        finally:
            connection.put_lane(lane, is_idle=is_idle)
        return self.finish(packet)

    def _message(self, burst: int | None, options: ExecuteOptions) -> Writer:
        """The request to execute, which mostly is the last one again."""
        if self._asked != (burst, options):
            self._asked = burst, options
            self._packet = Writer().put(b"".join(protocol.EXECUTE.request((self._number, burst, options)).parts))
        return self._packet

    def _copy_in(self) -> None:
        if self._is_abandoned:
            self.connection.release(self._number)
            self._bind()
        for place, source in self._copies_in:
            place[:] = source

    def abandon(self) -> None:
        """Leave the shared memory to what goes on there, whose result nobody wants. It never waits."""
        self._is_abandoned = True
        self._block.abandon()

    def finish(self, packet: memoryview) -> ExecutionResult:
        """The result in a reply; the outputs go to the request's buffers."""
        if packet != self._last:
            self._result = protocol.EXECUTE.read(self.connection.opened(packet))
            self._last = bytes(packet)
            self._copies_out = self._written(self._result)
        for buffer, place in self._copies_out:
            buffer[:] = place
        return self._result

    def _written(self, result: ExecutionResult) -> list[tuple[np.ndarray, np.ndarray]]:
        """The buffer of each output, and the bytes that the driver has written."""
        if result.code is not ResultCode.NO_ERROR:
            return []
        rows = zip(self._request.outputs, self._places_out, _output_sizes(self._model, result), strict=True)
        return [
            (target.buffer[:size], place[:size])
            for target, place, size in rows
            if target.buffer is not None and place is not None and size
        ]

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        """Have the driver start it.

        Where it waits for what is no execution of the same process, a thread waits and executes; so it does where the
        host gives an input, which what is waited for may write: it is copied when the driver is asked.
        """
        ahead = [each for each in wait_for if isinstance(each, RemoteFencedExecution) and each.is_in(self.connection)]
        if len(ahead) < len(wait_for) or (wait_for and self._copies_in):
            return DeferredExecution(lambda: self.execute(options.started(time.monotonic_ns())), wait_for)
        number = self.connection.new_number()
        numbers = [each.number for each in ahead]
        message = protocol.EXECUTE_FENCED.request((self._number, None, options), numbers, number)
        lane = self.connection.take_lane()
        try:
            self._copy_in()
            self.connection.send(lane, message)
            packet, _ = self.connection.receive(lane)
            self.connection.opened(packet)
        except BaseException as error:
            self.connection.put_lane(lane, is_idle=False)
            if not isinstance(error, NnapiError):
                self.abandon()
            raise
        return RemoteFencedExecution(self, lane, number, ahead)

    @property
    def writes_host(self) -> bool:
        """Whether an output is in memory of this process."""
        return any(place is not None for place in self._places_out)


class RemoteFencedExecution(IFencedExecution):
    """An execution under way in another process, whose reply will come on a lane."""

    def __init__(
        self,
        execution: RemoteExecution,
        lane: socket.socket,
        number: int,
        wait_for: Sequence[RemoteFencedExecution],
    ) -> None:
        self.number = number
        """The number that the other process names it by."""
        self._execution = execution
        self._connection = execution.connection
        self._lane: socket.socket | None = lane
        self._wait_for = tuple(wait_for)
        self._origin = forks.Origin()
        self._lock = threading.Lock()  # a child does not take it
        self._packet: memoryview | None = None
        self._outcome: ExecutionResult | NnapiError | None = None
        self._connection.under_way[number] = execution, lane

    def __del__(self) -> None:
        self._connection.release(self.number)

    def is_in(self, connection: Connection) -> bool:
        """Whether it is an execution of that process, and has not failed."""
        return self._connection is connection and not isinstance(self._outcome, NnapiError)

    def wait(self, timeout_ns: int = -1) -> bool:
        """Wait for the reply. DEAD_OBJECT in a forked child if it had not come before."""
        if self._outcome is not None:
            return True
        self._origin.check("an execution")
        began = time.monotonic()
        seconds = None if is_unlimited(timeout_ns) else timeout_ns / 1e9
        if not self._lock.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)):
            return False
        try:
            if self._lane is None:
                return True
            left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
            return self._connection.await_reply(self._lane, left)
        finally:
            self._lock.release()

    def result(self) -> ExecutionResult:
        """Wait, and copy the outputs out. DEAD_OBJECT in a forked child if it had not ended before."""
        if self._outcome is None:
            self._origin.check("an execution")
            with self._lock:
                if self._outcome is None:
                    try:
                        self._outcome = self._finish()
                    except Exception as error:
                        self._outcome = driver_error("the execution fails", error)
                    lane, self._lane = self._lane, None
                    if lane is not None:
                        self._connection.under_way.pop(self.number, None)
                        self._connection.put_lane(lane, is_idle=isinstance(self._outcome, ExecutionResult))
        if isinstance(self._outcome, NnapiError):
            raise self._outcome
        return self._outcome

    def _finish(self) -> ExecutionResult:
        if self._packet is None:
            assert self._lane is not None
            self._packet, _ = self._connection.receive(self._lane)
        for dependency in self._dependencies():
            dependency.result()  # they write their outputs first, and where one failed so does this
        self._wait_for = ()
        return self._execution.finish(self._packet)

    def _dependencies(self) -> list[RemoteFencedExecution]:
        """All executions that this one waits for, directly or not, the furthest first: chains need no recursion."""
        found = dict.fromkeys(self._wait_for)
        ahead = list(found)
        while ahead:
            more = [other for other in ahead.pop()._wait_for if other not in found]
            found.update(dict.fromkeys(more))
            ahead += more
        return list(reversed(found))

    def export_sync_fd(self) -> int | None:
        """The driver's sync file; None too where an output is written by `result`, which comes after the fence."""
        if self._execution.writes_host or self._outcome is not None:
            return None
        reader, descriptors = self._connection.ask_for_descriptors(protocol.EXPORT.request(self.number))
        try:
            return descriptors.take() if protocol.EXPORT.read(reader) else None
        finally:
            descriptors.close()


def _output_sizes(model: Model, result: ExecutionResult) -> list[int]:
    """Bytes of each output."""
    return [
        math.prod(shape.dimensions) * dtype_of(type_.code).itemsize
        for type_, shape in zip(model.output_types(), result.output_shapes, strict=True)
    ]
