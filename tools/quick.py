"""Checks what has changed in the working tree, within a minute: ruff, mypy, import-linter, shaders and near tests.

Run it as `make quick`. `make quick BASE=main` takes everything that differs from a branch. The tests are those of
`affected_tests.py`: the nearest first, then the related ones in a fixed random order until the time is over. The last
lines say how many of them were left out.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from affected_tests import ROOT, Affected, SourceMap, contains_word

LEAST = 10
"""Seconds that tests have in any case, after their collection."""

_NATIVE = ("native/", "clib/", "provider/", "cmake/", "CMakeLists.txt")


def changed_files(base: str = "HEAD", root: Path = ROOT) -> list[str]:
    """The files that differ from a commit, committed or not, and those that git does not know yet.

    Raises:
        subprocess.CalledProcessError: git does not know the commit, or this is no checkout.
    """
    commands = (["git", "diff", "--name-only", base, "--"], ["git", "ls-files", "--others", "--exclude-standard"])
    listed = [subprocess.run(c, cwd=root, capture_output=True, text=True, check=True).stdout for c in commands]
    return sorted({line for text in listed for line in text.splitlines()})


class Selection:
    """A pytest plugin: keeps the tests of a selection, the near ones first, and stops when the time is over.

    Tests have `LEAST` seconds also where collecting them took longer than planned.
    """

    def __init__(self, affected: Affected, deadline: float) -> None:
        self.affected = affected
        self.deadline = deadline
        self.selected = 0
        self.left_out = 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what no changed file reaches."""
        near: list[pytest.Item] = []
        related: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            file = item.path.relative_to(ROOT).as_posix()
            words = self.affected.related.get(file)
            if file in self.affected.near:
                near.append(item)
            elif words is not None and (not words or contains_word(item.nodeid, words)):
                related.append(item)
            else:
                others.append(item)
        random.Random(0).shuffle(related)
        items[:] = near + related
        self.selected = len(items)
        self.deadline = max(self.deadline, time.monotonic() + LEAST)
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Pass over a test when the time is over."""
        if time.monotonic() < self.deadline:
            return None
        self.left_out += 1
        return True


def _check(command: Sequence[str]) -> str:
    """Run a check; returns its output where it fails."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return f"{' '.join(command)}:\n{done.stdout}" if done.returncode else ""


def _run_tests(affected: Affected, deadline: float) -> bool:
    files = [file for file in (*affected.near, *affected.related) if (ROOT / file).is_file()]
    if not files:
        print("No test is selected.")
        return True
    sys.dont_write_bytecode = False  # pytest keeps rewritten tests where Python keeps bytecode
    os.environ["PYTHONPATH"] = str(ROOT)
    sys.path.insert(0, str(ROOT))
    selection = Selection(affected, deadline)
    status = pytest.main(["-q", "-x", "--no-header", f"--rootdir={ROOT}", *files], plugins=[selection])
    if selection.left_out:
        print(f"{selection.left_out} of {selection.selected} selected tests were left out: the time is over")
    if 0 < selection.selected == selection.left_out:
        print("No selected test has run")
        return False
    return status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default="HEAD", help="the commit to compare with (%(default)s)")
    parser.add_argument("--seconds", type=float, default=45, help="when no further test starts (%(default)s)")
    parser.add_argument("--list", action="store_true", help="only list the test files and the words of their cases")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    os.chdir(ROOT)
    changed = changed_files(options.base)
    if not changed:
        print(f"Nothing differs from {options.base}.")
        return 0
    affected = SourceMap().affected(changed)
    if options.list:
        for file in affected.near:
            print(file)
        for file, words in affected.related.items():
            print(file, *sorted(words))
        return 0
    for file in affected.unknown:
        print(f"{file}: no test is known to depend on it")
    if any(file.startswith(_NATIVE) for file in changed):
        subprocess.run(["make", "native"], check=True)
    if any(file.startswith("shaders/") or file.startswith("nnvk/driver/vulkan/") for file in changed):
        subprocess.run([sys.executable, "tools/compile_shaders.py"], check=True)
    tools = Path(sys.executable).parent
    python = [file for file in changed if file.endswith((".py", ".pyi"))]
    checks: list[list[str]] = []
    if python:
        checks += [[str(tools / "ruff"), "check", "."], [str(tools / "ruff"), "format", "--check", "."]]
    if any(file.startswith("nnvk/") for file in python):
        checks += [[str(tools / "mypy")], [str(tools / "lint-imports"), "--no-logo"]]
    with ThreadPoolExecutor(max_workers=1) as pool:
        failed = pool.map(_check, checks)
        good = _run_tests(affected, began + options.seconds)
        for output in filter(None, failed):
            good = False
            print(output)
    print(f"make quick: {'passed' if good else 'FAILED'}, {time.monotonic() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
