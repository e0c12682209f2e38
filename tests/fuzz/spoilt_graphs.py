"""Random graphs for the fuzzer, fed what nobody expects."""

from __future__ import annotations

import numpy as np
from builder import Builder
from execution import compile_and_run, devices_for
from random_graph import random_graph

from nnvk.api import Device, Model, OperandCode, OperandType, OperationCode

_MOST_LEVELS = 30
_FLOATS = (np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, -0.0, 1e-40)


def execute(data: bytes, device: Device) -> str:
    """Build the graph of a seed and compute it on extreme inputs. Says how far that got; raises what is a bug."""
    rng = np.random.default_rng(list(data))
    graph = random_graph(int(rng.integers(2**32)), int(rng.integers(1, 9)))
    inputs = [_extreme(rng, array) if rng.random() < 0.5 else array for array in graph.inputs]
    model = graph.model
    if rng.random() < 0.5:
        model = _nested(model, int(rng.integers(1, _MOST_LEVELS)))
        inputs.insert(0, np.array([rng.random() < 0.5]))
    return compile_and_run(model, devices_for(device), inputs)


def _nested(model: Model, levels: int) -> Model:
    """The model within an IF within an IF, and so on, both of whose branches are the next model: 2^levels paths."""
    types = [OperandType(OperandCode.TENSOR_BOOL8, (1,)), *model.frozen.input_types()]
    for level in range(levels):
        outer = Builder()
        inputs = [outer.operand(type_) for type_ in types]
        branches = [outer.reference(model) for _ in range(2)]
        arguments = [inputs[0], *branches, *inputs[level == 0 :]]
        outputs = outer.outputs(OperationCode.IF, arguments, *model.frozen.output_types())
        model = outer.finish(inputs, outputs)
    return model


def _extreme(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Some elements, or all, replaced by what lies at the ends of the type."""
    kind = array.dtype.kind
    if kind == "b":
        return array
    values = _FLOATS if kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 0, 1)
    with np.errstate(over="ignore"):
        chosen = rng.choice(np.array(values).astype(array.dtype), array.shape)
    return np.where(rng.random(array.shape) < rng.choice([0.1, 1.0]), chosen, array)
