"""Tensors of different quantisations in one operator of ONNX, against onnxruntime, which computes in real numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import NodeProto
from onnx_net import model, op, subgraph
from onnx_oracle import check, operations

F, U8 = np.float32, np.uint8
SHAPE = (2, 3)
SCALES = {"s1": 0.01, "s2": 0.05, "s3": 0.03}
POINTS = {"z1": 128, "z2": 10, "z3": 100}
CONSTANTS = {
    **{name: np.array(number, F) for name, number in SCALES.items()},
    **{name: np.array(number, U8) for name, number in POINTS.items()},
    "where": np.array([[True, False, True]]),
    "rows": np.array([[0, 1, 2], [2, 1, 0]]),
}
LEVELS = [
    op("QuantizeLinear", "x s1 z1", "qx"),
    op("QuantizeLinear", "y s2 z2", "qy"),
    op("DequantizeLinear", "qx s1 z1", "dx"),
    op("DequantizeLinear", "qy s2 z2", "dy"),
]


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.uniform(-1, 1, SHAPE).astype(F), "y": rng.uniform(-2, 8, SHAPE).astype(F)}


def checked(nodes: Sequence[NodeProto], dtype: type = F) -> list[str]:
    inputs = {name: (F, SHAPE) for name in ("x", "y")}
    net = model([*LEVELS, *nodes], inputs, {"out": dtype}, CONSTANTS)
    return operations(check(net, feeds(), optimised=False))


REAL = {
    "Concat": op("Concat", "dx dy", "r", axis=1),
    "ScatterElements": op("ScatterElements", "dx rows dy", "r", axis=1),
    "Where": op("Where", "where dx dy", "r"),
    **{kind: op(kind, "dx dy", "r") for kind in ("Max", "Min", "Sum", "Mean", "Add", "Sub", "Mul", "Div")},
}
AFTER = {
    "real": ([op("Identity", "r", "out")], F),
    "quantised": ([op("QuantizeLinear", "r s3 z3", "out")], U8),
    "rectified and quantised": ([op("Relu", "r", "p"), op("QuantizeLinear", "p s3 z3", "out")], U8),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", REAL)
def test_real_numbers(kind: str, after: str) -> None:
    nodes, dtype = AFTER[after]
    checked([REAL[kind], *nodes], dtype)


def test_a_quantised_concatenation_stays_one() -> None:
    """The parts are brought to the quantisation of what follows; nothing is joined as real numbers."""
    found = checked([REAL["Concat"], op("QuantizeLinear", "r s3 z3", "out")], U8)
    assert found[-1] == "CONCATENATION"


WHOLE = {
    "Concat": op("Concat", "qx qy", "out", axis=1),
    "ScatterElements": op("ScatterElements", "qx rows qy", "out", axis=1),
    "Where": op("Where", "where qx qy", "out"),
    "Max": op("Max", "qx qy", "out"),
    "Min": op("Min", "qx qy", "out"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_levels_themselves(kind: str) -> None:
    """As integers, levels have no scale."""
    checked([WHOLE[kind]], U8)


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition: bool) -> None:
    branches = [
        subgraph([op("QuantizeLinear", f"x s{one} z{one}", f"o{one}")], [f"o{one}"], types={f"o{one}": (U8, SHAPE)})
        for one in (1, 2)
    ]
    node = op("If", "c", "out", then_branch=branches[0], else_branch=branches[1])
    net = model([node], {"c": (np.bool_, ()), "x": (F, SHAPE)}, {"out": U8}, CONSTANTS)
    check(net, {"c": np.array(condition), "x": feeds()["x"]})


def test_relu_of_levels() -> None:
    """0 of an INT8 is no zero point."""
    constants = {"s": np.array(0.01, F), "z": np.array(20, np.int8)}
    nodes = [op("QuantizeLinear", "x s z", "q"), op("Relu", "q", "out")]
    check(model(nodes, {"x": (F, SHAPE)}, {"out": np.int8}, constants), {"x": feeds()["x"]})
