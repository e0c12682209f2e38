"""The start and the end of the sums of GEMMs: bias, scales, activation (`shaders/include/filter_output.glsl`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.copies.convert import as_float32, convert
from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, Q16, of
from nnvk.driver.vulkan.lowering.gemm import half_weights
from nnvk.driver.vulkan.lowering.gemm.epilogue import Arguments, Epilogue, arguments_of
from nnvk.driver.vulkan.lowering.gemm.weights import Weights
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import requantise
from nnvk.driver.vulkan.lowering.quantised.tensors import (
    SMALL,
    activation_push,
    are_small_shifts,
    zero_point,
)
from nnvk.driver.vulkan.shaders.commands import TensorRef, integer
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.linear import Rounding, factors_of, has_wide_bias, output_multipliers, rounding_of, rounds_once
from nnvk.ops.quant import INT32_MAX
from nnvk.types.codes import FuseCode, OperationCode

_LARGEST_PRODUCT = 255 * 255
"""The largest product of two bytes less their zero points."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a GEMM, and its output."""

    code: OperationCode
    input: Tensor
    weights: Weights
    bias: Tensor | None
    output: Tensor
    activation: int = FuseCode.NONE
    epilogue: Epilogue | None = None
    """The operations that follow the activation."""
    wide_input: Tensor | None = None
    """The float32 tensor from which ``input`` has yet to be converted, if it has float16."""
    depthwise: Call | None = None
    """The depthwise convolution that gives ``input``, if it is computed in the same dispatch (`separable.py`)."""
    rounds_once: bool = False
    """Whether sums of products of 8 bits are rounded once, not twice."""

    @classmethod
    def of_call(cls, call: Call, weights: Weights) -> Operands:
        """The operands of a convolution or of FULLY_CONNECTED."""
        once = rounds_once(call)
        operands = cls(call.code, call.input, weights, call.bias, call.output, call.activation, rounds_once=once)
        return operands.fused_with(call)

    def fused_with(self, call: Call) -> Operands:
        """These operands with the prologue and the epilogue of its node, as `node.lower` says it in the call."""
        names = "epilogue", "wide_input", "depthwise"
        return replace(self, **{name: getattr(call, name) for name in names if call.has(name)})

    @property
    def target(self) -> Tensor:
        """The tensor that is stored: the output, or the result of the epilogue."""
        return self.output if self.epilogue is None else self.epilogue.output

    @property
    def is_quantised(self) -> bool:
        """Whether quantised numbers are multiplied."""
        return self.is_wide or of(self.input) is Q8

    @property
    def is_wide(self) -> bool:
        """Whether quantised numbers have 16 bits, and sums of their products 64."""
        return of(self.input) is Q16


@dataclass(frozen=True, slots=True)
class FilterOutput:
    """The arguments of a dispatch that turn sums into results, for `shaders/include/filter_output.glsl`."""

    spec: Mapping[str, int | bool]
    """The form of the scales of 8-bit tensors, or the constants of `wide_sums.glsl`."""
    tensors: Mapping[str, TensorRef]
    """The bias. Quantised variants add four mantissas and four shifts for each vec4 of output channels of a part."""
    push: Mapping[str, int | float]
    """The pitches of pixels (none), the range of the activation, and the zero points of bytes."""
    variant: str
    """The value of the axis EPILOGUE."""
    parameters: np.ndarray | None = None
    """The words of the tensor ``multipliers``: those of an epilogue first."""


def narrowed(g: Lowering, operands: Operands) -> Tensor:
    """The input of a GEMM, which is converted now if it has yet to be."""
    if operands.wide_input is not None:
        convert(g, operands.wide_input, operands.input, saturate=True)
    return operands.input


