"""The record of a dynamic extent; `nnvk.importers.dynamic_extents` is what computes with it."""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.importers.graph import Value


@dataclass(frozen=True, slots=True, eq=False)
class DynamicExtent:
    """How many elements along an axis are valid."""

    axis: int
    count: Value
    """INT32 [1]."""

    def on(self, axis: int) -> DynamicExtent:
        """The same number of elements along another axis."""
        return DynamicExtent(axis, self.count)


Counted = DynamicExtent
"""The name by which `nnvk.importers.onnx.tensors` has it."""
