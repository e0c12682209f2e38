"""The commands of a model, before its tensors are placed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnvk.base.extents import Computed
from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.planning.command_passes.command_graph import TensorPart
from nnvk.driver.vulkan.shaders.commands import Choice, Command, Table, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.types.constant import Constant
from nnvk.types.operand import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A model as commands on tensors. See `nnvk.driver.vulkan.planning.plan.Plan`, which has their places."""

    commands: tuple[Command, ...]
    parts: Mapping[TensorRef, TensorPart]
    """Tensors that lie in others."""
    inputs: tuple[TensorRef | None, ...]
    outputs: tuple[TensorRef | None, ...]
    output_shapes: tuple[Shape, ...]
    constants: tuple[tuple[TensorRef, Constant], ...]
    flags: tuple[tuple[TensorRef, int, str | Computed], ...]
    """The assertions that shaders may raise: where, the operation, and the text."""
    counts: Mapping[int, TensorRef]
    """Where the number of rows is, of operands that have as many as the data says."""
    entropy: tuple[TensorRef, ...]
    choices: tuple[Choice, ...]
    tables: tuple[Table, ...]
    difference: TensorRef | None
    """Where comparisons report the first difference."""
    comparisons: tuple[Subject, ...]
    checksums: int
    applied: Mapping[Pass, int]
