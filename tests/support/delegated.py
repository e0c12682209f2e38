"""Models in LiteRT's interpreter, through the delegate: what it took, and what came out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from nnvk.serve.installed import DELEGATE

litert = pytest.importorskip("ai_edge_litert.interpreter")
_SUMMARY = re.compile(r"nnvk: (\d+) of (\d+) operators in (\d+) partition")


class Delegated:
    """An interpreter with the delegate, its tensors allocated."""

    def __init__(self, model: bytes, **options: object) -> None:
        delegate = litert.load_delegate(str(DELEGATE), options)
        kinds = litert.OpResolverType
        self.interpreter = litert.Interpreter(
            model_content=model,
            experimental_delegates=[delegate],
            experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self.interpreter.allocate_tensors()

    def __call__(self, *inputs: Any) -> list[np.ndarray]:
        """Outputs, for inputs by position."""
        return invoke(self.interpreter, inputs)


def plain(model: bytes) -> Any:
    """LiteRT's own interpreter of it, its tensors allocated."""
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    return interpreter


def invoke(interpreter: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of an interpreter, for inputs by position."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def taken(log: str) -> Mapping[str, int]:
    """What the log says of the last model: operators that were taken, all of them, partitions."""
    numbers = [int(number) for number in _SUMMARY.findall(log)[-1]]
    return dict(zip(("taken", "operators", "partitions"), numbers, strict=True))
