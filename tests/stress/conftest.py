"""Runs workloads in processes of their own and tells how they ended, as Android's crash tests do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stress_types import Outcome, Run

WORKLOADS = Path(__file__).parent / "workloads.py"


@pytest.fixture
def run() -> Run:
    """Runs a workload by name on devices in turn; its outcome and what it printed."""

    def start(name: str, *devices: str, timeout_s: float = 100) -> tuple[Outcome, str]:
        command = [sys.executable, "-X", "faulthandler", str(WORKLOADS), name, *devices]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # faulthandler shows where it hangs
                try:
                    printed, _ = process.communicate(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    printed, _ = process.communicate()
                return Outcome.HANG, printed
        if process.returncode == 0:
            return Outcome.SUCCESS, printed
        return (Outcome.CRASH if process.returncode < 0 else Outcome.FAILURE), printed

    return start
