"""The driver's process as this one sees it: lanes to it, numbers of objects there, and memory that both map."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import time
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nnvk.base import forks
from nnvk.base.detached_work import settle_detached_work
from nnvk.base.errors import NnapiError, ResultCode, UnfitData, VerificationError, system_error
from nnvk.base.lanes import GREETING, LaneRequest, read_head, released
from nnvk.base.limits import poll
from nnvk.base.log import logger
from nnvk.base.packets import ALIGNMENT, Descriptors, Malformed, Reader, Writer, limit_waits, receive, send
from nnvk.base.settings import settings
from nnvk.driver.process.protocol import UNFIT, UNVERIFIED, Row, fingerprint

T = TypeVar("T")
_log = logger("driver")
SLICE_SECONDS = 0.25
"""How long a wait lasts before it asks whether the process lives."""
_PATIENCES_TO_START = 12
"""A process that starts has much to read, and the machine may be slow."""
_SECONDS_TO_END = 0.2
"""Between the first socket that a dying process closes, and the last."""
_MOST_IDLE_LANES = 8
_SMALLEST_BLOCK = ALIGNMENT
_LARGEST_SMALL_BLOCK = 64 * 1024
_CHUNK = 1024 * 1024
_MOST_IDLE_BYTES = 64 * 1024 * 1024
_LOST = (BrokenPipeError, ConnectionResetError)
_PING = struct.pack("<I", LaneRequest.PING)
Command = Callable[[int], Sequence[str]]
"""The command that starts a process which serves a socket, given by its descriptor."""


class DriverProcess:
    """The process of a driver: started on the first need, and again where it has died, and in a forked child."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._lock = forks.lock()
        self.renew()
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Begin without a process; a forked child gets one of its own."""
        self._current: Connection | None = None

    def running(self) -> Connection:
        """The process, living as far as is known. UNAVAILABLE_DEVICE: it can't be started."""
        current = self._current
        if current is not None and current.lives:
            return current
        with self._lock:
            if self._current is None or not self._current.lives:
                self._current = Connection(self._command)
            return self._current

    def end(self, reason: str) -> None:
        """End the process if it lives, as if it had died for this reason."""
        current = self._current
        if current is not None and current.lives:
            current.died(reason)


class SharedSegment:
    """Memory that both processes map."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.descriptor = os.memfd_create("nnvk-arguments", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self.array = np.frombuffer(mmap.mmap(self.descriptor, size), np.uint8)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The descriptor, which is not needed once the other process has mapped it."""
        os.close(self.descriptor)


class SharedBlock:
    """A part of a segment, which goes back when it is dropped."""

    def __init__(self, connection: Connection, segment: SharedSegment, offset: int, size: int) -> None:
        self._connection = connection
        self._segment: SharedSegment | None = segment
        self.number = segment.number
        """The segment's."""
        self.offset = offset
        self.size = size
        self.array = segment.array[offset : offset + size]
        """The bytes."""

    def abandon(self) -> None:
        """Don't use the memory for anything else: the driver may still write there."""
        segment, self._segment = self._segment, None
        if segment is not None and self.size > _LARGEST_SMALL_BLOCK:
            self._connection.forget(segment)

    def __del__(self) -> None:
        segment = getattr(self, "_segment", None)
        if segment is not None:
            self._connection.give_back(segment, self.offset, self.size)


