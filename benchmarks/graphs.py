"""Models of one operator as ``.tflite``, float32 and int8, so that nnvk and LiteRT run the very same bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tflite import ActivationFunctionType, Padding

import nnvk

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from tflite_writer import Graph, Operator, Quantization, Tensor, serialize

FLOAT, INT8 = np.dtype(np.float32), np.dtype(np.int8)
Shape = tuple[int, ...]
_UNDILATED = {"DilationHFactor": 1, "DilationWFactor": 1}


@dataclass(frozen=True, slots=True)
class Single:
    """One operator with its data."""

    graph: bytes | nnvk.Model
    """A ``.tflite`` file, or a model where these don't have the operation."""
    inputs: tuple[np.ndarray, ...]
    output: Tensor | None = None
    """The output of the operator of a ``.tflite`` file."""
    weights: np.ndarray | None = None
    """The weights of convolutions and FULLY_CONNECTED, as in the graph."""
    bias: np.ndarray | None = None
    real_inputs: tuple[np.ndarray, ...] = ()
    real_weights: np.ndarray | None = None
    real_bias: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to write an operator: its versions for float32 and int8, and its options."""

    builtin: str
    versions: tuple[int, int] = (1, 2)
    table: str | None = None
    options: Mapping[str, int | float | bool] | None = None


def activation(name: str, shape: Shape, dtype: np.dtype, scale: float = 1 / 127, zero_point: int = 0) -> Tensor:
    """A tensor that is computed or fed."""
    return Tensor(name, shape, dtype, None, Quantization((scale,), (zero_point,)) if dtype == INT8 else None)


def feed(tensor: Tensor, seed: int = 0) -> np.ndarray:
    """Values for an input: reals from -1 to 1."""
    generator = np.random.default_rng(seed)
    if tensor.dtype == INT8:
        return generator.integers(-127, 128, tensor.shape, np.int8)
    return generator.uniform(-1, 1, tensor.shape).astype(np.float32)


def single(kind: Kind, inputs: Sequence[Tensor], output: Tensor) -> Single:
    """An operator without weights."""
    data = tuple(feed(tensor, seed) for seed, tensor in enumerate(inputs) if tensor.data is None)
    return Single(_graph(kind, inputs, output), data, output)


def convolution(source: Shape, out_channels: int, window: int, stride: int, dtype: np.dtype, groups: int = 1) -> Single:
    """CONV_2D with SAME padding on NHWC, perhaps of groups of channels."""
    options = {"Padding": Padding.SAME, "StrideH": stride, "StrideW": stride, **_UNDILATED}
    filter_ = (out_channels, window, window, source[3] // groups)
    target = (source[0], -(-source[1] // stride), -(-source[2] // stride), out_channels)
    return _linear(Kind("CONV_2D", (1, 3), "Conv2DOptions", options), source, filter_, target, 0, dtype)


def depthwise(source: Shape, window: int, stride: int, dtype: np.dtype) -> Single:
    """DEPTHWISE_CONV_2D with SAME padding on NHWC, a multiplier of 1."""
    options = {"Padding": Padding.SAME, "StrideH": stride, "StrideW": stride, "DepthMultiplier": 1, **_UNDILATED}
    filter_ = (1, window, window, source[3])
    target = (source[0], -(-source[1] // stride), -(-source[2] // stride), source[3])
    kind = Kind("DEPTHWISE_CONV_2D", (1, 3), "DepthwiseConv2DOptions", options)
    return _linear(kind, source, filter_, target, 3, dtype)


def fully_connected(rows: int, inputs: int, outputs: int, dtype: np.dtype) -> Single:
    """FULLY_CONNECTED; int8 has one scale for all weights, which is what NNAPI allows."""
    kind = Kind("FULLY_CONNECTED", (1, 4), "FullyConnectedOptions", {})
    return _linear(kind, (rows, inputs), (outputs, inputs), (rows, outputs), None, dtype)


def transposed_convolution(source: Shape, out_channels: int, window: int, stride: int, dtype: np.dtype) -> Single:
    """TRANSPOSE_CONV with SAME padding on NHWC: the output is ``stride`` times as large."""
    options = {"Padding": Padding.SAME, "StrideH": stride, "StrideW": stride}
    filter_ = (out_channels, window, window, source[3])
    target = (source[0], source[1] * stride, source[2] * stride, out_channels)
    kind = Kind("TRANSPOSE_CONV", (3, 3), "TransposeConvOptions", options)
    return _linear(kind, source, filter_, target, 0, dtype, shape_first=True)


def _linear(
    kind: Kind,
    source: Shape,
    filter_: Shape,
    target: Shape,
    channel_axis: int | None,
    dtype: np.dtype,
    *,
    shape_first: bool = False,
) -> Single:
    """An operator with weights and bias, scaled so that outputs use the range of int8.

    ``shape_first``: it takes the output's shape and the weights before the input.
    """
    generator = np.random.default_rng(7)
    terms = int(np.prod(filter_)) // target[-1]
    fed = activation("input", source, dtype)
    data = feed(fed)
    if dtype == FLOAT:
        weights = generator.uniform(-1, 1, filter_).astype(np.float32)
        bias = generator.uniform(-1, 1, target[-1]).astype(np.float32)
        constants = [Tensor("weights", filter_, FLOAT, weights), Tensor("bias", bias.shape, FLOAT, bias)]
        reals = ((data,), weights, bias)
        output = activation("output", target, dtype)
    else:
        weights = generator.integers(-127, 128, filter_, np.int8)
        bias = generator.integers(-1000, 1000, target[-1], np.int32)
        count = 1 if channel_axis is None else target[-1]
        scales = (generator.uniform(0.5, 1.0, count) / 127).astype(np.float32)
        axis = channel_axis or 0
        along = scales.reshape([-1 if d == axis else 1 for d in range(len(filter_))])
        bias_scales = scales * np.float32(1 / 127)
        quantization = Quantization(tuple(scales.tolist()), (0,) * count, axis)
        bias_quantization = Quantization(tuple(bias_scales.tolist()), (0,) * count)
        constants = [
            Tensor("weights", filter_, INT8, weights, quantization),
            Tensor("bias", bias.shape, np.dtype(np.int32), bias, bias_quantization),
        ]
        reals = ((data * np.float32(1 / 127),), weights * along, bias * bias_scales)
        output = activation("output", target, dtype, scale=float(np.sqrt(terms)) / 127)
    inputs = [fed, *constants]
    if shape_first:
        inputs = [_constant("shape", target), constants[0], fed, constants[1]]
    return Single(_graph(kind, inputs, output), (data,), output, weights, bias, *reals)


def _graph(kind: Kind, inputs: Sequence[Tensor], output: Tensor) -> bytes:
    version = kind.versions[any(tensor.dtype == INT8 for tensor in inputs)]
    places = tuple(range(len(inputs)))
    operator = Operator(kind.builtin, places, (len(inputs),), version, kind.table, kind.options or {})
    fed = tuple(place for place, tensor in zip(places, inputs, strict=True) if tensor.data is None)
    return serialize(Graph("benchmark", [*inputs, output], [operator], fed, (len(inputs),)), "nnvk benchmark")


# --- every other operator with a shader -------------------------------------------------------------------------------

NO_ACTIVATION = {"FusedActivationFunction": ActivationFunctionType.NONE}


def _constant(name: str, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, data.dtype, data)


def pool(builtin: str, source: Shape, window: int, stride: int, padding: int, dtype: np.dtype) -> Single:
    """AVERAGE_POOL_2D, L2_POOL_2D or MAX_POOL_2D."""
    options = {"Padding": padding, "FilterHeight": window, "FilterWidth": window, "StrideH": stride, "StrideW": stride}
    reach = 0 if padding == Padding.SAME else window - 1
    height, width = (-(-(size - reach) // stride) for size in source[1:3])
    kind = Kind(builtin, (1, 2), "Pool2DOptions", options)
    return single(kind, [activation("input", source, dtype)], activation("o", (1, height, width, source[3]), dtype))


def binary(builtin: str, first: Shape, second: Shape, dtype: np.dtype) -> Single:
    """ADD, SUB or MUL of two inputs; the second may be broadcast."""
    table = f"{builtin.title()}Options"
    inputs = [activation("a", first, dtype), activation("b", second, dtype)]
    return single(Kind(builtin, (1, 2), table, NO_ACTIVATION), inputs, activation("o", first, dtype, 2 / 127))


def unary(builtin: str, source: Shape, dtype: np.dtype) -> Single:
    """An operator of one element at a time; some have one output scale in int8."""
    scale, zero_point = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(builtin, (1 / 127, 0))
    kind = Kind(builtin, (1, 1 if builtin == "RELU_N1_TO_1" else 2))
    return single(kind, [activation("input", source, dtype)], activation("o", source, dtype, scale, zero_point))


def softmax(source: Shape, dtype: np.dtype) -> Single:
    """SOFTMAX over the last axis."""
    kind = Kind("SOFTMAX", (1, 2), "SoftmaxOptions", {"Beta": 1.0})
    return single(kind, [activation("input", source, dtype)], activation("o", source, dtype, 1 / 256, -128))


def log_softmax(source: Shape) -> Single:
    """LOG_SOFTMAX over the last axis, of float32."""
    kind = Kind("LOG_SOFTMAX", (1, 2), "LogSoftmaxOptions")
    return single(kind, [activation("input", source, FLOAT)], activation("o", source, FLOAT))


def l2_normalization(source: Shape, dtype: np.dtype) -> Single:
    """L2_NORMALIZATION over the last axis."""
    kind = Kind("L2_NORMALIZATION", (1, 2), "L2NormOptions", {"FusedActivationFunction": ActivationFunctionType.NONE})
    return single(kind, [activation("input", source, dtype)], activation("o", source, dtype, 1 / 128, 0))


def local_response(source: Shape, radius: int) -> Single:
    """LOCAL_RESPONSE_NORMALIZATION over the channels, of float32."""
    options = {"Radius": radius, "Bias": 1.0, "Alpha": 1e-4, "Beta": 0.75}
    kind = Kind("LOCAL_RESPONSE_NORMALIZATION", table="LocalResponseNormalizationOptions", options=options)
    return single(kind, [activation("input", source, FLOAT)], activation("o", source, FLOAT))


def resize(builtin: str, source: Shape, size: tuple[int, int], dtype: np.dtype) -> Single:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR to a height and a width, with centres of pixels at halves."""
    table = "ResizeBilinearOptions" if builtin == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    kind = Kind(builtin, (3, 3), table, {"AlignCorners": False, "HalfPixelCenters": True})
    inputs = [activation("input", source, dtype), _constant("size", size)]
    return single(kind, inputs, activation("o", (source[0], *size, source[3]), dtype))


