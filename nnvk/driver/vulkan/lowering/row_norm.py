"""Rows of floats normalised by their mean and deviation, as `shaders/normalize_rows.comp` does it."""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.driver.vulkan.lowering.dtypes import F16, F32, DType
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.row_sharing import own_vec4s, shared_out
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader

NORMALIZE_ROWS = Shader("normalize_rows", SRC=(F32.name, F16.name), DST=(F32.name, F16.name))
SHORTEST, LONGEST = 16, 1 << 14
"""Elements of a row that is normalised so."""


@dataclass(frozen=True, slots=True)
class RowNorm:
    """The normalisation of each row."""

    source: TensorRef
    length: int
    """Elements of a row."""
    epsilon: float
    centred: bool
    """The mean is taken away before."""
    root: bool
    """Elements are divided by a root, not multiplied by an inverse one."""
    weights: TensorRef | None = None
    """As many as a row has elements."""
    bias: TensorRef | None = None
    given: DType = F32
    """The type of the source; 16 bits for rows of whole vec4s alone."""
    gives: DType = F32
    """And of what becomes of it: the ends of its range stand for what is beyond."""


def normalize_rows(g: Lowering, norm: RowNorm, target: TensorRef, operation: int) -> Dispatch | None:
    """The dispatch that fills a tensor."""
    rows = target.nbytes // norm.gives.size // norm.length
    groups, shares = shared_out(g, rows, norm.length)
    vec4s = norm.length % 4 == 0
    return g.made(
        NORMALIZE_ROWS.variant(SRC=norm.given.name, DST=norm.gives.name),
        groups=groups,
        spec={
            **shares,
            "CENTRED": norm.centred,
            "WEIGHTED": norm.weights is not None,
            "BIASED": norm.bias is not None,
            "ROOT": norm.root,
            "VEC4S": vec4s,
            "OWN_VEC4S": own_vec4s(shares, norm.length, in_vec4s=vec4s),
        },
        tensors={
            "src": norm.source,
            "weights": norm.weights or norm.source,
            "bias": norm.bias or norm.source,
            "dst": target,
        },
        push={"rows": rows, "length": norm.length, "epsilon": norm.epsilon},
        operation=operation,
    )
