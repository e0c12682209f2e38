"""Inputs that break a rule end in the right result code, as early as can be, and the message names what is wrong.

A value that breaks a rule is a constant of the model in one test, which then fails at finish, and comes with the
execution in the other, which then fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from generators import Case
from generators.build import build, names, with_arg, with_output, with_value
from refusals import CPU, base, refused
from samples import compiled

import nnvk
from nnvk.base.errors import ResultCode
from nnvk.ops import registry
from nnvk.ops.signature import I32, Q8, Q8_CHANNEL, Q8S
from nnvk.types.codes import OperandCode
from nnvk.types.codes import OperationCode as Op
from nnvk.types.operand import ChannelQuant, OperandType

# --- values --------------------------------------------------------------------------------------------------

Value = tuple[Op, dict[str, object], str]
"""An operation, what makes it wrong, and a word of the message."""

VALUES: list[Value] = [
    (Op.ADD, {"activation": 4}, "activation"),
    (Op.ADD, {"activation": -1}, "activation"),
    (Op.AVERAGE_POOL_2D, {"stride_width": 0}, "stride_width"),
    (Op.AVERAGE_POOL_2D, {"filter_height": 0}, "height"),
    (Op.MAX_POOL_2D, {"padding_left": -1}, "padding along width"),
    (Op.MAX_POOL_2D, {"padding": 3}, "padding"),
    (Op.MAX_POOL_2D, {"padding": 2, "filter_width": 99, "filter_height": 1}, "a window of width 99"),
    (Op.AVERAGE_POOL_2D, {"padding_left": 2, "filter_width": 2}, "covers nothing but padding"),
    (Op.L2_POOL_2D, {"padding_bottom": 3, "filter_height": 3}, "covers nothing but padding"),
    (Op.L2_POOL_2D, {"activation": 9}, "activation"),
    (Op.CONCATENATION, {"axis": 9}, "axis"),
    (Op.CONCATENATION, {"axis": -1}, "axis"),
    (Op.CONV_2D, {"stride_height": 0}, "stride_height"),
    (Op.CONV_2D, {"dilation_width": 0}, "dilation_width"),
    (Op.CONV_2D, {"padding": 0}, "padding"),
    (Op.CONV_2D, {"padding_top": -2}, "padding along height"),
    (Op.DEPTHWISE_CONV_2D, {"depth_multiplier": 0}, "depth_multiplier"),
    (Op.DEPTHWISE_CONV_2D, {"depth_multiplier": 99}, "filter"),
    (Op.GROUPED_CONV_2D, {"num_groups": 0}, "num_groups"),
    (Op.GROUPED_CONV_2D, {"num_groups": 99}, "filter"),
    (Op.TRANSPOSE_CONV_2D, {"stride_width": -1}, "stride_width"),
    (Op.TRANSPOSE_CONV_2D, {"padding": 5}, "padding"),
    (Op.TRANSPOSE_CONV_2D, {"output_shape": [99, 1, 1, 1]}, "output_shape"),
    (Op.TRANSPOSE_CONV_2D, {"output_shape": [1, 1, 1]}, "output_shape"),
    (Op.DEPTH_TO_SPACE, {"block_size": 0}, "block_size"),
    (Op.DEPTH_TO_SPACE, {"block_size": 97}, "block_size"),
    (Op.SPACE_TO_DEPTH, {"block_size": -1}, "block_size"),
    (Op.SPACE_TO_DEPTH, {"block_size": 97}, "block_size"),
    (Op.BATCH_TO_SPACE_ND, {"block_shape": [0, 1]}, "block_shape"),
    (Op.BATCH_TO_SPACE_ND, {"block_shape": [97, 1]}, "block_shape"),
    (Op.BATCH_TO_SPACE_ND, {"block_shape": [1, 1, 1]}, "block_shape"),
    (Op.SPACE_TO_BATCH_ND, {"block_shape": [97, 1]}, "block_shape"),
    (Op.SPACE_TO_BATCH_ND, {"paddings": [[-1, 0], [0, 0]]}, "paddings"),
    (Op.SPACE_TO_BATCH_ND, {"paddings": [[0, 0]]}, "paddings"),
    (Op.EMBEDDING_LOOKUP, {"lookup": [99]}, "lookup"),
    (Op.EMBEDDING_LOOKUP, {"lookup": [-1]}, "lookup"),
    (Op.GATHER, {"axis": 9}, "axis"),
    (Op.GATHER, {"indices": [0, 99]}, "indices"),
    (Op.GATHER, {"indices": [-1]}, "indices"),
    (Op.L2_NORMALIZATION, {"axis": 9}, "axis"),
    (Op.LOCAL_RESPONSE_NORMALIZATION, {"radius": -1}, "radius"),
    (Op.LOCAL_RESPONSE_NORMALIZATION, {"axis": -9}, "axis"),
    (Op.LSH_PROJECTION, {"type": 0}, "type"),
    (Op.LSH_PROJECTION, {"type": 4}, "type"),
    (Op.LSTM, {"activation": 5}, "activation"),
    (Op.LSTM, {"cell_clip": -1.0}, "cell_clip"),
    (Op.UNIDIRECTIONAL_SEQUENCE_LSTM, {"proj_clip": -1.0}, "proj_clip"),
    (Op.BIDIRECTIONAL_SEQUENCE_LSTM, {"activation": 7}, "activation"),
    (Op.RNN, {"activation": 5}, "activation"),
    (Op.UNIDIRECTIONAL_SEQUENCE_RNN, {"time_major": 2}, "time_major"),
    (Op.BIDIRECTIONAL_SEQUENCE_RNN, {"activation": -1}, "activation"),
    (Op.SVDF, {"rank": 0}, "rank"),
    (Op.SVDF, {"rank": 97}, "rank"),
    (Op.QUANTIZED_LSTM, {"cell_clip": -1.0}, "cell_clip"),
    (Op.QUANTIZED_LSTM, {"hidden_state_scale": 0.0}, "hidden_state_scale"),
    (Op.RESHAPE, {"shape": [-1, -1]}, "shape"),
    (Op.RESHAPE, {"shape": [-2]}, "shape"),
    (Op.RESHAPE, {"shape": [7919]}, "shape"),
    (Op.SQUEEZE, {"axes": [9]}, "axes"),
    (Op.EXPAND_DIMS, {"axis": 9}, "axis"),
    (Op.TRANSPOSE, {"perm": [0, 0]}, "perm"),
    (Op.TRANSPOSE, {"perm": [0, 1, 2, 3, 4]}, "perm"),
    (Op.TILE, {"multiples": [-1, 1, 1, 1, 1]}, "multiples"),
    (Op.REVERSE, {"axis": [9]}, "axis"),
    (Op.REVERSE, {"axis": [0, 0]}, "axis"),
    (Op.CHANNEL_SHUFFLE, {"num_groups": 0}, "num_groups"),
    (Op.CHANNEL_SHUFFLE, {"axis": -9}, "axis"),
    (Op.PAD, {"paddings": [[-1, 0]]}, "paddings"),
    (Op.MIRROR_PAD, {"mode": 2}, "mode"),
    (Op.SLICE, {"begin": [-1]}, "begin"),
    (Op.SLICE, {"size": [99]}, "size"),
    (Op.STRIDED_SLICE, {"strides": [0]}, "strides"),
    (Op.STRIDED_SLICE, {"shrink_axis_mask": 1, "begin": [0], "end": [0], "begin_mask": 0, "end_mask": 0}, "shrink"),
    (Op.SPLIT, {"axis": 9}, "axis"),
    (Op.SPLIT, {"num_splits": 0}, "num_splits"),
    (Op.PACK, {"axis": 9}, "axis"),
    (Op.PACK, {"axis": -1}, "axis"),
    (Op.MEAN, {"axes": [9]}, "axes"),
    (Op.REDUCE_SUM, {"axes": [-9]}, "axes"),
    (Op.REDUCE_ALL, {"axes": [[0]]}, "axes"),
    (Op.ARGMAX, {"axis": 9}, "axis"),
    (Op.ARGMIN, {"axis": -9}, "axis"),
    (Op.TOPK_V2, {"k": 0}, "k must"),
    (Op.TOPK_V2, {"k": 99}, "k must"),
    (Op.FILL, {"dims": [2, -1]}, "dims"),
    (Op.SOFTMAX, {"beta": 0.0}, "beta"),
    (Op.SOFTMAX, {"axis": 9}, "axis"),
    (Op.LOG_SOFTMAX, {"axis": 9}, "axis"),
    (Op.RESIZE_BILINEAR, {"output_width": 0}, "output_width"),
    (Op.RESIZE_BILINEAR, {"height_scale": 0.0}, "height_scale"),
    (Op.RESIZE_NEAREST_NEIGHBOR, {"width_scale": float("nan")}, "width_scale"),
    (Op.RESIZE_NEAREST_NEIGHBOR, {"width_scale": 3e38}, "width"),
    (Op.RESIZE_BILINEAR, {"align_corners": True, "half_pixel_centers": True}, "align_corners"),
    (Op.RANDOM_MULTINOMIAL, {"samples": 0}, "samples"),
    (Op.RANDOM_MULTINOMIAL, {"seeds": [1]}, "seeds"),
    (Op.ROI_ALIGN, {"output_height": 0}, "output_height"),
    (Op.ROI_ALIGN, {"height_stride": 0.0}, "height_stride"),
    (Op.ROI_ALIGN, {"width_sampling_ratio": -1}, "width_sampling_ratio"),
    (Op.ROI_ALIGN, {"height_sampling_ratio": 2**31 - 1}, "height_sampling_ratio"),
    (Op.ROI_POOLING, {"width_stride": float("nan")}, "width_stride"),
    (Op.BOX_WITH_NMS_LIMIT, {"nms_kernel": 3}, "nms_kernel"),
    (Op.GENERATE_PROPOSALS, {"height_stride": -1.0}, "height_stride"),
    (Op.DETECTION_POSTPROCESSING, {"scale_y": 0.0}, "scale_y"),
    (Op.DETECTION_POSTPROCESSING, {"max_detections": 0}, "max_detections"),
    (Op.DETECTION_POSTPROCESSING, {"iou_threshold": -0.5}, "iou_threshold"),
]


def described(row: Value) -> str:
    code, changes, _ = row
    return f"{code.name} {', '.join(f'{name}={value}' for name, value in changes.items())}".replace(" ", "_")


def fitting(changes: dict[str, object]) -> Callable[[Case], bool]:
    """Cases whose vectors are as long as the new ones: what is wrong then is what the row means."""

    def fits(case: Case) -> bool:
        labels = names(case)
        for name, value in changes.items():
            data = case.inputs[labels.index(name)].data
            if isinstance(value, list) and np.shape(data) != np.shape(value):
                return False
        return True

    return fits


def changed(row: Value) -> Case:
    code, changes, _ = row
    same_length = code in (Op.SLICE, Op.STRIDED_SLICE, Op.PAD)
    case = base(code, *changes, fits=fitting(changes) if same_length else None)
    for name, value in changes.items():
        case = with_value(case, name, value)
    return case


@pytest.mark.parametrize("row", VALUES, ids=described)
def test_a_constant_that_breaks_a_rule_fails_at_finish(row: Value) -> None:
    model, _ = build(changed(row), data_is_input=True)
    reason = refused(model.finish)
    assert reason.startswith(row[0].name)
    assert row[2] in reason
    assert "(operands " in reason


@pytest.mark.parametrize("row", VALUES, ids=described)
def test_a_value_that_breaks_a_rule_fails_at_execution(row: Value) -> None:
    """Or before, where its size is wrong already."""
    model, values = build(changed(row), inputs=tuple(row[1]))
    try:
        model.finish()
    except nnvk.NnapiError as error:
        assert error.code is ResultCode.BAD_DATA, error
        reason = error.reason
    else:
        reason = refused(lambda: nnvk.run(compiled(model, CPU), values), ResultCode.OP_FAILED)
    assert row[0].name in reason
    assert row[2] in reason


# --- data ----------------------------------------------------------------------------------------------------


def _data(code: Op, leading: OperandCode | None = None, **changes: object) -> Case:
    case = base(code, *changes, leading=leading)
    for name, value in changes.items():
        place = names(case).index(name)
        arg = case.inputs[place]
        data = np.full(arg.shape, value, arg.type.dtype) if np.ndim(value) == 0 else np.resize(value, arg.shape)
        case = with_arg(case, place, replace(arg, data=data.astype(arg.type.dtype), is_parameter=False))
    return case


DATA: list[tuple[str, Case, str]] = [
    ("an index beyond the end", _data(Op.GATHER, indices=99), "indices must be in"),
    ("a row that is not there", _data(Op.EMBEDDING_LOOKUP, lookup=-1), "lookup must be in"),
    ("keys that don't ascend", _data(Op.HASHTABLE_LOOKUP, key=np.arange(9)[::-1]), "key must ascend"),
    ("a region of no batch", _data(Op.ROI_ALIGN, batch_split=99), "batch_split[0] must be in"),
    ("a region turned over", _data(Op.ROI_POOLING, rois=np.array([4.0, 4.0, 1.0, 1.0])), "rois must have x1 <= x2"),
    ("a region outside", _data(Op.ROI_ALIGN, rois=np.array([0.0, 0.0, 1e5, 1e5])), "rois must lie on"),
    ("a box of no image", _data(Op.AXIS_ALIGNED_BBOX_TRANSFORM, batch_split=-1), "batch_split[0] must be in"),
    ("a box turned over", _data(Op.BOX_WITH_NMS_LIMIT, rois=np.array([4.0, 4.0, 1.0, 1.0])), "rois must have x1 <= x2"),
    ("a box turned over", _data(Op.HEATMAP_MAX_KEYPOINT, boxes=np.array([4.0, 4.0, 1.0, 1.0])), "boxes must have x1"),
    ("nothing to draw from", _data(Op.RANDOM_MULTINOMIAL, input=-np.inf), "finite logit"),
    ("a padding step out of range", _data(Op.PAD_V2, Q8, pad_value=256), "pad_value must be in"),
]


@pytest.mark.parametrize(
    "what, case, words", DATA, ids=[f"{row[1].code.name}_{row[0]}".replace(" ", "_") for row in DATA]
)
def test_data_that_breaks_a_rule_fails_at_execution(what: str, case: Case, words: str) -> None:
    model, values = build(case)
    model.finish()
    reason = refused(lambda: nnvk.run(compiled(model, CPU), values), ResultCode.OP_FAILED)
    assert case.code.name in reason
    assert words in reason


def test_integers_may_be_divided_by_zero() -> None:
    model, values = build(_data(Op.DIV, I32, input1=0))
    model.finish()
    (quotients,) = nnvk.run(compiled(model, CPU), values)
    assert not quotients.any()


# --- shapes --------------------------------------------------------------------------------------------------

SHAPES: list[tuple[Op, str, tuple[int, ...], str]] = [
    (Op.ADD, "input1", (7, 11), "input1 must have a shape that broadcasts"),
    (Op.MUL, "input0", (1, 1, 1, 1, 1), "input0 must have rank 4"),
    (Op.EQUAL, "input1", (97,), "input1 must have a shape that broadcasts"),
    (Op.SELECT, "input2", (97,), "input2 must have shape"),
    (Op.AVERAGE_POOL_2D, "input", (1, 2, 3), "input must have rank 4"),
    (Op.CONV_2D, "input", (1, 2, 3), "input must have rank 4"),
    (Op.CONV_2D, "filter", (1, 2, 3), "filter must have rank 4"),
    (Op.CONV_2D, "filter", (2, 1, 1, 97), "filter must have depth"),
    (Op.CONV_2D, "bias", (97,), "bias must have shape"),
    (Op.DEPTHWISE_CONV_2D, "bias", (97,), "bias must have shape"),
    (Op.DEPTHWISE_CONV_2D, "filter", (2, 1, 1, 3), "filter must have shape [1, "),
    (Op.GROUPED_CONV_2D, "filter", (5,), "filter must have rank 4"),
    (Op.TRANSPOSE_CONV_2D, "bias", (97,), "bias must have shape"),
    (Op.FULLY_CONNECTED, "weights", (1, 2, 3), "weights must have rank 2"),
    (Op.FULLY_CONNECTED, "input", (97, 89), "input must have a multiple of"),
    (Op.FULLY_CONNECTED, "bias", (97,), "bias must have shape"),
    (Op.BATCH_MATMUL, "input1", (97, 97, 97), "input1 must have the batch dimensions"),
    (Op.RESIZE_BILINEAR, "input", (3,), "input must have rank 4"),
    (Op.INSTANCE_NORMALIZATION, "input", (3, 3), "input must have rank 4"),
    (Op.SPACE_TO_DEPTH, "input", (4, 4), "input must have rank 4"),
    (Op.BATCH_TO_SPACE_ND, "input", (4, 4), "input must have rank 4"),
    (Op.TRANSPOSE, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.PAD, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.PAD, "paddings", (9, 2), "paddings must have shape"),
    (Op.STRIDED_SLICE, "begin", (9,), "begin must have shape"),
    (Op.SLICE, "size", (9,), "size must have shape"),
    (Op.TILE, "multiples", (9,), "multiples must have shape"),
    (Op.SOFTMAX, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.L2_NORMALIZATION, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.EMBEDDING_LOOKUP, "value", (3,), "value must have rank 2"),
    (Op.EMBEDDING_LOOKUP, "lookup", (1, 1), "lookup must have rank 1"),
    (Op.HASHTABLE_LOOKUP, "key", (97,), "key must have shape"),
    (Op.LSH_PROJECTION, "hash", (3,), "hash must have rank 2"),
    (Op.LSH_PROJECTION, "weight", (97,), "weight must have shape"),
    (Op.RNN, "input", (3,), "input must have rank 2"),
    (Op.RNN, "weights", (2, 97), "weights must have"),
    (Op.RNN, "hidden_state_in", (97, 97), "hidden_state_in must have "),
    (Op.UNIDIRECTIONAL_SEQUENCE_RNN, "input", (3, 3), "input must have rank 3"),
    (Op.BIDIRECTIONAL_SEQUENCE_RNN, "bw_bias", (97,), "bw_bias must have shape"),
    (Op.LSTM, "input_to_forget_weights", (97, 97), "input_to_forget_weights must have shape"),
    (Op.LSTM, "cell_state_in", (97, 97), "cell_state_in must have "),
    (Op.UNIDIRECTIONAL_SEQUENCE_LSTM, "projection_weights", (97, 97), "projection_weights must have shape"),
    (Op.BIDIRECTIONAL_SEQUENCE_LSTM, "fw_output_gate_bias", (97,), "fw_output_gate_bias must have shape"),
    (Op.QUANTIZED_16BIT_LSTM, "cell_gate_bias", (97,), "cell_gate_bias must have shape"),
    (Op.QUANTIZED_LSTM, "output_state_in", (97, 97), "output_state_in must have shape"),
    (Op.SVDF, "state_in", (97, 97), "state_in must have "),
    (Op.ROI_ALIGN, "rois", (3, 5), "rois must have shape"),
    (Op.ROI_POOLING, "batch_split", (97,), "batch_split must have shape"),
    (Op.AXIS_ALIGNED_BBOX_TRANSFORM, "deltas", (1, 5), "deltas must have 4 columns"),
    (Op.AXIS_ALIGNED_BBOX_TRANSFORM, "image_info", (3, 5), "image_info must have shape"),
    (Op.BOX_WITH_NMS_LIMIT, "rois", (97, 4), "rois must have shape"),
    (Op.GENERATE_PROPOSALS, "anchors", (97, 4), "anchors must have shape"),
    (Op.DETECTION_POSTPROCESSING, "anchors", (97, 4), "anchors must have shape"),
    (Op.HEATMAP_MAX_KEYPOINT, "boxes", (97, 4), "boxes must have shape"),
    (Op.HEATMAP_MAX_KEYPOINT, "heatmap", (1, 2, 2), "heatmap must have rank 4"),
    (Op.RANDOM_MULTINOMIAL, "input", (3,), "input must have rank 2"),
    (Op.REDUCE_MAX, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.CONCATENATION, "inputs", (1, 1, 1, 1, 1), "inputs"),
    (Op.RESHAPE, "input", (1, 1, 1, 1, 1), "input must have rank 1 to 4"),
    (Op.FILL, "dims", (1, 1), "dims must have rank 1"),
]


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "code, name, shape, words",
    SHAPES,
    ids=[f"{row[0].name}_{row[1]}_{list(row[2])}".replace(" ", "") for row in SHAPES],
)
def test_shapes_that_do_not_fit(code: Op, name: str, shape: tuple[int, ...], words: str, known: bool) -> None:
    """Fail at finish; where the model leaves them open, at execution."""
    is_filter = name == "filter" and len(shape) == 4

    def fits(case: Case) -> bool:  # a filter has as many outputs as the bias
        return not is_filter or case.inputs[2].shape == (shape[3 if code is Op.DEPTHWISE_CONV_2D else 0],)

    case = with_value(base(code, name, fits=fits), name, shape)
    if known:
        reason = refused(build(case)[0].finish)
        assert "(operands " in reason
    else:
        place = names(case).index(name)
        arg = case.inputs[place]
        fed = np.asarray(arg.data)
        unranked = replace(arg, type=arg.type.with_dimensions(()), data=fed, is_parameter=False)
        model, values = build(with_arg(case, place, unranked))
        model.finish()
        reason = refused(lambda: nnvk.run(compiled(model, CPU), values), ResultCode.OP_FAILED)
    assert code.name in reason
    assert words in reason


# --- quantisation --------------------------------------------------------------------------------------------

_OTHER = OperandType(Q8, (), 0.3, 7)
_OUTPUTS = (
    *(Op.LOGISTIC, Op.TANH, Op.SOFTMAX, Op.L2_NORMALIZATION, Op.RELU, Op.RELU1, Op.RELU6, Op.MAX_POOL_2D),
    *(Op.AVERAGE_POOL_2D, Op.RESHAPE, Op.TRANSPOSE, Op.PAD, Op.SLICE, Op.STRIDED_SLICE, Op.SPLIT, Op.GATHER, Op.TILE),
    *(Op.SPACE_TO_DEPTH, Op.DEPTH_TO_SPACE, Op.SPACE_TO_BATCH_ND, Op.BATCH_TO_SPACE_ND, Op.SQUEEZE, Op.EXPAND_DIMS),
    *(Op.MEAN, Op.REDUCE_MAX, Op.REDUCE_MIN, Op.RESIZE_BILINEAR, Op.RESIZE_NEAREST_NEIGHBOR, Op.CHANNEL_SHUFFLE),
    *(Op.PACK, Op.MIRROR_PAD, Op.REVERSE, Op.TOPK_V2, Op.EMBEDDING_LOOKUP, Op.ROI_POOLING),
)
"""Operations whose output has one quantisation that is allowed."""


@pytest.mark.parametrize("code", _OUTPUTS, ids=lambda code: code.name)
def test_the_quantisation_of_an_output_is_given(code: Op) -> None:
    case = with_output(base(code, leading=Q8), 0, _OTHER)
    reason = refused(build(case)[0].finish)
    name = registry.lookup(code).outputs[0].name
    assert reason.startswith(code.name)
    assert name in reason
    assert "scale" in reason


@pytest.mark.parametrize("code", [Op.CONV_2D, Op.DEPTHWISE_CONV_2D, Op.TRANSPOSE_CONV_2D, Op.FULLY_CONNECTED])
@pytest.mark.parametrize("scale, zero_point", [(0.77, 0), (0.0, 0), (None, 1)], ids=["scale", "none", "zero_point"])
def test_a_bias_has_the_scale_of_the_products(code: Op, scale: float | None, zero_point: int) -> None:
    case = base(code, leading=Q8, fits=lambda case: case.inputs[1].type.code is Q8)
    bias = case.inputs[2]
    type_ = replace(bias.type, scale=bias.type.scale if scale is None else scale, zero_point=zero_point)
    if zero_point:  # an INT32 operand can't have one at all
        assert "zero point" in refused(lambda: build(with_arg(case, 2, replace(bias, type=type_))))
        return
    reason = refused(build(with_arg(case, 2, replace(bias, type=type_)))[0].finish)
    assert f"{code.name}: bias must have scale" in reason


@pytest.mark.parametrize("code, dim", [(Op.CONV_2D, 3), (Op.DEPTHWISE_CONV_2D, 0), (Op.GROUPED_CONV_2D, 1)])
def test_scales_per_channel_lie_along_the_output_channels(code: Op, dim: int) -> None:
    case = base(code, leading=Q8S, fits=lambda case: case.inputs[1].type.code is Q8_CHANNEL)
    weights = case.inputs[1]
    channels = ChannelQuant((0.5,) * weights.shape[dim], dim)
    wrong = replace(weights, type=replace(weights.type, channel_quant=channels))
    assert f"{code.name}: filter must have its scales along" in refused(build(with_arg(case, 1, wrong))[0].finish)


@pytest.mark.parametrize(
    "code, name",
    [
        (Op.ROI_ALIGN, "rois"),
        (Op.ROI_POOLING, "rois"),
        (Op.BOX_WITH_NMS_LIMIT, "rois"),
        (Op.HEATMAP_MAX_KEYPOINT, "boxes"),
        (Op.GENERATE_PROPOSALS, "anchors"),
        (Op.GENERATE_PROPOSALS, "image_info"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_boxes_have_steps_of_an_eighth_of_a_pixel(code: Op, name: str) -> None:
    case = base(code, leading=Q8)
    place = names(case).index(name)
    arg = case.inputs[place]
    wrong = replace(arg, type=replace(arg.type, scale=0.25))
    assert f"{code.name}: {name} must have scale 0.125" in refused(build(with_arg(case, place, wrong))[0].finish)


@pytest.mark.parametrize("name", ["input", "output_state_in", "cell_state_in", "forget_gate_bias"])
def test_quantized_16bit_lstm_has_fixed_scales(name: str) -> None:
    case = base(Op.QUANTIZED_16BIT_LSTM)
    place = names(case).index(name)
    arg = case.inputs[place]
    wrong = replace(arg, type=replace(arg.type, scale=0.3))
    reason = refused(build(with_arg(case, place, wrong))[0].finish)
    assert f"QUANTIZED_16BIT_LSTM: {name} must have scale" in reason


# --- control flow --------------------------------------------------------------------------------------------


def test_a_loop_that_does_not_end_is_given_up() -> None:
    case = base(Op.WHILE)
    condition = case.inputs[0].model
    assert condition is not None
    operands = tuple(
        replace(operand, constant=np.array([2**30], np.int32))
        if operand.type.code is I32 and operand.value is not None
        else operand
        for operand in condition.operands
    )
    endless = replace(case.inputs[0], model=replace(condition, operands=operands))
    model, values = build(with_arg(case, 0, endless))
    model.finish()
    compilation = nnvk.Compilation(model, [CPU])
    compilation.finish()
    execution = nnvk.Execution(compilation)
    execution.set_loop_timeout(20_000_000)
    for index, value in enumerate(values):
        execution.set_input(index, value)
    for index, operand in enumerate(model.frozen.output_types()):
        execution.set_output(index, np.zeros(values[index].shape, operand.dtype))
    assert "WHILE" in refused(execution.compute, ResultCode.MISSED_DEADLINE_TRANSIENT)
