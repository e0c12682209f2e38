"""Attributes of ONNX that are left out: the default, written, gives the same model, and another value another one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, F, ints, x
from onnx_defaults import Default, check_default, drawn, parameters, small

INT, U8, I8 = np.int32, np.uint8, np.int8
IMAGE, MATRIX = x(1, 2, 6, 5), x(3, 4)
SCALES = np.array([1, 1, 1.5, 2.5], F)
STATISTICS = {name: small(4, seed=seed) for seed, name in enumerate("gbmv")}
LEVELS = {"a": x(2, 3, dtype=U8), "s": np.array(0.5, F), "z": np.array(3, U8)}
RESULT = {"t": np.array(0.25, F), "o": np.array(7, U8)}

DEFAULTS = [
    # --- elements
    Default("LeakyRelu", {"a": MATRIX}, {"alpha": (0.01, 0.02, 0.0)}),
    Default("Elu", {"a": MATRIX}, {"alpha": (1.0, 2.0, 0.0)}),
    Default("Selu", {"a": MATRIX}, {"alpha": (1.6732632423543772, 1.0), "gamma": (1.0507009873554805, 1.0)}),
    Default("Celu", {"a": MATRIX}, {"alpha": (1.0, 2.0, -1.0)}),
    Default("Shrink", {"a": MATRIX}, {"lambd": (0.5, 1.5, 0.0), "bias": (0.0, 1.0)}),
    Default("Shrink", {"a": x(4, dtype=INT)}, {"lambd": (0.5, 1.5, 0.0), "bias": (0.0, 1.0)}),
    Default("Swish", {"a": MATRIX}, {"alpha": (1.0, 2.0, 0.0)}, opset=24),
    Default("HardSigmoid", {"a": MATRIX}, {"alpha": (0.2, 1.2), "beta": (0.5, 1.5, 0.0)}),
    Default("Gelu", {"a": MATRIX}, {"approximate": ("none", "tanh")}, opset=20),
    Default("Gelu", {"a": MATRIX}, {"approximate": ("none", "tanh")}, domain=MICROSOFT),
    Default("FastGelu", {"a": MATRIX}, {"approximate": ("tanh", "none")}, domain=MICROSOFT),
    Default("QuickGelu", {"a": MATRIX}, {"alpha": (1.702, 1.0, 0.0)}, domain=MICROSOFT),
    Default("IsInf", {"a": MATRIX}, {"detect_positive": (1, 0), "detect_negative": (1, 0)}),
    Default("Mod", {"a": MATRIX, "b": MATRIX}, {"fmod": (0, 1)}),
    Default("Mod", {"a": x(3, dtype=I64), "b": x(3, dtype=I64)}, {"fmod": (0, 1)}),
    Default("Cast", {"a": MATRIX}, {"saturate": (1, 0)}, {"to": 17}, opset=19),
    *(
        Default(kind, {"a": x(2, 3, 4)}, {"axis": (default, *others)}, opset=opset)
        for kind in ("Softmax", "LogSoftmax")
        for opset, default, others in ((11, 1, (0, 2)), (13, -1, (0, 1)))
    ),
    # --- along axes
    *(
        Default(kind, {"a": x(2, 3, 4)}, {"keepdims": (1, 0), "noop_with_empty_axes": (0, 1)}, opset=20)
        for kind in ("ReduceSum", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
    ),
    Default("ReduceSum", {"a": x(2, 3, dtype=I64)}, {"keepdims": (1, 0), "noop_with_empty_axes": (0, 1)}),
    Default("CumSum", {"a": MATRIX, "b": np.array(1)}, {"exclusive": (0, 1), "reverse": (0, 1)}),
    Default("CumSum", {"a": x(3, 4, dtype=I64), "b": np.array(1)}, {"exclusive": (0, 1), "reverse": (0, 1)}),
    Default(
        "LayerNormalization",
        {"a": x(2, 4, 4), "s": small(4), "b": small(4)},
        {"axis": (-1, 0, 1), "epsilon": (1e-5, 1.0)},
    ),
    Default(
        "RMSNormalization", {"a": x(2, 4, 4), "s": small(4)}, {"axis": (-1, 0, 1), "epsilon": (1e-5, 1.0)}, opset=23
    ),
    Default(
        "SimplifiedLayerNormalization", {"a": x(2, 4, 4), "s": small(4)}, {"axis": (-1, 1), "epsilon": (1e-5, 1.0)}
    ),
    Default("BatchNormalization", {"a": x(2, 4, 3), **STATISTICS}, {"epsilon": (1e-5, 1.0)}),
    Default("BatchNormalization", {"a": x(2, 4, 3), **dict.fromkeys("gbmv", x(4))}, {"epsilon": (1e-5, 1.0)}),
    Default("InstanceNormalization", {"a": x(2, 4, 3), "g": small(4), "b": small(4)}, {"epsilon": (1e-5, 1.0)}),
    Default(
        "GroupNormalization",
        {"a": x(2, 4, 3), "g": small(4), "b": small(4)},
        {"epsilon": (1e-5, 1.0)},
        {"num_groups": 2},
        opset=21,
    ),
    Default("LRN", {"a": IMAGE}, {"alpha": (1e-4, 1.0), "beta": (0.75, 1.75), "bias": (1.0, 2.0)}, {"size": 3}),
    # --- products and windows
    Default(
        "Gemm",
        {"a": x(3, 3), "b": drawn(3, 3), "c": x(3, 3)},
        {"alpha": (1.0, 2.0, 0.0), "beta": (1.0, 2.0, 0.0), "transA": (0, 1), "transB": (0, 1)},
    ),
    Default(
        "Gemm", {"a": x(3, 3), "b": x(3, 3), "c": small(3)}, {"alpha": (1.0, 2.0), "beta": (1.0, 2.0), "transB": (0, 1)}
    ),
    Default(
        "FusedMatMul",
        {"a": x(2, 3, 3), "b": x(2, 3, 3)},
        {"alpha": (1.0, 2.0), "transA": (0, 1), "transB": (0, 1)},
        domain=MICROSOFT,
    ),
    Default(
        "Conv",
        {"a": x(1, 4, 6, 5), "w": drawn(4, 4, 3, 2)},
        {
            "strides": ([1, 1], [2, 1], [1, 2]),
            "dilations": ([1, 1], [2, 1], [1, 2]),
            "pads": ([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
            "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER"),
        },
    ),
    Default(
        "ConvTranspose",
        {"a": x(1, 4, 6, 5), "w": drawn(4, 4, 3, 2)},
        {
            "strides": ([1, 1], [2, 1], [1, 2]),
            "dilations": ([1, 1], [2, 1], [1, 2]),
            "pads": ([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
            "output_padding": ([0, 0], [1, 0], [0, 1]),
            "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER"),
            "group": (1, 2),
        },
    ),
    *(
        Default(
            kind,
            {"a": IMAGE},
            {
                "strides": ([1, 1], [2, 1], [1, 2]),
                "pads": ([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
                "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER"),
            },
            {"kernel_shape": [3, 2]},
            opset=19,
        )
        for kind in ("MaxPool", "AveragePool")
    ),
    *(
        Default(kind, {"a": IMAGE}, {"ceil_mode": (0, 1)}, {"kernel_shape": [3, 2], "strides": [2, 2]})
        for kind in ("MaxPool", "AveragePool")
    ),
    Default("AveragePool", {"a": IMAGE}, {"count_include_pad": (0, 1)}, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0]}),
    Default("NonMaxSuppression", {"a": x(1, 6, 4), "b": x(1, 2, 6), "c": ints(3)}, {"center_point_box": (0, 1)}),
    Default(
        "RoiAlign",
        {"a": IMAGE, "b": x(3, 4), "c": x(3, dtype=I64)},
        {
            "mode": ("avg", "max"),
            "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
            "output_height": (1, 2),
            "output_width": (1, 2),
            "spatial_scale": (1.0, 2.0),
            "sampling_ratio": (0, 1),
        },
        opset=16,
    ),
    Default(
        "RoiAlign",
        {"a": IMAGE, "b": x(3, 4), "c": x(3, dtype=I64)},
        {"coordinate_transformation_mode": ("output_half_pixel", "half_pixel")},
        opset=15,
    ),
    # --- resizing
    Default(
        "Resize",
        {"a": IMAGE, "r": None, "s": SCALES},
        {
            "mode": ("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners"),
            "nearest_mode": ("round_prefer_floor", "ceil", "floor"),
        },
    ),
    Default(
        "Resize",
        {"a": IMAGE, "r": None, "s": SCALES},
        {"cubic_coeff_a": (-0.75, -0.5), "exclude_outside": (0, 1)},
        {"mode": "cubic"},
    ),
    Default(
        "Resize", {"a": IMAGE, "r": None, "s": np.array([1, 1, 0.5, 0.6], F)}, {"antialias": (0, 1)}, {"mode": "linear"}
    ),
    Default("Resize", {"a": IMAGE, "r": None, "s": None, "z": ints(1, 2, 9, 11)}, {"axes": ([0, 1, 2, 3],)}),
    Default(
        "Resize",
        {"a": IMAGE, "r": None, "s": None, "z": ints(9, 11)},
        {"keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller")},
        {"axes": [2, 3]},
    ),
    Default("Upsample", {"a": IMAGE, "s": np.array([1, 1, 2, 3], F)}, {"mode": ("nearest", "linear")}, opset=9),
    Default(
        "GridSample",
        {"a": IMAGE, "g": x(1, 3, 4, 2)},
        {
            "mode": ("linear", "nearest", "cubic"),
            "padding_mode": ("zeros", "border", "reflection"),
            "align_corners": (0, 1),
        },
        opset=20,
    ),
    Default("GridSample", {"a": IMAGE, "g": x(1, 3, 4, 2)}, {"mode": ("bilinear", "nearest", "bicubic")}, opset=16),
    # --- shapes and elements in other places
    Default("Shape", {"a": x(2, 3, 4)}, {"start": (0, 1, -1), "end": (3, 2, 1)}),
    Default("Reshape", {"a": x(2, 3), "s": ints(3, 2)}, {"allowzero": (0,)}),
    Default("Flatten", {"a": x(2, 3, 4)}, {"axis": (1, 0, 2, 3)}),
    Default("DepthToSpace", {"a": x(1, 8, 2, 3)}, {"mode": ("DCR", "CRD")}, {"blocksize": 2}),
    Default("Transpose", {"a": x(2, 3, 4)}, {"perm": ([2, 1, 0], [0, 2, 1])}),
    Default("ReverseSequence", {"a": x(3, 3), "b": ints(1, 2, 3)}, {"time_axis": (0,), "batch_axis": (1,)}),
    Default("Pad", {"a": MATRIX, "p": ints(0, 1, 0, 1)}, {"mode": ("constant", "edge", "reflect", "wrap")}, opset=19),
    Default(
        "Pad",
        {"a": MATRIX},
        {"value": (0.0, 1.0), "mode": ("constant", "edge", "reflect")},
        {"pads": [0, 1, 0, 1]},
        opset=10,
    ),
    Default("Trilu", {"a": x(3, 3)}, {"upper": (1, 0)}),
    Default("Split", {"a": x(4, 4)}, {"axis": (0, 1), "num_outputs": (2,)}, outputs="y z"),
    Default("Gather", {"a": x(3, 4), "b": ints(2, 0)}, {"axis": (0, 1)}),
    Default("GatherElements", {"a": x(3, 3), "b": ints(2, 0, 1).reshape(1, 3)}, {"axis": (0, 1)}),
    Default("GatherND", {"a": x(2, 2, 2), "b": ints(0, 1, 1, 0).reshape(2, 2)}, {"batch_dims": (0, 1)}),
    Default(
        "ScatterElements",
        {"a": x(3, 3), "b": ints(2, 0, 1).reshape(1, 3), "c": x(1, 3)},
        {"axis": (0, 1), "reduction": ("none", "add", "mul", "max", "min")},
    ),
    Default(
        "ScatterND",
        {"a": x(3, 3), "b": ints(2, 0).reshape(2, 1), "c": x(2, 3)},
        {"reduction": ("none", "add", "mul", "max", "min")},
    ),
    Default("OneHot", {"a": x(3, dtype=I64), "d": ints(4), "v": x(2)}, {"axis": (-1, 0)}),
    Default("TopK", {"a": x(3, 3), "k": ints(2)}, {"axis": (-1, 0), "largest": (1, 0)}, outputs="y z"),
    *(
        Default(kind, {"a": x(3, 4)}, {"axis": (0, 1), "keepdims": (1, 0), "select_last_index": (0, 1)})
        for kind in ("ArgMax", "ArgMin")
    ),
    Default("DFT", {"a": x(2, 4, 4, 2)}, {"axis": (1, 2), "inverse": (0, 1)}, opset=17),
    Default("DFT", {"a": x(2, 4, 4, 1)}, {"onesided": (0, 1)}, opset=17),
    Default("DFT", {"a": x(2, 4, 4, 2)}, {"inverse": (0, 1)}, opset=20),
    Default("STFT", {"a": x(1, 16, 1), "s": np.array(4), "w": small(8)}, {"onesided": (1, 0)}),
    # --- control flow and sequences
    *(
        Default(
            kind,
            {"a": x(3, 2, 4), "w": drawn(1, gates * 3, 4), "r": drawn(1, gates * 3, 3)},
            {"direction": ("forward", "reverse"), "clip": (0.0,), **own},
            {"hidden_size": 3},
            outputs="y h",
        )
        for kind, gates, own in (
            ("LSTM", 4, {}),
            ("GRU", 3, {"linear_before_reset": (0, 1)}),
            ("RNN", 1, {}),
        )
    ),
    Default(
        "GRU",
        {"a": x(3, 3, 4), "w": drawn(1, 9, 4), "r": drawn(1, 9, 3)},
        {"layout": (0, 1)},
        {"hidden_size": 3},
        outputs="y h",
    ),
    # --- levels
    Default("DequantizeLinear", {"a": x(3, 3, dtype=U8), "s": small(3), "z": drawn(3, dtype=U8)}, {"axis": (1, 0)}),
    Default(
        "DequantizeLinear", {"a": x(2, 4, dtype=U8), "s": small(2, 2)}, {"axis": (1,)}, {"block_size": 2}, opset=21
    ),
    Default("QuantizeLinear", {"a": x(3, 3), "s": small(3), "z": drawn(3, dtype=U8)}, {"axis": (1, 0)}),
    Default("QuantizeLinear", {"a": x(3, 3), "s": np.array(0.5, F)}, {"output_dtype": (2, 3)}, opset=21),
    Default(
        "QuantizeLinear", {"a": x(3, 3), "s": np.array(0.5, F)}, {"saturate": (1, 0)}, {"output_dtype": 17}, opset=21
    ),
    Default("QLinearLeakyRelu", {**LEVELS, **RESULT}, {"alpha": (0.01, 0.5)}, domain=MICROSOFT),
    Default(
        "QLinearConcat",
        {**RESULT, **LEVELS, "b": x(2, 3, dtype=U8), "bs": np.array(0.5, F), "bz": np.array(1, U8)},
        {"axis": (0, 1)},
        domain=MICROSOFT,
    ),
    Default(
        "QLinearSoftmax",
        {**LEVELS, "a": x(2, 3, 4, dtype=U8), **RESULT},
        {"axis": (-1, 1), "opset": (13, 12)},
        domain=MICROSOFT,
    ),
    Default(
        "QLinearSoftmax",
        {**LEVELS, "a": x(2, 3, 4, dtype=U8), **RESULT},
        {"opset": (13, 12)},
        {"axis": 1},
        domain=MICROSOFT,
    ),
    Default(
        "QLinearGlobalAveragePool",
        {**LEVELS, "a": x(1, 2, 3, 4, dtype=U8), **RESULT},
        {"channels_last": (0,)},
        domain=MICROSOFT,
    ),
    Default(
        "QLinearAveragePool",
        {**LEVELS, "a": x(1, 2, 3, 4, dtype=U8), **RESULT},
        {"channels_last": (0,), "count_include_pad": (0, 1)},
        {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]},
        domain=MICROSOFT,
    ),
    Default(
        "QGemm",
        {
            "a": x(3, 3, dtype=U8),
            "s": np.array(0.5, F),
            "z": np.array(3, U8),
            "w": drawn(3, 3, dtype=U8),
            "ws": np.array(0.25, F),
            "wz": np.array(1, U8),
            "c": None,
            **RESULT,
        },
        {"alpha": (1.0, 2.0), "transA": (0, 1), "transB": (0, 1)},
        domain=MICROSOFT,
    ),
    Default(
        "GatherBlockQuantized",
        {"w": drawn(2, 128, dtype=U8), "i": x(3, dtype=INT), "s": small(2, 2)},
        {"gather_axis": (0,), "quantize_axis": (1,), "bits": (4,), "block_size": (128,)},
        domain=MICROSOFT,
    ),
    Default(
        "GatherBlockQuantized",
        {"w": drawn(2, 64, dtype=U8), "i": x(3, dtype=INT), "s": small(2, 4)},
        {"bits": (4,)},
        {"block_size": 32},
        domain=MICROSOFT,
    ),
    # --- random numbers
    *(
        Default(kind, {}, {"dtype": (1, 10), **own}, {"shape": [2, 3], "seed": 1.0})
        for kind, own in (
            ("RandomUniform", {"low": (0.0, 0.5), "high": (1.0, 2.0)}),
            ("RandomNormal", {"mean": (0.0, 1.0), "scale": (1.0, 2.0)}),
        )
    ),
]


@pytest.mark.parametrize(("default", "name"), parameters(DEFAULTS))
def test_default(default: Default, name: str) -> None:
    check_default(default, name)
