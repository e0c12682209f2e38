"""The contact sheet: every picture with what each model made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

COLUMNS = 10

_MARGIN = 32
_PICTURE = 96
_FRAME = 3
_ROW = 22
_GAP = 18
_TITLE = 30
_LINE = 26
_BACKGROUND = (250, 250, 248)
_INK = (32, 33, 36)
_FAINT = (110, 112, 118)
_RIGHT = (27, 135, 84)
_WRONG = (200, 40, 48)


@dataclass(frozen=True, slots=True)
class Guess:
    """One model's answer for one picture."""

    model: str
    label: int
    confidence: float
    """The probability of ``label``, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A picture, grey uint8 ``[H, W]``, with its true class and the models' guesses."""

    pixels: NDArray[np.uint8]
    label: int
    guesses: tuple[Guess, ...]


def sheet_size(cells: int, guesses: int, lines: int) -> tuple[int, int]:
    """Width and height in pixels of the sheet of so many cells, guesses a cell, and lines under the title."""
    rows = -(-cells // COLUMNS)
    width = 2 * _MARGIN + COLUMNS * _PICTURE + (COLUMNS - 1) * _GAP
    height = _header(lines) + rows * _cell_height(guesses) + (rows - 1) * _GAP + _MARGIN
    return width, height


def draw_sheet(title: str, lines: Sequence[str], cells: Sequence[Cell]) -> Image.Image:
    """Draw the sheet, `COLUMNS` pictures a row.

    A picture is framed green where all models are right; where one is wrong it is framed red and says
    what the digit is.
    """
    guesses = max((len(cell.guesses) for cell in cells), default=0)
    sheet = Image.new("RGB", sheet_size(len(cells), guesses, len(lines)), _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    draw.text((_MARGIN, _MARGIN), _fit(title, _TITLE, sheet.width), fill=_INK, font=_font(_TITLE))
    for number, line in enumerate(lines):
        top = _MARGIN + _TITLE + 14 + number * _LINE
        draw.text((_MARGIN, top), _fit(line, 17, sheet.width), fill=_FAINT, font=_font(17))
    for number, cell in enumerate(cells):
        row, column = divmod(number, COLUMNS)
        left = _MARGIN + column * (_PICTURE + _GAP)
        top = _header(len(lines)) + row * (_cell_height(guesses) + _GAP)
        _draw_cell(sheet, draw, cell, left, top)
    return sheet


def _draw_cell(sheet: Image.Image, draw: ImageDraw.ImageDraw, cell: Cell, left: int, top: int) -> None:
    side = _PICTURE - 2 * _FRAME
    digit = Image.fromarray(cell.pixels).resize((side, side), Image.Resampling.NEAREST)
    right = all(guess.label == cell.label for guess in cell.guesses)
    draw.rectangle((left, top, left + _PICTURE - 1, top + _PICTURE - 1), fill=_RIGHT if right else _WRONG)
    sheet.paste(digit, (left + _FRAME, top + _FRAME))
    if not right:
        draw.rectangle((left, top, left + 32, top + 20), fill=_WRONG)
        draw.text((left + 16, top + 10), f"is {cell.label}", fill=_BACKGROUND, font=_font(14), anchor="mm")
    for number, guess in enumerate(cell.guesses):
        middle = top + _PICTURE + 4 + number * _ROW + _ROW // 2
        colour = _RIGHT if guess.label == cell.label else _WRONG
        draw.text((left, middle), guess.model, fill=_FAINT, font=_font(12), anchor="lm")
        draw.text((left + 54, middle), str(guess.label), fill=colour, font=_font(18), anchor="mm")
        percent = f"{guess.confidence:.0%}"
        draw.text((left + _PICTURE, middle), percent, fill=_FAINT, font=_font(12), anchor="rm")


def _cell_height(guesses: int) -> int:
    return _PICTURE + 4 + guesses * _ROW


def _header(lines: int) -> int:
    return _MARGIN + _TITLE + 14 + lines * _LINE + 20


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font: the same sheet on every machine."""
    return ImageFont.load_default(size)


def _fit(text: str, size: int, width: int) -> str:
    """Cut ``text`` so that it stays within the sheet's margins; device names can be long."""
    font, room = _font(size), width - 2 * _MARGIN
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(text + "...") > room:
        text = text[:-1]
    return text + "..."
