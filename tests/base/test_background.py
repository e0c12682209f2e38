"""Threads for work in the background."""

from __future__ import annotations

import threading
import time

import pytest

from nnvk.base import background
from nnvk.base.background import executor, in_background


def test_in_the_background() -> None:
    done = threading.Event()
    in_background(done.set)
    assert done.wait(10)


def test_threads_are_used_again_and_end_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_IDLE_SECONDS", 0.05)
    workers = background._Workers()
    seen: list[threading.Thread] = []
    for _ in range(50):
        done = threading.Event()
        workers.submit(lambda done=done: (seen.append(threading.current_thread()), done.set()))
        assert done.wait(10)
        time.sleep(0.001)
    assert len(set(seen)) < 10
    for thread in seen:
        thread.join(10)
        assert not thread.is_alive()
    done = threading.Event()
    workers.submit(done.set)  # and begin again
    assert done.wait(10)


def test_work_in_parallel() -> None:
    barrier = threading.Barrier(2)
    with executor(2) as threads:
        assert {future.result() for future in [threads.submit(barrier.wait, 10) for _ in range(2)]} == {0, 1}


def test_the_caller_works_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background.ThreadPoolExecutor, "submit", refuse)
    with executor(2) as threads:
        assert threads.submit(threading.get_ident).result() == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 1, 0).result()
