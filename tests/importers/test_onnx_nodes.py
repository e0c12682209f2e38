"""The node tests of the onnx package on a Vulkan device: none that runs is wrong, and what is refused is listed."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

import warnings

import numpy as np
import onnx
import onnx_nodes as nodes
from onnx.backend.test.runner import Runner

from nnvk import NnapiError
from nnvk.importers.onnx.backend import NnvkBackend

PARTS = 160
CONSTANT_PARTS = 40
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


@pytest.mark.parametrize("part", range(CONSTANT_PARTS))
def test_nodes_of_constants(part: int) -> None:
    _, refused = nodes.listed()
    amiss = {}
    for test in nodes.node_tests()[part::CONSTANT_PARTS]:
        made = None if test.name in refused else nodes.with_constants(test)
        if made is None:
            continue
        model, expected = made
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                *found, _ = NnvkBackend.prepare(model, "CPU").run([np.ones(1, np.float32)])
            Runner.assert_similar_outputs(expected, found, test.rtol, test.atol)
        except (NnapiError, AssertionError) as error:
            amiss[test.name] = str(error)
    assert not amiss


def test_enough_pass() -> None:
    version, refused = nodes.listed()
    if onnx.__version__ != version:
        pytest.skip(f"the list is of onnx {version}")
    assert len(nodes.node_tests()) - len(refused) >= LEAST
