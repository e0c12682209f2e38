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
from nnvk.driver.vulkan.lowering.strategies import Order
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
    tensor = product.tensors["src"]
    found = _change(graph, tensor)
    if found is None:
        return product
    at, change = found
    parts, rows, depth = (int(product.push[name]) for name in ("parts", "rows", "depth"))
    box = box_of(change)
    dimensions = fold(box.dimensions)
    for abreast, pitch in itertools.product(_abreast(parts), {stride for _, stride in dimensions}):
        larger, outer = abreast * depth, parts // abreast
        if pitch < larger or dimensions != _rows_apart(outer, abreast, rows, depth, pitch):
            continue
        source = change.tensors["src"]
        if box.first or pitch != larger:
            if list(graph.readers(tensor)) != [position]:
                continue
            whole, source = source, g.scratch(tensor.nbytes)
            rows_alone = Box(((outer * rows, pitch), (larger, 1)), box.first)
            copy = arranged(g, change.shader.choice[0], whole, source, rows_alone, change.operation)
            assert copy is not None
            graph.replace(at, copy)
        taken = _with(product, "SOURCE_PARTS", abreast, src=source)
        taken = replace(taken, push={**taken.push, "channels": larger})
        graph.replace(position, taken)
        return taken
    return product


def _take_weights(graph: Graph, position: int, product: Dispatch) -> Dispatch:
    """The same of right matrices that are read as they lie; whoever packs others finds them (`orders`)."""
    order = _order_of_weights(product)
    found = _change(graph, product.tensors["weights"])
    if found is None or order is Order.IN_BLOCKS:
        return product
    _, change = found
    parts, depth, columns = (int(product.push[name]) for name in ("parts", "depth", "out_channels"))
    box = box_of(change)
    dimensions = fold(box.dimensions)
    for before, abreast in itertools.product((Order.BY_STEPS, Order.BY_OUTPUTS), (1, *_abreast(parts))):
        by_steps = before is Order.BY_STEPS
        step, output, part = (abreast * columns, 1, columns) if by_steps else (1, abreast * depth, depth)
        matrix = [(depth, step), (columns, output)]
        matrices = [(parts // abreast, depth * abreast * columns), (abreast, part)]
        if box.first or dimensions != fold([*matrices, *(matrix if order is Order.BY_STEPS else matrix[::-1])]):
            continue
        taken = _with(product, "WEIGHT_PARTS", abreast, weights=change.tensors["src"])
        if before is not order:
            if product.shader.choice[1] != "shared" or (columns if by_steps else depth) % 4:
                continue
            words = product.shader.with_constant(taken.specialization, "ORDER", before)
            taken = replace(taken, specialization=words)
        graph.replace(position, taken)
        return taken
    return product


def _order_of_weights(product: Dispatch) -> Order:
    shader, words = product.shader, product.specialization
    _, tile, *_ = shader.choice
    if tile == "shared":
        return Order(shader.constant(words, "ORDER"))
    in_order = tile in ("register", "quads") and not shader.constant(words, "PACKED")
    return Order.BY_STEPS if in_order else Order.IN_BLOCKS


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
    for abreast in _abreast(parts):
        together = [(parts // abreast, abreast * matrix), (rows, columns), (abreast, matrix), (columns, 1)]
        if not box.first and dimensions == fold(together):
            given = _with(product, "TARGET_PARTS", abreast, dst=reader.tensors["dst"])
            graph.replace(readers[0], given, [position])
            return


def _is_changed_again(graph: Graph, tensor: TensorRef) -> bool:
    readers = [graph.commands[reader] for reader in graph.readers(tensor)]
    return any(isinstance(each, Dispatch) and each.shader.family == "arrange" for each in readers)


def _change(graph: Graph, tensor: TensorRef) -> tuple[int, Dispatch] | None:
    """The change of order that gives a tensor, if what it takes that from is still there for whoever reads it."""
    found = graph.dispatch_that_writes(tensor, "arrange")
    return found if found is not None and graph.may_wait(found[0]) else None


def _abreast(parts: int) -> list[int]:
    """How many of so many matrices may lie side by side."""
    return [number for number in range(2, parts + 1) if parts % number == 0]


def _rows_apart(outer: int, abreast: int, rows: int, columns: int, pitch: int) -> list[Dimension]:
    """The box of matrices that come out of larger rows, which are a pitch from each other."""
    return fold([(outer, rows * pitch), (abreast, columns), (rows, pitch), (columns, 1)])


def _with(product: Dispatch, constant: str, value: int, **tensors: TensorRef) -> Dispatch:
    words = product.shader.with_constant(product.specialization, constant, value)
    return replace(product, specialization=words, tensors={**product.tensors, **tensors})
