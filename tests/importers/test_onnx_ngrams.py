"""ONNX's TfIdfVectorizer against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import check

from nnvk.importers.onnx import OnnxImportError, load

POOL = [*range(5), *(1, 2, 2, 2, 4, 0), *(0, 1, 2, 3, 3, 3, 2, 2, 2)]
"""5 numbers, 3 pairs and 3 triples."""
GOOD: dict[str, Any] = {
    "pool_int64s": POOL,
    "ngram_counts": [0, 5, 11],
    "ngram_indexes": [3, 1, 12, 0, 7, 9, 2, 5, 11, 6, 8],
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 2,
    "mode": "TF",
}
WEIGHTS = [0.5 + place for place in range(11)]
INT, I64 = np.int32, np.int64


def net(shape: tuple[int, ...], dtype: Any = INT, **changes: Any) -> Any:
    attributes = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return model([op("TfIdfVectorizer", "x", "y", **attributes)], {"x": (dtype, shape)}, {"y": np.float32})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(23,), (3, 17), (5, 2), (1,), (2, 1)], ids=str)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_counts(mode: str, shape: tuple[int, ...], weights: list[float] | None) -> None:
    x = np.random.default_rng(0).integers(0, 5, shape).astype(INT)
    check(net(shape, mode=mode, weights=weights), {"x": x}, tolerance=0)


@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("skips", [0, 1, 7])
def test_sizes_and_skips(least: int, most: int, skips: int) -> None:
    x = np.random.default_rng(1).integers(0, 5, (2, 19)).astype(INT)
    changes = {"min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
    check(net((2, 19), **changes), {"x": x}, tolerance=0)


def test_whole_numbers_of_64_bits() -> None:
    """Numbers of the pool that an input of 32 bits can't have are not found."""
    pool = [1, 1 << 40, *POOL[2:5], 2, 2, 1, 1 << 32, *POOL[9:]]
    x = np.random.default_rng(2).integers(0, 5, (2, 19))
    check(net((2, 19), I64, pool_int64s=pool), {"x": x}, tolerance=0)


@pytest.mark.parametrize(("mode", "weights"), [("TF", None), ("IDF", None), ("TFIDF", None), ("TFIDF", WEIGHTS)])
def test_n_grams_at_one_place_are_added_up(mode: str, weights: list[float] | None) -> None:
    x = np.random.default_rng(3).integers(0, 5, (2, 19)).astype(INT)
    places = [0, 0, 1, 1, 0, 3, 3, 3, 2, 1, 0]
    check(net((2, 19), mode=mode, weights=weights, ngram_indexes=places), {"x": x}, tolerance=0)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("'mode' must be one of", {"mode": "DF"}),
        ("'pool_int64s' is missing, and NNAPI has no text", {"pool_int64s": None}),
        ("'weights' must have 11 numbers, one for each n-gram, got 2", {"mode": "IDF", "weights": [1.0, 2.0]}),
        (
            "n-grams at one place have no weight in mode IDF",
            {"mode": "IDF", "weights": WEIGHTS, "ngram_indexes": [0] * 11},
        ),
        ("must have places below 1048576", {"ngram_indexes": [1 << 40] * 11}),
        ("must have places below 1048576", {"ngram_indexes": [-1] * 11}),
        ("must have places below 1048576", {"ngram_counts": None}),
        ("lengths of n-grams must be from 1 up, got 3 to 2", {"min_gram_length": 3, "max_gram_length": 2}),
        ("has no whole n-grams of 2 from 5 to 10", {"ngram_counts": [0, 5, 10]}),
        ("has no whole n-grams of 1 from 5 to 0", {"ngram_counts": [5, 0]}),
        ("the n-grams of 3 must differ and have a place each", {"ngram_indexes": [0] * 10}),
        ("the n-grams of 1 must differ and have a place each", {"pool_int64s": [1] * 20}),
        ("'max_skip_count' must be from 0 up, got -1", {"max_skip_count": -1}),
    ],
)
def test_refusals(reason: str, changes: dict[str, Any]) -> None:
    with pytest.raises(OnnxImportError) as raised:
        load(net((2, 19), **changes).SerializeToString())
    assert reason in raised.value.reason


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3, 4), INT), ((4,), np.float32)])
def test_inputs_that_are_none(shape: tuple[int, ...], dtype: Any) -> None:
    with pytest.raises(OnnxImportError, match="must be whole numbers of rank 1 or 2"):
        load(net(shape, dtype).SerializeToString())


def test_too_many_skips() -> None:
    with pytest.raises(OnnxImportError, match="n-grams of 3 with 5000 skips in rows of 9000 are too many"):
        load(net((9000,), max_skip_count=5000, min_gram_length=3).SerializeToString())
