"""The contact sheet."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.demo.sheet import COLUMNS, Cell, Guess, draw_sheet, sheet_size

PIXELS = np.full((16, 16), 128, np.uint8)


def cell(*guesses: int, label: int = 3) -> Cell:
    return Cell(PIXELS, label, tuple(Guess(f"m{k}", guess, 0.5) for k, guess in enumerate(guesses)))


def red_pixels(sheet: np.ndarray) -> int:
    return int(((sheet[..., 0] > 180) & (sheet[..., 1] < 90)).sum())


@pytest.mark.parametrize("count", [1, COLUMNS, COLUMNS + 1, 6 * COLUMNS])
def test_size(count: int) -> None:
    sheet = draw_sheet("title", ["one", "two"], [cell(3, 3)] * count)
    assert sheet.mode == "RGB"
    assert sheet.size == sheet_size(count, guesses=2, lines=2)


def test_rows_add_height() -> None:
    one, two, three = (sheet_size(rows * COLUMNS, 2, 1) for rows in (1, 2, 3))
    assert one[0] == two[0] == three[0]
    assert two[1] - one[1] == three[1] - two[1] > 0


def test_wrong_guesses_are_marked() -> None:
    right = np.asarray(draw_sheet("t", [], [cell(3, 3)]))
    wrong = np.asarray(draw_sheet("t", [], [cell(3, 4)]))
    assert red_pixels(right) == 0
    assert red_pixels(wrong) > 300


def test_long_title_stays_inside() -> None:
    sheet = np.asarray(draw_sheet("A device with a name that never ends " * 10, [], [cell(3)]))
    background = sheet[0, 0]
    assert (sheet[:, -32:] == background).all()
