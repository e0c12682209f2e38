"""Saved parts that somebody else may have made: an error, or a model that is checked like every other."""

from __future__ import annotations

import hashlib
import logging
import random
import struct
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx
import pytest
from ort_session import model_of

import nnvk
import nnvk.importers.onnx
from nnvk.api import Device, NnapiError, ResultCode, get_device
from nnvk.base import files
from nnvk.base.files import KEY_NAME
from nnvk.base.packets import Reader, Writer
from nnvk.base.settings import override
from nnvk.importers.onnx import saved_part
from nnvk.importers.onnx.file import OnnxFile

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


def test_plans_without_a_folder_for_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has no key can't tell whose they are."""
    device = DEVICES[0]
    content = saved(convolution(), device)
    with override(cache_dir="0"):
        text = log_of(caplog, content, device)
    assert ("the plans of a saved part are of another user or machine" in text) == (device != "nnapi-reference")
    assert "the plan comes from cache file" not in text


def test_parts_for_another_device(caplog: pytest.LogCaptureFixture) -> None:
    """It is said only where plans are there."""
    for made_for in DEVICES:
        for device in DEVICES:
            text = log_of(caplog, saved(convolution(), made_for), device)
            is_said = f"the part was saved for {made_for}: {device} compiles it anew" in text
            assert is_said == (made_for != device and made_for != "nnapi-reference")


def of_format(content: bytes, **changes: int) -> bytes:
    """Another beginning: the magic number, the format, and the size."""
    magic, format_, size = struct.unpack_from("<8sIQ", content)
    given = {"magic": 0, "format_": format_, "size": size} | changes
    return (
        struct.pack("<8sIQ", b"other___" if given["magic"] else magic, given["format_"], given["size"]) + content[20:]
    )


def test_beginnings() -> None:
    content = saved(convolution())
    number = struct.unpack_from("<8sI", content)[1]
    assert run(content + bytes(7)).shape == (1, 8, 1, 1)  # zeros may follow
    for damaged, said in (
        (content[:51], "a saved part has more than 51 bytes"),
        (of_format(content, magic=1), "it is no part that nnvk has saved"),
        (
            of_format(content, format_=number + 1),
            f"the part was saved in format {number + 1} by another version of nnvk, this one has {number}: "
            "compile the model again",
        ),
        (of_format(content, size=51), f"the saved part is damaged: it has {len(content)} bytes instead of 51"),
        (
            of_format(content, size=len(content) + 1),
            f"the saved part is damaged: it has {len(content)} bytes instead of {len(content) + 1}",
        ),
        (content + b"\0\1", f"the saved part is damaged: it has {len(content) + 2} bytes instead of {len(content)}"),
        (content[:-1] + bytes([content[-1] ^ 1]), "the saved part is damaged: its digest is another one"),
    ):
        with pytest.raises(NnapiError) as raised:
            run(damaged)
        assert raised.value.reason == said


@pytest.mark.parametrize("height", [7, "h"])
def test_bytes_behind_the_last_field(height: int | str) -> None:
    content = saved(convolution(height))
    magic, format_, size = saved_part._START.unpack_from(content)
    longer = saved_part._START.pack(magic, format_, size + 3) + content[saved_part._START.size : -32] + b"\1\2\3"
    with pytest.raises(NnapiError, match="the saved part is damaged: 3 bytes too many"):
        run(longer + hashlib.sha256(longer).digest())


def test_models_for_other_shapes() -> None:
    """A saved model is for one set of shapes, and needs its execution."""
    imported = nnvk.importers.onnx.load(convolution())
    model = saved_part.Saved(imported)
    assert model.load_in_parts(shapes={"x": X.shape}, relaxed=False) is imported
    assert model.known_outputs({"x": X.shape}, {}) is None
    shapes = {"x": (1, 3, 8, 9)}
    for given, constants in ((shapes, None), ({}, None), ({"x": X.shape}, {"x": X})):
        with pytest.raises(NnapiError) as raised:
            model.load_in_parts(shapes=given, constants=constants, relaxed=False)
        assert raised.value.reason == f"the part was saved for inputs of shapes {{'x': {X.shape}}}, got {given}"


def test_types_of_edges() -> None:
    """Those that NumPy has not, numbers of 64 bits, and a size that data decide come back as they were."""
    nodes = [
        node("Cast", ["x"], ["n"], to=onnx.TensorProto.BFLOAT16),
        node("Mul", ["i", "i"], ["w"]),
        node("NonZero", ["x"], ["z"]),
    ]
    inputs = [("x", F32, [2, 3]), ("i", np.int64, [2])]
    outputs = [("n", ml_dtypes.bfloat16, [2, 3]), ("w", np.int64, [2]), ("z", np.int64, [2, None])]
    model = model_of(nodes, inputs, outputs, {})
    parts = saved_part.save(model, memoryview(b""), ["x", "i"], devices("nnapi-reference"), relaxed=False)
    made, count = saved_part.load(memoryview(b"".join(parts)), [1, 0], devices("nnapi-reference"), None)
    assert (made.names, count) == (["i", "x"], 3)
    x, i = np.array([[0, 1, 2], [0, -1, 0.3]], F32), np.array([1 << 20, -3])
    n, w, z = made.run([i, x])
    np.testing.assert_array_equal(n, x.astype(ml_dtypes.bfloat16))
    assert n.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(w, i * i)
    np.testing.assert_array_equal(z, np.nonzero(x))


@pytest.mark.parametrize("kind", ["If", "absent"])
def test_models_with_other_models_and_operands_without_values(kind: str) -> None:
    if kind == "If":
        branches = [
            onnx.helper.make_graph(
                [node(each, ["x"], ["o"])], each, [], [onnx.helper.make_tensor_value_info("o", 1, None)]
            )
            for each in ("Neg", "Abs")
        ]
        nodes = [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Greater", ["m", "zero"], ["c"]),
            node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ]
        shape, constants = [1, 3, 7, 9], {"zero": np.array(0, F32)}
    else:  # a peephole and an input gate that are left out
        nodes = [node("Reshape", ["x", "s"], ["r"]), node("LSTM", ["r", "w", "u"], ["y"], hidden_size=2)]
        rng = np.random.default_rng(0)
        constants = {"s": np.array([7, 9, 3]), "w": rng.standard_normal((1, 8, 3)), "u": rng.standard_normal((1, 8, 2))}
        constants = {name: one.astype(F32) if name != "s" else one for name, one in constants.items()}
        shape = [7, 1, 9, 2]
    model = model_of(nodes, [("x", F32, [1, 3, 7, 9])], [("y", F32, shape)], constants)
    direct = nnvk.load(model, device="nnapi-reference")(X)
    np.testing.assert_array_equal(run(saved(model)), direct)


@pytest.mark.parametrize(
    "names", [["0" * 64 + ".nnvk"], ["key"], ["0" * 64 + ".nnvk", "../other.nnvk"], ["0" * 63 + ".nnvk"]], ids=str
)
def test_names_of_plans(names: list[str]) -> None:
    """They are files of one folder: with another name among them there are none."""
    token = bytes(32)
    writer = Writer()
    saved_part._write_plans(writer, token, [(name if name != "key" else KEY_NAME, b"plan") for name in names])
    found = saved_part._read_plans(Reader(memoryview(b"".join(map(bytes, writer.parts)))), token)
    is_fine = names in (["0" * 64 + ".nnvk"], ["key"])
    assert [data for _, data in found] == ([b"plan"] if is_fine else [])
