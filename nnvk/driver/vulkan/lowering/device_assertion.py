"""Device assertions about data: texts with places for the wrong numbers."""

from __future__ import annotations

from string import Formatter

import numpy as np


def placeholders(assertion: str) -> int:
    """The most numbers of an assertion."""
    return sum(field is not None for _, field, _, _ in Formatter().parse(assertion))


def worded(assertion: str, words: np.ndarray) -> str:
    """Format an assertion with its numbers, uint32 words: ``{}`` is an integer, ``{:r}`` a float by its bits."""
    text, numbers = "", iter(words)
    for literal, field, kind, _ in Formatter().parse(assertion):
        text += literal
        if field is not None:
            number = next(numbers)
            text += str(float(number.view(np.float32))) if kind == "r" else str(int(number.view(np.int32)))
    return text
