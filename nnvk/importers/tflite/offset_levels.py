"""INT16 with a zero point, which NNAPI lacks: the levels are kept as TENSOR_INT32, and operators get real numbers.

TFLite has such tensors behind SOFTMAX of 8 bits, with a scale of 1/65536 and a zero point of -32768.
"""

from __future__ import annotations

import numpy as np

from nnvk.importers.decompositions.arithmetic import round_half_away, with_number
from nnvk.importers.emitter import F32, I32, NONE, Emitter
from nnvk.importers.graph_builder import Value
from nnvk.importers.tflite.operands import has_offset
from nnvk.importers.tflite.schema import Tensor
from nnvk.types.codes import OperationCode

Op = OperationCode
_LIMITS = np.iinfo(np.int16)


def read(c: Emitter, tensor: Tensor, value: Value) -> Value:
    """The value that operators read: real numbers in the place of levels with an offset."""
    return value.once("real", lambda: _real(c, tensor, value)) if has_offset(tensor) else value


def _real(c: Emitter, tensor: Tensor, value: Value) -> Value:
    levels = c.emit(Op.CAST, value, out=F32)
    distance = with_number(c, Op.SUB, levels, float(tensor.zero_points[0]), NONE)
    return with_number(c, Op.MUL, distance, float(tensor.scales[0]), NONE)


def written(c: Emitter, tensor: Tensor, value: Value) -> Value:
    """The value of an output: levels in the place of real numbers where the tensor has an offset."""
    if not has_offset(tensor):
        return value
    zero_point = float(tensor.zero_points[0])
    scaled = with_number(c, Op.MUL, c.widened(value), float(1 / tensor.scales[0]), NONE)
    rounded = round_half_away(c, scaled)
    levels = with_number(c, Op.ADD, rounded, zero_point, NONE)
    levels = with_number(c, Op.MINIMUM, with_number(c, Op.MAXIMUM, levels, _LIMITS.min), _LIMITS.max)
    return c.emit(Op.CAST, levels, out=I32)
