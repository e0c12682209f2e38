"""The elements of what an importer's decompositions add to a graph."""

from __future__ import annotations

import numpy as np

from nnvk import Compilation, get_device, run
from nnvk.importers.budget import Budget
from nnvk.importers.emitter import I32, Emitter
from nnvk.importers.graph_builder import Graph, Value


def emitter() -> Emitter:
    """An emitter of a graph, which has the input that every model has."""
    made = Emitter(Graph(Budget(1 << 20), relaxed=False))
    made.graph.input(I32.with_dimensions((1,)))
    return made


def elements(c: Emitter, *values: Value) -> list[np.ndarray]:
    """The elements of constants, and those that the reference device computes."""
    computed = list({id(value): value for value in values if not value.is_constant}.values())
    found: dict[int, np.ndarray] = {}
    if computed:
        compilation = Compilation(c.graph.finish(computed, ["unread"]), [get_device("nnapi-reference")])
        compilation.finish()
        results = run(compilation, [np.zeros(1, np.int32)])
        found = {id(value): array for value, array in zip(computed, results, strict=True)}
    return [value.array if value.is_constant else found[id(value)].reshape(value.shape) for value in values]
