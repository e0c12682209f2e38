"""onnxruntime computes nodes of constants in a process with limits, which stays for the next ones."""

from __future__ import annotations

import io
import os
import select
import struct
import subprocess
import time
from importlib.util import find_spec

import numpy as np
from onnx import ModelProto

from nnvk.base import forks
from nnvk.base.settings import settings
from nnvk.importers.limited import LIBRARY_BYTES, start_limited

_SIZE = struct.Struct("<Q")
_COMPUTE = """
import io
import struct
import numpy
import onnxruntime
limit()
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = 1
options.log_severity_level = 4
given, taken = sys.stdin.buffer, sys.stdout.buffer
while head := given.read(8):
    data, found = given.read(*struct.unpack("<Q", head)), io.BytesIO()
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        for array in session.run(None, {}):
            numpy.save(found, array, allow_pickle=False)
    except Exception:
        found = io.BytesIO()
    taken.write(struct.pack("<Q", len(found.getvalue())) + found.getvalue())
    taken.flush()
"""


class _Process:
    """The process, which is started by the first graph, and anew after it was ended. Threads may share it."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def outputs(self, model: ModelProto) -> list[np.ndarray] | None:
        """The outputs of a graph without inputs; None if onnxruntime does not compute it."""
        with self._lock:
            try:
                reply = self._asked(model.SerializeToString())
            except (OSError, ValueError):
                self._end()
                return None
        found, size = io.BytesIO(reply), len(reply)
        outputs = []
        while found.tell() < size:
            outputs.append(np.load(found, allow_pickle=False))
        return outputs if len(outputs) == len(model.graph.output) else None

    def _asked(self, data: bytes) -> bytes:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = start_limited(_COMPUTE, LIBRARY_BYTES), os.getpid()
        assert self._process.stdin is not None
        self._process.stdin.write(_SIZE.pack(len(data)) + data)
        self._process.stdin.flush()
        patience = settings().patience
        end = time.monotonic() + patience if patience else None
        (size,) = _SIZE.unpack(self._read(_SIZE.size, end))
        return self._read(size, end)

    def _read(self, size: int, end: float | None) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        parts, left = [], size
        while left:
            wait = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._process.stdout], [], [], wait)[0]:
                raise TimeoutError("onnxruntime does not come to an end")
            part = os.read(self._process.stdout.fileno(), min(left, 1 << 20))
            if not part:
                raise EOFError("onnxruntime's process has ended")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self._process = None


_process = _Process()


def computed(model: ModelProto) -> list[np.ndarray] | None:
    """The outputs of a graph without inputs; None if onnxruntime is not there, not wanted, or does not compute it."""
    if not settings().cpu_libraries or find_spec("onnxruntime") is None:
        return None
    return _process.outputs(model)
