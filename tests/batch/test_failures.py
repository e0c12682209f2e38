"""``errors.csv``: names of files and errors may hold anything, and are text for whatever reads the file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from nnvk.batch.failures import ERRORS, Failures


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1.png", "'-1.png"),
        ("@sum(a)", "'@sum(a)"),
        ("\t=1", "\\t=1"),
        ("a\x1b[2J\x07\r\n=b", "a\\x1b[2J\\x07\\r\\n=b"),
        ("a\ud800", "a\\ud800"),
        ("folder/a=b, c.png", "folder/a=b, c.png"),
    ],
)
def test_a_cell_is_text_in_one_line(name: str, cell: str, tmp_path: Path) -> None:
    with Failures(tmp_path) as failures:
        failures.add(name, name)
    assert failures.first[0].name == name
    with (tmp_path / ERRORS).open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["row", "error"], [cell, cell]]
