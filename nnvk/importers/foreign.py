"""Files of other kinds, which users give in the place of a model, and the way from each of them to a model."""

from __future__ import annotations

from collections.abc import Callable

_EXPORT = "torch.onnx.export writes an .onnx file of the module that it belongs to, and litert-torch a .tflite file"
_IMAGE = "it is an image, which is an input of a model, not a model"
_KERAS = "it is a model of Keras, which tf.lite.TFLiteConverter.from_keras_model turns into a .tflite file"


def _starts(*heads: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(heads)


def is_tflite(head: bytes) -> bool:
    """Whether a file begins as ``.tflite`` files do."""
    return head[4:8] == b"TFL3"


def is_onnx(head: bytes) -> bool:
    """Whether a file begins as ``.onnx`` files of most writers do: with the IR version and one of the next fields."""
    return head[:1] == b"\x08" and head[2:3] in (b"\x12", b"\x1a", b"\x3a")


_KINDS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda data: not data, "it is empty: a download or an export has failed"),
    (is_tflite, "it is a .tflite file, which nnvk.load and nnvk.importers.tflite read"),
    (is_onnx, "it is an .onnx file, which nnvk.load and nnvk.importers.onnx read"),
    (
        _starts(b"version https://git-lfs.github.com/spec/"),
        "it is a pointer of Git LFS, and `git lfs pull` brings the file",
    ),
    (
        lambda data: data[:2] == b"PK" and (b"data.pkl" in data[:128] or b"/data/0FB" in data[:128]),
        f"it is a file of PyTorch, whose graph is a Python program: {_EXPORT}",
    ),
    (_starts(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", b"\x80\x02}"), f"it is a checkpoint of PyTorch: {_EXPORT}"),
    (
        _starts(b"GGUF"),
        "it is a .gguf file of llama.cpp, which has weights and no graph: export the model that it was made from as "
        ".onnx",
    ),
    (
        lambda data: len(data) > 9 and data[8:9] == b"{" and not any(data[5:8]),
        f"it is a .safetensors file, which has weights and no graph: {_EXPORT}",
    ),
    (_starts(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*"), _IMAGE),
    (lambda data: data[:2] == b"BM" and data[6:10] == bytes(4), _IMAGE),
    (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _IMAGE),
    (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WAVE", "it is a recording, not a model"),
    (_starts(b"\x93NUMPY"), "it is an array of NumPy, which is an input of a model, not a model"),
    (_starts(b"\x89HDF"), _KERAS),
    (
        lambda data: data[4:8] == b"ORTM",
        "it is a model in ONNX Runtime's own format: give the .onnx file it was made of",
    ),
    (
        _starts(b"PK"),
        "it is an archive, as .zip, .npz, .keras and the .pt of PyTorch are: unpack it, or export the model as .onnx "
        "or .tflite",
    ),
)


def describe_foreign(data: bytes, own: Callable[[bytes], bool] | None = None) -> str:
    """Say what kind of file it is, and how to come from it to a model; empty for files of unknown kinds.

    ``data`` are the bytes of a file, or the first 128 of them. ``own`` recognises the format that the caller reads.
    """
    return next((said for begins, said in _KINDS if begins is not own and begins(data)), "")
