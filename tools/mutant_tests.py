"""The tests of `tools/mutate.py`, in a process of their own: measure which lines they reach, or run some in forks.

    python tools/mutant_tests.py measure nnvk/importers 3 measured.json tests/importers/test_bounds.py
    python tools/mutant_tests.py serve

Both run in a copy of the source tree. `measure` needs coverage.py. `serve` imports what takes long and is not nnvk. For
each line of its input, a request in JSON, it forks a process that runs the requested tests, and prints a line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

_PYTEST = ("-q", "-p", "no:cacheprovider", "--no-header", "--color=no")
_PRELOADED = ("numpy", "hypothesis.extra.numpy", "onnx", "xdist", "xml.etree.ElementTree", "_pytest.junitxml")


class _Measuring:
    """A plugin that has coverage.py keep the lines of each test apart, and takes the tests' times.

    ``most``: further cases of a test function are left out once so many seconds have passed since one has found a new
    line. Its cases run in an order that depends on their names alone, so that the choice is a random one.
    """

    def __init__(self, coverage: Any, most: float) -> None:
        self._coverage = coverage
        self._most = most
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._known: defaultdict[str, set[int]] = defaultdict(set)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """The duration of each test that passed."""
        self.failed: set[str] = set()
        """The tests that failed."""
        self.with_processes: list[str] = []
        """The tests during which other processes ran, whose lines are not measured."""
        self._unfit: set[str] = set()
        self._has_processes = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: object) -> None:
        self._has_processes |= event == "subprocess.Popen"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            functions[function_of(item.nodeid)].append(item)
        for cases in functions.values():
            cases.sort(key=lambda item: zlib.crc32(item.nodeid.encode()), reverse=True)
        items[:] = [functions[function_of(item.nodeid)].pop() for item in items]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if self._spent[function_of(item.nodeid)] > self._most:
            return True
        self._coverage.switch_context(item.nodeid)
        self._has_processes = False
        return None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        for path, lines in self._coverage._collector.data.items():  # those of the present context
            if not self._known[path].issuperset(lines):
                self._known[path].update(lines)
                self._spent[function_of(nodeid)] = 0.0
        children = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
        if self._has_processes or any(children):
            self.with_processes.append(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        self._spent[function_of(report.nodeid)] += report.duration
        if report.outcome != "passed":
            self._unfit.add(report.nodeid)
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.switch_context("")
        for test in self._unfit:
            self.seconds.pop(test, None)


class _Chosen:
    """A plugin that runs some tests alone, in their order."""

    def __init__(self, tests: list[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._places]
        if len(chosen) < len(self._places):
            raise pytest.UsageError("tests are missing")
        items[:] = sorted(chosen, key=lambda item: self._places[item.nodeid])


def function_of(test: str) -> str:
    """The name of a test without its parameters."""
    return test.partition("[")[0]


def measure(package: str, most: float, output: Path, files: list[str]) -> None:
    """Run test files and write the lines of a package that each test executes, and the seconds that it takes."""
    from coverage import Coverage

    root = Path.cwd()
    coverage = Coverage(data_file=None, include=[f"{root}/{package}/*"])
    measuring = _Measuring(coverage, most)
    coverage.start()
    status = pytest.main([*_PYTEST, *files], plugins=[measuring])
    coverage.stop()
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"{', '.join(files)} can't be run")
    data = coverage.get_data()
    lines = {Path(path).relative_to(root).as_posix(): data.contexts_by_lineno(path) for path in data.measured_files()}
    content = {
        "lines": lines,
        "seconds": measuring.seconds,
        "failed": sorted(measuring.failed),
        "with_processes": measuring.with_processes,
    }
    output.write_text(json.dumps(content))


def serve() -> None:
    """Answer requests: each has the tests, and the seconds that they may take; the answer is a verdict."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        print(_verdict(request["tests"], request["limit"], keep=request["keep"]), flush=True)


def _verdict(tests: list[str], limit: float, *, keep: bool) -> str:
    child = os.fork()
    if not child:
        _run(tests, keep=keep)
    end = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "failed" if status else "passed"
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timed out"
        time.sleep(0.01)


def _run(tests: list[str], *, keep: bool) -> None:
    """Run tests and end the process. ``keep``: whether Python may keep bytecode, which it may not of a mutant."""
    status = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        sys.dont_write_bytecode = not keep
        if not keep:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for the processes of tests
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        status = int(pytest.main(["-x", *_PYTEST, *files], plugins=[_Chosen(tests)]))
    finally:
        os._exit(1 if status else 0)


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
    else:
        serve()
