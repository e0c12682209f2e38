"""LSH_PROJECTION on the GPU: the reference's signatures, with keys of every length that the hash tells apart."""

import numpy as np
import pytest
from against_reference import check_like_the_reference

from nnvk.check.model_rows import Row, parse

SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3
# Bytes of an item: a key has 4 more.
LENGTHS = [1, 3, 4, 5, 12, 13, 28, 29, 60, 61, 124, 125, 189]


@pytest.mark.parametrize("length", LENGTHS)
def test_keys_of_every_length(vulkan, length):
    check_like_the_reference(vulkan, f"LSH_PROJECTION f32[3,5] u8[7,{length}]*0.5 f32[7] {SPARSE} -> i32")


@pytest.mark.parametrize("kind", [SPARSE_DEPRECATED, DENSE, SPARSE])
@pytest.mark.parametrize(
    "items", ["i32[7]", "i32[5,2,3]", "f32[3,17]", "f16[11,1]", "f16[5,7]", "u8[13,3]*0.5", "#f32[5,3]", "i32[1]"]
)
@pytest.mark.parametrize("type_", ["f32", "f16"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.crossed
def test_all_types(vulkan, kind, items, type_, weighted):
    count = items[items.index("[") + 1 : -1].split("]")[0].split(",")[0]
    weights = f"{type_}[{count}]" if weighted else "none"
    check_like_the_reference(vulkan, f"LSH_PROJECTION {type_}[4,3] {items} {weights} {kind} -> i32")


@pytest.mark.parametrize(
    "text",
    [
        f"LSH_PROJECTION f32[1,32] i32[3] none {SPARSE} -> i32",
        f"LSH_PROJECTION f32[5,0] i32[3] none {SPARSE} -> i32",
        f"LSH_PROJECTION f32[1009,2] i32[3] f32[3] {SPARSE_DEPRECATED} -> i32",
        f"LSH_PROJECTION f32[3,1] i32[61001] f32[61001] {DENSE} -> i32",
        f"LSH_PROJECTION f32[2,2] f32[3?,5?] f32[3?] {SPARSE} -> i32",
        f"LSH_PROJECTION #f32[2,2] f32[3,5] #f32[3] {DENSE} -> i32",
    ],
)
def test_other_sizes(vulkan, text):
    check_like_the_reference(vulkan, text)


def weighted(weights: list[float], items: list[int]) -> Row:
    count = len(items)
    row = parse(f"LSH_PROJECTION f32[31,8] i32[{count}] f32[{count}] {SPARSE} -> i32")
    return Row(row.model, (row.inputs[0], np.array(items, np.int32), np.array(weights, np.float32)))


@pytest.mark.parametrize(
    ("weights", "items"),
    [
        ([1, -1], [5, 5]),
        ([3, -1, -1, -1], [5, 5, 5, 5]),
        ([1e30, 1, -1e30], [1, 2, 1]),
        ([1, 1e30, -1e30], [2, 1, 1]),
        ([1, 2**-53, -1], [2, 1, 2]),
        ([1, 3 * 2**-53, 2**-54, -1], [2, 1, 3, 2]),
        ([1e-45, 3e38, -3e38], [1, 2, 2]),
        ([1e-45, 2e-45, -1e-45], [1, 2, 3]),
        ([0, -0.0, 0], [1, 2, 3]),
        ([np.inf, 1], [1, 2]),
        ([np.inf, -np.inf], [1, 2]),
        ([np.inf, np.inf], [1, 2]),
        ([1, np.nan, 1], [1, 2, 3]),
        ([0.1, 0.7, -0.3, 1e-9, 123.456], [1, 2, 3, 4, 5]),
    ],
)
def test_signs_that_hang_on_the_last_bit(vulkan, weights, items):
    check_like_the_reference(vulkan, weighted(weights, items))


def test_seeds_and_weights_are_taken_by_their_bits(vulkan):
    row = parse(f"LSH_PROJECTION f32[4,3] i32[5] f32[5] {SPARSE} -> i32")
    seeds = np.array([0.0, -0.0, 1e-45, -1e-40, np.nan, np.inf, -np.inf, 3e38, 1e-38, -1, 2, 7], np.float32)
    check_like_the_reference(vulkan, Row(row.model, (seeds.reshape(4, 3), *row.inputs[1:])))


@pytest.mark.parametrize("items", [257, 1009, 61001])
def test_sums_that_are_estimated(as_gpu, items):
    check_like_the_reference(as_gpu, f"LSH_PROJECTION f32[3,7] i32[{items}] f32[{items}] {SPARSE} -> i32")


@pytest.mark.parametrize(
    "last", [[2**-53, 1], [-(2**-53), -1], [1e30, -1e30], [np.inf, -np.inf], [np.nan, 1], [1e-30, -1e-30]]
)
def test_estimates_that_leave_signs_open(as_gpu, last):
    """Terms cancel each other in an order in which they were not estimated, so that the last ones decide."""
    rng = np.random.default_rng(3)
    half, items = rng.normal(size=150), rng.integers(0, 9, 150)
    weights = [*half, *-half[::-1], *last]
    check_like_the_reference(as_gpu, weighted(weights, [*items, *items[::-1], 7, 7]))


def test_estimates_that_are_exactly_0(as_gpu):
    check_like_the_reference(as_gpu, weighted([0.0, -0.0] * 200, list(range(400))))
    check_like_the_reference(as_gpu, weighted([1, -1] * 200, [5] * 400))
