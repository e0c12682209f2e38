"""Outputs: the command that computes a small output of a model writes it where the host reads it, instead of a copy."""

from __future__ import annotations

from dataclasses import replace

from nnvk.driver.vulkan.planning.command_passes.command_graph import CommandGraph
from nnvk.driver.vulkan.shaders.commands import Copy, Dispatch, Storage, TensorRef

SMALL_OUTPUT = 16 << 10
"""Bytes of an output that a shader writes through a bus to the host's memory in less time than a copy takes to begin.

A copy waits for the shader before it. On an NVIDIA H100 a copy between two dispatches takes 5 us more than a barrier.
"""


def write_outputs(graph: CommandGraph) -> None:
    """Let dispatches write the small outputs that would be copied, if no other command reads or writes these."""
    wholes = {part.whole for part in graph.parts.values()}
    for position, command in enumerate(graph.commands):
        if not isinstance(command, Copy) or command.target.storage is not Storage.STAGING:
            continue
        source, target = command.source, command.target
        writer = _only_writer(graph, source)
        is_small = source.nbytes <= SMALL_OUTPUT and source not in wholes and graph.is_passed_on(source)
        if writer is not None and is_small and list(graph.readers(source)) == [position]:
            place, dispatch = writer
            tensors = {name: target if tensor == source else tensor for name, tensor in dispatch.tensors.items()}
            graph.replace(place, replace(dispatch, tensors=tensors), [position])


def _only_writer(graph: CommandGraph, tensor: TensorRef) -> tuple[int, Dispatch] | None:
    """The dispatch that writes a tensor, and its position; None if other commands write it."""
    position = graph.writer(tensor)
    command = None if position is None else graph.commands[position]
    return (position, command) if position is not None and isinstance(command, Dispatch) else None
