"""Attributes and inputs of ONNX's nodes in values beside their defaults, against onnxruntime: small and odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_case import MICROSOFT
from onnx_net import model, op
from onnx_oracle import actual, check

from nnvk.importers.onnx import load
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.mappers.matmul import exact_count

F, I32, I64, U8 = np.float32, np.int32, np.int64, np.uint8


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def compared(
    kind: str, arrays: dict[str, Any], outputs: str = "y", opset: int = 18, tolerance: float = 1e-5, **given: Any
) -> None:
    """One node; inputs whose names are capitals are constants, and those that are None are left out."""
    constants = {name: array for name, array in arrays.items() if array is not None and name.isupper()}
    feeds = {name: array for name, array in arrays.items() if array is not None and not name.isupper()}
    names = " ".join("-" if array is None else name for name, array in arrays.items())
    inputs = {name: (array.dtype, array.shape) for name, array in feeds.items()}
    net = model(
        [op(kind, names, outputs, **given)],
        inputs,
        [name for name in outputs.split() if name != "-"],
        constants,
        opset=opset,
    )
    if given.get("domain"):
        net.opset_import.add(domain=given["domain"], version=1)
    check(net, feeds, devices=("nnapi-reference",), tolerance=tolerance, steps=0)


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "ji,jk->ki": [(3, 2), (3, 4)],
    "ij,kj->ik": [(2, 3), (4, 3)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bij,jk->bik": [(2, 3, 4), (4, 5)],
    "bi,bj->bij": [(2, 3), (2, 4)],
    "i,i->": [(3,), (3,)],
    "i,j->ji": [(3,), (4,)],
    "ij->": [(2, 3)],
    "ij->j": [(2, 3)],
    "ij": [(2, 3)],
    "ba": [(2, 3)],
    "iij->ij": [(3, 3, 2)],
    "ii": [(3, 3)],
    "iji->j": [(3, 2, 3)],
    "...ij,...jk->...ik": [(2, 5, 3, 4), (2, 5, 4, 2)],
    "...ij,jk->...ik": [(2, 5, 3, 4), (4, 2)],
    "...i,...i->...": [(2, 5, 3), (2, 5, 3)],
    "...i->...": [(2, 5, 3)],
    "i...->...i": [(2, 5, 3)],
    "...ii->...i": [(2, 3, 3)],
    "ij , jk -> ik": [(2, 3), (3, 4)],
    "ijk,k->ij": [(2, 3, 4), (4,)],
    "ab,cd->abcd": [(2, 3), (4, 5)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "ij,ij->": [(2, 3), (2, 3)],
    "ijk,ilk->ijl": [(2, 3, 4), (2, 5, 4)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    arrays = {
        name: reals(*shape, seed=seed)
        for seed, (name, shape) in enumerate(zip("abc", EQUATIONS[equation], strict=False))
    }
    compared("Einsum", arrays, equation=equation)


PADS = [[1, 2, 0, 1], [0, 3, 2, 0], [-1, 0, 0, -2], [-1, 2, 1, -1], [2, 1, -1, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("mode", "pads"),
    [
        (mode, pads)
        for mode in ("constant", "edge", "reflect", "wrap")
        for pads in PADS
        if mode != "wrap" or min(pads) >= 0  # onnxruntime counts from the end of what it has cropped
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [F, I32])
def test_pads(dtype: Any, mode: str, pads: list[int]) -> None:
    x = np.arange(20).reshape(4, 5).astype(dtype)
    compared("Pad", {"x": x, "P": np.array(pads), "V": np.array(7, dtype)}, mode=mode, opset=19)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_reflections_that_turn_more_than_once(size: int) -> None:
    """Beyond both ends of few elements, as in NumPy."""
    x = np.arange(size, dtype=F)
    net = model([op("Pad", "x P", "y", mode="reflect")], {"x": (F, x.shape)}, ["y"], {"P": np.array([5, 4])})
    (got,) = actual(load(net.SerializeToString()), {"x": x}, "nnapi-reference")
    np.testing.assert_array_equal(got, np.pad(x, (5, 4), mode="reflect"))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("dtype", [F, I64])
def test_triangles(dtype: Any, k: int | None, upper: int) -> None:
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)
    compared("Trilu", {"x": x, "K": None if k is None else np.array(k)}, upper=upper)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [F, I64])
def test_best_elements(dtype: Any, largest: int, k: int, axis: int) -> None:
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(dtype)
    compared("TopK", {"x": x, "K": np.array([k])}, "y z", axis=axis, largest=largest)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_places_of_the_best(kind: str, last: int, keepdims: int, axis: int) -> None:
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(F)
    compared(kind, {"x": x}, axis=axis, keepdims=keepdims, select_last_index=last)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scattered_elements(axis: int, reduction: str) -> None:
    places = np.array([[0, 2], [1, 0]]) if axis == 0 else np.array([[0, 3], [1, -1]])
    arrays = {"x": reals(3, 4), "I": places, "u": reals(2, 2, seed=1)}
    compared("ScatterElements", arrays, axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scattered_slices(depth: int, reduction: str) -> None:
    places = np.array([[1, 2, 3], [0, 0, 1]])[:, :depth]
    updates = reals(2, *(2, 3, 4)[depth:], seed=1)
    compared("ScatterND", {"x": reals(2, 3, 4), "I": places, "u": updates}, reduction=reduction)


@pytest.mark.parametrize(
    ("shape", "places", "batch"),
    [
        ((2, 3, 4), (2, 1), 0),
        ((2, 3, 4), (2, 2), 0),
        ((2, 3, 4), (3, 2, 3), 0),
        ((2, 3, 4), (2, 1), 1),
        ((2, 3, 4), (2, 5, 2), 1),
        ((2, 3, 4), (2, 3, 1), 2),
    ],
    ids=str,
)
def test_gathered_slices(shape: tuple[int, ...], places: tuple[int, ...], batch: int) -> None:
    indices = np.random.default_rng(0).integers(0, 2, places)
    compared("GatherND", {"x": reals(*shape), "i": indices}, batch_dims=batch)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_one_hot(axis: int) -> None:
    """Indices below 0 count from the end."""
    arrays = {"x": np.array([[0, 3], [-1, -4]]), "D": np.array(4), "v": np.array([0.5, 2], F)}
    compared("OneHot", arrays, axis=axis)
    compared("OneHot", {"x": arrays["x"], "D": arrays["D"], "V": arrays["v"]}, axis=axis)


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_reversed_sequences(time: int, batch: int) -> None:
    x = reals(4, 3, 2) if batch else reals(3, 4, 2)
    compared("ReverseSequence", {"x": x, "L": np.array([1, 4, 3])}, time_axis=time, batch_axis=batch)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize(
    ("shape", "mode", "padding"),
    [
        (shape, mode, padding)
        for shape in ((2, 3, 4, 5), (1, 2, 3, 4, 2))
        for mode in ("nearest", "linear", "cubic")
        for padding in ("zeros", "border", "reflection")
        # onnxruntime has no cubic volumes, and holds on to the edge what lies next to it.
        if mode != "cubic" or (len(shape) == 4 and padding != "border")
    ],
    ids=str,
)
def test_places_between_elements(shape: tuple[int, ...], mode: str, padding: str, align: int) -> None:
    """Some of them are beyond the ends."""
    grid = np.random.default_rng(1).uniform(-1.7, 1.7, (shape[0], *range(2, len(shape)), len(shape) - 2)).astype(F)
    arrays = {"x": reals(*shape), "g": grid}
    compared("GridSample", arrays, opset=20, mode=mode, padding_mode=padding, align_corners=align)


@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions(ratio: int, place: str) -> None:
    arrays = {
        "x": reals(2, 3, 7, 6),
        "b": np.array([[0.5, 1, 5, 6], [0, 0, 3.3, 2.2], [2, 2.5, 5.5, 4]], F),
        "i": np.array([0, 1, 1]),
    }
    given = {"output_height": 2, "output_width": 3, "sampling_ratio": ratio, "spatial_scale": 0.9}
    compared("RoiAlign", arrays, opset=16, coordinate_transformation_mode=place, **given)


# --- normalisations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("outputs", ["y", "y m i", "y - i"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_layers(has_bias: bool, outputs: str, axis: int) -> None:
    shape = (2, 3, 4)
    arrays = {"x": reals(*shape), "S": reals(*shape[axis:], seed=1)} | (
        {"B": reals(*shape[axis:], seed=2)} if has_bias else {}
    )
    compared("LayerNormalization", arrays, outputs, axis=axis, epsilon=0.1)


def test_normalisation_by_neighbours() -> None:
    compared("LRN", {"x": reals(1, 6, 3, 2)}, size=5, alpha=0.5, beta=0.6, bias=1.5)


@pytest.mark.parametrize("shape", [(2, 6, 4), (1, 6, 3, 2), (2, 6, 2, 3, 2)], ids=str)
@pytest.mark.parametrize("kind", ["InstanceNormalization", "BatchNormalization"])
def test_ranks_of_normalisations(kind: str, shape: tuple[int, ...]) -> None:
    names = "SB" if kind[0] == "I" else "SBMV"
    arrays = {"x": reals(*shape)} | {name: np.abs(reals(6, seed=seed)) + F(0.1) for seed, name in enumerate(names, 1)}
    compared(kind, arrays, epsilon=0.1)


# --- products of Microsoft's -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("turned", "other"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("batches", [(), (2,)], ids=str)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_fused_product(alpha: float, batches: tuple[int, ...], turned: int, other: int) -> None:
    a, b = reals(*batches, *((4, 3) if turned else (3, 4))), reals(*batches, *((5, 4) if other else (4, 5)), seed=1)
    compared("FusedMatMul", {"a": a, "b": b}, domain=MICROSOFT, transA=turned, transB=other, alpha=alpha)


@pytest.mark.parametrize(("simple", "has_beta"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_sums_that_are_normalised(has_beta: bool, has_bias: bool, simple: bool) -> None:
    arrays = {"a": reals(2, 3, 4), "b": reals(2, 3, 4, seed=1), "G": reals(4, seed=2)}
    if not simple:
        arrays["E"] = reals(4, seed=3) if has_beta else None
    if has_bias:
        arrays["C"] = reals(4, seed=4)
    kind = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    compared(kind, arrays, "y - - s", domain=MICROSOFT, epsilon=0.1)


@pytest.mark.parametrize("given", [{}, {"unidirectional": 1}, {"scale": 0.3}, {"mask_filter_value": -2.0}], ids=str)
@pytest.mark.parametrize("has_mask", [True, False])
@pytest.mark.parametrize("sizes", [None, [8, 8, 12]], ids=str)
def test_attention(sizes: list[int] | None, has_mask: bool, given: dict[str, Any]) -> None:
    width = sum(sizes) if sizes else 24
    arrays = {"x": reals(2, 3, 6), "W": reals(6, width, seed=1), "B": reals(width, seed=2)}
    if has_mask:
        arrays["M"] = np.array([[1, 1, 0], [1, 1, 1]], I32)
    own = given | ({"qkv_hidden_sizes": sizes} if sizes else {})
    compared("Attention", arrays, domain=MICROSOFT, num_heads=2, **own)


@pytest.mark.parametrize("given", [{}, {"scale": 0.3}, {"mask_filter_value": -2.0}], ids=str)
@pytest.mark.parametrize("has_mask", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("has_term", [True, False])
def test_attention_of_several_inputs(has_term: bool, has_bias: bool, has_mask: bool, given: dict[str, Any]) -> None:
    arrays = {name: reals(2, 3 if name == "q" else 5, 8, seed=seed) for seed, name in enumerate("qkv")}
    arrays["B"] = reals(24, seed=3) if has_bias else None
    arrays["M"] = np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]], I32) if has_mask else None
    arrays["t"] = reals(2, 2, 3, 5, seed=4) if has_term else None
    compared("MultiHeadAttention", arrays, domain=MICROSOFT, num_heads=2, **given)


# --- against NumPy ---------------------------------------------------------------------------------------------------


def test_sums_that_are_normalised_and_their_statistics() -> None:
    a, b, g = reals(2, 3, 4), reals(2, 3, 4, seed=1), reals(4, seed=2)
    node = op("SkipLayerNormalization", "a b g", "y m i s", domain=MICROSOFT, epsilon=0.1)
    net = model([node], {"a": (F, a.shape), "b": (F, b.shape)}, [], {"g": g})
    for name in "ymis":
        net.graph.output.add(name=name)
    y, mean, inverse, total = actual(load(net.SerializeToString()), {"a": a, "b": b}, "nnapi-reference")
    whole = a.astype(np.float64) + b
    middle, root = whole.mean(-1, keepdims=True), 1 / np.sqrt(whole.var(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(total, whole, rtol=1e-6)
    np.testing.assert_allclose(mean, middle, atol=1e-6)
    np.testing.assert_allclose(inverse, root, rtol=1e-5)
    np.testing.assert_allclose(y, (whole - middle) * root * g, atol=1e-5)


def test_space_to_depth_in_another_order() -> None:
    """Each channel's block is together."""
    x = reals(1, 3, 4, 6)
    net = model([op("SpaceToDepth", "x", "y", blocksize=2, mode="CRD")], {"x": (F, x.shape)}, [])
    net.graph.output.add(name="y")
    (got,) = actual(load(net.SerializeToString()), {"x": x}, "nnapi-reference")
    wanted = x.reshape(1, 3, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 12, 2, 3)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("most", [None, 0, -1])
def test_no_boxes(most: int | None) -> None:
    """They are known without an execution."""
    inputs = {"b": (F, [1, 6, 4]), "s": (F, [1, 2, 6])}
    constants = {} if most is None else {"m": np.array(most)}
    net = model([op("NonMaxSuppression", "b s" + " m" * bool(constants), "y")], inputs, ["y"], constants)
    (found,) = OnnxFile(net.SerializeToString()).known_outputs(shapes={}, constants={}) or [np.ones(1)]
    assert (found.shape, found.dtype) == ((0, 3), I64)


def test_exact_products_of_whole_numbers() -> None:
    """As many are added up as 24 bits have room for, of which 64 rows are looked at together."""
    assert exact_count(None, 0, 0, 10_000) == (1 << 24) // 255**2
    assert exact_count(None, 0, 0, 100) == 100
    for number, count in ((255, 258), (1, 600), (100, 600), (127, 518)):
        factors = np.full((600, 3), number, F)
        factors[:, 1] = 0
        assert exact_count(factors, 0, 0, 600) == count
        assert exact_count(factors, 0, 100, 500) == min(count, 500)
        assert exact_count(factors.T, 1, 0, 600) == count
    assert exact_count(np.full((3, 1), 1e6, F), 0, 0, 3) == 1
