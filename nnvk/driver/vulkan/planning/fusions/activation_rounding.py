"""The rounding of activations to 8 bits, which the TensorFlow Lite importer composes of ten operations and more.

`nnvk.importers.tflite.hybrid` says what it computes. Each row has a scale that depends on its elements, so that the
operations form no chain: one pass over the row finds its extremes, and one rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.row_rounding import round_rows
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.profile import AvoidedShader

# Patterns: a name stands for the same tensor everywhere, a number for a constant, a tuple for an operation on patterns.
_EXTENT = ("max", ("fold max", ("abs", "source")), 1e-30)
_SYMMETRIC = (
    "mul",
    ("whole", ("mul", "source", ("div", 127.0, _EXTENT))),
    ("div", _EXTENT, 127.0),
)
_LOW = ("min", ("fold min", "source"), 0.0)
_WIDTH = ("max", ("sub", ("max", ("fold max", "source"), 0.0), _LOW), 1e-30)
_INVERSE = ("div", 255.0, _WIDTH)
_ZERO_POINT = ("whole", ("sub", -128.0, ("mul", _LOW, _INVERSE)))
_ASYMMETRIC = (
    "mul",
    ("sub", ("whole", ("add", ("mul", "source", _INVERSE), _ZERO_POINT)), _ZERO_POINT),
    ("div", _WIDTH, 255.0),
)
_KINDS = {"symmetric": _SYMMETRIC, "asymmetric": _ASYMMETRIC}


def fuse_rounding(graph: Graph, g: Lowering) -> None:
    """Round rows in one dispatch, or in two where they are long."""
    for position, dispatch in graph.dispatches("binary"):
        if not dispatch.shader.name.startswith("binary.mul.f32") or graph.writer(dispatch.tensors["dst"]) != position:
            continue
        target = dispatch.tensors["dst"]
        for kind, pattern in _KINDS.items():
            found = _Match(graph)
            if not found.matches(target, pattern):
                continue
            source = found.named["source"]
            if source.nbytes != target.nbytes or not graph.may_wait(min(found.positions)):
                continue
            try:
                *ahead, last = round_rows(g, kind, source, target, found.rows, dispatch.operation)
            except AvoidedShader:
                continue
            if ahead and not graph.has_room(position):
                continue
            for before in ahead:
                graph.insert(position, before)
            graph.replace(position, last)
            break


class _Match:
    """What a pattern has met."""

    def __init__(self, graph: Graph) -> None:
        self.named: dict[str, TensorRef] = {}
        self.rows = 0
        self.positions: list[int] = []
        self._graph = graph

    def matches(self, tensor: TensorRef, pattern: object) -> bool:
        """Whether what gives a tensor is what the pattern says."""
        if isinstance(pattern, str):
            return self.named.setdefault(pattern, tensor) == tensor
        if isinstance(pattern, float):
            data = self._graph.constant(tensor)
            return (
                data is not None and data.size == 1 and data.dtype == np.float32 and data.item() == np.float32(pattern)
            )
        assert isinstance(pattern, tuple)
        operation, *operands = pattern
        if operation == "whole":
            return self._whole(tensor, operands[0])
        if operation.startswith("fold "):
            return self._folded(tensor, operation.removeprefix("fold "), operands[0])
        found = self._writer(tensor, "unary" if len(operands) == 1 else "binary", operation)
        if found is None:
            return False
        limits = found.push.get("low", -np.inf), found.push.get("high", np.inf)
        if operation != "abs" and limits != (-np.inf, np.inf):
            return False
        sides = ("src",) if len(operands) == 1 else ("lhs", "rhs")
        return all(self.matches(found.tensors[side], operand) for side, operand in zip(sides, operands, strict=True))

    def _writer(self, tensor: TensorRef, family: str, kind: str, dtype: str = "f32") -> Dispatch | None:
        found = self._graph.dispatch_that_writes(tensor, family)
        if found is None or not found[1].shader.name.startswith(f"{family}.{kind}.{dtype}"):
            return None
        self.positions.append(found[0])
        return found[1]

    def _whole(self, tensor: TensorRef, pattern: object) -> bool:
        """QUANTIZE to signed steps of 1, and back."""
        back = self._writer(tensor, "convert", "q8", "f32.one")
        there = None if back is None else self._writer(back.tensors["src"], "convert", "f32", "q8.one")
        if back is None or there is None:
            return False
        steps = {"dst_scale": 1.0, "dst_zero": 128, "low": 0, "high": 255}
        numbers = {"src_scale": 1.0, "src_zero": 128}
        return (
            not there.shader.constant(there.specialization, "TO_EVEN")
            and all(there.push[name] == value for name, value in steps.items())
            and all(back.push[name] == value for name, value in numbers.items())
            and there.push["dst_mask"] == back.push["sign_mask"]
            and self.matches(there.tensors["src"], pattern)
        )

    def _folded(self, tensor: TensorRef, kind: str, pattern: object) -> bool:
        """REDUCE_MAX or REDUCE_MIN of each row, in several passes where rows are long."""
        self.rows = self.rows or tensor.nbytes // 4
        if tensor.nbytes // 4 != self.rows:
            return False
        return any(self.matches(before, pattern) for before in self._unfolded(tensor, kind))

    def _unfolded(self, tensor: TensorRef, kind: str) -> Iterator[TensorRef]:
        """What a tensor may be the reduction of."""
        while (found := self._writer(tensor, "reduce", kind)) is not None and found.push["inner"] == 1:
            tensor = found.tensors["src"]
            if found.push["size"] * self.rows == tensor.nbytes // 4:
                yield tensor
