"""The handlers of `nnvk.importers.onnx.provider`, imported by the first request: other applications don't wait for it.

Without the onnx package each request fails with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from nnvk.base.lanes import Handler, Reply
from nnvk.base.packets import Reader
from nnvk.serve.protocol import Request


def _late(request: Request) -> Handler:
    def handler(reader: Reader) -> Reply:
        found: Handler = import_module("nnvk.importers.onnx.provider").HANDLERS[request]
        return found(reader)

    return handler


HANDLERS: Mapping[int, Handler] = {request: _late(request) for request in Request if request.name.startswith("ONNX_")}
"""The handlers, by the number of the request."""
