"""Decision trees of ai.onnx.ml as the tables of TREE_ENSEMBLE: nodes in an order in which children follow parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.ops.extension.tree_ensemble import Comparison

_MODES = {
    "BRANCH_LEQ": Comparison.LESS_EQUAL,
    "BRANCH_LT": Comparison.LESS,
    "BRANCH_GTE": Comparison.GREATER_EQUAL,
    "BRANCH_GT": Comparison.GREATER,
    "BRANCH_EQ": Comparison.EQUAL,
    "BRANCH_NEQ": Comparison.NOT_EQUAL,
}
_LEAF = "LEAF"
_MEMBER = len(Comparison)
"""The mode of a node of TreeEnsemble that compares with a set."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """The operands of TREE_ENSEMBLE after its input: see `nnvk.ops.extension.tree_ensemble`."""

    nodes: np.ndarray
    thresholds: np.ndarray
    roots: np.ndarray
    leaves: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    @property
    def feature_count(self) -> int:
        """The number of features that a row must have at least."""
        return int(self.nodes[:, 0].max()) + 1

    def has_always(self, target: int) -> bool:
        """Whether every row has a weight of a target, because all leaves of some tree have one."""
        owners = np.repeat(np.arange(len(self.leaves) - 1), np.diff(self.leaves))
        has = np.zeros(len(self.leaves) - 1, np.bool_)
        has[owners[self.targets == target]] = True
        below = np.zeros(len(self.nodes), np.bool_)

        def is_there(child: np.ndarray) -> np.ndarray:
            leaf, node = np.minimum(-1 - child, len(has) - 1), np.maximum(child, 0)
            found: np.ndarray = np.where(child < 0, has[leaf], below[node])
            return found

        for index in range(len(self.nodes) - 1, -1, -1):
            below[index] = is_there(self.nodes[index, 2:4]).all()
        return bool(is_there(self.roots).any())


def _numbers(c: Context, name: str, count: int | None = None, default: int | None = None) -> np.ndarray:
    given = c.node.integers(name)
    if not given and default is not None and count is not None:
        return np.full(count, default, np.int64)
    found = np.array(given or [], np.int64)
    if count is not None and found.size != count:
        raise Unmapped(f"attribute '{name}' must have {count} numbers, got {found.size}")
    return found


def reals(c: Context, name: str) -> np.ndarray | None:
    """Real numbers that are FLOATS, or a tensor of another attribute's name for numbers of 64 bits."""
    given = c.node.reals(name)
    if given is not None:
        return np.array(given, np.float32)
    found = c.node.array(f"{name}_as_tensor")
    return None if found is None else found.reshape(-1).astype(np.float32)


def _required(c: Context, name: str, count: int) -> np.ndarray:
    found = reals(c, name)
    if found is None or found.size != count:
        raise Unmapped(f"attribute '{name}' must have {count} numbers, got {0 if found is None else found.size}")
    return found


def _places(keys: np.ndarray, wanted: np.ndarray, what: str) -> np.ndarray:
    """The positions of keys among ascending ones."""
    places = np.searchsorted(keys, wanted)
    if wanted.size and (places.max() >= keys.size or not np.array_equal(keys[places], wanted)):
        raise Unmapped(f"{what} are of nodes that there are not")
    return places


def by_node_ids(c: Context, prefix: str) -> Forest:
    """The trees of TreeEnsembleRegressor (``prefix`` "target") and TreeEnsembleClassifier ("class")."""
    trees = _numbers(c, "nodes_treeids")
    count = trees.size
    modes = np.array(c.node.texts("nodes_modes") or [])
    if not count or modes.size != count:
        raise Unmapped(f"there must be as many modes as nodes, got {modes.size} and {count}")
    unknown = set(modes) - {*_MODES, _LEAF}
    if unknown:
        raise Unmapped(f"nodes have the unknown mode '{min(unknown)}'")
    ids = _numbers(c, "nodes_nodeids", count)
    owners = _numbers(c, f"{prefix}_treeids")
    holders = _numbers(c, f"{prefix}_nodeids", owners.size)
    span = int(max(ids.max(), holders.max(initial=0))) + 1
    if min(trees.min(), ids.min(), owners.min(initial=0), holders.min(initial=0)) < 0 or span > 1 << 31:
        raise Unmapped("identifiers of trees and nodes must not be negative, or beyond 31 bits")
    keys = trees * span + ids
    order = np.argsort(keys, kind="stable")
    if np.any(np.diff(keys[order]) == 0):
        raise Unmapped("two nodes of a tree have one identifier")
    is_leaf = modes == _LEAF
    leaf_numbers = np.cumsum(is_leaf) - 1

    def children(name: str) -> np.ndarray:
        found = np.zeros(count, np.int64)
        wanted = trees[~is_leaf] * span + _numbers(c, name, count)[~is_leaf]
        found[~is_leaf] = order[_places(keys[order], wanted, f"'{name}'")]
        return np.where(is_leaf[found], -1 - leaf_numbers[found], found)

    fields = np.stack(
        [
            _numbers(c, "nodes_featureids", count),
            np.array([0 if mode == _LEAF else _MODES[mode] for mode in modes.tolist()], np.int64),
            children("nodes_truenodeids"),
            children("nodes_falsenodeids"),
            _numbers(c, "nodes_missing_value_tracks_true", count, 0),
        ],
        axis=1,
    )
    _, firsts = np.unique(trees, return_index=True)
    roots = np.where(is_leaf[firsts], -1 - leaf_numbers[firsts], firsts)
    held = order[_places(keys[order], owners * span + holders, f"'{prefix}_nodeids'")]
    if not is_leaf[held].all():
        raise Unmapped("nodes that are no leaves have weights")
    weights = _required(c, f"{prefix}_weights", owners.size)
    return _ordered(
        c,
        fields,
        _required(c, "nodes_values", count),
        roots,
        (int(is_leaf.sum()), leaf_numbers[held], _numbers(c, f"{prefix}_ids", owners.size), weights),
    )


