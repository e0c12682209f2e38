"""The content of a file, or else its name, decides which importer takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tflite_net
from tflite_net import Net, T

from nnvk import Compilation, NnapiError, get_device, run
from nnvk.importers import formats
from nnvk.importers import tflite as tflite_importer
from nnvk.importers.errors import ModelImportError, Problem
from nnvk.importers.foreign import describe_foreign, is_onnx, is_tflite
from nnvk.importers.tflite import TfliteImportError

pytest.importorskip("onnx")

import numpy as np
from onnx_net import model, op

from nnvk.importers import onnx as onnx_importer


def tflite() -> bytes:
    net = Net([x := T("FLOAT32", (2,))], [y := T("FLOAT32", (2,))])
    net.op("EXP", [x], [y])
    return tflite_net.write(net)


def own() -> bytes:
    return model([op("Exp", "x", "y")], {"x": (np.float32, ["n", 2])}, ["y"]).SerializeToString()


@pytest.mark.parametrize("name", ["model.tflite", "model.onnx", "model.bin", "model"])
def test_content_tells_the_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for data, suffix in ((tflite(), ".tflite"), (own(), ".onnx")):
        path.write_bytes(data)
        assert formats.format_of(path).suffix == suffix
        assert [one.name for one in formats.load(path).sources[:1]] == [formats.load(path).outputs[0].name]


def test_the_name_tells_it_where_the_content_does_not(tmp_path: Path) -> None:
    for name, said in (("model.onnx", "not an .onnx file"), ("model.x", "not a model: .* neither as")):
        (tmp_path / name).write_bytes(b"neither")
        with pytest.raises(NnapiError, match=said):
            formats.load(tmp_path / name)


def test_each_takes_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(own())
    assert formats.load(path, shapes={"x": (3, 2)}, round_hybrid=False).inputs[0].shape == (3, 2)
    path.write_bytes(tflite())
    with pytest.raises(NnapiError, match="can't be constants"):
        formats.load(path, constants={"x": [1]})
    path.write_bytes(tflite()[:40])
    with pytest.raises(TfliteImportError):
        formats.load(path)


def test_activations_of_hybrid_operators_are_rounded_by_default(tmp_path: Path) -> None:
    """As TFLite does it, which takes more operations."""
    weights = T("INT8", data=np.arange(24).reshape(4, 6), scale=0.02)
    net = Net([T("FLOAT32", (2, 6))], [T("FLOAT32", (2, 4))])
    net.op(
        "FULLY_CONNECTED", [*net.inputs, weights, T(data=[0.0, 0.0, 0.0, 0.0])], net.outputs, "FullyConnectedOptions"
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_net.write(net))
    rounded, plain = (len(formats.load(path, **options).sources) for options in ({}, {"round_hybrid": False}))
    assert rounded > plain == 1


# --- files of other kinds ---------------------------------------------------------------------------------------------

SAFETENSORS = (24).to_bytes(8, "little") + b'{"weight":{"dtype":"F32"'
ZIPPED = b"PK\x03\x04" + bytes(26)
FOREIGN = {
    "model.pt": (ZIPPED + b"archive/data.pkl", "a file of PyTorch, .*torch.onnx.export"),
    "script.pt": (ZIPPED + b"net/data/0FB\x13\x00ZZ", "a file of PyTorch, .*torch.onnx.export"),
    "old.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a checkpoint of PyTorch: torch.onnx.export"),
    "model.gguf": (b"GGUF\3\0\0\0", "a .gguf file of llama.cpp, which has weights and no graph"),
    "model.safetensors": (SAFETENSORS, "a .safetensors file, which has weights and no graph"),
    "photo.png": (b"\x89PNG\r\n\x1a\n", "an image, which is an input of a model"),
    "photo.jpg": (b"\xff\xd8\xff\xe0", "an image"),
    "photo.webp": (b"RIFF\x10\0\0\0WEBP", "an image"),
    "photo.bmp": (b"BM" + bytes(20), "an image"),
    "sound.wav": (b"RIFF\x10\0\0\0WAVE", "a recording"),
    "array.npy": (b"\x93NUMPY\1\0", "an array of NumPy"),
    "model.h5": (b"\x89HDF\r\n\x1a\n", "a model of Keras, which tf.lite.TFLiteConverter.from_keras_model turns"),
    "model.ort": (b"\x18\0\0\0ORTM", "a model in ONNX Runtime's own format"),
    "model.zip": (ZIPPED + b"readme.txt", "an archive, as .zip"),
    "nothing": (b"", "empty: a download or an export has failed"),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:1",
        "a pointer of Git LFS, and `git lfs pull`",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_kinds_say_what_they_are(tmp_path: Path, name: str) -> None:
    content, said = FOREIGN[name]
    for suffix in ("", ".tflite", ".onnx"):
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(content)
        with pytest.raises(NnapiError, match=rf"not an?.*: {path} \(it is {said}"):
            formats.load(path)
    with pytest.raises(NnapiError, match=rf"it is {said}"):
        formats.load(content)


def test_importers_name_each_other(tmp_path: Path) -> None:
    with pytest.raises(NnapiError, match=r"it is an .onnx file, which nnvk.load and nnvk.importers.onnx read"):
        tflite_importer.load(own())
    with pytest.raises(NnapiError, match=r"it is a .tflite file, which nnvk.load and nnvk.importers.tflite read"):
        onnx_importer.load(tflite())


def test_a_file_that_ends_early_says_so() -> None:
    whole = tflite()
    with pytest.raises(NnapiError, match=r"subgraph 0 leads outside the file, as where a download has ended early"):
        formats.load(whole[: len(whole) // 2])


# --- files that are imported several times ----------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["n", 5])
def test_a_file_is_imported_as_often_as_one_likes(tmp_path: Path, rows: str | int) -> None:
    """One with open sizes is read once; another one is read again."""
    weights = np.random.default_rng(0).random((64, 64), np.float32)
    net = model([op("MatMul", "x w", "y")], {"x": (np.float32, [rows, 64])}, ["y"], {"w": weights})
    path = tmp_path / "net.onnx"
    path.write_bytes(net.SerializeToString())
    file = formats.read(path)
    if rows == "n":
        path.unlink()
    for count in (2, 3, 2):
        imported = file.load(shapes={"x": (count, 64)})
        x = np.random.default_rng(count).random((count, 64), np.float32)
        compilation = Compilation(imported.model, [get_device("nnapi-reference")])
        compilation.finish()
        ((y,), _) = imported.decode(run(compilation, imported.encode([x])))
        np.testing.assert_allclose(y, x @ weights, rtol=1e-5)


class Refusing:
    """A reader that refuses each load."""

    def __init__(self, problems: list[Problem], signature: tuple[int, ...]) -> None:
        self.problems = problems
        self.signature = signature
        self.loaded: list[Any] = []

    def load(self, **options: Any) -> None:
        self.loaded.append(options["shapes"])
        raise ModelImportError("no model", f"load {len(self.loaded)}", self.problems)

    def inputs(self) -> list[Any]:
        shape = tuple(1 if size == -1 else size for size in self.signature)
        return [SimpleNamespace(name="x", shape=shape, signature=self.signature, symbols=())]


@pytest.mark.parametrize(
    ("problems", "signature", "tried"),
    [
        ([Problem("Conv", 0, "why")], (1, 3), [None]),
        ([Problem("Conv", 0, "why")], (-1, 3), [None]),
        ([Problem("Conv", 0, "why")], (1, -1), [None, {"x": [None, 224]}]),
        ([], (1, -1), [None]),
    ],
)
def test_how_often_a_model_is_tried(
    problems: list[Problem], signature: tuple[int, ...], tried: list[dict[str, list[int | None]] | None]
) -> None:
    """It is tried again with the usual size if a size is open and the file is not damaged. The first error counts."""
    reader = Refusing(problems, signature)
    with pytest.raises(ModelImportError, match="load 1"):
        formats.ModelFile(formats.FORMATS[0], "x", reader).load()
    assert reader.loaded == tried


@pytest.mark.parametrize("data", [tflite(), own()], ids=["tflite", "onnx"])
def test_relaxed_is_what_the_caller_says(data: bytes) -> None:
    assert not formats.load(data).model.frozen.relaxed
    assert not formats.read(data).load().model.frozen.relaxed
    assert formats.load(data, relaxed=True).model.frozen.relaxed


def test_folders(tmp_path: Path) -> None:
    """A folder stands for its only model, at any depth and with any case of the suffix."""
    with pytest.raises(ValueError, match=r"there are no \.tflite or \.onnx files in .*$") as raised:
        formats.read(tmp_path)
    assert "SavedModel" not in str(raised.value)
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ValueError, match=r"TFLiteConverter\.from_saved_model"):
        formats.read(tmp_path)
    (tmp_path / "folder.onnx" / "b.TFLITE").write_bytes(tflite())
    assert formats.read(tmp_path).name == str(tmp_path / "folder.onnx" / "b.TFLITE")
    for name in "acdefghijklm":
        (tmp_path / f"{name}.onnx").write_bytes(own())
        inside = formats.models_in(tmp_path)
        assert len(inside) > 1 and inside == sorted(inside)
        with pytest.raises(ValueError, match=f"a folder with {len(inside)} models") as raised:
            formats.read(tmp_path)
        shown = ", ".join(path.name for path in inside[:10])
        assert f"({shown}{', ...' if len(inside) > 10 else ''})" in str(raised.value)


TEXT = (4096).to_bytes(8, "little") + b"{}"
NEARLY = {
    "a file of PyTorch that begins otherwise": b"PX\x03\x04data.pkl",
    "a name far behind": b"XX" + bytes(118) + b"data.pkl",
    "a .safetensors file without a letter": TEXT[:9],
    "a .safetensors file of another letter": TEXT[:8] + b"[]",
    "a .safetensors file of gigabytes": TEXT[:5] + b"\x01" + TEXT[6:],
    "a .safetensors file of terabytes": TEXT[:7] + b"\x01" + TEXT[8:],
    "an image of another letter": b"BN" + bytes(20),
    "an image with something in between": b"BM" + bytes(4) + b"\0\0\0\x01" + bytes(9),
    "an image that is cut": b"BM" + bytes(7),
    "an image of another container": b"RIFX\x10\0\0\0WEBP",
    "a container of something": b"RIFF\x10\0\0\0WEBX",
    "a recording in another container": b"RIFX\x10\0\0\0WAVE",
    "a model of another runtime": b"\x18\0\0\0ORTN",
    "a model at another place": b"ORTM\0\0\0\0",
}


@pytest.mark.parametrize("what", NEARLY)
def test_files_that_are_nearly_of_another_kind(what: str) -> None:
    assert describe_foreign(NEARLY[what]) == ""


def test_files_that_are_just_of_another_kind() -> None:
    assert describe_foreign(TEXT).startswith("it is a .safetensors file")
    assert describe_foreign(TEXT[:5] + bytes(3) + TEXT[8:]).startswith("it is a .safetensors file")
    for place, kind in ((120, "a file of PyTorch"), (121, "an archive")):
        content = b"PK" + bytes(place - 2) + b"data.pkl"
        assert describe_foreign(content).startswith(f"it is {kind}")
        with pytest.raises(NnapiError, match=f"it is {kind}"):
            formats.load(content)


@pytest.mark.parametrize("begins", [is_onnx, is_tflite])
def test_what_a_reader_knows_itself(begins: Callable[[bytes], bool]) -> None:
    """Its own format is no other kind of file."""
    for data, own in ((b"????TFL3", is_tflite), (b"\x08\x08\x12", is_onnx)):
        assert bool(describe_foreign(data, begins)) is (begins is not own)


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        *((b"\x08\x07" + bytes([field]), True) for field in (0x12, 0x1A, 0x3A)),
        (b"\x08\x07\x22", False),
        (b"\x0a\x07\x12", False),
        (b"\x08\x12", False),
    ],
)
def test_the_beginning_of_onnx_files(head: bytes, is_one: bool) -> None:
    assert is_onnx(head) is is_one
