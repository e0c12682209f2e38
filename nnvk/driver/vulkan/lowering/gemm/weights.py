"""Weights as shaders read them: where they lie in operands, packed or in order, constant or made by a shader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.copies.arrange import dense
from nnvk.driver.vulkan.lowering.copies.convert import CONVERT, as_float32
from nnvk.driver.vulkan.lowering.copies.copied import folded, in_pieces
from nnvk.driver.vulkan.lowering.copies.move import MOVE, move
from nnvk.driver.vulkan.lowering.copies.move import RANK as MOVE_RANK
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, DType, dtype, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push, zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor, TensorView
from nnvk.ops.strided import Box, dense_strides
from nnvk.types.constant import Constant, QuantisedConstant, beginning, deferred_bytes, elements

PACK_FILTER = Shader("pack_filter", DTYPE=("f32", "f16", "i32", "q8"))
WEIGHT_SHADERS = (PACK_FILTER, MOVE, CONVERT)
"""All that this module may dispatch."""

BLOCK = 32
"""Output channels in a block of packed filters."""
ROUNDS = 8, 4, 2
"""Vec4s of K of a product that may be added up as 16-bit floats, the most first."""
_FEWEST = 4 * ROUNDS[-1]
LONGEST = 4.0
"""The largest length of filters as vectors, for sums of the fewest products in 16 bits."""
_ROUNDING = 2
"""GEMMs whose addition in 16 bits is off by about as much as one rounding of all that they are a part of."""
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-20, 1e20
_LOCAL = 64
_ALL = slice(None)
_FOUR_BITS = 8
"""The distance from the zero point that quantised values of 4 bits may have."""
_AT_ONCE = 1 << 18
"""Weights that are packed at once: they stay in the caches meanwhile."""
PARTS_INSIDE, _PARTS_OUTSIDE = (2, 3, 0, 1), (0, 2, 3, 1)
"""Orders of parts, output channels, taps, channels in which the output channels are innermost."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The filters of a product: where their weights lie in an operand."""

    tensor: Tensor
    parts: int
    """Equal parts of the product that have filters of their own."""
    outputs: int
    """Output channels of a part."""
    taps: int
    channels: int
    """The channels that a filter reads."""
    strides: tuple[int, int, int, int]
    """Elements from a part, output channel, tap and channel to the next."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Parts, output channels, taps, channels."""
        return self.parts, self.outputs, self.taps, self.channels

    @property
    def box(self) -> Box:
        """The weights in this shape as elements of the operand."""
        return Box(tuple(zip(self.shape, self.strides, strict=True)))

    @property
    def has_dense_taps(self) -> bool:
        """Whether the channels of a tap follow those of the tap before."""
        *_, tap, channel = self.strides
        return tap == self.channels * channel

    def in_lines(self, taps: int) -> Weights:
        """The same weights, with ``taps`` neighbouring taps merged into one that has all of their channels."""
        part, output, tap, channel = self.strides
        strides = part, output, tap * taps, channel
        return replace(self, taps=self.taps // taps, channels=self.channels * taps, strides=strides)

    @property
    def can_be_packed(self) -> bool:
        """Whether `packed` reads the source of a view, instead of a copy."""
        return self.tensor.view is not None and _strides_to_pack(self.box, self.tensor.view.box) is not None

    def sizes_and_strides(self, parts_outside: bool) -> tuple[list[int], list[int]]:
        """Sizes and strides of [taps, channels, parts, output channels], or with the parts around all."""
        axes = _PARTS_OUTSIDE if parts_outside else PARTS_INSIDE
        return [self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes]

    def is_in_order(self, parts_outside: bool, device: DeviceProfile) -> bool:
        """Whether `in_order` gives the operand itself."""
        sizes, strides = self.sizes_and_strides(parts_outside)
        dense = all(
            size == 1 or stride == own for size, stride, own in zip(sizes, strides, dense_strides(sizes), strict=True)
        )
        return dense and self.outputs % 4 == 0 and self.kept_as(device) is of(self.tensor)

    def is_by_outputs(self, device: DeviceProfile) -> bool:
        """Whether the operand itself has the channels innermost, in vec4s, of each output channel of each part."""
        dense = (self.outputs * self.channels, self.channels, self.channels, 1)
        alike = all(
            size == 1 or stride == own for size, stride, own in zip(self.shape, self.strides, dense, strict=True)
        )
        return alike and self.taps == 1 and self.channels % 4 == 0 and self.kept_as(device) is of(self.tensor)

    def kept_as(self, device: DeviceProfile) -> DType:
        """The type in which shaders get weights: the operand's, but 32-bit floats where there are no 16-bit ones."""
        kind = of(self.tensor)
        return F32 if kind is F16 and not device.has_native_16 else kind

    @property
    def quantised(self) -> QuantisedConstant | None:
        """The quantised values that real weights are made of; of one part, with scales by output channels."""
        constant = self.tensor.constant if self.tensor.is_constant else None
        if not isinstance(constant, QuantisedConstant) or self.parts > 1 or constant.shape[0] != self.outputs:
            return None
        by_output = constant.scales.size == 1 or constant.axis == 0
        # Sums are scaled, not weights: neither may leave the range of floats where the other does not.
        has_usual_scales = bool(np.all((constant.scales >= _SMALLEST_SCALE) & (constant.scales <= _LARGEST_SCALE)))
        return constant if by_output and has_usual_scales else None

    def held(self) -> Weights:
        """The same, with the weights of a constant operand made and contiguous for those who look several times."""
        tensor = self.tensor
        return replace(
            self, tensor=Tensor(tensor.name, tensor.index, tensor.type, data=np.ascontiguousarray(tensor.data))
        )

    def array(self, outputs: slice = _ALL) -> np.ndarray:
        """The weights of a constant operand in this shape (a view), or of some output channels of each part."""
        flat = np.ascontiguousarray(self.tensor.data).reshape(-1)
        strides = [flat.itemsize * stride for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides, writeable=False)[:, outputs]


def weights_of(tensor: Tensor, parts: int = 1) -> Weights:
    """An operand [output channels, ..., channels], the taps of a window between them."""
    outputs, *window, channels = tensor.shape
    shape = (parts, outputs // parts, math.prod(window), channels)
    part, output, tap, channel = dense_strides(shape)
    return Weights(tensor, *shape, (part, output, tap, channel))


def unsigned_bytes(data: np.ndarray) -> np.ndarray:
    """int8 moved by 128 to uint8; uint8 as it is."""
    return data if data.dtype == np.uint8 else data.view(np.uint8) ^ np.uint8(0x80)


# --- packed --------------------------------------------------------------------------------------------------


def pack(data: np.ndarray, fill: int = 0) -> np.ndarray:
    """Weights [parts, output channels, taps, channels] as gemm.comp's blocks and fully_connected.comp read them.

    Output channels of a part are in blocks of eight vec4s, channels in vec4s; both are padded with ``fill``. uint8:
    [parts, blocks, taps, vec4s of channels, 8, 4, 4], so that the four bytes of a word are neighbouring channels. 32
    bits: [parts, blocks, taps, vec4s of channels, 2, 8, 2, 4], so that a lane finds two rows of K for its four output
    channels together.
    """
    parts, outputs, taps, channels = data.shape
    shape = parts, round_up(outputs, BLOCK), taps, round_up(channels, 4)
    if shape != data.shape:
        padded = np.full(shape, fill, data.dtype)
        padded[:, :outputs, :, :channels] = data
        data = padded
    blocks = data.reshape(parts, shape[1] // BLOCK, BLOCK // 4, 4, taps, shape[3] // 4, 2, 2)
    order = (0, 1, 4, 5, 2, 3, 6, 7) if data.dtype == np.uint8 else (0, 1, 4, 5, 6, 2, 7, 3)
    return np.ascontiguousarray(blocks.transpose(order))


def fit_four_bits(g: Lowering, weights: Weights, quantised: QuantisedConstant | None) -> bool:
    """Whether 4 bits can hold constant weights of 8 bits, which must differ from the zero point by at most 8.

    ``quantised``: `Weights.quantised`, where quantised values of real weights are packed.
    """
    tensor = weights.tensor
    if quantised is not None:
        stored: Constant = quantised.levels
        zero = zero_of(quantised)
    elif tensor.is_constant and of(tensor) is Q8:
        stored, zero = tensor.constant, zero_point(tensor)
    else:
        return False
    return g.once((tensor.index, "four bits"), lambda: are_four_bits(stored, zero))


def are_four_bits(stored: Constant, zero: int) -> bool:
    """Whether `unsigned_bytes` of some quantised values are within `_FOUR_BITS` of the zero point."""
    first, end = zero - _FOUR_BITS, zero + _FOUR_BITS

    def near(some: np.ndarray) -> bool:
        bytes_ = unsigned_bytes(some)
        return bool(first <= bytes_.min(initial=255) and bytes_.max(initial=0) < end)

    # Most are not: their first elements tell, and a deferred constant keeps those.
    is_possible = stored.size and first >= 0 and end <= 256 and near(np.frombuffer(beginning(stored), stored.dtype))
    return bool(is_possible) and near(np.ascontiguousarray(elements(stored)))


def _in_four_bits(blocks: np.ndarray, zero: int) -> np.ndarray:
    """`pack` of bytes that `fit_four_bits`: a word has those of two output channels, the second ones above."""
    nibbles = blocks - np.uint8(zero - _FOUR_BITS)
    return np.ascontiguousarray(nibbles[..., ::2, :, :] | nibbles[..., 1::2, :, :] << np.uint8(4))


def packed(g: Lowering, weights: Weights, scale: float = 1.0, *, four_bits: bool = False) -> TensorRef:
    """`pack` of filters, in the type that they are `kept_as`: once if they are constant, else by a shader.

    ``scale``: what constant weights that are floats are multiplied by. ``four_bits``: in 4 bits, which they fit.
    """
    tensor = weights.tensor
    parts, outputs, taps, channels = weights.shape
    values = parts * round_up(outputs, BLOCK) * taps * round_up(channels, 4)
    nbytes = values * weights.kept_as(g.device).size
    if tensor.is_constant:
        form = "packed", weights.shape, weights.strides, scale, four_bits
        device = g.device  # what is deferred must not refer to the lowering, which has it: a cycle stays for long
        size = nbytes // 2 if four_bits else nbytes
        blocks = deferred_bytes(size, lambda: _packed_now(weights, scale, device, four_bits=four_bits))
        return g.constant_form(tensor, form, lambda: blocks)
    source, strides = _packable(g, weights)
    is_quantised = of(tensor) is Q8
    vectors = values // (16 if is_quantised else 4)
    target = g.scratch(nbytes)
    quantisation = {**sign_push(tensor), "fill": zero_point(tensor)} if is_quantised else {}
    g.dispatch(
        PACK_FILTER.variant(DTYPE=dtype(tensor)),
        groups=g.flat(vectors, _LOCAL),
        spec={"local_x": _LOCAL},
        tensors={"src": source, "dst": target},
        count=vectors,
        out_channels=outputs,
        taps=taps,
        channels=channels,
        **strides,
        **quantisation,
    )
    return target


def _packable(g: Lowering, weights: Weights) -> tuple[TensorRef, dict[str, int]]:
    """The memory that filters are packed from, and the push constants for it."""
    view = weights.tensor.view
    strides = None if view is None else _strides_to_pack(weights.box, view.box)
    if view is not None and strides is not None:
        return g.tensor(view.source), strides
    strides = _strides_to_pack(weights.box, None)
    assert strides is not None
    return dense(g, weights.tensor), strides


def _strides_to_pack(box: Box, view: Box | None) -> dict[str, int] | None:
    """The push constants of pack_filter.comp for filters that are a box of an operand, or of a view of it.

    None for a view unless the parts have at most two dimensions in its source, and the others one each.
    """
    within = [[dimension] for dimension in box.dimensions] if view is None else box.within(view)
    if within is None or len(within[0]) > 2 or any(len(dimensions) > 1 for dimensions in within[1:]):
        return None
    *outer, (side_by_side, part_stride) = within[0]
    (_, output_stride), (_, tap_stride), (_, channel_stride) = (dimensions[-1] for dimensions in within[1:])
    strides = {
        "outer_stride": outer[0][1] if outer else 0,
        "part_stride": part_stride,
        "output_stride": output_stride,
        "tap_stride": tap_stride,
        "channel_stride": channel_stride,
    }
    if min(strides.values()) < 0 or (outer and not outer[0][1]):
        return None
    first = box.first if view is None else box.first_within(view)
    return {"first": first, "parts_side_by_side": side_by_side, **strides}


def _packed_now(weights: Weights, scale: float, device: DeviceProfile, *, four_bits: bool) -> np.ndarray:
    """`pack` of constant filters, some blocks at a time."""
    parts, outputs, taps, channels = weights.shape
    together = BLOCK * max(1, _AT_ONCE // max(1, BLOCK * parts * taps * channels))
    bytes_ = of(weights.tensor) is Q8
    fill = zero_point(weights.tensor) if bytes_ else 0
    held = weights.held()
    packed: np.ndarray | None = None
    for first in range(0, max(1, outputs), together):
        some = slice(first, first + together)
        blocks = pack(unsigned_bytes(held.array(some)) if bytes_ else weights_as_kept(held, some, device, scale), fill)
        if four_bits:
            blocks = _in_four_bits(blocks, fill)
        if packed is None:
            packed = np.empty((parts, round_up(outputs, BLOCK) // BLOCK, *blocks.shape[2:]), blocks.dtype)
        packed[:, first // BLOCK : first // BLOCK + blocks.shape[1]] = blocks
    assert packed is not None
    return packed


def packed_quantised(g: Lowering, weights: Weights, constant: QuantisedConstant, *, four_bits: bool) -> TensorRef:
    """`pack` of `Weights.quantised`. ``four_bits`` is as for `packed`."""
    parts, outputs, taps, channels = weights.shape
    nbytes = parts * round_up(outputs, BLOCK) * taps * round_up(channels, 4) // (2 if four_bits else 1)

    def pack_now() -> np.ndarray:
        data = unsigned_bytes(np.ascontiguousarray(constant.levels))
        blocks = pack(data.reshape(weights.shape), zero_of(constant))
        return _in_four_bits(blocks, zero_of(constant)) if four_bits else blocks

    form = "packed quantised", weights.shape, four_bits
    return g.constant_form(weights.tensor, form, lambda: deferred_bytes(nbytes, pack_now))


def zero_of(constant: QuantisedConstant) -> int:
    """The zero point of `unsigned_bytes`."""
    return constant.zero_point + (0 if constant.levels.dtype == np.uint8 else 128)


# --- in order ------------------------------------------------------------------------------------------------


def in_order(g: Lowering, weights: Weights, parts_outside: bool, scale: float = 1.0) -> TensorRef:
    """Weights as gemm.comp reads them into registers: [taps, channels, parts, output channels padded to vec4s].

    The result is the operand itself if it has this order. ``parts_outside``: the parts are the outermost axis. Nobody
    uses the values of the padding. `kept_as` gives the type; ``scale`` is as for `packed`.
    """
    tensor = weights.tensor
    if weights.is_in_order(parts_outside, g.device) and scale == 1.0:
        return dense(g, tensor)
    sizes, strides = weights.sizes_and_strides(parts_outside)
    padded = [*sizes[:3], round_up(sizes[3], 4)]
    if tensor.is_constant:
        device = g.device  # see `packed`

        def order_now() -> np.ndarray:
            order = _PARTS_OUTSIDE if parts_outside else PARTS_INSIDE
            data = weights_as_kept(weights, _ALL, device, scale).transpose(order)
            return np.pad(data, [(0, 0)] * 3 + [(0, padded[3] - sizes[3])])

        nbytes = math.prod(padded) * weights.kept_as(g.device).size
        form = "in order", weights.shape, weights.strides, parts_outside, scale
        return g.constant_form(tensor, form, lambda: deferred_bytes(nbytes, order_now))
    kind, view = weights.kept_as(g.device), tensor.view
    target = g.scratch(math.prod(padded) * kind.size)
    if kind is not of(tensor):
        move(g, kind.moved, as_float32(g, tensor), target, sizes, strides, dense_strides(padded))
    elif view is None or not _moved_from(g, weights, view, parts_outside, target, padded):
        move(g, kind.moved, dense(g, tensor), target, sizes, strides, dense_strides(padded))
    return target


def _moved_from(
    g: Lowering, weights: Weights, view: TensorView, parts_outside: bool, target: TensorRef, padded: Sequence[int]
) -> bool:
    """Put filters `in_order` from the source of a view, if one strided copy can do that; whether it can."""
    sizes, strides = weights.sizes_and_strides(parts_outside)
    box = Box(tuple(zip(sizes, strides, strict=True)))
    within = box.within(view.box)
    ways = None if within is None else in_pieces(within, dense_strides(padded))
    if ways is None or len(folded(*ways)[0]) > MOVE_RANK or min(ways[1]) < 0:
        return False
    source, first = g.tensor(view.source), box.first_within(view.box)
    move(g, weights.kept_as(g.device).moved, source, target, *ways, source_first=first)
    return True


def weights_as_kept(weights: Weights, outputs: slice, device: DeviceProfile, scale: float = 1.0) -> np.ndarray:
    """Constant weights of some output channels, times ``scale``, in the type that they are `kept_as`."""
    data = weights.array(outputs)
    kept = weights.kept_as(device)
    if scale != 1.0:
        data = data.astype(np.float32) * np.float32(scale)
    return data.astype({F16: np.float16, F32: np.float32}.get(kept, data.dtype), copy=False)


# --- small enough for sums of 16 bits ------------------------------------------------------------------------


def longest_of(products: int) -> float:
    """`LONGEST` for sums of so many products: their errors grow with the square root of the number."""
    return LONGEST * math.sqrt(_FEWEST / products)


def may_be_float16(g: Lowering, weights: Weights, products: int = _FEWEST, *, split_k: bool = False) -> bool:
    """Whether sums with these weights may be made of sums of 16 bits: they are constant, and not large.

    ``split_k``: sums are left by slices of K, and rounded to 16 bits once more for that.

    The error of such a sum of ``products`` products grows with the length of the filter as a vector, and with the
    unknown input. With inputs about 1 and filters no longer than `LONGEST`, it stays within the tolerance of Android's
    tests if the sum is near 0.
    """
    # False for what is no number.
    most = longest_of(products + split_k * _ROUNDING)
    return weights.tensor.is_constant and length_and_largest(g, weights)[0] <= most


@dataclass(frozen=True, slots=True)
class Float16Scaling:
    """How products with constant weights are added up as 16-bit floats."""

    scale: float
    """The factor of weights that keeps sums from overflowing."""
    round: int
    """Vec4s of K in a sum."""

    def scale_of_sum(self, vec4s: int) -> float:
        """A power of two by which float16 sums of all rounds of ``vec4s`` of K don't overflow."""
        return self.scale / 2 ** (-(-vec4s // self.round) - 1).bit_length()


def float16_scaling_of(g: Lowering, weights: Weights, *, split_k: bool) -> Float16Scaling:
    """How, for filters that may be float16."""
    vec4s = next(each for each in ROUNDS if may_be_float16(g, weights, 4 * each, split_k=split_k))
    return Float16Scaling(scale_of(g, weights, 4 * vec4s), vec4s)


def scale_of(g: Lowering, weights: Weights, products: int) -> float:
    """A power of two, at most 1, for weights of which sums of so many products in 16 bits shall not overflow.

    It leaves room for twice as many, for the roundings.
    """
    _, exponent = math.frexp(length_and_largest(g, weights)[1])
    return min(1.0, math.ldexp(0.5, -exponent - (products - 1).bit_length()))


def length_and_largest(g: Lowering, weights: Weights) -> tuple[float, float]:
    """The length of the longest filter as a vector, and the largest weight."""

    def measure() -> tuple[float, float]:
        data = weights.array()
        squares = np.einsum("poic,poic->po", data, data, dtype=np.float64)
        largest = np.maximum(data.max(initial=0), -data.min(initial=0))  # NaN, if there is one
        return float(np.sqrt(squares.max(initial=0.0))), float(largest)

    return g.once((weights.tensor.index, "length", weights.shape, weights.strides), measure)
