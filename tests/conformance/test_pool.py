"""Processes that crash or hang cost one test, not the run."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nnvk.conformance.pool import Connect, Result, run_cases
from nnvk.conformance.runner import Status
from nnvk.conformance.vectors import Case

SOURCE = """
    import os
    import time
    from functools import partial

    from nnvk.base.settings import settings
    from nnvk.conformance.runner import PASSED, Status, Verdict


    def connect():
        return partial(run, {})


    def refuse():
        raise RuntimeError("there is no such device")


    def die():
        os._exit(7)


    def run(state, path, index):
        kind = path.name
        if kind == "abort":
            os.abort()
        elif kind == "exit":
            os._exit(3)
        elif kind == "hang":
            time.sleep(600)
        elif kind == "lose":
            state["lost"] = True
            return Verdict(Status.FAILED, "device lost", device_lost=True)
        elif kind == "quiet":
            return Verdict(Status.FAILED, "it shows compilations") if settings().progress else PASSED
        if state.get("lost"):
            return Verdict(Status.FAILED, "the device was lost before")
        return PASSED
"""


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that the processes can import: tests whose files say how to misbehave."""
    (tmp_path / "nnvk_pool_faults.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("nnvk_pool_faults")
    del sys.modules["nnvk_pool_faults"]


@pytest.fixture
def run(faults: ModuleType) -> Callable[..., dict[str, Result]]:
    def run_kinds(kinds: str, jobs: int, timeout: float = 60.0, connect: Connect | None = None) -> dict[str, Result]:
        cases = [Case(f"{kind}{index}", Path(kind), index, "ADD") for index, kind in enumerate(kinds.split())]
        results = list(run_cases(cases, connect or faults.connect, jobs=jobs, timeout=timeout))
        assert sorted(result.case.name for result in results) == sorted(case.name for case in cases)
        return {result.case.name: result for result in results}

    return run_kinds


def _failures(results: dict[str, Result]) -> dict[str, str]:
    return {name: one.verdict.reason for name, one in results.items() if one.verdict.status is Status.FAILED}


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_every_test_runs_once(run: Callable[..., dict[str, Result]], jobs: int) -> None:
    assert not _failures(run("fine " * 20, jobs))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_is_a_failure_of_its_test(run: Callable[..., dict[str, Result]], jobs: int) -> None:
    assert _failures(run("fine abort fine fine exit fine", jobs)) == {
        "abort1": "the process was killed by SIGABRT",
        "exit4": "the process ended with exit code 3",
    }


def test_processes_leave_the_terminal_to_the_one_that_started_them(run: Callable[..., dict[str, Result]]) -> None:
    assert _failures(run("quiet", 0)) == {"quiet0": "it shows compilations"}
    assert not _failures(run("quiet quiet", 2))


def test_a_hang_is_a_failure_of_its_test(run: Callable[..., dict[str, Result]]) -> None:
    assert _failures(run("hang fine fine", 1, timeout=1.0)) == {"hang0": "no answer within 1 seconds"}


def test_a_lost_device_is_opened_anew(run: Callable[..., dict[str, Result]]) -> None:
    assert _failures(run("fine lose fine fine", 1)) == {"lose1": "device lost"}


def test_all_tests_may_crash(run: Callable[..., dict[str, Result]]) -> None:
    assert len(_failures(run("abort " * 3, 2))) == 3


def test_processes_that_can_not_start_end_the_run(run: Callable[..., dict[str, Result]], faults: ModuleType) -> None:
    with pytest.raises(ChildProcessError, match="there is no such device"):
        run("fine fine", 2, connect=faults.refuse)
    with pytest.raises(ChildProcessError, match="ended with exit code 7"):
        run("fine fine", 2, connect=faults.die)
