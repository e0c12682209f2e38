"""Dynamic extents and non-maximum suppression in TFLite files agree with LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tflite_net import Net, T, write
from tflite_oracle import boolean, check, compare, f32, i32, i32c, out, scalar

from nnvk import Compilation, get_device, run
from nnvk.importers.tflite import TfliteImportError, load

DRAWN = np.random.default_rng(3)


def flags(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape) < 0.3


# --- WHERE ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 5), (2, 3, 1, 5)])
def test_where(shape: tuple[int, ...]) -> None:
    (port,) = check("WHERE", [boolean(*shape)], out("INT64"), feed=[flags(*shape)]).outputs
    assert port.shape == (-1, len(shape))
    assert port.type.dimensions == (0, len(shape))


def test_where_numbers_are_not_zero() -> None:
    check("WHERE", [i32(3, 4)], out("INT64"))
    check("WHERE", [f32(5)], out("INT64"), feed=[np.array([0, 1, 0, -2, 0], np.float32)])


@pytest.mark.parametrize("device", ["vulkan-0", "nnapi-reference"])
def test_where_nothing_is_true(device: str) -> None:  # which LiteRT has no array for
    net = Net([boolean(3, 4)], [out("INT64")])
    net.op("WHERE", net.inputs, net.outputs)
    (got,) = computed(net, [np.zeros((3, 4), np.bool_)], device)
    assert got.shape == (0, 2)


def computed(net: Net, feeds: list[np.ndarray], device: str) -> list[np.ndarray]:
    """Return the outputs of a device."""
    imported = load(write(net))
    compilation = Compilation(imported.model, [get_device(device)])
    compilation.finish()
    return imported.decode(run(compilation, imported.encode(feeds)))[0]


def picking(finish: str) -> tuple[Net, list[np.ndarray]]:
    """Elements that are above 0.5, and one operator more."""
    x, y = f32(4, 5), T(shape=None)
    above, rows = T("BOOL", (4, 5)), T("INT64", shape=(1, 2), signature=(-1, 2))
    net = Net([x], [y])
    net.op("GREATER", [x, T(data=np.float32(0.5))], above)
    net.op("WHERE", [above], rows)
    picked = T(shape=None)
    net.op("GATHER_ND", [x, rows], picked)
    if finish == "MUL":
        net.op("MUL", [picked, picked], y, "MulOptions")
    elif finish == "RESHAPE":
        net.op("RESHAPE", [picked, i32c(-1, 1)], y)
    elif finish == "RESHAPE by options":
        net.op("RESHAPE", [picked], y, "ReshapeOptions", NewShape=[-1, 1])
    else:
        net.op("SUM", [picked, scalar(0)], y, "ReducerOptions")
    return net, [DRAWN.random((4, 5)).astype(np.float32)]


@pytest.mark.parametrize("finish", ["MUL", "RESHAPE", "RESHAPE by options"])
def test_elements_that_were_found(finish: str) -> None:
    net, feeds = picking(finish)
    compare(write(net), feeds)
    (got,) = computed(net, feeds, "vulkan-0")
    wanted = feeds[0][feeds[0] > 0.5]
    np.testing.assert_allclose(got.reshape(-1), wanted**2 if finish == "MUL" else wanted, rtol=1e-6)


def test_a_sum_of_what_does_not_count_is_refused() -> None:
    net, _ = picking("SUM")
    with pytest.raises(TfliteImportError, match="works along axis 0, whose size data decide"):
        load(write(net))


def picked_rows(name: str) -> Net:
    """Rows of a matrix that are picked by a vector, and one operator more on them."""
    flags, x, y = boolean(4), f32(4, 5), T(shape=None)
    places, indices, rows = T("INT64", shape=(1, 1), signature=(-1, 1)), T("INT64", shape=None), T(shape=None)
    net = Net([flags, x], [y])
    net.op("WHERE", [flags], places)
    net.op("RESHAPE", [places, i32c(-1)], indices)
    net.op("GATHER", [x, indices], rows, "GatherOptions")
    if name == "NEG":
        net.op("NEG", [rows], y)
    elif name == "SOFTMAX":
        net.op("SOFTMAX", [rows], y, "SoftmaxOptions", Beta=1.0)
    elif name in ("TRANSPOSE", "SOFTMAX of columns"):
        turned = y if name == "TRANSPOSE" else T(shape=None)
        net.op("TRANSPOSE", [rows, i32c(1, 0)], turned)
        if turned is not y:
            net.op("SOFTMAX", [turned], y, "SoftmaxOptions", Beta=1.0)
    elif name.startswith("MEAN"):
        axis = 0 if name == "MEAN of columns" else 1
        net.op("MEAN", [rows, i32c(axis)], y, "ReducerOptions", KeepDims=name == "MEAN that stays")
    elif name.startswith("CONCATENATION"):
        axis = 0 if name == "CONCATENATION of rows" else 1
        net.op("CONCATENATION", [rows, rows], y, "ConcatenationOptions", Axis=axis)
    elif name.startswith("CUMSUM"):
        options = {"Exclusive": name == "CUMSUM before each", "Reverse": name.endswith("from the back")}
        net.op(
            "CUMSUM", [rows, scalar(1 if name == "CUMSUM of rows from the back" else 0)], y, "CumsumOptions", **options
        )
    elif name == "EXPAND_DIMS":
        net.op("EXPAND_DIMS", [rows, scalar(1)], y)
    elif name == "GATHER of columns":
        net.op("GATHER", [rows, i32c(3, 1)], y, "GatherOptions", Axis=1)
    elif name == "GATHER of rows":
        net.op("GATHER", [rows, i32c(0)], y, "GatherOptions")
    elif name == "GATHER by batch":
        net.op("GATHER", [rows, indices], y, "GatherOptions", Axis=1, BatchDims=1)
    return net


@pytest.mark.parametrize(
    "name",
    [
        *("NEG", "SOFTMAX", "TRANSPOSE", "MEAN", "MEAN that stays", "CONCATENATION", "EXPAND_DIMS"),
        *("GATHER of columns", "CUMSUM", "CUMSUM before each", "CUMSUM of rows from the back"),
    ],
)
def test_rows_that_were_picked(name: str) -> None:
    feeds = [np.array([True, False, True, True]), DRAWN.random((4, 5)).astype(np.float32)]
    compare(write(picked_rows(name)), feeds)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MEAN of columns", "works along axis 0, whose size data decide"),
        ("CUMSUM from the back", "works along axis 0, whose size data decide"),
        ("SOFTMAX of columns", "works along axis 1, whose size data decide"),
        ("CONCATENATION of rows", "axis 0, whose size data decide"),
        ("GATHER of rows", "whose size data decide|data decide the size"),
        ("GATHER by batch", "data decide the size of a batch"),
    ],
)
def test_what_can_not_be_computed_of_picked_rows(name: str, said: str) -> None:
    with pytest.raises(TfliteImportError, match=said):
        load(write(picked_rows(name)))


def test_branches_give_none() -> None:
    x, condition, y = boolean(6), boolean(1), T("INT64", shape=(1, 1), signature=(-1, 1))
    net = Net([condition, x], [y])
    net.op("IF", [condition, x], y, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    inside, found = boolean(6), T("INT64", shape=(1, 1), signature=(-1, 1))
    branch = Net([inside], [found])
    branch.op("WHERE", [inside], found)
    with pytest.raises(TfliteImportError, match="NNAPI's control flow has to know it beforehand"):
        load(write(net, branch))


# --- NON_MAX_SUPPRESSION -------------------------------------------------------------------------------------


def overlapping(count: int) -> list[np.ndarray]:
    """Boxes and their scores."""
    rng = np.random.default_rng(2)
    centre, size = rng.random((count, 2)), rng.uniform(0.1, 0.5, (count, 2))
    boxes = np.concatenate([centre - size / 2, centre + size / 2], 1)
    return [boxes.astype(np.float32), rng.random(count).astype(np.float32)]


def real(number: float) -> T:
    return T(data=np.float32(number))


LIMITS = [(5, 0.4, 0.3), (40, 0.2, 0.0), (3, 0.5, 2.0), (7, 1.0, 0.1), (9, 0.0, -1.0), (30, 1.5, 0.1)]


@pytest.mark.parametrize(("most", "overlap", "least"), LIMITS)
def test_non_max_suppression(most: int, overlap: float, least: float) -> None:
    check_suppression(overlapping(19), most, overlap, least)


def check_suppression(
    feeds: list[np.ndarray],
    most: int,
    overlap: float,
    least: float,
    sigmas: Sequence[float] = (0, 0.5, 0.125, 1e-6, 1e-40),
) -> None:
    """Both operators, with scores that decay and scores that don't."""
    given = [f32(*feeds[0].shape), f32(len(feeds[0])), scalar(most), real(overlap), real(least)]
    results = [out("INT32", (most,)), out("INT32", ())]
    check("NON_MAX_SUPPRESSION_V4", given, results, "NonMaxSuppressionV4Options", feed=feeds)
    results = [out("INT32", (most,)), out("FLOAT32", (most,)), out("INT32", ())]
    for sigma in sigmas:
        check("NON_MAX_SUPPRESSION_V5", [*given, real(sigma)], results, "NonMaxSuppressionV5Options", feed=feeds)


