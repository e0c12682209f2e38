"""CONCATENATION along channels: products write theirs between those of others from the start.

A plan never takes more memory for that: where it would, channels are copied.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.filter_output import placed
from nnvk.driver.vulkan.lowering.output_end import reads_each
from nnvk.driver.vulkan.planning.fusions.alive import Alive
from nnvk.driver.vulkan.planning.fusions.ends import PRODUCTS, channels_of
from nnvk.driver.vulkan.planning.fusions.graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef


@dataclass(frozen=True, slots=True)
class _Columns:
    """What a dispatch copies: pixels into larger ones."""

    position: int
    source: TensorRef
    first: int
    """The channel of the larger pixels that is the first of these."""
    channels: int
    of: int
    """Channels of the larger pixels."""
    pixels: int


def fuse_columns(graph: Graph) -> None:
    """Let products write where their results are copied to."""
    targets: dict[TensorRef, list[_Columns]] = {}
    for position, dispatch in graph.dispatches("move"):
        columns = _columns(position, dispatch)
        if columns is not None:
            targets.setdefault(dispatch.tensors["dst"], []).append(columns)
    alive = Alive(graph)
    for target, every in targets.items():
        if not _are_all(graph, target, every):
            continue
        found = [(columns, made) for columns in every if (made := _product(graph, target, columns)) is not None]
        if alive.may_lay([columns.source for columns, _ in found], target):
            for columns, (at, product) in found:
                graph.replace(at, product, [columns.position])


def _columns(position: int, dispatch: Dispatch) -> _Columns | None:
    """What a dispatch copies; None if that is not one column of pixels."""
    push = dispatch.push
    channels, pixels, of = (int(push[name]) for name in ("size_4", "size_3", "dst_stride_3"))
    if (
        push["count"] != push["runs"] * pixels
        or (push["src_first"], push["src_stride_3"], push["src_stride_4"], push["dst_stride_4"]) != (0, channels, 1, 1)
        or push["dst_first"] + channels > of
    ):
        return None
    return _Columns(position, dispatch.tensors["src"], int(push["dst_first"]), channels, of, pixels)


def _are_all(graph: Graph, target: TensorRef, every: list[_Columns]) -> bool:
    """Whether these columns are all that is written to a tensor, none of it twice, and are there before it is read."""
    positions = [columns.position for columns in every]
    every = sorted(every, key=lambda columns: columns.first)
    return (
        positions == list(graph.writers(target))
        and len({(columns.of, columns.pixels) for columns in every}) == 1
        and all(one.first + one.channels <= next_.first for one, next_ in itertools.pairwise(every))
        # Some copies read the words that they change a part of.
        and all(reader in positions or reader > positions[-1] for reader in graph.readers(target))
    )


def _product(graph: Graph, target: TensorRef, columns: _Columns) -> tuple[int, Dispatch] | None:
    """The product that gives columns and nothing else, made to write them to the target; None if there is none."""
    source = columns.source
    position = graph.writer(source)
    command = None if position is None else graph.commands[position]
    if position is None or not isinstance(command, Dispatch) or command.shader.family not in PRODUCTS:
        return None
    if (
        not graph.is_passed_on(source)
        or list(graph.readers(source)) != [columns.position]
        or channels_of(command) != columns.channels
        or reads_each(command)
        or target in command.tensors.values()
    ):
        return None
    product = placed(command, target, columns.first, columns.of)
    return None if product is None else (position, product)
