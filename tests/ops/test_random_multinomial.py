"""RANDOM_MULTINOMIAL and its generator."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.random_multinomial import philox, uniform
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

I32 = OperandType(OperandCode.TENSOR_INT32)


def draw(ops, logits, samples, *seeds):
    seeds = np.array(seeds, np.int32)
    return ops.run(OperationCode.RANDOM_MULTINOMIAL, logits, samples, seeds, outputs=[I32])[0]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, expected):
    assert philox(np.array([counter], np.uint64), key)[0].tolist() == list(expected)


def test_uniform_covers_the_unit_interval_evenly():
    numbers = uniform(100_001, 3, -7)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] / numbers.size - 0.1).max() < 0.005
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_frequencies_are_the_softmax(ops, dtype):
    logits = np.array([[0, 1, 2, -np.inf, -1], [500, 500, 499, 0, 500]], dtype)
    result = draw(ops, logits, 40_009, 5, 7)
    exponents = np.exp(logits.astype(float) - logits.astype(float).max(axis=1, keepdims=True))
    for row, expected in zip(result, exponents / exponents.sum(axis=1, keepdims=True), strict=True):
        assert np.abs(np.bincount(row, minlength=5) / row.size - expected).max() < 0.01
    assert (result[0] != 3).all()


def test_batches_and_seeds_draw_differently_and_repeatably(ops):
    logits = np.zeros((2, 11), np.float32)
    first = draw(ops, logits, 101, 37, 42)
    assert np.array_equal(first, draw(ops, logits, 101, 37, 42))
    assert not np.array_equal(first[0], first[1])
    for seeds in ((37, 43), (38, 42), (-37, 42)):
        assert not np.array_equal(first, draw(ops, logits, 101, *seeds))


def test_seeds_may_have_any_shape(ops):
    """Android's CPU reads two numbers."""
    logits = np.zeros((2, 11), np.float32)
    drawn = ops.run(OperationCode.RANDOM_MULTINOMIAL, logits, 101, np.array([[37], [42]], np.int32), outputs=[I32])
    assert np.array_equal(drawn[0], draw(ops, logits, 101, 37, 42))


def test_seeds_of_zero_are_random(ops):
    logits = np.zeros((1, 1009), np.float32)
    assert not np.array_equal(draw(ops, logits, 64, 0, 0), draw(ops, logits, 64, 0, 0))


@pytest.mark.parametrize(
    ("logits", "samples", "seeds", "message"),
    [
        pytest.param(np.zeros(3), 1, (1, 2), r"input must have rank 2, got shape \[3\]", id="rank"),
        pytest.param(np.zeros((1, 0)), 1, (1, 2), r"input must have classes, got shape \[1, 0\]", id="classes"),
        pytest.param(np.zeros((1, 3)), 0, (1, 2), "samples must be at least 1, got 0", id="samples"),
        pytest.param(np.zeros((1, 3)), 1, (1,), "seeds must have 2 elements, as .2. has", id="seeds"),
        pytest.param(np.full((1, 3), np.nan), 1, (1, 2), "input must have a finite logit in every batch", id="nan"),
    ],
)
def test_errors(ops, logits, samples, seeds, message):
    with pytest.raises(NnapiError, match=message) as error:
        draw(ops, logits.astype(np.float32), samples, *seeds)
    assert error.value.code is ResultCode.BAD_DATA
