"""Resizing: NNAPI's where it computes the same, else elements by index, or products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nnvk.base.extents import applied, is_open
from nnvk.importers import charged
from nnvk.importers.decompositions.moving import axis_of, elements_at, transposed
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import dense
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.resize import linear_taps, nearest_indices
from nnvk.types.codes import OperationCode

Op = OperationCode
float32 = np.float32
"""Sizes and places are computed in this type, as onnxruntime does: what is nearly whole, or nearly in the middle of two
numbers, would be another place in another type."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The resizing of one axis."""

    size: int
    out: int
    scale: float

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.size == self.out and self.scale == 1


@operator("Resize", "Upsample")
def resize(c: Context) -> Tensor:
    """Map Resize, along each axis separately."""
    if c.node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        raise Unmapped("NNAPI resizes no regions of tensors")
    source = c.tensor()
    axes = _axes(c)
    mode = c.node.text("mode", "nearest")
    if all(axis.size == axis.out for axis in axes):
        return source  # whatever the scales are, as in onnxruntime
    if mode not in ("nearest", "linear", "cubic"):
        raise Unmapped(f"attribute 'mode' must be nearest, linear or cubic, got '{mode}'")
    value = _nearest(c, c.value(), axes) if mode == "nearest" else _interpolated(c, axes, mode)
    if mode != "nearest" and source.dtype.kind != "f":
        value = c.cast(value, source.dtype)
    return c.give(value, None, source.dtype)


def _interpolated(c: Context, axes: list[Axis], mode: str) -> Value:
    """Real numbers between those of the input."""
    value = c.number()
    if c.tensor().dtype.kind != "f":
        value = c.cast(value, np.dtype(np.float32))
    native = _bilinear(c, value, axes) if mode == "linear" else None
    if native is not None:
        return native
    for place, axis in enumerate(axes):
        if not axis.is_same:
            value = _weighted(c, value, place, _weights(c, axis, mode))
    return value


def _axes(c: Context) -> list[Axis]:
    """The sizes and scales, of which one is given, and what keeps the proportions."""
    source = c.tensor()
    places = c.node.integers("axes")
    places = list(range(source.rank)) if places is None else [axis_of(axis, source.rank) for axis in places]
    if c.node.op_type == "Upsample" or (c.node.version < 11 and len(c.inputs) < 3):
        given = c.node.reals("scales")
        scales, sizes = given or _reals(c, 1), None
    else:
        scales = _reals(c, 2)
        sizes = c.ints(3, "the sizes") if c.has(3) and c.tensor(3).size else None
    if (scales or sizes) is None or len(scales or sizes or ()) != len(places):
        raise Unmapped(f"there must be scales or sizes for {len(places)} axes, got {scales or sizes}")
    spans = [source.shape[place] for place in places]
    if sizes is not None:
        factors = [out / size for out, size in zip(sizes, spans, strict=True)]
        policy = c.node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(spans)
            sizes = [math.floor(factor * size + 0.5) for size in spans]
    else:
        factors = list(scales or ())
        if not all(math.isfinite(factor) and factor > 0 for factor in factors):
            raise Unmapped(f"scales must be positive, got {factors}")
        sizes = [applied(_scaled, size, factor) for size, factor in zip(spans, factors, strict=True)]
    if min(sizes) < 1:
        raise Unmapped(f"the sizes must be positive, got {sizes}")
    found = [Axis(size, size, 1.0) for size in source.shape]
    for place, out, factor in zip(places, sizes, factors, strict=True):
        found[place] = Axis(source.shape[place], out, factor)
    return found


def _scaled(size: int, factor: float) -> int:
    return math.floor(float32(size) * float32(factor))


def _reals(c: Context, position: int) -> list[float] | None:
    if not c.has(position) or not c.tensor(position).size:
        return None
    array = c.array(position, "the scales").reshape(-1)
    numbers: list[float] = (array if is_open(array) else array.astype(np.float32)).tolist()
    return numbers


def _positions(c: Context, axis: Axis) -> np.ndarray:
    """Where each element of the output is in the input, in 32-bit floats."""
    kind = c.node.text("coordinate_transformation_mode", "half_pixel")
    if c.node.op_type == "Upsample" or (c.node.version < 11 and not c.node.has("coordinate_transformation_mode")):
        kind = "asymmetric"
    x = charged.arange(axis.out, dtype=float32)
    scale, last = float32(axis.scale), float32(axis.size - 1)
    if kind == "asymmetric":
        return x / scale
    if kind == "align_corners":
        return x * last / float32(max(axis.out - 1, 1))
    if kind == "pytorch_half_pixel" and axis.out == 1:
        return charged.full(1, -0.5, float32)  # as in ONNX's reference and PyTorch; onnxruntime has 0
    if kind == "half_pixel_symmetric":
        adjustment = float32(axis.out) / (scale * float32(axis.size))
        return float32(axis.size) / float32(2) * (float32(1) - adjustment) + (x + float32(0.5)) / scale - float32(0.5)
    if kind not in ("half_pixel", "pytorch_half_pixel"):
        raise Unmapped(f"attribute 'coordinate_transformation_mode' is '{kind}', which is unknown here")
    return (x + float32(0.5)) / scale - float32(0.5)


