"""An operator of TFLite that the importer can't map, and the least change of one that it maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tflite_net import Net, T, write
from tflite_oracle import f32

from nnvk.importers.tflite import TfliteImportError, load


@dataclass
class Case:
    """An operator, and the changes by which one that is mapped differs from it."""

    name: str
    inputs: Sequence[T | None]
    reason: str
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    good_inputs: Sequence[T | None] | None = None
    good: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[T] = (T(),)
    good_outputs: Sequence[T] | None = None
    nets: Sequence[Net] = ()
    """The functions that the operator refers to, from subgraph 1 on."""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def load(self, *, mapped: bool) -> None:
        """Import the operator, or the one that is mapped."""
        inputs = self.good_inputs if mapped and self.good_inputs is not None else self.inputs
        outputs = list(self.good_outputs if mapped and self.good_outputs is not None else self.outputs)
        options = {**self.options, **(self.good if mapped else {})}
        free = [tensor for tensor in inputs if tensor is not None and tensor.is_free]
        net = Net(free or [f32(1)], outputs)  # a model has at least one input
        net.op(self.name, inputs, outputs, self.table, **options)
        load(write(net, *self.nets))

    def check(self) -> None:
        """The operator is refused for the reason, and the one beside it is mapped."""
        with pytest.raises(TfliteImportError) as raised:
            self.load(mapped=False)
        assert f"operator 0 ({self.name})" in str(raised.value)
        assert self.reason in str(raised.value)
        self.load(mapped=True)
