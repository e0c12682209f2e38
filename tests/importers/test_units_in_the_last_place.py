"""Functions of real numbers over the whole range of FLOAT32: within 4 units in the last place of the true result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builder import Builder

import nnvk
from nnvk import ExtendedOperationCode, OperandCode, OperandType, OperationCode

pytest.importorskip("onnx")

from onnx_net import model, op
from onnx_oracle import actual

from nnvk.importers.onnx import load

F = np.float32
TINY = float(np.finfo(F).tiny)
DEVICES = ("vulkan-0", "nnapi-reference")
MOST = 4.0
SINES = 2.0
"""The most for Sin and Cos."""
SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, 3.4028235e38, TINY, 1e-45, 1e-40, np.inf, np.nan]
Function = Callable[..., np.ndarray]


def _bits(rng: np.random.Generator, count: int, first: int, last: int) -> np.ndarray:
    """Numbers of both signs whose biased exponents are evenly spread."""
    signs = rng.integers(0, 2, count, np.uint32) << 31
    exponents = rng.integers(first, last, count, dtype=np.uint32, endpoint=True) << 23
    return (signs | exponents | rng.integers(0, 1 << 23, count, np.uint32)).view(F)


def points() -> np.ndarray:
    """All exponents, those around 1 more often, and the numbers where functions change."""
    rng = np.random.default_rng(3)
    every = [_bits(rng, 50_000, 0, 254), _bits(rng, 50_000, 100, 146), rng.uniform(-20, 20, 20_000).astype(F)]
    near = [place * (1 + np.arange(-20, 20) * 2.0**-24) for place in (0.25, 0.5, 1, 2, 88.7)]
    quarters = (np.arange(-2000, 2000) * (math.pi / 4)).astype(F)
    return np.concatenate([*every, *near, quarters, SPECIAL, -np.array(SPECIAL)]).astype(F)


def units(got: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The errors in units in the last place. Subnormal results may be any; NaN and infinities must be equal."""
    with np.errstate(all="ignore"):
        nearest = truth.astype(F)
        size = np.abs(truth)
        unit = np.exp2(np.floor(np.log2(np.clip(size, TINY, float(np.finfo(F).max)))) - 23)
        errors = np.abs(got.astype(np.float64) - truth) / unit
        errors = np.where((size < TINY) & (np.abs(got) < TINY), 0, errors)
        return np.where(np.isfinite(nearest) & np.isfinite(got), errors, np.where(_same(got, nearest, size), 0, np.inf))


