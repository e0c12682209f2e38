"""Operators that put slices into a tensor, against TFLite's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import check, f32, i32, i32c, out, q8, scalar

from nnvk.importers.tflite import TfliteImportError, load

rng = np.random.default_rng(5)
DATA = rng.standard_normal((7, 3)).astype(np.float32)


def test_segment_sum() -> None:
    check("SEGMENT_SUM", [f32(7, 3), i32c(0, 0, 1, 1, 1, 2, 2)], out("FLOAT32", (3, 3)), atol=0)
    check("SEGMENT_SUM", [i32(7), i32c(0, 0, 1, 2, 2, 2, 2)], out("INT32", (3,)))


def test_segment_sum_of_numbers_that_the_model_computes() -> None:
    feed = [DATA, np.int32([0, 0, 1, 1, 1, 2, 2])]
    check("SEGMENT_SUM", [f32(7, 3), i32(7)], T("FLOAT32", (3, 3)), feed=feed, atol=0)


@pytest.mark.parametrize("name", ["SUM", "PROD", "MAX", "MIN"])
@pytest.mark.parametrize("type_", ["FLOAT32", "INT32"])
def test_unsorted_segments(type_: str, name: str) -> None:
    result = out(type_, (5, 3))
    numbers = [3, 0, -1, 3, 3, 0, 2]
    check(f"UNSORTED_SEGMENT_{name}", [T(type_, (7, 3)), i32c(*numbers), scalar(5)], result)
    data = DATA if type_ == "FLOAT32" else (DATA * 9).astype(np.int32)
    inputs = [T(type_, (7, 3)), i32(7), scalar(5)]
    check(f"UNSORTED_SEGMENT_{name}", inputs, result, feed=[data, np.int32(numbers)])


def test_sparse_to_dense() -> None:
    places = i32c([[0, 1], [2, 3], [1, 0]])
    check("SPARSE_TO_DENSE", [places, i32c(3, 4), f32(3), T("FLOAT32", data=-1.5)], out("FLOAT32", (3, 4)))
    check("SPARSE_TO_DENSE", [i32c(4, 0, 2), i32c(6), f32(3), T("FLOAT32", data=0.0)], out("FLOAT32", (6,)))
    inputs = [i32(3, 2), i32c(3, 4), T("INT32", data=7), T("INT32", data=0)]
    check("SPARSE_TO_DENSE", inputs, out("INT32", (3, 4)), feed=[np.int32([[0, 1], [2, 3], [1, 0]])])


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_matrix_diag(shape: tuple[int, ...]) -> None:
    check("MATRIX_DIAG", [f32(*shape)], out("FLOAT32", (*shape, shape[-1])), "MatrixDiagOptions")


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5), (2, 5, 3)])
def test_matrix_set_diag(shape: tuple[int, ...]) -> None:
    diagonals = f32(*shape[:-2], min(shape[-2:]))
    check("MATRIX_SET_DIAG", [f32(*shape), diagonals], out("FLOAT32", shape), "MatrixSetDiagOptions")


@pytest.mark.parametrize(
    ("shape", "update", "start"),
    [((5, 7), (2, 3), (1, 2)), ((5, 7), (2, 7), (9, 0)), ((4, 5, 3), (2, 5, 3), (-1, 0, 0)), ((3, 5), (3, 5), (2, 2))],
)
def test_dynamic_update_slice(shape: tuple[int, ...], update: tuple[int, ...], start: tuple[int, ...]) -> None:
    check("DYNAMIC_UPDATE_SLICE", [f32(*shape), f32(*update), i32c(*start)], out("FLOAT32", shape))
    feed = [np.zeros(shape, np.float32), np.ones(update, np.float32), np.int32(start)]
    check("DYNAMIC_UPDATE_SLICE", [f32(*shape), f32(*update), i32(len(shape))], out("FLOAT32", shape), feed=feed)


def test_dynamic_update_slice_of_steps() -> None:
    check("DYNAMIC_UPDATE_SLICE", [q8(5, 7), q8(2, 3), i32c(3, 3)], q8(), steps=0)


@pytest.mark.parametrize(("batch", "sequence"), [(0, 1), (1, 0), (0, 2), (2, 1)])
def test_reverse_sequence(batch: int, sequence: int) -> None:
    shape = (3, 5, 4)
    lengths = np.random.default_rng(3).integers(0, shape[sequence] + 1, shape[batch]).astype(np.int32)
    options = {"BatchDim": batch, "SeqDim": sequence}
    check("REVERSE_SEQUENCE", [f32(*shape), i32c(*lengths.tolist())], (), "ReverseSequenceOptions", **options)
    feed = [np.arange(60, dtype=np.float32).reshape(shape), lengths]
    check("REVERSE_SEQUENCE", [f32(*shape), i32(len(lengths))], (), "ReverseSequenceOptions", feed=feed, **options)


@pytest.mark.parametrize(("update", "places"), [((2, 3, 1), 2), ((2, 3), 3), ((6, 3), 2), ((2, 8), 2)], ids=str)
def test_an_update_must_fit(update: tuple[int, ...], places: int) -> None:
    given, result = [f32(5, 7), f32(*update), i32(places)], out("FLOAT32", (5, 7))
    net = Net(given, [result])
    net.op("DYNAMIC_UPDATE_SLICE", given, result)
    with pytest.raises(TfliteImportError, match=r"an update of shape .* does not fit \[5, 7\]"):
        load(write(net))
