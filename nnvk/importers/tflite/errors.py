"""What an import can fail with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.base.text import printable

_SHOWN = 20
"""Problems that a message lists; `TfliteImportError.problems` has them all."""
_LONGEST_REASON = 500
NAME_SHOWN = 80
"""Characters of a name that messages show. Converters join names with ``;`` into very long ones."""


class Unmapped(Exception):
    """Raised while one operator is mapped: why NNAPI can't express it. The importer adds which operator it is."""


class OverBudget(Unmapped):
    """Raised where an import would take too much memory, which ends it."""


class Malformed(Exception):
    """Raised while the file is read: what contradicts the format. The importer adds which file it is."""

    what = "malformed .tflite file"


class NoModel(Malformed):
    """Raised where the file is of another format."""

    what = "not a .tflite file"


@dataclass(frozen=True, slots=True)
class Problem:
    """One operator, or one input or output of the model, that could not be mapped."""

    operation: str
    """Name of the TFLite builtin, or of the custom operator; "input" or "output"."""
    index: int
    """Position of the operator in its subgraph, or of the input or output."""
    reason: str
    subgraph: int = 0

    def __post_init__(self) -> None:
        """Cut what is too long to be read."""
        object.__setattr__(self, "reason", printable(self.reason, _LONGEST_REASON))

    def __str__(self) -> str:
        where = f" of subgraph {self.subgraph}" if self.subgraph else ""
        if self.operation in ("input", "output"):
            return f"{self.operation} {self.index}{where}: {self.reason}"
        return f"operator {self.index} ({printable(self.operation, NAME_SHOWN)}){where}: {self.reason}"


class TfliteImportError(NnapiError, ValueError):
    """A file that is not a valid model (``problems`` is empty), or has operators without a counterpart in NNAPI.

    Its code is BAD_DATA; the reason names every operator that could not be mapped, its index, and why.
    """

    def __init__(self, what: str, source: str, problems: Sequence[Problem] = (), detail: str = "") -> None:
        shown = [str(problem) for problem in problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            shown.append(f"and {len(problems) - _SHOWN} more")
        reason = f"{what}: {source}{f' ({detail})' if detail else ''}{':' if shown else ''}"
        super().__init__(ResultCode.BAD_DATA, "\n  ".join([reason, *shown]))
        self.problems = tuple(problems)