def by_positions(c: Context) -> Forest:
    """The trees of TreeEnsemble, whose children are positions of nodes or of leaves."""
    features = _numbers(c, "nodes_featureids")
    count = features.size
    modes, thresholds = c.node.array("nodes_modes"), c.node.array("nodes_splits")
    weights, sets = c.node.array("leaf_weights"), c.node.array("membership_values")
    if modes is None or thresholds is None or weights is None or not modes.size == thresholds.size == count > 0:
        raise Unmapped(f"there must be a mode and a split of each of {count} nodes, and weights of leaves")
    modes = modes.reshape(-1).astype(np.int64)
    if modes.max() > _MEMBER:
        raise Unmapped(f"nodes have the unknown mode {modes.max()}")

    def children(side: str) -> np.ndarray:
        place = _numbers(c, f"nodes_{side}nodeids", count)
        is_leaf = _numbers(c, f"nodes_{side}leafs", count) != 0
        if place.min() < 0 or np.any(place >= np.where(is_leaf, weights.size, count)):
            raise Unmapped(f"'nodes_{side}nodeids' are of nodes or leaves that there are not")
        return np.where(is_leaf, -1 - place, place)

    missing = _numbers(c, "nodes_missing_value_tracks_true", count, 0)
    fields = np.stack([features, modes, children("true"), children("false"), missing], axis=1)
    roots = _numbers(c, "tree_roots")
    if not roots.size or roots.min() < 0 or roots.max() >= count:
        raise Unmapped(f"roots must be among {count} nodes, got {roots.tolist()[:8]}")
    thresholds = thresholds.reshape(-1).astype(np.float32)
    if np.any(modes == _MEMBER):
        fields, thresholds = _without_sets(fields, thresholds, sets)
    ids = _numbers(c, "leaf_targetids", weights.size)
    held = (weights.size, np.arange(weights.size), ids, weights.reshape(-1).astype(np.float32))
    return _ordered(c, fields, thresholds, roots, held)


def _without_sets(fields: np.ndarray, thresholds: np.ndarray, sets: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes that compare with a set as chains of nodes that compare with one number each."""
    rest = [] if sets is None else sets.reshape(-1).astype(np.float32).tolist()
    nodes, splits = fields.tolist(), thresholds.tolist()
    begin = 0
    for place in np.flatnonzero(fields[:, 1] == _MEMBER).tolist():
        end = next((at for at in range(begin, len(rest)) if rest[at] != rest[at]), -1)
        if end <= begin:
            raise Unmapped("each node of mode BRANCH_MEMBER must have numbers in 'membership_values', which NaN ends")
        feature, _, true, false, missing = nodes[place]
        link = place
        for number in rest[begin:end]:
            nodes[link] = [feature, int(Comparison.EQUAL), true, len(nodes), missing]
            splits[link] = number
            link = len(nodes)
            nodes.append([])
            splits.append(0.0)
        nodes.pop()
        splits.pop()
        last = place if end - begin == 1 else len(nodes) - 1
        nodes[last][3] = false
        begin = end + 1
    return np.array(nodes, np.int64), np.array(splits, np.float32)


def _ordered(
    c: Context,
    fields: np.ndarray,
    thresholds: np.ndarray,
    roots: np.ndarray,
    held: tuple[int, np.ndarray, np.ndarray, np.ndarray],
) -> Forest:
    """Nodes by their depth, without those that no root leads to; weights by leaf."""
    count = len(fields)
    depths = np.full(count, -1, np.int64)
    frontier = np.unique(roots[roots >= 0])
    for depth in range(count + 1):
        if not frontier.size:
            break
        c.graph.budget.work(frontier.size)
        depths[frontier] = depth
        children = fields[frontier, 2:4]
        frontier = np.unique(children[children >= 0])
    else:
        raise Unmapped("its trees have a cycle")
    order = np.argsort(depths, kind="stable")[np.count_nonzero(depths < 0) :]
    places = np.zeros(count, np.int64)
    places[order] = np.arange(order.size)
    nodes = fields[order] if order.size else np.array([[0, 0, -1, -1, 0]], np.int64)
    nodes[nodes[:, 1] == Comparison.NOT_EQUAL, 4] = 1  # NaN is not equal to anything
    if nodes[:, 0].min() < 0:
        raise Unmapped(f"features must not be negative, got {nodes[:, 0].min()}")
    nodes[:, 2:4] = _moved(nodes[:, 2:4], places)
    splits = thresholds[order] if order.size else np.zeros(1, np.float32)
    leaf_count, owners, targets, weights = held
    by_leaf = np.argsort(owners, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=leaf_count))])
    if not targets.size:
        raise Unmapped("its leaves have no weights")
    return Forest(nodes, splits, _moved(roots, places), begins, targets[by_leaf], weights[by_leaf])


def _moved(children: np.ndarray, places: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(children < 0, children, places[np.maximum(children, 0)])
    return found


def words(names: Sequence[str], given: str, attribute: str) -> str:
    """An attribute that must be one of some words."""
    if given not in names:
        raise Unmapped(f"attribute '{attribute}' must be among {', '.join(names)}, got '{given}'")
    return given
