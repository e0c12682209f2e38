"""Operators of ONNX on single elements: real numbers of every kind against onnxruntime, whole ones against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import element, model, op
from onnx_oracle import actual, expected

from nnvk.importers.onnx import OnnxImportError, load

F, I32, I64, U8 = np.float32, np.int32, np.int64, np.uint8
DEVICE = "nnapi-reference"
SIZES = [0.0, 1e-30, 1e-4, 0.1, 0.24, 0.26, 0.49, 0.5, 0.51, 0.75, 0.99, 1.0, 1.01, 1.5, 2.0, 2.5, 3.5, 7.0, 30.0]
REAL = np.array([*SIZES, *(-one for one in SIZES), np.inf, -np.inf, np.nan], F)
PLAIN = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp"),
    *("Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg"),
    *("Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign"),
    *("Sqrt", "Tan", "Tanh"),
)
INEXACT = {
    **dict.fromkeys(("Celu", "Elu", "Selu"), 1e-7),
    **dict.fromkeys(("Acos", "Cos", "Erf", "Sin", "Softplus", "Tan"), 1e-6),
    **dict.fromkeys(("Gelu", "Mish"), 2e-6),
    "Sigmoid": 1e-12,
}
"""The absolute errors that these may have."""
ONLY_FINITE = {"Cos", "Sin", "Tan", "Mish", "Gelu", "HardSwish", "Acosh", "Asinh", "Celu", "Selu", "Elu", "Softsign"}


@pytest.mark.parametrize("kind", PLAIN)
def test_real_numbers(kind: str) -> None:
    x = REAL[np.isfinite(REAL)] if kind in ONLY_FINITE else REAL
    net = model([op(kind, "x", "y")], {"x": (F, x.shape)}, ["y"], opset=20)
    with np.errstate(all="ignore"):
        (want,) = expected(net, {"x": x})
        (got,) = actual(load(net.SerializeToString()), {"x": x}, DEVICE)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=INEXACT.get(kind, 1e-37))


# --- whole numbers ---------------------------------------------------------------------------------------------------

WHOLE = [np.int8, np.uint8, np.int16, np.uint16, I32, I64]


def whole(dtype: Any, zeros: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Each of some numbers, those at the ends of the type too, with each."""
    limits = np.iinfo(dtype)
    numbers = {limits.max, limits.max - 1, limits.min, 7, 3, 2, 1, 0} | ({-1, -2, -3, -7} if limits.min else set())
    numbers = {one for one in numbers if abs(one) < 1 << 31}
    first = np.array(sorted(numbers), dtype)
    second = first if zeros else first[first != 0]
    return first.reshape(-1, 1), second.reshape(1, -1)