class Connection:
    """One process of the driver, from its start to its end. It is never started again: see `DriverProcess`."""

    def __init__(self, command: Command) -> None:
        self._origin = forks.Origin()
        self._dead = ""
        self._lock = forks.lock()
        self._control_lock = forks.lock()
        self._numbers = itertools.count(1)
        self._segments = itertools.count(1)
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._idle: deque[socket.socket] = deque()
        self.under_way: dict[int, object] = {}
        """Objects that fenced executions need until their end. The garbage collector does not finalise such an object
        here together with events that it finds in circles, which are waited for all the same."""
        self._left: deque[bytes] = deque()
        """Releases that are not sent yet."""
        self._free: defaultdict[int, list[tuple[SharedSegment, int]]] = defaultdict(list)
        self._large: defaultdict[int, list[SharedSegment]] = defaultdict(list)
        self._large_bytes = 0
        self._control, its = self._socket_pair()
        self._life, its_life = self._socket_pair()
        self._process = self._start(command, its, its_life)
        self._control.setblocking(False)
        self._watch = _Watch(self._new_lane())
        forks.renew_in_child(self)
        _connections.add(self)

    def renew(self) -> None:
        """In a forked child: the process is the parent's, and notices its end by sockets that nobody else has."""
        for each in list(self._sockets):
            each.close()
        self.under_way.clear()

    def _socket_pair(self) -> tuple[socket.socket, socket.socket]:
        try:
            mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            otherwise = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
            raise system_error("there is no socket for the driver's process", error, otherwise) from error
        self._sockets.add(mine)
        return mine, its

    def _start(self, command: Command, its: socket.socket, life: socket.socket) -> subprocess.Popen[bytes]:
        """Start the process; it is up once it has sent its greeting."""
        try:
            with its, life:
                process = subprocess.Popen(
                    command(its.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[its.fileno(), life.fileno()],
                    # The terminal is this process's own.
                    env={**os.environ, **replace(settings(), progress=False).environment()},
                    start_new_session=True,  # Ctrl-C is for this process to decide on
                )
                _continue_at_end(life, process.pid)
        except OSError as error:
            otherwise = ResultCode.UNAVAILABLE_DEVICE
            raise system_error("the driver's process can't be started", error, otherwise) from error
        except ValueError as error:
            raise _unavailable(f"the driver's process can't be started: {error}") from error
        try:
            _await_greeting(self._control, process.pid)
            greeting = self._control.recv(GREETING.size)
        except BaseException as error:
            end = _end_of(process)
            if isinstance(error, OSError):
                raise _unavailable(f"the driver's process does not start: {error}; {end}") from error
            raise
        if len(greeting) != GREETING.size:
            raise _unavailable(f"the driver's process does not start: {_end_of(process)}")
        if GREETING.unpack(greeting)[0] != fingerprint():
            _end_of(process)
            raise _unavailable("the driver's process is of another version of nnvk")
        return process

    # --- life and death ----------------------------------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """Whether it was started by this process, and not by one that this was forked from."""
        return self._origin.is_here

    @property
    def lives(self) -> bool:
        """Whether the process lives, as far as can be told without asking it."""
        return self.is_here and not self._dead and not _is_readable(self._control)

    def check(self) -> None:
        """Raise DEAD_OBJECT unless the process lives, as far as is known, and is this process's own."""
        self._origin.check("what lives in a driver's process")
        if self._dead:
            raise NnapiError(ResultCode.DEAD_OBJECT, self._dead)

    def look(self) -> None:
        """After a wait without an answer: end the process if it has stopped answering at all. Raises as `check`."""
        if self._watch.is_silent():
            self.died(f"it has not answered anything for {settings().patience} seconds, and was ended")
        self.check()

    def died(self, reason: str = "") -> NnapiError:
        """It is dead from now on; the error to raise. ``reason``: where it has not just ended by itself."""
        with self._lock:
            if not self._dead:
                # Others may ask while its end is waited for.
                self._dead = f"the driver's process has died: {reason}" if reason else "the driver's process has died"
                end = _end_of(self._process)
                self._dead = f"the driver's process has died: {reason or end}"
                _log.info("%s", self._dead)
        return NnapiError(ResultCode.DEAD_OBJECT, self._dead)

    def _lost(self, reason: str) -> NnapiError:
        """A lane does not work: the process has died, or has no thread or descriptor for it."""
        self.check()
        if _is_readable(self._control, _SECONDS_TO_END):
            return self.died()
        return NnapiError(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, f"the driver can't do more at once: {reason}")

    def close(self) -> None:
        """End the process. Later requests raise DEAD_OBJECT."""
        if self.is_here and not self._dead:
            self._dead = "the driver's process was ended"
            _end_of(self._process)

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, request: Writer, descriptors: Sequence[int] = ()) -> Reader:
        """The content of the reply. Raises the error that came in its place, and DEAD_OBJECT."""
        reader, received = self.ask_for_descriptors(request, descriptors)
        received.close()
        return reader

    def ask_for_descriptors(self, request: Writer, descriptors: Sequence[int] = ()) -> tuple[Reader, Descriptors]:
        """As `ask`, with the descriptors that came with the reply."""
        lane = self.take_lane()
        is_idle = False
        try:
            self.send(lane, request, descriptors)
            packet, received = self.receive(lane)
            is_idle = True
        finally:
            self.put_lane(lane, is_idle=is_idle)
        return self.opened(packet), received

    def call(self, row: Row[T], *arguments: Any) -> T:
        """The result of a request. Raises as `ask`."""
        return row.read(self.ask(row.request(*arguments)))

    def opened(self, packet: memoryview) -> Reader:
        """The content of a reply. Raises the error that came in its place."""
        try:
            code, reason, reader = read_head(packet)
            if code == ResultCode.NO_ERROR:
                return reader
            code = ResultCode(code)
        except ValueError as error:  # Malformed, or no result code
            raise self.died(f"its reply makes no sense: {error}") from error
        kind = reader.rest()
        if kind == UNVERIFIED:
            raise VerificationError(reason)
        raise UnfitData(reason) if kind == UNFIT else NnapiError(code, reason)

    def send(self, lane: socket.socket, request: Writer, descriptors: Sequence[int] = ()) -> None:
        """Send a request. Raises DEAD_OBJECT, and what keeps it from being sent."""
        self.check()
        while True:
            try:
                send(lane, request.parts, descriptors)
            except BlockingIOError:
                self.look()
            except _LOST as error:
                raise self._lost(str(error)) from error
            except OSError as error:
                raise system_error("a request can't be sent to the driver's process", error) from error
            else:
                return

    def receive(self, lane: socket.socket) -> tuple[memoryview, Descriptors]:
        """Wait for a reply. Raises DEAD_OBJECT, and what keeps it from being read."""
        while True:
            try:
                received = receive(lane)
            except BlockingIOError:
                self.look()
            except Malformed as error:
                raise self.died(f"its reply makes no sense: {error}") from error
            except OSError as error:
                raise self._lost(str(error)) from error
            else:
                if received is None:
                    raise self._lost("it has closed the connection")
                return received

    def await_reply(self, lane: socket.socket, timeout_seconds: float | None) -> bool:
        """Wait until there is a reply, or the process has died; None: without limit. False: not yet."""
        give_up = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = SLICE_SECONDS if give_up is None else min(SLICE_SECONDS, max(0.0, give_up - time.monotonic()))
            if _is_readable(lane, left):
                return True
            if give_up is not None and time.monotonic() >= give_up:
                return False
            self.look()

    def take_lane(self) -> socket.socket:
        """A lane that nobody uses."""
        self.check()
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_lane()

    def put_lane(self, lane: socket.socket, *, is_idle: bool) -> None:
        """Give a lane back; unless ``is_idle``, something may still come from it, and it is closed."""
        if is_idle and len(self._idle) < _MOST_IDLE_LANES:
            self._idle.append(lane)
        else:
            lane.close()

    def _new_lane(self) -> socket.socket:
        mine, its = self._socket_pair()
        limit_waits(mine, SLICE_SECONDS)
        with its:
            request = struct.pack("<I", LaneRequest.LANE)
            while True:
                with self._control_lock:
                    try:
                        self._send_left()
                        send(self._control, [request], [its.fileno()])
                        return mine
                    except BlockingIOError:
                        pass
                    except _LOST as error:
                        raise self.died() from error
                    except OSError as error:
                        raise system_error("there is no lane to the driver's process", error) from error
                _await_room(self._control)
                self.look()

    # --- objects -----------------------------------------------------------------------------------------------------

    def new_number(self) -> int:
        """For an object that is made there."""
        return next(self._numbers)

    def release(self, number: int) -> None:
        """Forget an object there. It never fails or waits: finalisers call it."""
        self._leave(released([number]))

    def _leave(self, packet: bytes) -> None:
        if self._dead or not self.is_here:
            return
        self._left.append(packet)
        if self._control_lock.acquire(blocking=False):  # else it goes with the next one
            try:
                self._send_left()
            except (OSError, NnapiError):  # there is no room at present, or it is dead
                pass
            finally:
                self._control_lock.release()

    def _send_left(self) -> None:
        while self._left:
            send(self._control, [self._left[0]])
            self._left.popleft()

    # --- shared memory -----------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> SharedBlock:
        """At least so many bytes. OUT_OF_MEMORY: they can't be had."""
        self.check()
        if size > _LARGEST_SMALL_BLOCK:
            rounded = -(-size // _LARGEST_SMALL_BLOCK) * _LARGEST_SMALL_BLOCK
            with contextlib.suppress(IndexError):
                segment = self._large[rounded].pop()
                self._large_bytes -= rounded
                return SharedBlock(self, segment, 0, rounded)
            return SharedBlock(self, self._new_segment(rounded), 0, rounded)
        rounded = _SMALLEST_BLOCK
        while rounded < size:
            rounded *= 2
        places = self._free[rounded]
        while True:
            with contextlib.suppress(IndexError):
                segment, offset = places.pop()
                return SharedBlock(self, segment, offset, rounded)
            segment = self._new_segment(_CHUNK)
            places += [(segment, offset) for offset in range(_CHUNK - rounded, -1, -rounded)]

    def give_back(self, segment: SharedSegment, offset: int, size: int) -> None:
        """A block is not needed any more. It never fails or waits: finalisers call it."""
        if size <= _LARGEST_SMALL_BLOCK:
            self._free[size].append((segment, offset))
        elif self._large_bytes + size <= _MOST_IDLE_BYTES:
            self._large_bytes += size
            self._large[size].append(segment)
        else:
            self.forget(segment)

    def forget(self, segment: SharedSegment) -> None:
        """A segment is not needed any more."""
        self._leave(struct.pack("<II", LaneRequest.UNMAP, segment.number))

    def _new_segment(self, size: int) -> SharedSegment:
        try:
            segment = SharedSegment(next(self._segments), size)
        except (OSError, ValueError, OverflowError) as error:
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise system_error(f"{size} bytes of shared memory", cause, ResultCode.OUT_OF_MEMORY) from error
        try:
            request = Writer(LaneRequest.MAP, segment.number).u64(size)
            self.ask(request, [segment.descriptor])
        finally:
            segment.close()
        return segment


def _continue_at_end(life: socket.socket, pid: int) -> None:
    """Have the kernel continue a stopped process, which then ends, when the other end of its socket is closed."""
    with contextlib.suppress(OSError):  # else it stays until somebody continues or kills it
        fcntl.fcntl(life, fcntl.F_SETOWN, pid)
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGCONT)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | fcntl.FASYNC)


