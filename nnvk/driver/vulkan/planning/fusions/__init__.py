"""Fusions: commands of a plan that become one, so that fewer are dispatched and less goes through memory.

Each pattern is a module, which rewrites a `Graph`. The results of a fused plan are the same, bit by bit, unless its
module says otherwise. A value that a command outside reads, or that the model gives, is written as before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.fusions.command_graph import Fused, Graph, Part
from nnvk.driver.vulkan.planning.fusions.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.fusions.copy_elimination import eliminate_copies
from nnvk.driver.vulkan.planning.fusions.elementwise_groups import fuse_elementwise, groups_of
from nnvk.driver.vulkan.planning.fusions.epilogues import fuse_byte_epilogues, fuse_epilogue
from nnvk.driver.vulkan.planning.fusions.float16_conversions import fuse_narrowing, fuse_widening
from nnvk.driver.vulkan.planning.fusions.in_place import fuse_copies
from nnvk.driver.vulkan.planning.fusions.layouts import fuse_layouts
from nnvk.driver.vulkan.planning.fusions.matrices import fuse_matrices, fuse_results
from nnvk.driver.vulkan.planning.fusions.row_norms import fuse_row_norms
from nnvk.driver.vulkan.planning.fusions.softmax import fuse_softmax
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.passes import Pass

__all__ = ["Fused", "Part", "fuse"]


def fuse(g: Lowering) -> tuple[list[Fused], dict[TensorRef, Part]]:
    """The commands of a lowered model, as many of them fused as its device wants, and tensors that lie in others."""
    commands = g.commands
    graph = Graph(commands, g.constants)
    _run(g, graph, Pass.CSE, graph.sweep)
    _run(g, graph, Pass.CSE, lambda: eliminate_common_subexpressions(graph))
    _run(g, graph, Pass.HEADS, lambda: fuse_results(graph))
    _run(g, graph, Pass.TRANSPOSES, lambda: fuse_layouts(graph, g))
    _run(g, graph, Pass.HEADS, lambda: fuse_matrices(graph, g))
    _run(g, graph, Pass.CONVERTS, lambda: fuse_narrowing(graph))
    _run(g, graph, Pass.ROW_NORM, lambda: fuse_row_norms(graph, g))
    _run(g, graph, Pass.SOFTMAX, lambda: fuse_softmax(graph, g))
    _run(g, graph, Pass.EPILOGUE, lambda: fuse_byte_epilogues(graph, g))
    _fuse_elementwise(g, graph)
    _run(g, graph, Pass.CONVERTS, lambda: fuse_widening(graph))
    _run(g, graph, Pass.IN_PLACE, lambda: eliminate_copies(graph, g))
    _run(g, graph, Pass.COALESCE, lambda: fuse_copies(graph))
    operations = [(each.operation, *each.fused) if isinstance(each, Dispatch) else () for each in commands]
    return graph.result(operations), graph.parts


def _run(g: Lowering, graph: Graph, pass_: Pass, rewrite: Callable[[], object]) -> None:
    """Run a pass unless it is disabled, and count the commands that it rewrites."""
    if g.device.runs(pass_):
        before = graph.rewrites
        rewrite()
        g.applied[pass_] += graph.rewrites - before


def _fuse_elementwise(g: Lowering, graph: Graph) -> None:
    """Make each group of elementwise operations the epilogue of a GEMM, or else one command."""
    if not (g.device.runs(Pass.EPILOGUE) or g.device.runs(Pass.ELEMENTWISE)):
        return
    for group in groups_of(graph):
        if g.device.runs(Pass.EPILOGUE) and fuse_epilogue(graph, g, group):
            g.applied[Pass.EPILOGUE] += 1
        else:
            _run(g, graph, Pass.ELEMENTWISE, partial(fuse_elementwise, graph, g, group))
