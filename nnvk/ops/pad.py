"""Operations that put elements around a tensor: PAD, PAD_V2, MIRROR_PAD."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnvk.base.errors import bad_data
from nnvk.ops.call import Call
from nnvk.ops.quant import is_quantised, limits
from nnvk.ops.registry import define
from nnvk.ops.shapes import MOVED_2, MOVED_3, MOVED_INT_7, check_shape, keeps_quantisation, keeps_rank
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Signature, by_type, i32, one_of, real, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import Shape

REFLECT, SYMMETRIC = 0, 1
_MODES = {REFLECT: "reflect", SYMMETRIC: "symmetric"}


def paddings(call: Call) -> list[tuple[int, int]]:
    """Elements before and after each axis of the input; BAD_DATA where there are too few, too many or negative."""
    check_shape(call.paddings, (call.input.rank, 2))
    pairs: list[tuple[int, int]] = [(before, after) for before, after in call.paddings.data.tolist()]
    if any(min(pair) < 0 for pair in pairs):
        raise bad_data(f"paddings must not be negative, got {pairs}")
    return pairs


def pad_value(call: Call) -> float | int:
    """The value that PAD and PAD_V2 pad with: a real number, or a level where the input is quantised."""
    if call.has("pad_value"):
        value: float | int = call.pad_value
        return value
    return call.input.zero_point if is_quantised(call.input.code) else 0.0


def _padded(call: Call) -> list[Shape]:
    pairs = paddings(call)
    return [tuple(before + size + after for size, (before, after) in zip(call.input.shape, pairs, strict=True))]


def _pad_shape(call: Call) -> list[Shape]:
    if is_quantised(call.input.code):
        low, high = limits(call.input.code)
        if not low <= pad_value(call) <= high:
            raise bad_data(f"pad_value must be in [{low}, {high}], got {pad_value(call)}")
    return _padded(call)


def _mirrored_shape(call: Call) -> list[Shape]:
    pairs = paddings(call)
    if call.mode not in _MODES:
        raise bad_data(f"mode must be 0 (REFLECT) or 1 (SYMMETRIC), got {call.mode}")
    for axis, (pair, size) in enumerate(zip(pairs, call.input.shape, strict=True)):
        most = size - 1 if call.mode == REFLECT else size
        if max(pair) > most:
            raise bad_data(f"paddings of axis {axis}, which has size {size}, must be at most {most}, got {list(pair)}")
    return _padded(call)


def _check_mirrored(call: Call) -> None:
    """Beside the output's rank, that there are as many paddings as dimensions, though these may not be known."""
    keeps_rank(call)
    source, pairs = call.input.known_dimensions, call.paddings.known_dimensions
    if source is not None and pairs is not None and pairs[0] not in (0, len(source)):
        raise bad_data(f"paddings must have shape {[len(source), 2]}, got {list(pairs)}")


def _pad(call: Call) -> np.ndarray:
    return np.pad(call.input.data, paddings(call), constant_values=pad_value(call))


def _mirror(call: Call) -> np.ndarray:
    mode: Any = _MODES[call.mode]
    padded: np.ndarray = np.pad(call.input.data, paddings(call), mode=mode)
    return padded


_PADDINGS = tensor("paddings", one_of(I32), rank=2)
_INPUTS = (tensor("input", rank=(1, 4)), _PADDINGS)
_MIRRORED = Signature(tensor("input"), _PADDINGS, i32("mode"))
_VALUE = real(
    "pad_value",
    accepts=by_type(
        {F32: OperandCode.FLOAT32, F16: OperandCode.FLOAT16, Q8: OperandCode.INT32, Q8S: OperandCode.INT32}
    ),
)

for _code, _types, _fp16, _signature, _infer, _reference in (
    (OperationCode.PAD, MOVED_2, Fp16.FOLLOWS, Signature(*_INPUTS), _pad_shape, _pad),
    (OperationCode.PAD_V2, MOVED_3, Fp16.FOLLOWS, Signature(*_INPUTS, _VALUE), _pad_shape, _pad),
    (OperationCode.MIRROR_PAD, MOVED_INT_7, Fp16.FOLLOWS, _MIRRORED, _mirrored_shape, _mirror),
):
    define(
        _code,
        traits=Traits(foldable=True, fp16=_fp16),
        types=_types,
        signatures=_signature,
        infer=_infer,
        reference=_reference,
        validate=_check_mirrored if _code is OperationCode.MIRROR_PAD else keeps_quantisation(),
        wide=_code is not OperationCode.PAD_V2,
    )
