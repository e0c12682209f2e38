"""A table of mappers, by the names of a format's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Mapper = TypeVar("Mapper")


class Mappers(Generic[Mapper]):
    """One mapper for each operator. Modules fill it when they are imported."""

    def __init__(self) -> None:
        self._by_name: dict[str, Mapper] = {}

    def of(self, *names: str) -> Callable[[Mapper], Mapper]:
        """Decorates the mapper of operators. ValueError: one of them has another."""

        def register(mapper: Mapper) -> Mapper:
            for name in names:
                if name in self._by_name:
                    raise ValueError(f"{name} has two mappers")
                self._by_name[name] = mapper
            return mapper

        return register

    def find(self, name: str) -> Mapper | None:
        """The mapper of an operator, None where there is none."""
        return self._by_name.get(name)

    def names(self) -> frozenset[str]:
        """The names of operators that can be mapped."""
        return frozenset(self._by_name)
