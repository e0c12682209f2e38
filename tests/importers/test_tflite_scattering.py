"""Operators that put slices into a tensor, against TFLite's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Net, write
from tflite_oracle import check, f32, i32, i32c, out, q8

from nnvk.importers.tflite import TfliteImportError, load


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
