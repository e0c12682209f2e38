"""DeformConv against ONNX's reference, and against convolutions of a moved input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op
from onnx_oracle import actual

from nnvk import NnapiError
from nnvk.importers.onnx import load

F = np.float32


def drawn(*shape: int, spread: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(3).uniform(-spread, spread, shape)).astype(F)


DEFORMED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "odd sizes": ((1, 3, 5, 7), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "batches": ((3, 2, 4, 5), (3, 2, 2, 3), {}),
    "strides": ((2, 2, 7, 9), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "dilations": ((1, 2, 9, 8), (2, 2, 3, 2), {"dilations": [2, 3]}),
    "groups": ((2, 6, 5, 4), (9, 2, 2, 2), {"group": 3}),
    "groups of offsets": ((2, 6, 5, 4), (4, 6, 2, 2), {"offset_group": 3}),
    "both groups": ((1, 6, 5, 4), (4, 3, 2, 2), {"group": 2, "offset_group": 3, "pads": [1, 1, 0, 0]}),
    "rows": ((2, 3, 11), (4, 3, 3), {"dilations": [2]}),
    "volumes": ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), {"strides": [1, 2, 1]}),
    "one tap": ((1, 2, 3, 5), (2, 2, 1, 1), {}),
}
"""Shapes of the input and the weights, and attributes."""


def deformed(name: str, masked: bool) -> tuple[Any, dict[str, np.ndarray]]:
    """The model of a DeformConv, and what goes into it: offsets reach beyond all edges."""
    shape, filters, attributes = DEFORMED[name]
    rank = len(shape) - 2
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    out = [
        (shape[2 + i] + pads[i] + pads[rank + i] - (filters[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(rank)
    ]
    taps = attributes.get("offset_group", 1) * int(np.prod(filters[2:]))
    feeds = {
        "x": drawn(*shape),
        "w": drawn(*filters),
        "offset": drawn(shape[0], taps * rank, *out, spread=2.5),
        "bias": drawn(filters[0]),
    }
    if masked:
        feeds["mask"] = drawn(shape[0], taps, *out)
    net = model(
        [op("DeformConv", " ".join(feeds), "y", **attributes)],
        {name: (F, array.shape) for name, array in feeds.items()},
        ["y"],
        opset=22,
    )
    return net, feeds


IMAGES = [name for name, (shape, _, _) in DEFORMED.items() if len(shape) == 4]
"""Those that ONNX's reference computes."""


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("name", IMAGES)
def test_deformable_convolutions(name: str, masked: bool) -> None:
    net, feeds = deformed(name, masked)
    (wanted,) = ReferenceEvaluator(net).run(None, feeds)
    for device in devices():
        np.testing.assert_allclose(actual(load(net.SerializeToString()), feeds, device)[0], wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "axis"), [("rows", None), ("rows", 0), ("volumes", None), ("volumes", 0), ("volumes", 1), ("volumes", 2)]
)
def test_equal_offsets_move_the_input(name: str, axis: int | None) -> None:
    """Rows and volumes against a convolution of the input, moved by one element along an axis."""
    net, feeds = deformed(name, masked=False)
    x, rank = feeds["x"], feeds["x"].ndim - 2
    feeds["offset"][:] = 0
    moved = x
    if axis is not None:
        feeds["offset"].reshape(x.shape[0], -1, rank, *feeds["offset"].shape[2:])[:, :, axis] = 1
        ends = [(0, int(2 + axis == each)) for each in range(x.ndim)]
        moved = np.pad(x, ends)[tuple(slice(end, None) for _, end in ends)]
    attributes = DEFORMED[name][2]
    plain = model(
        [op("Conv", "x w bias", "y", **attributes)],
        {each: (F, feeds[each].shape) for each in ("x", "w", "bias")},
        ["y"],
        opset=22,
    )
    wanted = actual(load(plain.SerializeToString()), {**feeds, "x": moved}, "nnapi-reference")[0]
    for device in devices():
        np.testing.assert_allclose(actual(load(net.SerializeToString()), feeds, device)[0], wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"w": (5, 2, 3, 3)}, "weights of shape [5, 2, 3, 3] in 1 groups do not fit the 3 channels of the input"),
        ({"w": (5, 3, 3)}, "weights of shape [5, 3, 3] do not fit an input of shape [1, 3, 5, 7]"),
        ({"offset": (1, 9, 5, 7)}, "offsets of shape [1, 9, 5, 7] can't be used, expected [1, 18, 5, 7]"),
        ({"mask": (1, 18, 5, 7)}, "a mask of shape [1, 18, 5, 7] can't be used, expected [1, 9, 5, 7]"),
    ],
)
def test_deformable_convolutions_that_do_not_fit(changed: dict[str, tuple[int, ...]], reason: str) -> None:
    shapes = {"x": (1, 3, 5, 7), "w": (5, 3, 3, 3), "offset": (1, 18, 5, 7), "bias": (5,), "mask": (1, 9, 5, 7)}
    inputs = {name: (F, shape) for name, shape in (shapes | changed).items()}
    net = model([op("DeformConv", " ".join(inputs), "y", pads=[1, 1, 1, 1])], inputs, ["y"], opset=22)
    with pytest.raises(NnapiError) as raised:
        load(net.SerializeToString())
    assert reason in str(raised.value)
