"""TREE_ENSEMBLE: decision trees, of which each adds the weights of one leaf to the results of a row."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F32, I32, Signature, i32, one_of, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

NODE_FIELDS = 5
"""The numbers of a node: feature, comparison, child where it holds, child where it does not, and its result for NaN.

A child that is not negative is a node behind its parent; a negative one is the leaf ``-1 - child``.
"""


class Comparison(IntEnum):
    """The comparison of a feature with the node's threshold."""

    LESS_EQUAL = 0
    LESS = 1
    GREATER_EQUAL = 2
    GREATER = 3
    EQUAL = 4
    NOT_EQUAL = 5


class Aggregate(IntEnum):
    """The combination of the weights that several trees have for one target. A target without weights is 0."""

    SUM = 0
    MIN = 1
    MAX = 2


_FUNCTIONS = {
    Comparison.LESS_EQUAL: np.less_equal,
    Comparison.LESS: np.less,
    Comparison.GREATER_EQUAL: np.greater_equal,
    Comparison.GREATER: np.greater,
    Comparison.EQUAL: np.equal,
    Comparison.NOT_EQUAL: np.not_equal,
}


def _infer(call: Call) -> list[Shape]:
    count, fields = call.nodes.shape
    if fields != NODE_FIELDS or call.thresholds.shape != (count,):
        raise bad_data(
            f"nodes must have shape [n, {NODE_FIELDS}] and thresholds [n], got {list(call.nodes.shape)} and "
            f"{list(call.thresholds.shape)}"
        )
    if call.targets.shape != call.weights.shape:
        raise bad_data(f"targets and weights must have one shape, got {call.targets.shape} and {call.weights.shape}")
    if call.target_count < 1:
        raise bad_data(f"target_count must be at least 1, got {call.target_count}")
    if call.aggregate not in list(Aggregate):
        raise bad_data(f"aggregate must be 0 to {max(Aggregate)}, got {call.aggregate}")
    _check_trees(call, count)
    return [(call.input.shape[0], call.target_count)]


def _within(tensor: Tensor, array: np.ndarray, low: int, high: int, what: str) -> None:
    outside = array[(array < low) | (array >= high)]
    if outside.size:
        raise bad_data(f"{tensor.name} must have {what} in [{low}, {high}), got {outside[0]}")


def _check_trees(call: Call, count: int) -> None:
    """Every index must be of something, and children must lie behind their parents, so that every path ends."""
    nodes, leaves = call.nodes.data, call.leaves.data
    most = leaves.size - 1
    _within(call.nodes, nodes[:, 0], 0, call.input.shape[1], "features")
    _within(call.nodes, nodes[:, 1], 0, len(Comparison), "comparisons")
    _within(call.nodes, nodes[:, 2:4], -most, count, "children")
    _within(call.roots, call.roots.data, -most, count, "roots")
    early = (nodes[:, 2:4] >= 0) & (nodes[:, 2:4] <= np.arange(count)[:, np.newaxis])
    if early.any():
        raise bad_data(
            f"nodes must have children behind their parents, got node {np.flatnonzero(early.any(axis=1))[0]}"
        )
    _within(call.leaves, leaves, 0, call.targets.size + 1, "places of weights")
    if np.any(np.diff(leaves) < 0):
        raise bad_data("leaves must have places of weights that ascend")
    _within(call.targets, call.targets.data, 0, call.target_count, "targets")


def depth_of(call: Call) -> int:
    """The most nodes on a path from a root to a leaf."""
    depth, frontier = 0, np.unique(call.roots.data[call.roots.data >= 0])
    while frontier.size:
        depth += 1
        children = call.nodes.data[frontier, 2:4]
        frontier = np.unique(children[children >= 0])
    return depth


def _leaves_of(call: Call) -> np.ndarray:
    """The leaf of each row in each tree: [rows, trees]."""
    x, nodes, thresholds = call.input.data, call.nodes.data, call.thresholds.data
    at = np.repeat(call.roots.data[np.newaxis], len(x), axis=0)
    while (inner := np.nonzero(at >= 0))[0].size:
        node = nodes[at[inner]]
        value, threshold = x[inner[0], node[:, 0]], thresholds[at[inner]]
        holds = np.zeros(len(node), np.bool_)
        for comparison, function in _FUNCTIONS.items():
            chosen = node[:, 1] == comparison
            holds[chosen] = function(value[chosen], threshold[chosen])
        holds = np.where(np.isnan(value), node[:, 4] != 0, holds)
        at[inner] = np.where(holds, node[:, 2], node[:, 3])
    found: np.ndarray = -1 - at
    return found


def _tree_ensemble(call: Call) -> np.ndarray:
    """Add weights up tree by tree, so that sums are rounded as on a device."""
    begins, targets, weights = call.leaves.data, call.targets.data, call.weights.data
    found = _leaves_of(call)
    result = np.zeros(call.output.shape, np.float32)
    has = np.zeros(call.output.shape, np.bool_)
    for leaves in found.T:
        places, ends = begins[leaves], begins[leaves + 1]
        while (rows := np.flatnonzero(places < ends)).size:
            place = places[rows]
            target, weight = targets[place], weights[place]
            before = result[rows, target]
            if call.aggregate == Aggregate.SUM:
                with np.errstate(all="ignore"):
                    weight = before + weight
            else:
                smaller = weight < before if call.aggregate == Aggregate.MIN else weight > before
                weight = np.where(smaller | ~has[rows, target], weight, before)
            result[rows, target] = weight
            has[rows, target] = True
            places[rows] += 1
    return result


define(
    ExtendedOperationCode.TREE_ENSEMBLE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(
        tensor("input", rank=2),
        tensor("nodes", one_of(I32), rank=2),
        tensor("thresholds", rank=1),
        tensor("roots", one_of(I32), rank=1),
        tensor("leaves", one_of(I32), rank=1),
        tensor("targets", one_of(I32), rank=1),
        tensor("weights", rank=1),
        i32("target_count"),
        i32("aggregate", int(Aggregate.SUM)),
    ),
    infer=_infer,
    reference=_tree_ensemble,
)
