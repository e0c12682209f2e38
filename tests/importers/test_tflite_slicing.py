"""Operators that take parts of a tensor, or fold it, against TFLite's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import (
    actual,
    boolean,
    check,
    compare,
    f32,
    f32c,
    i32,
    i32c,
    int4c,
    out,
    q8,
    q8c,
    random_input,
    scalar,
)

from nnvk.api import ExtendedOperationCode
from nnvk.importers.tflite import TfliteImportError, load


def test_slice() -> None:
    check("SLICE", [f32(4, 5), i32c(1, 2), i32c(2, -1)], (), "SliceOptions")
    check("SLICE", [i32(4, 5), i32c(1, 2), i32c(2, 2)], out("INT32"), "SliceOptions")
    check("SLICE", [q8(4, 5), i32c(1, 2), i32c(2, 2)], q8(), "SliceOptions")


def test_slice_from_where_the_model_says() -> None:
    feed = [np.arange(20, dtype=np.float32).reshape(4, 5), np.int32([1, 2])]
    check("SLICE", [f32(4, 5), i32(2), i32c(2, 2)], T("FLOAT32", (2, 2)), "SliceOptions", feed=feed)


def test_slice_from_where_the_model_says_of_a_size_that_the_file_leaves_open() -> None:
    feed = [np.arange(20, dtype=np.float32).reshape(4, 5), np.int32([1, 2])]
    check("SLICE", [f32(4, 5), i32(2), i32c(2, 2)], (), "SliceOptions", feed=feed)


MOVING = [
    # begin, end, masks, the output's shape where the file has to say it
    ((2,), (3,), {"ShrinkAxisMask": 1}, None),
    ((-1,), (0,), {"ShrinkAxisMask": 1}, None),
    ((7, 3, 1), (9, 4, 9), {"BeginMask": 1, "EndMask": 1, "ShrinkAxisMask": 6}, None),
    ((9, 2, 9), (9, 3, 9), {"BeginMask": 5, "EndMask": 5, "ShrinkAxisMask": 2}, None),
    ((1, 2), (3, 4), {}, (2, 2, 5)),
]


@pytest.mark.parametrize(("begin", "end", "masks", "shape"), MOVING, ids=str)
def test_strided_slice_from_where_the_model_says(begin, end, masks, shape) -> None:
    rank = len(begin)
    given = [f32(3, 4, 5), i32(rank), i32(rank), i32c(*[1] * rank)]
    feed = [np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.int32(begin), np.int32(end)]
    check("STRIDED_SLICE", given, T("FLOAT32", shape), "StridedSliceOptions", feed=feed, **masks)


def test_strided_slice_of_a_size_that_data_decide() -> None:
    with pytest.raises(TfliteImportError, match="must be a constant, or the output's shape declared"):
        check("STRIDED_SLICE", [f32(4, 5), i32(1), i32(1), i32c(1)], (), "StridedSliceOptions")


@pytest.mark.parametrize("begin", [(0, 1, 0), (2, 3, 0), (-4, 9, 1)])
@pytest.mark.parametrize("size", [(1, 2, 5), (3, 1, 1), (2, 3, 4), (3, 4, 5)])
def test_dynamic_update_slice(begin: tuple[int, ...], size: tuple[int, ...]) -> None:
    feed = [np.arange(60, dtype=np.float32).reshape(3, 4, 5), -np.ones(size, np.float32), np.int32(begin)]
    check("DYNAMIC_UPDATE_SLICE", [f32(3, 4, 5), f32(*size), i32(3)], T("FLOAT32", (3, 4, 5)), feed=feed)


def test_dynamic_update_slice_of_other_types() -> None:
    numbers = [np.arange(12, dtype=np.int32).reshape(3, 4), np.int32([[-1, -2]]), np.int32([1, 1])]
    check("DYNAMIC_UPDATE_SLICE", [i32(3, 4), i32(1, 2), i32(2)], T("INT32", (3, 4)), feed=numbers)
    truth = [np.zeros((3, 4), bool), np.ones((1, 2), bool), np.int32([1, 1])]
    check("DYNAMIC_UPDATE_SLICE", [boolean(3, 4), boolean(1, 2), i32(2)], T("BOOL", (3, 4)), feed=truth)
    check("DYNAMIC_UPDATE_SLICE", [q8(3, 4), q8(1, 2), i32(2)], T("INT8", (3, 4), scale=0.05, zero_point=3))


STRIDED = [
    # begin, end, strides, masks
    ((1, 0), (3, 4), (1, 1), {}),
    ((0, 1), (4, 5), (2, 3), {}),
    ((3, 4), (0, 0), (-1, -2), {}),
    ((-1, -1), (-9, -9), (-1, -1), {}),
    ((1, 2), (0, 0), (1, 1), {"BeginMask": 1, "EndMask": 3}),
    ((3, 0), (0, 0), (-1, 1), {"EndMask": 3}),
    ((1, 1), (2, 4), (1, 1), {"ShrinkAxisMask": 1}),
    ((-2, 1), (-1, 4), (1, 2), {"ShrinkAxisMask": 1}),
    ((0, 1), (0, 3), (1, 1), {"EllipsisMask": 1}),
    ((0, 1, 2), (0, 3, 4), (1, 1, 1), {"NewAxisMask": 1}),
    ((1, 0, 2), (2, 0, 4), (1, 1, 1), {"NewAxisMask": 2, "ShrinkAxisMask": 1}),
    ((1,), (3,), (1,), {}),
    ((1, 0), (2, 3), (1, 1), {"Offset": True}),
]


@pytest.mark.parametrize("begin, end, strides, masks", STRIDED, ids=str)
def test_strided_slice(begin, end, strides, masks) -> None:
    bounds = [i32c(*numbers) for numbers in (begin, end, strides)]
    check("STRIDED_SLICE", [f32(4, 5), *bounds], (), "StridedSliceOptions", **masks)


def test_strided_slice_int32() -> None:
    check("STRIDED_SLICE", [i32(4, 5), i32c(1, 0), i32c(3, 4), i32c(1, 1)], out("INT32"), "StridedSliceOptions")


def test_split() -> None:
    check("SPLIT", [scalar(1), f32(2, 6)], [T(), T(), T()], "SplitOptions", NumSplits=3)
    check("SPLIT", [scalar(-1), q8(2, 6)], [q8(), q8()], "SplitOptions", NumSplits=2)


@pytest.mark.parametrize("sizes", [(0, 4, 2), (4, 0, 2), (4, 2, 0), (-1, 6, 0)])
def test_split_v_with_a_part_without_elements(sizes: tuple[int, ...]) -> None:
    source, parts, joined = f32(2, 6), [T(), T(), T()], f32(2, 6)
    net = Net([source], [joined])
    net.op("SPLIT_V", [source, i32c(*sizes), scalar(1)], parts, "SplitVOptions", NumSplits=3)
    net.op("CONCATENATION", parts[::-1], joined, "ConcatenationOptions", Axis=1)
    compare(write(net), [np.arange(12, dtype=np.float32).reshape(2, 6)])


@pytest.mark.parametrize("sizes", [(1, 3, 3), (7, -2, 1), (-1, 5, 2)])
def test_split_v_of_sizes_that_do_not_fit(sizes: tuple[int, ...]) -> None:
    with pytest.raises(TfliteImportError, match=r"operator 0 \(SPLIT_V\): the sizes .* do not make up axis 1"):
        check("SPLIT_V", [f32(2, 6), i32c(*sizes), scalar(1)], [T(), T(), T()], "SplitVOptions", NumSplits=3)


def test_split_v() -> None:
    check("SPLIT_V", [f32(2, 6), i32c(1, 3, 2), scalar(1)], [T(), T(), T()], "SplitVOptions", NumSplits=3)
    check("SPLIT_V", [f32(2, 6), i32c(1, -1), scalar(-1)], [T(), T()], "SplitVOptions", NumSplits=2)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int) -> None:
    check("GATHER", [f32(3, 4, 5), i32c(2, 0, 1, 1)], (), "GatherOptions", Axis=axis)
    check("GATHER", [f32(3, 4, 5), i32c([[2, 0], [1, 1]])], (), "GatherOptions", Axis=axis)


def test_gather_of_one_index_takes_the_axis_away() -> None:
    check("GATHER", [f32(3, 4, 5), scalar(2)], (), "GatherOptions", Axis=1)
    check("GATHER", [f32(7), scalar(2)], out("FLOAT32", ()), "GatherOptions")


def test_gather_by_what_the_model_computes() -> None:
    check("GATHER", [q8(6, 4), i32(3)], q8(), "GatherOptions", feed=[np.int8([[1, 2, 3, 4]] * 6), np.int32([5, 0, 3])])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_nd(depth: int) -> None:
    rng = np.random.default_rng(3)
    indices = rng.integers(0, (3, 4, 5)[:depth], (2, 3, depth)).astype(np.int32)
    check("GATHER_ND", [f32(3, 4, 5), i32c(indices)], (), "GatherNdOptions")
    check(
        "GATHER_ND",
        [f32(3, 4, 5), i32(2, 3, depth)],
        (),
        "GatherNdOptions",
        feed=[np.ones((3, 4, 5), np.float32), indices],
    )


def test_gather_nd_takes_booleans_too() -> None:
    check("GATHER_ND", [boolean(3, 4), i32c([[2, 1], [0, 0]])], out("BOOL"), "GatherNdOptions")


SCATTERED = [((5,), ()), ((4, 3), (3,)), ((4, 3), ()), ((2, 3, 5), (5,))]


@pytest.mark.parametrize("shape, rest", SCATTERED)
@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "INT8", "UINT8", "BOOL"])
def test_scatter_nd(type_: str, shape: tuple[int, ...], rest: tuple[int, ...]) -> None:
    """Some places come twice: what is for them is added up."""
    depth = len(shape) - len(rest)
    indices = np.random.default_rng(3).integers(0, shape[:depth], (7, depth)).astype(np.int32)
    quantised = {"scale": 0.5, "zero_point": 3} if type_ in ("INT8", "UINT8") else {}
    updates, result = T(type_, (7, *rest), **quantised), T(type_, shape, **quantised)
    check("SCATTER_ND", [i32c(indices), updates, i32c(*shape)], result, "ScatterNdOptions", steps=0)
    feed = [indices, random_input(updates, np.random.default_rng(5))]
    inputs = [i32(7, depth), updates, i32c(*shape)]
    check("SCATTER_ND", inputs, result, "ScatterNdOptions", feed=feed, steps=0)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    feed = [np.int32([[0, 3], [2, 9]])]
    values = [T("FLOAT32", data=2.5), T("FLOAT32", data=-1.0)]
    check("ONE_HOT", [i32(2, 2), scalar(4), *values], (), "OneHotOptions", Axis=axis, feed=feed)


def test_top_k() -> None:
    check("TOPK_V2", [f32(3, 7), scalar(4)], [T(), out("INT32")], "TopKV2Options")
    check("TOPK_V2", [q8(3, 7), scalar(4)], [q8(), out("INT32")], "TopKV2Options")


def test_top_k_of_equal_elements() -> None:
    """The first comes first."""
    source, values, places = f32(2, 9), T(), out("INT32")
    net = Net([source], [values, places])
    net.op("TOPK_V2", [source, scalar(6)], [values, places], "TopKV2Options")
    rows = np.float32([[1, 3, 3, 2, 3, 1, 0, 2, 1], [5] * 9])
    compare(write(net), [rows])


@pytest.mark.parametrize("name", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("type_", ["INT32", "INT64"])
def test_arg_extreme(name: str, type_: str) -> None:
    table = {"ARG_MAX": "ArgMaxOptions", "ARG_MIN": "ArgMinOptions"}[name]
    imported = check(name, [f32(3, 7), scalar(1)], out(type_), table, OutputType=2 if type_ == "INT32" else 4)
    assert imported.outputs[0].dtype == type_.lower()
    check(name, [q8(3, 2, 5), scalar(-2)], out(type_), table, OutputType=2 if type_ == "INT32" else 4)


REDUCTIONS = ["MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (-1,), (0, 1, 2, 3)], ids=str)
def test_reduce(name: str, keep: bool, axes: tuple[int, ...]) -> None:
    result = out("FLOAT32", () if len(axes) == 4 and not keep else None)
    check(name, [f32(2, 3, 4, 2), i32c(*axes)], result, "ReducerOptions", KeepDims=keep)


def test_reduce_one_axis_given_as_a_scalar() -> None:
    check("SUM", [f32(2, 3, 4), scalar(1)], (), "ReducerOptions")


@pytest.mark.parametrize(
    "name, same",
    [("MEAN", True), ("MEAN", False), ("SUM", True), ("SUM", False), ("REDUCE_MAX", True), ("REDUCE_MIN", True)],
)
def test_reduce_int8(name: str, same: bool) -> None:
    result = q8() if same else q8(scale=0.2, zero_point=-7)
    # TFLite's reference SUM writes to the wrong place.
    optimised = name == "SUM"
    inputs = [q8(2, 3, 4, 5, scale=0.05), i32c(1, 2)]
    check(name, inputs, result, "ReducerOptions", KeepDims=True, optimised=optimised)


@pytest.mark.parametrize("name", ["REDUCE_ANY", "REDUCE_ALL"])
def test_reduce_bool(name: str) -> None:
    check(name, [boolean(3, 5), i32c(1)], out("BOOL"), "ReducerOptions")


@pytest.mark.parametrize("name", ["SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"])
def test_reduce_of_integer_constants(name: str) -> None:
    check(name, [i32c([[3, 4], [5, 6]]), i32c(0)], out("INT32"), "ReducerOptions")


def test_embedding_lookup() -> None:
    check("EMBEDDING_LOOKUP", [i32(3), f32c(5, 4)], feed=[np.int32([4, 0, 2])])


def test_embedding_lookup_hybrid() -> None:
    check("EMBEDDING_LOOKUP", [i32(3), q8c(5, 4)], feed=[np.int32([4, 0, 2])])


@pytest.mark.parametrize("scale", [0.02, [0.01, 0.02, 0.03, 0.04]], ids=["one", "rows"])
@pytest.mark.parametrize("columns", [6, 16])
def test_embedding_lookup_of_4_bits(columns: int, scale: object) -> None:
    imported = check("EMBEDDING_LOOKUP", [i32(3), int4c(4, columns, scale=scale)], feed=[np.int32([3, 0, 2])])
    codes = [operation.code for operation in imported.model.frozen.operations]
    assert ExtendedOperationCode.BLOCK_QUANTIZED_EMBEDDING_LOOKUP in codes


def test_hashtable_lookup() -> None:
    inputs = [i32(4), i32c(-2, 0, 5), f32c(3, 2)]
    check("HASHTABLE_LOOKUP", inputs, [T(), T("UINT8")], feed=[np.int32([5, 1, -2, 0])])


@pytest.mark.parametrize("kind", [1, 2], ids=["sparse", "dense"])
def test_lsh_projection(kind: int) -> None:
    feed = [np.int32([[12345, 54321], [67890, 9876], [-12345678, -87654321]])]
    weight = [T("FLOAT32", data=[0.12, 0.34, 0.56])]
    check(
        "LSH_PROJECTION", [f32c(3, 2), i32(3, 2), *weight], out("INT32"), "LSHProjectionOptions", Type=kind, feed=feed
    )


@pytest.mark.parametrize(
    ("shape", "indices", "axis", "batch_dims"),
    [
        ((3, 4), (3, 1), 1, 1),
        ((3, 4, 2), (3, 5), 1, 1),
        ((3, 4, 2), (3, 5), 2, 1),
        ((2, 3, 5, 2), (2, 3, 2, 2), 2, 2),
        ((2, 3, 5), (2, 7), -1, 1),
        ((3, 5), (3,), 1, 1),
        ((3, 5), (3, 2), 1, -1),
    ],
)
def test_gather_with_batches(shape: tuple[int, ...], indices: tuple[int, ...], axis: int, batch_dims: int) -> None:
    rng = np.random.default_rng(3)
    feed = [rng.random(shape, np.float32), rng.integers(0, shape[axis], indices, np.int32)]
    check("GATHER", [f32(*shape), i32(*indices)], (), "GatherOptions", Axis=axis, BatchDims=batch_dims, feed=feed)
    constant = T("INT32", data=feed[1])
    check("GATHER", [f32(*shape), constant], (), "GatherOptions", Axis=axis, BatchDims=batch_dims, feed=feed[:1])


@pytest.mark.parametrize(("axis", "batch_dims"), [(0, 1), (2, 2)])
def test_gather_with_batches_that_are_none(axis: int, batch_dims: int) -> None:
    with pytest.raises(TfliteImportError, match=f"have no {batch_dims} batch dimensions before axis {axis} in common"):
        check("GATHER", [f32(3, 4, 2), i32(3, 3)], (), "GatherOptions", Axis=axis, BatchDims=batch_dims)


@pytest.mark.parametrize("type", ["FLOAT32", "INT32", "INT64"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((13,), 0), ((3, 8, 2), 1), ((3, 5), -1), ((2, 1, 3), 1), ((2, 2, 3, 2, 2), 2)]
)
def test_cumsum(shape: tuple[int, ...], axis: int, reverse: bool, exclusive: bool, type: str) -> None:
    source = T(type, shape)
    options = {"Exclusive": exclusive, "Reverse": reverse}
    check("CUMSUM", [source, scalar(axis)], T(type, shape), "CumsumOptions", **options)


FIVE = (2, 3, 2, 4, 3)


def test_rank_5_is_merged() -> None:
    """NNAPI's operations end at rank 4; what they do along one axis or two needs no more."""
    check("SLICE", [f32(*FIVE), i32c(0, 1, 0, 2, 0), i32c(2, 2, -1, 1, -1)], (), "SliceOptions")
    bounds = [i32c(0, 0, 0, 0, 1), i32c(0, 0, 0, 0, 2), i32c(1, 1, 1, 1, 1)]
    check("STRIDED_SLICE", [f32(*FIVE), *bounds], (), "StridedSliceOptions", BeginMask=15, EndMask=15)
    check("SPLIT", [scalar(3), f32(*FIVE)], [T(), T()], "SplitOptions", NumSplits=2)
    check("SPLIT_V", [f32(*FIVE), i32c(1, 2), scalar(1)], [T(), T()], "SplitVOptions", NumSplits=2)
    check("UNPACK", [f32(*FIVE)], [T() for _ in range(3)], "UnpackOptions", Num=3, Axis=1)
    check("GATHER", [f32(*FIVE), i32c(1, 0, 1)], (), "GatherOptions", Axis=2)
    check("ARG_MAX", [f32(*FIVE), scalar(4)], out("INT32"), "ArgMaxOptions", OutputType=2)
    check("CONCATENATION", [f32(*FIVE), f32(2, 3, 2, 1, 3)], (), "ConcatenationOptions", Axis=3)
    check("PACK", [f32(2, 3, 2, 4), f32(2, 3, 2, 4)], (), "PackOptions", ValuesCount=2, Axis=2)
    for keep in (False, True):
        check("MEAN", [f32(2, 3, 2, 4), i32c(1, 2)], (), "ReducerOptions", KeepDims=keep)
        check("REDUCE_MAX", [f32(*FIVE), i32c(0, -1)], (), "ReducerOptions", KeepDims=keep)
        check("SUM", [f32(*FIVE), i32c(1, 2)], (), "ReducerOptions", KeepDims=keep)


