"""Limits of ONNX nodes: the largest value is mapped, and the next one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, Case, F, ints, x

from nnvk.importers.onnx import OnnxImportError

INT, U8 = np.int32, np.uint8


def limit(
    kind: str,
    inputs: Mapping[str, Any],
    attributes: Mapping[str, Any],
    most: Mapping[str, Any],
    beyond: Mapping[str, Any],
    reason: str,
    **others: Any,
) -> Case:
    """A node with the largest inputs or attributes, those that are too large, and the reason."""
    given = {**inputs, **{name: value for name, value in beyond.items() if name in inputs}}
    own = {**attributes, **{name: value for name, value in beyond.items() if name not in inputs}}
    good = {name: inputs[name] if name in inputs else attributes.get(name) for name in beyond} | {**most}
    return Case(kind, given, reason, own, good, **others)


def zeros(*shape: int, dtype: Any = F) -> np.ndarray:
    return np.zeros(shape, dtype)


LIMITS = [
    limit(
        "ConvTranspose",
        {"a": x(1, 512, 1, 1), "w": zeros(512, 1, 1, 1)},
        {"group": 512},
        {"a": x(1, 512, 1, 1), "w": zeros(512, 1, 1, 1), "group": 512},
        {"a": x(1, 513, 1, 1), "w": zeros(513, 1, 1, 1), "group": 513},
        "weights of shape [513, 1, 1, 1] in 513 groups do not fit [1, 513, 1, 1]",
    ),
    limit(
        "Add",
        {"a": x(1, dtype=np.uint64), "b": np.array([(1 << 63) - 1], np.uint64)},
        {},
        {},
        {"b": np.array([1 << 63], np.uint64)},
        "whole numbers must fit into 64 bits with a sign, got 9223372036854775808 to 9223372036854775808",
    ),
    limit(
        "QuantizeLinear",
        {"a": x(2, 3), "s": np.array(0.5, F), "z": np.array(0, np.int16)},
        {},
        {},
        {"z": np.array(0, INT)},
        "NNAPI quantises to 8 bits, got int32",
        opset=21,
    ),
    limit(
        "GridSample",
        {"a": x(1, 2, 3, 3, 2), "g": x(1, 2, 2, 2, 3)},
        {},
        {},
        {"a": x(1, 2, 3, 3, 2, 2), "g": x(1, 2, 2, 2, 2, 4)},
        "a grid of shape [1, 2, 2, 2, 2, 4] does not fit an input of shape [1, 2, 3, 3, 2, 2]",
        opset=20,
    ),
    limit(
        "GridSample",
        {"a": x(1, 2, 3), "g": x(1, 2, 1)},
        {},
        {},
        {"a": x(1, 2), "g": x(1, 0)},
        "a grid of shape [1, 0] does not fit an input of shape [1, 2]",
        opset=20,
    ),
    limit(
        "Tile",
        {"a": x(2), "r": ints(1)},
        {},
        {"r": ints(3)},
        {"r": ints(*[1] * 4097)},
        "the repetitions (input 1) must be at most 4096 numbers, got 4097",
    ),
    limit(
        "Conv",
        {"a": x(1, 1, 3, 3), "w": zeros(1, 1, 1, 1)},
        {},
        {"strides": [(1 << 31) - 1, 1]},
        {"strides": [1 << 31, 1]},
        "attribute 'strides' must have numbers from 1 up, got [2147483648, 1]",
    ),
    limit(
        "Conv",
        {"a": x(1, 1, 3, 3), "w": zeros(1, 1, 1, 1)},
        {},
        {"strides": [1, 1]},
        {"strides": [1, 0]},
        "attribute 'strides' must have numbers from 1 up, got [1, 0]",
    ),
    limit(
        "Conv",
        {"a": x(1, 1, 3, 3), "w": zeros(1, 1, 3, 3)},
        {},
        {"pads": [0, 0, 0, 0]},
        {"pads": [0, 0, -1, 0]},
        "attribute 'pads' must have 4 numbers from 0 up, got [0, 0, -1, 0]",
    ),
    limit(
        "Conv",
        {"a": x(1, 1, 3, 4), "w": zeros(1, 1, 3, 4)},
        {},
        {},
        {"w": zeros(1, 1, 3, 5)},
        "a window of 5 does not fit into 4 padded by 0 + 0",
    ),
    limit(
        "Conv",
        {"a": x(1, 1, 3, 5), "w": zeros(1, 1, 3, 3)},
        {},
        {"dilations": [1, 2]},
        {"dilations": [1, 3]},
        "a window of 7 does not fit into 5 padded by 0 + 0",
    ),
    limit(
        "GatherBlockQuantized",
        {"w": zeros(5, 16, dtype=U8), "i": x(3, dtype=INT), "s": zeros(5, 2)},
        {"bits": 4},
        {"block_size": 16},
        {"block_size": 15},
        "rows of axis 0 in blocks of the last axis are gathered, got axes 0 and 1",
        domain=MICROSOFT,
    ),
    limit(
        "RandomNormal",
        {},
        {"shape": [1]},
        {"shape": [1, 2]},
        {"shape": [1 << 22, 1, 1, 2]},
        "8388608 random numbers are too many at once",
    ),
    limit(
        "RandomUniform",
        {},
        {"shape": [1]},
        {"shape": [1, 2]},
        {"shape": [(1 << 23) + 1]},
        "8388609 random numbers are too many at once",
    ),
    limit(
        "LRN",
        {"a": x(1, 3, 2, 2)},
        {},
        {"size": 1},
        {"size": 0},
        "NNAPI normalises over an odd number of channels, got size 0",
    ),
    limit(
        "LRN",
        {"a": x(1, 3, 2, 2)},
        {},
        {"size": 1},
        {"size": -1},
        "NNAPI normalises over an odd number of channels, got size -1",
    ),
    limit(
        "GroupNormalization",
        {"a": x(1, 4, 2), "g": zeros(4), "b": zeros(4)},
        {},
        {"num_groups": 4},
        {"num_groups": 0},
        "4 channels don't divide into 0 groups",
        opset=21,
    ),
    limit(
        "GroupNormalization",
        {"a": x(1, 4, 2), "g": zeros(4), "b": zeros(4)},
        {},
        {"num_groups": 1},
        {"num_groups": -1},
        "4 channels don't divide into -1 groups",
        opset=21,
    ),
    limit("Flatten", {"a": x(2, 3)}, {}, {"axis": 2}, {"axis": 3}, "the axis must be in [-2, 2], got 3"),
    limit("Flatten", {"a": x(2, 3)}, {}, {"axis": -2}, {"axis": -3}, "the axis must be in [-2, 2], got -3"),
    limit("Trilu", {"a": x(3, 4)}, {}, {}, {"a": x(4)}, "the input must have rank 2 at least, got shape [4]"),
    limit(
        "Gather",
        {"a": x(3, 4), "i": ints(0)},
        {},
        {"i": ints(2, -3)},
        {"i": ints(3, -3)},
        "indices must be in [-3, 3), got -3 to 3",
    ),
    limit(
        "Gather",
        {"a": x(3, 4), "i": ints(0)},
        {},
        {"i": ints(2, -3)},
        {"i": ints(2, -4)},
        "indices must be in [-3, 3), got -4 to 2",
    ),
    limit(
        "GatherND",
        {"a": x(3, 4), "i": x(2, 2, dtype=I64)},
        {},
        {},
        {"i": x(2, 3, dtype=I64)},
        "indices of shape [2, 3] do not fit [3, 4], batch_dims 0",
    ),
    limit(
        "GatherND",
        {"a": x(3, 4), "i": x(3, 1, dtype=I64)},
        {},
        {"batch_dims": 1},
        {"batch_dims": 2},
        "indices of shape [3, 1] do not fit [3, 4], batch_dims 2",
    ),
    limit(
        "GatherND",
        {"a": x(3, 4), "i": x(3, 1, dtype=I64)},
        {},
        {"batch_dims": 0},
        {"batch_dims": -1},
        "indices of shape [3, 1] do not fit [3, 4], batch_dims -1",
    ),
    limit(
        "GatherND",
        {"a": x(3, 4), "i": x(3, 1, dtype=I64)},
        {"batch_dims": 1},
        {},
        {"i": x(2, 1, dtype=I64)},
        "indices of shape [2, 1] do not fit [3, 4], batch_dims 1",
    ),
    limit(
        "ScatterND",
        {"a": x(3, 4), "i": x(2, 2, dtype=I64), "u": x(2)},
        {},
        {},
        {"i": x(2, 3, dtype=I64)},
        "indices of shape [2, 3] do not fit an input of rank 2",
    ),
    limit(
        "Compress",
        {"a": x(3, 4), "c": x(3, dtype=np.bool_)},
        {"axis": 0},
        {},
        {"c": x(4, dtype=np.bool_)},
        "a condition of 4 elements is too long for axis 0 of [3, 4]",
    ),
    limit(
        "Compress",
        {"a": x(3, 4), "c": x(12, dtype=np.bool_)},
        {},
        {},
        {"c": x(13, dtype=np.bool_)},
        "a condition of 13 elements is too long for axis 0 of [12]",
    ),
    limit("NonZero", {"a": x(1)}, {}, {}, {"a": x()}, "the input must have rank 1 at least"),
    limit(
        "DFT",
        {"a": x(2, 4, 1), "l": np.array(4)},
        {},
        {"l": np.array(1)},
        {"l": np.array(0)},
        "the length must be 1 or more, got 0",
    ),
    limit(
        "STFT",
        {"a": x(1, 16, 1), "s": np.array(4), "w": None, "l": np.array(16)},
        {},
        {},
        {"l": np.array(17)},
        "frames of 17 elements, 4 apart, do not fit a signal of 16",
    ),
    limit(
        "STFT",
        {"a": x(1, 16, 1), "s": np.array(4), "w": None, "l": np.array(1)},
        {},
        {},
        {"l": np.array(0)},
        "frames of 0 elements, 4 apart, do not fit a signal of 16",
    ),
    limit(
        "STFT",
        {"a": x(1, 16, 1), "s": np.array(1), "w": None, "l": np.array(4)},
        {},
        {},
        {"s": np.array(0)},
        "frames of 4 elements, 0 apart, do not fit a signal of 16",
    ),
    limit(
        "Split",
        {"a": x(4), "s": ints(4)},
        {},
        {"s": ints(4)},
        {"s": ints(5)},
        "the sizes [5] do not make up axis 0, of size 4, of 1 outputs",
    ),
    limit(
        "Split",
        {"a": x(4), "s": ints(2, 2)},
        {},
        {"s": ints(1, 3)},
        {"s": ints(4)},
        "the sizes [4] do not make up axis 0, of size 4, of 2 outputs",
        outputs="y z",
    ),
    limit(
        "Split",
        {"a": x(4), "s": ints(2, 2)},
        {},
        {"s": ints(1, 3)},
        {"s": ints(5, -1)},
        "the sizes [5, -1] do not make up axis 0, of size 4, of 2 outputs",
        outputs="y z",
    ),
    limit(
        "DynamicQuantizeMatMul",
        {"a": x(3), "w": zeros(3, 4, dtype=U8), "s": zeros(4)},
        {},
        {},
        {"w": zeros(3, dtype=U8), "s": zeros(1)},
        "its inputs must be matrices, got shapes [3] and [3]",
        domain=MICROSOFT,
    ),
    limit(
        "DynamicQuantizeMatMul",
        {"a": x(3), "w": zeros(3, 4, dtype=U8), "s": zeros(4)},
        {},
        {},
        {"a": x()},
        "its inputs must be matrices, got shapes [] and [3, 4]",
        domain=MICROSOFT,
    ),
    limit(
        "FusedMatMul",
        {"a": x(2, 3), "b": x(3, 4)},
        {},
        {},
        {"a": x(3)},
        "its inputs must have rank 2 at least",
        domain=MICROSOFT,
    ),
    limit(
        "FusedMatMul",
        {"a": x(2, 3), "b": x(3, 4)},
        {},
        {},
        {"b": x(3)},
        "its inputs must have rank 2 at least",
        domain=MICROSOFT,
    ),
    limit(
        "FusedMatMul",
        {"a": x(2, 3), "b": x(3, 4)},
        {},
        {"transBatchA": 0},
        {"transBatchA": 1},
        "batches that are turned are unknown here",
        domain=MICROSOFT,
    ),
    limit(
        "FusedMatMul",
        {"a": x(2, 3), "b": x(3, 4)},
        {},
        {"transBatchB": 0},
        {"transBatchB": 1},
        "batches that are turned are unknown here",
        domain=MICROSOFT,
    ),
    limit("Celu", {"a": x(3)}, {}, {"alpha": 0.5}, {"alpha": 0.0}, "attribute 'alpha' must not be 0"),
]


@pytest.mark.parametrize("case", LIMITS, ids=str)
def test_limit(case: Case) -> None:
    with pytest.raises(OnnxImportError) as raised:
        case.load()
    assert [problem.reason for problem in raised.value.problems] == [case.reason]
    case.load(**case.good)


@pytest.mark.parametrize("numbers", [[1, 0], [0, 1], [-1, 1]], ids=str)
def test_numbers_of_windows_below_the_least(numbers: list[int]) -> None:
    for name in ("strides", "dilations", "kernel_shape"):
        case = Case("MaxPool", {"a": x(1, 1, 5, 5)}, "", {"kernel_shape": [2, 2], name: numbers})
        with pytest.raises(OnnxImportError) as raised:
            case.load()
        reasons = [problem.reason for problem in raised.value.problems]
        assert reasons == [f"attribute '{name}' must have numbers from 1 up, got {numbers}"]
