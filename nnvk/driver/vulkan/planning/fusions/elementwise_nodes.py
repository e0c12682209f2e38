"""Dispatches of elementwise operations on floats, and their functions one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.dtypes import F16, F32, DType
from nnvk.driver.vulkan.lowering.fused_elementwise import Number, Program, Result, Source, Spread, Value
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.ops import registry
from nnvk.ops.traits import Function


def _functions() -> Iterator[tuple[str, Function]]:
    """The functions of shader variants by their kinds."""
    for definition in registry.definitions().values():
        trait = definition.traits.elementwise
        if trait is not None and trait.function is not None:
            yield trait.kind, trait.function
        if trait is not None and trait.approximate is not None:
            yield trait.approximate


_FUNCTIONS = dict(_functions())
FLOATS = {type_.name: type_ for type_ in (F32, F16)}
"""Data types that operations can follow each other on, by their names."""


@dataclass(frozen=True, slots=True)
class Node:
    """An elementwise dispatch."""

    position: int
    dispatch: Dispatch
    type: DType
    """The data type of all that it reads and writes."""
    sources: tuple[Source, ...]
    result: TensorRef

    def write(self, program: Program, operand: Callable[[Source], Value]) -> Result:
        """Add its steps to a program, on what ``operand`` gives for its sources; the last one's result."""
        push = self.dispatch.push
        operands: list[Value] = [operand(source) for source in self.sources]
        kind, *_ = self.dispatch.shader.choice
        if kind == "clamp":
            return program.limit(operands[0], push["low"], push["high"], is_stored=True)
        if kind == "elu":
            operands.append(Number.of(push["low"]))
        combined = program.add(_FUNCTIONS[kind], *operands)
        if self.dispatch.shader.family == "binary" and push.keys() >= {"low", "high"}:
            return program.limit(combined, push["low"], push["high"], is_stored=False)
        return combined


def node_at(graph: Graph, position: int, dispatch: Dispatch) -> Node | None:
    """The elementwise operation that a dispatch computes, if it does not depend on the place of an element."""
    kind, name = dispatch.shader.choice
    type_ = FLOATS.get(name)
    if type_ is None or not graph.may_wait(position) or graph.writer(dispatch.tensors["dst"]) != position:
        return None
    if kind != "clamp" and kind not in _FUNCTIONS:
        return None  # fused dispatches can't compute it
    result = dispatch.tensors["dst"]
    if dispatch.shader.family == "unary":
        return Node(position, dispatch, type_, (Source(dispatch.tensors["src"]),), result)
    sources = [operand(dispatch, side, type_) for side in ("lhs", "rhs")]
    if None in sources:
        return None
    return Node(position, dispatch, type_, tuple(source for source in sources if source is not None), result)


def operand(dispatch: Dispatch, side: str, type_: DType) -> Source | None:
    """How a tensor that may be broadcast is read by binary.comp; None where it is not simply repeated."""
    tensor, push = dispatch.tensors[side], dispatch.push
    elements, own = int(push["elements"]), tensor.nbytes // type_.size
    if own == elements:
        return Source(tensor)
    if own == 1:
        return Source(tensor, Spread.SINGLE)
    sizes = [int(push[f"size_{axis}"]) for axis in (1, 2, 3)]
    sizes.insert(0, elements // math.prod(sizes))
    kept = [axis for axis, size in enumerate(sizes) if size > 1 and push[f"{side}_stride_{axis}"]]
    inner = math.prod(sizes[kept[-1] + 1 :])
    if math.prod(sizes[kept[0] : kept[-1] + 1]) != own:
        return None  # it is repeated in the middle
    if inner == 1 and own % 4 == 0:
        return Source(tensor, Spread.WITHIN, own // 4)
    if inner * own == elements and inner % 4 == 0:
        return Source(tensor, Spread.ACROSS, inner // 4)
    return None
