"""Operations and options that TFLite lacks agree with formulas of NumPy and SciPy in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from drawn import HypothesisDraw
from generators import Case, draw_case, run_case
from hypothesis import given
from hypothesis import strategies as st

from nnvk.ops import registry
from nnvk.ops.signature import BOOL8, F32, I32
from nnvk.types.codes import OperationCode as Op
from nnvk.types.codes import PaddingCode

ndimage, signal, special = (pytest.importorskip(f"scipy.{name}") for name in ("ndimage", "signal", "special"))

Formula = Callable[..., "np.ndarray | list[np.ndarray]"]
"""From the operands by name, in double precision or as Python numbers, to the outputs."""


def by_name(case: Case) -> dict[str, object]:
    """Operands under the names of the overload that fits; what was left out has its default."""
    for signature in registry.lookup(case.code).signatures:
        least, most = signature.arity
        count = len(case.inputs)
        params = signature.spread(count)
        fits = count >= least and (most is None or count <= most)
        if fits and all(
            arg.data is None or arg.type.code in param.accepts(F32) or arg.type.code in (BOOL8, I32)
            for param, arg in zip(params, case.inputs, strict=True)
        ):
            break
    else:
        raise AssertionError("no overload fits")
    named = {param.name: param.default for param in signature.params}
    for param, arg in zip(params, case.inputs, strict=True):
        if arg.data is not None:
            data = np.asarray(arg.data)
            named[param.name] = (
                data.astype(np.float64 if data.dtype.kind == "f" else data.dtype) if data.ndim else data.item()
            )
    return named


FORMULAS: dict[Op, Formula] = {}


def formula(*codes: Op) -> Callable[[Formula], Formula]:
    def register(function: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(codes, function))
        return function

    return register


# --- maps and pairs ------------------------------------------------------------------------------------------

_MAPS = {
    Op.ABS: np.abs,
    Op.EXP: np.exp,
    Op.FLOOR: np.floor,
    Op.LOG: np.log,
    Op.LOGICAL_NOT: np.logical_not,
    Op.LOGISTIC: special.expit,
    Op.NEG: np.negative,
    Op.RSQRT: lambda x: x**-0.5,
    Op.SIN: np.sin,
    Op.SQRT: np.sqrt,
    Op.TANH: np.tanh,
}
_PAIRS = {
    Op.EQUAL: np.equal,
    Op.GREATER: np.greater,
    Op.GREATER_EQUAL: np.greater_equal,
    Op.LESS: np.less,
    Op.LESS_EQUAL: np.less_equal,
    Op.NOT_EQUAL: np.not_equal,
    Op.LOGICAL_AND: np.logical_and,
    Op.LOGICAL_OR: np.logical_or,
    Op.MAXIMUM: np.maximum,
    Op.MINIMUM: np.minimum,
}
_FUSED = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide}
_RANGES = {0: (-np.inf, np.inf), 1: (0, np.inf), 2: (-1, 1), 3: (0, 6)}


@formula(*_MAPS)
def _map(code: Op, input: np.ndarray) -> np.ndarray:
    return _MAPS[code](input)


@formula(*_PAIRS)
def _pair(code: Op, input0: np.ndarray, input1: np.ndarray) -> np.ndarray:
    return _PAIRS[code](input0, input1)


@formula(*_FUSED)
def _fused(code: Op, input0: np.ndarray, input1: np.ndarray, activation: int) -> np.ndarray:
    return np.clip(_FUSED[code](input0, input1), *_RANGES[activation])


@formula(Op.POW)
def _pow(code: Op, base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    return np.power(base, exponent)


@formula(Op.ELU)
def _elu(code: Op, input: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(input >= 0, input, alpha * np.expm1(input))


# --- along an axis -------------------------------------------------------------------------------------------


@formula(Op.SOFTMAX, Op.LOG_SOFTMAX)
def _softmax(code: Op, input: np.ndarray, beta: float, axis: int) -> np.ndarray:
    return (special.softmax if code is Op.SOFTMAX else special.log_softmax)(input * beta, axis=axis)


@formula(Op.L2_NORMALIZATION)
def _l2(code: Op, input: np.ndarray, axis: int) -> np.ndarray:
    return input / np.maximum(np.linalg.norm(input, axis=axis, keepdims=True), 1e-6)


@formula(Op.LOCAL_RESPONSE_NORMALIZATION)
def _local_response(
    code: Op, input: np.ndarray, radius: int, bias: float, alpha: float, beta: float, axis: int
) -> np.ndarray:
    squares = ndimage.correlate1d(input**2, np.ones(2 * radius + 1), axis=axis, mode="constant")
    return input / (bias + alpha * squares) ** beta


@formula(Op.INSTANCE_NORMALIZATION)
def _instance(code: Op, input: np.ndarray, gamma: float, beta: float, epsilon: float, nchw: bool) -> np.ndarray:
    image = (2, 3) if nchw else (1, 2)
    spread = np.sqrt(input.var(axis=image, keepdims=True) + epsilon)
    return (input - input.mean(axis=image, keepdims=True)) / spread * gamma + beta


@formula(Op.CHANNEL_SHUFFLE)
def _channel_shuffle(code: Op, input: np.ndarray, num_groups: int, axis: int) -> np.ndarray:
    count = input.shape[axis]
    order = np.arange(count).reshape(num_groups, -1).T.reshape(-1)
    return np.take(input, order, axis=axis)


@formula(Op.REVERSE)
def _reverse(code: Op, input: np.ndarray, axis: np.ndarray) -> np.ndarray:
    return np.flip(input, axis[0])


@formula(Op.MIRROR_PAD)
def _mirror_pad(code: Op, input: np.ndarray, paddings: np.ndarray, mode: int) -> np.ndarray:
    return np.pad(input, paddings, mode="symmetric" if mode else "reflect")


# --- shapes --------------------------------------------------------------------------------------------------


@formula(Op.RESHAPE)
def _reshape(code: Op, input: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return input.reshape(shape.reshape(-1))


@formula(Op.EXPAND_DIMS)
def _expand_dims(code: Op, input: np.ndarray, axis: int) -> np.ndarray:
    return np.expand_dims(input, axis)


@formula(Op.SQUEEZE)
def _squeeze(code: Op, input: np.ndarray, axes: np.ndarray | None) -> np.ndarray:
    result = np.squeeze(input, None if axes is None else tuple(axes))
    return result.reshape(result.shape or (1,))


@formula(Op.RANK)
def _rank(code: Op, input: np.ndarray) -> np.ndarray:
    return np.array(input.ndim)


# --- windows -------------------------------------------------------------------------------------------------


def sides(
    named: dict[str, int], size: tuple[int, ...], reach: tuple[int, ...], stride: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Padding along height and width."""
    if "padding_left" in named:
        vertical = (named["padding_top"], named["padding_bottom"])
        return [vertical, (named["padding_left"], named["padding_right"])]
    if named["padding"] == PaddingCode.VALID:
        return [(0, 0), (0, 0)]
    totals = [
        max(0, (-(-length // step) - 1) * step + window - length)
        for length, window, step in zip(size, reach, stride, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def spread_out(taps: np.ndarray, dilation: tuple[int, int]) -> np.ndarray:
    """A window [height, width] with zeros between its taps."""
    height, width = ((size - 1) * step + 1 for size, step in zip(taps.shape, dilation, strict=True))
    wide = np.zeros((height, width))
    wide[:: dilation[0], :: dilation[1]] = taps
    return wide


def last(image: np.ndarray, nchw: bool) -> np.ndarray:
    return np.moveaxis(image, 1, 3) if nchw else image


def back(image: np.ndarray, nchw: bool) -> np.ndarray:
    return np.moveaxis(image, 3, 1) if nchw else image


@formula(Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.GROUPED_CONV_2D)
def _convolution(
    code: Op,
    input: np.ndarray,
    filter: np.ndarray,
    bias: np.ndarray,
    stride_width: int,
    stride_height: int,
    activation: int,
    nchw: bool,
    dilation_width: int = 1,
    dilation_height: int = 1,
    num_groups: int = 1,
    depth_multiplier: int = 1,
    **padding: int,
) -> np.ndarray:
    source = last(input, nchw)
    dilation, stride = (dilation_height, dilation_width), (stride_height, stride_width)
    reach = tuple((size - 1) * step + 1 for size, step in zip(filter.shape[1:3], dilation, strict=True))
    source = np.pad(source, [(0, 0), *sides(padding, source.shape[1:3], reach, stride), (0, 0)])
    count = filter.shape[3] if code is Op.DEPTHWISE_CONV_2D else filter.shape[0]
    outputs = []
    for number in range(count):
        if code is Op.DEPTHWISE_CONV_2D:
            channels, taps = [number // depth_multiplier], filter[0, :, :, number : number + 1]
        else:
            depth = filter.shape[3]
            first = number // (count // num_groups) * depth
            channels, taps = list(range(first, first + depth)), filter[number]
        images = []
        for image in source:
            parts = [
                signal.correlate2d(image[..., channel], spread_out(taps[..., place], dilation), mode="valid")
                for place, channel in enumerate(channels)
            ]
            images.append(sum(parts)[:: stride[0], :: stride[1]] + bias[number])
        outputs.append(images)
    return back(np.clip(np.moveaxis(np.array(outputs), 0, 3), *_RANGES[activation]), nchw)


@formula(Op.TRANSPOSE_CONV_2D)
def _transpose_convolution(
    code: Op,
    input: np.ndarray,
    filter: np.ndarray,
    bias: np.ndarray,
    stride_width: int,
    stride_height: int,
    activation: int,
    nchw: bool,
    output_shape: np.ndarray | None = None,
    **padding: int,
) -> np.ndarray:
    source = last(input, nchw)
    stride = (stride_height, stride_width)
    batches, height, width, channels = source.shape
    upsampled = np.zeros((batches, (height - 1) * stride[0] + 1, (width - 1) * stride[1] + 1, channels))
    upsampled[:, :: stride[0], :: stride[1]] = source
    full = np.array(
        [
            [sum(signal.convolve2d(image[..., c], taps[..., c]) for c in range(channels)) for taps in filter]
            for image in upsampled
        ]
    )
    full = np.moveaxis(full, 1, 3)
    if output_shape is None:
        (top, bottom), (left, right) = sides(padding, (0, 0), (0, 0), (1, 1))
        size = full.shape[1] - top - bottom, full.shape[2] - left - right
    else:
        size = tuple(output_shape[2:] if nchw else output_shape[1:3])
        (top, _), (left, _) = sides(padding, size, filter.shape[1:3], stride)
    full = np.pad(full, [(0, 0), (0, top + size[0]), (0, left + size[1]), (0, 0)])
    result = full[:, top : top + size[0], left : left + size[1]] + bias
    return back(np.clip(result, *_RANGES[activation]), nchw)


_POOLS: dict[Op, Callable[..., np.ndarray]] = {
    Op.AVERAGE_POOL_2D: np.nanmean,
    Op.MAX_POOL_2D: np.nanmax,
    Op.L2_POOL_2D: lambda windows, axis: np.sqrt(np.nanmean(windows**2, axis=axis)),
}


@formula(*_POOLS)
def _pool(
    code: Op,
    input: np.ndarray,
    stride_width: int,
    stride_height: int,
    filter_width: int,
    filter_height: int,
    activation: int,
    nchw: bool,
    **padding: int,
) -> np.ndarray:
    source = last(input, nchw)
    stride, window = (stride_height, stride_width), (filter_height, filter_width)
    borders = [(0, 0), *sides(padding, source.shape[1:3], window, stride), (0, 0)]
    padded = np.pad(source, borders, constant_values=np.nan)  # padding does not count
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    return back(np.clip(_POOLS[code](windows, axis=(4, 5)), *_RANGES[activation]), nchw)


# --- the rest ------------------------------------------------------------------------------------------------

_FOLDS = {
    Op.MEAN: np.mean,
    Op.REDUCE_ALL: np.all,
    Op.REDUCE_ANY: np.any,
    Op.REDUCE_MAX: np.max,
    Op.REDUCE_MIN: np.min,
    Op.REDUCE_PROD: np.prod,
    Op.REDUCE_SUM: np.sum,
}


@formula(*_FOLDS)
def _fold(code: Op, input: np.ndarray, axes: np.ndarray, keep_dims: bool) -> np.ndarray:
    result = _FOLDS[code](input, axis=tuple({int(axis) % input.ndim for axis in axes}), keepdims=bool(keep_dims))
    return result.reshape(result.shape or (1,))


@formula(Op.BATCH_MATMUL)
def _batch_matmul(code: Op, input0: np.ndarray, input1: np.ndarray, adj_x: bool, adj_y: bool) -> np.ndarray:
    sides = ("".join(("...", *(reversed(pair) if flip else pair))) for pair, flip in (("ij", adj_x), ("jk", adj_y)))
    return np.einsum(f"{','.join(sides)}->...ik", input0, input1)


@formula(Op.SVDF)
def _svdf(
    code: Op,
    input: np.ndarray,
    weights_feature: np.ndarray,
    weights_time: np.ndarray,
    bias: np.ndarray | None,
    state_in: np.ndarray,
    rank: int,
    activation: int,
) -> list[np.ndarray]:
    filters, memory = weights_time.shape
    state = state_in.reshape(len(input), filters, memory).copy()
    state[:, :, -1] = input @ weights_feature.T
    result = (state * weights_time).sum(axis=2).reshape(len(input), -1, rank).sum(axis=2)
    if bias is not None:
        result = result + bias
    shifted = np.concatenate((state[:, :, 1:], np.zeros((len(input), filters, 1))), axis=2)
    return [shifted.reshape(len(input), -1), np.clip(result, *_RANGES[activation])]


@formula(Op.TOPK_V2)
def _topk(code: Op, input: np.ndarray, k: int) -> list[np.ndarray]:
    reversed_ = input[..., ::-1]
    order = np.argsort(-reversed_, axis=-1, kind="stable")[..., :k]
    return [np.take_along_axis(reversed_, order, axis=-1), input.shape[-1] - 1 - order]


@formula(Op.RESIZE_NEAREST_NEIGHBOR, Op.RESIZE_BILINEAR)
def _resize(
    code: Op,
    input: np.ndarray,
    nchw: bool,
    align_corners: bool,
    half_pixel_centers: bool,
    output_width: int | None = None,
    output_height: int | None = None,
    width_scale: float = 0.0,
    height_scale: float = 0.0,
) -> np.ndarray:
    image = last(input, nchw)
    for axis, (out, factor) in enumerate(((output_height, height_scale), (output_width, width_scale)), 1):
        size = image.shape[axis]
        count = int(size * factor) if out is None else out
        step = (size - 1) / (count - 1) if align_corners and count > 1 else size / count
        places = np.arange(count) * step + (step / 2 - 0.5 if half_pixel_centers else 0)
        if code is Op.RESIZE_NEAREST_NEIGHBOR:
            # Halves hang on the last bit of float32, as TFLite computes it.
            exact = (np.arange(count, dtype=np.float32) + np.float32(half_pixel_centers) / 2) * np.float32(step)
            index = np.floor(exact + np.float32(0.5)) if align_corners else np.floor(exact)
            image = np.take(image, np.clip(index.astype(int), 0, size - 1), axis=axis)
            continue
        places = np.clip(places, 0, None)
        below = np.minimum(np.floor(places).astype(int), size - 1)
        above = np.minimum(below + 1, size - 1)
        share = (places - below).reshape([-1 if each == axis else 1 for each in range(4)])
        image = np.take(image, below, axis=axis) * (1 - share) + np.take(image, above, axis=axis) * share
    return back(image, nchw)


# --- the test ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(FORMULAS), ids=lambda code: code.name)
@given(data=st.data())
def test_formula(code: Op, data: st.DataObject) -> None:
    leading = next(t for t in (F32, BOOL8) if t in registry.lookup(code).types)
    case = draw_case(HypothesisDraw(data), code, leading)
    with np.errstate(all="ignore"):
        expected = FORMULAS[code](code, **by_name(case))
    for got, want in zip(run_case(case), expected if isinstance(expected, list) else [expected], strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
