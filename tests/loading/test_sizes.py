"""Sizes that files leave open: any at each call, plans that are kept, names of sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op
from PIL import Image
from tflite_net import Net, T, write

import nnvk
from nnvk import Model, NnapiError
from nnvk.base.extents import has_extents
from nnvk.base.settings import override
from nnvk.importers import formats
from nnvk.loading import LoadedModel
from nnvk.loading.loader import free_shapes

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def rows(*, fixed: bool = False) -> bytes:
    """x W + y, for any number of rows."""
    count = 2 if fixed else "rows"
    net = model(
        [op("MatMul", "x w", "m"), op("Add", "m y", "z")],
        {"x": (np.float32, [count, 3]), "y": (np.float32, [count, 4])},
        ["z"],
        {"w": WEIGHTS},
    )
    return net.SerializeToString()


def inputs(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(count)
    return [generator.random((count, size), np.float32) for size in (3, 4)]


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes of each import."""
    seen: list[Any] = []
    load = formats.ModelFile.load

    def spy(file: formats.ModelFile, **arguments: object) -> object:
        seen.append(arguments["shapes"])
        return load(file, **arguments)

    monkeypatch.setattr(formats.ModelFile, "load", spy)
    return seen


@pytest.mark.parametrize("device", ["cpu", None])
def test_any_size_at_each_call(device: str | None, imports: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = nnvk.load(rows(), device=device)
    assert loaded.is_open
    monkeypatch.setattr("nnvk.importers.onnx.file.parse", lambda _: pytest.fail("it is parsed again"))
    with override(verify_sizes=False):
        for count in (5, 1, 7, 5, 7, 11, 9):
            x, y = inputs(count)
            np.testing.assert_allclose(loaded(x, y), x @ WEIGHTS + y, rtol=1e-5)
    first, second, traced = imports
    assert (first, second) == ({}, {"x": (5, 3), "y": (5, 4)})
    assert has_extents(size for shape in traced.values() for size in shape), "the sizes behind it are not imported"
    assert "x float32 rowsx3, y float32 rowsx4 -> z float32" in repr(loaded)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (((2, 3), (3, 4)), "size 'rows' is 3 in 'y', and 2 in an input before it"),
        (((2, 5), (2, 4)), "'x' must have shape rowsx3, got 2x5"),
        (((0, 3), (0, 4)), "'x' must have shape rowsx3, got 0x3; NNAPI has no tensors without elements"),
    ],
)
def test_sizes_that_do_not_fit(shapes: tuple[tuple[int, int], ...], reason: str) -> None:
    loaded = nnvk.load(rows(), device="cpu")
    with pytest.raises(NnapiError) as caught:
        loaded(*(np.zeros(shape, np.float32) for shape in shapes))
    assert caught.value.reason == reason


@pytest.mark.parametrize("shapes", [{"rows": 4}, {"x": (4, 3)}, {"y": (4, None)}, {"rows": [4]}])
def test_a_size_by_its_name_or_by_an_inputs_shape(shapes: dict[str, object], imports: list[Any]) -> None:
    loaded = nnvk.load(rows(), device="cpu", shapes=shapes)
    assert not loaded.is_open
    x, y = inputs(4)
    assert loaded(x, y).shape == (4, 4)
    assert imports == [shapes]
    with pytest.raises(
        NnapiError, match=r"'x' must have shape 4x3, got 5x3; --shape or nnvk.load\(..., shapes=...\) gives others"
    ):
        loaded(*inputs(5))


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (
            {"row": 4},
            r"no input .* is called 'row', there are \['x', 'y'\], and the sizes \['rows'\]; did you mean 'rows'",
        ),
        ({"rows": (4, 3)}, r"'rows' is one size of the model, got \[4, 3\]"),
        ({"rows": -2}, "the size 'rows' must be at least 0"),
        ({"rows": 0}, r"'z' of shape \[0, 4\] has no elements"),
        ({"rows": 4, "x": (5, 3)}, "'rows' can't be 4 and 5"),
    ],
)
def test_names_of_sizes_that_are_none(shapes: dict[str, object], reason: str) -> None:
    with pytest.raises(NnapiError, match=reason):
        nnvk.load(rows(), device="cpu", shapes=shapes)


