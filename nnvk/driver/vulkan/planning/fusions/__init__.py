"""Fusions: commands of a plan that become one, so that fewer are dispatched and less goes through memory.

Each pattern is a module, which rewrites a `Graph`. The results of a fused plan are the same, bit by bit, unless its
module says otherwise. A value that a command outside reads, or that the model gives, is written as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nnvk.driver.vulkan.graph.dump import LOWER, Observe
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.fusions.command_graph import Fused, Graph, Part
from nnvk.driver.vulkan.planning.fusions.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.fusions.copy_elimination import eliminate_copies
from nnvk.driver.vulkan.planning.fusions.elementwise_groups import fuse_elementwise, groups_of
from nnvk.driver.vulkan.planning.fusions.epilogues import fuse_byte_epilogues, fuse_epilogue
from nnvk.driver.vulkan.planning.fusions.float16_conversions import fuse_narrowing, fuse_widening
from nnvk.driver.vulkan.planning.fusions.in_place import fuse_copies
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass

__all__ = ["Fused", "Part", "fuse"]


def fuse(g: Lowering, observe: Observe | None = None) -> tuple[list[Fused], dict[TensorRef, Part]]:
    """The commands of a lowered model, as many of them fused as its device wants, and tensors that lie in others.

    ``observe`` gets the text of the commands after each pass, and as they are lowered.
    """
    commands = g.commands
    graph = Graph(commands, g.constants)
    operations = [(each.operation, *each.fused) if isinstance(each, Dispatch) else () for each in commands]
    steps: tuple[tuple[tuple[Pass, ...], Callable[[], object]], ...] = (
        ((Pass.CSE,), graph.sweep),
        ((Pass.CSE,), lambda: eliminate_common_subexpressions(graph)),
        ((Pass.CONVERTS,), lambda: fuse_narrowing(graph)),
        ((Pass.EPILOGUE,), lambda: fuse_byte_epilogues(graph, g)),
        ((Pass.EPILOGUE, Pass.ELEMENTWISE), lambda: _fuse_groups(g, graph)),
        ((Pass.CONVERTS,), lambda: fuse_widening(graph)),
        ((Pass.IN_PLACE,), lambda: eliminate_copies(graph, g)),
        ((Pass.COALESCE,), lambda: fuse_copies(graph)),
    )
    if observe:
        observe(LOWER, _lines(graph.result(operations)))
    for passes, rewrite in steps:
        if any(map(g.device.runs, passes)):
            before = graph.rewrites
            rewrite()
            if len(passes) == 1:
                g.applied[passes[0]] += graph.rewrites - before
            if observe:
                observe(" and ".join(each.value for each in passes), _lines(graph.result(operations)))
    return graph.result(operations), graph.parts


def _fuse_groups(g: Lowering, graph: Graph) -> None:
    """Make each group of elementwise operations the epilogue of a GEMM, or else one command."""
    for group in groups_of(graph):
        before = graph.rewrites
        if g.device.runs(Pass.EPILOGUE) and fuse_epilogue(graph, g, group):
            g.applied[Pass.EPILOGUE] += 1
        elif g.device.runs(Pass.ELEMENTWISE):
            fuse_elementwise(graph, g, group)
            g.applied[Pass.ELEMENTWISE] += graph.rewrites - before


def _lines(commands: Sequence[Fused]) -> Iterator[str]:
    """Commands as text: the number of the operation, the shader, and the numbers of its tensors."""
    for each in commands:
        command = each.command
        if isinstance(command, Dispatch):
            tensors = ", ".join(f"{name}=%{tensor.number}" for name, tensor in command.tensors.items())
            yield f"{command.operation:>4}  {command.shader.name}({tensors})"
        else:
            tensors = ", ".join(f"%{tensor.number}" for tensor in (*command.reads, *command.writes))
            yield f"      {type(command).__name__.lower()}({tensors})"
