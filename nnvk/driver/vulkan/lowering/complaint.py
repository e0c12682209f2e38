"""Complaints of shaders about data: texts with places for the numbers that are wrong."""

from __future__ import annotations

from string import Formatter

import numpy as np


def placeholders(complaint: str) -> int:
    """How many numbers go into a complaint."""
    return sum(field is not None for _, field, _, _ in Formatter().parse(complaint))


def worded(complaint: str, words: np.ndarray) -> str:
    """A complaint with its numbers, uint32 words: ``{}`` is an integer, ``{:r}`` a float by its bits."""
    text, numbers = "", iter(words)
    for literal, field, kind, _ in Formatter().parse(complaint):
        text += literal
        if field is not None:
            number = next(numbers)
            text += str(float(number.view(np.float32))) if kind == "r" else str(int(number.view(np.int32)))
    return text
