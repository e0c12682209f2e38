"""How sums of products begin and end, as `shaders/include/filter_output.glsl` has it: bias, scales, activation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.convert import as_float32
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, of
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised import activation_push, zero_point
from nnvk.driver.vulkan.lowering.relayout import round_up
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.ops.call import Call, Tensor
from nnvk.ops.linear import output_multipliers
from nnvk.types.codes import FuseCode, OperationCode

_MOST_CHANNELS = (1 << 16) - 1
"""Of pixels that others are parts of."""


@dataclass(frozen=True, slots=True)
class Operands:
    """What is multiplied by what, and what becomes of the sums."""

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
        return of(self.input) is Q8


def output_push(operands: Operands) -> dict[str, int | float]:
    """Push constants: where pixels lie, the range of the activation; zero points of q8 variants."""
    common = {"placed": 0, **activation_push(operands.activation, operands.output)}
    if not operands.is_quantised:
        return common
    return {
        **common,
        "input_zero": zero_point(operands.input),
        "weight_zero": zero_point(operands.filter),
        "output_zero": zero_point(operands.output),
    }


def placed(product: Dispatch, whole: TensorRef, first: int, channels: int) -> Dispatch | None:
    """A product whose pixels are those from ``first`` on of the ``channels`` of larger ones; None where it can't be."""
    in_fours = product.shader.choice[0] != F32.name or product.shader.constant(product.specialization, "VECTOR_STORES")
    if in_fours and any(number % 4 for number in (first, channels, product.push["out_channels"])):
        return None
    if channels > _MOST_CHANNELS:
        return None
    push = {**product.push, "placed": first << 16 | channels}
    return replace(product, tensors={**product.tensors, "dst": whole}, push=push)


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
        pairs[:, :, :outputs] = np.broadcast_to(every, (2, parts * outputs)).reshape(2, parts, outputs)
        tensors["multipliers"] = g.constant(np.ascontiguousarray(pairs.reshape(2, -1, 4).transpose(1, 0, 2)))
    return tensors


def accumulated(g: Lowering, tensor: Tensor) -> TensorRef:
    """A bias, or weights that need no packing, in the type of the sums: 16-bit floats become 32-bit ones."""
    if of(tensor) is not F16:
        return g.tensor(tensor)
    if tensor.is_constant:
        return g.constant_form(tensor, "float32", lambda: tensor.data.astype(np.float32))
    return as_float32(g, tensor)
