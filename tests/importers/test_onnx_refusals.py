"""Nodes of ONNX that the importer can't map: for each reason the least change of a node that it maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op

from nnvk.importers.onnx import OnnxImportError, load

F, I64 = np.float32, np.int64
ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"


@dataclass
class Case:
    """A node; its inputs are those that are tensors and those that are constants, in the order of their names."""

    kind: str
    inputs: Mapping[str, Any]
    reason: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    good: Mapping[str, Any] = field(default_factory=dict)
    """The inputs and attributes by which a node that is mapped differs."""
    outputs: str = "y"
    opset: int = 17
    domain: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"

    def load(self, **changes: Any) -> None:
        """Import the node, with other inputs or attributes."""
        given = {**self.inputs, **{name: value for name, value in changes.items() if name in self.inputs}}
        attributes = {**self.attributes, **{name: value for name, value in changes.items() if name not in given}}
        attributes = {name: value for name, value in attributes.items() if value is not None}
        free = {name: value for name, value in given.items() if isinstance(value, tuple)}
        constants = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        free = free or {"unread": x(1)}  # a model has at least one input
        names = " ".join("-" if value is None else name for name, value in given.items())
        node = op(self.kind, names, self.outputs, domain=self.domain, **attributes)
        wanted = [name for name in self.outputs.split() if name != "-"]
        load(model([node], free, wanted, constants, opset=self.opset).SerializeToString())


def x(*shape: int, dtype: Any = F) -> tuple[Any, list[int]]:
    """An input of the model."""
    return dtype, list(shape)


def ints(*values: int) -> np.ndarray:
    """A constant."""
    return np.array(values, I64)


CASES = [
    Case(
        "Transpose",
        {"a": x(2, 3)},
        "the permutation must name each of 2 axes, got [0, 0]",
        {"perm": [0, 0]},
        {"perm": [1, 0]},
    ),
    Case("Reshape", {"a": x(2, 3), "b": None}, "the shape is missing", {}, {"b": ints(3, 2)}),
    Case("Unsqueeze", {"a": x(2, 3), "b": None}, "the axes are missing", {}, {"b": ints(0)}),
    Case(
        "Unsqueeze",
        {"a": x(2, 3), "b": ints(1, 1)},
        "the axes must be different ones, got [1, 1]",
        {},
        {"b": ints(1, 2)},
    ),
    Case(
        "DepthToSpace",
        {"a": x(1, 6, 2, 3)},
        "6 channels don't divide into blocks of 2 x 2",
        {"blocksize": 2, "mode": "CRD"},
        {"a": x(1, 8, 2, 3)},
    ),
    Case(
        "DepthToSpace",
        {"a": x(6, 2, 3)},
        "the input must have rank 4",
        {"blocksize": 2, "mode": "CRD"},
        {"a": x(1, 8, 2, 3)},
    ),
    Case(
        "Pad",
        {"a": x(2, 3), "b": ints(0, 1, 0, 1)},
        "attribute 'mode' must be constant, edge, reflect or wrap, got 'mirror'",
        {"mode": "mirror"},
        {"mode": "edge"},
    ),
    Case(
        "Concat",
        {"a": x(2, 3, dtype=np.int32), "b": x(3, 3, dtype=np.int32)},
        "shapes must agree but for axis 1",
        {"axis": 1},
        {"b": x(2, 4, dtype=np.int32)},
    ),
    Case(
        "BitShift",
        {"a": x(2, dtype=np.uint8), "b": x(2, dtype=np.uint8)},
        "attribute 'direction' must be LEFT or RIGHT, got 'UP'",
        {"direction": "UP"},
        {"direction": "LEFT"},
    ),
    Case(
        "GRU",
        {"a": x(2, 3, 4), "b": np.zeros((1, 15, 4), F), "c": np.zeros((1, 15, 5), F)},
        "attribute 'direction' must be forward, reverse or bidirectional, got 'up'",
        {"direction": "up", "hidden_size": 5},
        {"direction": "reverse"},
    ),
    Case(
        "GRU",
        {"a": x(2, 12), "b": np.zeros((1, 15, 4), F), "c": np.zeros((1, 15, 5), F)},
        "the input must have rank 3",
        {"hidden_size": 5},
        {"a": x(2, 3, 4)},
    ),
    Case(
        "RoiAlign",
        {"a": x(1, 2, 6, 5), "b": x(3, 4), "c": ints(0, 0, 0)},
        "attribute 'mode' must be avg or max, got 'min'",
        {"mode": "min"},
        {"mode": "max"},
    ),
    Case(
        "RoiAlign",
        {"a": x(1, 2, 6, 5), "b": x(3, 4), "c": ints(0, 0, 0)},
        "attribute 'coordinate_transformation_mode' must be half_pixel or output_half_pixel, got 'pixel'",
        {"coordinate_transformation_mode": "pixel"},
        {"coordinate_transformation_mode": "half_pixel"},
    ),
    Case(
        "Dropout",
        {"a": x(2, 3), "b": np.array(0.5, F), "c": np.array(True)},
        "NNAPI trains no models (training_mode is true)",
        {},
        {"c": np.array(False)},
    ),
    Case(
        "Dropout",
        {"a": x(2, 3), "b": None, "c": np.array(True)},
        "NNAPI trains no models (training_mode is true)",
        {},
        {"b": np.array(0.0, F)},
    ),
    Case(
        "MatMul",
        {"a": x(2, 3), "b": x(4, 5)},
        "inputs of shape [2, 3] and [4, 5] can't be multiplied",
        {},
        {"b": x(3, 5)},
    ),
    Case(
        "Gemm",
        {"a": x(2, 3, dtype=np.int32), "b": x(3, 5, dtype=np.int32)},
        "NNAPI multiplies no matrices of int32",
        {},
        {"a": x(2, 3), "b": x(3, 5)},
    ),
    Case(
        "MaxPool",
        {"a": x(1, 2, 70, 70)},
        "taps with a dilation are too large",
        {"kernel_shape": [33, 32], "dilations": [2, 2]},
        {"kernel_shape": [3, 2]},
    ),
    Case(
        "AveragePool",
        {"a": x(1, 2, 70, 70)},
        "taps with a dilation are too large",
        {"kernel_shape": [33, 32], "dilations": [2, 2]},
        {"kernel_shape": [3, 2]},
        opset=19,
    ),
    Case("MaxPool", {"a": x(1, 2, 6, 5)}, "attribute 'kernel_shape' is missing", {}, {"kernel_shape": [3, 2]}),
    Case("RandomNormal", {}, "random numbers must be real ones, got", {"shape": [2, 3], "dtype": 6}, {"dtype": 1}),
    Case(
        "RandomNormal",
        {},
        "attribute 'shape' must have positive sizes, got [2, 0]",
        {"shape": [2, 0]},
        {"shape": [2, 3]},
    ),
    Case(
        "LRN",
        {"a": x(1, 6, 3, 2)},
        "NNAPI normalises over an odd number of channels, got size 2",
        {"size": 2},
        {"size": 3},
    ),
    Case(
        "GroupNormalization",
        {"a": x(1, 6, 3, 2), "b": np.ones(6, F), "c": np.ones(6, F)},
        "channels don't divide into",
        {"num_groups": 4},
        {"num_groups": 3},
        opset=21,
    ),
    Case(
        "Resize",
        {"a": x(1, 2, 4, 3), "b": None, "c": np.array([1, 1, 2, 2], F)},
        "attribute 'mode' must be nearest, linear or cubic, got 'area'",
        {"mode": "area"},
        {"mode": "linear"},
    ),
    Case(
        "GridSample",
        {"a": x(1, 2, 4, 3), "b": x(1, 5, 6, 2)},
        "are unknown here",
        {"mode": "area"},
        {"mode": "nearest"},
    ),
    Case(
        "GridSample",
        {"a": x(1, 2, 4, 3), "b": x(1, 5, 6, 2)},
        "are unknown here",
        {"padding_mode": "mirror"},
        {"padding_mode": "border"},
    ),
    Case(
        "Compress",
        {"a": x(2, 3), "b": np.zeros(2, bool)},
        "the condition takes no elements",
        {"axis": 0},
        {"b": np.ones(2, bool)},
    ),
    Case(
        "Compress",
        {"a": x(2, 3), "b": x(4, dtype=bool)},
        "a condition of 4 elements is too long for axis 1 of [2, 3]",
        {"axis": 1},
        {"b": x(3, dtype=bool)},
    ),
    Case(
        "TensorScatter",
        {"a": x(2, 6, 3), "b": x(2, 2, 3)},
        "rows are written along another axis than 0, linear or circular, got axis 0",
        {"axis": 0},
        {"axis": 1},
        opset=24,
    ),
    Case(
        "TensorScatter",
        {"a": x(2, 6, 3), "b": x(2, 2, 3)},
        "rows are written along another axis than 0, linear or circular, got axis 1, 'up'",
        {"axis": 1, "mode": "up"},
        {"mode": "circular"},
        opset=24,
    ),
    Case(
        "OneHotEncoder",
        {"a": x(2, 3, dtype=I64)},
        "its categories must be numbers, and elements of no category must be allowed",
        {"cats_int64s": [1, 2], "zeros": 0},
        {"zeros": 1},
        domain=ML,
    ),
    Case(
        "OneHotEncoder",
        {"a": x(2, 3, dtype=I64)},
        "its categories must be numbers, and elements of no category must be allowed",
        {"cats_strings": ["a", "b"]},
        {"cats_int64s": [1, 2]},
        domain=ML,
    ),
    Case(
        "LabelEncoder",
        {"a": x(2, 3, dtype=I64)},
        "its values are texts, which NNAPI has nothing for",
        {"keys_int64s": [1, 2], "values_strings": ["a", "b"]},
        {"values_strings": None, "values_floats": [1.0, 2.0]},
        domain=ML,
    ),
    Case(
        "FusedMatMul",
        {"a": x(2, 3, 4), "b": x(2, 4, 5)},
        "batches that are turned are unknown here",
        {"transBatchA": 1},
        {"transBatchA": 0},
        domain=MICROSOFT,
    ),
    Case(
        "FusedMatMul",
        {"a": x(4), "b": x(4, 5)},
        "its inputs must have rank 2 at least",
        {},
        {"a": x(3, 4)},
        domain=MICROSOFT,
    ),
    Case(
        "Gather",
        {"a": x(2, 3), "b": ints(3)},
        "indices must be in [-3, 3), got 3 to 3",
        {"axis": 1},
        {"b": ints(-3, 2)},
    ),
    Case(
        "Gather",
        {"a": x(2, 3), "b": ints(-4, 0)},
        "indices must be in [-3, 3), got -4 to 0",
        {"axis": 1},
        {"b": ints(-3, 2)},
    ),
    Case(
        "GatherElements",
        {"a": x(2, 3), "b": ints(0)},
        "indices of shape [1] must have the rank of [2, 3]",
        {"axis": 1},
        {"b": np.zeros((1, 1), I64)},
    ),
    Case(
        "GatherND",
        {"a": x(2, 3), "b": np.zeros((2, 3), I64)},
        "indices of shape [2, 3] do not fit [2, 3], batch_dims 0",
        {},
        {"b": np.zeros((2, 2), I64)},
    ),
    Case(
        "GatherND",
        {"a": x(2, 3), "b": np.zeros((3, 1), I64)},
        "indices of shape [3, 1] do not fit [2, 3], batch_dims 1",
        {"batch_dims": 1},
        {"b": np.zeros((2, 1), I64)},
    ),
    Case(
        "GatherND",
        {"a": x(2, 3), "b": np.zeros((2, 2), I64)},
        "indices of shape [2, 2] do not fit [2, 3], batch_dims 1",
        {"batch_dims": 1},
        {"b": np.zeros((2, 1), I64)},
    ),
    Case(
        "ScatterND",
        {"a": x(2, 3), "b": np.zeros((2, 3), I64), "c": x(2)},
        "indices of shape [2, 3] do not fit an input of rank 2",
        {},
        {"b": np.zeros((2, 2), I64)},
    ),
    Case(
        "ScatterND",
        {"a": x(2, 3), "b": np.zeros((2, 2), I64), "c": x(2)},
        "attribute 'reduction' must be one of",
        {"reduction": "sub"},
        {"reduction": "mul"},
    ),
    Case(
        "Slice",
        {"a": x(2, 3), "b": ints(0), "c": ints(1), "d": ints(1), "e": ints(0)},
        "steps must not be 0",
        {},
        {"e": ints(1)},
    ),
    Case(
        "Slice",
        {"a": x(2, 3), "b": ints(0, 0), "c": ints(1)},
        "starts and ends must be of one length, got [0, 0] and [1]",
        {},
        {"c": ints(1, 2)},
    ),
    Case(
        "Slice",
        {"a": x(2, 3), "b": ints(0), "c": ints(1), "d": ints(0, 1)},
        "axes and steps must be as many as starts, got [0, 1] and [1]",
        {},
        {"d": ints(1)},
    ),
    Case(
        "Col2Im",
        {"a": x(1, 12, 4), "b": ints(3, 3), "c": ints(2, 2, 2)},
        "the shapes of the image and of the block do not fit together",
        {},
        {"c": ints(2, 2)},
        opset=18,
    ),
    Case(
        "Col2Im",
        {"a": x(1, 12, 5), "b": ints(3, 3), "c": ints(2, 2)},
        "columns of shape [1, 12, 5] are not 4 blocks of 4 elements",
        {},
        {"a": x(1, 12, 4)},
        opset=18,
    ),
    Case(
        "Col2Im",
        {"a": x(1, 10, 4), "b": ints(3, 3), "c": ints(2, 2)},
        "columns of shape [1, 10, 4] are not 4 blocks of 4 elements",
        {},
        {"a": x(1, 12, 4)},
        opset=18,
    ),
    Case("ConstantOfShape", {"a": ints(1 << 13, 1 << 13)}, "it gives too many elements", {}, {"a": ints(2, 3)}),
    Case(
        "Range",
        {"a": ints(0).reshape(()), "b": ints(1 << 26).reshape(()), "c": ints(1).reshape(())},
        "it gives too many elements",
        {},
        {"b": ints(9).reshape(())},
    ),
    Case(
        "QuantizeLinear",
        {"a": x(2, 6), "b": np.ones((2, 3), F)},
        "scales of shape [2, 3] are of blocks, whose size attribute 'block_size' must say",
        {},
        {"b": np.ones(6, F)},
        opset=21,
    ),
    Case(
        "QLinearGlobalAveragePool",
        {
            "a": x(1, 2, 4, 3, dtype=np.uint8),
            "b": np.array(0.1, F),
            "c": np.array(3, np.uint8),
            "d": np.array(0.1, F),
            "e": np.array(3, np.uint8),
        },
        "NNAPI's layout is NCHW here (channels_last is 1)",
        {"channels_last": 1},
        {"channels_last": 0},
        domain=MICROSOFT,
    ),
    Case(
        "QLinearAveragePool",
        {
            "a": x(1, 2, 4, 3, dtype=np.uint8),
            "b": np.array(0.1, F),
            "c": np.array(3, np.uint8),
            "d": np.array(0.1, F),
            "e": np.array(3, np.uint8),
        },
        "NNAPI's layout is NCHW here (channels_last is 1)",
        {"channels_last": 1, "kernel_shape": [2, 2]},
        {"channels_last": 0},
        domain=MICROSOFT,
    ),
    Case(
        "Resize",
        {"a": x(1, 2, 4, 3), "b": np.array([0, 0, 0, 0, 1, 1, 1.5, 1], F), "c": None, "d": ints(1, 2, 4, 3)},
        "NNAPI extrapolates no nearest elements",
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "nearest"},
        {"b": np.array([0, 0, 0, 0, 1, 1, 1, 1], F)},
    ),
    Case(
        "Resize",
        {"a": x(1, 2, 4, 3), "b": np.array([0, 0, 0, -0.5, 1, 1, 1, 1], F), "c": None, "d": ints(1, 2, 4, 3)},
        "NNAPI extrapolates no elements",
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
        {"b": np.array([0, 0, 0, 0, 1, 1, 1, 1], F)},
    ),
    Case(
        "Resize",
        {"a": x(1, 2, 4, 3), "b": None, "c": np.array([1, 1, 2, 2], F)},
        "attribute 'nearest_mode' is 'up', which is unknown here",
        {"nearest_mode": "up", "mode": "nearest"},
        {"nearest_mode": "ceil"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    with pytest.raises(OnnxImportError) as raised:
        case.load()
    assert case.reason in raised.value.reason
    assert f"operator 0 ({f'{case.domain}.' * bool(case.domain)}{case.kind})" in raised.value.reason


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_least_change_is_mapped(case: Case) -> None:
    case.load(**case.good)
