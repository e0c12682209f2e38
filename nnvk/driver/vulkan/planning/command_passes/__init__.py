"""Passes on the commands that kernels have made: equal commands run once, and tensors lie where copies would put them.

Operations are fused before, on their graph (`planning/passes/`). These passes need to know all commands and the
lifetimes of all tensors. Each one is a module that rewrites a `CommandGraph`. Results stay the same, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nnvk.driver.vulkan.graph.dump import LOWER, Observe
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph, Rewritten, TensorPart
from nnvk.driver.vulkan.planning.command_passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.command_passes.copy_elimination import eliminate_copies
from nnvk.driver.vulkan.planning.command_passes.in_place import fuse_copies
from nnvk.driver.vulkan.planning.command_passes.outputs import write_outputs
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass

__all__ = ["Rewritten", "TensorPart", "run"]


def run(g: Lowering, observe: Observe | None = None) -> tuple[list[Rewritten], dict[TensorRef, TensorPart]]:
    """The commands of a lowered model after all passes that its device runs, and the tensors that lie in others.

    ``observe`` gets the text of the commands after each pass, and as they are lowered.
    """
    commands = g.commands
    graph = CommandGraph(commands)
    operations = [(each.operation, *each.fused) if isinstance(each, Dispatch) else () for each in commands]
    passes: tuple[tuple[Pass, Callable[[], object]], ...] = (
        (Pass.CSE, graph.sweep),
        (Pass.CSE, lambda: eliminate_common_subexpressions(graph)),
        (Pass.IN_PLACE, lambda: eliminate_copies(graph)),
        (Pass.COALESCE, lambda: fuse_copies(graph)),
        (Pass.OUTPUTS, lambda: write_outputs(graph)),
    )
    if observe:
        observe(LOWER, _lines(graph.result(operations)))
    for pass_, rewrite in passes:
        # Both computations of a verified plan may have the same commands.
        is_kept = g.redundancy and rewrite is not graph.sweep and pass_ is Pass.CSE
        if g.device.runs(pass_) and not is_kept:
            before = graph.rewrites
            rewrite()
            g.applied[pass_] += graph.rewrites - before
            if observe:
                observe(pass_.value, _lines(graph.result(operations)))
    return graph.result(operations), graph.parts


def _lines(commands: Sequence[Rewritten]) -> Iterator[str]:
    """Commands as text: the number of the operation, the shader, and the numbers of its tensors."""
    for each in commands:
        command = each.command
        if isinstance(command, Dispatch):
            tensors = ", ".join(f"{name}=%{tensor.number}" for name, tensor in command.tensors.items())
            yield f"{command.operation:>4}  {command.shader.name}({tensors})"
        else:
            tensors = ", ".join(f"%{tensor.number}" for tensor in (*command.reads, *command.writes))
            yield f"      {type(command).__name__.lower()}({tensors})"
