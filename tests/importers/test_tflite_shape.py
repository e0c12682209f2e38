"""Operators that move elements or compute shapes against TFLite's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import check, compare, f32, f32c, i32, i32c, out, q8, q8c, scalar

from nnvk.api import OperationCode as Op
from nnvk.importers.tflite import ImportedModel, TfliteImportError, load


def codes(imported: ImportedModel) -> list[Op]:
    return [operation.code for operation in imported.model.frozen.operations]


@pytest.mark.parametrize("shape", [[6, 4], [-1, 2], [2, 3, 2, 2], [24], [1, 2, 3, 2, 2]], ids=str)
def test_reshape_by_input(shape: list[int]) -> None:
    check("RESHAPE", [f32(2, 3, 4), i32c(*shape)], (), "ReshapeOptions")


def test_reshape_by_option() -> None:
    check("RESHAPE", [f32(2, 3, 4)], (), "ReshapeOptions", NewShape=[4, 6])


def test_reshape_by_declared_shape() -> None:
    """The shape is computed when the model runs, but the file knows what it will be."""
    result = T("FLOAT32", (6, 4))
    check(
        "RESHAPE",
        [f32(2, 3, 4), i32(2)],
        result,
        "ReshapeOptions",
        feed=[np.ones((2, 3, 4), np.float32), np.int32([6, 4])],
    )


def test_reshape_to_what_the_model_computes() -> None:
    """The usual way of converters with a batch of any size: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    source, shape, batch, packed, result = f32(2, 3, 4), T("INT32"), T("INT32"), T("INT32"), T()
    net = Net([source], [result])
    net.op("SHAPE", [source], shape, "ShapeOptions", OutType=tflite.TensorType.INT32)
    net.op("STRIDED_SLICE", [shape, i32c(0), i32c(1), i32c(1)], batch, "StridedSliceOptions", ShrinkAxisMask=1)
    net.op("PACK", [batch, scalar(12)], packed, "PackOptions", ValuesCount=2)
    net.op("RESHAPE", [source, packed], result, "ReshapeOptions")
    assert codes(compare(write(net), [np.arange(24, dtype=np.float32).reshape(2, 3, 4)])) == [Op.RESHAPE]


def test_reshapes_in_between_cost_nothing() -> None:
    source, five, result = f32(2, 3, 4), T(), T()
    net = Net([source], [result])
    net.op("RESHAPE", [source, i32c(1, 2, 3, 2, 2)], five, "ReshapeOptions")
    net.op("RESHAPE", [five, i32c(6, 4)], result, "ReshapeOptions")
    assert codes(compare(write(net), [np.ones((2, 3, 4), np.float32)])) == [Op.RESHAPE]


@pytest.mark.parametrize("dims", [[], [0], [-1], [0, 2]], ids=str)
def test_squeeze(dims: list[int]) -> None:
    check("SQUEEZE", [f32(1, 3, 1, 1)], (), "SqueezeOptions", SqueezeDims=dims)


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_expand_dims(axis: int) -> None:
    check("EXPAND_DIMS", [f32(2, 3), scalar(axis)], (), "ExpandDimsOptions")


def test_expand_dims_of_a_scalar() -> None:
    check("EXPAND_DIMS", [f32(), scalar(0)], T("FLOAT32", (1,)), "ExpandDimsOptions")


def test_expand_dims_of_booleans() -> None:
    check("EXPAND_DIMS", [T("BOOL", (2, 3)), scalar(1)], out("BOOL"), "ExpandDimsOptions")


def test_shape_and_rank() -> None:
    assert codes(check("SHAPE", [f32(2, 3)], out("INT32"), "ShapeOptions", OutType=tflite.TensorType.INT32)) == [
        Op.RESHAPE
    ]
    check("RANK", [f32(2, 3)], out("INT32", ()), "RankOptions")
    check("SHAPE", [f32(2, 3)], out("INT64"), "ShapeOptions", OutType=tflite.TensorType.INT64)


def test_range() -> None:
    check("RANGE", [scalar(2), scalar(11), scalar(3)], out("INT32"), "RangeOptions")


def test_zeros_like_and_fill() -> None:
    check("ZEROS_LIKE", [f32(2, 3)], (), "ZerosLikeOptions")
    check("FILL", [i32c(2, 3), T("FLOAT32", data=1.5)], (), "FillOptions")
    check("FILL", [i32c(2, 3), f32()], (), "FillOptions")


PERMUTATIONS = [
    (1, 0),
    (2, 0, 1),
    (0, 3, 1, 2),
    (0, 1, 2, 4, 3),
    (1, 0, 2, 4, 3),
    (0, 3, 1, 2, 4),
    (0, 2, 4, 1, 3, 5),
    (4, 3, 2, 1, 0),
    (5, 1, 3, 0, 4, 2),
]


