"""The table of recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode
from recipes.draw import Case, Draw

Recipe = Callable[[Draw, KnownCode, OperandCode], Case]
"""Draws a valid case of an operation with a leading type."""

_recipes: dict[KnownCode, Recipe] = {}


def recipe(*codes: KnownCode) -> Callable[[Recipe], Recipe]:
    """Register the recipe of operations."""

    def register(function: Recipe) -> Recipe:
        for code in codes:
            if code in _recipes:
                raise ValueError(f"{code.name} has two recipes")
            _recipes[code] = function
        return function

    return register


def recipes() -> Mapping[KnownCode, Recipe]:
    """All recipes."""
    return _recipes
