"""Processes without root's power over files that are not for them: tests may run as root, people mostly don't."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_DROPPED = "-dac_override,-dac_read_search"
"""Root loses these capabilities, which let it read and write everything.

Root's own files stay root's: the interpreter may be among them.
"""


def unprivileged(command: Sequence[str | Path]) -> list[str]:
    """The command, so that it may read and write what permissions allow. Skips where that can't be had."""
    words = [str(word) for word in command]
    if os.geteuid() != 0:
        return words
    changer = shutil.which("setpriv")
    prefix = [str(changer), f"--bounding-set={_DROPPED}", f"--inh-caps={_DROPPED}", "--"]
    if changer is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("root can't become less powerful here (util-linux, CAP_SETPCAP)")
    return [*prefix, *words]


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """A folder that nobody may enter, in the block."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0)
    try:
        assert subprocess.run(unprivileged(["ls", folder]), capture_output=True).returncode, "it is not locked"
        yield folder
    finally:
        folder.chmod(0o700)