@pytest.mark.parametrize(
    ("boxes", "scores"), [((9, 4), (8,)), ((9, 4), (9, 1)), ((9, 5), (9,)), ((36,), (9,))], ids=str
)
def test_boxes_and_scores_must_fit_together(boxes: tuple[int, ...], scores: tuple[int, ...]) -> None:
    given = [f32(*boxes), f32(*scores), scalar(3), real(0.5), real(0)]
    net = Net(given[:2], [out("INT32", (3,)), out("INT32", ())])
    net.op("NON_MAX_SUPPRESSION_V4", given, net.outputs, "NonMaxSuppressionV4Options")
    with pytest.raises(TfliteImportError, match="do not fit together"):
        load(write(net))


def test_scores_that_would_grow() -> None:
    given = [f32(9, 4), f32(9), scalar(3), real(0.5), real(0), real(-0.5)]
    net = Net(given[:2], [out("INT32", (3,)), out("FLOAT32", (3,)), out("INT32", ())])
    net.op("NON_MAX_SUPPRESSION_V5", given, net.outputs, "NonMaxSuppressionV5Options")
    with pytest.raises(TfliteImportError, match=r"sigma must be 0 or more, got -0\.5"):
        load(write(net))


def test_boxes_without_area_are_picked_again() -> None:
    boxes, scores = overlapping(19)
    boxes[5, 2], boxes[7] = boxes[5, 0], np.nan
    scores[[5, 7]] = 0.6, 0.5
    check_suppression([boxes, scores], 12, 0.5, 0.1)


