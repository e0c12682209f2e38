"""ROUNDED_MEAN: MEAN of 8-bit tensors, rounded to the nearest level as in TensorFlow Lite. NNAPI's MEAN truncates."""

from __future__ import annotations

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.quant import round_half_away, saturate
from nnvk.ops.reduce import MEAN_INPUTS, nonempty_reduced_shape, reduced_axes, reduced_count
from nnvk.ops.registry import define
from nnvk.ops.shapes import keeps_quantisation
from nnvk.ops.signature import Q8, Q8S, Signature
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.extension import ExtendedOperationCode


def _rounded_mean(call: Call) -> np.ndarray:
    zero_point = call.input.zero_point
    # Exact: the sums of levels stay far below 2^53. Rounded about the zero point, as the real values would be.
    sums = (call.input.data.astype(np.int64) - zero_point).sum(axis=reduced_axes(call))
    rounded = round_half_away(sums / reduced_count(call)) + zero_point
    return saturate(rounded, call.output).reshape(call.output.shape)


define(
    ExtendedOperationCode.ROUNDED_MEAN,
    traits=Traits(foldable=True, fp16=Fp16.NEVER),
    types={Q8: 3, Q8S: 4},
    signatures=Signature(*MEAN_INPUTS),
    infer=nonempty_reduced_shape,
    reference=_rounded_mean,
    validate=keeps_quantisation(),
)
