"""Microsoft's operators on levels, and products of whole numbers, against onnxruntime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from in_turn import devices
from onnx_net import model, op
from onnx_oracle import actual, check, operations

from nnvk.importers.onnx import load

MICROSOFT = "com.microsoft"
F = np.float32


def levels(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("first", "second"), [((3, 5), (3, 5)), ((2, 3, 5), (3, 1)), ((5,), (2, 3, 5))], ids=str)
@pytest.mark.parametrize(("scale", "is_direct"), [(0.4, True), (0.001, False)])
def test_pairs(
    kind: str, dtype: Any, first: tuple[int, ...], second: tuple[int, ...], scale: float, is_direct: bool
) -> None:
    """NNAPI multiplies levels where the product of the scales is below the output's."""
    constants = {
        **{name: np.array(value, F) for name, value in (("s", 0.05), ("t", 0.04), ("u", scale))},
        **{name: np.array(value, dtype) for name, value in (("z", 7), ("o", 3), ("p", 11))},
    }
    node = op(kind, "a s z b t o u p", "y", domain=MICROSOFT)
    net = model([node], {"a": (dtype, first), "b": (dtype, second)}, ["y"], constants)
    imported = check(net, {"a": levels(dtype, *first), "b": levels(dtype, *second, seed=1)}, steps=1)
    is_direct = is_direct or kind == "QLinearAdd"
    assert ("SUB" not in operations(imported)) == is_direct


@pytest.mark.parametrize("kind", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions(kind: str, dtype: Any) -> None:
    constants = {
        "s": np.array(0.05, F),
        "t": np.array(1 / 256 if kind == "QLinearSigmoid" else 0.04, F),
        "z": np.array(7, dtype),
        "o": np.array(np.iinfo(dtype).min if kind == "QLinearSigmoid" else 3, dtype),
    }
    attributes = {"alpha": 0.3} if kind == "QLinearLeakyRelu" else {}
    node = op(kind, "a s z t o", "y", domain=MICROSOFT, **attributes)
    net = model([node], {"a": (dtype, [16, 16])}, ["y"], constants)
    check(net, {"a": np.arange(256).astype(dtype).reshape(16, 16)}, steps=1)


def test_the_slope_is_1_hundredth_unless_another_is_given() -> None:
    constants = {"s": np.array(1.0, F), "t": np.array(0.01, F), "z": np.array(0, np.int8), "o": np.array(0, np.int8)}
    node = op("QLinearLeakyRelu", "a s z t o", "y", domain=MICROSOFT)
    net = model([node], {"a": (np.int8, [4])}, ["y"], constants)
    check(net, {"a": np.int8([-100, -3, 0, 1])}, steps=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_global_average_pool(dtype: Any) -> None:
    constants = {
        **{"s": np.array(0.05, F), "t": np.array(0.02, F)},
        **{"z": np.array(7, dtype), "o": np.array(3, dtype)},
    }
    node = op("QLinearGlobalAveragePool", "a s z t o", "y", domain=MICROSOFT, channels_last=0)
    check(model([node], {"a": (dtype, [2, 3, 5, 4])}, ["y"], constants), {"a": levels(dtype, 2, 3, 5, 4)}, steps=1)


@pytest.mark.parametrize("slopes", [(1,), (4,), (3, 1)], ids=str)
def test_slopes_of_whole_numbers(slopes: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (2, 3, 4)).astype(np.int32)
    slope = np.random.default_rng(4).integers(-3, 4, slopes).astype(np.int32)
    net = model([op("PRelu", "a b", "y")], {"a": (np.int32, x.shape)}, ["y"], {"b": slope}, opset=16)
    imported = load(net.SerializeToString())
    for device in devices():
        (got,) = actual(imported, {"a": x}, device)
        np.testing.assert_array_equal(got, np.where(x < 0, slope * x, x))


@pytest.mark.parametrize("size", [32, 40])
@pytest.mark.parametrize("points", ["none", "levels", "real"])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_in_blocks_that_are_unpacked(size: int, points: str, bits: int) -> None:
    """Weights of 8 bits, and those whose zero points are real numbers."""
    rng, units, block = np.random.default_rng(6), 3, 16
    blocks = -(-size // block)
    wide = rng.integers(0, 1 << bits, (units, blocks, block)).astype(np.uint8)
    packed = wide if bits == 8 else wide[..., ::2] | wide[..., 1::2] << 4
    scales = rng.uniform(0.5, 2, (units, blocks)).astype(F)
    constants = {"w": packed, "s": scales.reshape(-1)}
    zero = np.full((units, blocks), 1 << (bits - 1), F)
    if points == "levels":
        zero = rng.integers(0, 1 << bits, (units, blocks)).astype(F)
        whole = zero.astype(np.uint8)
        even = np.pad(whole, [(0, 0), (0, blocks % 2)])
        constants["z"] = (whole if bits == 8 else even[:, ::2] | even[:, 1::2] << 4).reshape(-1)
    elif points == "real":
        zero = rng.uniform(0, 1 << bits, (units, blocks)).astype(F)
        constants["z"] = zero.reshape(-1)
    names = "x w s" + (" z" if points != "none" else "")
    node = op("MatMulNBits", names, "y", domain=MICROSOFT, K=size, N=units, bits=bits, block_size=block)
    x = rng.normal(0, 1, (2, size)).astype(F)
    imported = load(model([node], {"x": (F, x.shape)}, ["y"], constants).SerializeToString())
    real = ((wide - zero[..., np.newaxis]) * scales[..., np.newaxis]).reshape(units, -1)[:, :size]
    wanted = x @ real.T
    for device in devices():
        (got,) = actual(imported, {"x": x}, device)
        np.testing.assert_allclose(got, wanted, atol=2e-4 * np.abs(wanted).max())
