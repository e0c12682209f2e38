"""Compilations that last until they are shown on the terminal, in any process that imports this module."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nnvk.base import progress
from nnvk.runtime.execution_plan import ExecutionPlanner

_MOST_S = 60
_plan = ExecutionPlanner.plan


def _slow_plan(planner: ExecutionPlanner, model: Any) -> Any:
    begun = time.monotonic()
    while progress._display._terminal is None and time.monotonic() - begun < _MOST_S:
        time.sleep(0.001)
    return _plan(planner, model)


def slow_down() -> None:
    progress.NOTABLE_S, progress._LOOK_S = 0, 0.001
    patch.object(ExecutionPlanner, "plan", _slow_plan).start()


def write_slow_server(folder: Path) -> Path:
    """A command that is the C library's server, whose compilations are slow."""
    command = folder / "slow-server"
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m slow_compilation "$@"\n')
    command.chmod(0o755)
    return command


if __name__ == "__main__":
    from nnvk.cli.main import app

    slow_down()
    app(prog_name="nnvk")
