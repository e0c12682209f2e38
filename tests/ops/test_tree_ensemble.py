"""TREE_ENSEMBLE against plain loops, and the trees that it refuses."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError
from nnvk.ops.extension.tree_ensemble import Aggregate
from nnvk.types.extension import ExtendedOperationCode

TREE_ENSEMBLE = ExtendedOperationCode.TREE_ENSEMBLE
COMPARED = [
    lambda x, y: x <= y,
    lambda x, y: x < y,
    lambda x, y: x >= y,
    lambda x, y: x > y,
    lambda x, y: x == y,
    lambda x, y: x != y,
]
NODES = np.array(
    [[0, 0, 1, 2, 0], [1, 3, -1, 3, 1], [2, 4, -2, 3, 0], [1, 1, -3, -4, 1], [2, 2, 5, -5, 0], [0, 5, -1, -4, 1]],
    np.int32,
)
THRESHOLDS = np.array([0.5, 1, 2, -1, 0, 1], np.float32)
ROOTS = np.array([0, 4, -2], np.int32)
LEAVES = np.array([0, 1, 3, 3, 4, 6], np.int32)
TARGETS = np.array([1, 0, 1, 0, 1, 1], np.int32)
WEIGHTS = np.array([0.5, -1, 2, 3, 0.25, -4], np.float32)


def looped(x, aggregate):
    result = np.zeros((len(x), 3), np.float32)
    for row, total in zip(x, result, strict=True):
        given = [[], [], []]
        for place in ROOTS.tolist():
            while place >= 0:
                feature, comparison, true, false, missing = NODES[place].tolist()
                value = row[feature]
                holds = missing if np.isnan(value) else COMPARED[comparison](value, THRESHOLDS[place])
                place = true if holds else false
            for at in range(*LEAVES[-1 - place : 1 - place if place < -1 else None][:2].tolist()):
                given[TARGETS[at]].append(WEIGHTS[at])
        for target, weights in enumerate(given):
            if weights:
                total[target] = {"SUM": sum, "MIN": min, "MAX": max}[aggregate.name](weights)
    return result


@pytest.mark.parametrize("aggregate", list(Aggregate))
def test_like_loops(ops, aggregate):
    x = np.random.default_rng(1).integers(-2, 4, (200, 3)).astype(np.float32)
    x[::7, 1] = np.nan
    x[::5, 0] = np.inf
    (result,) = ops.run(TREE_ENSEMBLE, x, NODES, THRESHOLDS, ROOTS, LEAVES, TARGETS, WEIGHTS, 3, int(aggregate))
    assert np.array_equal(result, looped(x, aggregate))


@pytest.mark.parametrize(
    ("operand", "place", "number", "said"),
    [
        (0, (1, 0), 3, "nodes must have features in .0, 3., got 3"),
        (0, (1, 1), 6, "nodes must have comparisons in .0, 6., got 6"),
        (0, (1, 2), -6, "nodes must have children in .-5, 6., got -6"),
        (0, (1, 2), 1, "children behind their parents, got node 1"),
        (2, 0, 6, "roots must have roots in .-5, 6., got 6"),
        (3, 5, 7, "leaves must have places of weights in .0, 7., got 7"),
        (3, 1, 5, "leaves must have places of weights that ascend"),
        (4, 0, 3, "targets must have targets in .0, 3., got 3"),
    ],
)
def test_wrong_trees(ops, operand, place, number, said):
    tables = [NODES.copy(), THRESHOLDS, ROOTS.copy(), LEAVES.copy(), TARGETS.copy(), WEIGHTS]
    tables[operand][place] = number
    with pytest.raises(NnapiError, match=said):
        ops.run(TREE_ENSEMBLE, np.zeros((2, 3), np.float32), *tables, 3)


@pytest.mark.parametrize(("count", "aggregate", "said"), [(0, 0, "target_count"), (3, 3, "aggregate must be 0 to 2")])
def test_wrong_numbers(ops, count, aggregate, said):
    tables = (NODES, THRESHOLDS, ROOTS, LEAVES, TARGETS, WEIGHTS)
    with pytest.raises(NnapiError, match=said):
        ops.run(TREE_ENSEMBLE, np.zeros((2, 3), np.float32), *tables, count, aggregate)
