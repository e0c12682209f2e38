"""Compiled plans of imported models in a folder that the application chooses."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnvk.api import Compilation
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True)
class PlanFolder:
    """A folder in which compiled plans are kept for other processes."""

    path: Path
    token: bytes
    """Stands for the model and everything that was chosen at import, except for shapes."""

    def for_part(self, key: Hashable) -> PlanFolder:
        """The same folder for a part of the model, which ``key`` stands for."""
        return PlanFolder(self.path, hashlib.sha256(self.token + repr(key).encode()).digest())

    def apply(self, compilation: Compilation, shapes: Sequence[Shape]) -> None:
        """Have a compilation take its plan from the folder, or keep it there."""
        token = hashlib.sha256(self.token + repr(tuple(shapes)).encode()).digest()
        compilation.set_caching(self.path, token)