def batch_matmul(first: Shape, second: Shape, dtype: np.dtype) -> Single:
    """BATCH_MATMUL of two inputs."""
    kind = Kind("BATCH_MATMUL", (1, 2), "BatchMatMulOptions", {"AdjX": False, "AdjY": False})
    output = activation("o", (*first[:-1], second[-1]), dtype, scale=float(np.sqrt(first[-1])) / 127)
    return single(kind, [activation("a", first, dtype), activation("b", second, dtype)], output)


def concatenation(sources: Sequence[Shape], dtype: np.dtype) -> Single:
    """CONCATENATION along the channels."""
    inputs = [activation(f"i{number}", shape, dtype) for number, shape in enumerate(sources)]
    target = (*sources[0][:-1], sum(shape[-1] for shape in sources))
    kind = Kind("CONCATENATION", (1, 2), "ConcatenationOptions", {"Axis": len(target) - 1, **NO_ACTIVATION})
    return single(kind, inputs, activation("o", target, dtype))


def pad(source: Shape, by: int, dtype: np.dtype) -> Single:
    """PAD of height and width."""
    paddings = _constant("paddings", [[0, 0], [by, by], [by, by], [0, 0]])
    target = (source[0], source[1] + 2 * by, source[2] + 2 * by, source[3])
    inputs = [activation("i", source, dtype), paddings]
    return single(Kind("PAD", table="PadOptions"), inputs, activation("o", target, dtype))


def mean(source: Shape, axes: Sequence[int], dtype: np.dtype) -> Single:
    """MEAN that keeps the reduced axes."""
    kind = Kind("MEAN", (1, 2), "ReducerOptions", {"KeepDims": True})
    target = tuple(1 if axis in axes else size for axis, size in enumerate(source))
    return single(kind, [activation("i", source, dtype), _constant("axes", list(axes))], activation("o", target, dtype))


def reshape(source: Shape, target: Shape, dtype: np.dtype) -> Single:
    """RESHAPE."""
    inputs = [activation("i", source, dtype), _constant("shape", list(target))]
    return single(Kind("RESHAPE", (1, 1), "ReshapeOptions"), inputs, activation("o", target, dtype))


def quantize(source: Shape, dtype: np.dtype) -> Single:
    """QUANTIZE float32 to int8 where ``dtype`` is int8, else DEQUANTIZE int8 to float32."""
    builtin, other = ("QUANTIZE", FLOAT) if dtype == INT8 else ("DEQUANTIZE", INT8)
    kind = Kind(builtin, (1, 2), f"{builtin.title()}Options")
    return single(kind, [activation("i", source, other)], activation("o", source, dtype))


Make = Callable[[np.dtype], Single]
"""Makes an operator for a data type."""
