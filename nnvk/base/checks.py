"""Checks of what an application hands over: an object of a wrong kind is a TypeError, a number out of range BAD_DATA.

Each function takes what the argument is called, and the argument, and returns it in the form that nnvk works with.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from nnvk.base.errors import WrongKind, bad_data
from nnvk.base.extents import is_extent

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)
LARGEST_DESCRIPTOR = 2**31 - 1
"""Descriptors of files are of type int in C."""
_USUAL = 2**63
_MOST_BITS = 256
"""Larger numbers are no use anywhere, and can't even be printed from some size on."""


def shown(value: Any) -> str:
    """Describe any object for people, in about 200 characters."""
    try:
        described = repr(value)
    except Exception:  # of an integer of thousands of digits, say
        described = f"a {type(value).__name__}"
    return described if len(described) <= 200 else f"{described[:200]}..."


def instance(what: str, value: Any, kind: type[T]) -> T:
    """An object of a class."""
    if not isinstance(value, kind):
        raise WrongKind(f"{what} must be a {kind.__module__.partition('.')[0]}.{kind.__name__}, got {shown(value)}")
    return value


def function(what: str, value: Any) -> Callable[..., Any]:
    """Anything that can be called."""
    if not callable(value):
        raise WrongKind(f"{what} must be callable, got {shown(value)}")
    return value


def text(what: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise WrongKind(f"{what} must be a string, got {shown(value)}")
    return value


def whole(what: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """A whole number, of Python or NumPy, or an extent."""
    if is_extent(value):
        return value
    try:
        number = operator.index(value)
    except TypeError:
        raise WrongKind(f"{what} must be a whole number, got {shown(value)}") from None
    if number.bit_length() > _MOST_BITS:
        raise bad_data(f"{what} is a number of {number.bit_length()} bits, far too large")
    if (least is not None and number < least) or (most is not None and number > most):
        limits = f"at least {least}" if most is None else f"at most {most}" if least is None else f"{least} to {most}"
        raise bad_data(f"{what} must be {limits}, got {number}")
    return number


def _is_usual(value: Any) -> bool:
    return value.__class__ is int and -_USUAL < value < _USUAL


def wholes(what: str, values: Any, least: int | None = None, most: int | None = None) -> tuple[int, ...]:
    """Whole numbers in a sequence or a NumPy array of one dimension."""
    if values.__class__ is tuple and least is None and most is None and all(map(_is_usual, values)):
        usual: tuple[int, ...] = values
        return usual
    each = f"each of {what}"
    return tuple([whole(each, value, least, most) for value in sequence(what, values)])


def sequence(what: str, values: Any) -> Sequence[Any]:
    """A list, tuple, other sequence or NumPy array, but no text."""
    is_array = isinstance(values, np.ndarray) and values.ndim > 0
    if isinstance(values, (str, bytes)) or not (is_array or isinstance(values, (tuple, list, Sequence))):
        raise WrongKind(f"{what} must be a list or another sequence, got {shown(values)}")
    found: Sequence[Any] = values
    return found


def instances(what: str, values: Any, kind: type[T]) -> tuple[T, ...]:
    """Objects of a class in a sequence."""
    return tuple(instance(f"each of {what}", value, kind) for value in sequence(what, values))


def real(what: str, value: Any) -> float:
    """A real number, of Python or NumPy."""
    if type(value) is float:  # the usual case, and abstract classes are slow
        return value
    if not isinstance(value, numbers.Real):
        raise WrongKind(f"{what} must be a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise bad_data(f"{what} is too large a number") from None


def reals(what: str, values: Any) -> tuple[float, ...]:
    """Real numbers in a sequence or a NumPy array of one dimension."""
    return tuple(real(f"each of {what}", value) for value in sequence(what, values))


def flag(what: str, value: Any) -> bool:
    """A truth value: a bool of Python or NumPy, or 0 or 1 as C has them."""
    return bool(value) if isinstance(value, np.bool_) else bool(whole(what, value, 0, 1))


def member(what: str, value: Any, codes: type[E]) -> E:
    """A code of an enumeration, or its number."""
    number = whole(what, value)
    try:
        return codes(number)
    except ValueError:
        numbers_ = ", ".join(str(int(code)) for code in codes)
        raise bad_data(f"{what} must be a {codes.__name__} ({numbers_}), got {number}") from None
