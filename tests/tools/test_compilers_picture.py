"""The picture of compilers' counts has the numbers of the results, and the page has the same."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import compilers_picture

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = compilers_picture.RESULTS.read_text(encoding="utf-8")


def test_it_is_up_to_date() -> None:
    """Otherwise: `make docs`."""
    root = ElementTree.parse(DOCS / "images" / "compilers.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    chart = compilers_picture.picture(TEXT)
    assert {chart.title, chart.axis} <= set(texts)
    expected = [text for bar in chart.bars for text in (bar.shown, bar.name) if text]
    assert [text for text in texts if text in expected] == expected


def test_it_has_the_numbers_of_the_page() -> None:
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    for row in compilers_picture.rows(TEXT):
        line = next(line for line in page.splitlines() if line.startswith(f"| {row['device']}"))
        assert f"| {row['now']} | {row['ncnn']} |".replace("|  |", "| |") in line


def test_the_first_column_of_a_name_counts() -> None:
    head = "| device | network | now | ncnn | all | ncnn |", "| --- | --- | --: | --: | --: | --: |"
    table = "\n".join((*head, "| a | b | 1.0 | 2.0 | 3.0 | 4.0 |"))
    assert [(bar.name, bar.value) for bar in compilers_picture.picture(table).bars] == [
        ("a, b", 1.0),
        ("", 2.0),
    ]
    assert compilers_picture.rows("| device | network |\n| --- | --- |\n| a | b |\n") == []