def test_which_sizes_are_free() -> None:
    ports = formats.load(rows()).inputs
    assert free_shapes(ports, {}) == [(-1, 3), (-1, 4)]
    assert free_shapes(ports, {"x": (-1, 3)}) == [(-1, 3), (-1, 4)]
    assert free_shapes(ports, {"rows": 1}) == free_shapes(ports, {"x": (1, 3)}) == [(1, 3), (1, 4)]


def test_a_fixed_size_is_no_other_at_a_call() -> None:
    loaded = nnvk.load(rows(fixed=True), device="cpu")
    assert not loaded.is_open
    with pytest.raises(NnapiError, match="'x' must have shape 2x3, got 3x3"):
        loaded(*inputs(3))
    assert nnvk.load(rows(fixed=True), device="cpu", shapes={"x": (3, 3), "y": (3, 4)})(*inputs(3)).shape == (3, 4)


def plans(loaded: LoadedModel) -> list[int]:
    """The numbers of rows that plans are kept for, the one that was used last at the end."""
    return [shaped.expected[0][1][0] for shaped in loaded._plans]


def test_the_plans_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnvk.loading.plans.held_alone", lambda compilation: (60, {("cpu", "weights"): 120}))
    loaded = nnvk.load(rows(), device="cpu", plan_bytes=180)  # 3 x 60, and weights that all of them share
    for count in (1, 2, 3, 1, 4):
        loaded(*inputs(count))
    assert plans(loaded) == [3, 1, 4]
    tight = nnvk.load(rows(), device="cpu", plan_bytes=0)
    for count in (1, 2):
        tight(*inputs(count))
    assert plans(tight) == [2], "the latest one is kept"


