"""Nodes of ONNX that are refused for operands and attributes that do not fit each other: each condition alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_case import I64, MICROSOFT, Case, F, ints, x

Changes = Mapping[str, Any]


def family(
    kind: str,
    inputs: Mapping[str, Any],
    attributes: Changes,
    *rows: tuple[str, Changes],
    opset: int = 17,
    domain: str = "",
    outputs: str = "y",
) -> list[Case]:
    """For each reason the inputs and attributes by which a node differs that is refused for it."""
    cases = []
    for reason, bad in rows:
        given = {**inputs, **{name: value for name, value in bad.items() if name in inputs}}
        own = {**attributes, **{name: value for name, value in bad.items() if name not in inputs}}
        good = {name: inputs[name] if name in inputs else attributes.get(name) for name in bad}
        cases.append(Case(kind, given, reason, own, good, outputs, opset, domain))
    return cases


def zeros(*shape: int, dtype: Any = F) -> np.ndarray:
    """A constant."""
    return np.zeros(shape, dtype)


def reals(*numbers: float) -> np.ndarray:
    return np.array(numbers, F)


INT = np.int32
HEADS = {"num_heads": 2}
QKV = {"q": x(1, 5, 8), "k": x(1, 5, 8), "v": x(1, 5, 8), "b": None, "m": x(1, 5, dtype=INT)}
BITS = {"a": x(3, 32), "w": zeros(4, 1, 16, dtype=np.uint8), "s": zeros(4, 1), **dict.fromkeys("zgbi")}
SIZES = {"K": 32, "N": 4, "bits": 4, "block_size": 32}
CASES = [
    *family(
        "DepthToSpace",
        {"a": x(1, 8, 2, 3)},
        {"blocksize": 1, "mode": "CRD"},
        ("8 channels don't divide into blocks of 0 x 0", {"blocksize": 0}),
        ("8 channels don't divide into blocks of 3 x 3", {"blocksize": 3}),
    ),
    *family("Celu", {"a": x(2, 3)}, {"alpha": 1.0}, ("attribute 'alpha' must not be 0", {"alpha": 0.0})),
    *family(
        "Einsum",
        {"a": x(2, 3), "b": x(3, 4)},
        {"equation": "ij,jk->ik"},
        ("has 1 terms for 2 inputs", {"equation": "ij->ji"}),
        ("has 3 terms for 2 inputs", {"equation": "ij,jk,kl->il"}),
        ("gives what its inputs have not", {"equation": "ij,jk->il"}),
        ("the term 'ijk' does not fit an input of rank 2", {"equation": "ijk,jk->ik"}),
        ("the term 'j' does not fit an input of rank 2", {"equation": "ij,j->i"}),
        ("the term 'i1' does not fit an input of rank 2", {"equation": "i1,jk->jk"}),
        ("does not fit an input of rank 4", {"equation": "ij,jk->ik", "a": x(2, 3, 1, 1)}),
    ),
    *family(
        "MatMul",
        {"a": x(2, 3, 4), "b": x(2, 4, 5)},
        {},
        ("its inputs must have rank 1 at least", {"a": x()}),
        ("its inputs must have rank 1 at least", {"b": x()}),
        ("don't broadcast", {"b": x(3, 4, 5)}),
    ),
    *family(
        "Resize",
        {"a": x(1, 2, 4, 5), "r": None, "s": reals(1, 1, 2, 2)},
        {"mode": "linear"},
        ("there must be scales or sizes for 4 axes, got [2.0, 2.0]", {"s": reals(2, 2)}),
        ("scales must be positive", {"s": reals(1, 1, 0, 2)}),
        ("scales must be positive", {"s": reals(1, 1, -1, 2)}),
        ("scales must be positive", {"s": reals(1, 1, np.inf, 2)}),
        ("the sizes must be positive, got [1, 2, 0, 10]", {"s": reals(1, 1, 0.2, 2)}),
        ("is 'whole', which is unknown here", {"coordinate_transformation_mode": "whole"}),
        opset=13,
    ),
    *family(
        "Reshape",
        {"a": x(2, 3), "s": ints(0, 3)},
        {},
        ("the shape [6, 1, 0] keeps sizes that [2, 3] has not", {"s": ints(6, 1, 0)}),
        ("has not as many elements", {"s": ints(4, 2)}),
        ("has not as many elements", {"s": ints(-1, 4)}),
    ),
    *family(
        "Flatten",
        {"a": x(2, 3)},
        {"axis": 2},
        ("the axis must be in [-2, 2], got 3", {"axis": 3}),
        ("the axis must be in [-2, 2], got -3", {"axis": -3}),
    ),
    *family(
        "Squeeze",
        {"a": x(1, 3, 1), "s": ints(0, 2)},
        {},
        ("the dimensions [1] of [1, 3, 1] must be of size 1", {"s": ints(1)}),
        ("the dimensions [0, 1] of [1, 3, 1] must be of size 1", {"s": ints(0, 1)}),
        ("must be in [-3, 3), got 3", {"s": ints(3)}),
    ),
    *family(
        "Tile",
        {"a": x(2, 3), "s": ints(2, 1)},
        {},
        ("there must be a repetition from 0 up for each axis of [2, 3], got [2]", {"s": ints(2)}),
        ("there must be a repetition from 0 up for each axis of [2, 3], got [2, -1]", {"s": ints(2, -1)}),
        ("there must be a repetition from 0 up for each axis of [2, 3], got [1, 2, 1]", {"s": ints(1, 2, 1)}),
    ),
    *family(
        "Pad",
        {"a": x(2, 3), "p": ints(0, 1, 0, 1)},
        {},
        ("there must be two paddings for each of 2 axes, got [0, 1]", {"p": ints(0, 1)}),
        ("there must be two paddings for each of 2 axes", {"p": ints(0, 1, 0, 1, 0)}),
        ("make shape [0, 3] of [2, 3]", {"p": ints(-1, 0, -1, 0)}),
        ("make shape [-1, 3] of [2, 3]", {"p": ints(-3, 0, 0, 0)}),
        ("leave nothing of axis 0 to pad with ('edge')", {"p": ints(-2, 0, 1, 0), "mode": "edge"}),
    ),
    *family(
        "Trilu",
        {"a": x(3, 4), "k": None},
        {},
        ("the input must have rank 2 at least, got shape [4]", {"a": x(4)}),
    ),
    *family(
        "OneHot",
        {"a": x(3, dtype=I64), "d": ints(1), "v": reals(0, 1)},
        {},
        ("the depth (input 1) must be positive, got 0", {"d": ints(0)}),
        ("the depth (input 1) must be positive, got -2", {"d": ints(-2)}),
    ),
    *family(
        "TopK",
        {"a": x(3, 5), "k": ints(5)},
        {"axis": 1},
        ("k must be in [0, 5], got 6", {"k": ints(6)}),
        ("k must be in [0, 5], got -1", {"k": ints(-1)}),
        outputs="y z",
    ),
    *family(
        "DFT",
        {"a": x(2, 8, 1), "l": np.array(8, I64)},
        {"axis": 1},
        ("has no signal along axis 2", {"axis": 2}),
        ("an input of shape [2, 8, 3] has no signal along axis 1", {"a": x(2, 8, 3)}),
        ("one-sided, it takes real numbers, got [2, 8, 2]", {"a": x(2, 8, 2), "onesided": 1}),
        ("the length must be 1 or more, got 0", {"l": np.array(0, I64)}),
    ),
    *family(
        "STFT",
        {"a": x(1, 16, 1), "s": np.array(4, I64), "w": zeros(8)},
        {},
        ("the signal must have shape [batches, length, 1 or 2], got [1, 16]", {"a": x(1, 16)}),
        ("the signal must have shape [batches, length, 1 or 2], got [1, 16, 3]", {"a": x(1, 16, 3)}),
        ("frames of 8 elements, 0 apart, do not fit a signal of 16", {"s": np.array(0, I64)}),
        ("frames of 17 elements, 4 apart, do not fit a signal of 16", {"w": zeros(17)}),
    ),
    *family(
        "GridSample",
        {"a": x(1, 2, 4, 5), "g": x(1, 3, 3, 2)},
        {},
        ("a grid of shape [1, 3, 3, 3] does not fit", {"g": x(1, 3, 3, 3)}),
        ("a grid of shape [2, 3, 3, 2] does not fit", {"g": x(2, 3, 3, 2)}),
        ("a grid of shape [1, 3, 2] does not fit", {"g": x(1, 3, 2)}),
    ),
    *family(
        "Conv",
        {"a": x(1, 4, 6, 5), "w": zeros(6, 2, 3, 3)},
        {"group": 2},
        ("rows, images and volumes are convolved, got an input of shape [1, 4]", {"a": x(1, 4)}),
        ("rows, images and volumes are convolved", {"w": zeros(6, 2, 3)}),
        ("[6, 4, 3, 3] in 2 groups do not fit the 4 channels", {"w": zeros(6, 4, 3, 3)}),
        ("[5, 2, 3, 3] in 2 groups do not fit the 4 channels", {"w": zeros(5, 2, 3, 3)}),
        ("[6, 2, 3, 3] in 4 groups do not fit the 4 channels", {"group": 4}),
    ),
    *family(
        "MaxPool",
        {"a": x(1, 2, 6, 5)},
        {"kernel_shape": [2, 3]},
        ("the input must have rank 3 at least, got shape [6, 5]", {"a": x(6, 5)}),
        ("attribute 'kernel_shape' must have 2 numbers, got [2]", {"kernel_shape": [2]}),
        ("attribute 'strides' must have 2 numbers, got [1, 1, 1]", {"strides": [1, 1, 1]}),
        ("attribute 'dilations' must have 2 numbers, got [1]", {"dilations": [1]}),
    ),
    *family(
        "LSTM",
        {"a": x(2, 3, 4), "b": zeros(1, 20, 4), "c": zeros(1, 20, 5), "d": None, "e": None},
        {"hidden_size": 5},
        ("input 1 must have shape [1, 20, 4], got [1, 20, 3]", {"b": zeros(1, 20, 3)}),
        ("input 2 must have shape [1, 20, 5], got [2, 20, 5]", {"c": zeros(2, 20, 5)}),
        ("there must be 3 activations for each direction", {"activations": ["Sigmoid", "Tanh"]}),
        ("the activations must be Sigmoid and then one of", {"activations": ["Sigmoid", "Tanh", "Cosine"]}),
        ("the lengths (input 4) must be between 0 and 2, got 1 to 3", {"e": np.array([1, 3, 2], INT)}),
        ("the lengths (input 4) must be between 0 and 2, got -1 to 2", {"e": np.array([1, -1, 2], INT)}),
    ),
    *family(
        "Attention",
        {"a": x(1, 5, 8), "w": zeros(8, 24), "b": zeros(24), "m": x(1, 5, dtype=INT)},
        HEADS,
        ("the weights (input 1) must be a constant, and num_heads positive", {"w": x(8, 24)}),
        ("the weights (input 1) must be a constant, and num_heads positive", {"num_heads": 0}),
        ("sizes [8, 8, 8] do not fit", {"num_heads": 3}),
        ("sizes [8, 4, 12] do not fit", {"qkv_hidden_sizes": [8, 4, 12]}),
        ("sizes [8, 8, 10] do not fit", {"qkv_hidden_sizes": [8, 8, 10]}),
        ("sizes [8, 8] do not fit", {"qkv_hidden_sizes": [8, 8]}),
        ("sizes [12, 12, 0] do not fit", {"qkv_hidden_sizes": [12, 12, 0], "num_heads": 24}),
        ("the mask (input 3) must be [1, 5], got [1, 4]", {"m": x(1, 4, dtype=INT)}),
        ("the mask (input 3) must be [1, 5], got [5]", {"m": x(5, dtype=INT)}),
        domain=MICROSOFT,
    ),
    *family(
        "MultiHeadAttention",
        QKV,
        HEADS,
        ("must be apart and of rank 3", {"num_heads": 0}),
        ("must be apart and of rank 3", {"unidirectional": 1}),
        ("must be apart and of rank 3", {"q": x(1, 5, 2, 3, 8)}),
        ("must be apart and of rank 3", {"v": None}),
        ("8 numbers don't divide into 3 heads", {"num_heads": 3}),
        ("the mask (input 4) must be [1, 5], got [1, 6]", {"m": x(1, 6, dtype=INT)}),
        domain=MICROSOFT,
    ),
    *family(
        "MatMulNBits",
        BITS,
        SIZES,
        ("weights of 3 bits in blocks of 32 are unknown here", {"bits": 3}),
        ("weights of 8 bits in blocks of 32 are unknown here", {"bits": 8}),
        ("weights of 4 bits in blocks of 0 are unknown here", {"block_size": 0}),
        ("or are not 5 x 32", {"N": 5}),
        ("or are not 4 x 32", {"w": zeros(4, 1, 16, dtype=np.int8)}),
        ("an order of groups (input 4) is unknown here", {"g": zeros(32, dtype=INT)}),
        ("what follows the bias (input 6) is unknown here", {"i": zeros(4)}),
        ("the zero points must be 4 x 1 of uint8, got 3", {"z": zeros(3, dtype=np.uint8)}),
        ("the zero points must be 4 x 1 of float32, got 8", {"z": zeros(8)}),
        domain=MICROSOFT,
    ),
    *family(
        "GatherBlockQuantized",
        {"w": zeros(5, 16, dtype=np.uint8), "i": x(3, dtype=INT), "s": zeros(5, 2)},
        {"block_size": 16, "bits": 4, "quantize_axis": 1, "gather_axis": 0},
        ("rows of axis 0 in blocks of the last axis are gathered", {"gather_axis": 1}),
        ("rows of axis 0 in blocks of the last axis are gathered", {"quantize_axis": 0}),
        ("rows of axis 0 in blocks of the last axis are gathered", {"bits": 2}),
        ("rows of axis 0 in blocks of the last axis are gathered", {"block_size": 8}),
        ("32 columns in blocks of 16 do not fit scales of shape [5, 3]", {"s": zeros(5, 3)}),
        ("32 columns in blocks of 16 do not fit scales of shape [4, 2]", {"s": zeros(4, 2)}),
        ("16 columns in blocks of 16 do not fit scales of shape [5, 2]", {"bits": 8}),
        domain=MICROSOFT,
    ),
    *family(
        "RotaryEmbedding",
        {"a": x(2, 5, 12), "p": x(2, 5, dtype=I64), "c": zeros(8, 3), "s": zeros(8, 3)},
        {"num_heads": 2},
        ("the input must have rank 3 or 4, without packed batches and scale", {"is_packed_batching": 1}),
        ("the input must have rank 3 or 4, without packed batches and scale", {"scale": 2.0}),
        ("the input must have rank 3 or 4, without packed batches and scale", {"a": x(5, 12)}),
        ("12 numbers do not divide into 5 heads", {"num_heads": 5}),
        ("the caches have 3 angles for heads of 4 elements", {"num_heads": 3}),
        ("the places (input 1) must have shape [2, 5], got [2, 4]", {"p": x(2, 4, dtype=I64)}),
        domain=MICROSOFT,
    ),
    *family(
        "GroupQueryAttention",
        {
            "q": x(1, 2, 16),
            "k": x(1, 2, 8),
            "v": x(1, 2, 8),
            "pk": None,
            "pv": None,
            "last": np.array([1], INT),
            "all": np.array(2, INT),
        },
        {"num_heads": 4, "kv_num_heads": 2},
        ("a smooth softmax and further inputs are unknown here", {"smooth_softmax": 1}),
        ("4 heads of queries cannot share 3 heads of keys", {"kv_num_heads": 3}),
        ("4 heads of queries cannot share 0 heads of keys", {"kv_num_heads": 0}),
        ("0 heads of queries cannot share 2 heads of keys", {"num_heads": 0}),
        ("has no 2 heads of 2 rows", {"k": x(1, 3, 8)}),
        ("has no 2 heads of 2 rows", {"v": x(1, 2, 9)}),
        ("has no 4 heads of 2 rows", {"q": x(1, 2, 18)}),
        ("sequences must be 2 long", {"all": np.array(3, INT)}),
        ("sequences must be 2 long", {"last": np.array([0], INT)}),
        domain=MICROSOFT,
        outputs="y a b",
    ),
    *family(
        "ConvTranspose",
        {"a": x(1, 4, 6, 5), "w": zeros(4, 3, 3, 2)},
        {"group": 2},
        ("rows, images and volumes are convolved, got an input of shape [1, 4]", {"a": x(1, 4)}),
        ("rows, images and volumes are convolved", {"w": zeros(4, 3, 3)}),
        ("weights of shape [4, 3, 3, 2] in 0 groups do not fit [1, 4, 6, 5]", {"group": 0}),
        ("weights of shape [4, 3, 3, 2] in 3 groups do not fit [1, 4, 6, 5]", {"group": 3}),
        ("weights of shape [6, 3, 3, 2] in 2 groups do not fit [1, 4, 6, 5]", {"w": zeros(6, 3, 3, 2)}),
    ),
    *family(
        "RandomNormal",
        {},
        {"shape": [1, 3]},
        ("must have positive sizes, got [0, 3]", {"shape": [0, 3]}),
        ("must have positive sizes, got [2, -1]", {"shape": [2, -1]}),
        ("must have positive sizes, got None", {"shape": None}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case: Case) -> None:
    case.check()
