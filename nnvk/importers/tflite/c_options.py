"""The options of operators in TensorFlow Lite's C structures, instead of the file's tables."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from nnvk.importers.errors import Unmapped

_ACTIVATION = ("FusedActivationFunction", "i")
_ASYMMETRIC = ("AsymmetricQuantizeInputs", "?")
_STRIDES = (("Padding", "p"), ("StrideW", "i"), ("StrideH", "i"))
_DILATION = (("DilationWFactor", "i"), ("DilationHFactor", "i"))
_CLIPS = (("CellClip", "f"), ("ProjClip", "f"))
_RESIZED = (("AlignCorners", "?"), ("HalfPixelCenters", "?"))
_MASKS = tuple((f"{name}Mask", "i") for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis"))
_REDUCERS = "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL"

_KINDS = {"p": "i", "n": "8ii"}
"""Fields that ``struct`` has no letter for. "p": an enumeration, from 1 on where the file's is from 0 on. "n": up to
eight numbers, and how many."""


@dataclass(frozen=True)
class Layout:
    """The structure that stands for a table of options, up to the last field that a mapper reads."""

    operators: str
    """The names of the operators with this structure."""
    fields: Sequence[tuple[str, str]]
    """The accessor of the table, and the kind of field."""

    @property
    def format(self) -> str:
        """For `struct`, with C's alignment."""
        return "@" + "".join(_KINDS.get(kind, kind) for _, kind in self.fields)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return struct.calcsize(self.format)


