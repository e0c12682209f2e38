"""Operations that a function in Python computes, for operators of files that nnvk does not know.

Such an operation is of an extension with the operator's name. Its first input is a constant of bytes with the
parameters; the other inputs and all outputs are tensors of declared types. Only the reference device runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.types.codes import ExtensionCode
from nnvk.types.extension import AnyCode

PREFIX = "python."
"""The beginning of the names of these extensions."""
Function = Callable[[np.ndarray, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Computes the outputs from the bytes of the parameters and the inputs, all in the types of their operands."""

_functions: dict[ExtensionCode, Function] = {}


def code_of(name: str) -> ExtensionCode:
    """The code of the operation of an operator's name."""
    return ExtensionCode(PREFIX + name, 0)


def register(name: str, function: Function) -> None:
    """Compute the operator of a name with a function from now on, in place of one that was registered before."""
    _functions[code_of(name)] = function


def unregister(name: str) -> None:
    """Forget the function of an operator. Models that have it can no longer be executed."""
    _functions.pop(code_of(name), None)


def has(code: AnyCode) -> bool:
    """Whether a function computes an operation."""
    return isinstance(code, ExtensionCode) and code in _functions


def compute(code: AnyCode, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The outputs of an operation from all its inputs, the parameters first. BAD_DATA: no function computes it."""
    function = _functions.get(code) if isinstance(code, ExtensionCode) else None
    if function is None:
        raise bad_data(f"{code.name}: no function is registered for this operation")
    return function(inputs[0], inputs[1:])
