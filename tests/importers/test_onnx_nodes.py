"""The node tests of the onnx package: none that runs is wrong, and what is refused is listed.

All run on both devices. With ``--in-turn``, the first of each operator and every third one behind it run on the Vulkan
device, and the others on the reference.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

pytest.importorskip("onnx")

import warnings

import numpy as np
import onnx
import onnx_nodes as nodes
from in_turn import devices
from onnx.backend.test.runner import Runner

from nnvk import NnapiError

PARTS = 40
LEAST = 1180
"""How many pass, at least."""


@cache
def by_device() -> dict[str, list[Any]]:
    """The tests of each device."""
    found: dict[str, list[Any]] = defaultdict(list)
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for test in nodes.node_tests():
        operators = tuple(sorted({node.op_type for node in test.model.graph.node}))
        for device in devices(counts[operators]):
            found[device].append(test)
        counts[operators] += 1
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_nodes(part: int) -> None:
    version, refused = nodes.listed()
    for device, every in by_device().items():
        tests = every[part::PARTS]
        found = list(nodes.outcomes(tests, device))
        assert not {name: why for name, how, why in found if how == "wrong"}, device
        if onnx.__version__ == version:
            expected = {test.name for test in tests} & refused.keys()
            assert {name: why for name, how, why in found if how == "refused" and name not in expected} == {}, device
            assert sorted(expected - {name for name, how, _ in found if how == "refused"}) == [], "write the list anew"


@pytest.mark.parametrize("part", range(PARTS))
def test_nodes_of_constants(part: int) -> None:
    _, refused = nodes.listed()
    amiss = {}
    for test in nodes.node_tests()[part::PARTS]:
        made = None if test.name in refused else nodes.with_constants(test)
        if made is None:
            continue
        model, expected = made
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                *found, _ = nodes.backend(devices(part)[0]).prepare(model).run([np.ones(1, np.float32)])
            Runner.assert_similar_outputs(expected, found, test.rtol, test.atol)
        except (NnapiError, AssertionError) as error:
            amiss[test.name] = str(error)
    assert not amiss


def test_enough_pass() -> None:
    version, refused = nodes.listed()
    if onnx.__version__ != version:
        pytest.skip(f"the list is of onnx {version}")
    assert len(nodes.node_tests()) - len(refused) >= LEAST
