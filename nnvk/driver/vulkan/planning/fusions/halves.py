"""Images of 32-bit floats into the first product of a relaxed model, which makes 16-bit ones of what it loads.

Of pixels with few channels alone: they are loaded element by element, each a few times. Those of others are loaded as
vectors, and for every block of output channels again, which the smaller ones are made once for.
"""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.lowering.convert import converts
from nnvk.driver.vulkan.lowering.dtypes import F16, F32
from nnvk.driver.vulkan.lowering.product import FROM_FLOATS
from nnvk.driver.vulkan.planning.fusions.graph import Graph


def fuse_halves(graph: Graph) -> None:
    """Let products read what images are converted from."""
    for position, product in graph.dispatches("product"):
        shader, words, image = product.shader, product.specialization, product.tensors["src"]
        if shader.choice[0] != F16.name or shader.constant(words, "SPAN") >= 4:
            continue
        found = graph.dispatch_that_writes(image, "convert")
        if found is None or not converts(found[1], F32, F16) or not graph.may_wait(found[0]):
            continue
        if list(graph.readers(image)) == [position] and list(product.tensors.values()).count(image) == 1:
            tensors = {**product.tensors, "src": found[1].tensors["src"]}
            words = shader.with_constants(words, **{FROM_FLOATS: True})
            graph.replace(position, replace(product, tensors=tensors, specialization=words))
