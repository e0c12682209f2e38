"""A process that serves another one through sockets: the C library's server, and a driver's.

A request is a packet: a number, and what belongs to it. A reply is a result code, the length of a reason and the
reason, and what belongs to it. Objects have numbers, which the other process gives them. A socket, called a lane, has
one request under way at a time; the first one, which the process is started with, is for control: a greeting, lanes,
and what is released. A lane on which nothing but `LaneRequest.PING` is asked tells whether the process lives, however
long what it does takes.
"""

from __future__ import annotations

import operator
import os
import resource
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar

from nnvk.base.errors import NnapiError, ResultCode, system_error
from nnvk.base.fields import NOTHING, Write, encoded
from nnvk.base.log import logger
from nnvk.base.packets import Descriptors, Malformed, Reader, map_sealed, receive, send
from nnvk.base.settings import settings

T = TypeVar("T")
_log = logger("manager")
_HEAD = struct.Struct("<iI")
GREETING = struct.Struct("<IIi")
"""The greeting: a value that both must agree on, 0, and the process."""
SUCCESS = _HEAD.pack(0, 0)
_LONGEST_REASON = 4096
_SECONDS_TO_END = 2
_SECONDS_BETWEEN_LOOKS = 0.005
_SECONDS_BETWEEN_SIGNS = 0.25
_SECONDS_TO_BEGIN = 1
"""After a call has begun, within which somebody asks for a sign of life."""
_BUSY = 0.1
"""The share of a processor that a process uses at least that is not idle."""


class LaneRequest(IntEnum):
    """The requests that every such process answers."""

    LANE = 1000
    """Control: serve the socket that comes with it."""
    RELEASE = 1001
    """Control, without a reply: forget objects."""
    MAP = 1002
    """A segment of shared memory for arguments: number, size; the memfd comes with it."""
    UNMAP = 1003
    """Forget a segment. Without a reply on the control socket."""
    PING = 1004
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with descriptors, which are closed after sending; a second one with the result of ``then`` follows."""

    content: bytes
    then: Callable[[], bytes] | None = None
    descriptors: tuple[int, ...] = ()


_DONE = Reply(SUCCESS)
Handler = Callable[[Reader], Reply]
"""Answers a request; the reader knows its session and descriptors."""


@dataclass
class Session:
    """The objects that the other process has made. Requests may be answered on several threads at once."""

    handlers: dict[int, Handler]
    objects: dict[int, Any] = field(default_factory=dict)
    segments: dict[int, memoryview] = field(default_factory=dict)
    """Shared memory for arguments."""
    working: set[socket.socket] = field(default_factory=set)
    """Lanes on which a request is being answered, and what follows it."""
    longest_call_s: Callable[[], float] = lambda: 0.0
    """The seconds since a call of a driver began that has not returned; of several, the first. 0: there is none."""
    left: Callable[[], None] = lambda: None
    """Called when the other process has gone."""
    _idle: tuple[float, float] = 0.0, 0.0
    """When this process began to use no processor time, and what it had used by then."""

    def hangs(self) -> bool:
        """Whether a call of a driver seems never to return.

        It has taken `Settings.patience`, and the process has used no processor time meanwhile: a driver that compiles
        does. To be called again and again while the other process waits.
        """
        now, used, longest, patience = time.monotonic(), time.process_time(), self.longest_call_s(), settings().patience
        since, used_before = self._idle
        if now - since > longest + _SECONDS_TO_BEGIN or used - used_before > _BUSY * (now - since):
            since, _ = self._idle = now, used
        return 0 < patience <= min(longest, now - since)

    def answer(self, packet: memoryview, descriptors: Descriptors) -> Reply:
        """Do what a packet asks. Never raises: what is wrong is in the reply."""
        try:
            reader = Reader(packet)
            reader.session, reader.descriptors = self, descriptors
            number = reader.u32()
            handler = self.handlers.get(number) or _COMMON.get(number)
            if handler is None:
                raise Malformed(f"there is no request {number}")
            reply = handler(reader)
            return replace(reply, then=partial(self._outcome, reply.then)) if reply.then is not None else reply
        except Exception as error:
            return Reply(self.failure(error))

    def _outcome(self, content: Callable[[], bytes]) -> bytes:
        """The reply that comes later, with the content that a handler gives."""
        try:
            return SUCCESS + content()
        except Exception as error:
            return self.failure(error)

    def failure(self, error: Exception) -> bytes:
        """The reply for an exception, whatever it is."""
        return failure(error)

    def get(self, number: int, kind: type[T]) -> T:
        """An object by its number. Malformed: there is none, or of another class."""
        found = self.objects.get(number)
        if not isinstance(found, kind):
            raise Malformed(f"object {number} is no {kind.__name__}")
        return found

    def put(self, number: int, made: T) -> T:
        """Keep an object, and return it, under a number that the other process chose. Malformed: it is taken."""
        if self.objects.setdefault(number, made) is not made:
            raise Malformed(f"there is an object {number} already")
        return made

    def segment(self, number: int, offset: int, length: int) -> memoryview:
        """A part of a segment. Malformed: it lies outside."""
        segment = self.segments.get(number)
        if segment is None or offset + length > segment.nbytes:
            raise Malformed(f"bytes {offset} to {offset + length} of segment {number} are none")
        return segment[offset : offset + length]


def answering(call: Callable[..., Any], *readers: Callable[[Reader], Any], result: Write = NOTHING.write) -> Handler:
    """A handler that calls a function with what it reads, and writes what the function returns unless it is a reply."""

    def handle(reader: Reader) -> Reply:
        arguments = [read(reader) for read in readers]
        reader.end()
        answer = call(*arguments)
        if isinstance(answer, Reply):
            return answer
        return _DONE if result is NOTHING.write else Reply(SUCCESS + encoded(result, answer))

    return handle


read_session = operator.attrgetter("session")
read_descriptors = operator.attrgetter("descriptors")


def keeping(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `nnvk.base.fields.NEW` as a further parameter, the last one: its result is kept."""
    return lambda *given: given[-1](call(*given[:-1]))


