"""Convolutions. They keep NCHW, which NNAPI has as an option; weights are laid anew."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nnvk.base.sizes import everything
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import scalar, with_number
from nnvk.importers.decompositions.moving import sliced, strided, transposed
from nnvk.importers.emitter import NONE, is_quantised
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.matmul import centred, exact_count, whole_sum
from nnvk.importers.onnx.mappers.quantised_operands import QuantisedOperands, wanted_operands
from nnvk.importers.onnx.mappers.reduction import batch_statistics
from nnvk.importers.onnx.mappers.shape import joined, padded
from nnvk.importers.onnx.mappers.windows import Window, as_image, image_shape, numbers_of, windows_of
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.types import constant
from nnvk.types.codes import OperationCode
from nnvk.types.constant import Constant, DeferredConstant, elements, portion, reshaped
from nnvk.types.operand import OperandType

Op = OperationCode
_MOST_GROUPS = 512
_VOLUME = 5
"""The rank of a tensor of volumes, [N, C, D, H, W]."""


@operator("Conv", "com.microsoft.FusedConv")
def conv(c: Context) -> Value:
    """Map Conv: in 8-bit levels if input, weights and output are quantised, otherwise in real numbers."""
    weights, shape = c.tensor(1), c.tensor(0).shape
    _check(c, shape, weights.shape)
    quantised = wanted_operands(c) if len(shape) < _VOLUME else None
    if quantised is not None:
        return quantised_convolution(c, quantised)
    filters: Constant | Value = c.real_number(1) if weights.constant is None else weights.constant
    bias: np.ndarray | Value | None = None
    if c.has(2):
        bias = c.tensor(2).array if c.tensor(2).is_constant else c.real_number(2)
    if not isinstance(filters, Value) and not isinstance(bias, Value):
        filters, bias = _with_batch_normalization(c, filters, bias)
    result = convolved(c, c.real_number(0), filters, bias)
    if c.node.op_type == "FusedConv":
        if c.has(3):
            result = c.emit(Op.ADD, result, c.real_number(3), NONE, out=result.type)
        result = _activated(c, result)
    return result


_ACTIVATIONS = {"Relu": (Op.RELU, 0), "Tanh": (Op.TANH, 0), "Sigmoid": (Op.LOGISTIC, 0), "LeakyRelu": (Op.PRELU, 1)}
"""Operations by name, and how many numbers they take."""


def _activated(c: Context, value: Value) -> Value:
    kind, numbers = c.node.text("activation", ""), c.node.reals("activation_params") or []
    if kind in _ACTIVATIONS and len(numbers) >= _ACTIVATIONS[kind][1]:
        code, count = _ACTIVATIONS[kind]
        return c.emit(code, value, *(scalar(c, number, value) for number in numbers[:count]), out=value.type)
    if kind not in ("", "Clip", "HardSigmoid") or (kind and len(numbers) != 2):
        raise Unmapped(f"activation '{kind}' with {len(numbers)} numbers is unknown here")
    if kind == "HardSigmoid":
        slope, offset = numbers
        value = with_number(c, Op.ADD, with_number(c, Op.MUL, value, slope, NONE), offset, NONE)
        numbers = [0.0, 1.0]
    if kind:
        value = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, value, numbers[0]), numbers[1])
    return value


def _check(c: Context, shape: tuple[int, ...], filters: tuple[int, ...]) -> None:
    rank = len(shape) - 2
    if rank not in (1, 2, 3) or len(filters) != rank + 2:
        raise Unmapped(
            f"rows, images and volumes are convolved, got an input of shape {list(shape)} and weights of shape "
            f"{list(filters)}"
        )
    groups = c.node.integer("group", 1)
    if groups < 1 or shape[1] != filters[1] * groups or filters[0] % groups:
        raise Unmapped(
            f"weights of shape {list(filters)} in {groups} groups do not fit the {shape[1]} channels of the input"
        )


def _with_batch_normalization(
    c: Context, filters: Constant, bias: np.ndarray | None
) -> tuple[Constant, np.ndarray | None]:
    """The weights and bias that do the work of a BatchNormalization behind, where its statistics are constants."""
    if c.node.op_type != "Conv":  # an activation lies between
        return filters, bias
    after = c.outside.follower(c.node.outputs[0])
    if after is None or after.op_type != "BatchNormalization" or after.integer("training_mode", 0):
        return filters, bias
    if any(after.outputs[1:]) or len(after.inputs) != 5 or after.inputs[0] != c.node.outputs[0]:
        return filters, bias
    arrays = [c.outside.constant(name) for name in after.inputs[1:]]
    known = [array for array in arrays if array is not None and array.shape == filters.shape[:1]]
    if len(known) < 4:
        return filters, bias
    scale, shift = batch_statistics(known, after.real("epsilon", 1e-5))
    c.outside.absorb(after)
    factors = scale.reshape(-1, *[1] * (len(filters.shape) - 1))
    form = "scaled", factors.tobytes()
    scaled = DeferredConstant(filters.shape, filters.dtype, lambda: elements(filters) * factors, filters, form)
    return scaled, shift + (0 if bias is None else bias * scale)


def convolved(c: Context, source: Value, filters: Constant | Value, bias: np.ndarray | Value | None) -> Value:
    """The convolution that the node's attributes describe, of real numbers, with weights [M, C / groups, ...]."""
    spatial, kernel = source.shape[2:], filters.shape[2:]
    windows = windows_of(c, spatial, kernel)
    if len(windows) > 2:
        source, filters = _as_images(c, source, filters, windows[0])
    vertical, horizontal = as_image(windows[-2:])
    groups = c.node.integer("group", 1)
    shape = source.shape
    image = c.reshape(source, image_shape(shape))
    laid = _laid(c, filters, _is_depthwise(c, shape, filters.shape), image)
    units = filters.shape[0]
    if not isinstance(bias, Value):
        type_ = OperandType(source.code)
        bias = c.constant(charged.zeros(units) if bias is None else bias.reshape(-1), type_)
    result = _emitted(c, image, laid, bias, (vertical, horizontal), groups, units)
    if len(windows) > 2:
        return _as_volumes(c, result, windows[0].out)
    return c.reshape(result, (shape[0], units, *(window.out for window in windows)))


