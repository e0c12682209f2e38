"""Nodes whose inputs are constants of which some are sizes that stand for many, or depend on them: see `extents`.

Few whole or real numbers, such as a shape, are an array of extents. Larger constants, such as positions, are computed
when the sizes are known: what is needed of them here is their shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from onnx import numpy_helper

from nnvk.base.extents import Computed, applied, extents_in, filled, has_extents, is_extent, is_open
from nnvk.base.sizes import broadcast_sizes, count, part, whole_numbers
from nnvk.importers import bounds
from nnvk.importers.onnx.node import Node
from nnvk.importers.onnx.reader import types_of
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types.codes import OperationCode
from nnvk.types.constant import Constant, OpenConstant, elements
from nnvk.types.operand import Shape

_FEW = 64
"""The most numbers that are extents."""
MAPPED = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose mappers reshape constants, as they are."""
Evaluate = Callable[..., np.ndarray]


def depends(tensor: Tensor) -> bool:
    """Whether a constant depends on sizes that stand for many."""
    constant = tensor.constant
    return isinstance(constant, OpenConstant) or (isinstance(constant, np.ndarray) and is_open(constant))


def fixed(tensor: Tensor) -> Tensor:
    """The constant for the present sizes alone."""
    array = np.array(tensor.array.tolist(), object) if tensor.array.dtype == object else tensor.array
    return Tensor(tensor.dtype, tensor.array.shape, None, array.astype(tensor.dtype), narrow=tensor.narrow)


def folded(node: Node, inputs: Sequence[Tensor | None], evaluate: Evaluate) -> list[Tensor] | None:
    """The outputs; None for an operator, or inputs, that have no rule here.

    ``evaluate`` computes the first output of the node of the elements of its inputs.
    """
    given = [tensor for tensor in inputs if tensor is not None]
    constants = [tensor.constant for tensor in given]
    if (len(given) < len(inputs) and node.op_type != "Slice") or any(tensor.narrow for tensor in given):
        return None
    if all(_are_numbers(one) for one in constants):
        arrays = [np.asarray(one) for one in constants]
        result = _of_numbers(node, given, arrays, evaluate)
        if result is not None:
            return [result]
    found = _of_arrays(node, inputs, evaluate)
    return None if found is None else [found]


def _are_numbers(constant: Constant | None) -> bool:
    return isinstance(constant, np.ndarray) and constant.size <= _FEW


# --- numbers ---------------------------------------------------------------------------------------------------------


def _of_numbers(node: Node, given: Sequence[Tensor], arrays: Sequence[np.ndarray], evaluate: Evaluate) -> Tensor | None:
    first, dtype = arrays[0], given[0].dtype
    if node.op_type in _MOVING:
        moved = _moved(node, arrays, evaluate)
        return None if moved is None else _tensor(moved, dtype)
    if node.op_type in _REDUCTIONS and first.ndim == 1 and first.size and dtype.kind in "iu":
        return None if node.integer("noop_with_empty_axes", 0) else _tensor(_reduced(node, first, dtype), dtype)
    if node.op_type == "Cast":
        target = _target(node)
        return None if target is None else _tensor(_elementwise(partial(_converted, dtype, target), first), target)
    if node.op_type in _COMPARISONS and dtype.kind in "iub":
        return _tensor(_elementwise(_COMPARISONS[node.op_type], *arrays), np.dtype(np.bool_))
    if node.op_type == "Where":
        return _tensor(_elementwise(lambda flag, one, other: one if flag else other, *arrays), given[1].dtype)
    if node.op_type in _ARITHMETIC and all(one.dtype == dtype for one in given) and not node.integer("fmod", 0):
        whole, function = _ARITHMETIC[node.op_type]
        if dtype.kind == "f" and len(arrays) == function.nin:
            return _tensor(_elementwise(partial(_applied, function, dtype), *arrays), dtype)
        if dtype.kind in "iu" and whole is not None:
            return _tensor(_elementwise(_wrapping(whole, dtype), *arrays), dtype)
    return None


def _tensor(array: np.ndarray, dtype: np.dtype) -> Tensor:
    return Tensor(dtype, array.shape, None, array if is_open(array) else array.astype(dtype))


def _elementwise(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(*(one.shape for one in arrays))
    rows = zip(*(np.broadcast_to(one, shape).reshape(-1).tolist() for one in arrays), strict=True)
    return _array_of([function(*row) for row in rows], shape, np.dtype(object))


def _applied(function: Callable[..., Any], dtype: np.dtype, *numbers: Any) -> Any:
    """A function as NumPy computes it in a type."""
    return applied(_in_type(function, dtype), *numbers)


@cache
def _in_type(function: Callable[..., Any], dtype: np.dtype) -> Callable[..., Any]:
    """One object for each function and type, by which a trace knows it."""

    def compute(*numbers: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(dtype.type(one) for one in numbers)), dtype).item()

    return compute