@pytest.mark.parametrize("order", PERMUTATIONS, ids=str)
def test_transpose(order: tuple[int, ...]) -> None:
    shape = {2: (2, 3), 3: (2, 3, 4), 4: (2, 3, 4, 5), 5: (2, 3, 2, 4, 3), 6: (2, 3, 2, 2, 2, 3)}[len(order)]
    check("TRANSPOSE", [f32(*shape), i32c(*order)], (), "TransposeOptions")


def test_transpose_int8() -> None:
    check("TRANSPOSE", [q8(2, 3, 4), i32c(2, 0, 1)], q8(), "TransposeOptions")


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0)], ids=str)
def test_transpose_whole_numbers(order: tuple[int, ...]) -> None:
    """NNAPI transposes none: elements are picked one by one."""
    check("TRANSPOSE", [i32(2, 3, 4), i32c(*order)], out("INT32"), "TransposeOptions")


def test_movement_into_another_quantisation_requantises() -> None:
    """TFLite's kernel copies bytes, which no correct model asks for: the values are what is kept."""
    source, result = q8(2, 3, scale=0.05, zero_point=3), q8(scale=0.1, zero_point=0)
    net = Net([source], [result])
    net.op("TRANSPOSE", [source, i32c(1, 0)], result, "TransposeOptions")
    imported = load(write(net))
    assert codes(imported) == [Op.TRANSPOSE, Op.DEQUANTIZE, Op.QUANTIZE]
    assert (imported.outputs[0].scale, imported.outputs[0].zero_point) == (pytest.approx(0.1), 0)


@pytest.mark.parametrize("axes", [(1,), (0, 1), (-1,)], ids=str)
def test_reverse_v2(axes: tuple[int, ...]) -> None:
    check("REVERSE_V2", [f32(2, 3, 4), i32c(*axes)], (), "ReverseV2Options")


@pytest.mark.parametrize("kind, shape", [("DEPTH_TO_SPACE", (1, 2, 3, 8)), ("SPACE_TO_DEPTH", (1, 4, 6, 3))])
def test_depth_and_space(kind: str, shape: tuple[int, ...]) -> None:
    table = {"DEPTH_TO_SPACE": "DepthToSpaceOptions", "SPACE_TO_DEPTH": "SpaceToDepthOptions"}[kind]
    check(kind, [f32(*shape)], (), table, BlockSize=2)


def test_space_to_batch() -> None:
    check("SPACE_TO_BATCH_ND", [f32(1, 4, 5, 2), i32c(2, 3), i32c([[0, 0], [1, 0]])], (), "SpaceToBatchNDOptions")
    check("SPACE_TO_BATCH_ND", [f32(2, 4, 3), i32c(2), i32c([[1, 1]])], (), "SpaceToBatchNDOptions")


@pytest.mark.parametrize("crops", [[[0, 0], [0, 0]], [[1, 0], [0, 2]]], ids=["whole", "cropped"])
def test_batch_to_space(crops: list[list[int]]) -> None:
    check("BATCH_TO_SPACE_ND", [f32(6, 2, 3, 2), i32c(2, 3), i32c(crops)], (), "BatchToSpaceNDOptions")


def test_batch_to_space_of_rank_3() -> None:
    check("BATCH_TO_SPACE_ND", [f32(4, 3, 2), i32c(2), i32c([[1, 0]])], (), "BatchToSpaceNDOptions")


