"""Operations that map each element by itself, except those with parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops import interpolated
from nnvk.ops.call import Call
from nnvk.ops.fused import activate
from nnvk.ops.interpolated import UNIT
from nnvk.ops.quant import dequantize, is_quantised, quantize
from nnvk.ops.registry import define
from nnvk.ops.signature import BOOL8, F16, F32, FLOATS, I32, Q8, Q8S, Q16_SYMM, QUANT8, UP_TO_4, Signature, tensor
from nnvk.ops.traits import Elementwise, Fp16, Function, Traits
from nnvk.types.codes import FuseCode, OperandCode, OperationCode
from nnvk.types.operand import Shape

Map = Callable[[np.ndarray], np.ndarray]


def logistic(x: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))`` without overflow."""
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, tail) / (1 + tail)


def same_shape(call: Call) -> list[Shape]:
    """The output has the input's shape."""
    return [call.input.shape]


def _same_quantisation(call: Call) -> None:
    source, result = call.input.type, call.output.type
    if is_quantised(source.code) and (source.scale, source.zero_point) != (result.scale, result.zero_point):
        raise bad_data(f"output must have the input's scale and zero point, {source}, got {result}")


def fixed_output(scale: float, zero_point: Mapping[OperandCode, int]) -> Callable[[Call], None]:
    """The rule of operations whose quantised output has one scale and zero point, 1/32768 and 0 if it is of 16 bits."""

    def check(call: Call) -> None:
        type_ = call.output.type
        if not is_quantised(type_.code):
            return
        expected = (UNIT, 0) if type_.code is Q16_SYMM else (scale, zero_point[type_.code])
        if (type_.scale, type_.zero_point) != expected:
            raise bad_data(f"output must have scale {expected[0]} and zero point {expected[1]}, got {type_}")

    return check


_INTERPOLATED = {OperationCode.LOGISTIC: interpolated.logistic, OperationCode.TANH: interpolated.tanh}
"""The operations that interpolate in tables on 16-bit levels."""


def _reference(function: Map) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        if call.input.code is Q16_SYMM:
            return _INTERPOLATED[call.code](call)
        if call.input.code in (I32, BOOL8):
            return function(call.input.data).astype(call.output.dtype)
        with np.errstate(all="ignore"):  # NaN and infinity are results, as on a device
            return quantize(function(dequantize(call.input)), call.output)

    return run


def _clip_reference(activation: FuseCode) -> Callable[[Call], np.ndarray]:
    """Clipping keeps the quantisation, so that quantised elements are clipped as levels."""

    def run(call: Call) -> np.ndarray:
        return activate(call.input.data, activation, call.output)

    return run


_UNIT = fixed_output(1 / 256, {Q8: 0, Q8S: -128})
_SYMMETRIC_UNIT = fixed_output(1 / 128, {Q8: 128, Q8S: 0})
_Row = tuple[Map, Mapping[OperandCode, int], Fp16, Callable[[Call], None] | None]

_MAPS: dict[OperationCode, _Row] = {
    OperationCode.ABS: (np.abs, {**FLOATS, F32: 3, I32: 4}, Fp16.FOLLOWS, None),
    OperationCode.EXP: (np.exp, {F32: 3, F16: 3}, Fp16.NEVER, None),
    OperationCode.FLOOR: (np.floor, FLOATS, Fp16.NEVER, None),
    OperationCode.LOG: (np.log, {F32: 3, F16: 3}, Fp16.NEVER, None),
    OperationCode.LOGICAL_NOT: (np.logical_not, {BOOL8: 3}, Fp16.NEVER, None),
    OperationCode.LOGISTIC: (logistic, {**FLOATS, **QUANT8}, Fp16.FOLLOWS, _UNIT),
    OperationCode.NEG: (np.negative, {F32: 3, F16: 3, I32: 3}, Fp16.FOLLOWS, None),
    OperationCode.RSQRT: (lambda x: 1 / np.sqrt(x), {F32: 3, F16: 3, Q8: 7, Q8S: 7}, Fp16.NEVER, None),
    OperationCode.SIN: (np.sin, {F32: 3, F16: 3}, Fp16.NEVER, None),
    OperationCode.SQRT: (np.sqrt, {F32: 3, F16: 3}, Fp16.NEVER, None),
    OperationCode.TANH: (np.tanh, {F32: 1, F16: 3, Q8: 3, Q8S: 4}, Fp16.FOLLOWS, _SYMMETRIC_UNIT),
}


def _elementwise(code: OperationCode) -> Elementwise | None:
    """The trait of a function of real numbers, whose kind and number have the name of the operation."""
    return None if code is OperationCode.LOGICAL_NOT else Elementwise(code.name.lower(), function=Function[code.name])


_AT_MOST_4 = (OperationCode.LOGISTIC, OperationCode.TANH)
for _code, (_map, _types, _fp16, _rule) in _MAPS.items():
    define(
        _code,
        traits=Traits(
            foldable=True,
            fp16=_fp16,
            elementwise=_elementwise(_code),
            converts=_code is OperationCode.LOGICAL_NOT,
        ),
        types=_types,
        signatures=Signature(tensor("input", rank=UP_TO_4 if _code in _AT_MOST_4 else None)),
        infer=same_shape,
        reference=_reference(_map),
        validate=_rule,
        wide=_code in _INTERPOLATED,
    )

_CLIPS = {
    OperationCode.RELU: FuseCode.RELU,
    OperationCode.RELU1: FuseCode.RELU1,
    OperationCode.RELU6: FuseCode.RELU6,
}
for _code, _activation in _CLIPS.items():
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, elementwise=Elementwise("clamp", clip=_activation)),
        types={**FLOATS, **QUANT8},
        signatures=Signature(tensor("input", rank=UP_TO_4)),
        infer=same_shape,
        reference=_clip_reference(_activation),
        validate=_same_quantisation,
        wide=True,
    )
