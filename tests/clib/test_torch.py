"""PyTorch's NNAPI client, as it is, through the C library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnvk.serve.installed import LIBRARY

SCRIPT = Path(__file__).with_name("torch_models.py")
NEEDED = "import torch.backends._nnapi.prepare"


def python_with_torch() -> str:
    """This Python, or the system's; skips where neither has torch."""
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists() and not subprocess.run([python, "-c", NEEDED], capture_output=True).returncode:
            return python
    pytest.skip("there is no torch (Debian's python3-torch has it)")


def test_models_give_eager_pytorch_s_results() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["LIBNEURALNETWORKS_PATH"] = str(LIBRARY)
    done = subprocess.run(
        [python_with_torch(), str(SCRIPT)], capture_output=True, text=True, env=environment, timeout=250
    )
    lines = done.stdout.splitlines()
    assert len(lines) >= 40, done.stderr
    wrong = [line for line in lines if not line.endswith("\tok")]
    assert not wrong and done.returncode == 0, "\n".join([*wrong, done.stderr])
