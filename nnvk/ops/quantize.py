"""Changes of the element type: QUANTIZE, also with ties to even, DEQUANTIZE and CAST."""

from __future__ import annotations

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.quant import dequantize, quantize, saturate
from nnvk.ops.registry import define
from nnvk.ops.signature import (
    BOOL8,
    EXTENSIONS_SINCE,
    F16,
    F32,
    I32,
    Q8,
    Q8_CHANNEL,
    Q8_SYMM,
    Q8S,
    Q16_ASYMM,
    Q16_SYMM,
    Codes,
    Signature,
    one_of,
    tensor,
)
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape

_CASTS: Codes = frozenset({F32, F16, I32, Q8})
"""Types that cast to one another; every other type casts to itself only."""


def _same_shape(call: Call) -> list[Shape]:
    return [call.input.shape]


def _quantize(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):
        return quantize(dequantize(call.input), call.output)


def _quantize_ties_to_even(call: Call) -> np.ndarray:
    """NaN is the lowest level, as in onnxruntime."""
    with np.errstate(all="ignore"):
        levels = np.rint(dequantize(call.input) / np.float32(call.output.scale)) + call.output.zero_point
    return saturate(np.where(np.isnan(levels), -np.inf, levels), call.output)


def _dequantize(call: Call) -> np.ndarray:
    with np.errstate(all="ignore"):  # FLOAT16 may overflow to infinity
        return quantize(dequantize(call.input), call.output)


def _cast_types(code: OperandCode) -> Codes:
    return _CASTS if code in _CASTS else frozenset({code})


def _cast(call: Call) -> np.ndarray:
    """Elements as numbers, whatever their scale: fractions are cut off, integers saturate."""
    data: np.ndarray = call.input.data
    dtype = call.output.dtype
    if data.dtype == dtype:
        return data
    with np.errstate(all="ignore"):
        if data.dtype.kind == "f" and dtype.kind in "iu":
            data = np.nan_to_num(data.astype(np.float64))
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            data = np.clip(data, limits.min, limits.max)
        return data.astype(dtype)


define(
    OperationCode.QUANTIZE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: 3, F16: 3},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output", one_of(Q8, Q8S)),),
    infer=_same_shape,
    reference=_quantize,
)
define(
    ExtendedOperationCode.QUANTIZE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: EXTENSIONS_SINCE, F16: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output", one_of(Q16_SYMM)),),
    infer=_same_shape,
    reference=_quantize,
)
define(
    ExtendedOperationCode.QUANTIZE_TIES_TO_EVEN,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={F32: EXTENSIONS_SINCE, F16: EXTENSIONS_SINCE},
    signatures=Signature(tensor("input")),
    outputs=(tensor("output", one_of(Q8, Q8S)),),
    infer=_same_shape,
    reference=_quantize_ties_to_even,
)
define(
    OperationCode.DEQUANTIZE,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={Q8: 1, Q8_SYMM: 3, Q8_CHANNEL: 3, Q8S: 4},
    signatures=Signature(tensor("input", rank=(1, 4))),
    outputs=(tensor("output", one_of(F32, F16)),),
    infer=_same_shape,
    reference=_dequantize,
    wide=True,
)
define(
    OperationCode.CAST,
    traits=Traits(foldable=True, fp16=Fp16.NEVER, converts=True),
    types={
        **dict.fromkeys((F32, F16, I32, Q8), 3),
        **dict.fromkeys((BOOL8, Q16_ASYMM, Q16_SYMM, Q8S, Q8_SYMM, Q8_CHANNEL), 4),
    },
    signatures=Signature(tensor("input")),
    outputs=(tensor("output", _cast_types),),
    infer=_same_shape,
    reference=_cast,
)
