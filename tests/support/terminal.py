"""Commands of nnvk on a terminal of 80 columns, several in one process."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH = 80


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Compilations that take long are not shown: that depends on the driver's cache and on how busy the machine is."""
    cleared = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "COLUMNS", "LINES"}
    own = {name: value for name, value in os.environ.items() if name not in cleared}
    return {**own, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", "NNVK_PROGRESS": "0", **changes}


SEPARATOR = "=== exit code "
ALL = f"""
import sys
from nnvk.cli.main import app
for call in sys.argv[1].split("\\n"):
    try:
        app(call.split("\\t"), prog_name="nnvk")
    except SystemExit as done:
        sys.stdout.flush()
        print("{SEPARATOR}", done.code, sep="", flush=True)
"""
"""Several commands in one process, for a start takes longer than most of them."""


def together(calls: Sequence[Sequence[object]]) -> list[str]:
    return [sys.executable, "-c", ALL, "\n".join("\t".join(map(str, call)) for call in calls)]


def apart(printed: str) -> list[str]:
    """Split the output of several commands; all must have exited with 0."""
    texts = re.split(rf"^{SEPARATOR}(\d+)\n", printed, flags=re.MULTILINE)
    assert not texts.pop(), texts
    for text, code in zip(texts[::2], texts[1::2], strict=True):
        assert code == "0", text
    return texts[::2]


def on_a_terminal(arguments: Sequence[str], changes: Mapping[str, str], code: int = 0, folder: Path | str = "/") -> str:
    """Run a command on a terminal of 80 columns, in a folder, and return what it writes to both streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    with subprocess.Popen(
        arguments, env=environment(changes), cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(ours)
    assert process.returncode == code
    return b"".join(chunks).decode().replace("\r\n", "\n")


def what_is_left(printed: str) -> str:
    """The text that stays on a terminal. Progress bars do not: the cursor goes up, the line is erased."""
    left = re.sub(r"^.*(\r|\x1b\[2K)", "", printed, flags=re.MULTILINE)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", left)
