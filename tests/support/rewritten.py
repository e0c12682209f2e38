"""Graphs after passes, for devices that need not be there; each pass is checked on the reference device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from fused import Net, Op
from profiles import GPU

from nnvk.driver.vulkan.graph import verifier
from nnvk.driver.vulkan.graph.builder import build
from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.passes import PIPELINE
from nnvk.driver.vulkan.planning.passes.context import Context, Rewrite
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, DeviceProfile
from nnvk.ops.call import Call
from nnvk.types.model import Model

Refuse = Callable[[Call], str | None]


def nothing(call: Call) -> str | None:
    """Refuse no call."""
    return None


@cache
def library() -> ShaderLibrary:
    return ShaderLibrary()


def native() -> DeviceProfile:
    """A GPU with all features that shaders use, 16-bit floats among them."""
    return replace(GPU, features=library().features | {ACCELERATED_DOTS})


def graph_of(model: Model) -> Graph:
    """The operations of a model whose shapes are known."""
    graph, _ = build(model, [type_.dimensions for type_ in model.input_types()], {}, nothing)
    return graph


def context_of(model: Model, profile: DeviceProfile | None = None, refuse: Refuse = nothing) -> Context:
    """The surroundings of a pass on a model, on `native` unless another profile is given."""
    profile = profile or native()
    g = Lowering(profile, library(), relaxed=model.relaxed)
    return Context(profile, model.relaxed, g.intermediate, g.choose, refuse)


def rewritten(
    model: Model, *rewrites: Rewrite, profile: DeviceProfile | None = None, refuse: Refuse = nothing, near: float = 1e-5
) -> tuple[Graph, int]:
    """The graph of a model after some passes, and how often the last one has found something to rewrite.

    ``near``: how much results may differ after a pass, as a share of the largest number.
    """
    graph, context, count = graph_of(model), context_of(model, profile, refuse), 0
    for rewrite in rewrites:
        before = graph
        graph, count = rewrite(graph, context)
        if graph is not before:
            verifier.check(graph, rewrite.__name__)
            verifier.check_kept(before, graph, rewrite.__name__)
            verifier.compare(before, graph, rewrite.__name__, near)
    return graph, count


def through(rewrite: Rewrite) -> tuple[Rewrite, ...]:
    """The passes of the pipeline from its begin to the first occurrence of one."""
    order = [each for _, each in PIPELINE]
    return tuple(order[: order.index(rewrite) + 1])


def codes(graph: Graph) -> list[str]:
    """The operations of the nodes, with the number of calls that a node computes before its own and behind it."""
    return [
        node.code.name + f"<{len(node.prologue)}" * bool(node.prologue) + f">{len(node.epilogue)}" * bool(node.epilogue)
        for node in graph.nodes
    ]


def fused(net: Net, rewrite: Rewrite, *outputs: int, **options: Any) -> tuple[list[str], int]:
    """The operations after one pass, and how often it was applied."""
    graph, count = rewritten(net.finish(*outputs), rewrite, **options)
    return codes(graph), count


def nchw_conv(net: Net, x: int, outputs: int, depth: int) -> int:
    """Add a convolution of an image in NCHW order."""
    rest = [*map(net.code, (1, 1, 1, 0)), net.build.value(True)]
    return net.op(Op.CONV_2D, x, net.weights(outputs, 3, 3, depth), net.weights(outputs), *rest)
