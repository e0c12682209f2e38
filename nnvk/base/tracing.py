"""Spans of what nnvk does, for chrome://tracing and Perfetto.

Nothing is recorded, and next to nothing spent, unless somebody listens: ``with tracing.record() as trace: ...``, then
``trace.write(path)``. Times are those of ``time.perf_counter_ns``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A named interval of time."""

    name: str
    category: str
    """The category: compilation, execution, partition, control, cpuexe, driver or gpu."""
    start_ns: int
    duration_ns: int
    lane: str
    """The thread, or the queue of a device, that it happened on."""
    details: dict[str, Any] = field(default_factory=dict)


class Trace:
    """The spans of one recording."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def write(self, path: Path) -> None:
        """Write the Trace Event Format (JSON) that chrome://tracing and Perfetto read."""
        lanes = {lane: number for number, lane in enumerate(dict.fromkeys(span.lane for span in self.spans))}
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": number, "args": {"name": lane}}
            for lane, number in lanes.items()
        ]
        events += [
            {
                "name": span.name,
                "cat": span.category,
                "ph": "X",
                "ts": span.start_ns / 1000,
                "dur": span.duration_ns / 1000,
                "pid": process,
                "tid": lanes[span.lane],
                "args": span.details,
            }
            for span in self.spans
        ]
        path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")


_listeners: tuple[Trace, ...] = ()
_lock = threading.Lock()
_nothing = nullcontext()


def is_recording() -> bool:
    """Whether a recording is in progress."""
    return bool(_listeners)


@contextmanager
def record() -> Iterator[Trace]:
    """Record what all threads do inside the ``with`` block. Recordings may overlap."""
    global _listeners
    trace = Trace()
    with _lock:
        _listeners = (*_listeners, trace)
    try:
        yield trace
    finally:
        with _lock:
            _listeners = tuple(one for one in _listeners if one is not trace)


def span(name: str, category: str, **details: Any) -> AbstractContextManager[None]:
    """Record the time that a ``with`` block takes."""
    return _nothing if not _listeners else _recorded(name, category, details)


@contextmanager
def _recorded(name: str, category: str, details: dict[str, Any]) -> Iterator[None]:
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        add(name, category, start, time.perf_counter_ns() - start, threading.current_thread().name, **details)


def add(name: str, category: str, start_ns: int, duration_ns: int, lane: str, **details: Any) -> None:
    """Record a span that was measured elsewhere."""
    for trace in _listeners:
        trace.spans.append(Span(name, category, start_ns, duration_ns, lane, details))
