"""Conformance vectors out of a checkout of AOSP, whose own generator reads the specs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nnvk.base.files import make_folder

GENERATOR = Path("tools/test_generator")
SPECS = Path("runtime/test/specs")
_NEEDED = ("example_generator.py", "test_generator.py")
_SUFFIX = "*.mod.py"


def find_sets(checkout: Path) -> list[Path]:
    """The folders of specs in a checkout, one for each version.

    ``checkout`` is AOSP's packages/modules/NeuralNetworks (before: frameworks/ml/nn). Raises ValueError that says what
    is not there.
    """
    for path in (*(checkout / GENERATOR / name for name in _NEEDED), checkout / SPECS):
        if not path.exists():
            raise ValueError(f"no checkout of AOSP's NeuralNetworks: there is no {path}")
    found = sorted(folder for folder in (checkout / SPECS).iterdir() if any(folder.glob(_SUFFIX)))
    if not found:
        raise ValueError(f"there are no {_SUFFIX} files in folders of {checkout / SPECS}")
    return found


def export(checkout: Path, specs: Path, out: Path) -> Iterator[str]:
    """Write ``<out>/<set>/<spec>.json.gz`` for each spec of a set, and yield a spec's name and its number of tests.

    The generator runs in a process of its own, for it keeps what it has read. Raises ValueError with what it said where
    it fails; files that are there by then are whole.
    """
    folder = out / specs.name
    make_folder(folder)
    words = [checkout / GENERATOR, specs, folder]
    command = [sys.executable, "-m", "nnvk.conformance.export_process", *(str(word.resolve()) for word in words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(word for word in sys.path if word)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        said: list[str] = []
        for line in process.stdout:
            if line.startswith("wrote "):
                yield line.removeprefix("wrote ").rstrip("\n")
            else:
                said.append(line)
        said.append(process.stderr.read())
    if process.returncode:
        lines = "".join(said).strip().splitlines() or [f"it ended with {process.returncode}"]
        raise ValueError(f"AOSP's generator failed on {specs}: {lines[-1]}")
