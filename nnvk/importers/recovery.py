"""Going on behind operators that can't be mapped, so that one import finds all of them and says why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnvk.base.errors import NnapiError
from nnvk.importers import charged
from nnvk.importers.budget import Budget
from nnvk.importers.errors import OverBudget, Problem, Unmapped

Operator = TypeVar("Operator")
Key = TypeVar("Key", int, str)
"""The type of names that a format has for its tensors."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Exceptions of a format's mappers on parameters or shapes that make no sense."""

    exceptions: tuple[type[Exception], ...]
    say: Callable[[Exception], str]
    """The reason that a problem gives for one of them."""

    @property
    def caught(self) -> tuple[type[Exception], ...]:
        """All that may be raised while an operator is mapped."""
        return (Unmapped, NnapiError, *self.exceptions)

    def reason(self, error: Exception) -> str:
        """Why an operator could not be mapped."""
        if isinstance(error, Unmapped):
            return str(error)
        return error.reason if isinstance(error, NnapiError) else self.say(error)


class Recovery(ABC, Generic[Operator, Key]):
    """Maps the operators of a graph one by one; a failure becomes a problem and the operator's outputs are lost.

    Behind a lost tensor, mapping goes on with a stand-in, an input in its place, to find what else can't be mapped. A
    failure that is only a consequence is no problem: that the stand-in for indexes, axes or a shape is no constant.
    """

    def __init__(self, problems: list[Problem], damage: Damage, budget: Budget, subgraph: int = 0) -> None:
        self.problems = problems
        """The problems of the whole import, which subgraphs share."""
        self.lost: set[Key] = set()
        """Tensors that operators could not give, and those that depend on them."""
        self.waiting: set[int] = set()
        """Operators that have failed because others compute their sizes or parameters, by their positions."""
        self._behind: set[int] = set()
        """Operators that read of others that have failed, and might be mapped otherwise."""
        self._damage = damage
        self._budget = budget
        self._subgraph = subgraph

    # --- what a format says --------------------------------------------------------------------------------------

    @abstractmethod
    def describe(self, operator: Operator) -> tuple[str, int, str]:
        """The operator's kind, its position, and its name if it has one."""

    @abstractmethod
    def tensors_of(self, operator: Operator) -> tuple[Sequence[Key], Sequence[Key]]:
        """The inputs and outputs, without those that are left out."""

    @abstractmethod
    def look_up(self, operator: Operator) -> object:
        """Find how to map an operator. `Unmapped` if nothing can, whatever its inputs are."""

    @abstractmethod
    def map(self, operator: Operator) -> None:
        """Map an operator and keep what it gives; one that fails keeps nothing."""

    @abstractmethod
    def has_stand_in(self, tensor: Key) -> bool:
        """Whether a lost tensor has a value that its readers can be mapped with; makes one if the type is known."""

    @abstractmethod
    def may_be_parameter(self, tensor: Key) -> bool:
        """Whether a tensor may be indexes, axes or a shape, which many mappers must know the numbers of."""

    # --- mapping and failing -------------------------------------------------------------------------------------

    def try_to_map(self, operator: Operator) -> None:
        """Map an operator, or say why it can't be mapped."""
        inputs, outputs = self.tensors_of(operator)
        lost = [tensor for tensor in inputs if tensor in self.lost]
        if lost:
            self.lost.update(outputs)
            try:
                self.look_up(operator)
            except Unmapped as error:
                self._failed(operator, error)
                return
            self._behind.add(self.describe(operator)[1])
            if not all(self.has_stand_in(tensor) for tensor in lost):
                self._failed(operator, None)
                return
        caught: tuple[type[Exception], ...] = (*self._damage.caught, RecursionError)
        try:
            with charged.against(self._budget):
                self.map(operator)
        except caught as error:
            is_consequence = any(self.may_be_parameter(tensor) for tensor in lost)
            self._failed(operator, error if isinstance(error, OverBudget) or not is_consequence else None)

    def _failed(self, operator: Operator, error: Exception | None) -> None:
        if error is not None:
            kind, position, name = self.describe(operator)
            self.problem(kind, position, error, name)
        self.give_up(operator)

    def waits(self, operator: Operator, needed: Collection[Key]) -> None:
        """An operator has failed because it must know tensors, or their sizes, before they are computed."""
        if needed and self.lost.isdisjoint(needed):
            self.waiting.add(self.describe(operator)[1])

    def failed_itself(self, operator: Operator) -> None:
        """An operator has failed for another reason than what it reads."""
        self._behind.discard(self.describe(operator)[1])

    def waiting_operators(self, problems: Iterable[Problem]) -> frozenset[int]:
        """The operators that wait for others; none if problems have other causes as well."""
        excused = self.waiting | self._behind
        is_all = all(
            one.subgraph == self._subgraph and one.operation not in ("input", "output") and one.index in excused
            for one in problems
        )
        return frozenset(self.waiting) if is_all else frozenset()

    def give_up(self, operator: Operator) -> None:
        """An operator could not be mapped."""
        self.lost.update(self.tensors_of(operator)[1])

    @contextmanager
    def guarded(self, what: str, position: int, *tensors: Key) -> Iterator[None]:
        """While an input or output of the graph is made: a failure becomes a problem and ``tensors`` are lost."""
        try:
            yield
        except self._damage.caught as error:
            self.problem(what, position, error)
            self.lost.update(tensors)

    def require(self, what: str, edges: Sequence[object]) -> None:
        """A model has at least one input and one output."""
        if not edges:
            self.problem(what, 0, Unmapped("there is none, and NNAPI's models have at least one"))

    def problem(self, kind: str, position: int, error: Exception, name: str = "") -> None:
        """Keep why an operator, an input or an output could not be mapped. Raises `OverBudget` again."""
        self.problems.append(Problem(kind, position, self._damage.reason(error), self._subgraph, name))
        if isinstance(error, OverBudget):
            raise error  # what comes after would fail too