def test_corners_in_any_order() -> None:
    boxes, scores = overlapping(19)
    boxes = np.where(DRAWN.random((19, 1)) < 0.5, boxes[:, [2, 1, 0, 3]], boxes[:, [2, 3, 0, 1]])
    check_suppression([boxes, scores], 12, 0.3, 0.1)


def test_scores_that_are_no_numbers() -> None:
    boxes, scores = overlapping(19)
    scores[[1, 4, 9, 13]] = np.nan, np.inf, -np.inf, -0.0
    check_suppression([boxes, scores], 19, 0.3, -5.0, (0, 0.5))
    check_suppression([boxes, scores], 19, 0.3, -np.inf, (0,))


def test_overlaps_that_are_the_threshold() -> None:
    boxes = np.array([[0, 0, 4, 4], [0, 0, 4, 2], [0, 1, 4, 3], [0, 0, 2, 4], [9, 9, 9, 9.5]], np.float32)
    check_suppression([boxes, np.linspace(1, 0.5, 5, dtype=np.float32)], 4, 0.5, 0.0)


@pytest.mark.parametrize("device", ["vulkan-0", "nnapi-reference"])
def test_of_equal_scores_the_first_comes_first(device: str) -> None:  # LiteRT has the order of its heap
    boxes, scores = overlapping(19)
    scores = np.floor(scores * 3)
    results = [out("INT32", (19,)), out("INT32", ())]
    net = Net([f32(19, 4), f32(19)], results)
    given = [*net.inputs, scalar(19), real(1), real(-1)]
    net.op("NON_MAX_SUPPRESSION_V4", given, results, "NonMaxSuppressionV4Options")
    picks, count = computed(net, [boxes, scores], device)
    assert (picks.tolist(), int(count)) == (np.argsort(-scores, kind="stable").tolist(), 19)


def test_many_boxes() -> None:
    """More than are decided on at a time, and than a dispatch lets decay."""
    check_suppression(overlapping(1301), 400, 0.7, 0.05, (0, 0.5))
