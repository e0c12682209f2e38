"""The table of recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from recipes.draw import Case, Draw

Recipe = Callable[[Draw, KnownCode, OperandCode], Case]
"""Draws a valid case of an operation with a leading type."""

_recipes: dict[KnownCode, Recipe] = {}
_widened: dict[KnownCode, Recipe] = {}
"""Of the extension's operations that are NNAPI's on 16-bit steps, where they have none of their own."""


def recipe(*codes: KnownCode) -> Callable[[Recipe], Recipe]:
    """Register the recipe of operations."""

    def register(function: Recipe) -> Recipe:
        for code in codes:
            if code in _recipes:
                raise ValueError(f"{code.name} has two recipes")
            _recipes[code] = function
            if isinstance(code, OperationCode) and code.name in ExtendedOperationCode.__members__:
                _widened[ExtendedOperationCode[code.name]] = _wide(function, code)
        return function

    return register


def _wide(function: Recipe, standard: OperationCode) -> Recipe:
    """The recipe of the extension's operation of the same name."""
    return lambda d, code, leading: replace(function(d, standard, leading), code=code)


def recipes() -> Mapping[KnownCode, Recipe]:
    """All recipes."""
    return {**_widened, **_recipes}
