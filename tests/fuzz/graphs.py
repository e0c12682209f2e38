"""Random graphs for the fuzzer, fed what nobody expects."""

from __future__ import annotations

import numpy as np
from execution import compile_and_run, devices_for
from random_graph import random_graph

from nnvk.api import Device

_FLOATS = (np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, -0.0, 1e-40)


def execute(data: bytes, device: Device) -> str:
    """Build the graph of a seed and compute it on extreme inputs. Says how far that got; raises what is a bug."""
    rng = np.random.default_rng(list(data))
    graph = random_graph(int(rng.integers(2**32)), int(rng.integers(1, 9)))
    inputs = [_extreme(rng, array) if rng.random() < 0.5 else array for array in graph.inputs]
    return compile_and_run(graph.model, devices_for(device), inputs)


def _extreme(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Some elements, or all, replaced by what lies at the ends of the type."""
    kind = array.dtype.kind
    if kind == "b":
        return array
    values = _FLOATS if kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 0, 1)
    with np.errstate(over="ignore"):
        chosen = rng.choice(np.array(values).astype(array.dtype), array.shape)
    return np.where(rng.random(array.shape) < rng.choice([0.1, 1.0]), chosen, array)
