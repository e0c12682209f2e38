"""Models at sizes that they were not planned for: results are onnxruntime's, and few sizes are planned."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import NodeProto
from onnx_net import model, op
from profiles import DEVICES
from rewritten import library

import nnvk
from nnvk.base.settings import override
from nnvk.driver.vulkan.planning import planner
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.importers import formats
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

onnxruntime = pytest.importorskip("onnxruntime")
F, I64 = np.float32, np.int64
RNG = np.random.default_rng(5)


@dataclass
class Net:
    """A model with open sizes, and the shapes of its inputs for two sizes."""

    nodes: Sequence[NodeProto]
    inputs: Mapping[str, tuple[Any, Sequence[int | str]]]
    constants: Mapping[str, np.ndarray]
    outputs: Sequence[str] = ("y",)

    @property
    def data(self) -> bytes:
        return model(self.nodes, self.inputs, self.outputs, self.constants).SerializeToString()


def weights(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) / np.sqrt(shape[0])).astype(F)


ATTENTION = Net(
    [
        op("Shape", "ids", "s"),
        op("Gather", "s one", "n", axis=0),
        op("Range", "zero n one", "places"),
        op("Gather", "words ids", "e"),
        op("Gather", "positions places", "p"),
        op("Add", "e p", "x"),
        *(op("MatMul", f"x {name}", f"{name}x") for name in "qkv"),
        *(op("Reshape", f"{name}x heads", f"{name}h") for name in "qkv"),
        *(
            op("Transpose", f"{name}h", f"{name}t", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
            for name in "qkv"
        ),
        op("MatMul", "qt kt", "scores"),
        op("Softmax", "scores", "shares", axis=-1),
        op("IsNaN", "shares", "nans"),
        op("Where", "nans nought shares", "safe"),
        op("MatMul", "safe vt", "mixed"),
        op("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        op("Reshape", "back flat", "y0"),
        op("LayerNormalization", "y0 scale", "y", axis=-1),
    ],
    {"ids": (I64, [1, "n"])},
    {
        **{name: weights(24, 24) for name in "qkv"},
        **{"words": weights(50, 24), "positions": weights(90, 24), "scale": np.ones(24, F)},
        **{"heads": np.array([0, -1, 3, 8]), "flat": np.array([0, -1, 24])},
        **{"zero": np.array(0), "one": np.array(1), "nought": np.array(0, F)},
    },
)
IMAGES = Net(
    [
        op("Conv", "x w", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        op("Relu", "a", "b"),
        op("Conv", "b u", "c", pads=[1, 1, 1, 1], group=8),
        op("Clip", "c low high", "d"),
        op("Resize", "d - scales", "e", mode="nearest", coordinate_transformation_mode="asymmetric"),
        op("Resize", "b - scales", "f", mode="linear"),
        op("Concat", "e f", "g", axis=1),
        op("AveragePool", "g", "h", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        op("GlobalAveragePool", "h", "means"),
        op("Mul", "h means", "y"),
    ],
    {"x": (F, [1, 3, "h", "w"])},
    {
        **{"w": weights(8, 3, 3, 3), "u": weights(8, 1, 3, 3), "low": F(0), "high": F(6)},
        **{"scales": np.array([1, 1, 2, 2], F)},
    },
)
CACHE = Net(
    [
        op("MatMul", "x q", "queries"),
        op("MatMul", "x k", "new"),
        op("Concat", "past new", "keys", axis=1),
        op("Transpose", "keys", "turned", perm=[0, 2, 1]),
        op("MatMul", "queries turned", "scores"),
        op("Softmax", "scores", "shares", axis=-1),
        op("MatMul", "shares keys", "y"),
    ],
    {"x": (F, [1, 1, 24]), "past": (F, [1, "n", 24])},
    {"q": weights(24, 24), "k": weights(24, 24)},
    ("y", "keys"),
)
NUMBERS = Net(
    [
        op("Shape", "x", "s"),
        op("Gather", "s one", "n", axis=0),
        op("Cast", "n", "n32", to=6),
        op("Add", "i n32", "sums"),
        op("Sub", "n one", "last"),
        op("Gather", "x last", "end", axis=1),
        op("Concat", "n one n", "tripled", axis=0),
        op("Cast", "tripled", "t32", to=6),
        op("Mul", "j t32", "products"),
        op("Neg", "x", "y"),
    ],
    {"x": (F, [1, "n", 24]), "i": (np.int32, [1, 5]), "j": (np.int32, [2, 3])},
    {"one": np.array([1])},
    ("y", "sums", "end", "products"),
)
"""Sizes are elements of tensors, and indices."""
NETS = {"attention": ATTENTION, "images": IMAGES, "cache": CACHE, "numbers": NUMBERS}
SIZES = [(9, 14), (13, 11), (17, 15), (21, 7), (11, 23), (24, 20), (28, 36), (23, 9), (39, 26), (5, 6), (61, 30)]
"""Values of the first open size and of the second one: odd, prime, and multiples of 4."""


def feeds(net: Net, sizes: Sequence[int]) -> dict[str, np.ndarray]:
    """Inputs of these sizes."""
    symbols: dict[str, int] = {}
    found = {}
    for name, (dtype, shape) in net.inputs.items():
        whole = [size if isinstance(size, int) else symbols.setdefault(size, sizes[len(symbols) % 2]) for size in shape]
        drawn = np.random.default_rng(sizes[0]).normal(size=whole)
        found[name] = drawn.astype(dtype) if dtype is F else (abs(drawn) * 9).astype(dtype)
    return found


def compare(net: Net, loaded: Any, session: Any, sizes: Sequence[int]) -> None:
    given = feeds(net, sizes)
    for result, expected in zip(loaded(given, outputs=net.outputs), session.run(None, given), strict=True):
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5, err_msg=str(sizes))


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
def test_results_are_onnxruntimes(name: str, device: nnvk.Device) -> None:
    net = NETS[name]
    loaded, session = nnvk.load(net.data, device=device), onnxruntime.InferenceSession(net.data)
    for sizes in SIZES:
        compare(net, loaded, session, sizes)


@pytest.mark.parametrize("profile", DEVICES)
def test_profiles_of_devices(profile: str, tmp_path: Path) -> None:
    """Plans are those that are made anew, for devices that need not be there."""
    found = replace(DEVICES[profile], features=library().features if DEVICES[profile].features else frozenset())
    for net in NETS.values():
        file, options = formats.read(net.data), PrepareOptions(families={})
        with override(cache_dir=str(tmp_path)):
            planner_of_device = planner.Planner(found, library(), "version")
            for sizes in SIZES[:7]:
                shapes = {name: array.shape for name, array in feeds(net, sizes).items()}
                frozen = file.load(shapes=shapes).model.frozen
                planner_of_device.plan(frozen, [type_.dimensions for type_ in frozen.input_types()], options)
        (families,) = options.families.values()
        assert 1 <= len(families) <= 4


@pytest.mark.skipif(len(nnvk.get_devices()) < 2, reason="there is no Vulkan device")
@pytest.mark.parametrize("name", NETS)
def test_few_sizes_are_planned(name: str, lowered: list[Model]) -> None:
    net = NETS[name]
    loaded, session = nnvk.load(net.data), onnxruntime.InferenceSession(net.data)
    with override(verify_sizes=False):
        for size in range(33, 63, 2):
            compare(net, loaded, session, (size, size + 2 * (size % 3)))
    assert len(lowered) <= 6, "of 15 sizes"


@pytest.mark.skipif(len(nnvk.get_devices()) < 2, reason="there is no Vulkan device")
def test_zeros_for_nan_are_part_of_the_softmax_of_all_sizes() -> None:
    loaded = nnvk.load(ATTENTION.data, device="vulkan-0")
    for size in (33, 35, 37):
        loaded(feeds(ATTENTION, (size, size)))
        (plan,) = cast(VulkanPreparedModel, loaded.compilation.partitions[0].prepared).plans()
        names = {command.shader.name for command in plan.plan.commands if isinstance(command, Dispatch)}
        assert "softmax_rows.f32" in names
        assert "compare.not_equal.f32" not in names


@pytest.mark.skipif(len(nnvk.get_devices()) < 2, reason="there is no Vulkan device")
def test_few_batches_are_planned(lowered: list[Model]) -> None:
    """Tiles for a few rows serve several numbers of them."""
    rows = np.random.default_rng(0).standard_normal((8, 24)).astype(F)
    net = model([op("MatMul", "x w", "y")], {"x": (F, ["n", 24])}, ["y"], {"w": weights(24, 24)})
    loaded, exact = (nnvk.load(net.SerializeToString(), device=name) for name in ("vulkan-0", "nnapi-reference"))
    with override(verify_sizes=False):
        for count in range(1, 8):
            np.testing.assert_allclose(loaded(rows[:count]), exact(rows[:count]), rtol=1e-5, atol=1e-5)
    assert len(lowered) <= 4, "of 7 sizes"


def test_the_log_does_not_look_at_sizes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "nnvk")
    loaded = nnvk.load(CACHE.data)
    for size in (33, 35, 37):
        loaded(feeds(CACHE, (size, size)))
    assert "finished: operations" in caplog.text
    assert "needs a size itself" not in caplog.text
