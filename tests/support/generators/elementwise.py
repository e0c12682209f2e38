"""Operations on each element: maps, arithmetic, comparisons, changes of type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from generators.draw import Arg, Case, Draw, boolean, given, i32, ints, like, real, unit
from generators.table import generator
from nnvk.ops import registry
from nnvk.ops.quant import is_quantised
from nnvk.ops.signature import BOOL8, F16, F32, I32, Q8, Q8_CHANNEL, Q8_SYMM, Q8S
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode as Extended
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType, Shape


@generator(Op.LOGISTIC, Op.TANH)
def _sigmoid(d: Draw, code: Op, t: OperandCode) -> Case:
    output = unit(t, 1 / 256, 0) if code is Op.LOGISTIC else unit(t, 1 / 128, 128)
    return Case(code, (d.any(t),), (output,))


# --- two tensors ---------------------------------------------------------------------------------------------


def broadcasting(d: Draw, shape: Shape) -> Shape:
    """A shape that broadcasts with another: some sizes 1, some leading ones left out."""
    kept = shape[d.integer(0, len(shape) - 1) :] if d.chance(0.3) else shape
    return tuple(1 if d.chance(0.3) else size for size in kept)


def pair(d: Draw, t: OperandCode) -> tuple[Arg, Arg]:
    """Two tensors that broadcast, in either order."""
    first = d.any(t)
    second = d.tensor(t, broadcasting(d, first.shape))
    return (first, second) if d.chance() else (second, first)


@generator(Op.ADD, Op.SUB, Op.MUL, Op.DIV)
def _arithmetic(d: Draw, code: Op, t: OperandCode) -> Case:
    first, second = pair(d, t)
    if code is Op.DIV and t is I32:
        divisors = np.array([3, -2, 0, -1, 1000])
        second = given(OperandType(I32), divisors[d.values(OperandType(I32, second.shape)) % 5])
    output = d.quantised(t)
    product = np.float32(first.type.scale) * np.float32(second.type.scale)
    if code is Op.MUL and is_quantised(t) and not np.float32(output.scale) > product:
        output = replace(output, scale=float(product) * d.pick((1.25, 1.5, 4.0)))
    return Case(code, (first, second, i32(0 if t is I32 else d.integer(0, 3))), (output,))


@generator(Op.MAXIMUM, Op.MINIMUM, Op.POW, Op.PRELU)
@generator(Extended.ATAN2, Extended.FLOOR_DIV, Extended.FLOOR_MOD, Extended.FMOD)
def _pair(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    return Case(code, pair(d, t), (d.quantised(t),))


@generator(
    *(Op.EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.NOT_EQUAL, Op.LOGICAL_AND, Op.LOGICAL_OR)
)
def _compare(d: Draw, code: Op, t: OperandCode) -> Case:
    return Case(code, pair(d, t), (OperandType(BOOL8),))


@generator(Op.SELECT)
def _select(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(t)
    return Case(code, (d.tensor(BOOL8, first.shape), first, d.tensor(t, first.shape)), (d.quantised(t),))


# --- types ---------------------------------------------------------------------------------------------------


@generator(Op.CAST)
def _cast(d: Draw, code: Op, t: OperandCode) -> Case:
    source = _of_any_type(d, t)
    result = d.pick(sorted(registry.lookup(code).outputs[0].accepts(t)))
    same = source.type if source.type.channel_quant else like(source)  # channels need their dimension
    return Case(code, (source,), (same if result is t else d.quantised(result),))


@generator(Op.RANK)
def _rank(d: Draw, code: Op, t: OperandCode) -> Case:
    return Case(code, (_of_any_type(d, t),), (OperandType(OperandCode.INT32),))


def _of_any_type(d: Draw, t: OperandCode) -> Arg:
    return d.per_channel(d.sizes(3), d.integer(0, 2)) if t is Q8_CHANNEL else d.any(t)


@generator(Op.QUANTIZE)
def _quantize(d: Draw, code: Op, t: OperandCode) -> Case:
    return Case(code, (d.any(t),), (d.quantised(d.pick((Q8, Q8S))),))


@generator(Op.DEQUANTIZE)
def _dequantize(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.weights(t, *d.sizes(2)) if t is Q8_SYMM else _of_any_type(d, t)
    return Case(code, (source,), (OperandType(d.pick((F32, F16))),))


@generator(Op.FILL)
def _fill(d: Draw, code: Op, t: OperandCode) -> Case:
    tensors = {OperandCode.FLOAT32: F32, OperandCode.FLOAT16: F16, OperandCode.INT32: I32}
    value = d.new(OperandType(t), is_parameter=True)
    return Case(code, (ints(*d.sizes(d.integer(1, 4))), value), (OperandType(tensors[t]),))


# --- normalisation -------------------------------------------------------------------------------------------


def axis_of(d: Draw, source: Arg) -> int:
    """An axis, counted from either end."""
    rank = len(source.shape)
    return d.integer(-rank, rank - 1)


@generator(Op.SOFTMAX, Op.LOG_SOFTMAX)
def _softmax(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    options = [real(t, d.pick((1.0, 0.5, 3.0)))]
    if code is Op.LOG_SOFTMAX or d.chance():
        options.append(i32(axis_of(d, source)))
    return Case(code, (source, *options), (unit(t, 1 / 256, 0),))


@generator(Op.L2_NORMALIZATION)
def _l2(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    options = (i32(axis_of(d, source)),) if d.chance() else ()
    return Case(code, (source, *options), (unit(t, 1 / 128, 128),))


@generator(Op.LOCAL_RESPONSE_NORMALIZATION)
def _local_response(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    numbers = (real(t, 1.0), real(t, d.pick((0.1, 1.0))), real(t, d.pick((0.5, 0.75))))
    options = (i32(axis_of(d, source)),) if d.chance() else ()
    return Case(code, (source, i32(d.integer(0, 6)), *numbers, *options), (like(source),))


@generator(Op.INSTANCE_NORMALIZATION)
def _instance(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t, 4, 4)
    numbers = (real(t, 1.5), real(t, -0.5), real(t, 1e-3))
    return Case(code, (source, *numbers, boolean(d.chance())), (like(source),))
