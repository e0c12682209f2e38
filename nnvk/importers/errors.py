"""The errors of imports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.text import printable

_SHOWN = 20
"""Positions of operators that a message lists for each group of problems; `ModelImportError.problems` has them all."""
_GROUPS_SHOWN = 200
"""Groups of problems that a message lists: more than any converter has kinds of operators in one model."""
_LONGEST_REASON = 500
_NO_COUNTERPART = "NNAPI has no counterpart of this"
"""The reason for an operator that the importers do not know."""
NAME_SHOWN = 80
"""The most characters of a name in messages, because converters join names with ``;`` to very long ones."""


class Unmapped(Exception):
    """Raised by the mapper of an operator that NNAPI cannot express. The importer adds the operator to the reason."""


class NotConstant(Unmapped):
    """Raised where a parameter must be known at import.

    ``tensors`` are the file's names of what it is made of. Without them, it is any of the operator's whole numbers.
    """

    def __init__(self, reason: str, tensors: Collection[Any] = ()) -> None:
        super().__init__(reason)
        self.tensors = frozenset(tensors)


class OverBudget(Unmapped):
    """Raised where an import would take too much memory, or is of no use any more, which ends it."""


class Malformed(Exception):
    """Raised while the file is read, if it contradicts the format. The importer adds the name of the file."""

    what: ClassVar[str] = "malformed file"


class Inexpressible(Malformed):
    """Raised while the file is read, if it is in order, and has what NNAPI has nothing for."""

    what = "NNAPI can't express this model"


@dataclass(frozen=True, slots=True)
class Problem:
    """One operator, or one input or output of the model, that could not be mapped."""

    operation: str
    """Name of the operator, as its format has it; "input" or "output"."""
    index: int
    """Position of the operator in its subgraph, or of the input or output."""
    reason: str
    subgraph: int = 0
    name: str = ""
    """The operator's name in the file, where it has one."""

    def __post_init__(self) -> None:
        """Truncate names that are too long."""
        object.__setattr__(self, "reason", printable(self.reason, _LONGEST_REASON))

    def __str__(self) -> str:
        return _line([self])


def _line(alike: Sequence[Problem]) -> str:
    """One line for problems of one operation and one reason."""
    first = alike[0]
    where = f" of subgraph {first.subgraph}" if first.subgraph else ""
    indexes = ", ".join(str(problem.index) for problem in alike[:_SHOWN])
    more = f" and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
    if first.operation in ("input", "output"):
        return f"{first.operation} {indexes}{more}{where}: {first.reason}"
    operators = "operator" if len(alike) == 1 else "operators"
    name = f" '{printable(first.name, NAME_SHOWN)}'" if first.name and len(alike) == 1 else ""
    count = "" if len(alike) == 1 else f", {len(alike)} in all"
    return f"{operators} {indexes}{more} ({printable(first.operation, NAME_SHOWN)}{name}{count}){where}: {first.reason}"


class ModelImportError(NnapiError, ValueError):
    """A file that is not a valid model (``problems`` is empty), or has operators without a counterpart in NNAPI.

    Its code is BAD_DATA; the reason names every operator that could not be mapped, its index, and why. Operators of
    one kind with one reason share a line, which counts them.
    """

    def __init__(
        self,
        what: str,
        source: str,
        problems: Sequence[Problem] = (),
        detail: str = "",
        unknown: Sequence[str] = (),
        waiting: Collection[int] = (),
        is_valid: bool = False,
    ) -> None:
        groups: dict[tuple[str, int, str], list[Problem]] = {}
        for problem in problems:
            groups.setdefault((problem.operation, problem.subgraph, problem.reason), []).append(problem)
        alike = list(groups.values())
        shown = [_line(group) for group in alike[:_GROUPS_SHOWN]]
        if len(alike) > _GROUPS_SHOWN:
            shown.append(f"and {sum(map(len, alike[_GROUPS_SHOWN:]))} more")
        self.problems = tuple(problems)
        if self.has_unknown_operators:
            shown.append("nnvk.importers.operator decorates a function in Python that computes such an operator")
        reason = f"{what}: {source}{f' ({detail})' if detail else ''}{':' if shown else ''}"
        super().__init__(ResultCode.BAD_DATA, "\n  ".join([reason, *shown]))
        self.unknown = tuple(unknown)
        """Inputs whose values an importer would have to know."""
        self.waiting = tuple(sorted(waiting))
        """Numbers of the operators that wait for sizes or parameters which others compute, or which inputs have.

        It is empty if others have failed as well, so that the file can't be imported in parts either.
        """
        self.is_valid = is_valid
        """Whether the file is in order, as far as is known, and small enough: other software may be able to run it."""

    @property
    def has_unknown_operators(self) -> bool:
        """Whether there are operators that can't be mapped, whatever their inputs are."""
        return any(_NO_COUNTERPART in problem.reason for problem in self.problems)

    def add(self, line: str) -> None:
        """Add a line to the reason."""
        self.reason = f"{self.reason}\n  {line}"
        self.args = (self.code, self.reason)
