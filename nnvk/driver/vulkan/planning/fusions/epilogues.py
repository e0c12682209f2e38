"""Elementwise operations on what a GEMM gives become its end: activations, residuals, and what follows them.

Floats are summed in the same order as before, and bytes are rounded by the same steps.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from nnvk.driver.vulkan.lowering.dtypes import Q8, DType
from nnvk.driver.vulkan.lowering.epilogue import ByteEpilogue, fits, is_extra, with_bytes, with_program
from nnvk.driver.vulkan.lowering.fused_elementwise import Source
from nnvk.driver.vulkan.lowering.gemm import channels_of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.planning.fusions.elementwise_groups import Group
from nnvk.driver.vulkan.planning.fusions.elementwise_nodes import operand
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.profile import AvoidedShader
from nnvk.ops.traits import Function

GEMMS = ("gemm", "depthwise_conv2d", "fully_connected", "winograd_output")
"""Shaders that compute GEMMs, which may have an end."""


def fuse_epilogue(graph: Graph, g: Lowering, group: Group) -> bool:
    """Make a group of operations on floats the end of the last product that it reads; False where that can't be."""
    inside = {node.position for node in group.nodes}
    products = [
        (*found, source)
        for source in group.program.sources
        if source == Source(source.tensor)
        and (found := _gemm(graph, source.tensor, inside, group.last.type)) is not None
    ]
    if not products or len(group.results) != 1:
        return False
    at, gemm, own = max(products, key=lambda each: each[0])
    if not fits(group.program, own, channels_of(gemm)):
        return False
    (result,) = group.results
    positions = [node.position for node in group.nodes]
    try:
        fused = with_program(g, gemm, group.program, own, result)
    except AvoidedShader:
        return False
    graph.replace(positions[-1], fused, [at, *positions[:-1]])
    return True


def fuse_byte_epilogues(graph: Graph, g: Lowering) -> None:
    """The same of bytes: a sum or product with another tensor, then a table."""
    ends: dict[int, ByteEpilogue] = {}
    for position, dispatch in graph.dispatches("binary", "lookup"):
        if graph.writer(dispatch.tensors["dst"]) != position:
            continue
        if dispatch.shader.family == "lookup":
            _look_up(graph, g, position, dispatch, ends)
        elif dispatch.shader.choice[1] == Q8.name and "low" in dispatch.push:  # of bytes, ADD, SUB and MUL have limits
            _combine(graph, g, position, dispatch, ends)


def _combine(graph: Graph, g: Lowering, position: int, dispatch: Dispatch, ends: dict[int, ByteEpilogue]) -> None:
    (kind, _), push = dispatch.shader.choice, dispatch.push
    sides = []
    for own, other in (("lhs", "rhs"), ("rhs", "lhs")):
        found = _gemm(graph, dispatch.tensors[own], {position}, Q8)
        extra = operand(dispatch, other, Q8)
        if found is not None and extra is not None and dispatch.tensors[own].nbytes == push["elements"]:
            sides.append((*found, own, other, extra))
    if not sides:
        return
    at, gemm, own, other, extra = max(sides, key=lambda side: side[0])
    if extra.tensor == dispatch.tensors[own] or not is_extra(extra, channels_of(gemm)):
        return
    signs = {"lhs": 1, "rhs": -1 if kind == "sub" else 1}
    parameters: list[int] = []
    for side in (own, other):
        parameters += [int(push[f"{side}_{name}"]) for name in ("zero", "mantissa", "shift")] + [signs[side]]
    parameters += [int(push[f"dst_{name}"]) for name in ("zero", "mantissa", "shift")] + [0]
    parameters += [int(push["low"]), int(push["high"]), 0, 0]
    code = Function.MUL if kind == "mul" else Function.ADD
    end = ByteEpilogue(_multipliers(graph, gemm), int(code), tuple(parameters), extra)
    with suppress(AvoidedShader):
        graph.replace(position, with_bytes(g, gemm, end, dispatch.tensors["dst"]), [at])
        ends[position] = end


def _look_up(graph: Graph, g: Lowering, position: int, dispatch: Dispatch, ends: dict[int, ByteEpilogue]) -> None:
    found = _gemm(graph, dispatch.tensors["src"], {position}, Q8, ends)
    data = graph.constant(dispatch.tensors["table"])
    if found is None or data is None or dispatch.tensors["src"].nbytes != dispatch.tensors["dst"].nbytes:
        return
    at, gemm = found
    before = ends.get(at) or ByteEpilogue(_multipliers(graph, gemm))
    end = replace(before, table=np.ascontiguousarray(data).tobytes())
    with suppress(AvoidedShader):
        graph.replace(position, with_bytes(g, gemm, end, dispatch.tensors["dst"]), [at])


def _multipliers(graph: Graph, gemm: Dispatch) -> np.ndarray:
    """The scales of a product of bytes that has no end yet."""
    data = graph.constant(gemm.tensors["multipliers"])
    assert data is not None
    return data


def _gemm(
    graph: Graph, tensor: TensorRef, readers: set[int], type_: DType, ends: dict[int, ByteEpilogue] | None = None
) -> tuple[int, Dispatch] | None:
    """The GEMM that gives a tensor which these commands alone read, if an end fits it.

    ``ends``: of those that have one already, which may get a table.
    """
    position = graph.writer(tensor)
    command = None if position is None else graph.commands[position]
    if position is None or not isinstance(command, Dispatch) or command.shader.family not in GEMMS:
        return None
    dtype, *_, end = command.shader.choice
    free = end == "plain" or (ends is not None and position in ends and not ends[position].table)
    if dtype != type_.name or not free or not graph.is_passed_on(tensor) or not set(graph.readers(tensor)) <= readers:
        return None
    if type_ is Q8 and not _is_open(command):
        return None
    return (position, command) if graph.may_wait(position) else None


def _is_open(gemm: Dispatch) -> bool:
    """Whether a product of bytes can have an end: its pixels are not padded."""
    return bool(gemm.shader.constant(gemm.specialization, "VECTOR_STORES"))
