"""Fusions: commands of a plan that become one, so that fewer are dispatched and less goes through memory.

Each pattern is a module, which rewrites a `Graph`. The results of a fused plan are the same, bit by bit, unless its
module says otherwise. A value that a command outside reads, or that the model gives, is written as before.
"""

from __future__ import annotations

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.fusions.chains import fuse_chain, groups_of
from nnvk.driver.vulkan.planning.fusions.columns import fuse_columns
from nnvk.driver.vulkan.planning.fusions.duplicates import fuse_duplicates
from nnvk.driver.vulkan.planning.fusions.ends import fuse_byte_ends, fuse_end
from nnvk.driver.vulkan.planning.fusions.graph import Fused, Graph, Part
from nnvk.driver.vulkan.planning.fusions.halves import fuse_narrowing, fuse_widening
from nnvk.driver.vulkan.planning.fusions.in_place import fuse_copies
from nnvk.driver.vulkan.planning.fusions.matrices import fuse_matrices, fuse_results
from nnvk.driver.vulkan.planning.fusions.orders import fuse_orders
from nnvk.driver.vulkan.planning.fusions.pads import fuse_pads
from nnvk.driver.vulkan.planning.fusions.rounding import fuse_rounding
from nnvk.driver.vulkan.planning.fusions.row_norms import fuse_row_norms
from nnvk.driver.vulkan.planning.fusions.softmax import fuse_softmax
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef

__all__ = ["Fused", "Part", "fuse"]


def fuse(g: Lowering) -> tuple[list[Fused], dict[TensorRef, Part]]:
    """The commands of a lowered model, as many of them fused as its device wants, and tensors that lie in others."""
    commands = g.commands
    graph = Graph(commands, g.constants)
    if g.device.fusion:
        graph.sweep()
        fuse_duplicates(graph)
        fuse_results(graph)
        fuse_orders(graph, g)
        fuse_matrices(graph, g)
        fuse_pads(graph)
        fuse_narrowing(graph)
        fuse_rounding(graph, g)
        fuse_row_norms(graph, g)
        fuse_softmax(graph, g)
        fuse_byte_ends(graph, g)
        for group in groups_of(graph):
            if not fuse_end(graph, g, group):
                fuse_chain(graph, g, group)
        fuse_widening(graph)
        fuse_columns(graph, g)
        fuse_copies(graph)
    operations = [command.operation if isinstance(command, Dispatch) else -1 for command in commands]
    return graph.result(operations), graph.parts