@pytest.mark.parametrize("shape", [(2, 3), (1, 1, 1, 2, 3)], ids=str)
def test_a_slice_beyond_the_input_is_refused(shape: tuple[int, ...]) -> None:
    rank = len(shape)
    with pytest.raises(TfliteImportError, match=r"must stay in its|operator 0 \(SLICE\)"):
        check("SLICE", [f32(*shape), i32c(*[0] * (rank - 1), 1), i32c(*[-1] * (rank - 1), 3)], (), "SliceOptions")


@pytest.mark.parametrize("begins", range(4))
@pytest.mark.parametrize("ends", range(4))
def test_masks_of_slices_that_begin_where_data_say(begins: int, ends: int) -> None:
    """An axis of which both ends are masked has all its elements; the output's shape says the sizes of others."""
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    begin, end = (1, 2), (3, 5)
    wanted = array[
        tuple(
            slice(None if begins >> axis & 1 else begin[axis], None if ends >> axis & 1 else end[axis])
            for axis in range(2)
        )
    ]
    # Where only the end is masked, the size is that of the elements from the begin on.
    places, result = T("INT32", (2,)), T("FLOAT32", wanted.shape)
    net = Net([f32(4, 6), places], [result])
    inputs = [net.inputs[0], places, i32c(*end), i32c(1, 1)]
    net.op("STRIDED_SLICE", inputs, result, "StridedSliceOptions", BeginMask=begins, EndMask=ends)
    ((got,),) = actual(load(write(net)), [array, np.array(begin, np.int32)])
    np.testing.assert_array_equal(got, wanted)
