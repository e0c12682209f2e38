"""StableHLO's products, against NumPy and plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from stablehlo import Array, agree, longs, model, reals
from tflite_net import T
from tflite_oracle import f32, out

# --- products ------------------------------------------------------------------------------------------------

DOTS = [
    # shapes, batches, contracted, as for np.einsum
    ((3, 4), (4, 5), [], [], [1], [0], "ab,bc->ac"),
    ((2, 3, 4), (5, 2, 4), [0], [1], [2], [2], "nab,cnb->nac"),
    ((4, 2, 3), (3, 2, 4, 5), [1], [1], [0, 2], [2, 0], "bna,anbc->nc"),
    ((4,), (4,), [], [], [0], [0], "a,a->"),
]


@pytest.mark.parametrize("case", DOTS)
def test_dot_general(case: Any) -> None:
    shape, other, batch, other_batch, contracted, other_contracted, text = case
    x, y = reals(*shape), reals(*other)
    wanted = np.einsum(text, x, y)
    lists = {
        "LhsBatchingDimensions": batch,
        "RhsBatchingDimensions": other_batch,
        "LhsContractingDimensions": contracted,
        "RhsContractingDimensions": other_contracted,
    }
    options = {key: longs(value) for key, value in lists.items()}
    result, table = out("FLOAT32", wanted.shape), "StablehloDotGeneralOptions"
    agree(model("STABLEHLO_DOT_GENERAL", [f32(*shape), f32(*other)], result, table, **options), [x, y], wanted)


def convolved(x: Array, w: Array, given: dict[str, Any], groups: int) -> Array:
    """A convolution of [N, C, ...] with [O, C / groups, ...], by loops over the output and the window."""
    rank = x.ndim - 2
    pads = np.reshape(given["Padding"], (rank, 2))
    wide = np.zeros([*x.shape[:2], *((n - 1) * d + 1 for n, d in zip(x.shape[2:], given["LhsDilation"], strict=True))])
    wide[(slice(None), slice(None), *(slice(None, None, d) for d in given["LhsDilation"]))] = x
    wide = np.pad(wide, [(0, 0), (0, 0), *np.maximum(pads, 0)])
    cut = tuple(slice(max(0, -low), n - max(0, -high)) for (low, high), n in zip(pads, wide.shape[2:], strict=True))
    wide = wide[(slice(None), slice(None), *cut)]
    w = w[(slice(None), slice(None), *(slice(None, None, -1 if one else 1) for one in given["WindowReversal"]))]
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], given["RhsDilation"], strict=True)]
    sizes = [(n - s) // t + 1 for n, s, t in zip(wide.shape[2:], spans, given["WindowStrides"], strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *sizes))
    per_group, units = w.shape[1], w.shape[0] // groups
    for unit, place in itertools.product(range(w.shape[0]), np.ndindex(*sizes)):
        first = unit // units * per_group
        for tap in np.ndindex(*w.shape[2:]):
            at = tuple(
                p * s + t * d
                for p, s, t, d in zip(place, given["WindowStrides"], tap, given["RhsDilation"], strict=True)
            )
            pixels = wide[(slice(None), slice(first, first + per_group), *at)]
            result[(slice(None), unit, *place)] += pixels @ w[(unit, slice(None), *tap)]
    return result.astype(np.float32)


CONVOLUTIONS = {
    "plain": ((2, 3, 6, 7), (4, 3, 3, 2), {}, 1),
    "strides and padding": ((1, 3, 6, 7), (4, 3, 3, 2), {"WindowStrides": [2, 3], "Padding": [1, 0, 2, 1]}, 1),
    "dilated": ((1, 2, 8, 7), (3, 2, 3, 2), {"RhsDilation": [2, 3]}, 1),
    "transposed": ((1, 2, 4, 3), (3, 2, 3, 3), {"LhsDilation": [2, 3], "Padding": [2, 2, 1, 2]}, 1),
    "reversed and cut": ((1, 2, 6, 6), (3, 2, 3, 2), {"WindowReversal": [1, 0], "Padding": [-1, 0, 1, -2]}, 1),
    "depthwise": ((1, 4, 6, 5), (8, 1, 3, 2), {"RhsDilation": [1, 2]}, 4),
    "groups": ((1, 4, 7, 6), (6, 2, 2, 2), {"RhsDilation": [2, 1]}, 2),
    "one axis": ((2, 3, 9), (4, 3, 3), {"WindowStrides": [2], "Padding": [1, 1]}, 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("is_last", [False, True])
def test_convolution(name: str, is_last: bool) -> None:
    """Channels first, and last."""
    shape, kernel, changes, groups = CONVOLUTIONS[name]
    rank = len(shape) - 2
    given: dict[str, Any] = {"WindowStrides": [1] * rank, "Padding": [0] * 2 * rank, "LhsDilation": [1] * rank}
    given |= {"RhsDilation": [1] * rank, "WindowReversal": [0] * rank, **changes}
    x, w = reals(*shape), reals(*kernel)
    wanted = convolved(x, w, given, groups)
    order = [0, *range(2, rank + 2), 1] if is_last else list(range(rank + 2))
    flipped = [*range(2, rank + 2), 1, 0] if is_last else list(range(rank + 2))
    spatial = longs(range(1, rank + 1) if is_last else range(2, rank + 2))
    channel = rank + 1 if is_last else 1
    options: dict[str, Any] = {key: longs(value) for key, value in given.items()}
    options["WindowReversal"] = np.array(given["WindowReversal"], np.bool_)
    options |= {"InputFeatureDimension": channel, "OutputFeatureDimension": channel, "FeatureGroupCount": groups}
    options |= {"InputSpatialDimensions": spatial, "OutputSpatialDimensions": spatial, "BatchGroupCount": 1}
    options |= {
        "KernelInputFeatureDimension": flipped.index(1),
        "KernelOutputFeatureDimension": flipped.index(0),
        "KernelSpatialDimensions": longs([flipped.index(axis) for axis in range(2, rank + 2)]),
    }
    x, w, wanted = x.transpose(order), w.transpose(flipped), wanted.transpose(order)
    inputs = [f32(*x.shape), T("FLOAT32", data=w)]
    table = "StablehloConvolutionOptions"
    agree(
        model("STABLEHLO_CONVOLUTION", inputs, out("FLOAT32", wanted.shape), table, **options), [x], wanted, atol=1e-5
    )
