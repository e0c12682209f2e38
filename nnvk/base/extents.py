"""Sizes that stand for many numbers: what code computes of them is recorded, and what it decides by them is a guard.

Code that was written for numbers runs on extents and gives the same results, and the trace then knows for which other
sizes it would have decided the same, and what it would have computed. Where code needs the number itself (as an index,
in a text, as a key), the trace holds for this number alone.

PyTorch has the same for the shapes of its graphs (`SymInt`). An extent is no `int`: code in C would read the number of
such a subclass unasked.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from logging import Logger
from typing import Any, TypeVar

import numpy as np

from nnvk.base.errors import NnapiError
from nnvk.base.settings import settings

Number = int | float
T = TypeVar("T")
_open: set[int] = set()
"""The traces that have not ended: without one, there are no extents to look for."""


class Trace:
    """The arithmetic on extents in the order in which it happened, and the decisions between its steps."""

    def __init__(self) -> None:
        self._symbols: list[Extent] = []
        self._known: dict[str, Extent] = {}
        self._steps: list[tuple[str, str]] = []
        """The name of each step's result, and its expression; for a guard "" and its condition."""
        self._guards: set[str] = set()
        self._functions: dict[Callable[..., Number], str] = {}
        _open.add(id(self))
        self.fixed: dict[str, int] = {}
        """The lines of code that needed a number itself, and how often."""

    def symbol(self, value: int, hint: int | None = None) -> Extent:
        """A new extent, which has this value now. See `hint`."""
        made = Extent(self, f"s{len(self._symbols)}", value, value if hint is None else hint)
        self._symbols.append(made)
        return made

    def step(self, expression: str, value: Number, hint: Number) -> Extent:
        """The result of an expression, which is the same extent each time."""
        self._check_open()
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = Extent(self, f"v{len(self._known)}", value, hint)
            self._steps.append((known.name, expression))
        return known

    def applied(self, function: Callable[..., Number], *arguments: Any) -> Extent:
        """The result of a function for numbers, of which some are extents."""
        name = self._functions.setdefault(function, f"f{len(self._functions)}")
        given = [_operand(one) for one in arguments]
        texts, values, hints = zip(*(one for one in given if one is not None), strict=True)
        return self.step(f"{name}({', '.join(texts)})", function(*values), function(*hints))

    def guard(self, condition: str, holds: bool) -> bool:
        """Note that a condition holds, or does not. Returns which."""
        self._check_open()
        stated = condition if holds else f"not ({condition})"
        if stated not in self._guards:
            self._guards.add(stated)
            self._steps.append(("", stated))
        return holds

    def fix(self, extent: Extent) -> Number:
        """The number itself: the trace holds for no other one."""
        self.guard(f"{extent.name} == {extent.value!r}", True)
        line = _line_of_caller()
        self.fixed[line] = self.fixed.get(line, 0) + 1
        return extent.value

    def end(self) -> None:
        """Record nothing more."""
        _open.discard(id(self))

    def _check_open(self) -> None:
        """RuntimeError if the trace has ended: a decision that is made later would be no guard of it."""
        if id(self) not in _open:
            raise RuntimeError("an extent is asked for its number after its trace has ended")

    @property
    def guards(self) -> list[str]:
        """The conditions under which the trace holds."""
        return [text for name, text in self._steps if not name]

    def function(self, results: Sequence[Extent]) -> Callable[[Sequence[int]], tuple[Number, ...] | None]:
        """End the trace: what computes the results of the symbols' values, in the order in which these were made.

        It returns None if a guard does not hold.
        """
        self.end()
        names = ", ".join(one.name for one in self._symbols)
        lines = [f"def evaluate(symbols):\n {names}, = symbols"]
        lines += [f" {name} = {text}" if name else f" if not ({text}): return None" for name, text in self._steps]
        lines.append(f" return ({''.join(f'{one.name},' for one in results)})")
        found: dict[str, Any] = {}
        named = {"__builtins__": {}, "inf": math.inf, "nan": math.nan}
        named.update((name, partial(applied, function)) for function, name in self._functions.items())
        exec("\n".join(lines), named, found)  # names and numbers of this module alone
        function: Callable[[Sequence[int]], tuple[Number, ...] | None] = found["evaluate"]
        return function


