"""The data types of tensors in shaders: one table for all kernels.

`shaders/include/tensors.glsl` has the other half: what each value of the axis DTYPE means.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnvk.ops.call import Tensor
from nnvk.types.codes import OperandCode


@dataclass(frozen=True, slots=True)
class DType:
    """A data type, by how shaders load and store its elements."""

    name: str
    """The value of the shader axis DTYPE for computing with them."""
    codes: frozenset[OperandCode]
    bits: int
    """The bits of an element in memory."""

    @property
    def size(self) -> int:
        """Bytes of an element in memory."""
        return self.bits // 8

    @property
    def moved(self) -> str:
        """The value of the axis DTYPE for elements that are only moved."""
        return f"b{self.bits}"


F32 = DType("f32", frozenset({OperandCode.TENSOR_FLOAT32, OperandCode.FLOAT32}), 32)
F16 = DType("f16", frozenset({OperandCode.TENSOR_FLOAT16, OperandCode.FLOAT16}), 16)
I32 = DType("i32", frozenset({OperandCode.TENSOR_INT32, OperandCode.INT32, OperandCode.UINT32}), 32)
BOOL = DType("bool", frozenset({OperandCode.TENSOR_BOOL8, OperandCode.BOOL}), 8)
Q8 = DType(
    "q8",
    frozenset(
        {
            OperandCode.TENSOR_QUANT8_ASYMM,
            OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
            OperandCode.TENSOR_QUANT8_SYMM,
            OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        }
    ),
    8,
)
Q16 = DType("q16", frozenset({OperandCode.TENSOR_QUANT16_SYMM, OperandCode.TENSOR_QUANT16_ASYMM}), 16)

DTYPES = (F32, F16, I32, BOOL, Q8, Q16)
MOVED = ("b8", "b16", "b32")
"""The values of the axis DTYPE of shaders that only move elements."""

SIZES = {name: dtype.size for dtype in DTYPES for name in (dtype.name, dtype.moved)}
"""The bytes of an element in memory, by the value of the axis DTYPE."""

_OF = {code: dtype for dtype in DTYPES for code in dtype.codes}


def of(tensor: Tensor) -> DType:
    """The data type of a tensor. Raises TypeError for an operand that shaders can't hold."""
    try:
        return _OF[tensor.code]
    except KeyError:
        raise TypeError(f"{tensor.name} is {tensor.code.name}, which has no data type in shaders") from None


def named(code: OperandCode) -> str:
    """The value of the axis DTYPE for computing with the elements of a type. Raises KeyError as `of` does TypeError."""
    return _OF[code].name


def dtype(tensor: Tensor) -> str:
    """The value of the axis DTYPE for computing with a tensor's elements."""
    return of(tensor).name


def moved(tensor: Tensor) -> str:
    """The value of the axis DTYPE for moving a tensor's elements without interpreting them."""
    return of(tensor).moved
