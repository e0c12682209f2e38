"""A compilation that takes long is logged once, and shown on a terminal until it is over."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import re
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from terminal import on_a_terminal

from nnvk.base import progress
from nnvk.base.progress import compiling, progressed
from nnvk.base.settings import override

ERASE = "\r\x1b[K"
_MOST_S = 30


def wait_for(reached: Callable[[], object]) -> None:
    begun = time.monotonic()
    while not reached():
        assert time.monotonic() - begun < _MOST_S
        time.sleep(0.001)


def has_line() -> bool:
    return progress._display._terminal is not None


class Terminal:
    """Standard error as a terminal of 100 columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.stream = os.fdopen(theirs, "w")
        self.streams = SimpleNamespace(stderr=self.stream, __stderr__=self.stream)
        monkeypatch.setattr(progress, "sys", self.streams)  # pytest sets those of sys between fixtures and a test
        monkeypatch.setenv("TERM", "xterm")

    def text(self) -> str:
        """The text that was written since the last call; the kernel takes a moment to hand it over."""
        written = b""
        while select.select([self.ours], [], [], 0.1)[0]:
            written += os.read(self.ours, 1 << 16)
        return written.decode()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Everything takes long; its thread has ended after the test."""
    monkeypatch.setattr(progress, "NOTABLE_S", 0)
    monkeypatch.setattr(progress, "_LOOK_S", 0.001)
    monkeypatch.setattr(progress, "cache_folder", lambda: Path("/kept"))
    caplog.set_level(logging.INFO, "nnvk.compilation")
    yield
    wait_for(lambda: not progress._display._is_looking)


@pytest.fixture
def terminal(soon: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal(monkeypatch)
    yield made
    wait_for(lambda: not progress._display._is_looking)
    made.stream.close()
    os.close(made.ours)


def test_the_log_has_it_once(soon: None, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with compiling("model.onnx"), compiling("a model of 7 operations"), compiling("vulkan-0 shaders"):
        progressed(None, 12, 36)
        wait_for(lambda: caplog.messages)
        for _ in range(3):
            progress._display._running[0].begin -= 1
            time.sleep(0.003)
    assert caplog.messages == ["compiling model.onnx, once: vulkan-0 shaders 33 %, 0 s; kept in /kept"]
    assert tuple(capfd.readouterr()) == ("", "")  # standard error is no terminal


def test_nothing_is_said_of_a_short_one(
    soon: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "NOTABLE_S", 1)
    looks: list[float] = []
    monkeypatch.setattr(progress.time, "sleep", looks.append)
    with compiling("model.onnx"):
        wait_for(lambda: len(looks) > 2)
    assert not caplog.messages


@pytest.mark.parametrize("folder", [Path("/kept"), None])
def test_a_terminal_shows_it_until_it_is_over(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, folder: Path | None
) -> None:
    monkeypatch.setattr(progress, "cache_folder", lambda: folder)
    with pytest.raises(KeyboardInterrupt), compiling("model.onnx"):
        wait_for(has_line)
        raise KeyboardInterrupt
    once, kept = ("", "nothing is kept") if folder is None else (", once", "kept in /kept")
    written = terminal.text()
    assert re.fullmatch(rf"({re.escape(f'{ERASE}nnvk: compiling model.onnx{once}, 0 s; {kept}')}\r)+\r\x1b\[K", written)


def test_a_line_is_not_longer_than_the_terminal(terminal: Terminal) -> None:
    with compiling("long" * 40 + "\x1b[2J"):
        wait_for(has_line)
    lines = re.findall(r"\x1b\[K([^\r]+)\r", terminal.text())
    assert lines
    assert all(len(line) == 99 and "\x1b" not in line for line in lines)


def test_a_narrow_terminal_gets_no_part_of_a_folder(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "cache_folder", lambda: Path("/kept" * 20))
    with compiling("model.onnx"):
        wait_for(has_line)
    assert set(re.findall(r"\x1b\[K([^\r]+)\r", terminal.text())) == {"nnvk: compiling model.onnx, once, 0 s"}


def test_one_line_at_a_time(terminal: Terminal) -> None:
    first_ends, second_ends = threading.Event(), threading.Event()

    def compile(what: str, until: threading.Event) -> None:
        with compiling(what):
            until.wait(_MOST_S)

    first = threading.Thread(target=compile, args=("one", first_ends))
    first.start()
    wait_for(has_line)
    second = threading.Thread(target=compile, args=("two", second_ends))
    second.start()
    wait_for(lambda: len(progress._display._running) == 2 and all(one.is_logged for one in progress._display._running))
    first_ends.set()
    first.join()
    wait_for(has_line)
    second_ends.set()
    second.join()
    lines = re.findall(r"compiling (\w+), once", terminal.text())
    assert lines == sorted(lines)
    assert set(lines) == {"one", "two"}


@pytest.mark.parametrize("reason", ["switched off", "stand-in", "dumb", "closed", "none"])
def test_who_gets_no_line(
    terminal: Terminal, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if reason == "stand-in":  # such as rich's for standard error while it shows a progress bar
        terminal.streams.stderr = os.fdopen(os.dup(terminal.stream.fileno()), "w")
    elif reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif reason == "closed":
        terminal.streams.stderr = terminal.streams.__stderr__ = os.fdopen(os.dup(terminal.stream.fileno()), "w")
        terminal.streams.stderr.close()
    elif reason == "none":
        terminal.streams.stderr = terminal.streams.__stderr__ = None
    with override(progress=reason != "switched off"), compiling("model.onnx"):
        wait_for(lambda: caplog.messages)
        time.sleep(0.01)
    assert terminal.text() == ""


@pytest.mark.parametrize("erases", [False, True])
def test_nothing_is_written_after_the_end(terminal: Terminal, erases: bool) -> None:
    """At the end of the interpreter the line is erased; not when the program has gone that a server works for."""
    with compiling("model.onnx"):
        wait_for(has_line)
        if erases:
            progress._display.end()
        else:
            progress.leave()
        assert terminal.text().endswith(ERASE) == erases
    assert terminal.text() == ""


GONE = """
import socket, time
import slow_compilation
from nnvk.base import progress
from nnvk.serve.server import serve
slow_compilation.slow_down()
application, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
with progress.compiling("model.onnx"):
    while progress._display._terminal is None:
        time.sleep(0.001)
    application.shutdown(socket.SHUT_WR)
    serve(own, {}, lambda: 0.0)
    print("the prompt", end="", flush=True)
