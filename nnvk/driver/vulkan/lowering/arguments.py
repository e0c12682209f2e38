"""Arguments of a dispatch that several functions give together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnvk.driver.vulkan.shaders.commands import TensorRef


@dataclass(frozen=True, slots=True)
class Arguments:
    """Some of the arguments of a dispatch by their names. ``|`` adds others, which replace those of the same names."""

    spec: Mapping[str, int | bool] = field(default_factory=dict)
    """Specialisation constants."""
    tensors: Mapping[str, TensorRef] = field(default_factory=dict)
    push: Mapping[str, int | float] = field(default_factory=dict)
    """Push constants."""

    def __or__(self, other: Arguments) -> Arguments:
        return Arguments({**self.spec, **other.spec}, {**self.tensors, **other.tensors}, {**self.push, **other.push})
