"""Situations out of public bug reports, where the folder that has them is beside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "shared" / "reports" / "run.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="the reports are not here")
def test_reports() -> None:
    """All have the results that their authorities give, but for those that the script names and gives a reason for.

    Few have operators that are left to onnxruntime and LiteRT.
    """
    pytest.importorskip("onnxruntime")
    environment = {**os.environ, "NNVK_CPU_LIBRARIES": "1"}
    run = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " PASS" in run.stdout.splitlines()[-1]
