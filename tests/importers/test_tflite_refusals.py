"""Operators of TFLite that the importer can't map: for each reason the least change of an operator that it maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tflite_net import Net, T, write
from tflite_oracle import f32, f32c, i32, i32c, out, q8, scalar

from nnvk.importers.tflite import TfliteImportError, load


@dataclass
class Case:
    """An operator, and the changes by which one that is mapped differs from it."""

    name: str
    inputs: Sequence[T | None]
    reason: str
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    good_inputs: Sequence[T | None] | None = None
    good: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[T] = (T(),)
    good_outputs: Sequence[T] | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def load(self, *, mapped: bool) -> None:
        """Import the operator, or the one that is mapped."""
        inputs = self.good_inputs if mapped and self.good_inputs is not None else self.inputs
        outputs = list(self.good_outputs if mapped and self.good_outputs is not None else self.outputs)
        options = {**self.options, **(self.good if mapped else {})}
        free = [tensor for tensor in inputs if tensor is not None and tensor.is_free]
        net = Net(free or [f32(1)], outputs)  # a model has at least one input
        net.op(self.name, inputs, outputs, self.table, **options)
        load(write(net))


def conv(*shapes: tuple[int, ...]) -> list[T]:
    return [f32(*shapes[0]), *(f32c(*shape) for shape in shapes[1:])]


WINDOW = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
CASES = [
    Case(
        "BITCAST",
        [f32(2, 3)],
        "bits are of FLOAT32 and INT32, got",
        outputs=[T("FLOAT32", (2, 3))],
        good_outputs=[T("INT32", (2, 3))],
    ),
    Case(
        "RANDOM_UNIFORM",
        [i32c(2, 0)],
        "the shape (input 0) must have positive sizes, got [2, 0]",
        "RandomOptions",
        good_inputs=[i32c(2, 3)],
    ),
    Case(
        "LEAKY_RELU",
        [f32(2, 3)],
        "alpha must be finite, got inf",
        "LeakyReluOptions",
        {"Alpha": float("inf")},
        good={"Alpha": 0.5},
    ),
    Case(
        "RNN",
        [f32(2, 3), f32c(4, 3), f32c(4, 4), f32c(4), T("FLOAT32", (2, 4), variable=True)],
        "NNAPI's recurrent cells have no activation 5",
        "RNNOptions",
        {"FusedActivationFunction": 5},
        good={"FusedActivationFunction": 4},
    ),
    Case(
        "LSH_PROJECTION",
        [f32c(2, 3), f32(4, 3), None],
        "unknown type of projection 0",
        "LSHProjectionOptions",
        {"Type": 0},
        good={"Type": 2},
        outputs=[T("INT32")],
    ),
    Case(
        "RESHAPE",
        [f32(2, 3), i32(2)],
        "the shape (input 1) must be a constant, or the output's shape declared",
        "ReshapeOptions",
        good_inputs=[f32(2, 3), i32c(3, 2)],
    ),
    Case(
        "SQUEEZE",
        [f32(2, 3)],
        "the dimensions [0] of [2, 3] must be of size 1",
        "SqueezeOptions",
        {"SqueezeDims": [0]},
        good_inputs=[f32(1, 3)],
    ),
    Case(
        "RANGE",
        [scalar(0), scalar(5), scalar(0)],
        "start, limit and delta must be finite and delta not 0, got 0, 5, 0",
        "RangeOptions",
        outputs=[out("INT32")],
        good_inputs=[scalar(0), scalar(5), scalar(2)],
    ),
    Case(
        "RANGE",
        [scalar(0), i32(), scalar(1)],
        "start, limit and delta (inputs 0 to 2) must be constants",
        "RangeOptions",
        outputs=[out("INT32")],
        good_inputs=[scalar(0), scalar(5), scalar(2)],
    ),
    Case(
        "BROADCAST_ARGS",
        [i32c(2, 3), i32c(2, 4)],
        "shape mismatch",
        outputs=[out("INT32")],
        good_inputs=[i32c(2, 3), i32c(1, 3)],
    ),
    Case(
        "TRANSPOSE",
        [f32(2, 3), i32c(0, 0)],
        "the permutation must name each of 2 axes, got [0, 0]",
        "TransposeOptions",
        good_inputs=[f32(2, 3), i32c(1, 0)],
    ),
    Case(
        "PACK",
        [f32(2, 3), f32(3, 2)],
        "shapes must agree, got [[2, 3], [3, 2]]",
        "PackOptions",
        {"ValuesCount": 2},
        good_inputs=[f32(2, 3), f32(2, 3)],
    ),
    Case(
        "CONCATENATION",
        [i32(2, 3), i32(3, 2)],
        "shapes must agree but for axis 0",
        "ConcatenationOptions",
        outputs=[out("INT32")],
        good_inputs=[i32(2, 3), i32(1, 3)],
    ),
    Case(
        "RESIZE_BILINEAR",
        [f32(1, 4, 3, 2), i32c(8, 6, 2)],
        "the size (input 1) must be two numbers, got [8, 6, 2]",
        "ResizeBilinearOptions",
        good_inputs=[f32(1, 4, 3, 2), i32c(8, 6)],
    ),
    Case(
        "PADV2",
        [f32(2, 3), i32c([[1, 0], [0, 1]]), f32c(2)],
        "the value to pad with (input 2) must be one constant",
        "PadV2Options",
        good_inputs=[f32(2, 3), i32c([[1, 0], [0, 1]]), f32c(1)],
    ),
    Case(
        "PADV2",
        [f32(2, 3), i32c([[1, 0], [0, 1]]), f32(1)],
        "the value to pad with (input 2) must be one constant",
        "PadV2Options",
        good_inputs=[f32(2, 3), i32c([[1, 0], [0, 1]]), f32c(1)],
    ),
    Case(
        "PAD",
        [i32(2, 3), i32c([[1, 0]])],
        "there must be two paddings from 0 up for each axis, got [[1, 0]]",
        "PadOptions",
        outputs=[out("INT32")],
        good_inputs=[i32(2, 3), i32c([[1, 0], [0, 1]])],
    ),
    Case(
        "PAD",
        [i32(2, 3), i32c([[1, 0], [-1, 0]])],
        "there must be two paddings from 0 up for each axis",
        "PadOptions",
        outputs=[out("INT32")],
        good_inputs=[i32(2, 3), i32c([[1, 0], [0, 1]])],
    ),
    Case(
        "CONV_2D",
        conv((1, 6, 5), (4, 3, 3, 2), (4,)),
        "the input must have rank 4, got shape [1, 6, 5]",
        "Conv2DOptions",
        WINDOW,
        conv((1, 6, 5, 2), (4, 3, 3, 2), (4,)),
    ),
    Case(
        "CONV_2D",
        conv((1, 6, 5, 2), (4, 3, 2), (4,)),
        "the filter must have rank 4, got shape [4, 3, 2]",
        "Conv2DOptions",
        WINDOW,
        conv((1, 6, 5, 2), (4, 3, 3, 2), (4,)),
    ),
    Case(
        "CONV_2D",
        conv((1, 6, 5, 2), (4, 3, 3, 2), (4,)),
        "unknown padding 2",
        "Conv2DOptions",
        {**WINDOW, "Padding": 2},
        good={"Padding": 1},
    ),
    Case(
        "CONV_2D",
        conv((1, 6, 5, 4), (4, 3, 3, 2), (4,)),
        "NNAPI has no grouped convolution with dilation, got 2 groups, dilation [2, 1]",
        "Conv2DOptions",
        {**WINDOW, "DilationWFactor": 2},
        good={"DilationWFactor": 1},
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        conv((1, 6, 5), (1, 3, 3, 2), (2,)),
        "the input must have rank 4",
        "DepthwiseConv2DOptions",
        WINDOW,
        conv((1, 6, 5, 2), (1, 3, 3, 2), (2,)),
    ),
    Case(
        "DEPTHWISE_CONV_2D",
        conv((1, 6, 5, 2), (3, 3, 2), (2,)),
        "the filter must have rank 4",
        "DepthwiseConv2DOptions",
        WINDOW,
        conv((1, 6, 5, 2), (1, 3, 3, 2), (2,)),
    ),
    Case(
        "TRANSPOSE_CONV",
        [i32c(1, 8, 7, 4), f32c(4, 3, 2), f32(1, 6, 5, 2)],
        "the filter must have rank 4",
        "TransposeConvOptions",
        {"StrideW": 1, "StrideH": 1, "Padding": 1},
        [i32c(1, 8, 7, 4), f32c(4, 3, 3, 2), f32(1, 6, 5, 2)],
    ),
    Case(
        "TRANSPOSE_CONV",
        [i32c(1, 8, 7, 4), f32c(4, 3, 3, 2), f32(6, 5, 2)],
        "the input must have rank 4",
        "TransposeConvOptions",
        {"StrideW": 1, "StrideH": 1, "Padding": 1},
        [i32c(1, 8, 7, 4), f32c(4, 3, 3, 2), f32(1, 6, 5, 2)],
    ),
    Case(
        "FULLY_CONNECTED",
        [f32(2, 3), f32c(4, 3), f32c(4)],
        "NNAPI has no shuffled weights",
        "FullyConnectedOptions",
        {"WeightsFormat": 1},
        good={"WeightsFormat": 0},
    ),
    Case(
        "FULLY_CONNECTED",
        [f32(2, 3), f32c(4, 3, 1), f32c(4)],
        "the weights must have rank 2",
        "FullyConnectedOptions",
        good_inputs=[f32(2, 3), f32c(4, 3), f32c(4)],
    ),
    Case(
        "FULLY_CONNECTED",
        [f32(2, 3), f32c(4, 5), f32c(4)],
        "the input of shape [2, 3] does not divide into rows of 5, as the weights take",
        "FullyConnectedOptions",
        good_inputs=[f32(2, 5), f32c(4, 5), f32c(4)],
    ),
    Case(
        "BATCH_MATMUL",
        [f32(2, 3, 4), f32(3, 4, 5)],
        "batches of [2, 3, 4] and [3, 4, 5] don't broadcast",
        "BatchMatMulOptions",
        good_inputs=[f32(2, 3, 4), f32(1, 4, 5)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32c(0), i32c(1, 2), i32c(1)],
        "begin, end and strides must be of one length, got [0], [1, 2] and [1]",
        "StridedSliceOptions",
        good_inputs=[f32(4, 5), i32c(0), i32c(1), i32c(1)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32(1), i32(1), i32c(2)],
        "the begin (input 1) must be a constant where there is an ellipsis, a new axis or a stride",
        "StridedSliceOptions",
        {"ShrinkAxisMask": 1},
        [f32(4, 5), i32(1), i32(1), i32c(1)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32(1), i32(1), i32c(1)],
        "the begin (input 1) must be a constant where there is an ellipsis, a new axis or a stride",
        "StridedSliceOptions",
        {"ShrinkAxisMask": 1, "EllipsisMask": 1},
        good={"EllipsisMask": 0},
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32(1), i32(1), i32c(1)],
        "the begin (input 1) must be a constant where there is an ellipsis, a new axis or a stride",
        "StridedSliceOptions",
        {"ShrinkAxisMask": 1, "NewAxisMask": 1},
        good={"NewAxisMask": 0},
    ),
    Case(
        "BUCKETIZE",
        [q8(2, 3)],
        "only numbers of FLOAT32 and integers are put into buckets",
        "BucketizeOptions",
        {"Boundaries": [1.0]},
        [f32(2, 3)],
        outputs=[out("INT32")],
    ),
    Case(
        "GATHER",
        [f32(2, 3, 4), i32(3, 2)],
        "have no 1 batch dimensions before axis 1 in common",
        "GatherOptions",
        {"Axis": 1, "BatchDims": 1},
        [f32(2, 3, 4), i32(2, 2)],
    ),
    Case(
        "GATHER",
        [f32(2, 3, 4), i32(2, 3)],
        "have no 2 batch dimensions before axis 1 in common",
        "GatherOptions",
        {"Axis": 1, "BatchDims": 2},
        good={"Axis": 2},
    ),
    Case(
        "GATHER",
        [f32(2, 3, 4), i32(2, 3)],
        "have no -1 batch dimensions before axis 1 in common",
        "GatherOptions",
        {"Axis": 1, "BatchDims": -3},
        good={"BatchDims": -1},
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32c(0), i32c(1), i32c(0)],
        "strides must not be 0",
        "StridedSliceOptions",
        good_inputs=[f32(4, 5), i32c(0), i32c(1), i32c(1)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4), i32c(0, 0), i32c(1, 1), i32c(1, 1)],
        "begin, end and strides name more axes than the input of shape [4] has",
        "StridedSliceOptions",
        good_inputs=[f32(4, 5), i32c(0, 0), i32c(1, 1), i32c(1, 1)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32c(0, 2), i32c(1, 2), i32c(1, 1)],
        "the slice 2:2:1 of axis 1, of size 5, has no elements",
        "StridedSliceOptions",
        good_inputs=[f32(4, 5), i32c(0, 2), i32c(1, 3), i32c(1, 1)],
    ),
    Case(
        "STRIDED_SLICE",
        [f32(4, 5), i32c(4), i32c(5), i32c(1)],
        "the index along axis 0",
        "StridedSliceOptions",
        {"ShrinkAxisMask": 1},
        [f32(4, 5), i32c(3), i32c(5), i32c(1)],
    ),
    Case(
        "SPLIT_V",
        [f32(2, 6), i32c(2, 2, 2), scalar(1)],
        "3 sizes do not fit 2 outputs",
        "SplitVOptions",
        {"NumSplits": 2},
        [f32(2, 6), i32c(2, 4), scalar(1)],
        outputs=[T(), T()],
    ),
    Case(
        "UNPACK",
        [f32(2, 3)],
        "3 elements along axis 1 do not fit 2 outputs",
        "UnpackOptions",
        {"Num": 2, "Axis": 1},
        [f32(3, 2)],
        outputs=[T(), T()],
    ),
    Case(
        "EMBEDDING_LOOKUP_SPARSE",
        [i32c(0, 1), i32c([[0], [1]]), i32c(2), f32(2), f32c(3, 4)],
        "do not fit the shape [2]",
        "EmbeddingLookupSparseOptions",
        good_inputs=[i32c(0, 1), i32c([[0, 0], [1, 0]]), i32c(2, 1), f32(2), f32c(3, 4)],
    ),
    Case(
        "EMBEDDING_LOOKUP_SPARSE",
        [i32c(0, 1), i32c([[0, 0]]), i32c(2, 1), f32(2), f32c(3, 4)],
        "do not fit the shape [2, 1]",
        "EmbeddingLookupSparseOptions",
        good_inputs=[i32c(0, 1), i32c([[0, 0], [1, 0]]), i32c(2, 1), f32(2), f32c(3, 4)],
    ),
    Case(
        "SPARSE_TO_DENSE",
        [i32c([[0], [1]]), i32c(3, 4), f32(1), f32c(1)],
        "do not fit an output of shape [3, 4]",
        "SparseToDenseOptions",
        good_inputs=[i32c([[0, 1]]), i32c(3, 4), f32(1), f32c(1)],
    ),
    Case(
        "SPARSE_TO_DENSE",
        [i32c([[0, 1]]), i32c(3, 0), f32(1), f32c(1)],
        "do not fit an output of shape [3, 0]",
        "SparseToDenseOptions",
        good_inputs=[i32c([[0, 1]]), i32c(3, 4), f32(1), f32c(1)],
    ),
    Case(
        "SPARSE_TO_DENSE",
        [i32c(0, 1, 2), i32c(3, 4), f32(1), f32c(1)],
        "do not fit an output of shape [3, 4]",
        "SparseToDenseOptions",
        good_inputs=[i32c(0, 1), i32c(3, 4), f32(1), f32c(1)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    with pytest.raises(TfliteImportError) as raised:
        case.load(mapped=False)
    assert f"operator 0 ({case.name})" in str(raised.value)
    assert case.reason in str(raised.value)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_least_change_is_mapped(case: Case) -> None:
    case.load(mapped=True)