_NEARLY_HALF = 1e-6
"""How far from the middle of two a place may be to be taken for it. Measured on onnxruntime 1.32."""
_ROUNDED: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x.astype(np.float64) - 0.5 - _NEARLY_HALF),
    "round_prefer_ceil": lambda x: np.floor(x.astype(np.float64) + 0.5 + _NEARLY_HALF),
}


def _nearest_places(c: Context, axis: Axis) -> np.ndarray:
    kind = c.node.text("nearest_mode", "round_prefer_floor")
    if c.node.op_type == "Upsample" or c.node.version < 11:
        kind = "floor"
    position = _positions(c, axis)
    if kind not in _ROUNDED:
        raise Unmapped(f"attribute 'nearest_mode' is '{kind}', which is unknown here")
    places: np.ndarray = np.clip(_ROUNDED[kind](position), 0, axis.size - 1).astype(np.int64)
    return places


def _is_image(value: Value, axes: list[Axis]) -> bool:
    return len(value.shape) == 4 and axes[0].is_same and axes[1].is_same and not all(axis.is_same for axis in axes[2:])


Flags = tuple[bool, bool]
_FLAGS: tuple[Flags, ...] = ((False, False), (True, False), (False, True))
"""align_corners and half_pixel_centers."""


def _nearest(c: Context, value: Value, axes: list[Axis]) -> Value:
    flags = _flags(value, axes, lambda axis, flags: _is_nearest(c, axis, flags))
    if flags is not None:
        return c.keep(Op.RESIZE_NEAREST_NEIGHBOR, value, axes[3].out, axes[2].out, True, *flags)
    for place, axis in enumerate(axes):
        places = _nearest_places(c, axis)
        if not np.array_equal(places, charged.arange(axis.size)):
            value = elements_at(c, value, place, places)
    return value


def _flags(value: Value, axes: list[Axis], fits: Callable[[Axis, Flags], bool]) -> Flags | None:
    """The flags with which NNAPI's operation takes the same places along both axes of an image; None: there are none.

    The places depend on sizes, so that whether they are the same is a guard where sizes are extents.
    """
    if not _is_image(value, axes) or value.type.dtype == np.int32:
        return None

    def holds(axis: Axis, flags: Flags) -> bool:
        def fits_for(size: int, out: int, scale: float) -> int:
            return int(fits(replace(axis, size=size, out=out, scale=scale), flags))

        return bool(applied(fits_for, axis.size, axis.out, axis.scale))

    return next((flags for flags in _FLAGS if all(holds(axis, flags) for axis in axes[2:])), None)


def _is_nearest(c: Context, axis: Axis, flags: Flags) -> bool:
    return np.array_equal(nearest_indices(axis.size, axis.out, *flags), _nearest_places(c, axis))


def _bilinear(c: Context, value: Value, axes: list[Axis]) -> Value | None:
    """NNAPI's operation, where its weights are those of ONNX."""
    flags = _flags(value, axes, lambda axis, flags: _is_linear(c, axis, flags))
    return None if flags is None else c.keep(Op.RESIZE_BILINEAR, value, axes[3].out, axes[2].out, True, *flags)


def _is_linear(c: Context, axis: Axis, flags: Flags) -> bool:
    weights = _weights(c, axis, "linear")
    lower, upper, part = linear_taps(axis.size, axis.out, *flags)
    matrix = charged.zeros((axis.out, axis.size))
    rows = charged.arange(axis.out)
    np.add.at(matrix, (rows, lower), 1 - part)
    np.add.at(matrix, (rows, upper), part)
    return weights.shape == matrix.shape and np.allclose(matrix, weights, atol=1e-5)


def _weights(c: Context, axis: Axis, mode: str) -> np.ndarray:
    """The weight of each element of the input in each of the output, [out, size]."""
    position = _positions(c, axis)
    stretch = 1.0
    if c.node.integer("antialias", 0):
        stretch = max(1.0, 1 / axis.scale)
    reach = stretch * (1 if mode == "linear" else 2)
    first = np.floor(position - reach).astype(np.int64)
    taps = charged.outer(np.add, first, charged.arange(math.ceil(2 * reach) + 2))
    distance = np.abs(taps - position.reshape(-1, 1)) / stretch
    if mode == "linear":
        weights = np.maximum(0.0, 1 - distance)
    else:
        weights = _cubic(distance, c.node.real("cubic_coeff_a", -0.75))
    inside = (taps >= 0) & (taps < axis.size)
    if c.node.integer("exclude_outside", 0):
        weights = np.where(inside, weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    matrix = charged.zeros((axis.out, axis.size))
    rows = charged.broadcast_to(charged.arange(axis.out).reshape(-1, 1), taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, axis.size - 1)), weights)
    return matrix


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    result: np.ndarray = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    return result


def _weighted(c: Context, value: Value, place: int, weights: np.ndarray) -> Value:
    """Resize an axis by a matrix product, with the axis moved to the end."""
    c.graph.budget.charge(weights.size * 8)
    rank = len(value.shape)
    order = [axis for axis in range(rank) if axis != place] + [place]
    moved = transposed(c, value, order)
    rows = c.reshape(moved, (moved.size // moved.shape[-1], moved.shape[-1]))
    result = c.reshape(dense(c, rows, weights), (*moved.shape[:-1], weights.shape[0]))
    return transposed(c, result, [order.index(axis) for axis in range(rank)])