LAYOUTS = {
    "AddOptions": Layout("ADD", [_ACTIVATION]),
    "BatchMatMulOptions": Layout("BATCH_MATMUL", [("AdjX", "?"), ("AdjY", "?"), _ASYMMETRIC]),
    "BidirectionalSequenceLSTMOptions": Layout(
        "BIDIRECTIONAL_SEQUENCE_LSTM", [_ACTIVATION, *_CLIPS, ("MergeOutputs", "?"), ("TimeMajor", "?"), _ASYMMETRIC]
    ),
    "BidirectionalSequenceRNNOptions": Layout(
        "BIDIRECTIONAL_SEQUENCE_RNN", [("TimeMajor", "?"), _ACTIVATION, ("MergeOutputs", "?"), _ASYMMETRIC]
    ),
    "ConcatenationOptions": Layout("CONCATENATION", [("Axis", "i"), _ACTIVATION]),
    "Conv2DOptions": Layout("CONV_2D", [*_STRIDES, _ACTIVATION, *_DILATION]),
    "Conv3DOptions": Layout(
        "CONV_3D", [*_STRIDES, ("StrideD", "i"), *_DILATION, ("DilationDFactor", "i"), _ACTIVATION]
    ),
    "DepthToSpaceOptions": Layout("DEPTH_TO_SPACE", [("BlockSize", "i")]),
    "DepthwiseConv2DOptions": Layout(
        "DEPTHWISE_CONV_2D", [*_STRIDES, ("DepthMultiplier", "i"), _ACTIVATION, *_DILATION]
    ),
    "DivOptions": Layout("DIV", [_ACTIVATION]),
    "FakeQuantOptions": Layout("FAKE_QUANT", [("Min", "f"), ("Max", "f"), ("NumBits", "i"), ("NarrowRange", "?")]),
    "FullyConnectedOptions": Layout(
        "FULLY_CONNECTED", [_ACTIVATION, ("WeightsFormat", "i"), ("KeepNumDims", "?"), _ASYMMETRIC]
    ),
    "GatherOptions": Layout("GATHER", [("Axis", "i"), ("BatchDims", "i")]),
    "GeluOptions": Layout("GELU", [("Approximate", "?")]),
    "IfOptions": Layout("IF", [("ThenSubgraphIndex", "i"), ("ElseSubgraphIndex", "i")]),
    "L2NormOptions": Layout("L2_NORMALIZATION", [_ACTIVATION]),
    "LSHProjectionOptions": Layout("LSH_PROJECTION", [("Type", "i")]),
    "LSTMOptions": Layout("LSTM", [_ACTIVATION, *_CLIPS, ("KernelType", "i"), _ASYMMETRIC]),
    "LeakyReluOptions": Layout("LEAKY_RELU", [("Alpha", "f")]),
    "LocalResponseNormalizationOptions": Layout(
        "LOCAL_RESPONSE_NORMALIZATION", [("Radius", "i"), ("Bias", "f"), ("Alpha", "f"), ("Beta", "f")]
    ),
    "MirrorPadOptions": Layout("MIRROR_PAD", [("Mode", "p")]),
    "MulOptions": Layout("MUL", [_ACTIVATION]),
    "OneHotOptions": Layout("ONE_HOT", [("Axis", "i")]),
    "PackOptions": Layout("PACK", [("ValuesCount", "i"), ("Axis", "i")]),
    "Pool2DOptions": Layout(
        "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
        [*_STRIDES, ("FilterWidth", "i"), ("FilterHeight", "i"), _ACTIVATION],
    ),
    "RNNOptions": Layout("RNN", [_ACTIVATION, _ASYMMETRIC]),
    "ReducerOptions": Layout(_REDUCERS, [("KeepDims", "?")]),
    "ReshapeOptions": Layout("RESHAPE", [("NewShapeAsNumpy", "n")]),
    "ResizeBilinearOptions": Layout("RESIZE_BILINEAR", _RESIZED),
    "ResizeNearestNeighborOptions": Layout("RESIZE_NEAREST_NEIGHBOR", _RESIZED),
    "SVDFOptions": Layout("SVDF", [("Rank", "i"), _ACTIVATION, _ASYMMETRIC]),
    "SequenceRNNOptions": Layout("UNIDIRECTIONAL_SEQUENCE_RNN", [("TimeMajor", "?"), _ACTIVATION, _ASYMMETRIC]),
    "SoftmaxOptions": Layout("SOFTMAX", [("Beta", "f")]),
    "SpaceToDepthOptions": Layout("SPACE_TO_DEPTH", [("BlockSize", "i")]),
    "SqueezeOptions": Layout("SQUEEZE", [("SqueezeDimsAsNumpy", "n")]),
    "StridedSliceOptions": Layout("STRIDED_SLICE", [*_MASKS, ("Offset", "?")]),
    "SubOptions": Layout("SUB", [_ACTIVATION]),
    "TransposeConvOptions": Layout("TRANSPOSE_CONV", [*_STRIDES, _ACTIVATION]),
    "UnidirectionalSequenceLSTMOptions": Layout(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [_ACTIVATION, *_CLIPS, ("TimeMajor", "?"), _ASYMMETRIC]
    ),
    "UnpackOptions": Layout("UNPACK", [("Num", "i"), ("Axis", "i")]),
    "WhileOptions": Layout("WHILE", [("CondSubgraphIndex", "i"), ("BodySubgraphIndex", "i")]),
}
"""The options, by the name of the table. TensorFlow Lite's builtin_op_data.h has a structure for each."""

SIZES = {
    getattr(tflite.BuiltinOperator, operator): layout.size
    for layout in LAYOUTS.values()
    for operator in layout.operators.split()
}
"""The bytes to read of the structure of a builtin, by its number."""


class Options:
    """An accessor like those generated for tables of options, with the fields of a C structure."""

    def __init__(self, table: str, raw: bytes) -> None:
        layout = LAYOUTS.get(table)
        if layout is None or len(raw) != layout.size:
            raise Unmapped(f"expected options of type {table}, got {len(raw)} bytes of others")
        left = list(struct.unpack(layout.format, raw))
        for name, kind in layout.fields:
            value: Any = left.pop(0)
            if kind == "p":
                value -= 1
            elif kind == "n":
                numbers, count = [value, *left[:7]], left[7]
                del left[:8]
                if not 0 <= count <= 8:
                    raise Unmapped(f"{table} must have at most 8 numbers, got {count}")
                value = np.array(numbers[:count], np.int32) if count else 0  # as where the file has none
            setattr(self, name, _giving(value))


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value
