"""Text that came from elsewhere, as a terminal may show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnvk.base.text import dimensions, megabytes, milliseconds, plural, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv2d/Relu:0", "conv2d/Relu:0"),
        ("größer 犬 🐕", "größer 犬 🐕"),
        (r"C:\model", r"C:\model"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\nb\tc\0", r"a\nb\tc\x00"),
        ("\x9b31m", r"\x9b31m"),
        ("left\u202etfel", r"left\u202etfel"),
        ("\u2066a\u2069\u200b", r"\u2066a\u2069\u200b"),
        ("line\u2028end", r"line\u2028end"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_seen_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_text_is_cut() -> None:
    assert printable("x" * 200) == "x" * 200
    assert printable("x" * 201) == "x" * 200 + "..."
    assert printable("\n" * 9, most=2) == r"\n\n..."


@given(st.text(st.characters()))
def test_the_result_can_be_shown(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) <= 10 * 200 + 3


def test_plural() -> None:
    assert [plural(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_dimensions() -> None:
    assert [dimensions(shape) for shape in ((1, 16, 3), (-1, 0), ())] == ["1x16x3", "?x0", "scalar"]
    assert dimensions((0, 3), unknown=0) == "?x3"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(None, "-"), (950, "0.001"), (1_234_567, "1.235"), (12_345_678, "12.35"), (123_456_789, "123.5"), (2.5e9, "2500")],
)
def test_milliseconds(nanoseconds: float | None, text: str) -> None:
    assert milliseconds(nanoseconds) == text


@pytest.mark.parametrize(("nbytes", "text"), [(0, "0.00"), (12_345, "0.01"), (3_456_789, "3.46")])
def test_megabytes(nbytes: int, text: str) -> None:
    assert megabytes(nbytes) == text
