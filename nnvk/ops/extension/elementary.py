"""Elementary functions of real numbers that NNAPI lacks, of one tensor and of two that broadcast.

References compute in double precision, so their results are the floats nearest to the true ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.ops.binary import broadcast_shape
from nnvk.ops.call import Call
from nnvk.ops.registry import define
from nnvk.ops.signature import EXTENSIONS_SINCE, F16, F32, UP_TO_4, Signature, real, tensor
from nnvk.ops.traits import Elementwise, Fp16, Function, Traits
from nnvk.ops.unary import logistic, same_shape
from nnvk.types.extension import ExtendedOperationCode as Op

_TYPES = dict.fromkeys((F32, F16), EXTENSIONS_SINCE)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.logaddexp(0, x))


def _mish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.tanh(_softplus(x)))


def _reference(function: Callable[..., np.ndarray], *operands: str) -> Callable[[Call], np.ndarray]:
    def run(call: Call) -> np.ndarray:
        with np.errstate(all="ignore"):  # NaN and infinity are results, as on a device
            wide = (getattr(call, name).data.astype(np.float64) for name in operands)
            return function(*wide).astype(call.output.dtype)

    return run


_UNARY: dict[Op, Callable[[np.ndarray], np.ndarray]] = {
    Op.ACOS: np.arccos,
    Op.ACOSH: np.arccosh,
    Op.ASIN: np.arcsin,
    Op.ASINH: np.arcsinh,
    Op.ATAN: np.arctan,
    Op.ATANH: np.arctanh,
    Op.CBRT: np.cbrt,
    Op.COS: np.cos,
    Op.COSH: np.cosh,
    Op.MISH: _mish,
    Op.SINH: np.sinh,
    Op.SOFTPLUS: _softplus,
    Op.TAN: np.tan,
}
_GENTLE = (Op.MISH, Op.SOFTPLUS)
"""Functions whose results are about as large as their operands."""

for _code, _function in _UNARY.items():
    define(
        _code,
        traits=Traits(
            foldable=True,
            fp16=Fp16.FOLLOWS if _code in _GENTLE else Fp16.NEVER,
            elementwise=Elementwise(_code.name.lower(), function=Function.__members__.get(_code.name)),
        ),
        types=_TYPES,
        signatures=Signature(tensor("input")),
        infer=same_shape,
        reference=_reference(_function, "input"),
    )


def _swish(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        x = call.input.data.astype(np.float64)
        return np.asarray(x * logistic(call.alpha * x)).astype(call.output.dtype)


define(
    Op.SWISH,
    traits=Traits(
        foldable=True, fp16=Fp16.FOLLOWS, elementwise=Elementwise("swish", numbers=("alpha",), function=Function.SWISH)
    ),
    types=_TYPES,
    signatures=Signature(tensor("input"), real("alpha", 1.0)),
    infer=same_shape,
    reference=_swish,
)


def _floor_remainder(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    rest = np.fmod(first, second)
    return np.where((rest != 0) & (np.signbit(rest) != np.signbit(second)), rest + second, rest)


def _floor_quotient(call: Call) -> np.ndarray:
    """The quotient, rounded to a float, and that rounded down."""
    with np.errstate(all="ignore"):
        first, second = (operand.data.astype(np.float32) for operand in (call.input0, call.input1))
        return np.floor(first / second).astype(call.output.dtype)


_OPERANDS = ("input0", "input1")
_PAIRS: dict[Op, Callable[[Call], np.ndarray]] = {
    Op.ATAN2: _reference(np.arctan2, *_OPERANDS),
    Op.FLOOR_DIV: _floor_quotient,
    Op.FLOOR_MOD: _reference(_floor_remainder, *_OPERANDS),
    Op.FMOD: _reference(np.fmod, *_OPERANDS),
}
for _code, _pair in _PAIRS.items():
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.NEVER, elementwise=Elementwise(_code.name.lower(), _OPERANDS)),
        types=_TYPES,
        signatures=Signature(*(tensor(name, rank=UP_TO_4) for name in _OPERANDS)),
        infer=lambda call: [broadcast_shape(call.input0, call.input1)],
        reference=_pair,
    )