def _converted(source: np.dtype, target: np.dtype, number: Any) -> Any:
    if not is_extent(number):
        return np.asarray(number, source).astype(target).item()
    if target == np.bool_:
        return number != 0
    if source.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        return number if limits.min <= number <= limits.max else _applied(np.positive, target, number)
    return _applied(_as_it_is if target.kind in "iu" else np.positive, target, number)


def _as_it_is(number: Any) -> Any:
    return number


def _wrapping(function: Callable[..., Any], dtype: np.dtype) -> Callable[..., Any]:
    """A function of whole numbers whose results come round as those of a type. Sizes do not leave INT64."""
    if dtype == np.int64:
        return function
    return lambda *numbers: _converted(np.dtype(np.int64), dtype, function(*numbers))


def _truncated(one: Any, other: Any) -> Any:
    """A quotient of whole numbers without its fraction."""
    if one >= 0 and other > 0:
        return one // other
    return applied(_quotient, one, other)


def _quotient(one: int, other: int) -> int:
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
}
_ARITHMETIC: Mapping[str, tuple[Callable[..., Any] | None, np.ufunc]] = {
    "Abs": (abs, np.abs),
    "Add": (operator.add, np.add),
    "Ceil": (None, np.ceil),
    "Div": (_truncated, np.divide),
    "Floor": (None, np.floor),
    "Max": (lambda *numbers: reduce(lambda one, other: one if one >= other else other, numbers), np.maximum),
    "Min": (lambda *numbers: reduce(lambda one, other: one if one <= other else other, numbers), np.minimum),
    "Mod": (operator.mod, np.remainder),
    "Mul": (operator.mul, np.multiply),
    "Neg": (operator.neg, np.negative),
    "Reciprocal": (None, np.reciprocal),
    "Sqrt": (None, np.sqrt),
    "Sub": (operator.sub, np.subtract),
}
"""Functions of whole numbers, and those of NumPy for real ones, which round once as onnxruntime's do."""


# --- numbers that move -----------------------------------------------------------------------------------------------

_MOVING = frozenset({"Concat", "Expand", "Gather", "Slice", "Tile", "Transpose", *MAPPED})
"""Operators that give elements of their first input, or of all."""


def _moved(node: Node, arrays: Sequence[np.ndarray], evaluate: Evaluate) -> np.ndarray | None:
    """The elements at the places where the node has moved the numbers of their places; None: extents decide these."""
    sources = len(arrays) if node.op_type == "Concat" else 1
    if any(map(is_open, arrays[sources:])):
        return None
    places: list[np.ndarray] = []
    numbers: list[Any] = []
    for array in arrays[:sources]:
        places.append(np.arange(len(numbers), len(numbers) + array.size).reshape(array.shape))
        numbers += array.reshape(-1).tolist()
    moved = np.asarray(evaluate(*places, *arrays[sources:]))
    return _array_of([numbers[place] for place in moved.reshape(-1).tolist()], moved.shape, np.dtype(object))