class Extent:
    """A number of a trace: arithmetic on it gives extents, comparisons give truth values and guards."""

    __slots__ = ("factor", "hint", "name", "trace", "value")
    __array_ufunc__ = None  # NumPy's numbers leave the arithmetic to this class

    def __init__(self, trace: Trace, name: str, value: Number, hint: Number) -> None:
        self.trace = trace
        self.name = name
        self.factor: tuple[Extent, str] | None = None
        """The extent and the number whose product this is."""
        self.value = value
        """The number that it is now."""
        self.hint = hint
        """See `hint`."""

    def _fixed(self) -> Any:
        return self.trace.fix(self)

    def __neg__(self) -> Any:
        return self.trace.step(f"-{self.name}", -self.value, -self.hint)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        positive: Any = self
        return self if positive >= 0 else -self

    def __bool__(self) -> bool:
        return self.trace.guard(f"{self.name} != 0", bool(self.value))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def bit_length(self) -> Any:
        """The number of bits of a whole number, like `int.bit_length`."""
        value, hint = int(self.value), int(self.hint)
        return self.trace.step(f"({self.name}).bit_length()", value.bit_length(), hint.bit_length())

    def __hash__(self) -> int:
        return hash(self._fixed())

    def __index__(self) -> int:
        return operator.index(self._fixed())

    def __int__(self) -> int:
        return int(self._fixed())

    def __float__(self) -> float:
        return float(self._fixed())

    def __repr__(self) -> str:
        return repr(self._fixed())

    def __format__(self, form: str) -> str:
        return format(self._fixed(), form)


def _operand(other: Any) -> tuple[str, Number, Number] | None:
    """The text, the value and the hint of an operand; None for what is no number."""
    if other.__class__ is Extent:
        return other.name, other.value, other.hint
    if isinstance(other, np.generic):
        other = other.item()
    if isinstance(other, (int, float)):
        return repr(other), other, other
    return None


def _each(operate: Callable[[Any, Any], Any], extent: Extent, other: Any, is_left: bool) -> Any:
    """The results for each number of an array."""
    if not isinstance(other, np.ndarray):
        return NotImplemented
    numbers = np.empty(other.size, object)
    numbers[:] = [operate(extent, one) if is_left else operate(one, extent) for one in other.reshape(-1).tolist()]
    found = numbers.reshape(other.shape)
    return found.astype(bool) if all(isinstance(one, bool) for one in numbers) else found


_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1}
"""The right operand with which an operator changes no whole number."""


def _arithmetic(sign: str, operate: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Extent, other: Any) -> Any:
        given = _operand(other)
        if given is None:
            return _each(operate, self, other, is_left=True)
        text, value, hint = given
        if sign == "//" and self.factor is not None and self.factor[1] == text and value > 0:
            return self.factor[0]
        if text == str(_NEUTRAL.get(sign)) or (sign == "*" and text == "0"):
            return self if text != "0" or sign != "*" else 0
        made = self.trace.step(f"{self.name} {sign} ({text})", operate(self.value, value), operate(self.hint, hint))
        if sign == "*" and isinstance(other, int):
            made.factor = self, text
        return made

    def backward(self: Extent, other: Any) -> Any:
        given = _operand(other)
        if given is None:
            return _each(operate, self, other, is_left=False)
        text, value, hint = given
        if sign in "+*":
            return forward(self, other)
        return self.trace.step(f"({text}) {sign} {self.name}", operate(value, self.value), operate(hint, self.hint))

    return forward, backward