def computed(kind: str, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    """The results of the reference device."""
    names = "abcd"[: len(arrays)]
    inputs = {name: (array.dtype, array.shape) for name, array in zip(names, arrays, strict=True)}
    node = op(kind, " ".join(names), "y", **attributes)
    net = model([node], inputs, ["y"], opset=21)
    (got,) = actual(load(net.SerializeToString()), dict(zip(names, arrays, strict=True)), DEVICE)
    return got


def quotient(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Rounded towards 0, and beyond the type wrapped."""
    wide, other = first.astype(object), second.astype(object)
    signs = np.sign(first.astype(np.int64)) * np.sign(second.astype(np.int64))
    return (signs * (np.abs(wide) // np.abs(other))).astype(np.int64).astype(first.dtype)


def remainder(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first - quotient(first, second) * second


PAIRS: dict[str, tuple[Callable[..., np.ndarray], dict[str, Any]]] = {
    "Add": (lambda a, b: a + b, {}),
    "Sub": (lambda a, b: a - b, {}),
    "Mul": (lambda a, b: a * b, {}),
    "Div": (quotient, {}),
    "Mod": (lambda a, b: a - np.floor_divide(a, b) * b, {}),
    "Mod fmod": (remainder, {"fmod": 1}),
    "Max": (np.maximum, {}),
    "Min": (np.minimum, {}),
    "Equal": (np.equal, {}),
    "Greater": (np.greater, {}),
    "GreaterOrEqual": (np.greater_equal, {}),
    "Less": (np.less, {}),
    "LessOrEqual": (np.less_equal, {}),
}


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_of_whole_numbers(kind: str, dtype: Any) -> None:
    formula, attributes = PAIRS[kind]
    first, second = whole(dtype, zeros=kind[:3] not in ("Div", "Mod"))
    with np.errstate(all="ignore"):
        want = formula(first, second)
    got = computed(kind.split()[0], first, second, **attributes)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (kind, dtype)
        for kind in ("Abs", "Neg", "Sign", "Relu")
        for dtype in WHOLE
        if kind != "Neg" or np.iinfo(dtype).min
    ],
)
def test_whole_numbers(kind: str, dtype: Any) -> None:
    first, _ = whole(dtype)
    formulas: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "Abs": np.abs,
        "Neg": np.negative,
        "Sign": np.sign,
        "Relu": lambda array: np.maximum(array, 0),
    }
    got = computed(kind, first)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, formulas[kind](first))


@pytest.mark.parametrize("base", [I32, I64, F])
@pytest.mark.parametrize("exponent", [I32, I64, F])
@pytest.mark.parametrize("known", [None, 0, 1, 2, 3, 4, -1, -2], ids=str)
def test_powers(base: Any, exponent: Any, known: int | None) -> None:
    """Those of whole numbers are constants from 1 to 3, or onnxruntime's."""
    first = np.array([-3, -2, -1, 1, 2, 3, 7], base)
    second = np.array([0, 1, 2, 3, 4, 5, -1, -2] if known is None else [known], exponent)
    inputs = {"a": (base, (7, 1))} | ({"b": (exponent, second.shape)} if known is None else {})
    net = model([op("Pow", "a b", "y")], inputs, ["y"], {} if known is None else {"b": second}, opset=15)
    feeds = {"a": first.reshape(7, 1)} | ({"b": second} if known is None else {})
    if base is not F and known not in (1, 2, 3):
        with pytest.raises(OnnxImportError, match=f"NNAPI raises no {base.__name__} to a power"):
            load(net.SerializeToString())
        return
    (got,) = actual(load(net.SerializeToString()), feeds, DEVICE)
    exact = first.reshape(7, 1).astype(np.float64) ** second.astype(np.float64)
    assert got.dtype == base
    np.testing.assert_allclose(got, exact, rtol=1e-5 if base is F else 0)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(("kind", "formula"), [("Sum", np.sum), ("Mean", np.mean), ("Max", np.max), ("Min", np.min)])
def test_any_number_of_inputs(kind: str, formula: Callable[..., np.ndarray], count: int) -> None:
    """They broadcast."""
    shapes = [(2, 1, 4), (3, 1), (4,), ()][:count]
    arrays = [np.random.default_rng(seed).standard_normal(shape).astype(F) for seed, shape in enumerate(shapes)]
    want = formula(np.stack(np.broadcast_arrays(*arrays)), axis=0)
    np.testing.assert_allclose(computed(kind, *arrays), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shapes", [((1,), ()), ((), (1,)), ((), ()), ((1, 1), ()), ((1,), (1, 1, 1))], ids=str)
def test_ranks_of_one_element(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """It has none where no input has any."""
    for kind in ("Add", "Max", "Less"):
        node = op(kind, "a b", "y")
        for known in ("", "b"):
            free = {name: (F, shape) for name, shape in zip("ab", shapes, strict=True) if name not in known}
            constants = {"b": np.ones(shapes[1], F)} if known else {}
            imported = load(model([node], free, ["y"], constants).SerializeToString())
            assert imported.outputs[0].shape == np.broadcast_shapes(*shapes)


@pytest.mark.parametrize("kind", ["And", "Or", "Xor", "Equal"])
def test_pairs_of_truths(kind: str) -> None:
    formulas = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}
    first, second = np.array([[False], [True]]), np.array([False, True])
    np.testing.assert_array_equal(computed(kind, first, second), formulas[kind](first, second))


# --- choices and types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["true", "false", "mixed"])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 1)], ids=str)
def test_a_known_choice(condition: str, shape: tuple[int, ...]) -> None:
    """Where one side is taken entirely and has the shape of the result, it is the result."""
    flags = {"true": [True] * 4, "false": [False] * 4, "mixed": [True, False, True, True]}[condition]
    a, b = np.arange(np.prod(shape), dtype=F).reshape(shape), -np.arange(12, dtype=F).reshape(3, 4) - 1
    net = model([op("Where", "c a b", "y")], {"a": (F, a.shape), "b": (F, b.shape)}, ["y"], {"c": np.array(flags)})
    imported = load(net.SerializeToString())
    (got,) = actual(imported, {"a": a, "b": b}, DEVICE)
    np.testing.assert_array_equal(got, np.where(flags, a, b))
    is_one = condition == "false" or (condition == "true" and shape == (3, 4))
    assert ("SELECT" not in [one.code.name for one in imported.model.frozen.operations]) == is_one


TYPES = [np.bool_, np.int8, U8, np.int16, np.uint16, I32, np.uint32, I64, np.float16, F, np.float64]


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("kind", ["Cast", "CastLike"])
def test_casts(kind: str, source: Any, target: Any) -> None:
    """Whole numbers wrap, and real ones lose their parts."""
    numbers = np.array([0, 1, 2, 0.5, 1.5, 2.75, 100, 200, 300, -1, -2, -1.5, -100, -300])
    if np.dtype(source).kind in "iu":
        numbers = numbers[(numbers >= np.iinfo(source).min) & (numbers <= np.iinfo(source).max)]
    elif np.dtype(source).kind == "f" and np.dtype(target).kind in "iu":
        numbers = numbers[(numbers >= np.iinfo(target).min) & (numbers <= np.iinfo(target).max)]
    x = numbers.astype(source)
    constants = {"t": np.zeros(1, target)} if kind == "CastLike" else {}
    attributes = {} if constants else {"to": int(element(target))}
    node = op(kind, "x t" if constants else "x", "y", **attributes)
    net = model([node], {"x": (source, x.shape)}, ["y"], constants, opset=19)
    (got,) = actual(load(net.SerializeToString()), {"x": x}, DEVICE)
    assert got.dtype == target
    np.testing.assert_array_equal(got, x.astype(target))
