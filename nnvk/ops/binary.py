"""Arithmetic on two tensors that broadcast: ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, POW, PRELU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import activate, check_activation
from nnvk.ops.quant import (
    dequantize,
    float32,
    is_quantised,
    map_levels,
    multiply_by_quantized_multiplier,
    quantize,
    quantize_multiplier,
    requantize,
    saturate,
)
from nnvk.ops.registry import define
from nnvk.ops.signature import F16, F32, FLOATS, I32, Q8, Q8S, Q16_SYMM, UP_TO_4, Signature, activation, tensor
from nnvk.ops.traits import Elementwise, Fp16, Function, Traits
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.operand import OperandType, Shape

_Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def left_shift(call: Call) -> int:
    """The bits by which quantised sums are shifted left before they are rescaled, as in TFLite."""
    return 15 if call.output.code is Q16_SYMM else 20


def broadcast_shape(first: Tensor, second: Tensor) -> Shape:
    """The shape of both together: sizes are equal or one of them is 1, counted from the last dimension."""
    one, other = first.shape, second.shape
    if len(one) < len(other):
        one, other = other, one
    ahead = len(one) - len(other)
    joined = list(one)
    for axis, size in enumerate(other, start=ahead):
        if one[axis] == 1:
            joined[axis] = size
        elif size not in (1, one[axis]):
            raise bad_data(
                f"{second.name} must have a shape that broadcasts with {list(first.shape)} of {first.name}, "
                f"got {list(second.shape)}"
            )
    return tuple(joined)


def centred_levels(source: Tensor) -> np.ndarray:
    """The levels minus the zero point, int64."""
    return source.data.astype(np.int64) - source.zero_point


# --- with a fused activation: ADD, SUB, MUL, DIV -------------------------------------------------------------


def _infer_fused(call: Call) -> list[Shape]:
    check_activation(call.activation)
    if call.input0.code == I32 and call.activation != FuseCode.NONE:
        raise bad_data(f"activation must be NONE (0) for TENSOR_INT32, got {call.activation}")
    return [broadcast_shape(call.input0, call.input1)]


def sum_multipliers(call: Call) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Mantissa and shift of a quantised ADD's or SUB's input0, input1 and output.

    Centred inputs are `left_shift`ed and brought to twice the larger input scale; their sum goes from
    there to the output's scale.
    """
    first, second, output = (float32(operand.scale) for operand in (call.input0, call.input1, call.output))
    common = 2 * max(first, second)
    return (
        quantize_multiplier(first / common),
        quantize_multiplier(second / common),
        quantize_multiplier(common / ((1 << left_shift(call)) * output)),
    )


def _sum_levels(sign: int) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        *inputs, output = sum_multipliers(call)
        first, second = (
            _common_scale(source, left_shift(call), multiplier)
            for source, multiplier in zip((call.input0, call.input1), inputs, strict=True)
        )
        return multiply_by_quantized_multiplier(first + sign * second, *output) + call.output.zero_point

    return run


def _common_scale(source: Tensor, bits: int, multiplier: tuple[int, int]) -> np.ndarray:
    def convert(levels: np.ndarray) -> np.ndarray:
        return multiply_by_quantized_multiplier((levels.astype(np.int64) - source.zero_point) << bits, *multiplier)

    return map_levels(convert, source.data)


