"""Saved parts that somebody else may have made: an error, or a model that is checked like every other."""

from __future__ import annotations

import hashlib
import logging
import random
import struct
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from ort_session import model_of

import nnvk
from nnvk.api import Device, NnapiError, ResultCode, get_device
from nnvk.base import files
from nnvk.base.settings import override
from nnvk.importers.onnx import saved_part
from nnvk.importers.onnx.importer import OnnxFile

DEVICES = [device.name for device in nnvk.get_devices()]
F32 = np.float32
node = onnx.helper.make_node
X = np.random.default_rng(1).standard_normal((1, 3, 7, 9)).astype(F32)
FILTER = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(F32)
CODES = {ResultCode.BAD_DATA, ResultCode.OP_FAILED, ResultCode.OUT_OF_MEMORY}


def convolution(height: int | str = 7) -> bytes:
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("GlobalAveragePool", ["c"], ["y"])]
    return model_of(nodes, [("x", F32, [1, 3, height, 9])], [("y", F32, [1, 8, 1, 1])], {"w": FILTER})


def devices(name: str) -> list[Device]:
    return [get_device(name)]


def saved(model: bytes, device: str = "nnapi-reference") -> bytes:
    return b"".join(saved_part.save(model, memoryview(b""), ["x"], devices(device), relaxed=False))


def run(content: bytes, device: str = "nnapi-reference") -> np.ndarray:
    made, outputs = saved_part.load(memoryview(content), [0], devices(device), None)
    assert outputs == 1
    array: np.ndarray = made.run([X])[0]
    return array


def forged(content: bytes) -> bytes:
    """Other content with the digest that belongs to it."""
    inner = content[:-32]
    return inner + hashlib.sha256(inner).digest()


@pytest.mark.parametrize("height", [7, "h"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_part_computes_what_its_model_does(device: str, height: int | str) -> None:
    model = convolution(height)
    direct = nnvk.load(model, device=device, shapes={"x": X.shape})(X)
    np.testing.assert_allclose(run(saved(model, device), device), direct, rtol=1e-5, atol=1e-6)


def test_a_part_of_fixed_shapes_is_loaded_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    content, direct = saved(convolution()), nnvk.load(convolution(), device="nnapi-reference")(X)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(OnnxFile, "__init__", fail)
    np.testing.assert_array_equal(run(content), direct)


def log_of(caplog: pytest.LogCaptureFixture, content: bytes, device: str) -> str:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "nnvk"):
        run(content, device)
    return caplog.text


@pytest.mark.parametrize("device", [name for name in DEVICES if name.startswith("vulkan")])
def test_plans_count_if_this_user_made_them(
    device: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = saved(convolution(), device)
    assert "the plan comes from cache file" in log_of(caplog, content, device)
    place = content.rindex(b"nnvkplan") + 40
    for other in content[:place] + b"\0\0\0\0" + content[place + 4 :], content:
        if other is content:  # on another machine, which has another key
            monkeypatch.setattr(files, "_key_or_new", lambda folder: bytes(32))
        text = log_of(caplog, forged(other), device)
        assert "another user or machine" in text
        assert "the plan comes from cache file" not in text


def test_without_a_folder_for_the_key_parts_have_no_plans(caplog: pytest.LogCaptureFixture) -> None:
    with override(cache_dir="0"), caplog.at_level(logging.WARNING, "nnvk"):
        content = saved(convolution(), DEVICES[0])
    assert ("can't be signed" in caplog.text) == (DEVICES[0] != "nnapi-reference")
    assert run(content, DEVICES[0]).shape == (1, 8, 1, 1)


@pytest.mark.parametrize("step", range(8))
def test_damaged_bytes(step: int) -> None:
    whole = saved(convolution(), DEVICES[0])
    for place in range(step, len(whole), 97):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        with pytest.raises(NnapiError) as caught:
            run(bytes(spoilt), DEVICES[0])
        assert caught.value.code is ResultCode.BAD_DATA
    for end in range(step, len(whole), 97):
        with pytest.raises(NnapiError, match=r"bytes"):
            run(whole[:end], DEVICES[0])


def mutated(seed: int, whole: bytes, change: Callable[[random.Random, bytearray], None]) -> bytes:
    drawn, spoilt = random.Random(seed), bytearray(whole)
    for _ in range(drawn.randint(1, 3)):
        change(drawn, spoilt)
    return forged(bytes(spoilt))


def byte(drawn: random.Random, spoilt: bytearray) -> None:
    spoilt[drawn.randrange(20, len(spoilt) - 32)] = drawn.randrange(256)


def number(drawn: random.Random, spoilt: bytearray) -> None:
    value = drawn.choice((0, 1, 2, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1))
    struct.pack_into("<I", spoilt, drawn.randrange(20, len(spoilt) - 36), value)


@pytest.mark.parametrize("change", [byte, number])
@pytest.mark.parametrize("height", [7, "h"])
@pytest.mark.parametrize("seed", range(25))
def test_forged_bytes(seed: int, height: int | str, change: Callable[[random.Random, bytearray], None]) -> None:
    """The digest is right, so that what is inside must be checked: it computes, or is an error of one line."""
    content = mutated(seed, saved(convolution(height)), change)
    try:
        run(content)
    except NnapiError as error:
        assert error.code in CODES
        assert height == "h" or "\n" not in error.reason  # an import may name several nodes


def test_an_order_that_is_none() -> None:
    content = saved(convolution())
    for order in ([], [1], [0, 0], [0, 1]):
        with pytest.raises(NnapiError, match="the part has 1 inputs"):
            saved_part.load(memoryview(content), order, devices("nnapi-reference"), None)