@pytest.mark.parametrize("align, half", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(
    "kind, table",
    [("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")],
)
def test_resize(kind: str, table: str, align: bool, half: bool) -> None:
    check(kind, [f32(1, 4, 5, 2), i32c(7, 3)], (), table, AlignCorners=align, HalfPixelCenters=half)
    check(kind, [q8(1, 4, 5, 2), i32c(7, 3)], q8(), table, AlignCorners=align, HalfPixelCenters=half)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation(axis: int) -> None:
    shapes = {0: [(1, 3, 2), (4, 3, 2)], 1: [(2, 1, 2), (2, 3, 2)], -1: [(2, 3, 1), (2, 3, 2)]}[axis]
    check("CONCATENATION", [f32(*shape) for shape in shapes], (), "ConcatenationOptions", Axis=axis)


def test_concatenation_with_activation_and_constant() -> None:
    """TFLite's kernel has no activation, converters write none; the option is honoured all the same."""
    check("CONCATENATION", [f32(2, 3), f32c(2, 2)], (), "ConcatenationOptions", Axis=1)


def test_concatenation_uint8_of_other_quantisation() -> None:
    sources = [q8(2, 30, type="UINT8"), q8(2, 20, type="UINT8", scale=0.03, zero_point=100)]
    check("CONCATENATION", sources, q8(type="UINT8", scale=0.06, zero_point=50), "ConcatenationOptions", Axis=1)


def test_concatenation_int8() -> None:
    check("CONCATENATION", [q8(2, 3), q8(2, 2)], q8(), "ConcatenationOptions", Axis=1)


@pytest.mark.parametrize("shapes", [[(2, 3), (2, 3)], [(2, 4), (2, 6)], [(2, 4), (2, 1), (2, 2)]], ids=str)
def test_concatenation_int32_is_packed(shapes: list[tuple[int, ...]]) -> None:
    imported = check("CONCATENATION", [i32(*shape) for shape in shapes], out("INT32"), "ConcatenationOptions", Axis=1)
    assert Op.PACK in codes(imported)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pack(axis: int) -> None:
    check("PACK", [f32(2, 3), f32(2, 3)], (), "PackOptions", ValuesCount=2, Axis=axis)


def test_pack_scalars() -> None:
    check("PACK", [f32(), f32(), f32()], (), "PackOptions", ValuesCount=3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unpack(axis: int) -> None:
    count = (2, 3, 4)[axis]
    check("UNPACK", [f32(2, 3, 4)], [T() for _ in range(count)], "UnpackOptions", Num=count, Axis=axis)


PADDINGS = [[0, 0], [1, 2], [2, 0], [0, 1]]


@pytest.mark.parametrize("kind", ["PAD", "PADV2"])
def test_pad(kind: str) -> None:
    value = [T("FLOAT32", data=1.5)] if kind == "PADV2" else []
    check(
        kind, [f32(1, 3, 2, 2), i32c(PADDINGS), *value], (), f"{kind.capitalize() if kind == 'PAD' else 'PadV2'}Options"
    )


@pytest.mark.parametrize("kind", ["PAD", "PADV2"])
@pytest.mark.parametrize("type_", ["INT8", "UINT8"])
def test_pad_quantised(kind: str, type_: str) -> None:
    value = [T(type_, data=[7], scale=0.05, zero_point=3)] if kind == "PADV2" else []
    check(kind, [q8(1, 3, 2, 2, type=type_), i32c(PADDINGS), *value], q8(type=type_))


@pytest.mark.parametrize("mode", [0, 1], ids=["reflect", "symmetric"])
def test_mirror_pad(mode: int) -> None:
    check("MIRROR_PAD", [f32(3, 4), i32c([[1, 2], [2, 1]])], (), "MirrorPadOptions", Mode=mode)


def test_tile_and_broadcast() -> None:
    check("TILE", [f32(2, 3), i32c(2, 3)], (), "TileOptions")
    check("BROADCAST_TO", [f32(3, 1), i32c(2, 3, 4)], (), "BroadcastToOptions", version=2)
    check("BROADCAST_TO", [f32c(3, 1), i32c(2, 3, 4)], (), "BroadcastToOptions", version=2)
    check("BROADCAST_ARGS", [i32c(3, 1), i32c(2, 3, 4)], out("INT32"))


def test_tile_by_what_the_model_computes() -> None:
    declared = T("FLOAT32", (4, 9))
    imported = check(
        "TILE", [f32(2, 3), i32(2)], declared, "TileOptions", feed=[np.ones((2, 3), np.float32), np.int32([2, 3])]
    )
    assert codes(imported) == [Op.TILE]


def test_a_constant_output_is_copied() -> None:
    unused, source, result = f32(1), f32c(2, 3), T()
    net = Net([unused], [result])
    net.op("EXPAND_DIMS", [source, scalar(0)], result, "ExpandDimsOptions")
    assert codes(compare(write(net), [np.zeros(1, np.float32)])) == [Op.RESHAPE]


def test_weights_with_scales_per_channel_keep_their_channels() -> None:
    with pytest.raises(TfliteImportError, match="scales per channel can't be reshaped"):
        check("RESHAPE", [q8c(4, 6, scale=[0.1] * 4), i32c(6, 4)], q8c(6, 4), "ReshapeOptions")


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.0, [Op.RESHAPE]),
        (1 + 2**-23, [Op.RESHAPE]),  # a float32's last bit, as converters round
        (1.0001, [Op.RESHAPE, Op.DEQUANTIZE, Op.QUANTIZE]),
        (0.9999, [Op.RESHAPE, Op.DEQUANTIZE, Op.QUANTIZE]),
    ],
    ids=["same", "rounded", "larger", "smaller"],
)
def test_scales_that_differ_by_more_than_rounding_are_different(factor: float, expected: list[Op]) -> None:
    """The output is in the scale that the file declares for it, which is not quite the input's."""
    source = T("INT8", (2, 3), scale=0.5, zero_point=3)
    result = T("INT8", (3, 2), scale=0.5 * factor, zero_point=3)
    net = Net([source], [result])
    net.op("RESHAPE", [source, i32c(3, 2)], result, "ReshapeOptions")
    imported = load(write(net))
    assert codes(imported) == expected