def product_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift that take a quantised MUL's products to the output's scale."""
    product = np.float32(call.input0.scale) * np.float32(call.input1.scale)
    return quantize_multiplier(float(product / np.float32(call.output.scale)))


def allows_product(first: OperandType, second: OperandType, output: OperandType) -> bool:
    """Whether the output of a quantised MUL has a larger scale than the products, as it must."""
    with np.errstate(over="ignore"):  # too large for float32 is too large for any output
        return bool(np.float32(output.scale) > np.float32(first.scale) * np.float32(second.scale))


def _check_product_scale(call: Call) -> None:
    first, second, output = call.input0, call.input1, call.output
    if is_quantised(output.code) and not allows_product(first.type, second.type, output.type):
        raise bad_data(
            f"output must have a larger scale than {first.scale * second.scale:g}, the product of input0's "
            f"{first.scale:g} and input1's {second.scale:g}, got {output.scale:g}"
        )


def _product_levels(call: Call) -> np.ndarray:
    product = centred_levels(call.input0) * centred_levels(call.input1)
    return multiply_by_quantized_multiplier(product, *product_multiplier(call)) + call.output.zero_point


def _floor_divide(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """DIV of TENSOR_INT32, which rounds down. An element divided by 0, which NNAPI leaves undefined, is 0."""
    zeros = np.zeros(np.broadcast_shapes(dividend.shape, divisor.shape), dividend.dtype)
    quotient: np.ndarray = np.floor_divide(dividend, divisor, out=zeros, where=divisor != 0)
    return quotient


def _fused(
    function: _Function, integer: _Function, levels: Callable[[Call], np.ndarray] | None
) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        first, second, output = call.input0, call.input1, call.output
        if levels is not None and is_quantised(output.code):
            return activate(levels(call), call.activation, output)
        with np.errstate(all="ignore"):  # infinity, NaN and INT32's wrapping round are results, as on a device
            if output.code == I32:
                return integer(first.data, second.data)
            return activate(function(dequantize(first), dequantize(second)), call.activation, output)

    return run


_FusedRow = tuple[_Function, _Function, Callable[[Call], np.ndarray] | None, Fp16, Mapping[OperandCode, int]]
_OPERANDS = ("input0", "input1")
_FROM_2 = {F32: 2, F16: 3}

_FUSED: dict[OperationCode, _FusedRow] = {
    OperationCode.ADD: (np.add, np.add, _sum_levels(1), Fp16.FOLLOWS, {**FLOATS, Q8: 1, Q8S: 4, I32: 4}),
    OperationCode.SUB: (np.subtract, np.subtract, _sum_levels(-1), Fp16.FOLLOWS, {**_FROM_2, Q8: 3, Q8S: 4, I32: 4}),
    OperationCode.MUL: (np.multiply, np.multiply, _product_levels, Fp16.FOLLOWS, {**FLOATS, Q8: 1, Q8S: 4, I32: 4}),
    OperationCode.DIV: (np.divide, _floor_divide, None, Fp16.FOLLOWS, {**_FROM_2, I32: 4}),
}
for _code, (_function, _integer, _levels, _fp16, _types) in _FUSED.items():
    define(
        _code,
        traits=Traits(
            foldable=True,
            fp16=_fp16,
            elementwise=Elementwise(_code.name.lower(), _OPERANDS, function=Function[_code.name], is_fused=True),
        ),
        types=_types,
        signatures=Signature(*(tensor(name, rank=UP_TO_4) for name in _OPERANDS), activation()),
        infer=_infer_fused,
        validate=_check_product_scale if _code is OperationCode.MUL else None,
        reference=_fused(_function, _integer, _levels),
        wide=_levels is not None,
    )


# --- without: MAXIMUM, MINIMUM, POW, PRELU -------------------------------------------------------------------


def _infer_pair(first: str, second: str) -> Callable[[Call], list[Shape]]:
    return lambda call: [broadcast_shape(getattr(call, first), getattr(call, second))]


def _extreme(function: _Function) -> Callable[[Call], np.ndarray]:
    """The reference of MAXIMUM and MINIMUM. Quantised inputs are first converted to the output's scale."""

    def run(call: Call) -> np.ndarray:
        if is_quantised(call.output.code):
            return function(requantize(call.input0, call.output), requantize(call.input1, call.output))
        return function(call.input0.data, call.input1.data)

    return run


def _power(call: Call) -> np.ndarray:
    """POW in double precision, because NumPy's float32 powers are off by some ulps on some processors."""
    base, exponent = (dequantize(operand).astype(np.float64) for operand in (call.base, call.exponent))
    with np.errstate(all="ignore"):  # NaN for a negative base with a broken exponent
        return quantize(np.power(base, exponent), call.output)


def prelu_multipliers(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """Mantissa and shift of a quantised PRELU's positive inputs, and of its negative inputs' products with alpha."""
    source, slope, output = (np.float32(operand.scale) for operand in (call.input, call.alpha, call.output))
    return quantize_multiplier(float(source / output)), quantize_multiplier(float(source * slope / output))


def _prelu(call: Call) -> np.ndarray:
    if not is_quantised(call.output.code):
        values, alpha = dequantize(call.input), dequantize(call.alpha)
        with np.errstate(all="ignore"):
            return np.where(values >= 0, values, values * alpha).astype(call.output.dtype)
    positive, negative = prelu_multipliers(call)
    levels = centred_levels(call.input)
    kept = multiply_by_quantized_multiplier(levels, *positive)
    scaled = multiply_by_quantized_multiplier(levels * centred_levels(call.alpha), *negative)
    return saturate(np.where(levels >= 0, kept, scaled) + call.output.zero_point, call.output)


_PairRow = tuple[str, str, str, Callable[[Call], np.ndarray], Fp16, Mapping[OperandCode, int]]
_FROM_3 = {F32: 3, F16: 3}
_EXTREMES = {**_FROM_3, I32: 3, Q8: 3, Q8S: 4}

_PAIRS: dict[OperationCode, _PairRow] = {
    OperationCode.MAXIMUM: ("max", "input0", "input1", _extreme(np.maximum), Fp16.FOLLOWS, _EXTREMES),
    OperationCode.MINIMUM: ("min", "input0", "input1", _extreme(np.minimum), Fp16.FOLLOWS, _EXTREMES),
    OperationCode.POW: ("pow", "base", "exponent", _power, Fp16.NEVER, _FROM_3),
    OperationCode.PRELU: ("prelu", "input", "alpha", _prelu, Fp16.FOLLOWS, {**_FROM_3, Q8: 3, Q8S: 4}),
}
for _code, (_kind, _first, _second, _reference, _fp16, _types) in _PAIRS.items():
    define(
        _code,
        traits=Traits(
            foldable=True,
            fp16=_fp16,
            elementwise=Elementwise(_kind, (_first, _second), function=Function.__members__.get(_code.name)),
        ),
        types=_types,
        signatures=Signature(tensor(_first), tensor(_second)),
        infer=_infer_pair(_first, _second),
        reference=_reference,
        wide=Q8 in _types,
    )
