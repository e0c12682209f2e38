"""Operations that move, pick and fold elements against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from generators.draw import SCALES
from hypothesis import given
from hypothesis import strategies as st
from litert_check import Tensors
from tflite_net import T

REAL, INT = "FLOAT32", "INT32"
KINDS = pytest.mark.parametrize("kind", [REAL, "INT8", "UINT8"])


def source_of(t: Tensors, kind: str, *shape: int) -> T:
    if kind == INT:
        return t.integers(*shape)
    return t.real(*shape) if kind == REAL else t.quantised(kind, *shape)


def like(source: T, shape: tuple[int, ...] | None = None) -> T:
    return T(source.type, shape, scale=source.scale, zero_point=source.zero_point)


def ints(*numbers: object) -> T:
    return T(INT, data=list(numbers))


def scalar(number: int) -> T:
    return T(INT, data=number)


# --- parts and order -----------------------------------------------------------------------------------------


@KINDS
@given(data=st.data())
def test_slice(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    begins = [t.integer(0, size - 1) for size in shape]
    sizes = [t.pick((-1, t.integer(1, size - begin))) for begin, size in zip(begins, shape, strict=True)]
    source = source_of(t, kind, *shape)
    t.check("SLICE", [source, ints(*begins), ints(*sizes)], like(source), "SliceOptions")


@KINDS
@given(data=st.data())
def test_strided_slice(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4), 7)
    begins, ends, strides = ([t.integer(-9, 9) for _ in shape] for _ in range(3))
    strides = [stride or 1 for stride in strides]
    masks = {name: t.integer(0, 2 ** len(shape) - 1) for name in ("BeginMask", "EndMask")}
    for axis, size in enumerate(shape):  # TFLite has outputs without elements, which the importer refuses
        bound = [
            None if masks[name] >> axis & 1 else numbers[axis]
            for name, numbers in zip(masks, (begins, ends), strict=True)
        ]
        if not range(*slice(*bound, strides[axis]).indices(size)):
            begins[axis], ends[axis], strides[axis] = (0, size, 1) if strides[axis] > 0 else (-1, -size - 1, -1)
    source = source_of(t, kind, *shape)
    bounds = [ints(*numbers) for numbers in (begins, ends, strides)]
    t.check("STRIDED_SLICE", [source, *bounds], like(source), "StridedSliceOptions", **masks)


@KINDS
@given(data=st.data())
def test_transpose(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    source = source_of(t, kind, *shape)
    order = data.draw(st.permutations(range(len(shape))))
    t.check("TRANSPOSE", [source, ints(*order)], like(source), "TransposeOptions")


@KINDS
@given(data=st.data())
def test_tile(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4), 3)
    source = source_of(t, kind, *shape)
    t.check("TILE", [source, ints(*t.sizes(len(shape), 3))], like(source), "TileOptions")


@given(data=st.data())
def test_reverse(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    t.check("REVERSE_V2", [t.real(*shape), ints(t.integer(0, len(shape) - 1))], (), "ReverseV2Options")


@pytest.mark.parametrize("kind", [REAL, INT, "INT8", "UINT8"])
@given(data=st.data())
def test_gather(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 3))
    axis = t.integer(-len(shape), len(shape) - 1)
    wanted = t.sizes(t.integer(1, 2), 4)
    indices = t.input(T(INT, wanted), t.rng.integers(0, shape[axis], wanted, np.int32))
    source = source_of(t, kind, *shape)
    t.check("GATHER", [source, indices], like(source), "GatherOptions", Axis=axis)


@given(data=st.data())
def test_embedding_lookup(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(2, 4))
    count = t.integer(1, 6)
    lookup = t.input(T(INT, (count,)), t.rng.integers(0, shape[0], count, np.int32))
    t.check("EMBEDDING_LOOKUP", [lookup, t.real_constant(*shape)])


# --- together and apart --------------------------------------------------------------------------------------


@KINDS
@given(data=st.data())
def test_concatenation(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = list(t.sizes(t.integer(1, 4)))
    axis = t.integer(-len(shape), len(shape) - 1)
    first = t.quantised(kind, *shape, scale=t.pick(SCALES)) if kind == "UINT8" else source_of(t, kind, *shape)
    sources = [first]
    for _ in range(t.integer(1, 3)):
        shape[axis] = t.integer(1, 4)
        # TFLite brings only UINT8 to one quantisation by itself.
        scale = t.pick(SCALES) if kind == "UINT8" else first.scale
        zero_point = t.zero(kind) if kind == "UINT8" else first.zero_point
        more = t.real(*shape) if kind == REAL else t.quantised(kind, *shape, scale=scale, zero_point=zero_point)
        sources.append(more)
    output = T(kind, scale=t.pick(SCALES), zero_point=t.zero(kind)) if kind == "UINT8" else like(first)
    t.check("CONCATENATION", sources, output, "ConcatenationOptions", Axis=axis)


@pytest.mark.parametrize("kind", [REAL, INT])
@given(data=st.data())
def test_pack(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 3))
    count = t.integer(1, 3)
    sources = [source_of(t, kind, *shape) for _ in range(count)]
    axis = t.integer(-len(shape) - 1, len(shape))
    t.check("PACK", sources, T(kind), "PackOptions", Axis=axis, ValuesCount=count)


@KINDS
@given(data=st.data())
def test_split(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = list(t.sizes(t.integer(1, 4)))
    axis, count = t.integer(-len(shape), len(shape) - 1), t.integer(1, 4)
    shape[axis] *= count
    source = source_of(t, kind, *shape)
    t.check("SPLIT", [scalar(axis), source], [like(source) for _ in range(count)], "SplitOptions", NumSplits=count)


# --- around --------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("name", ["PAD", "PADV2"])
@given(data=st.data())
def test_pad(name: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    source = source_of(t, kind, *shape)
    inputs = [source, ints(*([t.integer(0, 3), t.integer(0, 3)] for _ in shape))]
    if name == "PADV2":
        value = T(kind, data=t.levels(kind, (1,))) if kind != REAL else T(kind, data=[2.5])
        value.scale, value.zero_point = source.scale, source.zero_point
        inputs.append(value)
    t.check(name, inputs, like(source), "PadV2Options" if name == "PADV2" else "PadOptions")


@pytest.mark.parametrize(
    "mode", [tflite.MirrorPadMode.REFLECT, tflite.MirrorPadMode.SYMMETRIC], ids=["reflect", "symmetric"]
)
@given(data=st.data())
def test_mirror_pad(mode: int, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    most = [size if mode == tflite.MirrorPadMode.SYMMETRIC else size - 1 for size in shape]
    pairs = ints(*([t.integer(0, each), t.integer(0, each)] for each in most))
    t.check("MIRROR_PAD", [t.real(*shape), pairs], (), "MirrorPadOptions", Mode=mode)


# --- space ---------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize(
    "name, table", [("SPACE_TO_DEPTH", "SpaceToDepthOptions"), ("DEPTH_TO_SPACE", "DepthToSpaceOptions")]
)
@given(data=st.data())
def test_depth(name: str, table: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    block = t.integer(1, 3)
    batches, height, width, channels = t.sizes(4, 3)
    shape = (batches, height * block, width * block, channels)
    if name == "DEPTH_TO_SPACE":
        shape = (batches, height, width, channels * block * block)
    source = source_of(t, kind, *shape)
    t.check(name, [source], like(source), table, BlockSize=block)


@KINDS
@given(data=st.data())
def test_space_to_batch(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(4, 5)
    blocks = t.sizes(2, 3)
    befores = [t.integer(0, 2), t.integer(0, 2)]
    pairs = [
        [before, -(size + before) % block] for before, size, block in zip(befores, shape[1:3], blocks, strict=True)
    ]
    source = source_of(t, kind, *shape)
    t.check("SPACE_TO_BATCH_ND", [source, ints(*blocks), ints(*pairs)], like(source), "SpaceToBatchNDOptions")


@KINDS
@given(data=st.data())
def test_batch_to_space(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    blocks = t.sizes(2, 3)
    batches, *rest = t.sizes(4, 4)
    source = source_of(t, kind, batches * blocks[0] * blocks[1], *rest)
    inputs = [source, ints(*blocks), ints([0, 0], [0, 0])]
    t.check("BATCH_TO_SPACE_ND", inputs, like(source), "BatchToSpaceNDOptions")


@KINDS
@pytest.mark.parametrize("centres", ["corners", "half pixels", "plain"])
@pytest.mark.parametrize("kernel", ["BILINEAR", "NEAREST_NEIGHBOR"])
@given(data=st.data())
def test_resize(kernel: str, centres: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    source = source_of(t, kind, *t.sizes(4, 6))
    table = "ResizeBilinearOptions" if kernel == "BILINEAR" else "ResizeNearestNeighborOptions"
    options = {"AlignCorners": centres == "corners", "HalfPixelCenters": centres == "half pixels"}
    steps = 1 if kernel == "BILINEAR" else 0  # TFLite interpolates INT8 in fixed point
    inputs = [source, ints(*t.sizes(2, 9))]
    t.check(f"RESIZE_{kernel}", inputs, like(source), table, steps=steps, **options)


# --- folds ---------------------------------------------------------------------------------------------------


def reduction(t: Tensors, rank: int) -> tuple[tuple[int, ...], T, tuple[int, ...] | None, dict[str, bool]]:
    """A shape, axes of it, and the output's shape where it is a scalar: the file must say so, as NNAPI has none."""
    axes, keep = [t.integer(-rank, rank - 1) for _ in range(t.integer(1, rank))], t.chance()
    left = {axis % rank for axis in axes} != set(range(rank))
    return t.sizes(rank), ints(*axes), None if left or keep else (), {"KeepDims": keep}


