"""The C library where the application or its server has hardly a descriptor left."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from c_library import SCRIPT_PATH, await_end, write_server

from nnvk import ResultCode

EXHAUSTED = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT


@pytest.mark.parametrize("who", ["application", "server"])
def test_the_last_descriptors(who: str, tmp_path: Path) -> None:
    """Each function succeeds or says that resources are exhausted, and works again when they are not."""
    server = write_server(tmp_path)
    environment = {**os.environ, "NNVK_SERVER": str(server), "PYTHONPATH": SCRIPT_PATH}
    script = Path(__file__).with_name("last_descriptors.py")
    done = subprocess.run(
        [sys.executable, script, who], capture_output=True, text=True, env=environment, cwd="/", timeout=250
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == []
    answers = found["answers"]
    assert {code for each in answers.values() for _, code in each} <= {EXHAUSTED, -errno.EMFILE}
    assert EXHAUSTED in [code for _, code in answers["0 free"]]
    assert answers["39 free"] == []
    for pid in Path(f"{server}.pids").read_text().split():
        await_end(int(pid))
