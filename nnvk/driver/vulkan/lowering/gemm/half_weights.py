"""Weights of 8 bits as floats of 16 or 32 bits, less their zero point, and what this takes from the shaders.

It is for constant weights: those of depthwise convolutions on all GPUs, and those of GEMMs on GPUs that take several
instructions to convert a byte (`Strategy.converts_bytes`). Its zero point takes a sum of the inputs as well. Floats
of 16 bits have all quantised values less their zero point. VideoCore multiplies these as they are. The high half of a
32-bit float has the same numbers, and other GPUs convert it by one instruction. Floats of 32 bits are not converted,
but take twice the memory of those. The product of the input's zero point and the weights is the same for all pixels, so
the bias has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.divide import EXACT_FLOATS
from nnvk.driver.vulkan.lowering.dtypes import Q8, of
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK, PARTS_INSIDE, Weights, pack
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import zero_point
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.types.constant import deferred_bytes

_ROWS_OF_FLOATS = 32
"""Output pixels of a GEMM from which on the instructions that floats of 32 bits save take longer than their memory. By
`costs.py`, a unit multiplies 64 pairs in the time in which 6 bytes come from memory, so that it waits for these weights
if they are multiplied by fewer pixels."""


class Form(Enum):
    """How weights of 8 bits, less their zero point, are kept."""

    FLOAT16 = "floats of 16 bits"
    HIGH_WORDS = "high words of 32-bit floats"
    FLOAT32 = "floats of 32 bits"

    @property
    def size(self) -> int:
        """Bytes of a weight."""
        return 4 if self is Form.FLOAT32 else 2


def form_of(device: DeviceProfile, rows: int, count: int) -> Form:
    """The form of ``count`` weights, each of which is multiplied by so many output pixels.

    VideoCore multiplies 16-bit floats as they are. Mali's compiler takes 1.75 instructions to convert a 16-bit float to
    32 bits, and one for the high word of a 32-bit float. Invocations of both multiply a weight by few pixels, as they
    have few registers, so that converting it counts.
    """
    if not device.has_small_integers:
        return Form.FLOAT16
    fit = 4 * count <= device.max_buffer
    return Form.FLOAT32 if device.has_small_subgroups and rows >= _ROWS_OF_FLOATS and fit else Form.HIGH_WORDS


def are_known(source: Tensor, weights: Weights, bias: Tensor | None) -> bool:
    """Whether all is constant that products of bytes consist of, but for the input."""
    return of(source) is Q8 and weights.tensor.is_constant and (bias is None or bias.is_constant)


def constants(form: Form) -> dict[str, int | bool]:
    """The specialisation constants of `shaders/include/half_weights.glsl` for such weights."""
    return {"HALF_WEIGHTS": True, "HIGH_WORDS": form is Form.HIGH_WORDS, "WHOLE_FLOATS": form is Form.FLOAT32}


def packed(g: Lowering, weights: Weights, form: Form) -> TensorRef:
    """`weights.pack` of constant filters of 8 bits."""
    parts, outputs, taps, channels = weights.shape
    nbytes = form.size * parts * round_up(outputs, BLOCK) * taps * round_up(channels, 4)
    key = f"packed {form.value}", weights.shape, weights.strides
    return g.constant_form(weights.tensor, key, lambda: deferred_bytes(nbytes, lambda: pack(_floats(weights, form))))


def in_order(g: Lowering, weights: Weights, form: Form) -> TensorRef:
    """Constant filters of 8 bits as `weights.in_order` has them, with the parts inside."""
    sizes, _ = weights.sizes_and_strides(parts_outside=False)
    padding = round_up(sizes[3], 4) - sizes[3]

    def order_now() -> np.ndarray:
        return np.pad(_floats(weights, form).transpose(PARTS_INSIDE), [(0, 0)] * 3 + [(0, padding)])

    nbytes = form.size * int(np.prod(sizes[:3])) * (sizes[3] + padding)
    key = f"{form.value} in order", weights.shape, weights.strides
    return g.constant_form(weights.tensor, key, lambda: deferred_bytes(nbytes, order_now))


def _floats(weights: Weights, form: Form) -> np.ndarray:
    """Weights in a form, in the shape of the filters."""
    numbers = centred(weights)
    if form is Form.FLOAT16:
        return numbers.astype(np.float16).view(np.uint16)
    whole = numbers.astype(np.float32)
    return whole if form is Form.FLOAT32 else (whole.view(np.uint32) >> 16).astype(np.uint16)


def centred(weights: Weights) -> np.ndarray:
    """Quantised weights less their zero point, int16 [parts, output channels, taps, channels]."""
    numbers: np.ndarray = weights.array().astype(np.int16) - np.int16(weights.tensor.zero_point)
    return numbers


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums of the weights of each output channel, less their zero point."""

    whole: np.ndarray
    """int64 [all output channels]."""
    largest: int
    """The largest magnitude of an output channel's sum of positive, or of negative, weights."""


def _sums(g: Lowering, weights: Weights) -> _Sums:
    def measure() -> _Sums:
        numbers = centred(weights)
        positive = np.maximum(numbers, 0).sum((2, 3), np.int64).reshape(-1)
        whole = numbers.sum((2, 3), np.int64).reshape(-1)
        return _Sums(whole, max(int(positive.max(initial=0)), int((positive - whole).max(initial=0))))

    return g.once((weights.tensor.index, "sums of weights", weights.shape, weights.strides), measure)


def has_short_sums(g: Lowering, weights: Weights) -> bool:
    """Whether 32-bit floats have all partial sums of products, with inputs that keep their zero point."""
    return 255 * _sums(g, weights).largest <= EXACT_FLOATS


def has_float_totals(g: Lowering, source: Tensor, weights: Weights, bias: Tensor | None) -> bool:
    """Whether they have these sums also if the sums begin with the `folded_bias`."""
    largest = 255 * _sums(g, weights).largest
    return (
        largest <= EXACT_FLOATS
        and int(np.abs(folded_values(g, source, weights, bias)).max(initial=0)) <= EXACT_FLOATS - largest
    )


def folded_bias(g: Lowering, source: Tensor, weights: Weights, bias: Tensor | None) -> TensorRef:
    """The bias less the products of the input's zero point and the weights; as all sums of 32 bits, it wraps."""
    form = "folded bias", weights.tensor.index, weights.shape, weights.strides, zero_point(source)
    constant = weights.tensor if bias is None else bias
    return g.constant_form(constant, form, lambda: folded_values(g, source, weights, bias).astype(np.int32))


def folded_values(g: Lowering, source: Tensor, weights: Weights, bias: Tensor | None) -> np.ndarray:
    """The numbers of `folded_bias` before they wrap, [all output channels]."""
    due = -zero_point(source) * _sums(g, weights).whole
    return due if bias is None else due + bias.data.reshape(-1)
