"""The table of generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from generators.derived import derived
from generators.draw import Case, Draw
from nnvk.ops import registry
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode, KnownCode

CaseGenerator = Callable[[Draw, KnownCode, OperandCode], Case]
"""Draws a valid case of an operation with a leading type."""

_generators: dict[KnownCode, CaseGenerator] = {}
_widened: dict[KnownCode, CaseGenerator] = {}
"""The generators of NNAPI's operations on 16-bit levels, which the extension has, unless they have their own."""


def generator(*codes: KnownCode) -> Callable[[CaseGenerator], CaseGenerator]:
    """Register the generator of operations."""

    def register(function: CaseGenerator) -> CaseGenerator:
        for code in codes:
            if code in _generators:
                raise ValueError(f"{code.name} has two generators")
            _generators[code] = function
            if isinstance(code, OperationCode) and code.name in ExtendedOperationCode.__members__:
                _widened[ExtendedOperationCode[code.name]] = _wide(function, code)
        return function

    return register


def _wide(function: CaseGenerator, standard: OperationCode) -> CaseGenerator:
    """The generator of the extension's operation of the same name."""
    return lambda d, code, leading: replace(function(d, standard, leading), code=code)


@cache
def generators() -> Mapping[KnownCode, CaseGenerator]:
    """The generators of all operations, derived ones where none is registered."""
    return {**dict.fromkeys(registry.definitions(), derived), **_widened, **_generators}
