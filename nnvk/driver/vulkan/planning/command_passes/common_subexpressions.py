"""Common subexpression elimination on commands, which kernels add to several operations: packed filters, say."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from nnvk.base.extents import identity
from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef


def eliminate_common_subexpressions(graph: CommandGraph) -> None:
    """Let who reads what a second dispatch computes read what the first one has."""
    first: dict[Hashable, tuple[int, TensorRef]] = {}
    for position, dispatch in graph.dispatches():
        result = _result(graph, position, dispatch)
        if result is None:
            continue
        before, same = first.setdefault(_computed(dispatch, result), (position, result))
        if before != position and _stay(graph, dispatch, before):
            _read_instead(graph, result, same)


def _result(graph: CommandGraph, position: int, dispatch: Dispatch) -> TensorRef | None:
    """The tensor that is all that a dispatch writes, and that nobody else does; None if there is none."""
    (result, *others) = dispatch.writes
    if (
        others
        or result in dispatch.reads
        or list(graph.writers(result)) != [position]
        or not graph.is_passed_on(result)
    ):
        return None
    return result


def _computed(dispatch: Dispatch, result: TensorRef) -> Hashable:
    """All that a result depends on."""
    sources = tuple((name, tensor) for name, tensor in sorted(dispatch.tensors.items()) if tensor != result)
    numbers = identity((*sorted(dispatch.push.items()), dispatch.groups, result.nbytes))
    return dispatch.shader.name, dispatch.specialization, numbers, sources


def _stay(graph: CommandGraph, dispatch: Dispatch, position: int) -> bool:
    """Whether what a dispatch reads has been the same since a position."""
    return all(writer < position for source in dispatch.reads for writer in graph.writers(source))


def _read_instead(graph: CommandGraph, tensor: TensorRef, same: TensorRef) -> None:
    readers = [(reader, graph.commands[reader]) for reader in graph.readers(tensor)]
    for reader, command in readers:
        if isinstance(command, Dispatch):
            tensors = {name: same if each == tensor else each for name, each in command.tensors.items()}
            graph.replace(reader, replace(command, tensors=tensors))