def failure(error: Exception, more: bytes = b"") -> bytes:
    """The reply for an exception, whatever it is; ``more`` belongs to it."""
    if isinstance(error, NnapiError):
        code, reason = error.code, error.reason
    elif isinstance(error, Malformed):
        code, reason = ResultCode.BAD_DATA, f"the two processes don't understand each other: {error}"
    elif isinstance(error, OSError):
        exhausted = system_error("the process fails", error)
        code, reason = exhausted.code, exhausted.reason
    elif isinstance(error, MemoryError):
        code, reason = ResultCode.OUT_OF_MEMORY, f"the process has not enough memory: {error}"
    else:
        code, reason = ResultCode.OP_FAILED, f"{type(error).__name__}: {error}"
    encoded = reason.encode(errors="replace")[:_LONGEST_REASON]
    return _HEAD.pack(code, len(encoded)) + encoded + more


def serve(control: socket.socket, session: Session, fingerprint: int) -> None:
    """Serve the process at the other end of ``control`` until it has gone."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the other process's own limit is what counts
    control.send(GREETING.pack(fingerprint, 0, os.getpid()))
    while True:
        try:
            received = receive(control)
        except (Malformed, NnapiError) as error:
            _ignore(error)
            continue
        if received is None:
            break
        _control(session, *received)
    session.left()
    # Nobody wants what is under way, and what hangs shall not keep the process: SIGALRM ends it whatever it does.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS_TO_END)
    while session.working:
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _control(session: Session, packet: memoryview, descriptors: Descriptors) -> None:
    """A new lane, or what is not needed any more. Nothing is answered; what is wrong is ignored."""
    try:
        reader = Reader(packet)
        number = reader.u32()
        if number == LaneRequest.LANE:
            lane = _socket(descriptors)
            threading.Thread(target=_serve_lane, args=(session, lane), name="nnvk-lane", daemon=True).start()
        elif number == LaneRequest.RELEASE:
            for released in reader.u64s():
                session.objects.pop(released, None)
        elif number == LaneRequest.UNMAP:
            _unmap(session, reader.u32())
    except (Malformed, NnapiError, OSError, RuntimeError) as error:  # without a thread or descriptor the lane is closed
        _ignore(error)
    finally:
        descriptors.close()


def _ignore(error: Exception) -> None:
    _log.warning("on the control socket: %s", error)


def _socket(descriptors: Descriptors) -> socket.socket:
    """The socket that came with a packet. OSError: it is none."""
    descriptor = descriptors.take()
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise


def _serve_lane(session: Session, lane: socket.socket) -> None:
    """Answer one request after the other, until the other process closes the lane."""
    with lane:
        try:
            while True:
                try:
                    received = receive(lane)
                except (Malformed, NnapiError) as error:  # the packet can't be read, and the next one can
                    send(lane, [session.failure(error)])
                    continue
                if received is None:
                    return
                packet, descriptors = received
                session.working.add(lane)
                try:
                    reply = session.answer(packet, descriptors)
                finally:
                    descriptors.close()
                del packet, received
                is_sent = _send(session, lane, reply)
                if reply.then is not None and is_sent:
                    send(lane, [reply.then()])
                del reply
                session.working.discard(lane)
        except OSError as error:
            _log.debug("a lane has ended: %s", error)
        finally:
            session.working.discard(lane)


def _send(session: Session, lane: socket.socket, reply: Reply) -> bool:
    """Send a reply, or why it can't be sent: False."""
    try:
        send(lane, [reply.content], reply.descriptors)
        return True
    except NnapiError as error:
        send(lane, [session.failure(error)])
        return False
    finally:
        for descriptor in reply.descriptors:
            os.close(descriptor)


# --- what every session answers ------------------------------------------------------------------------------------


def _map(session: Session, number: int, size: int, descriptors: Descriptors) -> None:
    descriptor = descriptors.take()
    try:
        segment = memoryview(map_sealed(descriptor, size))
    finally:
        os.close(descriptor)
    if session.segments.setdefault(number, segment) is not segment:
        raise Malformed(f"there is a segment {number} already")


def _unmap(session: Session, number: int) -> None:
    session.segments.pop(number, None)


def _ping(session: Session) -> None:
    while session.hangs():
        time.sleep(_SECONDS_BETWEEN_SIGNS)


_COMMON: dict[int, Handler] = {
    LaneRequest.MAP: answering(_map, read_session, Reader.u32, Reader.u64, read_descriptors),
    LaneRequest.UNMAP: answering(_unmap, read_session, Reader.u32),
    LaneRequest.PING: answering(_ping, read_session),
}


def read_head(packet: memoryview) -> tuple[int, str, Reader]:
    """A reply's result code, its reason, and what belongs to it. Malformed: it is none."""
    reader = Reader(packet)
    code, length = reader.unpack(_HEAD)
    return code, bytes(reader.bytes(length)).decode(errors="replace"), reader


def released(numbers: Sequence[int]) -> bytes:
    """The packet that releases objects."""
    return struct.pack(f"<II{len(numbers)}Q", LaneRequest.RELEASE, len(numbers), *numbers)
