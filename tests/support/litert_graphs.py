"""Random small ``.tflite`` graphs of quantised operators, and where nnvk's results differ from LiteRT's.

LiteRT has two sets of kernels. Where both give the same level, nnvk must give that level too. All results are outputs
of a graph. Results behind a level that LiteRT's kernels disagree on are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tflite
from tflite_net import DTYPES, Net, Op, T, write
from tflite_oracle import invoked, litert

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
_FUSED = [getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")]
I8, U8, I16, I32, BOOL, F32 = "INT8", "UINT8", "INT16", "INT32", "BOOL", "FLOAT32"
_BYTES, _SIGNED, _ALL = (I8, U8), (I8, I16), (I8, U8, I16)


class Draft:
    """A graph to which operators are added, with what is fed to its inputs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.net = Net()
        self.feeds: list[np.ndarray] = []
        self.values: list[T] = []

    # --- numbers -------------------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float = 0.5) -> bool:
        """True in this share of the calls."""
        return bool(self.rng.random() < share)

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def sizes(self, rank: int, most: int = 6) -> tuple[int, ...]:
        """Sizes of dimensions."""
        return tuple(self.integer(1, most) for _ in range(rank))

    def scale(self) -> float:
        """A scale as converters write it."""
        return float(np.float32(self.pick((1 / 256, 1 / 128, 0.05, 0.5, float(np.exp(self.rng.uniform(-7, -0.5)))))))

    def zero_point(self, kind: str) -> int:
        """A zero point; 16 bits have none."""
        limits = np.iinfo(DTYPES[kind])
        ends = limits.min, limits.max, (limits.min + limits.max + 1) // 2
        return 0 if kind == I16 else self.pick((*ends, self.integer(int(limits.min), int(limits.max))))

    def levels(self, kind: str, shape: tuple[int, ...]) -> np.ndarray:
        """Levels, sometimes of the ends of the range only."""
        limits = np.iinfo(DTYPES[kind])
        if self.chance(0.1):
            return self.rng.choice(np.array([limits.min, limits.max], DTYPES[kind]), shape)
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(DTYPES[kind])

    # --- tensors -------------------------------------------------------------------------------------------------

    def source(
        self, kind: str, shape: tuple[int, ...] | None = None, *, ranks: tuple[int, int] = (1, 4), like: T | None = None
    ) -> T:
        """A tensor that the graph has already, or a new input. With ``like``, of the same quantisation."""
        fitting = [value for value in self.values if value.type == kind and _fits(value, shape, ranks, like)]
        if fitting and self.chance(0.8):
            return self.pick(fitting)
        shape = self.sizes(self.integer(*ranks)) if shape is None else shape
        if kind == BOOL:
            return self.input(T(BOOL, shape), self.rng.integers(0, 2, shape).astype(bool))
        if kind == F32:
            return self.input(T(F32, shape), self.rng.uniform(-8, 8, shape).astype(np.float32))
        if kind == I32:
            return self.input(T(I32, shape), self.rng.integers(-99, 100, shape, np.int32))
        scale, zero_point = (self.scale(), self.zero_point(kind)) if like is None else (like.scale, like.zero_point)
        return self.input(T(kind, shape, scale=scale, zero_point=zero_point), self.levels(kind, shape))

    def input(self, tensor: T, fed: np.ndarray) -> T:
        """A new input."""
        self.net.inputs.append(tensor)
        self.feeds.append(fed)
        self.values.append(tensor)
        return tensor

    def inputs(self) -> tuple[list[T], list[np.ndarray], list[T]]:
        """The lists that grow with an input."""
        return self.net.inputs, self.feeds, self.values

    def image(self, kind: str, most: int = 6) -> T:
        """A tensor of rank 4."""
        return self.source(kind, ranks=(4, 4)) if self.chance() else self.source(kind, self.sizes(4, most))

    def result(self, kind: str, natural: float, zero_point: int | None = None) -> T:
        """A quantised output with a scale near ``natural``."""
        factor = self.pick((1.0, 1.0, 0.3, 1.7, float(self.rng.uniform(0.2, 3))))
        scale = float(np.float32(max(natural * factor, 1e-7)))
        return T(kind, scale=scale, zero_point=self.zero_point(kind) if zero_point is None else zero_point)

    def weights(self, kind: str, shape: tuple[int, ...], dim: int, *, per_channel: bool) -> T:
        """A constant filter: of UINT8 with any zero point, else symmetric, perhaps with a scale per channel."""
        if kind == U8:
            return T(U8, data=self.levels(U8, shape), scale=self.scale(), zero_point=self.zero_point(U8))
        scales = [self.scale() for _ in range(shape[dim])] if per_channel else self.scale()
        return T(I8, data=np.maximum(self.levels(I8, shape), -127), scale=scales, dim=dim)

    def add(
        self, name: str, inputs: Sequence[T | None], outputs: T | Sequence[T], table: str | None = None, **o: Any
    ) -> None:
        """Add an operator."""
        results = [outputs] if isinstance(outputs, T) else list(outputs)
        self.net.op(name, inputs, results, table, **o)
        self.net.outputs += results

    def kind(self, op: Op) -> str:
        """The type of the elements that an operator reads."""
        kinds = [tensor.type for tensor in op.inputs if tensor is not None]
        return next((kind for kind in kinds if kind != I32), I32)

    def constant(self, numbers: object) -> T:
        """Integers."""
        return T(I32, data=np.asarray(numbers, np.int32))


