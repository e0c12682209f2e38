"""Passes on the graph of operations: each is a pattern that rewrites nodes, before kernels lower them.

A pass takes a graph and gives a graph. The results are the same, bit by bit, unless the module of the pass says
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnvk.driver.vulkan.graph import dump, verifier
from nnvk.driver.vulkan.graph.dump import Observe
from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes.attention import fuse_attention
from nnvk.driver.vulkan.planning.passes.channels import fold_constant_channels
from nnvk.driver.vulkan.planning.passes.common_subexpressions import eliminate_common_subexpressions
from nnvk.driver.vulkan.planning.passes.constants import deduplicate_constants
from nnvk.driver.vulkan.planning.passes.context import Context, Rewrite
from nnvk.driver.vulkan.planning.passes.conversions import fuse_conversions, store_floats
from nnvk.driver.vulkan.planning.passes.depthwise import fuse_depthwise
from nnvk.driver.vulkan.planning.passes.elementwise import fuse_elementwise
from nnvk.driver.vulkan.planning.passes.epilogue import fuse_epilogues
from nnvk.driver.vulkan.planning.passes.fp16 import use_float16
from nnvk.driver.vulkan.planning.passes.heads import read_and_write_heads, write_heads
from nnvk.driver.vulkan.planning.passes.horizontal import fuse_horizontally
from nnvk.driver.vulkan.planning.passes.indices import wrap_indices
from nnvk.driver.vulkan.planning.passes.layouts import legalise_layouts
from nnvk.driver.vulkan.planning.passes.pad import fold_pads
from nnvk.driver.vulkan.planning.passes.quantisation import legalise_quantisation
from nnvk.driver.vulkan.planning.passes.row_norm import fuse_row_norms
from nnvk.driver.vulkan.planning.passes.softmax import fuse_softmax
from nnvk.driver.vulkan.planning.passes.time_steps import fuse_time_steps
from nnvk.driver.vulkan.planning.passes.transposes import move_transposes
from nnvk.driver.vulkan.shaders.passes import Pass

__all__ = ["PIPELINE", "Context", "Observe", "run"]

PIPELINE: tuple[tuple[Pass | None, Rewrite], ...] = (
    (Pass.CONSTANTS, deduplicate_constants),
    (Pass.CSE, eliminate_common_subexpressions),
    (Pass.INDICES, wrap_indices),
    (Pass.FP16, use_float16),
    (Pass.CHANNELS, fold_constant_channels),
    (Pass.HORIZONTAL, fuse_horizontally),
    (Pass.PAD, fold_pads),
    (None, legalise_layouts),
    (None, legalise_quantisation),
    (Pass.ROW_NORM, fuse_row_norms),
    (Pass.SOFTMAX, fuse_softmax),
    (Pass.ATTENTION, fuse_attention),
    (Pass.HEADS, write_heads),
    (Pass.TRANSPOSES, move_transposes),
    (Pass.HEADS, read_and_write_heads),
    (Pass.HORIZONTAL, fuse_time_steps),
    (Pass.CSE, eliminate_common_subexpressions),
    (Pass.CONVERTS, fuse_conversions),
    (Pass.EPILOGUE, fuse_epilogues),
    (Pass.ELEMENTWISE, fuse_elementwise),
    (Pass.DEPTHWISE, fuse_depthwise),
    (Pass.CONVERTS, store_floats),
)
"""The passes in the order in which they run, each with its switch; one that plans can't do without has none."""

_TOLERANCES: Mapping[Pass, float] = {
    Pass.FP16: 5e-2,
    Pass.HORIZONTAL: 1e-5,
    Pass.ROW_NORM: 1e-5,
    Pass.SOFTMAX: 1e-6,
    Pass.ATTENTION: 1e-5,
}
"""How much the reference's results may differ after a pass, as a share of the largest number: 0 for other passes."""


def run(
    graph: Graph, context: Context, verify: int = 0, observe: Observe | None = None
) -> tuple[Graph, dict[Pass, int]]:
    """The graph after all passes that the device's profile runs, and how often each has found something to rewrite.

    ``verify``: 1 checks the structure of the graph after each pass, 2 also computes it on the reference device before
    and after (`verifier`). Raises InvalidGraph if a check fails.
    """
    applied: dict[Pass, int] = {}
    if verify:
        verifier.check(graph, dump.BUILD)
    if observe:
        observe(dump.BUILD, dump.lines(graph))
    for pass_, rewrite in PIPELINE:
        if pass_ is not None and not context.profile.runs(pass_):
            continue
        before, name = graph, rewrite.__name__ if pass_ is None else pass_.value
        graph, count = rewrite(graph, context)
        if pass_ is not None:
            applied[pass_] = applied.get(pass_, 0) + count
        if verify and graph is not before:
            verifier.check(graph, name)
            verifier.check_kept(before, graph, name)
            if verify > 1:
                verifier.compare(before, graph, name, 0.0 if pass_ is None else _TOLERANCES.get(pass_, 0.0))
        if observe:
            observe(name, dump.lines(graph))
    return graph, applied
