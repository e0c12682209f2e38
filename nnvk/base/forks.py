"""A forked child and what it must renew: it has the memory of its parent, but none of its threads.

A lock that another thread held at the fork would stay locked in the child, and what a thread was to do would never be
done. So locks that outlive a call come from `lock` and `rlock`, whoever counts on threads makes them anew
(`renew_in_child`), and what can't be taken along says so (`Origin`).
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from nnvk.base.errors import NnapiError, ResultCode

_generation = 0
"""Forks between the first process and this one."""


class Renewable(Protocol):
    """An object that a child must partly make anew."""

    def renew(self) -> None:
        """Called in the child before anything else runs there; no other thread is left."""
        ...


_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()
_renewables: weakref.WeakSet[Renewable] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock that is free in a forked child, whoever held it."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> threading.RLock:
    """As `lock`, for one that its owner may take again."""
    made = threading.RLock()
    _locks.add(made)  # type: ignore[arg-type] # it has what a lock has
    return made


_T = TypeVar("_T")


class cached_property(functools.cached_property[_T]):
    """``functools.cached_property``. Before Python 3.12 that has a lock, which is free in a forked child here."""

    def __init__(self, function: Callable[[Any], _T]) -> None:
        super().__init__(function)
        self.lock = rlock()


def renew_in_child(what: Renewable) -> None:
    """Have ``what`` renewed in every forked child, as long as it lives."""
    _renewables.add(what)


class Origin:
    """The process that something was made in."""

    def __init__(self) -> None:
        self._generation = _generation

    @property
    def is_here(self) -> bool:
        """Whether it is this process."""
        return self._generation == _generation

    def check(self, what: str) -> None:
        """Raise DEAD_OBJECT unless it is this process."""
        if self._generation != _generation:
            raise NnapiError(ResultCode.DEAD_OBJECT, f"{what} was started before a fork, in another process")


def _after_fork_in_child() -> None:
    global _generation
    _generation += 1
    for held in list(_locks):
        held._at_fork_reinit()  # type: ignore[attr-defined] # what the standard library does with its own
    for each in list(_renewables):
        each.renew()


os.register_at_fork(after_in_child=_after_fork_in_child)