def filter_output(
    g: Lowering,
    operands: Operands,
    outputs: int,
    parts: int = 1,
    *,
    narrow: bool = False,
    folded: bool = False,
    biases_follow: bool = False,
    behind_biases: np.ndarray | None = None,
    weight_scales: np.ndarray | None = None,
) -> FilterOutput:
    """The arguments for sums of ``outputs`` channels in each of ``parts`` equal parts of a pixel.

    ``narrow`` is the result of `has_narrow_sums`, of 16-bit quantised values. ``folded``: inputs of 8 bits keep their
    zero point in the sums, so the bias has what is due to it. ``biases_follow``: they follow the multipliers of 8-bit
    tensors with an epilogue, and are constants; and then the words in ``behind_biases``. ``weight_scales`` are those of
    weights of 8 bits that floats are multiplied by; they follow the bias, which is a constant then.
    """
    bias, channels = operands.bias, parts * outputs
    tensors: dict[str, TensorRef]
    if biases_follow:
        tensors = {}
    elif folded:
        tensors = {"bias": half_weights.folded_bias(g, operands.input, operands.weights, bias)}
    elif bias is None:
        tensors = {"bias": g.computed_constant((channels,), np.int32, _zeros, channels)}  # as floats they are 0 too
    elif weight_scales is None:
        tensors = {"bias": accumulated(g, bias)}
    else:
        both = np.concatenate([bias.data.reshape(-1), np.broadcast_to(weight_scales, outputs)]).astype(np.float32)
        tensors = {"bias": g.constant_form(bias, ("scales", operands.weights.tensor.index), lambda: both)}
    following = operands.epilogue
    if not operands.is_quantised:
        push_floats = {"pitches": 0, **activation_push(operands.activation, operands.output)}
        after = Arguments() if following is None else arguments_of(g, following)
        activation: dict[str, int | bool] = {}
        if of(operands.input) in (F32, F16):
            is_activated = operands.activation != FuseCode.NONE
            activation = {"ACTIVATED": is_activated, "PRESERVES_NAN": is_activated and g.device.preserves_special}
        return FilterOutput({**activation, **after.spec}, {**tensors, **after.tensors}, push_floats, after.variant)

    once = operands.rounds_once and not operands.is_wide
    tensor = operands.weights.tensor
    mantissas, shifts = output_multipliers(operands.code, operands.input, tensor, operands.output, once=once)
    pairs = np.zeros((2, parts, round_up(outputs, 4)), np.int32)
    spec: dict[str, int | bool]
    to_bytes, saturates = False, g.device.saturates
    push: dict[str, int | float]
    if operands.is_wide:
        rounding = rounding_of(operands.code, bias, channels)
        mantissas, shifts = factors_of(rounding, mantissas, shifts)
        pairs[1] = 1  # channels that are not there are shifted as well
        spec = {"NARROW_SUMS": narrow, "WIDE_BIAS": has_wide_bias(bias, channels), "ROUNDING": int(rounding)}
        low, high = activation_range(operands.activation, operands.output)
        push = {"pitches": 0, "low": int(low), "high": int(high)}
    else:
        push = {
            "pitches": 0,
            **activation_push(operands.activation, operands.output),
            "input_zero": zero_point(operands.input),
            "weight_zero": zero_point(operands.weights.tensor),
            "output_zero": zero_point(operands.output),
        }
        is_small = are_small_shifts(shifts) and largest_sum(bias, operands.weights) < SMALL
        to_bytes = is_small and requantise.may_be_bytes(shifts) and g.device.lacks_high_products
        if to_bytes:
            pairs[1] = requantise.SHIFTS[0]  # channels that are not there need a shift in the range, too
        spec = {
            "SMALL": is_small,
            "TO_BYTES": to_bytes,
            "NONNEGATIVE": push["low"] >= push["output_zero"],
            "SATURATES": saturates,
            "ROUNDS_ONCE": once,
        }
    every = np.stack([mantissas, shifts])
    pairs[:, :, :outputs] = np.broadcast_to(every, (2, channels)).reshape(2, parts, outputs)
    multipliers = np.ascontiguousarray(pairs.reshape(2, -1, 4).transpose(1, 0, 2))
    floats: np.ndarray = np.zeros(0, np.float32)
    if to_bytes:
        low, high, zero = (integer(push, name) for name in ("low", "high", "output_zero"))
        floats = requantise.byte_multipliers(pairs[0], pairs[1], zero, (low, high), saturates=saturates, once=once)
        floats = floats.reshape(3, -1, 4).transpose(1, 0, 2)
    biases = np.zeros((parts, round_up(outputs, 4)) if biases_follow else (0, 0), np.int32)
    if biases_follow and folded:
        biases[:, :outputs] = half_weights.folded_values(g, operands.input, operands.weights, bias).reshape(parts, -1)
    elif biases_follow and bias is not None:
        biases[:, :outputs] = bias.data.reshape(parts, -1)
    behind = np.zeros(0, np.int32) if behind_biases is None else behind_biases
    words = np.concatenate([multipliers.reshape(-1), biases.reshape(-1), behind, floats.reshape(-1).view(np.int32)])
    if following is None:
        return FilterOutput(spec, {**tensors, "multipliers": g.constant(words)}, push, "plain", multipliers)
    after = arguments_of(g, following, words, multipliers.size)
    return FilterOutput({**spec, **after.spec}, {**tensors, **after.tensors}, push, after.variant, after.parameters)


def largest_sum(bias: Tensor | None, weights: Weights) -> float:
    """A bound on sums of products of bytes, for any bytes and zero points."""
    products = _LARGEST_PRODUCT * weights.taps * weights.channels
    if bias is None or not bias.size:
        return products
    if not bias.is_constant:
        return math.inf
    return products + int(np.abs(bias.data.astype(np.int64)).max())


def accumulated(g: Lowering, tensor: Tensor) -> TensorRef:
    """A bias, or weights that need no packing, in the type of the sums: float16 becomes float32."""
    if of(tensor) is not F16:
        return g.tensor(tensor)
    if tensor.is_constant:
        return g.constant_form(tensor, "float32", lambda: tensor.data.astype(np.float32))
    return as_float32(g, tensor)


def has_narrow_sums(g: Lowering, operands: Operands) -> bool:
    """Whether products of 16-bit quantised values and the bias add up within 32 bits, or wrap there by definition."""
    bias, weights = operands.bias, operands.weights
    tensor, channels = weights.tensor, weights.outputs * weights.parts
    if rounding_of(operands.code, bias, channels) is Rounding.TWICE:
        return True
    if not tensor.is_constant or not (bias is None or bias.is_constant):
        return False

    def largest() -> int:
        return int(np.abs(weights.array(), dtype=np.int64).sum((2, 3)).max(initial=0))

    products = g.once((tensor.index, "largest sum", weights.shape, weights.strides), largest) << 15
    numbers: np.ndarray = np.zeros(1, np.int64)
    if bias is not None:
        numbers = np.ascontiguousarray(bias.data)
        numbers = numbers.view(np.int64) if has_wide_bias(bias, channels) else numbers.astype(np.int64)
    # As Python's numbers: there is no magnitude of the least one.
    return products + max(-int(np.min(numbers, initial=0)), int(np.max(numbers, initial=0))) <= INT32_MAX


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)
