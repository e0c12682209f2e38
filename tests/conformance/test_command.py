"""``nnvk conformance``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnvk.cli.main import app
from nnvk.conformance.paths import EXECUTION_PATHS

CPU = ["--device", "nnapi-reference"]


def conformance(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["conformance", *map(str, arguments)])


def test_the_whole_report(picky: str, write_vectors: Any, tmp_path: Path) -> None:
    path, report = write_vectors(), tmp_path / "report.json"
    result = conformance(path.parent, "--device", picky, "--jobs", 0, "--json", report)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("picky: 5 tests, 2 passed, 2 failed, 1 unsupported in ")
    assert lines[1:4] == [
        "operation  passed  failed  unsupported",
        "FLOOR           0       0            1",
        "RELU            2       2            0",
    ]
    assert "FAILED V1_0/spec/fails: output 0: element [3]: expected 2.5, got 2.0" in result.stdout
    assert lines[-1] == f"wrote {report}"
    written = json.loads(report.read_text())
    assert written["device"] == "picky"
    assert written["passed"] == ["V1_0/spec/fails_as_expected", "V1_0/spec/passes"]
    assert written["failed"] == ["V1_0/spec/fails", "V1_0/spec/succeeds_unexpectedly"]
    assert written["unsupported"] == ["V1_0/spec/unsupported"]
    assert written["reasons"]["V1_0/spec/unsupported"] == "FLOOR: it has no floor"


@pytest.mark.parametrize("path", sorted(EXECUTION_PATHS))
def test_processes_run_what_the_filter_leaves(write_vectors: Any, path: str) -> None:
    """On every third path they are two of their own, which take long to start."""
    jobs = 2 if sorted(EXECUTION_PATHS).index(path) % 3 == 0 else 0
    result = conformance(write_vectors(), *CPU, "--jobs", jobs, "--filter", "/(passes|unsupported)$", "--path", path)
    assert result.exit_code == 0, result.output
    assert "nnapi-reference: 2 tests, 2 passed, 0 failed, 0 unsupported" in result.stdout


def test_unsupported_alone_is_no_failure(picky: str, write_vectors: Any) -> None:
    result = conformance(write_vectors(), "--device", picky, "--jobs", 0, "--filter", "unsupported")
    assert result.exit_code == 0
    assert "0 passed, 0 failed, 1 unsupported" in result.stdout


def test_the_preferred_device_is_the_default(picky: str, write_vectors: Any) -> None:
    result = conformance(write_vectors(), "--jobs", 0)
    assert result.stdout.startswith("picky: 5 tests, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "nnvk: no such file or folder: absent"),
        (["VECTORS", "--device", "abacus"], "nnvk: there is no device 'abacus'; the devices are"),
        (["VECTORS", "--filter", "nothing"], "nnvk: none of the 5 tests matches 'nothing'"),
        (["VECTORS", "--filter", "("], "nnvk: '(' is no regular expression"),
        (
            ["VECTORS", "--path", "pony"],
            "nnvk: there is no execution path 'pony'; there are sync, async, burst, fenced",
        ),
        (
            ["VECTORS", *CPU, "--jobs", "0", "--filter", "passes", "--json=/absent/x"],
            "nnvk: can't write x there (there is no such folder): /absent",
        ),
    ],
)
def test_errors_are_one_line(write_vectors: Any, arguments: list[str], message: str) -> None:
    path = str(write_vectors())
    result = conformance(*(path if argument == "VECTORS" else argument for argument in arguments))
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
