"""Rules for ONNX operators that pass a dynamic extent on: the axis of their outputs that it is along."""

from __future__ import annotations

from collections.abc import Sequence

from nnvk.importers.decompositions.moving import axis_of
from nnvk.importers.dynamic_extents import (
    DynamicExtent,
    Extent,
    Extents,
    Rule,
    Rules,
    along,
    behind,
    concatenation,
    elementwise,
    gather,
    gather_nd,
    insertion,
    reduction,
    reshaped,
    transposition,
)
from nnvk.importers.errors import Unmapped
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.kinds import ELEMENTWISE
from nnvk.importers.onnx.tensors import Tensor

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_PER_BATCH = (
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"),
    "Resize",
)
"""Operators that take each element of a batch by itself."""


def _gather_nd(c: Context, extents: Extents) -> DynamicExtent:
    if c.node.integer("batch_dims", 0):
        raise Unmapped("data decide the size of what it picks from")
    return gather_nd(extents)


def _slice(c: Context, extents: Extents) -> DynamicExtent:
    extent, rank = extents.first(), extents.rank
    size, axes = extents.input(0).shape[extent.axis], c.integers("axes", 3)
    places = range(rank) if axes is None else [axis_of(axis, rank) for axis in axes]
    for place, end in zip(places, c.integers("ends", 2) or (), strict=False):
        is_whole = extents.output[place] == size and end >= size  # which a slice backwards does not have
        if place == extent.axis and not is_whole:
            raise Unmapped(f"it takes a part of axis {place}, whose size data decide")
    return extent


def _squeeze(c: Context, extents: Extents) -> DynamicExtent:
    named = c.integers("axes", 1)
    if named is None:
        named = [axis for axis, size in enumerate(extents.input(0).shape) if size == 1]
    return reduction(extents, named, keeps=False)


def _transpose(c: Context, extents: Extents) -> DynamicExtent:
    return transposition(extents, c.node.integers("perm") or range(extents.rank)[::-1])


def _reshape(c: Context, extents: Extents) -> DynamicExtent:
    return reshaped(extents, [size if size > 0 else None for size in c.integers("shape", 1) or ()])


def _along(default: int) -> Rule[Context]:
    return lambda c, extents: along(extents, [c.node.integer("axis", default)])


def _behind(default: int) -> Rule[Context]:
    return lambda c, extents: behind(extents, c.node.integer("axis", default))


def _softmax(c: Context, extents: Extents) -> DynamicExtent:
    return (_along(-1) if c.node.version >= 13 else _behind(1))(c, extents)


def _reduction(c: Context, extents: Extents) -> DynamicExtent:
    axes = c.integers("axes", 1) if c.node.op_type[:3] != "Arg" else [c.node.integer("axis", 0)]
    return reduction(extents, axes or range(extents.rank), keeps=bool(c.node.integer("keepdims", 1)))


def _matrix_product(c: Context, extents: Extents) -> DynamicExtent:
    is_transposed = c.node.op_type == "Gemm" and c.node.integer("transA", 0)
    extent = along(extents, [-2 if is_transposed else -1])
    return extent.on(0 if is_transposed else extent.axis + len(extents.output) - extents.rank)


def _cumulative(c: Context, extents: Extents) -> DynamicExtent:
    """Sums from the front see the valid elements, which are the first, alone."""
    return along(extents, [int(c.scalar(1, "the axis"))] if c.node.integer("reverse", 0) else [])


_RULES = Rules[Context](
    {
        **dict.fromkeys(
            (*ELEMENTWISE, "DequantizeLinear", "Dropout", "Identity"), lambda c, extents: elementwise(extents)
        ),
        **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
        **dict.fromkeys(("ArgMax", "ArgMin", *(f"Reduce{kind}" for kind in _REDUCTIONS)), _reduction),
        "CumSum": _cumulative,
        **dict.fromkeys(("Gemm", "MatMul"), _matrix_product),
        **dict.fromkeys(_PER_BATCH, lambda c, extents: along(extents, range(1, extents.rank))),
        "Concat": lambda c, extents: concatenation(extents, c.node.integer("axis", 0)),
        "Flatten": lambda c, extents: reshaped(extents),
        "Gather": lambda c, extents: gather(extents, c.node.integer("axis", 0)),
        "GatherND": _gather_nd,
        "LayerNormalization": _behind(-1),
        "Reshape": _reshape,
        "Slice": _slice,
        "Split": _along(0),
        "Squeeze": _squeeze,
        "TopK": _along(-1),
        "Transpose": _transpose,
        "Unsqueeze": lambda c, extents: insertion(extents, c.integers("axes", 1) or ()),
    },
    own={"Shape"},
)


def check(c: Context) -> None:
    """`Unmapped` where a node can't take a tensor whose size data decide."""
    _RULES.check(c.node.kind, [None if one is None else one.extent for one in c.inputs])


def pass_on(c: Context, results: Sequence[Tensor | None]) -> None:
    """Give the outputs of a node the dynamic extents that follow from its inputs."""
    inputs = [None if one is None else Extent(one.shape, one.extent) for one in c.inputs]
    for one in results:
        if one is not None and (extent := _RULES.passed_on(c.node.kind, c, Extents(inputs, one.shape))) is not None:
            one.extent = extent