OPERATORS: dict[tuple[str, str], Callable[[Draft], None]] = {}
"""The functions that add an operator to a draft, by its name and the type of its elements."""


_Maker = Callable[..., None]


def _operators(names: Sequence[str], kinds: Sequence[str]) -> Callable[[_Maker], _Maker]:
    def register(make: _Maker) -> _Maker:
        for name in names:
            for kind in kinds:
                OPERATORS[name, kind] = partial(make, name=name, kind=kind)
        return make

    return register


def _fits(value: T, shape: tuple[int, ...] | None, ranks: tuple[int, int], like: T | None) -> bool:
    own = value.shape or ()
    if like is not None and (value.scale, value.zero_point) != (like.scale, like.zero_point):
        return False
    return own == shape if shape is not None else ranks[0] <= len(own) <= ranks[1]


def _same(source: T) -> T:
    """An output of the quantisation of ``source``."""
    return T(source.type, scale=source.scale, zero_point=source.zero_point)


# --- one input -----------------------------------------------------------------------------------------------


@_operators(["RELU_N1_TO_1", "RELU_0_TO_1"], _BYTES)
@_operators(["RELU", "RELU6"], _ALL)
def _clips(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    d.add(name, [source], _same(source) if d.chance(0.3) else d.result(kind, source.scale))


@_operators(["GELU"], _ALL)
@_operators(["HARD_SWISH", "LOG_SOFTMAX"], _BYTES)
@_operators(["SQRT", "NEG"], [I8])
@_operators(["ABS", "RSQRT", "LOG", "EXP", "NEG"], _SIGNED)
def _maps(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    if name == "GELU":
        d.add(name, [source], d.result(kind, source.scale), "GeluOptions", Approximate=d.chance())
    elif name == "LOG_SOFTMAX":
        d.add(name, [source], T(kind, scale=16 / 256, zero_point=127 if kind == I8 else 255), "LogSoftmaxOptions")
    elif name == "RSQRT":  # of numbers above 0 only
        zero_point = 0 if kind == I16 else -128
        source = d.input(T(kind, d.sizes(2), scale=d.scale(), zero_point=zero_point), np.zeros(0))
        d.feeds[-1] = np.maximum(d.levels(kind, source.shape or ()), zero_point + 1)
        d.add(name, [source], d.result(kind, 0.02))
    elif name == "SQRT" or (name == "LOG" and kind == I16):
        source = d.input(T(kind, d.sizes(2), scale=d.scale(), zero_point=0), np.zeros(0))
        d.feeds[-1] = np.maximum(d.levels(kind, source.shape or ()), 1)
        d.add(name, [source], d.result(kind, 0.02))
    elif name == "NEG":
        d.add(name, [source], _same(source))
    else:
        d.add(name, [source], d.result(kind, source.scale))


@_operators(["L2_NORMALIZATION"], _BYTES)
@_operators(["LOGISTIC", "TANH", "SOFTMAX"], _ALL)
def _bounded(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    if kind == I16:
        scale, zero_point = 1 / 32768, 0
    else:
        scale = 1 / 256 if name in ("LOGISTIC", "SOFTMAX") else 1 / 128
        zero_point = (0 if scale == 1 / 256 else 128) - (128 if kind == I8 else 0)
    result = T(kind, scale=scale, zero_point=zero_point)
    if name == "SOFTMAX":
        d.add(name, [source], result, "SoftmaxOptions", Beta=d.pick((1.0, 0.5, 3.0)))
    elif name == "L2_NORMALIZATION":
        d.add(name, [source], result, "L2NormOptions")
    else:
        d.add(name, [source], result)


@_operators(["LEAKY_RELU"], _ALL)
def _leaky(d: Draft, name: str, kind: str) -> None:
    source, alpha = d.source(kind), d.pick((0.1, 0.3, -0.2, 1.5))
    d.add(name, [source], d.result(kind, source.scale), "LeakyReluOptions", Alpha=alpha)


@_operators(["PRELU"], _BYTES)
def _prelu(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind, ranks=(2, 4))
    shape = tuple(1 if d.chance(0.3) else size for size in (source.shape or ())[1:])
    slopes = T(kind, data=d.levels(kind, shape), scale=d.scale(), zero_point=d.zero_point(kind))
    d.add(name, [source, slopes], d.result(kind, source.scale))


@_operators(["QUANTIZE"], [F32, *_ALL])
def _quantize(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    out = d.pick(_SIGNED if kind == I16 else _ALL)
    d.add(name, [source], d.result(out, 0.06 if kind == F32 else source.scale), "QuantizeOptions")


@_operators(["DEQUANTIZE"], _ALL)
def _dequantize(d: Draft, name: str, kind: str) -> None:
    d.add(name, [d.source(kind)], T(F32), "DequantizeOptions")


# --- two inputs ----------------------------------------------------------------------------------------------


def _pair(d: Draft, kind: str, *, alike: bool = False) -> tuple[T, T]:
    first = d.source(kind)
    shape = tuple(1 if d.chance(0.3) else size for size in (first.shape or ())[d.integer(0, 1) :])
    second = d.source(kind, shape or first.shape, like=first if alike else None)
    return (first, second) if d.chance() else (second, first)


_TABLES = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


@_operators(["ADD", "SUB", "MUL"], [*_ALL, I32])
@_operators(["DIV"], [U8, I32])
@_operators(["SQUARED_DIFFERENCE"], [I8])
def _arithmetic(d: Draft, name: str, kind: str) -> None:
    first, second = _pair(d, kind)
    fused = {} if name == "SQUARED_DIFFERENCE" else {"FusedActivationFunction": d.pick(_FUSED)}
    if kind == I32:
        if name == "DIV":
            second = T(I32, data=np.maximum(1, d.rng.integers(1, 20, second.shape)))
            first = d.source(I32, first.shape)
        d.add(name, [first, second], T(I32), _TABLES[name], **fused)
        return
    if name == "DIV":  # TFLite ends the process at a divisor of 0
        data = d.levels(U8, second.shape or ())
        zero_point = d.zero_point(U8)
        second = T(U8, data=np.where(data == zero_point, data ^ 1, data), scale=d.scale(), zero_point=zero_point)
    natural = 2 * max(first.scale, second.scale)
    if name in ("MUL", "SQUARED_DIFFERENCE"):
        natural = 100 * first.scale * second.scale * (100 if kind == I16 else 1)
    elif name == "DIV":
        natural = first.scale / second.scale / 50
    d.add(name, [first, second], d.result(kind, natural), _TABLES.get(name, "SquaredDifferenceOptions"), **fused)


@_operators(["FLOOR_DIV", "FLOOR_MOD"], _SIGNED)
def _floored(d: Draft, name: str, kind: str) -> None:
    first = d.source(kind)
    data = d.levels(kind, first.shape or ())
    data[(data == 0) | (data == -1)] = 1  # the quotient of the lowest level and -1 is undefined
    second = T(kind, data=data, scale=d.scale(), zero_point=d.zero_point(kind))
    table = "FloorDivOptions" if name == "FLOOR_DIV" else "FloorModOptions"
    d.add(name, [first, second], d.result(kind, first.scale), table)


@_operators(["MAXIMUM", "MINIMUM"], [*_ALL, I32])
def _extremes(d: Draft, name: str, kind: str) -> None:
    first, second = _pair(d, kind, alike=True)
    d.add(name, [first, second], _same(first), "MaximumMinimumOptions")


@_operators(["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"], [*_ALL, I32])
def _comparisons(d: Draft, name: str, kind: str) -> None:
    first, second = _pair(d, kind)
    if kind != I32 and max(first.scale, second.scale) >= 1:  # TFLite ends the process
        first, second = (
            d.input(T(kind, each.shape, scale=0.3), d.levels(kind, each.shape or ())) for each in (first, second)
        )
    d.add(name, [first, second], T(BOOL))


@_operators(["SELECT", "SELECT_V2"], _ALL)
def _select(d: Draft, name: str, kind: str) -> None:
    first = d.source(kind)
    if first.shape == (1,) and name == "SELECT":
        first = d.source(kind, (2, 3))
    flags, second = d.source(BOOL, first.shape), d.source(kind, first.shape, like=first)
    d.add(name, [flags, first, second], _same(first), "SelectOptions" if name == "SELECT" else "SelectV2Options")


# --- reductions ----------------------------------------------------------------------------------------------


@_operators(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"], [*_ALL, I32])
@_operators(["REDUCE_PROD"], _SIGNED)
def _reductions(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    shape = source.shape or ()
    axes = [axis for axis in range(len(shape)) if d.chance()] or [len(shape) - 1]
    if name == "REDUCE_PROD":
        axes = axes[:1]
    if kind == I32 or name in ("REDUCE_MAX", "REDUCE_MIN") or (name == "MEAN" and d.chance(0.3)):
        result = _same(source)
    else:
        count = math.prod(shape[axis] for axis in axes)
        result = d.result(kind, {"SUM": math.sqrt(count), "REDUCE_PROD": 1.0}.get(name, 0.5) * source.scale)
    d.add(name, [source, d.constant(axes)], result, "ReducerOptions", KeepDims=d.chance())


@_operators(["ARG_MAX", "ARG_MIN"], _BYTES)
def _arg_extremes(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    axis = d.integer(0, len(source.shape or ()) - 1)
    table = "ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions"
    d.add(name, [source, T(I32, data=axis)], T(I32), table, OutputType=tflite.TensorType.INT32)


# --- filters and windows -------------------------------------------------------------------------------------


def _window(d: Draft, source: T, most: int = 4) -> tuple[tuple[int, int], dict[str, int]]:
    """A window, and its options: VALID padding only where the window fits."""
    _, height, width, _ = source.shape or ()
    window = d.integer(1, most), d.integer(1, most)
    fits = window[0] <= height and window[1] <= width
    return window, {
        "Padding": d.pick((SAME, VALID)) if fits else SAME,
        "StrideH": d.integer(1, 3),
        "StrideW": d.integer(1, 3),
    }


def _product(d: Draft, source: T, shape: tuple[int, ...], dim: int, *, biased: bool = True) -> tuple[T, T | None, T]:
    """Filter, bias and output of sums of products."""
    kind, outputs = source.type, shape[dim]
    weights = d.weights(kind, shape, dim, per_channel=kind != U8 and outputs > 1 and d.chance())
    scales = [source.scale * each for each in np.atleast_1d(weights.scale).tolist()]
    bias = None
    if biased:
        numbers = d.rng.integers(-2000, 2001, outputs)
        bias = T("INT64" if kind == I16 else I32, data=numbers, scale=scales if len(scales) > 1 else scales[0])
    terms = math.prod(shape) // outputs
    levels = 60 if kind != I16 else 60 * 200
    per_level = levels if kind != I16 else levels / 256
    return weights, bias, d.result(kind, float(np.mean(scales)) * per_level * math.sqrt(terms))


@_operators(["CONV_2D"], _ALL)
def _conv_2d(d: Draft, name: str, kind: str) -> None:
    source = d.image(kind, 7)
    window, options = _window(d, source)
    weights, bias, result = _product(d, source, (d.integer(1, 6), *window, (source.shape or ())[3]), 0)
    options |= {"FusedActivationFunction": d.pick(_FUSED), "DilationHFactor": 1, "DilationWFactor": 1}
    d.add(name, [source, weights, bias] if bias else [source, weights], result, "Conv2DOptions", **options)


@_operators(["DEPTHWISE_CONV_2D"], _ALL)
def _depthwise_conv_2d(d: Draft, name: str, kind: str) -> None:
    source, multiplier = d.image(kind, 7), d.integer(1, 3)
    window, options = _window(d, source)
    weights, bias, result = _product(d, source, (1, *window, (source.shape or ())[3] * multiplier), 3)
    options |= {"FusedActivationFunction": d.pick(_FUSED), "DepthMultiplier": multiplier}
    options |= {"DilationHFactor": 1, "DilationWFactor": 1}
    inputs = [source, weights, bias] if bias else [source, weights]
    d.add(name, inputs, result, "DepthwiseConv2DOptions", **options)


@_operators(["TRANSPOSE_CONV"], _ALL)
def _transpose_conv(d: Draft, name: str, kind: str) -> None:
    source = d.image(kind, 5)
    batches, height, width, channels = source.shape or ()
    window, strides, same = (d.integer(1, 4), d.integer(1, 4)), (d.integer(1, 3), d.integer(1, 3)), d.chance()
    outputs = d.integer(1, 4)
    size = [
        count * stride if same else (count - 1) * stride + reach
        for count, stride, reach in zip((height, width), strides, window, strict=True)
    ]
    weights, bias, result = _product(d, source, (outputs, *window, channels), 0, biased=kind != U8)
    inputs = [d.constant([batches, *size, outputs]), weights, source, *([bias] if bias else [])]
    options = {"Padding": SAME if same else VALID, "StrideH": strides[0], "StrideW": strides[1]}
    d.add(name, inputs, result, "TransposeConvOptions", **options)


@_operators(["FULLY_CONNECTED"], _ALL)
def _fully_connected(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind, ranks=(2, 4))
    weights, bias, result = _product(d, source, (d.integer(1, 6), (source.shape or ())[-1]), 0)
    options = {"FusedActivationFunction": d.pick(_FUSED), "KeepNumDims": d.chance()}
    d.add(name, [source, weights, bias], result, "FullyConnectedOptions", **options)


@_operators(["BATCH_MATMUL"], _SIGNED)
def _batch_matmul(d: Draft, name: str, kind: str) -> None:
    first = d.source(kind, ranks=(2, 4))
    shape = first.shape or ()
    adj_x, adj_y = d.chance(), d.chance()
    inner, columns = shape[-2] if adj_x else shape[-1], d.integer(1, 5)
    second = d.source(kind, (*shape[:-2], *((columns, inner) if adj_y else (inner, columns))))
    natural = first.scale * second.scale * 60 * math.sqrt(inner) * (256 if kind == I16 else 1)
    d.add(name, [first, second], d.result(kind, natural), "BatchMatMulOptions", AdjX=adj_x, AdjY=adj_y)


@_operators(["AVERAGE_POOL_2D", "MAX_POOL_2D"], _ALL)
def _pools(d: Draft, name: str, kind: str) -> None:
    source = d.image(kind, 7)
    (height, width), options = _window(d, source)
    options |= {"FilterHeight": height, "FilterWidth": width, "FusedActivationFunction": d.pick(_FUSED)}
    d.add(name, [source], _same(source), "Pool2DOptions", **options)


@_operators(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"], _ALL)
def _resizes(d: Draft, name: str, kind: str) -> None:
    source = d.image(kind, 7)
    corners, centers = d.pick(((False, False), (True, False), (False, True)))
    table = "ResizeBilinearOptions" if name == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    size = d.constant([d.integer(1, 12), d.integer(1, 12)])
    d.add(name, [source, size], _same(source), table, AlignCorners=corners, HalfPixelCenters=centers)


# --- shape ---------------------------------------------------------------------------------------------------


@_operators(["CONCATENATION"], _ALL)
def _concatenation(d: Draft, name: str, kind: str) -> None:
    first = d.source(kind)
    shape, axis = first.shape or (), d.integer(0, len(first.shape or ()) - 1)
    values = [first]
    for _ in range(d.integer(1, 2)):
        other = (*shape[:axis], d.integer(1, 4), *shape[axis + 1 :])
        values.append(d.source(kind, other, like=None if kind == U8 else first))
    result = d.result(kind, first.scale) if kind == U8 else _same(first)
    d.add(name, values, result, "ConcatenationOptions", Axis=axis)


@_operators(["PAD", "PADV2", "MIRROR_PAD"], _ALL)
def _pads(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind)
    shape = source.shape or ()
    most = [min(3, size - 1) if name == "MIRROR_PAD" else 3 for size in shape]
    inputs = [source, d.constant([[d.integer(0, each), d.integer(0, each)] for each in most])]
    table = {"PAD": "PadOptions", "PADV2": "PadV2Options", "MIRROR_PAD": "MirrorPadOptions"}[name]
    if name == "PADV2":
        inputs.append(T(kind, data=d.levels(kind, (1,)), scale=source.scale, zero_point=source.zero_point))
    options = {"Mode": d.integer(0, 1)} if name == "MIRROR_PAD" else {}
    d.add(name, inputs, _same(source), table, **options)


@_operators(["RESHAPE", "TRANSPOSE", "SLICE", "REVERSE_V2", "GATHER", "SPLIT", "TILE", "PACK", "EXPAND_DIMS"], _ALL)
def _moves(d: Draft, name: str, kind: str) -> None:
    source = d.source(kind, ranks=(1, 4) if name != "PACK" else (1, 3))
    shape = source.shape or ()
    rank = len(shape)
    axis = d.integer(0, rank - 1)
    if name == "RESHAPE":
        d.add(name, [source, d.constant([shape[0], math.prod(shape[1:])])], _same(source), "ReshapeOptions")
    elif name == "TRANSPOSE":
        d.add(name, [source, d.constant(d.rng.permutation(rank))], _same(source), "TransposeOptions")
    elif name == "SLICE":
        begin = [d.integer(0, size - 1) for size in shape]
        size = [d.integer(1, size - first) for size, first in zip(shape, begin, strict=True)]
        d.add(name, [source, d.constant(begin), d.constant(size)], _same(source), "SliceOptions")
    elif name == "REVERSE_V2":
        d.add(name, [source, d.constant([axis])], _same(source), "ReverseV2Options")
    elif name == "GATHER":
        indices = d.constant(d.rng.integers(0, shape[axis], d.integer(1, 4)))
        d.add(name, [source, indices], _same(source), "GatherOptions", Axis=axis)
    elif name == "SPLIT":
        inputs = [T(I32, data=axis), source]
        d.add(name, inputs, [_same(source) for _ in range(shape[axis])], "SplitOptions", NumSplits=shape[axis])
    elif name == "TILE":
        d.add(name, [source, d.constant([d.integer(1, 2) for _ in shape])], _same(source), "TileOptions")
    elif name == "PACK":
        values = [source, d.source(kind, shape, like=source)]
        d.add(name, values, _same(source), "PackOptions", ValuesCount=2, Axis=d.integer(0, rank))
    else:
        d.add(name, [source, T(I32, data=axis)], _same(source), "ExpandDimsOptions")


# --- graphs --------------------------------------------------------------------------------------------------


def draft(seed: int, names: Sequence[tuple[str, str]] = ()) -> Draft:
    """A graph of one to four operators, the same for the same seed; the first is the one whose turn it is.

    The shapes of results are LiteRT's, so that further operators can read them.
    """
    every = list(names or OPERATORS)
    made = Draft(seed)
    before: list[tuple[list[Any], int]]
    for number in range(made.integer(1, 4)):
        name = every[seed % len(every)] if number == 0 else made.pick(every)
        before = [(values, len(values)) for values in (made.net.ops, made.net.outputs, *made.inputs())]
        OPERATORS[name](made)
        try:
            results = litert_results(made, REFERENCE)
        except (ValueError, RuntimeError):  # LiteRT refuses it, as INT16 with scales of powers of two
            for values, count in before:
                del values[count:]
            continue
        for tensor, result in zip(made.net.outputs, results, strict=True):
            if tensor.shape is None:
                tensor.shape = result.shape
                if result.size:
                    made.values.append(tensor)
    return made


_KINDS = litert.OpResolverType
REFERENCE, OPTIMISED = _KINDS.BUILTIN_REF, _KINDS.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def litert_results(made: Draft, kernels: Any) -> list[np.ndarray]:
    """The results of one of LiteRT's sets of kernels. ValueError or RuntimeError where it refuses the graph."""
    return invoked(write(made.net), made.feeds, kernels)


def differences(made: Draft, results: Sequence[np.ndarray]) -> list[str]:
    """Where results of a graph differ from LiteRT's, by operator. Floats are compared as bits, too."""
    unsure: set[int] = set()
    found = []
    wanted = zip(made.net.outputs, litert_results(made, REFERENCE), litert_results(made, OPTIMISED), strict=True)
    by_tensor = {id(tensor): (*pair, got) for (tensor, *pair), got in zip(wanted, results, strict=True)}
    for op in made.net.ops:
        is_unsure = any(id(tensor) in unsure for tensor in op.inputs)
        for tensor in op.outputs:
            reference, optimised, got = by_tensor[id(tensor)]
            agreed = reference == optimised
            if is_unsure or not agreed.all():
                unsure.add(id(tensor))
            if is_unsure:
                continue
            wrong = agreed & (got.reshape(reference.shape) != reference)
            if wrong.any():
                unsure.add(id(tensor))
                first = np.unravel_index(int(wrong.argmax()), wrong.shape)
                text = f"{wrong.sum()} of {wrong.size} off, first {list(map(int, first))}"
                found.append(
                    f"{op.name} {made.kind(op)}: {text}: {got.reshape(wrong.shape)[first]} for {reference[first]}"
                )
    return found
