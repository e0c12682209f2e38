"""A variable of the environment with a wrong value is an error of one line."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "setting",
    [
        "NNVK_VALIDATION=true",
        "NNVK_VLOG=models",
        "NNVK_PARTITION=7",
        "NNVK_AVOID_SHADERS=binary.add",
        "NNVK_DISABLE_PASSES=pads",
    ],
)
def test_wrong_values(setting: str) -> None:
    name, _, text = setting.partition("=")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), name: text}
    command = [sys.executable, "-m", "nnvk.cli", "devices"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"nnvk: {name} ")
    assert repr(text) in line
