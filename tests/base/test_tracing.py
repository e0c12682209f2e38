"""Spans."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from nnvk.base import tracing


def test_nothing_is_recorded_unless_somebody_listens() -> None:
    assert not tracing.is_recording()
    with tracing.span("work", "driver"):
        pass
    tracing.add("work", "driver", 0, 1, "lane")
    with tracing.record() as trace:
        assert tracing.is_recording()
    assert trace.spans == []
    assert not tracing.is_recording()


def test_spans_of_all_threads(tmp_path: Path) -> None:
    with tracing.record() as trace:
        with tracing.span("outer", "execution", operation=3), tracing.span("inner", "cpuexe"):
            pass
        thread = threading.Thread(target=lambda: tracing.add("elsewhere", "gpu", 1000, 2000, "queue"), name="other")
        thread.start()
        thread.join()
    inner, outer, elsewhere = trace.spans
    assert (inner.name, outer.name, outer.details) == ("inner", "outer", {"operation": 3})
    assert outer.start_ns <= inner.start_ns
    assert inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns
    assert (elsewhere.lane, elsewhere.duration_ns) == ("queue", 2000)
    trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert lanes[spans["elsewhere"]["tid"]] == "queue"
    assert (spans["elsewhere"]["ts"], spans["elsewhere"]["dur"]) == (1, 2)  # microseconds


def test_a_span_is_recorded_though_the_work_fails() -> None:
    with tracing.record() as trace:
        try:
            with tracing.span("work", "driver"):
                raise KeyError
        except KeyError:
            pass
    assert [span.name for span in trace.spans] == ["work"]
