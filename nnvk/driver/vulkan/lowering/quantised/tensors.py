"""Quantised tensors in shaders: the quantised values are unsigned for every operand type.

Signed tensors are moved by half their range with a sign mask when their words are unpacked and packed, so that one
variant of a shader serves both; zero points and limits move with them (see ``shaders/include/quant.glsl``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from nnvk.ops import registry
from nnvk.ops.binary import prelu_multipliers, product_multiplier, sum_multipliers
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activation_range
from nnvk.ops.internal import code_of, traits_of
from nnvk.ops.quant import INT32_MAX, INT32_MIN, is_quantised
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode

_SIGN_BITS = {1: 0x80808080, 2: 0x80008000}
"""The highest bit of every quantised value in a word, by its bytes."""

SMALL = 1 << 29
"""The magnitude from which numbers are too large for `multiply_small` of `shaders/include/requantise.glsl`."""
_SMALL_SHIFTS = -29, 0


def offset(tensor: Tensor) -> int:
    """The offset that moves quantised values to 0..255, or 0..65535; 0 for a tensor that is not quantised."""
    signed = is_quantised(tensor.code) and tensor.dtype.kind == "i"
    return 1 << (8 * tensor.dtype.itemsize - 1) if signed else 0


def sign_mask(tensor: Tensor) -> int:
    """The mask that makes the quantised values in a word of the tensor unsigned, by exclusive or."""
    return _SIGN_BITS[tensor.dtype.itemsize] if offset(tensor) else 0


def zero_point(tensor: Tensor) -> int:
    """The zero point as an unsigned quantised value."""
    return tensor.zero_point + offset(tensor)


def sign_push(tensor: Tensor) -> dict[str, int]:
    """The push constant ``sign_mask``, where the tensor is quantised."""
    return {"sign_mask": sign_mask(tensor)} if is_quantised(tensor.code) else {}


def clamp(call: Call) -> dict[str, float | int]:
    """Push constants ``low`` and ``high``: the `activation_limits` of a call."""
    low, high = activation_limits(call.activation, call.output)
    return {"low": low, "high": high}


def activation_limits(activation: int, output: Tensor) -> tuple[float | int, float | int]:
    """The limits of a fused activation: real numbers, unsigned quantised values, or all of INT32."""
    if output.code is OperandCode.TENSOR_INT32:
        return INT32_MIN, INT32_MAX
    low, high = activation_range(activation, output)
    return low + offset(output), high + offset(output)


def are_small_shifts(shifts: Iterable[int]) -> bool:
    """Whether `multiply_small` takes multipliers with these shifts."""
    return all(_SMALL_SHIFTS[0] <= shift <= _SMALL_SHIFTS[1] for shift in shifts)


def rescaling(call: Call) -> dict[str, tuple[int, int, int]]:
    """The zero points, mantissas and shifts of arithmetic on two quantised tensors: of ``lhs``, ``rhs`` and ``dst``."""
    trait = registry.lookup(call.code).traits.elementwise
    assert trait is not None
    first, second = (getattr(call, name) for name in trait.operands)
    lhs, rhs = (0, 0), (0, 0)
    if call.code is OperationCode.MUL:
        dst = product_multiplier(call)
    elif call.code is OperationCode.PRELU:
        lhs, dst = prelu_multipliers(call)
    else:
        lhs, rhs, dst = sum_multipliers(call)
    return {"lhs": (zero_point(first), *lhs), "rhs": (zero_point(second), *rhs), "dst": (zero_point(call.output), *dst)}


def rescaling_push(sides: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The push constants of `rescaling`."""
    names = "zero", "mantissa", "shift"
    return {f"{side}_{name}": each for side in sides for name, each in zip(names, sides[side], strict=True)}


def is_lookup(call: Call) -> bool:
    """Whether a call maps each quantised value of its input to one of its output, by a known table: `table_of`."""
    code = code_of(call)
    if code is ExtendedOperationCode.TABLE_LOOKUP:
        return bool(call.table.is_constant)
    trait = traits_of(code).elementwise
    if trait is None or len(trait.operands) > 1 or not is_quantised(call.input.code):
        return False
    return all(call.known(name) is not None for name in trait.parameters)


def table_of(call: Call) -> np.ndarray:
    """The lookup table of an operation on one quantised tensor, for the values of its other parameters."""
    if code_of(call) is ExtendedOperationCode.TABLE_LOOKUP:
        table: np.ndarray = call.table.data
        return table
    reference = registry.lookup(call.code).reference
    assert reference is not None

    def run(every: Tensor) -> np.ndarray:
        result = reference(call.with_tensors(lambda tensor: every if tensor is call.input else tensor))
        assert isinstance(result, np.ndarray)
        return result

    return lookup_table(call.input, call.output, run)


def lookup_table(source: Tensor, result: Tensor, function: Callable[[Tensor], np.ndarray]) -> np.ndarray:
    """The results of ``function``, an operation's reference, for every quantised value of ``source``.

    256 bytes, or 65,536 words of 16 bits, indexed by the bits as they lie in memory; ``function`` gets a tensor of type
    ``source`` with all of them.
    """
    bits = np.uint8 if source.dtype.itemsize == 1 else np.uint16
    every = np.arange(np.iinfo(bits).max + 1, dtype=bits).view(source.dtype)
    outcome = function(Tensor(source.name, source.index, source.type, data=every))
    return outcome.astype(result.dtype, copy=False).view(bits)
