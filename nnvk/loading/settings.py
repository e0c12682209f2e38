"""The choices of the user that hold for all shapes of a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nnvk.api import Device
from nnvk.importers.plan_folder import PlanFolder
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.inputs.reader import Say
from nnvk.runtime.verification import Verified

PLAN_BYTES = 1 << 30
"""The bytes on devices that the plans of a model may take together, by default."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices of the user that hold for all shapes of a model."""

    devices: Sequence[Device] | None = None
    """None leaves the choice to nnvk."""
    folder: PlanFolder | None = None
    """Keeps plans for other processes; None: they are not kept."""
    images: ImageOptions = AS_IS
    plan_bytes: int = PLAN_BYTES
    verified: Verified | None = None
    """Whether devices check their results; None leaves it to ``NNVK_VERIFIED``."""
    reproducible: bool = False
    """Whether floats have the same bits on every device."""
    progress: Callable[[int, int], None] | None = None
    """Gets the progress of compilations."""
    say: Say | None = None
    """Takes remarks for the user."""
    families: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    """Drivers keep here what saves them planning the model for other sizes."""

    def for_rest(self, key: Hashable) -> Settings:
        """The settings of a part of the model that is imported for sizes and parameters, which ``key`` stands for."""
        return replace(self, folder=None if self.folder is None else self.folder.for_part(key))