def test_memory_that_several_plans_share_drops_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays with those that stay: a workspace that one size has made large, say."""
    needed = iter([(1, 900), (1, 10), (1, 10), (400, 10), (1, 10)])
    held: dict[Any, tuple[int, dict[tuple[str, str], int]]] = {}

    def of(compilation: Any) -> tuple[int, dict[tuple[str, str], int]]:
        if compilation not in held:
            own, shared = next(needed)
            held[compilation] = own, {("cpu", "workspace"): shared}
        return held[compilation]

    monkeypatch.setattr("nnvk.loading.plans.held_alone", of)
    loaded = nnvk.load(rows(), device="cpu", plan_bytes=300)
    for count in (1, 2, 3):
        loaded(*inputs(count))
    assert plans(loaded) == [1, 2, 3]
    loaded(*inputs(4))
    assert plans(loaded) == [4], "the latest one is kept"
    loaded(*inputs(5))
    assert plans(loaded) == [5]


def test_a_plan_says_how_much_it_holds() -> None:
    loaded = nnvk.load(rows())
    loaded.prepare(*inputs(3))
    partitions = loaded.compilation.partitions
    assert loaded.nbytes == sum(sum(partition.prepared.memory_bytes().values()) for partition in partitions) > 0


def deep_rows() -> bytes:
    """x V W, with weights that are large."""
    generator = np.random.default_rng(0)
    weights = {name: generator.standard_normal((257, 257), np.float32) / 16 for name in "vw"}
    net = model(
        [op("MatMul", "x v", "m"), op("MatMul", "m w", "y")], {"x": (np.float32, ["rows", 257])}, ["y"], weights
    )
    return net.SerializeToString()


def test_weights_are_on_the_device_once() -> None:
    """Twenty sizes take little more memory than one, and the plans of all are kept."""
    device = next((each for each in nnvk.get_devices() if each.type is nnvk.DeviceTypeCode.GPU), None)
    if device is None:
        pytest.skip("there is no Vulkan device")
    weights = 2 * 4 * 257 * 257
    loaded = nnvk.load(deep_rows(), device=device, plan_bytes=4 * weights)
    one = 0
    for rows in range(1, 21):
        x = np.random.default_rng(rows).standard_normal((rows, 257), np.float32)
        exact = nnvk.load(deep_rows(), device="cpu", shapes={"rows": rows})(x) if rows in (1, 7, 20) else None
        y = loaded(x)
        if exact is not None:
            np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)
        one = one or loaded.nbytes
    assert plans(loaded) == list(range(1, 21))
    assert weights < one < 2 * weights
    assert loaded.nbytes < 3 * weights, "not twenty times the weights"
    loaded.close()
    assert loaded.nbytes == 0


def test_models_of_one_file_share_its_constants() -> None:
    """The elements of the file are in memory once, whatever the number of plans."""
    large = np.random.default_rng(0).random((256, 256), np.float32)
    data = model([op("Add", "x w", "y")], {"x": (np.float32, ["n", 256])}, ["y"], {"w": large[:1]}).SerializeToString()
    loaded = nnvk.load(data, device="cpu")
    constants = []
    for count in (2, 3):
        zeros = np.zeros((count, 256), np.float32)
        assert (loaded(zeros) == large[:1]).all()
        frozen = loaded.shaped([zeros]).model.frozen
        constants += [
            operand.value for operand in frozen.operands if operand.value is not None and operand.value.size == 256
        ]
    assert len(constants) == 2
    assert np.shares_memory(constants[0], constants[1])


def test_a_photo_keeps_its_size_where_the_model_takes_any() -> None:
    net = model([op("Neg", "photo", "y")], {"photo": (np.float32, ["n", 3, "height", "width"])}, ["y"])
    loaded = nnvk.load(net.SerializeToString(), device="cpu")
    with pytest.warns(UserWarning, match=r"pixels are divided by 255, which is a guess; .*nnvk\.ImageOptions") as told:
        assert loaded(Image.new("RGB", (7, 5))).shape == (1, 3, 5, 7)
    assert told[0].filename == __file__
    assert nnvk.load(net.SerializeToString(), device="cpu", shapes={"height": 4})(Image.new("RGB", (7, 5))).shape == (
        1,
        3,
        4,
        7,
    )


def windows() -> bytes:
    """A convolution with a window of 3, over pictures of any size."""
    weights = np.random.default_rng(0).random((2, 3, 3, 3), np.float32)
    source = {"photo": (np.float32, ["n", 3, "height", "width"])}
    return model([op("Conv", "photo w", "y")], source, ["y"], {"w": weights}).SerializeToString()


def test_a_window_larger_than_the_placeholder() -> None:
    """It does not fit into one pixel, so that the model is imported for a usual size."""
    loaded = nnvk.load(windows(), device="cpu")
    assert loaded.inputs[0].shape == (1, 3, 224, 224)
    assert loaded.is_open
    photo = np.random.default_rng(1).random((2, 3, 5, 7), np.float32)
    fixed = nnvk.load(windows(), device="cpu", shapes={"photo": photo.shape})
    assert fixed.inputs[0].shape == photo.shape
    assert not fixed.is_open
    np.testing.assert_array_equal(loaded(photo), fixed(photo))
    named = nnvk.load(windows(), device="cpu", shapes={"height": 5})
    assert named.inputs[0].shape == (1, 3, 5, 224)
    assert named(photo[:, :, :, :4]).shape == (2, 2, 3, 2)
    with pytest.raises(NnapiError, match=r"must have shape nx3x5xwidth, got 2x3x4x7"):
        named(photo[:, :, :4])


def test_what_does_not_fit_a_usual_size_either_says_so_of_the_placeholder() -> None:
    for given in ({"height": 2, "width": 2}, {"photo": (1, 3, 2, None)}):
        with pytest.raises(NnapiError, match=r"a window of 3 does not fit into [12] padded by 0") as caught:
            nnvk.load(windows(), device="cpu", shapes=given)
        assert "224" not in caught.value.reason
    with pytest.raises(
        NnapiError, match=r"is taken as \[1, 3, 2, 1\], --shape or load\(..., shapes=...\) gives others"
    ):
        nnvk.load(windows(), device="cpu", shapes={"height": 2})


def test_a_window_larger_than_the_placeholder_of_a_tflite_file() -> None:
    x = T("FLOAT32", (1, 1, 1, 2), name="x", signature=(1, -1, -1, 2))
    y = T("FLOAT32", (1, 1, 1, 2), signature=(1, -1, -1, 2))
    net = Net([x], [y])
    window = {"Padding": 1, "FilterHeight": 3, "FilterWidth": 3, "StrideH": 1, "StrideW": 1}
    net.op("AVERAGE_POOL_2D", [x], y, "Pool2DOptions", **window)
    loaded = nnvk.load(write(net), device="cpu")
    assert loaded.inputs[0].shape == (1, 224, 224, 2)
    assert loaded(np.ones((1, 4, 6, 2), np.float32)).shape == (1, 2, 4, 2)


def test_later_sizes_of_a_tflite_file_are_not_imported(imports: list[Any]) -> None:
    signature = (1, -1, -1, 2)
    x, y = T("FLOAT32", (1, 1, 1, 2), name="x", signature=signature), T("FLOAT32", (1, 1, 1, 2), signature=signature)
    mean, net = T("FLOAT32", (1, 2)), Net([x], [])
    window = {"Padding": 0, "FilterHeight": 3, "FilterWidth": 3, "StrideH": 2, "StrideW": 2}
    net.op("AVERAGE_POOL_2D", [x], y, "Pool2DOptions", **window)
    net.op("MEAN", [y, T("INT32", data=[1, 2])], mean, "ReducerOptions")
    net.outputs += [y, mean]
    loaded = nnvk.load(write(net), device="cpu")
    with override(verify_sizes=False):
        for height, width in ((9, 12), (13, 10), (7, 14), (21, 6)):
            pooled, means = loaded(np.ones((1, height, width, 2), np.float32))
            assert pooled.shape == (1, -(-height // 2), -(-width // 2), 2)
            np.testing.assert_array_equal(means, np.ones((1, 2), np.float32))
    assert len(imports) == 3


def test_a_size_that_is_the_sum_of_two_others() -> None:
    """A mask is as long as the cache and the tokens behind it, which no name in the file says."""
    x, past, mask = (np.ones(shape, np.float32) for shape in ((2, 3), (2, 4), (7, 5)))
    net = model(
        [op("Concat", "past x", "all", axis=1), op("MatMul", "all mask", "y")],
        {"x": (np.float32, ["batch", "seq"]), "past": (np.float32, ["batch", "len"]), "mask": (np.float32, ["s53", 5])},
        ["y"],
    )
    loaded = nnvk.load(net.SerializeToString(), device="cpu")
    np.testing.assert_array_equal(loaded(x, past, mask), np.full((2, 5), 7, np.float32))
    with pytest.raises(NnapiError, match=r"inputs of shape \[1, 2\] and \[1, 5\] can't be multiplied"):
        nnvk.load(net.SerializeToString(), device="cpu", shapes={"s53": 1})


def test_an_imported_model_is_no_loaded_one(tmp_path: Path) -> None:
    (tmp_path / "rows.onnx").write_bytes(rows())
    loaded = nnvk.load(tmp_path / "rows.onnx", device="cpu")
    assert isinstance(loaded.imported.model, Model)
    assert loaded.name == "rows.onnx"
    assert loaded.shaped(inputs(6)).outputs[0].shape == (6, 4)


def test_inputs_of_8_bits_are_quantised_for_every_size() -> None:
    """The scale is a constant, whose bytes the first import frees."""
    net = model(
        [op("DequantizeLinear", "x s z", "f"), op("Relu", "f", "y")],
        {"x": (np.uint8, ["rows", 3])},
        ["y"],
        {"s": np.float32(0.5), "z": np.uint8(3)},
    )
    loaded = nnvk.load(net.SerializeToString(), device="cpu")
    for count in (2, 3, 5):
        x = np.full((count, 3), 7, np.uint8)
        np.testing.assert_array_equal(loaded(x), np.full((count, 3), 2, np.float32))
        (port,) = loaded.shaped([x]).inputs
        assert (port.scale, port.zero_point) == (0.5, 3)


def test_the_memory_of_the_host_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = nnvk.load(rows(), device="cpu")
    loaded(*inputs(1))
    one = loaded._plans._host_bytes
    assert one > sum(array.nbytes for array in inputs(1))
    monkeypatch.setattr("nnvk.loading.plans.MOST_HOST_BYTES", 3 * one)
    for count in (2, 3, 1, 4):
        loaded(*inputs(count))
    assert plans(loaded)[-2:] == [1, 4]
    assert len(plans(loaded)) < 4
    loaded.close()
    assert loaded._plans._host_bytes == 0
