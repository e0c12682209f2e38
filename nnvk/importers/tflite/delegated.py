"""The operators of an interpreter that a delegate has taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def operators_of(interpreter: Any) -> list[dict[str, Any]]:
    """The operators of an interpreter. Its own list of them has the tensors' names, and fails if one is not UTF-8."""
    own = interpreter._interpreter
    parts = {"op_name": own.NodeName, "inputs": own.NodeInputs, "outputs": own.NodeOutputs}
    return [{"index": index} | {name: of(index) for name, of in parts.items()} for index in range(own.NumNodes())]


def is_delegate(operator: Mapping[str, Any]) -> bool:
    """Whether an operator stands for a partition of a delegate."""
    return bool(operator["op_name"] == "DELEGATE")


def taken_by_delegates(operators: Sequence[Mapping[str, Any]]) -> set[int]:
    """The indexes of the operators that delegates have taken.

    The list has the operators of the file, also those that a delegate has taken, and an operator for each partition of
    the delegate. The taken ones lie between the inputs and the outputs of that one.
    """
    writers = {int(output): one for one in operators if not is_delegate(one) for output in one["outputs"]}
    taken: set[int] = set()
    for partition in filter(is_delegate, operators):
        edges = {int(tensor) for tensor in partition["inputs"]}
        pending = [int(tensor) for tensor in partition["outputs"]]
        while pending:
            writer = writers.get(pending.pop())
            if writer is not None and writer["index"] not in taken:
                taken.add(writer["index"])
                pending += [int(tensor) for tensor in writer["inputs"] if int(tensor) not in edges]
    return taken