@KINDS
@pytest.mark.parametrize("name", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"])
@given(data=st.data())
def test_reductions(name: str, kind: str, data: st.DataObject) -> None:
    if kind != REAL and name in ("SUM", "REDUCE_PROD"):
        return  # NNAPI has them for real numbers
    t = Tensors(data)
    shape, axes, scalar_shape, options = reduction(t, t.integer(1, 4))
    source = source_of(t, kind, *shape)
    steps = 1 if name == "MEAN" else 0
    t.check(name, [source, axes], like(source, scalar_shape), "ReducerOptions", steps=steps, **options)


@pytest.mark.parametrize("name", ["REDUCE_ALL", "REDUCE_ANY"])
@given(data=st.data())
def test_logical_reductions(name: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape, axes, scalar_shape, options = reduction(t, t.integer(1, 4))
    t.check(name, [t.flags(*shape), axes], T("BOOL", scalar_shape), "ReducerOptions", **options)


@KINDS
@pytest.mark.parametrize("name, table", [("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")])
@given(data=st.data())
def test_arg_extremes(name: str, table: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    rank = t.integer(1, 4)
    source = source_of(t, kind, *t.sizes(rank))
    result = T(INT, () if rank == 1 else None)
    t.check(name, [source, ints(t.integer(-rank, rank - 1))], result, table, OutputType=tflite.TensorType.INT32)


@given(data=st.data())
def test_topk(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4), 7)
    t.check("TOPK_V2", [t.real(*shape), scalar(t.integer(1, shape[-1]))], [T(), T(INT)], "TopKV2Options")