def _comparison(sign: str, operate: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def compare(self: Extent, other: Any) -> Any:
        given = _operand(other)
        if given is None:
            return _each(operate, self, other, is_left=True)
        text, value, _ = given
        if text == self.name:
            return operate(0, 0)
        return self.trace.guard(f"{self.name} {sign} {text}", operate(self.value, value))

    return compare


for _name, _sign in (
    ("add", "+"),
    ("sub", "-"),
    ("mul", "*"),
    ("floordiv", "//"),
    ("mod", "%"),
    ("truediv", "/"),
    ("lshift", "<<"),
    ("rshift", ">>"),
    ("and_", "&"),
    ("or_", "|"),
):
    _forward, _backward = _arithmetic(_sign, getattr(operator, _name))
    setattr(Extent, f"__{_name.rstrip('_')}__", _forward)
    setattr(Extent, f"__r{_name.rstrip('_')}__", _backward)
for _name, _sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(Extent, f"__{_name}__", _comparison(_sign, getattr(operator, _name)))


def is_extent(number: object) -> bool:
    """Whether a number is an extent."""
    return number.__class__ is Extent


def has_extents(numbers: Iterable[object]) -> bool:
    """Whether one of several numbers is an extent."""
    return any(map(is_extent, numbers))


def hint(value: Any) -> Any:
    """A number, or a dataclass of numbers, as plain ones, for decisions that are right for every size.

    The cost of a strategy is an example: what is decided by it is as good for similar sizes, and no guard.
    """
    if value.__class__ is Extent:
        return value.hint
    if not _open:
        return value
    if value.__class__ is Computed:
        return value.function(*map(hint, value.arguments))
    if isinstance(value, tuple):
        plain = tuple(map(hint, value))
        return value if all(map(operator.is_, plain, value)) else plain
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        changed = {name: hint(each) for name, each in held.items()}
        changed = {name: each for name, each in changed.items() if each is not held[name]}
        return replace(value, **changed) if changed else value
    return value


def fixed(value: Any) -> Any:
    """The number of an extent, of a computed result, or of each in a tuple: the trace holds for them alone."""
    if value.__class__ is Extent:
        return value.trace.fix(value)
    if value.__class__ is Computed:
        return value.function(*fixed(value.arguments))
    return tuple(map(fixed, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of a function of numbers of which some are extents: it is computed when they are known."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def computed(function: Callable[..., T], *arguments: Any) -> T | Computed:
    """The result of a function, at once if there are no extents among its arguments or in tuples of these."""
    if hint(arguments) is arguments:
        return function(*arguments)
    return Computed(function, arguments)


def applied(function: Callable[..., Number], *numbers: Any) -> Any:
    """The result of a function, which may need the numbers themselves, for numbers or extents."""
    for number in numbers:
        if is_extent(number):
            return number.trace.applied(function, *numbers)
    return function(*numbers)


def extents_in(value: Any) -> Iterator[Extent]:
    """The extents in a number, in a computed result, or in tuples of these."""
    if value.__class__ is Extent:
        yield value
    elif isinstance(value, Computed):
        yield from extents_in(value.arguments)
    elif isinstance(value, tuple):
        for one in value:
            yield from extents_in(one)


def filled(value: Any, known: Mapping[str, Number], made: dict[int, Any] | None = None) -> Any:
    """The same with the numbers of extents, by their names.

    ``made`` has what was computed already, so that what others depend on is computed once.
    """
    made = {} if made is None else made
    if value.__class__ is Extent:
        return known[value.name]
    if isinstance(value, Computed):
        if id(value) not in made:
            made[id(value)] = value.function(*filled(value.arguments, known, made))
        return made[id(value)]
    if isinstance(value, tuple):
        return tuple(filled(one, known, made) for one in value)
    return value


def attempted(
    trace: Trace, make: Callable[[], T], log: Logger, otherwise: str, refusals: tuple[type[Exception], ...] = ()
) -> T | None:
    """The object that code makes with the extents of a trace, which then ends; None if it takes no extents.

    ``refusals`` are the errors by which it says so; other errors of class `NnapiError` are raised. ``otherwise`` tells
    the log what comes of it. The log also has the lines that need a size itself.
    """
    try:
        return make()
    except refusals as reason:
        log.info("%s: %s", otherwise, reason)
    except NnapiError:
        raise
    except Exception:  # with numbers it runs
        if settings().verify_sizes:
            raise
        log.warning("%s", otherwise, exc_info=True)
    finally:
        trace.end()
        for line, count in trace.fixed.items():
            log.debug("%s needs a size itself (%d times)", line, count)
    return None


def tracing() -> bool:
    """Whether there may be extents."""
    return bool(_open)


def is_open(array: np.ndarray) -> bool:
    """Whether an array has extents among its elements."""
    return array.dtype == object and has_extents(array.flat)


def once(table: dict[Any, tuple[Any, T]], key: Any, make: Callable[[], T]) -> T:
    """The object that was made for a key, or for one that is equal for the present sizes, which is a guard."""
    name = identity(key) if _open else key
    found = table.get(name)
    if found is None and _open:
        found = next((made for made in table.values() if made[0] == key), None)
    if found is None:
        found = table[name] = key, make()
    return found[1]


def unique(numbers: Iterable[Any]) -> list[Any]:
    """The numbers without repetitions, in the order in which they come first."""
    return list({identity(each): each for each in numbers}.values())


def identity(value: Any) -> Any:
    """A key for numbers, and for tuples and dataclasses of them, that are the same for all sizes.

    `hash` would need the number of an extent itself. 0.0 and -0.0 are two numbers.
    """
    if value.__class__ is Extent:
        return Extent, value.name
    if value.__class__ is float:
        return value.hex()
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    if is_dataclass(value) and not isinstance(value, type) and value.__class__.__eq__ is not object.__eq__:
        return value.__class__, *(identity(getattr(value, each.name)) for each in fields(value))
    return value


def _line_of_caller() -> str:
    """The line of nnvk's code, outside this module, that is being executed."""
    frame = sys._getframe(2)
    while frame.f_back is not None and (frame.f_code.co_filename == __file__ or "nnvk" not in frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('nnvk/')[2]}:{frame.f_lineno}"
