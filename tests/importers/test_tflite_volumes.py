"""CONV_3D against TFLite's kernels."""

from __future__ import annotations

import pytest
import tflite
from tflite_net import Net, T, write
from tflite_oracle import check, f32, f32c

from nnvk.importers.tflite import TfliteImportError, load

SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID
AXES = "DHW"
ACTIVATIONS = tflite.ActivationFunctionType


def steps(stride: tuple[int, ...] = (1, 1, 1), dilation: tuple[int, ...] = (1, 1, 1)) -> dict[str, int]:
    """Strides and dilations along depth, height and width."""
    return {
        **{f"Stride{axis}": size for axis, size in zip(AXES, stride, strict=True)},
        **{f"Dilation{axis}Factor": size for axis, size in zip(AXES, dilation, strict=True)},
    }


@pytest.mark.parametrize("padding", [SAME, VALID], ids=["same", "valid"])
@pytest.mark.parametrize(
    ("stride", "dilation"),
    [((1, 1, 1), (1, 1, 1)), ((2, 1, 3), (1, 1, 1)), ((3, 2, 2), (1, 1, 1)), ((1, 1, 1), (2, 1, 2))],
)
def test_conv_3d(padding: int, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
    tensors = [f32(2, 7, 5, 9, 3), f32c(3, 2, 3, 3, 4), f32c(4)]
    check("CONV_3D", tensors, (), "Conv3DOptions", Padding=padding, **steps(stride, dilation))


@pytest.mark.parametrize("kind", ["NONE", "RELU", "RELU_N1_TO_1", "RELU6"])
def test_conv_3d_of_one_plane_without_bias_and_with_an_activation(kind: str) -> None:
    tensors = [f32(1, 3, 4, 4, 2), f32c(1, 2, 2, 2, 3, scale=4)]
    fused = getattr(ACTIVATIONS, kind)
    check("CONV_3D", tensors, (), "Conv3DOptions", Padding=VALID, FusedActivationFunction=fused, **steps())


def test_conv_3d_with_weights_that_are_computed() -> None:
    check("CONV_3D", [f32(1, 4, 4, 5, 2), f32(3, 2, 2, 2, 3)], (), "Conv3DOptions", Padding=SAME, **steps((2, 1, 1)))


@pytest.mark.parametrize(
    ("name", "tensors", "options", "reason"),
    [
        (
            "CONV_3D",
            [f32(1, 2, 4, 4, 2), f32c(3, 1, 1, 2, 3)],
            {},
            "a window of depth 3 does not fit into an input of 2",
        ),
        ("CONV_3D", [f32(1, 3, 4, 4, 2), f32c(1, 1, 1, 3, 3)], {}, "a filter of 3 channels does not fit an input"),
        ("CONV_3D", [f32(1, 3, 4, 2), f32c(1, 1, 1, 2, 3)], {}, "the input must have rank 5"),
    ],
)
def test_volumes_that_are_refused(name: str, tensors: list[T], options: dict[str, int], reason: str) -> None:
    result = T(shape=(1, 1, 1, 1, 1))
    net = Net([tensor for tensor in tensors if tensor.is_free], [result])
    net.op(name, tensors, result, "Conv3DOptions", **{**steps(), "Padding": VALID, **options})
    with pytest.raises(TfliteImportError, match=reason):
        load(write(net))
