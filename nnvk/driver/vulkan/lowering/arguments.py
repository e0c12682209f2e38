"""Arguments of a dispatch that several functions give together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.strided_view import RowAccess
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Variant


@dataclass(frozen=True, slots=True)
class Arguments:
    """Some of the arguments of a dispatch by their names. ``|`` adds others, which replace those of the same names."""

    spec: Mapping[str, int | float | bool] = field(default_factory=dict)
    """Specialisation constants."""
    tensors: Mapping[str, TensorRef] = field(default_factory=dict)
    push: Mapping[str, int | float] = field(default_factory=dict)
    """Push constants."""
    access: RowAccess = field(default_factory=RowAccess)
    """The rows of tensors, with further constants of both kinds."""

    def __or__(self, other: Arguments) -> Arguments:
        spec, push = {**self.spec, **other.spec}, {**self.push, **other.push}
        return Arguments(spec, {**self.tensors, **other.tensors}, push, self.access | other.access)

    def dispatch(self, g: Lowering, variant: Variant, groups: Sequence[int]) -> None:
        """Dispatch a shader variant as `Lowering.dispatch` does, on dense tensors that may become strided views."""
        constants = self.access.constants({})
        assert constants is not None, f"{variant.name} can't take dense tensors"
        spec, push = {**self.spec, **constants[0]}, {**self.push, **constants[1]}
        made = g.made(variant, groups=groups, tensors=self.tensors, spec=spec, push=push, operation=g.operation)
        if made is not None:
            g.add(replace(made, access=self.access))
