"""Which operators pass on that data decide a tensor's size, and along which axis of what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nnvk.importers.errors import Unmapped
from nnvk.importers.idioms.counted import Counted, alike, apart, reshaped
from nnvk.importers.idioms.moving import axis_of
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.tensors import Tensor

Rule = Callable[[Context, Tensor], Counted]
"""What an output has of a counted input. `Unmapped` where elements that don't count would have a part in others."""

_POINTWISE = frozenset(
    [
        *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Cast", "CastLike", "Ceil", "Celu"),
        *("Clip", "Cos", "Cosh", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu"),
        *("Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less"),
        *("LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow"),
        *("QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus"),
        *("Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "Where", "Xor"),
    ]
)
"""Operators that compute each element by itself."""


def _alike(c: Context, result: Tensor) -> Counted:
    return alike([(one.shape, one.counted) for one in c.inputs if one is not None], result.rank)


def _first(c: Context) -> Counted:
    """Of the first input, which alone may be counted."""
    counted = c.tensor(0).counted
    if counted is None or any(one is not None and one.counted is not None for one in c.inputs[1:]):
        raise Unmapped("data decide the size of one of its parameters")
    return counted


def _gather(c: Context, result: Tensor) -> Counted:
    source, places = c.tensor(0), c.tensor(1)
    axis = axis_of(c.node.integer("axis", 0), source.rank)
    if places.counted is not None:
        if source.counted is not None:
            raise Unmapped("data decide the sizes of both its inputs")
        return places.counted.on(axis + places.counted.axis)
    counted = apart(_first(c), [axis])
    return counted.on(counted.axis + (places.rank - 1 if counted.axis > axis else 0))


def _gather_nd(c: Context, result: Tensor) -> Counted:
    counted = c.tensor(1).counted
    if counted is None or c.tensor(0).counted is not None or c.node.integer("batch_dims", 0):
        raise Unmapped("data decide the size of what it picks from")
    return apart(counted, [c.tensor(1).rank - 1])


def _slice(c: Context, result: Tensor) -> Counted:
    counted = _first(c)
    size, axes = c.tensor().shape[counted.axis], c.integers("axes", 3)
    places = range(c.tensor().rank) if axes is None else [axis_of(axis, c.tensor().rank) for axis in axes]
    for place, begin, end in zip(places, c.integers("starts", 1) or (), c.integers("ends", 2) or (), strict=False):
        if place == counted.axis and (begin or end < size or result.shape[place] != size):
            raise Unmapped(f"it takes a part of axis {place}, whose size data decide")
    return counted


def _squeeze(c: Context, result: Tensor) -> Counted:
    source, counted = c.tensor(), _first(c)
    named = c.integers("axes", 1)
    gone = [axis for axis, size in enumerate(source.shape) if size == 1] if named is None else named
    places = [axis_of(axis, source.rank) for axis in gone]
    counted = apart(counted, places)
    return counted.on(counted.axis - sum(1 for place in places if place < counted.axis))


def _unsqueeze(c: Context, result: Tensor) -> Counted:
    counted = _first(c)
    new = {axis_of(axis, result.rank) for axis in c.integers("axes", 1) or ()}
    return counted.on([axis for axis in range(result.rank) if axis not in new][counted.axis])


def _transpose(c: Context, result: Tensor) -> Counted:
    counted = _first(c)
    order = c.node.integers("perm") or list(range(result.rank))[::-1]
    return counted.on(order.index(counted.axis))


def _reshape(c: Context, result: Tensor) -> Counted:
    counted = reshaped(_first(c), c.tensor().shape, result.shape)
    given = c.integers("shape", 1) or []
    if given[counted.axis] > 0:
        raise Unmapped(f"axis {counted.axis}, whose size data decide, is to be of size {given[counted.axis]}")
    return counted


def _flatten(c: Context, result: Tensor) -> Counted:
    return reshaped(_first(c), c.tensor().shape, result.shape)


def _concat(c: Context, result: Tensor) -> Counted:
    parts = [one.counted for one in c.tensors()]
    first = parts[0]
    if first is None or any(one is None or (one.axis, one.count) != (first.axis, first.count) for one in parts):
        raise Unmapped("data decide the sizes of its inputs, and not one size only")
    return apart(first, [axis_of(c.node.integer("axis", 0), result.rank)])


def _along(default: int) -> Rule:
    """Of an operator that works along one axis, and keeps it."""
    return lambda c, result: apart(_first(c), [axis_of(c.node.integer("axis", default), c.tensor().rank)])


def _behind(default: int) -> Rule:
    """Of an operator that works along one axis and all behind it."""
    return lambda c, result: apart(
        _first(c), range(axis_of(c.node.integer("axis", default), c.tensor().rank), c.tensor().rank)
    )


def _softmax(c: Context, result: Tensor) -> Counted:
    return _along(-1)(c, result) if c.node.version >= 13 else _behind(1)(c, result)


def _reduce(c: Context, result: Tensor) -> Counted:
    source, counted = c.tensor(), _first(c)
    axes = c.integers("axes", 1) if c.node.op_type[:3] != "Arg" else [c.node.integer("axis", 0)]
    places = [axis_of(axis, source.rank) for axis in axes or range(source.rank)]
    counted = apart(counted, places)
    gone = 0 if c.node.integer("keepdims", 1) else sum(1 for place in places if place < counted.axis)
    return counted.on(counted.axis - gone)


def _product(c: Context, result: Tensor) -> Counted:
    counted = _first(c)
    turned = c.node.op_type == "Gemm" and c.node.integer("transA", 0)
    apart(counted, [c.tensor().rank - (2 if turned else 1)])
    return counted.on(0 if turned else counted.axis + result.rank - c.tensor().rank)


def _batch(c: Context, result: Tensor) -> Counted:
    """Of an operator that takes each element of a batch by itself."""
    return apart(_first(c), range(1, c.tensor().rank))


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_POINTWISE, _alike),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("TopK",), _along(-1)),
    **dict.fromkeys(("Split",), _along(0)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _reduce),
    **{f"Reduce{kind}": _reduce for kind in _REDUCTIONS},
    **dict.fromkeys(("Gemm", "MatMul"), _product),
    **dict.fromkeys(("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "MaxPool", "Resize"), _batch),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _batch),
    "Concat": _concat,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "LayerNormalization": _behind(-1),
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
_OWN = frozenset({"Shape"})
"""Operators whose mappers look at it themselves."""


def check(c: Context) -> None:
    """`Unmapped` where a node can't take what data decide the size of."""
    if _is_counted(c.inputs) and c.node.kind not in _RULES and c.node.kind not in _OWN:
        raise Unmapped("data decide the size of its input, and NNAPI has to know it beforehand")


def pass_on(c: Context, results: Sequence[Tensor | None]) -> None:
    """Say of the outputs of a node what its inputs have."""
    if _is_counted(c.inputs) and c.node.kind in _RULES:
        for one in results:
            if one is not None:
                one.counted = _RULES[c.node.kind](c, one)


def _is_counted(tensors: Sequence[Tensor | None]) -> bool:
    return any(one is not None and one.counted is not None for one in tensors)