def _reduced(node: Node, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    number = reduce(_wrapping(_REDUCTIONS[node.op_type], dtype), array.tolist())
    return _array_of([number], (1,) if node.integer("keepdims", 1) else (), np.dtype(object))


_REDUCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {"ReduceProd": operator.mul, "ReduceSum": operator.add}


# --- arrays ----------------------------------------------------------------------------------------------------------


def _of_arrays(node: Node, inputs: Sequence[Tensor | None], evaluate: Evaluate) -> Tensor | None:
    given = [tensor for tensor in inputs if tensor is not None]
    first = given[0]
    if node.op_type == "Size":
        return Tensor(np.dtype(np.int64), (), None, whole_numbers([first.size], np.int64).reshape(()))
    if node.op_type == "Shape":
        sizes = first.shape[node.integer("start", 0) : node.integer("end", first.rank)]
        return Tensor(np.dtype(np.int64), (len(sizes),), None, whole_numbers(sizes, np.int64))
    found = _SHAPES[node.op_type](node, inputs) if node.op_type in _SHAPES else None
    if found is None:
        return None
    shape, dtype = found
    constants = tuple(_argument(tensor) for tensor in inputs)
    compute = _dequantised if node.op_type == "DequantizeLinear" else evaluate
    made = OpenConstant.made(shape, dtype, compute, *constants)
    if dtype.kind in "iu":
        known = _bounds(node, inputs)
        if known is None or not bounds.within(known, bounds.of_dtype(dtype)):  # numbers come round
            known = _exact_bounds(made)
        made.bounds = known
        if not bounds.within(made.bounds, bounds.INT32):
            return None
    return Tensor(dtype, shape, None, made)


_BOUNDS: Mapping[str, Callable[[bounds.Bounds, bounds.Bounds], bounds.Bounds]] = {
    "Add": bounds.total,
    "Div": bounds.quotient,
    "Max": bounds.PAIRS[OperationCode.MAXIMUM],
    "Min": bounds.PAIRS[OperationCode.MINIMUM],
    "Mul": bounds.product,
    "Sub": bounds.difference,
}


def _bounds(node: Node, inputs: Sequence[Tensor | None]) -> bounds.Bounds | None:
    """The bounds of whole numbers that a node gives; None: there is no rule."""
    known = [None if one is None else _bounds_of(one) for one in inputs]
    if node.op_type == "Range":
        (start, _), (_, limit) = known[0] or (0, 0), known[1] or (0, 0)
        return start, limit - 1
    given = [one for one in known if one is not None]
    if node.op_type in _BOUNDS:
        return _BOUNDS[node.op_type](*given) if len(given) == len(known) == 2 else None
    if node.op_type == "ConstantOfShape":
        value = node.tensor("value")
        return (0, 0) if value is None else bounds.of_array(numpy_helper.to_array(value))
    if node.op_type == "Cast" and inputs[0] is not None and inputs[0].dtype == np.bool_:
        return 0, 1
    places = range(len(known)) if node.op_type == "Concat" else (1, 2) if node.op_type == "Where" else (0,)
    found = [one for place in places if (one := known[place]) is not None]
    if len(found) < len(places) or node.op_type not in (*_MOVING, "Cast", "Trilu", "Where"):
        return None
    return bounds.union(*found, *([(0, 0)] if node.op_type == "Trilu" else []))


def _exact_bounds(constant: OpenConstant) -> bounds.Bounds:
    """The least and the largest element, which are computed when the sizes are known."""
    extents = list({one.name: one for one in extents_in(constant.value)}.values())

    def elements_for(*numbers: Any) -> np.ndarray:
        known = {one.name: number for one, number in zip(extents, numbers, strict=True)}
        return np.asarray(filled(constant.value, known))

    return (
        applied(lambda *numbers: int(elements_for(*numbers).min(initial=0)), *extents),
        applied(lambda *numbers: int(elements_for(*numbers).max(initial=0)), *extents),
    )


def _bounds_of(tensor: Tensor) -> bounds.Bounds | None:
    constant = tensor.constant
    if isinstance(constant, OpenConstant):
        return constant.bounds
    return bounds.of_array(elements(constant)) if constant is not None and tensor.dtype.kind in "iu" else None


def _argument(tensor: Tensor | None) -> Any:
    """A constant as an argument of what is computed later: numbers with their shape."""
    if tensor is None:
        return None
    constant = tensor.constant
    if isinstance(constant, np.ndarray) and is_open(constant):
        return Computed(_array_of, (tuple(constant.flat), constant.shape, tensor.dtype))
    return constant


def _array_of(numbers: Sequence[Any], shape: Shape, dtype: np.dtype) -> np.ndarray:
    return np.array([*numbers, None], object)[:-1].astype(dtype).reshape(shape)


Found = tuple[Shape, np.dtype] | None


def _numbers(tensor: Tensor | None) -> list[Any] | None:
    """The numbers of a small constant, of which some may be extents; None for others."""
    if tensor is None or not _are_numbers(tensor.constant):
        return None
    return list(np.asarray(tensor.constant).reshape(-1).tolist())


def _broadcast(dtype: np.dtype | None, place: int, node: Node, inputs: Sequence[Tensor | None]) -> Found:
    tensors = [tensor for tensor in inputs if tensor is not None]
    return broadcast_sizes(*(one.shape for one in tensors)), dtype or tensors[place].dtype


def _like_first(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    assert inputs[0] is not None
    return inputs[0].shape, inputs[0].dtype


def _target(node: Node) -> np.dtype | None:
    """The type that a Cast converts to; None for one that NumPy itself has not."""
    dtype, narrow = types_of(node.integer("to", 0), "its output")
    return dtype if narrow is None else None


def _cast(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    assert inputs[0] is not None
    target = _target(node)
    return None if target is None else (inputs[0].shape, target)


def _real(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    levels, scale = inputs[:2]
    is_single = levels is not None and scale is not None and scale.size == 1 and not node.has("block_size")
    return (levels.shape, scale.dtype) if levels is not None and scale is not None and is_single else None


def _dequantised(levels: np.ndarray, scale: np.ndarray, point: np.ndarray | None = None) -> np.ndarray:
    """Real numbers, as the mapper of DequantizeLinear has them."""
    zero = 0 if point is None else point.astype(np.float32)
    return (levels.astype(np.float32) - zero) * scale.astype(np.float32)


def _quantised(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    assert inputs[0] is not None
    points = inputs[2] if len(inputs) > 2 else None
    return None if points is None or node.has("output_dtype") else (inputs[0].shape, points.dtype)


def _counted(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    numbers = [one for tensor in inputs for one in _numbers(tensor) or ()]
    if inputs[0] is None or inputs[0].dtype.kind not in "iu" or len(numbers) < 3:
        return None
    start, limit, delta = numbers
    if is_extent(delta) or delta != 1 or not limit > start:
        return None
    return (limit - start,), inputs[0].dtype


def _repeated(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    shape = _numbers(inputs[0])
    if shape is None:
        return None
    value = node.tensor("value")
    return tuple(shape), np.dtype(np.float32) if value is None else numpy_helper.to_array(value).dtype


def _expanded(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    shape = _numbers(inputs[1])
    assert inputs[0] is not None
    return None if shape is None else (broadcast_sizes(inputs[0].shape, shape), inputs[0].dtype)


def _padded(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source, widths = inputs[0], _numbers(inputs[1]) if len(inputs) > 1 else None
    if source is None or widths is None or len(inputs) > 3 or len(widths) != 2 * source.rank:
        return None
    if any(width < 0 for width in widths):
        return None
    pairs = zip(widths[: source.rank], widths[source.rank :], strict=True)
    return tuple(size + before + after for size, (before, after) in zip(source.shape, pairs, strict=True)), source.dtype


def _transposed(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source = inputs[0]
    assert source is not None
    order = node.integers("perm") or list(range(source.rank))[::-1]
    return tuple(source.shape[axis] for axis in order), source.dtype


def _picked(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source, places = inputs
    assert source is not None and places is not None
    axis = node.integer("axis", 0) % source.rank
    return (*source.shape[:axis], *places.shape, *source.shape[axis + 1 :]), source.dtype


def _picked_slices(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source, places = inputs
    assert source is not None and places is not None
    if node.integer("batch_dims", 0) or is_extent(places.shape[-1]):
        return None
    return (*places.shape[:-1], *source.shape[places.shape[-1] :]), source.dtype


def _tiled(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source, repeats = inputs[0], _numbers(inputs[1])
    if source is None or repeats is None:
        return None
    return tuple(size * times for size, times in zip(source.shape, repeats, strict=True)), source.dtype


def _cut(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    source, *rest = inputs
    begins, ends, axes, steps = (*map(_numbers, rest), None, None, None, None)[:4]
    if source is None or begins is None or ends is None or has_extents(axes or ()):
        return None
    shape = list(source.shape)
    for axis, *taken in zip(axes or range(len(begins)), begins, ends, steps or [1] * len(begins), strict=True):
        shape[axis] = count(part(shape[axis], *taken))
    return (tuple(shape), source.dtype) if all(shape) else None


def _concatenated(node: Node, inputs: Sequence[Tensor | None]) -> Found:
    tensors = [tensor for tensor in inputs if tensor is not None]
    first = tensors[0]
    axis = node.integer("axis", 0) % first.rank
    total = sum(one.shape[axis] for one in tensors)
    return (*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype


_BOOL = np.dtype(np.bool_)
_SHAPES: Mapping[str, Callable[[Node, Sequence[Tensor | None]], Found]] = {
    **dict.fromkeys(
        ("Abs", "Add", "Ceil", "Cos", "Div", "Exp", "Floor", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Pow"),
        partial(_broadcast, None, 0),
    ),
    **dict.fromkeys(("Clip", "Reciprocal", "Sign", "Sin", "Sqrt", "Sub", "Tanh"), partial(_broadcast, None, 0)),
    "CumSum": _like_first,
    "Trilu": _like_first,
    "GatherND": _picked_slices,
    "Tile": _tiled,
    "GatherElements": lambda node, inputs: (inputs[1].shape, inputs[0].dtype) if inputs[0] and inputs[1] else None,
    **dict.fromkeys(
        ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"),
        partial(_broadcast, _BOOL, 0),
    ),
    "Cast": _cast,
    "Concat": _concatenated,
    "ConstantOfShape": _repeated,
    "Expand": _expanded,
    "Gather": _picked,
    "Range": _counted,
    "DequantizeLinear": _real,
    "Pad": _padded,
    "QuantizeLinear": _quantised,
    "Slice": _cut,
    "Transpose": _transposed,
    "Where": partial(_broadcast, None, 1),
}
"""The shape and the type of the result by operator."""
