"""The server: a thread for each lane, and the control socket, whose end is the application's."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import signal
import socket
import struct
import threading
from collections.abc import Mapping

from nnvk.api import NnapiError
from nnvk.base.log import logger
from nnvk.serve.protocol import INDIRECT, LARGEST_PACKET, MOST_DESCRIPTORS, Malformed, Reader, Request, fingerprint
from nnvk.serve.requests import handlers
from nnvk.serve.session import Descriptors, Handler, Reply, Session, map_sealed

_log = logger("manager")
_INDIRECT = struct.Struct("<IQ")
_ANCILLARY = socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)
_SECONDS_TO_END = 2
_Packet = tuple[memoryview, Descriptors]


def serve(control: socket.socket, more: Mapping[int, Handler]) -> None:
    """Serve the application at the other end of ``control`` until it has gone.

    ``more`` are handlers of requests that belong to a layer above.
    """
    session = Session({**handlers(), **more})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the application's own limit is what counts
    control.send(struct.pack("<IIi", fingerprint(), 0, os.getpid()))
    while True:
        packet = _receive(control)
        if packet is None:
            break
        _control(session, *packet)
    # Nobody wants what is under way, and what hangs shall not keep the process: SIGALRM ends it whatever it does.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS_TO_END)
    with session.is_idle:
        session.is_idle.wait_for(lambda: not session.under_way)


def _control(session: Session, packet: memoryview, descriptors: Descriptors) -> None:
    """A new lane, or objects that are not needed any more. Nothing is answered; what is wrong is ignored."""
    try:
        reader = Reader(packet)
        number = reader.u32()
        if number == Request.LANE:
            lane = _socket(descriptors)
            threading.Thread(target=_serve_lane, args=(session, lane), name="nnvk-lane", daemon=True).start()
        elif number == Request.RELEASE:
            for released in reader.u64s():
                session.objects.pop(released, None)
    except (Malformed, NnapiError, OSError, RuntimeError) as error:  # without a thread or descriptor the lane is closed
        _log.warning("on the control socket: %s", error)
    finally:
        descriptors.close()


def _socket(descriptors: Descriptors) -> socket.socket:
    """The socket that came with a packet. OSError: it is none."""
    descriptor = descriptors.take()
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise


def _serve_lane(session: Session, lane: socket.socket) -> None:
    """Answer one request after the other, until the library closes the lane."""
    with lane:
        try:
            while True:
                received = _receive(lane)
                if received is None:
                    return
                packet, descriptors = received
                with session.working():
                    try:
                        reply = session.answer(packet, descriptors)
                    finally:
                        descriptors.close()
                    del packet
                    _send(lane, reply)
                    if reply.then is not None:
                        _send(lane, Reply(reply.then()))
                    del reply
        except OSError as error:
            _log.debug("a lane has ended: %s", error)


def _receive(source: socket.socket) -> _Packet | None:
    """The next packet; None: the other end is closed."""
    try:
        content, ancillary, flags, _ = source.recvmsg(LARGEST_PACKET, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    if not content and not ancillary:
        return None
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    descriptors = Descriptors(numbers, are_all=not flags & socket.MSG_CTRUNC)
    packet = memoryview(content)
    if content.startswith(_INDIRECT_MARK):
        try:
            packet = _mapped(packet, descriptors)
        except (Malformed, NnapiError, OSError) as error:
            descriptors.close()
            packet = memoryview(b"")  # which no request is: the reply says so
            _log.warning("a packet can't be read: %s", error)
    return packet, descriptors


def _mapped(packet: memoryview, descriptors: Descriptors) -> memoryview:
    """A packet that lies in shared memory, which stays as long as something refers to it."""
    try:
        _, size = _INDIRECT.unpack(packet)
    except struct.error as error:
        raise Malformed(str(error)) from None
    descriptor = descriptors.take()
    try:
        return memoryview(map_sealed(descriptor, size))
    finally:
        os.close(descriptor)


def _send(target: socket.socket, reply: Reply) -> None:
    content = reply.content
    if len(content) <= LARGEST_PACKET:
        target.send(content)
        return
    descriptor = _shared(content)
    try:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        target.sendmsg([_INDIRECT.pack(INDIRECT, len(content))], ancillary)
    finally:
        os.close(descriptor)


def _shared(content: bytes) -> int:
    """A sealed memfd with a packet."""
    descriptor = os.memfd_create("nnvk-packet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return descriptor


_INDIRECT_MARK = struct.pack("<I", INDIRECT)
