"""How sums of GEMMs begin and end, as `shaders/include/filter_output.glsl` has it: bias, scales, activation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnvk.driver.vulkan.lowering.convert import as_float32
from nnvk.driver.vulkan.lowering.dtypes import F16, Q8, Q16, of
from nnvk.driver.vulkan.lowering.filters import Filters
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import SMALL, activation_push, are_small_shifts, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.linear import Rounding, factors_of, has_wide_bias, output_multipliers, rounding_of
from nnvk.ops.quant import INT32_MAX
from nnvk.types.codes import FuseCode, OperationCode

TO_FLOATS = "TO_FLOATS"
"""The specialisation constant of variants on 16-bit floats that says that results are stored as 32-bit ones."""
_LARGEST_PRODUCT = 255 * 255
"""The largest product of two bytes less their zero points."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a GEMM, and its output."""

    code: OperationCode
    input: Tensor
    filter: Tensor
    bias: Tensor | None
    output: Tensor
    activation: int = FuseCode.NONE

    @classmethod
    def of_convolution(cls, call: Call) -> Operands:
        """The operands that convolutions have."""
        return cls(call.code, call.input, call.filter, call.bias, call.output, call.activation)

    @property
    def is_quantised(self) -> bool:
        """Whether steps are multiplied, not numbers."""
        return self.is_wide or of(self.input) is Q8

    @property
    def is_wide(self) -> bool:
        """Whether they have 16 bits, and sums of their products 64."""
        return of(self.input) is Q16


def output_push(operands: Operands) -> dict[str, int | float]:
    """Push constants: where pixels lie (by themselves), the range of the activation; zero points of q8 variants."""
    if operands.is_wide:
        low, high = activation_range(operands.activation, operands.output)
        return {"pitches": 0, "low": int(low), "high": int(high)}
    common = {"pitches": 0, **activation_push(operands.activation, operands.output)}
    if not operands.is_quantised:
        return common
    return {
        **common,
        "input_zero": zero_point(operands.input),
        "weight_zero": zero_point(operands.filter),
        "output_zero": zero_point(operands.output),
    }


def output_spec(g: Lowering, operands: Operands, filters: Filters) -> dict[str, int | bool]:
    """Specialisation constants: which form the scales of bytes take; of 16-bit steps what ``wide_sums.glsl`` has."""
    if operands.is_wide:
        channels = filters.outputs * filters.parts
        return {
            "NARROW_SUMS": has_narrow_sums(g, operands, filters),
            "WIDE_BIAS": has_wide_bias(operands.bias, channels),
            "ROUNDING": int(_rounding(operands, channels)),
        }
    if not operands.is_quantised:
        return {}
    _, shifts = output_multipliers(operands.code, operands.input, operands.filter, operands.output)
    push = output_push(operands)
    return {
        "SMALL": are_small_shifts(shifts) and _largest_sum(operands.bias, filters) < SMALL,
        "NONNEGATIVE": push["low"] >= push["output_zero"],
    }


def _largest_sum(bias: Tensor | None, filters: Filters) -> float:
    """A bound on sums of products of bytes, whatever the bytes and their zero points are."""
    products = _LARGEST_PRODUCT * filters.taps * filters.channels
    if bias is None or not bias.size:
        return products
    if not bias.is_constant:
        return math.inf
    return products + int(np.abs(bias.data.astype(np.int64)).max())


def output_tensors(g: Lowering, operands: Operands, outputs: int, parts: int = 1) -> dict[str, TensorRef]:
    """The bias and, of q8 variants, four mantissas and four shifts for each four of the ``outputs`` of a part."""
    bias = operands.bias
    if bias is None:
        tensors = {"bias": g.constant(np.zeros(parts * outputs, np.int32))}  # as floats they are 0 too
    else:
        tensors = {"bias": accumulated(g, bias)}
    if operands.is_quantised:
        pairs = np.zeros((2, parts, round_up(outputs, 4)), np.int32)
        every = np.stack(output_multipliers(operands.code, operands.input, operands.filter, operands.output))
        if operands.is_wide:
            pairs[1] = 1  # as far as what is not there is shifted
            every = np.stack(factors_of(_rounding(operands, parts * outputs), *every))
        pairs[:, :, :outputs] = np.broadcast_to(every, (2, parts * outputs)).reshape(2, parts, outputs)
        tensors["multipliers"] = g.constant(np.ascontiguousarray(pairs.reshape(2, -1, 4).transpose(1, 0, 2)))
    return tensors


def scaled_bias(g: Lowering, operands: Operands, scales: np.ndarray, outputs: int) -> TensorRef:
    """The bias, a constant, and behind it the scales of weights of 8 bits."""
    bias = operands.bias
    assert bias is not None
    both = np.concatenate([bias.data.reshape(-1), np.broadcast_to(scales, outputs)]).astype(np.float32)
    return g.constant_form(bias, ("scales", operands.filter.index), lambda: both)


def accumulated(g: Lowering, tensor: Tensor) -> TensorRef:
    """A bias, or weights that need no packing, in the type of the sums: 16-bit floats become 32-bit ones."""
    if of(tensor) is not F16:
        return g.tensor(tensor)
    if tensor.is_constant:
        return g.constant_form(tensor, "float32", lambda: tensor.data.astype(np.float32))
    return as_float32(g, tensor)


# --- 16-bit steps --------------------------------------------------------------------------------------------


def has_narrow_sums(g: Lowering, operands: Operands, filters: Filters) -> bool:
    """Whether products of 16-bit steps add up to numbers of 32 bits with their bias, or come round there anyway."""
    channels = filters.outputs * filters.parts
    if _rounding(operands, channels) is Rounding.TWICE:
        return True
    bias, tensor = operands.bias, filters.tensor
    if not tensor.is_constant or not (bias is None or bias.is_constant):
        return False

    def largest() -> int:
        return int(np.abs(filters.weights(), dtype=np.int64).sum((2, 3)).max(initial=0))

    products = g.once((tensor.index, "largest sum", filters.shape, filters.strides), largest) << 15
    numbers: np.ndarray = np.zeros(1, np.int64)
    if bias is not None:
        numbers = np.ascontiguousarray(bias.data)
        numbers = numbers.view(np.int64) if has_wide_bias(bias, channels) else numbers.astype(np.int64)
    # As Python's numbers: there is no magnitude of the least one.
    return products + max(-int(np.min(numbers, initial=0)), int(np.max(numbers, initial=0))) <= INT32_MAX


def _rounding(operands: Operands, channels: int) -> Rounding:
    return rounding_of(operands.code, operands.bias, channels)
