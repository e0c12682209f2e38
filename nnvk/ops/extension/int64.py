"""Arithmetic on whole numbers of 64 bits, each of which is two elements: a low word, and a high one.

NNAPI has no tensor of INT64. A number is ``high * 2^32 + low`` with ``low`` from 0 to 2^32 - 1, as two TENSOR_INT32 of
one shape. A high word that is left out is that of a number of 32 bits: 0, or -1 where the low word is below 0. Results
come round at 64 bits, as INT64 does elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.binary import broadcast_shape
from nnvk.ops.call import Call, Tensor
from nnvk.ops.registry import define
from nnvk.ops.shapes import check_shape
from nnvk.ops.signature import (
    EXTENSIONS_SINCE,
    F32,
    I32,
    UP_TO_4,
    Param,
    Signature,
    boolean,
    one_of,
    optional_tensor,
    tensor,
)
from nnvk.ops.traits import Effect, Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

Op = ExtendedOperationCode

_INT32 = np.iinfo(np.int32)
_LOWEST = np.iinfo(np.int64).min


def joined(low: np.ndarray, high: np.ndarray | None) -> np.ndarray:
    """Combine low and high words to numbers, int64."""
    if high is None:
        return low.astype(np.int64)
    return (high.astype(np.int64) << 32) | np.ascontiguousarray(low).view(np.uint32).astype(np.int64)


def parted(numbers: np.ndarray) -> list[np.ndarray]:
    """Split numbers, int64, into low and high words, int32."""
    return [numbers.astype(np.uint32).view(np.int32), (numbers >> 32).astype(np.int32)]


def _numbers(low: Tensor, high: Tensor | None) -> np.ndarray:
    return joined(low.data, None if high is None else high.data)


def _check_words(low: Tensor, high: Tensor | None) -> None:
    if high is not None:
        check_shape(high, low.shape)


# --- two numbers ---------------------------------------------------------------------------------------------


def _pair_shape(call: Call) -> Shape:
    _check_words(call.low0, call.high0)
    _check_words(call.low1, call.high1)
    return broadcast_shape(call.low0, call.low1)


def _truncated(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Quotients rounded towards 0. A number divided by 0 is 0."""
    zeros = np.zeros(np.broadcast_shapes(dividend.shape, divisor.shape), np.int64)
    quotient = np.floor_divide(dividend, divisor, out=zeros, where=divisor != 0)
    rounded_down = (quotient * divisor != dividend) & ((dividend < 0) != (divisor < 0)) & (divisor != 0)
    return quotient + rounded_down


def _arithmetic(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Call], list[np.ndarray]]:
    def run(call: Call) -> list[np.ndarray]:
        with np.errstate(all="ignore"):  # numbers come round
            return parted(function(_numbers(call.low0, call.high0), _numbers(call.low1, call.high1)))

    return run


def _compared(call: Call) -> np.ndarray:
    first, second = _numbers(call.low0, call.high0), _numbers(call.low1, call.high1)
    return (first > second).astype(np.int32) - (first < second)


_TYPES = {I32: EXTENSIONS_SINCE}
_PAIR = Signature(
    tensor("low0", rank=UP_TO_4),
    optional_tensor("high0", rank=UP_TO_4),
    tensor("low1", rank=UP_TO_4),
    Param("high1", one_of(I32), None, rank=UP_TO_4, listed=True),
)
_WORDS = (tensor("low"), tensor("high"))

for _code, _function in (
    (Op.ADD_INT64, np.add),
    (Op.SUB_INT64, np.subtract),
    (Op.MUL_INT64, np.multiply),
    (Op.DIV_INT64, _truncated),
):
    define(
        _code,
        traits=Traits(foldable=True, fp16=Fp16.NEVER),
        types=_TYPES,
        signatures=_PAIR,
        outputs=_WORDS,
        infer=lambda call: [_pair_shape(call)] * 2,
        reference=_arithmetic(_function),
    )

define(
    Op.COMPARE_INT64,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types=_TYPES,
    signatures=_PAIR,
    infer=lambda call: [_pair_shape(call)],
    reference=_compared,
)

# --- other types ---------------------------------------------------------------------------------------------


def _from_float(call: Call) -> list[np.ndarray]:
    """Truncate floats to INT64. NaN and numbers out of range become the lowest number."""
    numbers = call.input.data
    fits = np.abs(numbers) < 2.0**63
    return parted(np.where(fits, np.where(fits, numbers, 0).astype(np.int64), _LOWEST))


define(
    Op.FLOAT_TO_INT64,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={F32: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("low", one_of(I32)), tensor("high", one_of(I32))),
    infer=lambda call: [call.input.shape] * 2,
    reference=_from_float,
)


def _word_shape(call: Call) -> list[Shape]:
    _check_words(call.low, call.high)
    return [call.low.shape]


define(
    Op.INT64_TO_FLOAT,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types=_TYPES,
    signatures=Signature(tensor("low"), tensor("high")),
    outputs=(tensor("output", one_of(F32)),),
    infer=_word_shape,
    reference=lambda call: _numbers(call.low, call.high).astype(np.float32),
)


def assertion(call: Call) -> str:
    """The assertion of INT64_TO_INT32. It shows the number as a multiple of 2^32 and a signed 32-bit rest."""
    least = 0 if call.is_unsigned else _INT32.min
    return f"a number must be in [{least}, {_INT32.max}], got {{}} * 2^32 + {{}}"


def _narrow_shape(call: Call) -> list[Shape]:
    shapes = _word_shape(call)
    least = 0 if call.is_unsigned else _INT32.min
    if call.low.is_constant and (call.high is None or call.high.is_constant):
        numbers = _numbers(call.low, call.high).reshape(-1)
        wrong = numbers[(numbers < least) | (numbers > _INT32.max)]
        if wrong.size:
            rest = int(wrong[:1].astype(np.int32)[0])
            raise bad_data(assertion(call).format((int(wrong[0]) - rest) >> 32, rest))
    return shapes


define(
    Op.INT64_TO_INT32,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, effects=Effect.CHECKS_DATA),
    types=_TYPES,
    signatures=Signature(tensor("low"), optional_tensor("high"), boolean("is_unsigned", False)),
    infer=_narrow_shape,
    reference=lambda call: call.low.data,
)