def _same(got: np.ndarray, nearest: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Results at the very end of the range may be infinite, or finite."""
    at_end = (size > 3.402821e38) & (size < 3.402825e38) & (np.abs(got) > 3.4028e38)
    return (got == nearest) | (np.isnan(got) & np.isnan(nearest)) | at_end


def worst(got: np.ndarray, function: Function, *operands: np.ndarray) -> tuple[float, tuple[float, ...]]:
    """The largest error and where it is. A device may take subnormal operands for zeros."""
    with np.errstate(all="ignore"):
        wide = [operand.astype(np.float64) for operand in operands]
        flushed = [np.where(np.abs(operand) < TINY, operand * 0, operand) for operand in wide]
        errors = np.minimum(units(got, function(*wide)), units(got, function(*flushed)))
    place = int(np.argmax(errors))
    return float(errors[place]), (*(float(operand[place]) for operand in operands), float(got[place]))


def logistic(x: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, tail) / (1 + tail)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def swish(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return x * logistic(alpha * x)


def gelu(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The product of a number and its weight; at -infinity its limit, where onnxruntime has NaN."""
    return np.where(np.isneginf(x), -0.0, x * weight)


def hard_swish(x: np.ndarray) -> np.ndarray:
    return x * (np.clip(x + 3, 0, 6) / 6)


erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])
SELU = [float(F(one)) for one in (1.6732632423543772, 1.0507009873554805)]
THIRD, SLOPE = float(F(0.3)), float(F(1.702))
UNARY: dict[str, tuple[str, dict[str, Any], Function]] = {
    **{
        name: (name, {}, getattr(np, function))
        for name, function in (
            *(("Acos", "arccos"), ("Acosh", "arccosh"), ("Asin", "arcsin"), ("Asinh", "arcsinh"), ("Atan", "arctan")),
            *(("Atanh", "arctanh"), ("Cos", "cos"), ("Cosh", "cosh"), ("Exp", "exp"), ("Log", "log"), ("Sin", "sin")),
            *(("Sinh", "sinh"), ("Sqrt", "sqrt"), ("Tan", "tan"), ("Tanh", "tanh"), ("Abs", "abs"), ("Ceil", "ceil")),
            *(
                ("Floor", "floor"),
                ("Neg", "negative"),
                ("Round", "rint"),
                ("Sign", "sign"),
                ("Reciprocal", "reciprocal"),
            ),
        )
    },
    "Celu": ("Celu", {"alpha": 0.3}, lambda x: np.maximum(x, 0) + THIRD * np.expm1(np.minimum(x, 0) / THIRD)),
    "Elu": ("Elu", {}, elu),
    "Elu 0.3": ("Elu", {"alpha": 0.3}, lambda x: elu(x, THIRD)),
    "Erf": ("Erf", {}, erf),
    "Gelu": ("Gelu", {}, lambda x: gelu(x, erfc(-x * math.sqrt(0.5)) / 2)),
    "Gelu by Tanh": (
        "Gelu",
        {"approximate": "tanh"},
        lambda x: gelu(x, logistic(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "HardSwish": ("HardSwish", {}, hard_swish),
    "Mish": ("Mish", {}, lambda x: x * np.tanh(softplus(x))),
    "Selu": ("Selu", {}, lambda x: SELU[1] * elu(x, SELU[0])),
    "Sigmoid": ("Sigmoid", {}, logistic),
    "Softplus": ("Softplus", {}, softplus),
    "Softsign": ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    "Swish": ("Swish", {}, swish),
    "Swish 1.702": ("Swish", {"alpha": 1.702}, lambda x: swish(x, SLOPE)),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    kind, attributes, function = UNARY[name]
    x = points()
    net = model([op(kind, "x", "y", **attributes)], {"x": (F, x.shape)}, {"y": F}, opset=24 if kind == "Swish" else 20)
    imported = load(net.SerializeToString())
    for device in DEVICES:
        (got,) = actual(imported, {"x": x}, device)
        error, where = worst(got, function, x)
        print(f"ulp {name} {device}: {error:.2f} at {where}")
        assert error <= (SINES if name in ("Sin", "Cos") else MOST), (device, where)


def _floor_remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rest = np.fmod(x, y)
    return np.where((rest != 0) & (np.signbit(rest) != np.signbit(y)), rest + y, rest)


PAIRS: dict[str, tuple[Any, Function]] = {
    "ATAN2": (ExtendedOperationCode.ATAN2, np.arctan2),
    "DIV": (OperationCode.DIV, np.divide),
    "FLOOR_DIV": (ExtendedOperationCode.FLOOR_DIV, lambda x, y: np.floor((x / y).astype(F)).astype(np.float64)),
    "FLOOR_MOD": (ExtendedOperationCode.FLOOR_MOD, _floor_remainder),
    "FMOD": (ExtendedOperationCode.FMOD, np.fmod),
    "POW": (OperationCode.POW, np.power),
}


def run(code: Any, *operands: np.ndarray, device: str) -> np.ndarray:
    """One operation on arrays of one shape."""
    build, type_ = Builder(), OperandType(OperandCode.TENSOR_FLOAT32, operands[0].shape)
    sources = [build.operand(type_) for _ in operands]
    compilation = nnvk.Compilation(
        build.finish(sources, [build.operation(code, sources, type_)]), [nnvk.get_device(device)]
    )
    compilation.finish()
    return nnvk.run(compilation, operands)[0]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("device", DEVICES)
def test_functions_of_two_numbers(name: str, device: str) -> None:
    code, function = PAIRS[name]
    first, rng = points(), np.random.default_rng(4)
    second = rng.permutation(first)
    second[::3] = (first[::3] * rng.uniform(0.01, 1, first[::3].size)).astype(F)  # of about the same size
    if name == "POW":
        with np.errstate(all="ignore"):
            second[::2] = (rng.uniform(-90, 90, second[::2].size) / np.log(np.abs(first[::2]) + 1e-30)).astype(F)
        first[::4], second[::4] = np.abs(first[::4]), np.where(np.isnan(second[::4]), 2, second[::4])
    special = np.array([*SPECIAL, *(-one for one in SPECIAL)], F)
    first = np.concatenate([first, np.repeat(special, special.size)])
    second = np.concatenate([second, np.tile(special, special.size)])
    if name.startswith("FLOOR"):  # a device may take sums and quotients between for zeros
        with np.errstate(all="ignore"):
            sizes = np.abs([first, second, first / second]).astype(np.float64)
        is_small = np.any((sizes < TINY * 2**24) & (sizes > 0), axis=0)
        first, second = first[~is_small], second[~is_small]
    error, where = worst(run(code, first, second, device=device), function, first, second)
    print(f"ulp {name} {device}: {error:.2f} at {where}")
    assert error <= MOST, where


def test_the_cube_root() -> None:
    x = points()
    for device in DEVICES:
        error, where = worst(run(ExtendedOperationCode.CBRT, x, device=device), np.cbrt, x)
        print(f"ulp CBRT {device}: {error:.2f} at {where}")
        assert error <= MOST, (device, where)
