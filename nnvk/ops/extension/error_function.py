"""ERF, the error function, and GELU, which weighs numbers by how many of a normal distribution are smaller.

Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1; Hendrycks and Gimpel, "Gaussian Error Linear Units".
"""

from __future__ import annotations

import math

import numpy as np

from nnvk.ops.registry import define
from nnvk.ops.signature import F16, F32, Signature, boolean, tensor
from nnvk.ops.traits import Elementwise, Fp16, Function, Traits
from nnvk.ops.unary import logistic, same_shape
from nnvk.types.extension import ExtendedOperationCode

_TYPES = {F32: 3, F16: 3}


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _gelu(x: np.ndarray, approximate: bool) -> np.ndarray:
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):  # NaN and infinity are results, as on a device
        if approximate:
            weight = logistic(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
        else:
            weight = _erfc(-x * math.sqrt(0.5)) / 2
        result: np.ndarray = np.where(np.isneginf(x), -0.0, x * weight)
    return result


define(
    ExtendedOperationCode.ERF,
    traits=Traits(foldable=True, fp16=Fp16.FOLLOWS, elementwise=Elementwise("erf", function=Function.ERF)),
    types=_TYPES,
    signatures=Signature(tensor("input")),
    infer=same_shape,
    reference=lambda call: _erf(call.input.data).astype(call.output.dtype),
)
define(
    ExtendedOperationCode.GELU,
    traits=Traits(
        foldable=True,
        fp16=Fp16.FOLLOWS,
        elementwise=Elementwise("gelu", function=Function.GELU, approximate=("gelu_by_tanh", Function.GELU_BY_TANH)),
    ),
    types=_TYPES,
    signatures=Signature(tensor("input"), boolean("approximate", False)),
    infer=same_shape,
    reference=lambda call: _gelu(call.input.data, call.approximate).astype(call.output.dtype),
)
