"""Models in LiteRT's interpreter, through the delegate: what it took, and what came out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tflite_net import Net, T, write

from nnvk.serve.installed import DELEGATE

litert = pytest.importorskip("ai_edge_litert.interpreter")
VALUES = np.float32([[0.5, 1, 2], [0.1, 0.25, 3]])
"""For `chain`."""
_SUMMARY = re.compile(r"nnvk: (\d+) of (\d+) operators in (\d+) partition")


class Delegated:
    """An interpreter with the delegate, its tensors allocated: with the first input in a `shape`, if there is one."""

    def __init__(self, model: bytes, shape: Sequence[int] | None = None, **options: object) -> None:
        delegate = litert.load_delegate(str(DELEGATE), options)
        kinds = litert.OpResolverType
        self.interpreter = litert.Interpreter(
            model_content=model,
            experimental_delegates=[delegate],
            experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        if shape is None:
            self.interpreter.allocate_tensors()
        else:
            self.resize(shape)

    def resize(self, shape: Sequence[int]) -> None:
        """Give the first input another shape."""
        self.interpreter.resize_tensor_input(self.interpreter.get_input_details()[0]["index"], shape)
        self.interpreter.allocate_tensors()

    def __call__(self, *inputs: Any) -> list[np.ndarray]:
        """Outputs, for inputs by position."""
        return invoke(self.interpreter, inputs)


def plain(model: bytes, shape: Sequence[int] | None = None) -> Any:
    """LiteRT's own interpreter of it, its tensors allocated: with the first input in a `shape`, if there is one."""
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=kind)
    if shape is not None:
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()
    return interpreter


def invoke(interpreter: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of an interpreter, for inputs by position."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def taken(log: str) -> Mapping[str, int]:
    """Return the log's last numbers of operators that were taken, of all operators, and of partitions."""
    numbers = [int(number) for number in _SUMMARY.findall(log)[-1]]
    return dict(zip(("taken", "operators", "partitions"), numbers, strict=True))


def chain(*names: str, shape: tuple[int, ...] = (2, 3), signature: tuple[int, ...] | None = None) -> bytes:
    """Operators, one after the other. FLOAT64 is two casts, to a type that NNAPI does not have and back."""
    source = T("FLOAT32", shape, signature=signature)
    net = Net([source])
    last = source
    for name in names:
        if name == "FLOAT64":
            name, last = "CAST", net.op("CAST", [last], T("FLOAT64", shape, signature=signature))
        last = net.op(name, [last], T("FLOAT32", shape, signature=signature))
    net.outputs.append(last)
    return write(net)
