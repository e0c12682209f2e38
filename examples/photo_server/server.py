"""A server for a photo library, with the HTTP interface of Immich's machine learning, whose models run on nnvk.

    python examples/photo_server/make_models.py models
    PYTHONPATH=examples/service python examples/photo_server/server.py models

``POST /predict`` takes a form: ``entries`` is JSON, ``{task: {type: {"modelName": name, "options": {}}}}``, and
``image`` or ``text`` is what the models get. Tasks are ``clip``, ``facial-recognition`` and ``ocr``. Each model has a
file ``FOLDER/task/name/type/model.onnx``. ``GET /ping`` answers at once; ``GET /health`` computes a known row of each.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from batches import STATUS
from PIL import Image
from tasks import Models, Wanted

import nnvk

MOST_BYTES = 64 << 20
"""The largest request."""
MOST_WAITING = 64
"""The requests that may be under way or wait. The server refuses more at once."""
MOST_AT_ONCE = 8
"""The requests whose pictures are in memory at the same time."""


def form(content_type: str, body: bytes) -> dict[str, bytes]:
    """The fields of a form (multipart/form-data). Raises ValueError if it is none."""
    boundary = re.search(r'^multipart/form-data;.*boundary="?([^";]+)', content_type)
    if boundary is None:
        raise ValueError(f"expected multipart/form-data, got {content_type[:100]!r}")
    fields = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("latin-1")):
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'[; ]name="([^"]*)"', head)
        if name:
            fields[name[1].decode("utf-8", "replace")] = content
    return fields


class PhotoServer(ThreadingHTTPServer):
    """The server. Each request has a thread; the end waits for their answers."""

    daemon_threads = False
    request_queue_size = 2 * MOST_WAITING

    def __init__(self, address: tuple[str, int], models: Models) -> None:
        super().__init__(address, Handler)
        self.models = models
        self.under_way = threading.BoundedSemaphore(MOST_WAITING)
        self.at_once = threading.BoundedSemaphore(MOST_AT_ONCE)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PhotoServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # a client that sends nothing for so many seconds is gone

    def do_GET(self) -> None:
        """Answer whether the server lives, or whether its models compute what they should."""
        if self.path == "/ping":
            self._send(200, "pong")
        elif self.path == "/health":
            self._answer(lambda: {"ok": self.server.models.are_right()})
        else:
            self._send(404, {"detail": "there are /ping, /health and /predict"})

    def do_POST(self) -> None:
        """Answer the tasks of a form."""
        given = self.headers.get("Content-Length", "")
        length = int(given) if re.fullmatch("[0-9]{1,18}", given) else -1
        if self.path != "/predict" or not 0 <= length <= MOST_BYTES:
            status = 404 if self.path != "/predict" else 413 if length > 0 else 411
            return self._send(status, {"detail": f"POST /predict takes a form of at most {MOST_BYTES} bytes"})
        body = self.rfile.read(length)
        if not self.server.under_way.acquire(blocking=False):
            return self._send(503, {"detail": "too many requests wait"})
        try:
            with self.server.at_once:
                self._answer(lambda: self._predicted(form(self.headers.get("Content-Type", ""), body)))
        finally:
            self.server.under_way.release()

    def _predicted(self, fields: dict[str, bytes]) -> dict[str, Any]:
        wanted = Wanted.read(fields.get("entries", b""))
        image, sizes = None, {}
        if "image" in fields:
            try:
                image = Image.open(io.BytesIO(fields["image"])).convert("RGB")
            except (OSError, SyntaxError, Image.DecompressionBombError):
                raise ValueError("the image can't be read") from None
            sizes = {"imageHeight": image.height, "imageWidth": image.width}
        text = fields.get("text", b"").decode("utf-8", "replace")
        return {each.task: self.server.models.predict(each, image, text) for each in wanted} | sizes

    def _answer(self, compute: Callable[[], dict[str, Any]]) -> None:
        """Send what is computed, or the error with its status."""
        try:
            answer = compute()
            status = 503 if answer.get("ok") is False else 200
        except ValueError as error:
            status, answer = 422, {"detail": str(error)}
        except nnvk.NnapiError as error:
            status, answer = STATUS.get(error.code, 500), {"detail": f"{error.code.name}: {error.reason}"}
        except Exception as error:
            self.log_error("%s: %s", type(error).__name__, error)
            status, answer = 500, {"detail": "the server has failed"}
        self._send(status, answer)

    def _send(self, status: int, content: Any) -> None:
        """Send a text, or JSON, and close the connection: idle ones would keep the server from ending."""
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log errors alone."""
        if int(code) >= 500:
            super().log_request(code, size)


def main() -> None:
    """Compile the models and answer requests until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the models")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3003)
    parser.add_argument("--device", help="a name that `nnvk devices` shows")
    given = parser.parse_args()
    models = Models(given.folder, partial(nnvk.load, device=given.device))
    server = PhotoServer((given.host, given.port), models)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on {given.host}:{server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()
    models.close()


if __name__ == "__main__":
    main()
