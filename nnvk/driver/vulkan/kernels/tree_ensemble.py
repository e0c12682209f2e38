"""TREE_ENSEMBLE: follow all trees of all rows side by side, then add up the weights of the leaves."""

from __future__ import annotations

import numpy as np

from nnvk.driver.vulkan.lowering.kernel import kernel
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.ops.call import Call
from nnvk.ops.extension.tree_ensemble import Aggregate, depth_of
from nnvk.types.extension import ExtendedOperationCode

TREE_ENSEMBLE = Shader("tree_ensemble", PASS=("leaves", "sum", "min", "max"))
LOCAL = 64
_PASSES = {Aggregate.SUM: "sum", Aggregate.MIN: "min", Aggregate.MAX: "max"}


def refuse(call: Call) -> str | None:
    """The reason why an invocation would loop for too long, or None."""
    trees, depth = call.roots.size, depth_of(call)
    weights = int(np.diff(call.leaves.data).max(initial=0))
    for count, what in ((trees, "trees"), (depth, "nodes on a path"), (weights, "weights of a leaf")):
        if count > MOST_ROUNDS:
            return f"there are {count} {what}, the shader takes at most {MOST_ROUNDS}"
    return None


@kernel(ExtendedOperationCode.TREE_ENSEMBLE, shaders=(TREE_ENSEMBLE,), refuse=refuse)
def lower(call: Call, g: Lowering) -> None:
    """Lower TREE_ENSEMBLE to two dispatches."""
    rows, features = call.input.shape
    trees = call.roots.size
    found = g.scratch(4 * rows * trees)
    spec = {"local_x": LOCAL}
    g.dispatch(
        TREE_ENSEMBLE.variant(PASS="leaves"),
        groups=g.flat(rows * trees, LOCAL),
        spec=spec,
        tensors={
            "src": g.tensor(call.input),
            "nodes": g.tensor(call.nodes),
            "thresholds": g.tensor(call.thresholds),
            "roots": g.tensor(call.roots),
            "found": found,
        },
        count=rows * trees,
        trees=trees,
        features=features,
    )
    g.dispatch(
        TREE_ENSEMBLE.variant(PASS=_PASSES[Aggregate(call.aggregate)]),
        groups=g.flat(call.output.size, LOCAL),
        spec=spec,
        tensors={
            "found": found,
            "leaves": g.tensor(call.leaves),
            "targets": g.tensor(call.targets),
            "weights": g.tensor(call.weights),
            "dst": g.tensor(call.output),
        },
        count=call.output.size,
        trees=trees,
        of_row=call.target_count,
    )
