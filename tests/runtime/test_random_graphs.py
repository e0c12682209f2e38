"""Random models, whole and cut in pieces: the results are the same to the bit.

A test's name has the seed of its model: ``random_graph(seed)`` makes it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from decorators import Refusing
from random_graph import random_graph
from samples import compiled

import nnvk
from nnvk.driver.cpu import CpuDevice
from nnvk.driver.cpu.executor import run
from nnvk.ops import registry
from nnvk.ops.check import validate_model
from nnvk.ops.flow import Clock
from nnvk.runtime.partitioner import partition_model
from nnvk.types.extract import extract
from nnvk.types.model import Model

SEEDS = range(95)

seeds = pytest.mark.parametrize("seed", SEEDS)


def assert_same(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Bit for bit, NaN as well."""
    for result, want in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(result, want)


def run_pieces(model: Model, pieces: Sequence[Sequence[int]], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run parts of a model, in this order, each as a model of its own."""
    values = dict(zip(model.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        for piece in pieces:
            part = extract(model, piece)
            validate_model(part.model)
            results = run(part.model, [values[index] for index in part.inputs], Clock(None, 2 * 10**9))
            values.update(zip(part.outputs, results, strict=True))
    return [values[index] for index in model.outputs]


@seeds
def test_whole(seed: int) -> None:
    """The model gives what its operations have given one by one."""
    graph = random_graph(seed)
    assert_same(nnvk.run(compiled(graph.model, nnvk.Device(CpuDevice())), graph.inputs), graph.outputs)


@seeds
def test_cut_in_stretches(seed: int) -> None:
    """Into runs of operations that follow each other."""
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    count = len(graph.frozen.operations)
    ends = sorted({*rng.integers(1, count + 1, 4).tolist(), count})
    starts = [0, *ends[:-1]]
    pieces = [range(start, end) for start, end in zip(starts, ends, strict=True)]
    assert_same(run_pieces(graph.frozen, pieces, graph.inputs), graph.outputs)


@seeds
def test_cut_between_devices(seed: int) -> None:
    """As the runtime cuts for three devices, each of which has any operations."""
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    cuts = partition_model(graph.frozen, rng.integers(0, 3, len(graph.frozen.operations)).tolist())
    assert_same(run_pieces(graph.frozen, [cut.operations for cut in cuts], graph.inputs), graph.outputs)


@seeds
def test_each_operation_by_itself(seed: int) -> None:
    graph = random_graph(seed)
    pieces = [[number] for number in range(len(graph.frozen.operations))]
    assert_same(run_pieces(graph.frozen, pieces, graph.inputs), graph.outputs)


@seeds
def test_two_devices_of_which_one_refuses(seed: int) -> None:
    graph = random_graph(seed)
    devices = [nnvk.Device(Refusing(CpuDevice(), seed)), nnvk.Device(CpuDevice())]
    assert_same(nnvk.run(compiled(graph.model, *devices), graph.inputs), graph.outputs)


def test_every_operation_is_in_some_graph() -> None:
    found = {operation.code for seed in SEEDS for operation in random_graph(seed).frozen.operations}
    assert found == set(registry.definitions())


def test_graphs_are_connected() -> None:
    """Most operations read what others have written."""
    reading = total = 0
    for seed in SEEDS:
        model = random_graph(seed).frozen
        written = {index for operation in model.operations for index in operation.outputs}
        total += len(model.operations)
        reading += sum(not written.isdisjoint(operation.inputs) for operation in model.operations)
    assert reading > total * 0.5
