"""Operations of nnvk's vendor extension."""

from __future__ import annotations

import numpy as np

from generators.draw import Arg, Case, Draw, boolean, given, i32, ints, like, omitted, real
from generators.elementwise import pair
from generators.table import generator
from nnvk.ops.extension.non_max_suppression import Rule
from nnvk.ops.extension.scatter_nd import Reduction
from nnvk.ops.signature import F16, F32, I32, Q8, Q8S, Q16_SYMM
from nnvk.types.codes import OperandCode
from nnvk.types.extension import ExtendedOperationCode as Op
from nnvk.types.extension import KnownCode
from nnvk.types.operand import OperandType, Shape


def places(d: Draw, shape: Shape, sizes: Shape) -> Arg:
    """Indices of several axes, some of which count from the end: data, or a constant. An axis without elements has none
    that are right."""
    most = np.maximum(sizes, 1)
    numbers = d.rng.integers(-most, most, (*shape, len(sizes)))
    if d.chance():
        return ints(*numbers.reshape(-1).tolist(), shape=numbers.shape)
    return given(OperandType(I32), numbers)


@generator(Op.GATHER_ND)
def _gather_nd(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source = d.any(t)
    batch = d.integer(0, len(source.shape) - 1) if d.chance(0.4) else 0
    depth = d.integer(1, len(source.shape) - batch)
    between = d.sizes(d.integer(0, 2), 4)
    indices = places(d, (*source.shape[:batch], *between), source.shape[batch : batch + depth])
    options = (i32(batch),) if batch or d.chance() else ()
    return Case(code, (source, indices, *options), (like(source),))


@generator(Op.QUANTIZE)
def _quantize(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    return Case(code, (d.any(t),), (d.quantised(Q16_SYMM),))


@generator(Op.QUANTIZE_TIES_TO_EVEN)
def _quantize_ties_to_even(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    return Case(code, (d.any(t),), (d.quantised(d.pick((Q8, Q8S))),))


@generator(Op.ROI_ALIGN_V2)
def _roi_align_v2(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    """Regions in quarters of a pixel, on the map, beside it and turned over."""
    source = (*d.sizes(2, 3), *d.sizes(2, 6))
    count = d.integer(1, 4)
    rois = given(OperandType(t), d.rng.integers(-12, 36, (count, 4)) / 4)
    split = given(OperandType(I32), d.rng.integers(0, max(source[0], 1), count))
    numbers = [i32(d.integer(1, 3)), i32(d.integer(1, 3)), real(t, d.pick((1.0, 0.5))), i32(d.integer(0, 3))]
    flags = [boolean(d.chance()), boolean(d.chance())]
    return Case(code, (d.tensor(t, source), rois, split, *numbers, *flags), (OperandType(t),))


@generator(Op.BITS)
def _bits(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    """Bits of all kinds, and shifts by less than 0 and by more bits than there are."""
    shape, kind = d.sizes(d.integer(1, 4)), d.integer(0, 4)
    source = given(OperandType(t), d.rng.integers(-(2**31), 2**31, shape))
    most = 2**31 if kind < 3 else 40
    return Case(code, (source, given(OperandType(t), d.rng.integers(-most, most, shape)), i32(kind)), (like(source),))


@generator(Op.BITCAST)
def _bitcast(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    """Numbers whose bits are no NaN, and not too small to be normal numbers."""
    numbers = np.float32(1.5) * d.rng.integers(1, 1 << 20, d.sizes(d.integer(1, 4)))
    bits = numbers.astype(np.float32).view(np.int32) if t is I32 else numbers
    return Case(code, (given(OperandType(t), bits),), (OperandType(F32 if t is I32 else I32),))


@generator(Op.ROUND_FLOAT)
def _round_float(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    """Numbers of all sizes, around those of a format."""
    bits, least = d.integer(1, 22), d.pick((-126, d.integer(-20, 10)))
    shape = d.sizes(d.integer(1, 4))
    numbers = given(OperandType(t), np.ldexp(d.rng.normal(size=shape), d.rng.integers(-30, 30, shape)))
    largest = d.pick((448.0, 2.0**15, 3e38))
    return Case(code, (numbers, i32(bits), i32(least), real(t, largest), i32(d.integer(0, 2))), (OperandType(t),))


@generator(Op.DYNAMIC_QUANTIZE)
def _dynamic_quantize(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    return Case(code, (d.any(t),), (OperandType(t),) * 3)


@generator(Op.ROUND_ROWS)
def _round_rows(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source = d.any(t)
    rows = int(np.prod(source.shape[: d.integer(0, len(source.shape))]))
    return Case(code, (source, i32(max(rows, 1)), boolean(d.chance())), (OperandType(t),))


@generator(Op.SCATTER_ND)
def _scatter_nd(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source = d.any(t)
    depth = d.integer(1, len(source.shape))
    sizes, rest = source.shape[:depth], source.shape[depth:]
    rows = d.sizes(d.integer(0, 2), 4)
    indices = places(d, rows, sizes)
    updates = d.new(source.type.with_dimensions((*rows, *rest) or (1,)))
    if d.chance(0.4):
        return Case(code, (indices, updates, ints(*source.shape)), (like(updates),))
    most = Reduction.MIN if t in (F32, F16, I32) else Reduction.ADD
    return Case(code, (source, indices, updates, i32(d.integer(0, most))), (like(source),))


@generator(Op.TABLE_LOOKUP)
def _table_lookup(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source, result = d.any(t), d.quantised(t if t is Q16_SYMM else d.pick((Q8, Q8S)))
    table = d.new(result.with_dimensions((1 << 8 * source.type.dtype.itemsize,)), is_parameter=True)
    return Case(code, (source, table), (result,))


@generator(Op.NON_MAX_SUPPRESSION)
def _non_max_suppression(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    batches, classes, count = d.integer(1, 2), d.integer(1, 3), d.integer(1, 40)
    floats, integers = OperandType(F32), OperandType(I32)
    boxes = given(floats, d.rng.integers(0, 9, (batches, count, 4)) / 8)  # some are empty, or the wrong way round
    scores = given(floats, d.rng.integers(0, 30, (batches, classes, count)) / 16)
    overlap, sigma = given(floats, [d.pick((0.0, 0.25, 0.5, 1.0))]), d.pick((0.0, 0.0, 0.5))
    least = omitted() if not sigma and d.chance(0.3) else given(floats, [0.5])
    options = i32(d.integer(0, max(Rule))), boolean(d.chance(0.3)), real(t, sigma)
    return Case(code, (boxes, scores, i32(d.integer(0, 12)), overlap, least, *options), (integers, floats, integers))


@generator(Op.ADD_INT64, Op.SUB_INT64, Op.MUL_INT64, Op.DIV_INT64, Op.COMPARE_INT64)
def _whole_numbers(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    words: list[Arg] = []
    for low in pair(d, t):
        words += [low, omitted(t) if d.chance(0.3) else _any_word(d, low.shape)]
    return Case(code, tuple(words), (OperandType(I32),) * (1 if code is Op.COMPARE_INT64 else 2))


def _any_word(d: Draw, shape: Shape) -> Arg:
    return given(OperandType(I32), d.rng.integers(-(2**31), 2**31, shape))


@generator(Op.INT64_TO_FLOAT)
def _to_float(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    low = d.any(t)
    return Case(code, (low, _any_word(d, low.shape)), (OperandType(F32),))


@generator(Op.INT64_TO_INT32)
def _to_int(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    low = d.any(t)
    if d.chance() or low.data is None:
        return Case(code, (low, omitted(t)), (like(low),))
    fitting = d.new(low.type)
    assert fitting.data is not None
    return Case(code, (fitting, given(low.type, fitting.data >> 31), boolean(False)), (like(low),))
