"""How shaders see quantised tensors: unsigned bytes, whatever the operand's type.

Signed tensors are moved by 128 with a sign mask when their words are unpacked and packed, so that one variant of a
shader serves both; zero points and limits move with them (see ``shaders/include/quant.glsl``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.quant import INT32_MAX, INT32_MIN, is_quantised
from nnvk.types.codes import OperandCode

SIGN_MASK = 0x80808080
CODES = {
    "f32": (OperandCode.TENSOR_FLOAT32,),
    "i32": (OperandCode.TENSOR_INT32,),
    "q8": (OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED),
}
"""The types that a value of the shader axis DTYPE stands for."""


def dtype(tensor: Tensor) -> str:
    """The shader axis value for a tensor's type: ``f32`` or ``q8``."""
    return "q8" if is_quantised(tensor.code) else "f32"


def element(tensor: Tensor) -> str:
    """The shader axis value for a tensor's type where integers differ from floats: ``f32``, ``i32`` or ``q8``."""
    return "i32" if tensor.code is OperandCode.TENSOR_INT32 else dtype(tensor)


def offset(tensor: Tensor) -> int:
    """What moves the tensor's steps to 0..255."""
    return 128 if tensor.dtype == np.int8 else 0


def sign_mask(tensor: Tensor) -> int:
    """What words of the tensor are xored with to make their bytes unsigned."""
    return SIGN_MASK if offset(tensor) else 0


def zero_point(tensor: Tensor) -> int:
    """The zero point as unsigned step."""
    return tensor.zero_point + offset(tensor)


def clamp(call: Call) -> dict[str, float | int]:
    """Push constants ``low`` and ``high`` of the fused activation: real, unsigned steps, or all of INT32."""
    if call.output.code is OperandCode.TENSOR_INT32:
        return {"low": INT32_MIN, "high": INT32_MAX}
    low, high = activation_range(call.activation, call.output)
    return {"low": low + offset(call.output), "high": high + offset(call.output)}


def lookup_table(source: Tensor, result: Tensor, function: Callable[[Tensor], np.ndarray]) -> np.ndarray:
    """The 256 bytes that ``function``, an operation's reference, gives for every byte of ``source``.

    Indexed by the bytes as they lie in memory; ``function`` gets a tensor of type ``source`` with all of them.
    """
    every = np.arange(256, dtype=np.uint8).view(source.dtype)
    outcome = function(Tensor(source.name, source.index, source.type, data=every))
    return outcome.astype(result.dtype, copy=False).view(np.uint8)
