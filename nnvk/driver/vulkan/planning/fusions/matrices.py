"""Matrices whose rows lie side by side in larger rows, as the heads of attention do: products take and give them so.

Models change the order of elements before such products, and back after them. product.comp goes from larger row to
larger row instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from nnvk.driver.vulkan.lowering.arrange import Box, Dimension, arranged, box_of, fold
from nnvk.driver.vulkan.lowering.dtypes import F32
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.product import Split
from nnvk.driver.vulkan.planning.fusions.graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef


def fuse_results(graph: Graph) -> None:
    """Leave out changes of order behind products of matrices, so that what follows them is in that order.

    But for those that another one follows: these come to nothing, or to one, in `orders`.
    """
    for position, product in _products(graph):
        _give(graph, position, product)


def fuse_matrices(graph: Graph, g: Lowering) -> None:
    """Leave out all changes of order that products of matrices need not have."""
    for position, product in _products(graph):
        taken = _take_source(graph, g, position, product)
        taken = _take_weights(graph, position, taken)
        _give(graph, position, taken)


def _products(graph: Graph) -> Iterable[tuple[int, Dispatch]]:
    for position, product in graph.dispatches("product"):
        if product.shader.constant(product.specialization, "SPLIT") == Split.BATCHES:
            yield position, product


def _take_source(graph: Graph, g: Lowering, position: int, product: Dispatch) -> Dispatch:
    """The product with left matrices from before their order was changed, if it can take them.

    Where the larger rows are amid yet larger ones they are copied from there, unless `columns` finds that needless.
    """
    found = _change(graph, product.tensors["src"], position)
    if found is None:
        return product
    at, change = found
    parts, rows, depth = (int(product.push[name]) for name in ("parts", "rows", "depth"))
    box = box_of(change)
    dimensions = fold(box.dimensions)
    for abreast, pitch in itertools.product(_abreast(dimensions, parts), {stride for _, stride in dimensions}):
        larger, outer = abreast * depth, parts // abreast
        if pitch < larger or dimensions != _rows_apart(outer, abreast, rows, depth, pitch):
            continue
        source = change.tensors["src"]
        if box.first or pitch != larger:
            whole, source = source, g.scratch(change.tensors["dst"].nbytes)
            rows_alone = Box(((outer * rows, pitch), (larger, 1)), box.first)
            copy = arranged(g, change.shader.choice[0], whole, source, rows_alone, change.operation)
            assert copy is not None
            graph.replace(at, copy)
        taken = _with(product, "SOURCE_PARTS", abreast, src=source)
        taken = replace(taken, push={**taken.push, "channels": larger})
        graph.replace(position, taken, [at] if source == change.tensors["src"] else [])
        return taken
    return product


def _take_weights(graph: Graph, position: int, product: Dispatch) -> Dispatch:
    """The same of right matrices that are read as they lie; whoever packs others finds them (`orders`)."""
    in_registers = product.shader.choice[1] in ("register", "quads")
    if not in_registers or product.shader.constant(product.specialization, "PACKED"):
        return product
    found = _change(graph, product.tensors["weights"], position)
    if found is None:
        return product
    at, change = found
    parts, depth, columns = (int(product.push[name]) for name in ("parts", "depth", "out_channels"))
    box = box_of(change)
    dimensions = fold(box.dimensions)
    for abreast in _abreast(dimensions, parts):
        if not box.first and dimensions == _rows_apart(parts // abreast, abreast, depth, columns, abreast * columns):
            taken = _with(product, "WEIGHT_PARTS", abreast, weights=change.tensors["src"])
            graph.replace(position, taken, [at])
            return taken
    return product


def _give(graph: Graph, position: int, product: Dispatch) -> None:
    """Let a product leave what it gives where the one change of order that reads it would put it."""
    tensor, push = product.tensors["dst"], product.push
    parts, rows, columns = (int(push[name]) for name in ("parts", "rows", "out_channels"))
    readers = graph.readers(tensor)
    reader = graph.commands[readers[0]] if len(readers) == 1 else None
    if (
        not isinstance(reader, Dispatch)
        or reader.shader.family != "arrange"
        or not graph.is_passed_on(tensor)
        or graph.writer(tensor) != position
        or not graph.may_wait(position)
        or (columns % 4 and product.shader.choice[0] != F32.name)  # others' pixels are padded to fours
        or _is_changed_again(graph, reader.tensors["dst"])
    ):
        return
    box, matrix = box_of(reader), rows * columns
    dimensions = fold(box.dimensions)
    for abreast in _abreast(dimensions, parts):
        together = [(parts // abreast, abreast * matrix), (rows, columns), (abreast, matrix), (columns, 1)]
        if not box.first and dimensions == fold(together):
            given = _with(product, "TARGET_PARTS", abreast, dst=reader.tensors["dst"])
            graph.replace(readers[0], given, [position])
            return


def _is_changed_again(graph: Graph, tensor: TensorRef) -> bool:
    readers = [graph.commands[reader] for reader in graph.readers(tensor)]
    return any(isinstance(each, Dispatch) and each.shader.family == "arrange" for each in readers)


def _change(graph: Graph, tensor: TensorRef, position: int) -> tuple[int, Dispatch] | None:
    """The change of order that gives a tensor, if a command at a position alone reads that and may have it undone."""
    found = graph.dispatch_that_writes(tensor, "arrange")
    is_lone = graph.is_passed_on(tensor) and list(graph.readers(tensor)) == [position]
    return found if found is not None and is_lone and graph.may_wait(found[0]) else None


def _abreast(dimensions: Iterable[Dimension], parts: int) -> list[int]:
    """How many of so many matrices may lie side by side, by what a change of order takes."""
    return [size for size in dict.fromkeys(size for size, _ in dimensions) if size > 1 and parts % size == 0]


def _rows_apart(outer: int, abreast: int, rows: int, columns: int, pitch: int) -> list[Dimension]:
    """The box of matrices that come out of larger rows, which are a pitch from each other."""
    return fold([(outer, rows * pitch), (abreast, columns), (rows, pitch), (columns, 1)])


def _with(product: Dispatch, constant: str, value: int, **tensors: TensorRef) -> Dispatch:
    words = product.shader.with_constant(product.specialization, constant, value)
    return replace(product, specialization=words, tensors={**product.tensors, **tensors})
