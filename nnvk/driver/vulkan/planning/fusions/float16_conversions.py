"""Where 16-bit floats begin and end: products take 32-bit ones, and give them.

Only images of pixels with few channels are taken: they are loaded element by element, each a few times. Those of others
are loaded as vectors, and for every block of output channels again, which the smaller ones are made once for.
"""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.lowering.convert import converts
from nnvk.driver.vulkan.lowering.dtypes import F16, F32
from nnvk.driver.vulkan.lowering.filter_output import TO_FLOATS
from nnvk.driver.vulkan.lowering.gemm import FROM_FLOATS
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch


def fuse_widening(graph: Graph) -> None:
    """Let GEMMs, and depthwise convolutions, write what their results are converted to; to come after all ends."""
    for position, conversion in graph.dispatches("convert"):
        half = conversion.tensors["src"]
        found = graph.writer(half)
        gemm = None if found is None else graph.commands[found]
        if (
            found is not None
            and isinstance(gemm, Dispatch)
            and gemm.shader.has_constant(TO_FLOATS)
            and converts(conversion, F16, F32)
            and graph.is_passed_on(half)
            and list(graph.readers(half)) == [position]
            and graph.may_wait(found)
        ):
            words = gemm.shader.with_constants(gemm.specialization, **{TO_FLOATS: True})
            tensors = {**gemm.tensors, "dst": conversion.tensors["dst"]}
            graph.replace(position, replace(gemm, tensors=tensors, specialization=words), [found])


def fuse_narrowing(graph: Graph) -> None:
    """Let GEMMs read what images are converted from."""
    for position, gemm in graph.dispatches("gemm"):
        shader, words, image = gemm.shader, gemm.specialization, gemm.tensors["src"]
        if shader.choice[0] != F16.name or shader.constant(words, "SPAN") >= 4:
            continue
        found = graph.dispatch_that_writes(image, "convert")
        if found is None or not converts(found[1], F32, F16) or not graph.may_wait(found[0]):
            continue
        if list(graph.readers(image)) == [position] and list(gemm.tensors.values()).count(image) == 1:
            tensors = {**gemm.tensors, "src": found[1].tensors["src"]}
            words = shader.with_constants(words, **{FROM_FLOATS: True})
            graph.replace(position, replace(gemm, tensors=tensors, specialization=words))
