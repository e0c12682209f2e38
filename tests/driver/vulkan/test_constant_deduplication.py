"""Equal constants are one."""

from __future__ import annotations

import numpy as np
import pytest
from builder import Builder

from nnvk.driver.vulkan.graph.builder import build as graph_of
from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes.constants import deduplicate_constants
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

F32, U8 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_QUANT8_ASYMM


def adding(*constants: tuple[OperandType, np.ndarray]) -> Graph:
    """The graph of a model that adds constants, one after the other, to its input."""
    build = Builder()
    given = total = build.operand(constants[0][0])
    for type_, value in constants:
        total = build.operation(OperationCode.ADD, [total, build.constant(type_, value)], type_.with_dimensions(()))
    model = build.finish([given], [total]).frozen
    graph, _ = graph_of(model, [type_.dimensions for type_ in model.input_types()], {}, lambda _: None)
    return graph


def deduplicated(graph: Graph) -> Graph:
    """The graph after the pass, which asks nothing of its surroundings."""
    after, count = deduplicate_constants(graph, None)  # type: ignore[arg-type]
    assert (count == 0) == (after is graph)
    return after


def taken(graph: Graph) -> list[int]:
    """The indices of the constants that the operations read."""
    return [node.inputs[1].index for node in graph.nodes]


def floats(*numbers: float) -> tuple[OperandType, np.ndarray]:
    return OperandType(F32, (len(numbers),)), np.array(numbers, np.float32)


def test_the_first_stands_for_those_that_are_alike() -> None:
    long = np.arange(99, dtype=np.float32)
    other = long.copy()
    other[-1] = 0
    many = OperandType(F32, long.shape)
    graph = deduplicated(adding((many, long), (many, other), (many, long.copy()), (many, other.copy())))
    first, second, third, fourth = taken(graph)
    assert (third, fourth) == (first, second)
    assert first != second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (floats(0.0), floats(-0.0)),
        (floats(1.0, 2.0), floats(2.0, 1.0)),
        ((OperandType(U8, (2,), 0.5, 3), np.ones(2, np.uint8)), (OperandType(U8, (2,), 0.5, 4), np.ones(2, np.uint8))),
        ((OperandType(F32, (1, 2)), np.ones((1, 2), np.float32)), floats(1.0, 1.0)),
    ],
    ids=["zeros", "order", "zero points", "shapes"],
)
def test_what_differs_stays(one: tuple[OperandType, np.ndarray], other: tuple[OperandType, np.ndarray]) -> None:
    graph = adding(one, other)
    assert deduplicated(graph) is graph


def test_bits_count_not_numbers() -> None:
    """NaNs are alike where their bits are."""
    first, second = taken(deduplicated(adding(floats(np.nan), floats(np.nan))))
    assert first == second
