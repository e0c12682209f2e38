"""Operations that move, pick or fold elements."""

from __future__ import annotations

import math

from generators.draw import Arg, Case, Draw, boolean, given, i32, ints, like, omitted
from generators.elementwise import axis_of
from generators.table import generator
from nnvk.ops.signature import I32, Q8, Q8S
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.extension import ExtendedOperationCode, KnownCode
from nnvk.types.operand import OperandType, Shape


def divisors(number: int) -> list[int]:
    """All from 1 on; of 0 there is 1."""
    return [size for size in range(1, max(1, number) + 1) if number % size == 0]


@generator(Op.RESHAPE)
def _reshape(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    elements = math.prod(source.shape)
    first = d.pick(divisors(elements))
    sizes = d.pick([(first, elements // first), (first, -1), (-1,), source.shape[::-1], (1, first, 1, -1)])
    return Case(code, (source, ints(*sizes, shape=d.loose(len(sizes)))), (like(source),))


@generator(Op.SQUEEZE)
def _squeeze(d: Draw, code: Op, t: OperandCode) -> Case:
    shape = tuple(1 if d.chance() else size for size in d.sizes(d.integer(1, 4)))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    squeezed = [axis for axis in ones if d.chance()]
    axes = ints(*squeezed) if squeezed else omitted(I32)
    source = d.tensor(t, shape)
    return Case(code, (source,) if axes.data is None and d.chance() else (source, axes), (like(source),))


@generator(Op.EXPAND_DIMS)
def _expand_dims(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t, 1, 3)
    rank = len(source.shape)
    return Case(code, (source, i32(d.integer(-rank - 1, rank))), (like(source),))


@generator(Op.TRANSPOSE)
def _transpose(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    order = [int(axis) for axis in d.rng.permutation(len(source.shape))]
    perm = () if d.chance(0.2) else (ints(*order),)
    return Case(code, (source, *perm), (like(source),))


@generator(Op.TILE)
def _tile(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t, 1, 3)
    rank = len(source.shape)
    return Case(code, (source, ints(*d.sizes(rank, 3), shape=d.loose(rank))), (like(source),))


@generator(Op.REVERSE)
def _reverse(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    return Case(code, (source, ints(axis_of(d, source) % len(source.shape))), (like(source),))


@generator(Op.CHANNEL_SHUFFLE)
def _channel_shuffle(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    axis = axis_of(d, source)
    groups = d.pick(divisors(source.shape[axis]))
    return Case(code, (source, i32(groups), i32(axis)), (like(source),))


# --- around --------------------------------------------------------------------------------------------------


@generator(Op.PAD, Op.PAD_V2)
def _pad(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    rank = len(source.shape)
    paddings = ints(*(d.integer(0, 2) for _ in range(2 * rank)), shape=(rank, 2))
    value: tuple[Arg, ...] = ()
    if code is Op.PAD_V2:
        scalar = {Q8: OperandCode.INT32, Q8S: OperandCode.INT32}.get(t, OperandCode(_SCALARS.get(t.name, 0)))
        low, high = {Q8: (0, 255), Q8S: (-128, 127)}.get(t, (-3, 3))
        value = (d.new(OperandType(scalar), low, high, is_parameter=True),)
    return Case(code, (source, paddings, *value), (like(source),))


_SCALARS = {"TENSOR_FLOAT16": OperandCode.FLOAT16, "TENSOR_FLOAT32": OperandCode.FLOAT32}


@generator(Op.MIRROR_PAD)
def _mirror_pad(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    mode = d.integer(0, 1)
    pairs = [d.integer(0, max(0, size - 1 + mode)) for size in source.shape for _ in range(2)]
    return Case(code, (source, ints(*pairs, shape=(len(source.shape), 2)), i32(mode)), (like(source),))


# --- parts ---------------------------------------------------------------------------------------------------


@generator(Op.SLICE)
def _slice(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    begins = [d.integer(0, size - 1) for size in source.shape]
    counts = [
        -1 if d.chance(0.2) else d.integer(1, size - begin) for begin, size in zip(begins, source.shape, strict=True)
    ]
    return Case(code, (source, ints(*begins), ints(*counts)), (like(source),))


@generator(Op.STRIDED_SLICE)
def _strided_slice(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    rows, shrink = [], 0
    for axis, size in enumerate(source.shape):
        if d.chance(0.2):
            shrink |= 1 << axis
            begin = d.integer(0, size - 1)
            rows.append((begin, begin + 1, 1))
        else:
            stride = d.pick((1, 2, -1, -2, 3))
            rows.append((0, size, stride) if stride > 0 else (size - 1, -size - 1, stride))
    masks = [d.integer(0, 15) & ~shrink, d.integer(0, 15) & ~shrink, shrink]
    begin, end, strides = (ints(*column) for column in zip(*rows, strict=True))
    return Case(code, (source, begin, end, strides, *map(i32, masks)), (like(source),))


@generator(Op.SPLIT)
def _split(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    axis = axis_of(d, source)
    count = d.pick(divisors(source.shape[axis]))
    return Case(code, (source, i32(axis), i32(count)), (like(source),) * count)


@generator(Op.GATHER)
def _gather(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t, 1, 3)
    axis = axis_of(d, source)
    return Case(code, (source, i32(axis), indices(d, d.sizes(d.integer(1, 2)), source.shape[axis])), (like(source),))


def indices(d: Draw, shape: Shape, size: int) -> Arg:
    """Indices into ``size`` elements: data, or a constant."""
    numbers = d.rng.integers(0, max(1, size), shape)
    return ints(*numbers.reshape(-1).tolist(), shape=shape) if d.chance() else given(OperandType(I32), numbers)


@generator(Op.EMBEDDING_LOOKUP)
def _embedding_lookup(d: Draw, code: Op, t: OperandCode) -> Case:
    value = d.any(t, 2, 4)
    return Case(code, (indices(d, d.sizes(1), value.shape[0]), value), (like(value),))


@generator(Op.HASHTABLE_LOOKUP)
def _hashtable_lookup(d: Draw, code: Op, t: OperandCode) -> Case:
    value = d.any(t, 1, 4)
    keys = ints(*sorted(d.integer(-9, 9) for _ in range(value.shape[0])))
    lookup = given(OperandType(I32), d.rng.integers(-9, 10, d.sizes(1)))
    return Case(code, (lookup, keys, value), (like(value), OperandType(Q8, (), 1.0, 0)))


# --- together ------------------------------------------------------------------------------------------------


@generator(Op.CONCATENATION)
def _concatenation(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(t)
    axis = d.integer(0, len(first.shape) - 1)
    others = []
    for _ in range(d.integer(0, 3)):
        shape = list(first.shape)
        shape[axis] = d.integer(1, 3)
        others.append(d.tensor(t, tuple(shape)))
    return Case(code, (first, *others, i32(axis)), (d.quantised(t),))


@generator(Op.PACK)
def _pack(d: Draw, code: Op, t: OperandCode) -> Case:
    first = d.any(t, 1, 3)
    others = (d.new(first.type) for _ in range(d.integer(0, 2)))
    return Case(code, (i32(d.integer(0, len(first.shape))), first, *others), (like(first),))


# --- blocks --------------------------------------------------------------------------------------------------


def layout(shape: Shape, nchw: bool) -> Shape:
    """An NHWC shape in a layout."""
    return (shape[0], shape[3], shape[1], shape[2]) if nchw else shape


def layout_option(d: Draw) -> tuple[bool, tuple[Arg, ...]]:
    """The layout and the trailing parameter that says so, which may be left out for NHWC."""
    nchw = d.chance()
    return nchw, () if not nchw and d.chance() else (boolean(nchw),)


@generator(Op.SPACE_TO_DEPTH, Op.DEPTH_TO_SPACE)
def _depth(d: Draw, code: Op, t: OperandCode) -> Case:
    block = d.integer(1, 3)
    batches, height, width, channels = d.sizes(4, 3)
    nchw, option = layout_option(d)
    if code is Op.SPACE_TO_DEPTH:
        height, width = height * block, width * block
    else:
        channels *= block * block
    source = d.tensor(t, layout((batches, height, width, channels), nchw))
    return Case(code, (source, i32(block), *option), (like(source),))


@generator(Op.SPACE_TO_BATCH_ND)
def _space_to_batch(d: Draw, code: Op, t: OperandCode) -> Case:
    batches, height, width, channels = d.sizes(4, 4)
    nchw, option = layout_option(d)
    blocks, pairs = [], []
    for size in (height, width):
        block, before = d.integer(1, 3), d.integer(0, 2)
        blocks.append(block)
        pairs += [before, -(size + before) % block]
    source = d.tensor(t, layout((batches, height, width, channels), nchw))
    return Case(code, (source, ints(*blocks), ints(*pairs, shape=(2, 2)), *option), (like(source),))


@generator(Op.BATCH_TO_SPACE_ND)
def _batch_to_space(d: Draw, code: Op, t: OperandCode) -> Case:
    block_h, block_w = d.sizes(2, 3)
    batches, height, width, channels = d.sizes(4, 3)
    nchw, option = layout_option(d)
    source = d.tensor(t, layout((batches * block_h * block_w, height, width, channels), nchw))
    return Case(code, (source, ints(block_h, block_w), *option), (like(source),))


# --- folds ---------------------------------------------------------------------------------------------------


@generator(Op.ARGMAX, Op.ARGMIN)
def _argmax(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    return Case(code, (source, i32(axis_of(d, source))), (OperandType(I32),))


@generator(Op.TOPK_V2)
def _topk(d: Draw, code: Op, t: OperandCode) -> Case:
    source = d.any(t)
    return Case(code, (source, i32(d.integer(1, source.shape[-1]))), (like(source), OperandType(I32)))


_MEANS = (Op.MEAN, ExtendedOperationCode.ROUNDED_MEAN)


@generator(*_MEANS, Op.REDUCE_ALL, Op.REDUCE_ANY, Op.REDUCE_MAX, Op.REDUCE_MIN, Op.REDUCE_PROD, Op.REDUCE_SUM)
def _reduce(d: Draw, code: KnownCode, t: OperandCode) -> Case:
    source = d.any(t)
    axes = ints(*(axis_of(d, source) for _ in range(d.integer(1, len(source.shape)))))
    keep = i32(d.integer(0, 1)) if code in _MEANS else boolean(d.chance())
    out = d.quantised(t) if code is ExtendedOperationCode.ROUNDED_MEAN else like(source)
    return Case(code, (source, axes, keep), (out,))
