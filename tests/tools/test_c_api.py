from __future__ import annotations

from pathlib import Path

import c_api
import pytest

import nnvk
from nnvk.serve.extensions import ALL_FUNCTIONS
from nnvk.serve.table import By


def test_the_page_is_up_to_date() -> None:
    if not c_api.PAGE.is_file():
        pytest.skip("the documentation is not here")
    assert c_api.main(["--check"]) == 0, "run make docs"


def test_check_fails_on_drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_api, "PAGE", tmp_path / "c-api.md")
    assert c_api.main(["--check"]) == 1
    assert c_api.main(["--doc"]) == 0
    assert c_api.main(["--check"]) == 0


def test_what_has_not_changed_keeps_its_time(tmp_path: Path) -> None:
    assert c_api.main(["--out", str(tmp_path)]) == 0
    header = tmp_path / "include" / "android" / "NeuralNetworks.h"
    before = header.stat().st_mtime_ns
    assert c_api.main(["--out", str(tmp_path)]) == 0
    assert header.stat().st_mtime_ns == before


@pytest.mark.parametrize("row", [row for row in ALL_FUNCTIONS if row.python], ids=lambda row: row.name)
def test_rows_name_what_python_has(row) -> None:  # type: ignore[no-untyped-def]
    found = nnvk
    for name in row.python.removeprefix("nnvk.").split("."):
        found = getattr(found, name)


def test_nullable_parameters_and_arrays_are_parameters() -> None:
    for row in ALL_FUNCTIONS:
        names = {parameter.name for parameter in row.parameters}
        assert {*row.nullable, *row.arrays, *row.arrays.values()} <= names, row.name
        assert row.by is not By.FREE or len(names) == 1
