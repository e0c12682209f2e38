"""Matrices whose rows lie side by side in larger rows, as the heads of attention do: products take and give them so.

Models change the order of elements before such products, and back after them. gemm.comp goes from larger row to
larger row instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.lowering.arrange import Box, Dimension, arranged, box_of, fold
from nnvk.driver.vulkan.lowering.dtypes import F32
from nnvk.driver.vulkan.lowering.gemm import Split, layout_of_weights
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.strategies import WeightLayout
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef

_MOST = 256
"""Matrices side by side: a specialisation constant."""


def fuse_results(graph: Graph) -> None:
    """Leave out changes of order behind products of matrices, so that what follows them is in that order.

    But for those that another one follows: these come to nothing, or to one, in `orders`.
    """
    for position, gemm in _gemms(graph):
        _give(graph, position, gemm)


def fuse_matrices(graph: Graph, g: Lowering) -> None:
    """Leave out all changes of order that products of matrices need not have."""
    for position, gemm in _gemms(graph):
        taken = _take_source(graph, g, position, gemm)
        taken = _take_weights(graph, g, position, taken)
        _give(graph, position, taken)


def _gemms(graph: Graph) -> Iterable[tuple[int, Dispatch]]:
    for position, gemm in graph.dispatches("gemm"):
        if gemm.shader.constant(gemm.specialization, "SPLIT") == Split.BATCHES:
            yield position, gemm


def _take_source(graph: Graph, g: Lowering, position: int, gemm: Dispatch) -> Dispatch:
    """The GEMM with left matrices from before their order was changed, if it can take them."""
    parts, rows, depth = (int(gemm.push[name]) for name in ("parts", "rows", "depth"))
    found = _side_by_side(graph, g, position, gemm.tensors["src"], _Matrices(parts, rows, depth))
    if found is None:
        return gemm
    source, abreast = found
    taken = _with(gemm, {"SOURCE_PARTS": abreast}, src=source)
    taken = replace(taken, push={**taken.push, "channels": abreast * depth})
    graph.replace(position, taken)
    return taken


def _take_weights(graph: Graph, g: Lowering, position: int, gemm: Dispatch) -> Dispatch:
    """The same of right matrices that are read as they lie; whoever packs others finds them (`orders`)."""
    order = layout_of_weights(gemm)
    if order is WeightLayout.IN_BLOCKS:
        return gemm
    parts, depth, columns = (int(gemm.push[name]) for name in ("parts", "depth", "out_channels"))
    orders = {
        WeightLayout.BY_K: _Matrices(parts, depth, columns, order is WeightLayout.BY_OUTPUTS),
        WeightLayout.BY_OUTPUTS: _Matrices(parts, columns, depth, order is WeightLayout.BY_K),
    }
    for before, matrices in orders.items():
        in_vec4s = matrices.columns % 4 == 0 and gemm.shader.choice[1] == "shared"
        if matrices.turned and not in_vec4s:
            continue
        found = _side_by_side(graph, g, position, gemm.tensors["weights"], matrices)
        if found is not None:
            source, abreast = found
            constants = {"WEIGHT_PARTS": abreast} | ({"WEIGHT_LAYOUT": int(before)} if matrices.turned else {})
            taken = _with(gemm, constants, weights=source)
            graph.replace(position, taken)
            return taken
    return gemm


def _give(graph: Graph, position: int, gemm: Dispatch) -> None:
    """Let a GEMM leave what it gives where the one change of order that reads it would put it."""
    tensor, push = gemm.tensors["dst"], gemm.push
    parts, rows, columns = (int(push[name]) for name in ("parts", "rows", "out_channels"))
    readers = graph.readers(tensor)
    reader = graph.commands[readers[0]] if len(readers) == 1 else None
    if (
        not isinstance(reader, Dispatch)
        or reader.shader.family != "arrange"
        or not graph.is_passed_on(tensor)
        or graph.writer(tensor) != position
        or not graph.may_wait(position)
        or (columns % 4 and gemm.shader.choice[0] != F32.name)  # others' pixels are padded to vec4s
        or _is_changed_again(graph, reader.tensors["dst"])
    ):
        return
    box, matrix = box_of(reader), rows * columns
    dimensions = fold(box.dimensions)
    for abreast in _abreast(parts):
        together = [(parts // abreast, abreast * matrix), (rows, columns), (abreast, matrix), (columns, 1)]
        if not box.first and dimensions == fold(together):
            given = _with(gemm, {"TARGET_PARTS": abreast}, dst=reader.tensors["dst"])
            graph.replace(readers[0], given, [position])
            return


@dataclass(frozen=True, slots=True)
class _Matrices:
    """The operand of a GEMM, one matrix after the other."""

    parts: int
    rows: int
    columns: int
    turned: bool = False
    """It reads them column by column."""

    def box(self, abreast: int, pitch: int) -> list[Dimension]:
        """The box of a change of order for them, if so many lie side by side in rows, each a pitch from the next."""
        matrix = [(self.rows, pitch), (self.columns, 1)]
        around = [(self.parts // abreast, self.rows * pitch), (abreast, self.columns)]
        return fold([*around, *(reversed(matrix) if self.turned else matrix)])


def _side_by_side(
    graph: Graph, g: Lowering, position: int, tensor: TensorRef, matrices: _Matrices
) -> tuple[TensorRef, int] | None:
    """The tensor from which matrices came by a change of order, and how many of them are side by side there.

    Where the larger rows are amid yet larger ones they are copied from there, unless `columns` finds that needless.
    """
    found = graph.dispatch_that_writes(tensor, "arrange")
    if found is None or not graph.may_wait(found[0]):
        return None
    at, change = found
    for source, box in _before(graph, change):
        dimensions = fold(box.dimensions)
        fewest = 1 if matrices.turned else 2
        for abreast, pitch in itertools.product(_abreast(matrices.parts, fewest), {stride for _, stride in dimensions}):
            larger = abreast * matrices.columns
            if pitch < larger or dimensions != matrices.box(abreast, pitch):
                continue
            if not box.first and pitch == larger:
                return source, abreast
            if _is_read_once(graph, tensor, position):
                rows = Box(((matrices.parts // abreast * matrices.rows, pitch), (larger, 1)), box.first)
                copied = g.scratch(tensor.nbytes)
                copy = arranged(g, change.shader.choice[0], source, copied, rows, change.operation)
                assert copy is not None
                graph.replace(at, copy)
                return copied, abreast
    return None


def _is_read_once(graph: Graph, tensor: TensorRef, position: int) -> bool:
    """Whether a tensor is there for one use by a command alone."""
    command = graph.commands[position]
    assert command is not None
    uses = [*command.reads, *command.writes].count(tensor)
    return graph.is_passed_on(tensor) and list(graph.readers(tensor)) == [position] and uses == 1


def _before(graph: Graph, change: Dispatch) -> Iterable[tuple[TensorRef, Box]]:
    """The box and the source of a change of order; those of an earlier one, if its source comes of that."""
    source, box = change.tensors["src"], box_of(change)
    yield source, box
    found = graph.dispatch_that_writes(source, "arrange")
    if found is None or not graph.may_wait(found[0]):
        return
    together = box.through(box_of(found[1]))
    if together is not None:
        yield found[1].tensors["src"], together


def _abreast(parts: int, fewest: int = 2) -> list[int]:
    """How many of so many matrices may lie side by side."""
    return [number for number in range(fewest, min(parts, _MOST) + 1) if parts % number == 0]


def _is_changed_again(graph: Graph, tensor: TensorRef) -> bool:
    readers = [graph.commands[reader] for reader in graph.readers(tensor)]
    return any(isinstance(each, Dispatch) and each.shader.family == "arrange" for each in readers)


def _with(gemm: Dispatch, constants: Mapping[str, int], **tensors: TensorRef) -> Dispatch:
    words = gemm.shader.with_constants(gemm.specialization, **constants)
    return replace(gemm, specialization=words, tensors={**gemm.tensors, **tensors})
