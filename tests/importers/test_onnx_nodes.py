"""The node tests of the onnx package on a Vulkan device: none that runs is wrong, and what is refused is listed."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

import onnx
import onnx_nodes as nodes

PARTS = 160
LEAST = 1300
"""How many pass, at least."""


@pytest.mark.parametrize("part", range(PARTS))
def test_nodes(part: int) -> None:
    version, refused = nodes.listed()
    tests = nodes.node_tests()[part::PARTS]
    found = list(nodes.outcomes(tests, "vulkan-0"))
    assert not {name: why for name, how, why in found if how == "wrong"}
    if onnx.__version__ == version:
        expected = {test.name for test in tests} & refused.keys()
        assert {name: why for name, how, why in found if how == "refused" and name not in expected} == {}
        assert sorted(expected - {name for name, how, _ in found if how == "refused"}) == [], "write the list anew"


def test_enough_pass() -> None:
    version, refused = nodes.listed()
    if onnx.__version__ != version:
        pytest.skip(f"the list is of onnx {version}")
    assert len(nodes.node_tests()) - len(refused) >= LEAST