def _as_images(c: Context, source: Value, filters: Constant | Value, window: Window) -> tuple[Value, Constant | Value]:
    """Volumes as images [N * depths, C * taps, H, W], and weights of so many channels.

    There is an image for each place of the window; what its taps along the depth see are neighbouring channels.
    """
    count, channels, depth, height, width = source.shape
    area = height * width
    planes = transposed(c, c.reshape(source, (count, channels, depth, area)), (0, 2, 1, 3))
    planes = padded(c, planes, [0, window.before, 0, 0], [0, window.after, 0, 0], 0.0)
    seen = []
    for tap in range(window.kernel):
        taken = everything(planes.shape)
        first = tap * window.dilation
        taken[1] = range(first, first + (window.out - 1) * window.stride + 1, window.stride)
        seen.append(c.reshape(strided(c, planes, taken), (count * window.out * channels, 1, area)))
    stacked = joined(c, seen, 1) if len(seen) > 1 else seen[0]
    laid = (filters.shape[0], filters.shape[1] * filters.shape[2], *filters.shape[3:])
    images = c.reshape(stacked, (count * window.out, channels * window.kernel, height, width))
    return images, _reshaped(c, filters, laid)


def _as_volumes(c: Context, images: Value, depth: int) -> Value:
    """Images [N * depths, C, H, W] as volumes."""
    count, channels, height, width = images.shape
    planes = c.reshape(images, (count // depth, depth, channels, height * width))
    return c.reshape(transposed(c, planes, (0, 2, 1, 3)), (count // depth, channels, depth, height, width))


def quantised_convolution(c: Context, operands: QuantisedOperands) -> Value:
    """`convolved` in 8-bit levels."""
    source, filters = operands.source, operands.weights
    windows = windows_of(c, source.shape[2:], filters.shape[2:])
    is_depthwise = _is_depthwise(c, source.shape, filters.shape)
    type_ = operands.type_of(3 if is_depthwise else 0)
    laid = c.constant(_order(filters.reshape(image_shape(filters.shape)), is_depthwise), type_)
    bias = c.constant(operands.bias, operands.bias_type)
    image = c.reshape(source, image_shape(source.shape))
    groups = c.node.integer("group", 1)
    result = _emitted(c, image, laid, bias, as_image(windows), groups, filters.shape[0], operands.out)
    return c.reshape(result, (source.shape[0], filters.shape[0], *(window.out for window in windows)))


def _is_depthwise(c: Context, shape: tuple[int, ...], filters: tuple[int, ...]) -> bool:
    groups = c.node.integer("group", 1)
    return groups > 1 and groups == shape[1] and filters[1] == 1


def _order(filters: np.ndarray, is_depthwise: bool) -> np.ndarray:
    """Weights [M, C, H, W] as [M, H, W, C], or [1, H, W, M] of a depthwise convolution."""
    return np.transpose(filters, _axes(is_depthwise))


def _axes(is_depthwise: bool) -> tuple[int, int, int, int]:
    """The axes of weights in the order that NNAPI has them in."""
    return (1, 2, 3, 0) if is_depthwise else (0, 2, 3, 1)


def _laid(c: Context, filters: Constant | Value, is_depthwise: bool, image: Value) -> Value:
    """`_order`, of weights that are no constants when the model runs."""
    shape = image_shape(filters.shape)
    if not isinstance(filters, Value):

        def laid() -> Value:
            ordered = constant.transposed(reshaped(filters, shape), _axes(is_depthwise))
            return c.graph.kept(OperandType(image.code, ordered.shape), ordered)

        own = c.tensor(1)  # which other nodes may share
        return own.once((image.code, is_depthwise, shape), laid) if filters is own.constant else laid()
    return transposed(c, c.reshape(filters, shape), _axes(is_depthwise))


def _emitted(
    c: Context,
    image: Value,
    laid: Value,
    bias: Value,
    windows: tuple[Window, Window],
    groups: int,
    units: int,
    out: OperandType | None = None,
) -> Value:
    vertical, horizontal = windows
    out = out or image.type
    pads = horizontal.before, horizontal.after, vertical.before, vertical.after
    strides = horizontal.stride, vertical.stride
    dilation = horizontal.dilation, vertical.dilation
    dilated = () if dilation == (1, 1) else dilation
    channels = image.shape[1]
    if groups == 1:
        return c.emit(Op.CONV_2D, image, laid, bias, *pads, *strides, NONE, True, *dilated, out=out)
    if groups == channels and laid.shape[0] == 1 and laid.shape[3] == units:
        numbers = (*pads, *strides, units // groups, NONE, True, *dilated)
        return c.emit(Op.DEPTHWISE_CONV_2D, image, laid, bias, *numbers, out=out)
    if dilated:
        if laid.is_constant:
            wide = _spread(laid.array, (1, vertical.dilation, horizontal.dilation, 1), laid.type.zero_point)
            laid = c.constant(wide, laid.type.with_dimensions(()))
        elif is_quantised(laid):
            raise Unmapped(f"NNAPI has no grouped convolution with dilation, got {groups} groups, dilation {dilation}")
        else:
            laid = _spread_value(c, laid, [vertical.dilation, horizontal.dilation])
    return c.emit(Op.GROUPED_CONV_2D, image, laid, bias, *pads, *strides, groups, NONE, True, out=out)


def _spread(array: np.ndarray, dilation: tuple[int, ...], zero: int = 0) -> np.ndarray:
    """Insert zeros between weights, as a replacement for a dilation."""
    sizes = [(size - 1) * stride + 1 for size, stride in zip(array.shape, dilation, strict=True)]
    wide = charged.full(sizes, zero, array.dtype)
    wide[tuple(slice(None, None, stride) for stride in dilation)] = array
    return wide


# --- transposed ----------------------------------------------------------------------------------------------


@operator("ConvTranspose")
def conv_transpose(c: Context) -> Value:
    """Map ConvTranspose. Weights are [C, M / groups, ...]. For a larger output they are padded with zeros."""
    source, filters = c.real_number(0), c.tensor(1)
    shape, rank = source.shape, len(source.shape) - 2
    if rank not in (1, 2, 3) or filters.rank != rank + 2:
        raise Unmapped(f"rows, images and volumes are convolved, got an input of shape {list(shape)}")
    groups = c.node.integer("group", 1)
    if groups < 1 or shape[1] != filters.shape[0] or filters.shape[0] % groups or groups > _MOST_GROUPS:
        raise Unmapped(f"weights of shape {list(filters.shape)} in {groups} groups do not fit {list(shape)}")
    dilations = numbers_of(c.node, "dilations", rank, 1)
    strides, extra, pads = _transposed_sizes(c, shape[2:], filters.shape[2:])
    given: Constant | Value = c.real_number(1) if filters.constant is None else filters.constant
    units = filters.shape[1] * groups
    type_ = OperandType(source.code)
    none = c.constant(charged.zeros(units), type_)
    bias = c.real_number(2) if c.has(2) else none
    if rank < 3:
        lines = [[1, *one] if rank == 1 else one for one in (strides, dilations)]
        ends = ([0, *extra], [(0, 0), *pads]) if rank == 1 else (extra, pads)
        laid = _laid_transposed(c, _reshaped(c, given, image_shape(filters.shape)), groups, ends[0], lines[1])
        result = _transposed_image(c, c.reshape(source, image_shape(shape)), laid, bias, lines[0], ends[1])
        return c.reshape(result, (*result.shape[:2], *result.shape[4 - rank :]))
    # Each image of a volume gives all taps along the depth as channels, which are then added up where they belong.
    count, channels, depth, height, width = shape
    taps = filters.shape[2]
    planes = transposed(c, c.reshape(source, (count, channels, depth, height * width)), (0, 2, 1, 3))
    stacked = _reshaped(c, given, (channels, filters.shape[1] * taps, *filters.shape[3:]))
    laid = _laid_transposed(c, stacked, groups, extra[1:], dilations[1:])
    images = c.reshape(planes, (count * depth, channels, height, width))
    zeros = c.constant(charged.zeros(units * taps), type_)
    result = _transposed_image(c, images, laid, zeros, strides[1:], pads[1:])
    deep = _along_depth(c, result, depth, taps, strides[0], dilations[0], extra[0], pads[0])
    if bias is not none:
        deep = c.emit(Op.ADD, deep, c.reshape(bias, (1, 1, units, 1)), NONE, out=type_)
    return c.reshape(transposed(c, deep, (0, 2, 1, 3)), (count, units, deep.shape[1], *result.shape[2:]))


def _along_depth(
    c: Context, images: Value, depth: int, taps: int, stride: int, dilation: int, extra: int, pads: tuple[int, int]
) -> Value:
    """The sum [N, depths, M, H * W] of what images [N * depth, M * taps, H, W] give to each place along the depth."""
    count, units = images.shape[0] // depth, images.shape[1] // taps
    area = images.shape[2] * images.shape[3]
    parts = c.reshape(images, (count * depth, units, taps, area))
    total: Value | None = None
    for tap in range(taps):
        taken = everything(parts.shape)
        taken[2] = range(tap, tap + 1)
        one = c.reshape(sliced(c, parts, taken), (count, depth, 1, units * area))
        one = padded(c, one, [0] * 4, [0, 0, stride - 1, 0], 0.0)
        one = c.reshape(one, (count, depth * stride, units * area))
        one = padded(c, one, [0, tap * dilation, 0], [0, (taps - 1 - tap) * dilation, 0], 0.0)
        total = one if total is None else c.emit(Op.ADD, total, one, NONE, out=images.type)
    assert total is not None
    total = padded(c, total, [0, -pads[0], 0], [0, extra + 1 - stride - pads[1], 0], 0.0)
    return c.reshape(total, (count, total.shape[1], units, area))


def _transposed_image(
    c: Context, image: Value, laid: list[Value], bias: Value, strides: list[int], pads: list[tuple[int, int]]
) -> Value:
    """TRANSPOSE_CONV_2D of each group; strides and paddings are those of the height and of the width."""
    groups = len(laid)
    per_group, units = image.shape[1] // groups, bias.shape[0] // groups
    numbers = (*pads[1], *pads[0], strides[1], strides[0], NONE, True)
    full = everything(image.shape)
    parts = []
    for group, filters in enumerate(laid):
        some, own = image, bias
        if groups > 1:
            some = sliced(c, image, (full[0], range(group * per_group, (group + 1) * per_group), *full[2:]))
            own = sliced(c, bias, (range(group * units, (group + 1) * units),))
        parts.append(c.emit(Op.TRANSPOSE_CONV_2D, some, filters, own, *numbers, out=image.type))
    return joined(c, parts, 1) if groups > 1 else parts[0]


def _transposed_sizes(
    c: Context, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """The strides, what the weights grow by, and the paddings, along each axis."""
    rank = len(spatial)
    node = c.node
    strides = numbers_of(node, "strides", rank, 1)
    dilations = numbers_of(node, "dilations", rank, 1)
    extra = numbers_of(node, "output_padding", rank, 0)
    wanted = node.integers("output_shape")
    auto = node.text("auto_pad", "NOTSET")
    given = node.integers("pads") if auto == "NOTSET" else None
    pads = []
    for axis, (size, width, stride) in enumerate(zip(spatial, kernel, strides, strict=True)):
        reach = (width - 1) * dilations[axis] + 1
        full = (size - 1) * stride + reach + extra[axis]
        if wanted is not None or auto.startswith("SAME"):
            out = wanted[-rank:][axis] if wanted is not None else size * stride
            total = max(0, full - out)
            extra[axis] += max(0, out - full)
            half = total // 2
            pads.append((half, total - half) if auto == "SAME_UPPER" or wanted is None else (total - half, half))
            if auto == "SAME_LOWER":
                pads[-1] = (total - half, half)
        else:
            pads.append((given[axis], given[axis + rank]) if given else (0, 0))
    return strides, extra, pads


def _reshaped(c: Context, filters: Constant | Value, shape: tuple[int, ...]) -> Constant | Value:
    return c.reshape(filters, shape) if isinstance(filters, Value) else reshaped(filters, shape)


def _laid_transposed(
    c: Context, filters: Constant | Value, groups: int, extra: list[int], dilations: list[int]
) -> list[Value]:
    """Weights [C, M / groups, H, W] as [M / groups, H, W, C / groups] of each group."""
    per_group = filters.shape[0] // groups
    if not isinstance(filters, Value):
        array = _spread(np.transpose(elements(filters), (1, 2, 3, 0)), (1, *dilations, 1))
        array = charged.pad(array, ((0, 0), (0, extra[0]), (0, extra[1]), (0, 0)))
        type_ = OperandType(c.real_number(0).code)
        return [c.constant(array[..., one * per_group : (one + 1) * per_group], type_) for one in range(groups)]
    value = _spread_value(c, transposed(c, filters, (1, 2, 3, 0)), dilations)
    value = padded(c, value, [0] * 4, [0, *extra, 0], 0.0)
    if groups == 1:
        return [value]
    full = everything(value.shape)
    return [sliced(c, value, (*full[:3], range(one * per_group, (one + 1) * per_group))) for one in range(groups)]


def _spread_value(c: Context, value: Value, dilations: list[int]) -> Value:
    """`_spread` along the height and width of weights [M, H, W, C] that are no constants."""
    for axis, dilation in enumerate(dilations, 1):
        if dilation == 1:
            continue
        shape = value.shape
        between = [0, 0, dilation - 1, 0]
        rows = c.reshape(value, (math.prod(shape[:axis]), shape[axis], 1, math.prod(shape[axis + 1 :])))
        wide = c.reshape(padded(c, rows, [0] * 4, between, 0.0), (rows.shape[0], shape[axis] * dilation, rows.shape[3]))
        wide = padded(c, wide, [0] * 3, [0, 1 - dilation, 0], 0.0)  # nothing behind the last one
        value = c.reshape(wide, (*shape[:axis], wide.shape[1], *shape[axis + 1 :]))
    return value


# --- whole numbers -------------------------------------------------------------------------------------------


@operator("ConvInteger")
def conv_integer(c: Context) -> Tensor:
    """Map ConvInteger to convolutions of FLOAT32 whose sums are exact, and add these up as INT32."""
    weights = c.tensor(1)
    _check(c, c.tensor(0).shape, weights.shape)
    source, filters = centred(c, 0, 2, 1), centred(c, 1, 3, 0)
    parts = _exact_parts(c, source, filters)
    products = [convolved(c, part, own if own.constant is None else own.constant, None) for part, own in parts]
    return c.give(whole_sum(c, products), None, np.int32)


def _exact_parts(c: Context, source: Value, filters: Value) -> Iterator[tuple[Value, Value]]:
    """The channels of an image and their weights, in parts whose windows have few enough products.

    Where channels are in groups, or one has too many products, the other products' weights are zeros.
    """
    units, per_group, *kernel = filters.shape
    taps = math.prod(kernel)
    products, channels = per_group * taps, source.shape[1]
    known = None if filters.constant is None else reshaped(filters.constant, (units, products))
    begin = 0
    while begin < products:
        count = exact_count(known, 1, begin, products - begin)
        if count == products:
            yield source, filters
            return
        if channels == per_group and begin % taps == 0 and count >= taps:
            first, last = begin // taps, (begin + count) // taps
            count = (last - first) * taps
            yield _channels(c, source, first, last), _channels(c, filters, first, last)
        else:
            yield source, _masked(c, filters, begin, count)
        begin += count


def _channels(c: Context, value: Value, first: int, last: int) -> Value:
    """Some of the indices along axis 1."""
    if value.constant is not None:
        shape = value.shape[0], last - first, *value.shape[2:]
        return c.graph.kept(value.type.with_dimensions(shape), portion(value.constant, 1, first, last - first))
    around = c.around(value, 1)
    taken = sliced(c, around, (range(around.shape[0]), range(first, last), range(around.shape[2])))
    return c.reshape(taken, (value.shape[0], last - first, *value.shape[2:]))


def _masked(c: Context, filters: Value, begin: int, count: int) -> Value:
    """Weights with zeros in place of all products but some."""
    products = math.prod(filters.shape[1:])
    mask = ((charged.arange(products) >= begin) & (charged.arange(products) < begin + count)).astype(np.float32)
    laid = mask.reshape(1, *filters.shape[1:])
    if filters.constant is not None:
        source = filters.constant
        masked = DeferredConstant(
            filters.shape, filters.type.dtype, lambda: elements(source) * laid, source, (begin, count)
        )
        return c.graph.kept(filters.type, masked)
    return c.emit(Op.MUL, filters, c.constant(laid, filters.type), NONE, out=filters.type)
