"""The C library's server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from nnvk.base import lanes, progress
from nnvk.base.lanes import Handler, Session
from nnvk.base.settings import override
from nnvk.serve.protocol import fingerprint
from nnvk.serve.requests import handlers


def serve(control: socket.socket, more: Mapping[int, Handler], longest_call_s: Callable[[], float]) -> None:
    """Serve the application at the other end of ``control`` until it has gone.

    ``more`` are handlers of requests that belong to a layer above. ``longest_call_s`` as of a `Session`.
    """
    with override(driver_process=False):  # this process is apart from the application already
        session = Session({**handlers(), **more}, longest_call_s=longest_call_s, left=progress.leave)
        lanes.serve(control, session, fingerprint())
