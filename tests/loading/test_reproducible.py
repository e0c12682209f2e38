"""`nnvk.load` of reproducible models: the same bits on every device and for every size, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_net import model, op

import nnvk
from nnvk.base.settings import override
from nnvk.demo.assets import DATA
from nnvk.importers.errors import ModelImportError

FLOAT = DATA / "digits_float.tflite"
DEVICES = [device.name for device in nnvk.get_devices()]


def block(rng: np.random.Generator) -> onnx.ModelProto:
    """A layer norm, a matrix product, GELU and a softmax, on [rows, 24] with any number of rows."""
    weights = {
        "scale": rng.standard_normal(24),
        "shift": rng.standard_normal(24),
        "matrix": rng.standard_normal((24, 17)),
        "half": np.array(0.5),
        "root": np.array(np.sqrt(2)),
        "one": np.array(1.0),
    }
    nodes = [
        op("LayerNormalization", "x scale shift", "normal", axis=-1),
        op("MatMul", "normal matrix", "product"),
        op("Div", "product root", "scaled"),
        op("Erf", "scaled", "error"),
        op("Add", "error one", "share"),
        op("Mul", "product share", "weighted"),
        op("Mul", "weighted half", "gelu"),
        op("Softmax", "gelu", "y", axis=-1),
    ]
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    return model(nodes, {"x": (np.float32, ("rows", 24))}, ["y"], constants)


def test_all_devices_have_the_same_bits() -> None:
    rng = np.random.default_rng(4)
    file = block(rng)
    for rows in (1, 3, 50):
        x = rng.standard_normal((rows, 24)).astype(np.float32)
        results = [nnvk.load(file, device=device, reproducible=True)(x) for device in DEVICES]
        for result in results[1:]:
            np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))


def test_a_batch_has_the_bits_of_its_rows() -> None:
    rng = np.random.default_rng(5)
    loaded = nnvk.load(block(rng), reproducible=True)
    x = rng.standard_normal((11, 24)).astype(np.float32)
    np.testing.assert_array_equal(loaded(x), np.concatenate([loaded(row[np.newaxis]) for row in x]))


def test_the_variable_is_the_default() -> None:
    picture = np.random.default_rng(6).random((1, 16, 16, 1), np.float32)
    want = nnvk.load(FLOAT, device="nnapi-reference", reproducible=True)(picture)
    with override(reproducible=True):
        np.testing.assert_array_equal(nnvk.load(FLOAT, device="nnapi-reference")(picture), want)
        nnvk.load(FLOAT, reproducible=False)


@pytest.mark.parametrize("device", DEVICES)
def test_an_operation_without_defined_bits_is_refused(device: str) -> None:
    file = model([op("RandomNormalLike", "x", "y")], {"x": (np.float32, (1, 3))}, ["y"])
    with pytest.raises(nnvk.NnapiError, match=r"RANDOM_MULTINOMIAL.*docs/reproducible\.md"):
        nnvk.load(file, device=device, reproducible=True)(np.zeros((1, 3), np.float32))


def test_libraries_compute_nothing() -> None:
    """An operator that NNAPI has nothing for is refused, where onnxruntime would compute it."""
    file = model([op("Det", "x", "y")], {"x": (np.float32, (3, 3))}, ["y"])
    with pytest.raises(ModelImportError, match="Det"):
        nnvk.load(file, reproducible=True)