"""


def test_a_server_leaves_the_terminal_to_the_shell() -> None:
    """The program has gone, and the shell may have written its prompt where the line was."""
    printed = on_a_terminal([sys.executable, "-c", GONE], {"NNVK_PROGRESS": "1"})
    assert "compiling model.onnx" in printed
    assert printed.endswith("\rthe prompt")
    assert f"{ERASE}the prompt" not in printed


def test_a_forked_child_shows_its_own(terminal: Terminal) -> None:
    with compiling("the parent's"):
        wait_for(has_line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                del progress._thread.compilation
                assert not has_line()
                with compiling("the child's"):
                    wait_for(has_line)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    written = terminal.text()
    assert "the child's" in written
    assert "the parent's" in written


def test_without_a_thread_nothing_is_said(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with compiling("model.onnx"):
            pass
    with compiling("model.onnx"):
        wait_for(lambda: progress._display._is_looking)


def test_the_callback_gets_all_numbers() -> None:
    seen: list[tuple[int, int]] = []

    def callback(done: int, total: int) -> None:
        seen.append((done, total))

    progressed(callback, 1, 2)
    with compiling("model.onnx"):
        progressed(callback, 2, 2)
        assert " 100 %, " in str(progress._thread.compilation)
    assert seen == [(1, 2), (2, 2)]
