"""LSH_PROJECTION and the hash it stands on."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops.farmhash import fingerprint64
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.operand import OperandType

SPARSE_DEPRECATED, DENSE, SPARSE = 1, 2, 3
I32 = OperandType(OperandCode.TENSOR_INT32)
rng = np.random.default_rng(23)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, 0x9AE16A3B2F90404F),
        (1, 0xBE6056EDF5E94B54),
        (3, 0x94A13D22E9EBA49A),
        (4, 0x82BFFD898958E540),
        (7, 0xA2E0BFF20DB0A6A1),
        (8, 0xAD5A13E1E8E93B98),
        (16, 0x0EFD25A0A34156D4),
        (17, 0xBBB6A6F8F20D1F1C),
        (32, 0x1A9D8199972CDF49),
        (33, 0xE8756EC1CB75524E),
        (64, 0xF58504BB53DECC4B),
        (65, 0xC6A3282C3E793DBE),
        (128, 0x1C484C95F0EA5DD3),
        (129, 0xCE8BA3741121083E),
        (200, 0x74C7FCC26D66FB3),
    ],
)
def test_fingerprint64_as_farmhash_gives_it(length, expected):
    """The bytes 0, 1, 2, ...; the numbers come from Google's C++ library."""
    key = np.arange(length, dtype=np.uint8)
    assert fingerprint64(np.stack([key, key])).tolist() == [expected] * 2


def bits(hashes, source, weights):
    """One item and one seed at a time."""
    result = np.empty(hashes.shape, int)
    for place, seed in np.ndenumerate(hashes.astype(np.float32)):
        score = 0.0
        for item, weight in zip(source, weights, strict=True):
            key = np.frombuffer(seed.tobytes() + item.tobytes(), np.uint8)
            score += float(weight) * float(fingerprint64(key[None]).view(np.int64)[0])
        result[place] = score > 0
    return result


@pytest.mark.parametrize("kind", [SPARSE_DEPRECATED, DENSE, SPARSE])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "source",
    [
        rng.integers(-9, 9, (3, 2)).astype(np.int32),
        rng.standard_normal((5, 23)).astype(np.float32),
        rng.standard_normal((7,)).astype(np.float16),
    ],
    ids=["int32", "float32_long", "float16_rank_1"],
)
def test_projection(ops, kind, weighted, dtype, source):
    hashes = rng.standard_normal((4, 3)).astype(dtype)
    weights = rng.standard_normal(len(source)).astype(dtype) if weighted else None
    (result,) = ops.run(OperationCode.LSH_PROJECTION, hashes, source, weights, kind, outputs=[I32])
    signs = bits(hashes, source, np.ones(len(source)) if weights is None else weights)
    if kind == DENSE:
        expected = signs.ravel().tolist()
    else:
        expected = [a * 4 + b * 2 + c + (8 * row if kind == SPARSE else 0) for row, (a, b, c) in enumerate(signs)]
    assert result.tolist() == expected


def test_32_bits_fill_the_sign(ops):
    hashes = np.zeros((1, 32), np.float32)
    source = next(
        candidate
        for candidate in np.arange(64, dtype=np.int32).reshape(-1, 1)
        if bits(hashes[:, :1], candidate[None], [1]).all()
    )
    (result,) = ops.run(OperationCode.LSH_PROJECTION, hashes, source[None], None, SPARSE, outputs=[I32])
    assert result.tolist() == [-1]


@pytest.mark.parametrize(
    ("shape", "items", "weights", "kind", "message"),
    [
        pytest.param((4, 3), 2, None, 4, "type must be 1 .* got 4", id="type"),
        pytest.param((4, 3), 2, 3, DENSE, r"weight must have shape \[2\], got \[3\]", id="weights"),
        pytest.param((4,), 2, None, DENSE, r"hash must have rank 2, got shape \[4\]", id="hash_rank"),
        pytest.param((3, 31), 2, None, SPARSE, r"at most 32 bits, got 33 for \[3, 31\]", id="bits"),
        pytest.param((4, 3), 0, None, DENSE, r"input must have .* elements, got shape \[0\]", id="no_items"),
    ],
)
def test_errors(ops, shape, items, weights, kind, message):
    weight = None if weights is None else np.zeros(weights, np.float32)
    inputs = (np.zeros(shape, np.float32), np.zeros(items, np.float32), weight, kind)
    with pytest.raises(NnapiError, match=f"LSH_PROJECTION: .*{message}") as error:
        ops.infer(OperationCode.LSH_PROJECTION, *inputs, outputs=[I32])
    assert error.value.code is ResultCode.BAD_DATA
