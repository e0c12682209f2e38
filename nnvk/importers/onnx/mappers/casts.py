"""Cast and CastLike, and conversions to types of few bits."""

from __future__ import annotations

import numpy as np

from nnvk.importers.emitter import F32
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.narrow import Narrow
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import Tensor
from nnvk.ops.extension.round_float import Overflow
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import Shape


@operator("Cast", "CastLike")
def cast(c: Context) -> Tensor:
    """Map Cast. Real numbers are truncated, and integers of 8 and 16 bits wrap.

    A cast to FLOAT16 rounds where another cast or an output of the model follows, as in onnxruntime.
    """
    source = c.tensor(0)
    target, narrow = c.target()
    if source.dtype == target and source.narrow is narrow:
        return source
    if narrow is not None:
        return narrowed(c, c.number(0), source.shape, narrow, saturates=bool(c.node.integer("saturate", 1)))
    value = c.number(0)
    if source.is_cast:
        value = c.rounded(value)
    result = c.give(c.cast(value, target), source.shape, target)
    result.is_cast = target == np.float16
    return result


def narrowed(c: Context, value: Value, shape: Shape, narrow: Narrow, *, saturates: bool) -> Tensor:
    """Numbers as a type of few bits has them: real ones rounded to nearest, integers wrapped."""
    if narrow.carrier != np.float32:
        result = c.wrapped(c.cast(value, np.dtype(np.int32)), narrow.carrier, narrow.bits)
    elif narrow.format is not None:
        format_ = narrow.format
        result = c.emit(
            ExtendedOperationCode.ROUND_FLOAT,
            c.cast(value, np.dtype(np.float32)),
            format_.mantissa_bits,
            format_.least_exponent,
            format_.largest,
            int(Overflow.SATURATE if saturates and narrow.bits <= _MOST_SATURATED else format_.overflow),
            out=F32,
        )
    else:
        raise Unmapped(f"NNAPI rounds no numbers to {narrow.dtype}")
    return Tensor(narrow.carrier, shape, c.reshape(result, shape or (1,)), narrow=narrow)


_MOST_SATURATED = 8
"""The most bits of a type of real numbers for which conversions saturate."""