def _await_greeting(control: socket.socket, pid: int) -> None:
    """Wait until a process that starts says something. TimeoutError: nothing is to be expected of it any more."""
    patience = settings().patience
    waited = stopped = 0.0
    while not _is_readable(control, SLICE_SECONDS):
        waited += SLICE_SECONDS
        stopped = stopped + SLICE_SECONDS if _is_stopped(pid) else 0.0
        if patience and stopped >= patience:
            raise TimeoutError(f"it has been stopped for {patience} seconds")
        if patience and waited >= _PATIENCES_TO_START * patience:
            raise TimeoutError(f"it has not answered for {_PATIENCES_TO_START * patience} seconds")


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False


class _Watch:
    """Tells a process that takes long from one that has stopped: a lane of its own, on which it is asked now and then.

    Silence counts as long as somebody waits, and by the time that the wait should have taken: where this process was
    stopped itself, or the whole machine, the other one gets its chance to answer.
    """

    def __init__(self, lane: socket.socket) -> None:
        self._lane = lane
        self._lane.setblocking(False)
        self._lock = forks.lock()
        self._is_asked = False
        self._looked = 0.0
        self._silence = 0.0

    def is_silent(self) -> bool:
        """Whether it has not answered for `Settings.patience`. To be called every `SLICE_SECONDS` of a wait."""
        patience = settings().patience
        if not patience or not self._lock.acquire(blocking=False):
            return False
        try:
            now = time.monotonic()
            if self._is_asked and not _is_readable(self._lane):
                self._silence += min(now - self._looked, 2 * SLICE_SECONDS)
            else:
                self._silence = 0.0
                self._is_asked = True
                with contextlib.suppress(OSError):  # the other end is closed, which others notice
                    self._lane.recv(64)
                with contextlib.suppress(OSError):
                    self._lane.send(_PING)
            self._looked = now
            return self._silence >= patience
        finally:
            self._lock.release()


def _is_readable(source: socket.socket, seconds: float = 0.0) -> bool:
    """Whether something can be received, or the other end is closed: all that comes on the control socket."""
    try:
        return bool(poll(source.fileno(), select.POLLIN, 1000 * seconds))
    except (OSError, ValueError):  # closed here
        return True


def _await_room(target: socket.socket) -> None:
    poll(target.fileno(), select.POLLOUT, 1000 * SLICE_SECONDS)


def _end_of(process: subprocess.Popen[bytes]) -> str:
    """How a process has ended, for people; it is killed if it has not."""
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)  # it may be about to end by itself, and tell how
    process.kill()
    try:
        code = process.wait(1)
    except subprocess.TimeoutExpired:  # the kernel does something for it that can't be interrupted
        return "it does not end even when it is killed"
    return f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it has ended with exit code {code}"


def _unavailable(reason: str) -> NnapiError:
    return NnapiError(ResultCode.UNAVAILABLE_DEVICE, reason)


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """No process stays behind; what was dropped under way comes to its end first."""
    if _connections:
        settle_detached_work()
    for connection in list(_connections):
        connection.close()
