"""``--input`` accepts files of arrays and images, and says what is wrong with others."""

from __future__ import annotations

import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nnvk import Model, NnapiError, OperandCode, OperandType
from nnvk.importers.metadata import Metadata, TensorMetadata
from nnvk.importers.ports import ImportedModel, Port
from nnvk.inputs.images import ImageOptions, Normalization
from nnvk.inputs.reader import InputReader

VECTOR = Port("vector", OperandType(OperandCode.TENSOR_FLOAT32, (1, 4)), "FLOAT32", (1, 4))
INDEX = Port("index", OperandType(OperandCode.TENSOR_INT32, (2,)), "INT64", (2,))
PICTURE = Port("picture", OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (1, 2, 2, 3), 1.0, 0), "UINT8", (1, 2, 2, 3))


def reader(ports: list[Port], normalization: Normalization | None = None, **more: Any) -> InputReader:
    return InputReader(ImportedModel(Model(), tuple(ports), ()), ImageOptions(normalization), **more)


def read_inputs(files: list[Path], ports: list[Port], normalization: Normalization | None) -> list[np.ndarray]:
    return reader(ports, normalization).files(files)


def _saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def test_one_file_for_each_input(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), (1, 2, 3)).save(tmp_path / "picture.png")
    index = _saved(tmp_path / "index.npy", np.array([5, 6], np.int64))
    arrays = read_inputs([tmp_path / "picture.png", index], [PICTURE, INDEX], None)
    assert arrays[0].shape == (1, 2, 2, 3)
    assert arrays[0][0, 0, 0].tolist() == [1, 2, 3]
    assert arrays[1].tolist() == [5, 6]


def test_an_archive_for_all_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", **{"1": np.array([5, 6], np.int64), "0": np.ones((1, 4), np.float32)})
    arrays = read_inputs([tmp_path / "all.npz"], [VECTOR, INDEX], None)
    assert [array.tolist() for array in arrays] == [[[1, 1, 1, 1]], [5, 6]]


def test_an_archive_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", **{INDEX.name: np.array([5, 6]), VECTOR.name: np.ones((1, 4))})
    arrays = read_inputs([tmp_path / "all.npz"], [VECTOR, INDEX], None)
    assert [array.tolist() for array in arrays] == [[[1, 1, 1, 1]], [5, 6]]


@pytest.mark.parametrize("dtype", [">f4", "f8", "f2", "i8", "u1", "?"])
def test_files_take_the_numbers_that_calls_take(tmp_path: Path, dtype: str) -> None:
    given = np.ones((1, 4), dtype)
    (array,) = read_inputs([_saved(tmp_path / "a.npy", given)], [VECTOR], None)
    (called,) = reader([VECTOR]).arrays([given])
    assert array.dtype == called.dtype == np.float32
    assert (array == called).all()


def test_whole_numbers_that_the_input_lacks(tmp_path: Path) -> None:
    large = _saved(tmp_path / "a.npy", np.array([5, 2**63], np.uint64))
    with pytest.raises(ValueError, match=r"must have numbers of int64, got 5 to 9223372036854775808: .*a\.npy"):
        read_inputs([large], [INDEX], None)
    real = _saved(tmp_path / "b.npy", np.ones(2))
    with pytest.raises(ValueError, match=r"expected int64 2 for .*, got float64: .*b\.npy"):
        read_inputs([real], [INDEX], None)


@pytest.mark.parametrize("shape", [(1, 4), (4,), (4, 1, 1)])
def test_dimensions_may_differ_in_ones(tmp_path: Path, shape: tuple[int, ...]) -> None:
    file = _saved(tmp_path / "a.npy", np.arange(4, dtype=np.float32).reshape(shape))
    (array,) = read_inputs([file], [VECTOR], None)
    assert array.tolist() == [[0, 1, 2, 3]]


def test_any_layout_and_byte_order_is_read(tmp_path: Path) -> None:
    port = Port("matrix", OperandType(OperandCode.TENSOR_FLOAT32, (2, 3)), "FLOAT32", (2, 3))
    values = np.arange(6, dtype=">f4").reshape(3, 2).T
    (array,) = read_inputs([_saved(tmp_path / "a.npy", values)], [port], None)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert (array == values).all()


def test_a_scalar_stays_one(tmp_path: Path) -> None:
    """NNAPI has it as [1], TFLite as a single element."""
    port = Port("step", OperandType(OperandCode.TENSOR_FLOAT32, (1,)), "FLOAT32", ())
    for value in (np.float32(3), np.full((1, 1), 3, np.float32)):
        (array,) = read_inputs([_saved(tmp_path / "a.npy", np.asarray(value))], [port], None)
        assert array.shape == ()
        assert array == 3


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("got none: 0: float32 1x4 for 'vector'; 1: int64 2 for 'index'")):
        read_inputs([], [VECTOR, INDEX], None)
    with pytest.raises(ValueError, match=r"has 2 inputs, give --input for each, .*, got --input once: "):
        read_inputs([_saved(tmp_path / "a.npy", np.ones(4, np.float32))], [VECTOR, INDEX], None)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones((1, 4), np.complex64), "expected float32 1x4 for 'vector', got complex64"),
        (np.array(["a"] * 4), "expected float32 1x4 for 'vector', got <U1"),
        (np.ones((1, 5), np.float32), "expected float32 1x4 for 'vector', got 1x5"),
        (np.ones((2, 2), np.float32), "expected float32 1x4 for 'vector', got 2x2"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, array: np.ndarray, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_inputs([_saved(tmp_path / "a.npy", array)], [VECTOR], None)


def test_files_that_are_no_arrays(tmp_path: Path) -> None:
    for name in ("text.npy", "text.npz"):
        (tmp_path / name).write_text("hello, I am a text and no array")
        with pytest.raises(ValueError, match=name):
            read_inputs([tmp_path / name], [VECTOR], None)
    np.savez(tmp_path / "cut.npz", **{"0": np.ones((1, 4), np.float32)})
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-30])
    with pytest.raises(ValueError, match="cut"):
        read_inputs([tmp_path / "cut.npz"], [VECTOR], None)
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    with pytest.raises(ValueError, match="objects"):
        read_inputs([tmp_path / "objects.npy"], [VECTOR], None)
    np.save(tmp_path / "plain", np.ones((1, 4), np.float32))
    (tmp_path / "plain.npy").rename(tmp_path / "plain.npz")
    with pytest.raises(ValueError, match=r"call it \.npy: .*plain\.npz"):
        read_inputs([tmp_path / "plain.npz"], [VECTOR], None)
    np.savez(tmp_path / "archive", **{"0": np.ones((1, 4), np.float32)})
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    with pytest.raises(ValueError, match=r"call it \.npz: .*archive\.npy"):
        read_inputs([tmp_path / "archive.npy"], [VECTOR], None)


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), \n",
        b"{'descr': '<f4', 'shape': (4,)}\n",
        b"{'descr': 3, 'fortran_order': False, 'shape': (4,)}\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**70,)}\n",
        b"\xff\xfe 'a\n",
        b"[1, 2]\n",
        b"(" * 3000,
        b"",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}".ljust(20_000),
    ],
)
def test_arrays_with_a_broken_header(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "broken.npy").write_bytes(_npy(header) + bytes(16))
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*broken\.npy"):
        read_inputs([tmp_path / "broken.npy"], [VECTOR], None)
    with zipfile.ZipFile(tmp_path / "broken.npz", "w") as archive:
        archive.writestr("0.npy", _npy(header) + bytes(16))
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*broken\.npz"):
        read_inputs([tmp_path / "broken.npz"], [VECTOR], None)


@pytest.mark.parametrize("size", [5, 10**9, 2**70])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_does_not_fit_is_not_read(tmp_path: Path, size: int, compression: int) -> None:
    """Neither what a header promises nor what a compressed member becomes is in memory at any time."""
    content = _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}\n" % size) + bytes(64 << 20)
    (tmp_path / "large.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "large.npz", "w", compression) as archive:
        archive.writestr("0.npy", content)
    del content
    tracemalloc.start()
    for name in ("large.npy", "large.npz"):
        with pytest.raises(ValueError, match=rf"expected float32 1x4 for 'vector', got {size}: .*{name}"):
            read_inputs([tmp_path / name], [VECTOR], None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_archives_with_a_member_that_is_no_array(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("0", b"no array")
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*text\.npz \(its member '0' is no array"):
        read_inputs([tmp_path / "text.npz"], [VECTOR], None)


@pytest.mark.parametrize(("offset", "value"), [("flags", 1), ("method", 97)])
def test_archives_that_are_encrypted_or_oddly_compressed(tmp_path: Path, offset: str, value: int) -> None:
    path = tmp_path / "odd.npz"
    np.savez(path, **{"0": np.ones((1, 4), np.float32)})
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags + (2 if offset == "method" else 0)] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*odd\.npz"):
        read_inputs([path], [VECTOR], None)


def test_suffixes_in_any_case(tmp_path: Path) -> None:
    values = np.ones((1, 4), np.float32)
    _saved(tmp_path / "a.npy", values).rename(tmp_path / "A.NPY")
    np.savez(tmp_path / "b.npz", **{"0": values})
    (tmp_path / "b.npz").rename(tmp_path / "B.Npz")
    for name in ("A.NPY", "B.Npz"):
        (array,) = read_inputs([tmp_path / name], [VECTOR], None)
        assert (array == values).all()


def test_normalization_is_for_images(tmp_path: Path) -> None:
    normalization = Normalization.parse("10", None)
    index = _saved(tmp_path / "index.npy", np.array([5, 6], np.int64))
    with pytest.raises(ValueError, match="mean, std and scale are for images"):
        read_inputs([index], [INDEX], normalization)
    Image.new("RGB", (2, 2), (1, 2, 3)).save(tmp_path / "picture.png")
    arrays = read_inputs([tmp_path / "picture.png", index], [PICTURE, INDEX], normalization)
    assert arrays[0][0, 0, 0].tolist() == [0, 0, 0]  # (pixel - 10) / 255, rounded


def test_archives_with_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.ones((1, 4), np.float32))
    with pytest.raises(ValueError, match=r"expected arrays named 0 or vector: .*other\.npz \(found x\)"):
        read_inputs([tmp_path / "other.npz"], [VECTOR], None)
    with pytest.raises(ValueError, match="must be the only --input"):
        read_inputs([tmp_path / "other.npz", tmp_path / "other.npz"], [VECTOR, INDEX], None)


# --- objects ----------------------------------------------------------------------------------------------------------


def test_arrays_numbers_images_and_names_of_files(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 2), (1, 2, 3))
    image.save(tmp_path / "picture.png")
    index = _saved(tmp_path / "index.npy", np.array([5, 6], np.int64))
    for picture in (image, tmp_path / "picture.png", str(tmp_path / "picture.png"), np.asarray(image)[None]):
        arrays = reader([PICTURE, INDEX]).arrays([picture, [5, 6]])
        assert arrays[0][0, 1, 1].tolist() == [1, 2, 3]
        assert (arrays[1].dtype, arrays[1].tolist()) == (np.int64, [5, 6])
    by_name = reader([PICTURE, INDEX]).arrays([{"index": index, "picture": image}])
    assert [array.shape for array in by_name] == [(1, 2, 2, 3), (2,)]
    together = reader([PICTURE, INDEX]).arrays([(image, index)])
    assert all((one == other).all() for one, other in zip(by_name, together, strict=True))
    np.savez(tmp_path / "all.npz", **{"0": by_name[0], "1": by_name[1]})
    assert (reader([PICTURE, INDEX]).arrays([tmp_path / "all.npz"])[1] == [5, 6]).all()


def test_numbers_become_the_inputs_type_where_they_can() -> None:
    (vector,) = reader([VECTOR]).arrays([np.array([[1, 2, 3, 0.1]])])
    assert (vector.dtype, vector[0, 3]) == (np.float32, np.float32(0.1))
    (index,) = reader([INDEX]).arrays([np.array([1, 2], np.int8)])
    assert index.dtype == np.int64
    for value, reason in (
        (np.array([1.0, 2.0]), "'index' must be an array of int64, got float64"),
        ([[1, 2], [3]], "rows of unequal lengths"),
    ):
        with pytest.raises(NnapiError, match=re.escape(reason)):
            reader([INDEX]).arrays([value])
    with pytest.raises(NnapiError, match=r"must have numbers of uint8, got -1 to 256"):
        reader([PICTURE]).arrays([np.array([-1, 256])])
    with pytest.raises(NnapiError, match=r"array of uint8, got float32; .*quantize\(array\) makes levels"):
        reader([PICTURE]).arrays([np.zeros((1, 2, 2, 3), np.float32)])
    with pytest.raises(TypeError, match="'vector' takes an array, numbers, an image of Pillow or the name of a file"):
        reader([VECTOR]).arrays([object()])


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([1], "the model has 2 inputs, got 1: 0: float32 1x4 for 'vector'; 1: int64 2 for 'index'"),
        (
            [{"vector": 1, "indexes": 2}],
            "no input is called 'indexes', there are ['vector', 'index']; did you mean 'index'?",
        ),
        ([{"vector": 1}], "input 'index' is missing"),
    ],
)
def test_inputs_that_are_missing_or_unknown(inputs: list[Any], reason: str) -> None:
    with pytest.raises(NnapiError, match=re.escape(reason)):
        reader([VECTOR, INDEX]).arrays(inputs)
    with pytest.raises(NnapiError, match="the model has 1 input, got 2: 0: float32 1x4 for 'vector'"):
        reader([VECTOR]).arrays([1, 2])


def test_open_sizes_are_those_of_the_arrays(tmp_path: Path) -> None:
    file = _saved(tmp_path / "a.npy", np.ones((3, 4), np.float32))
    assert reader([VECTOR], shapes=[(-1, 4)]).arrays([file])[0].shape == (3, 4)
    with pytest.raises(ValueError, match=r"expected float32 \?x4 for 'vector', got 3x4x1"):
        reader([VECTOR], shapes=[(-1, 4)]).files([_saved(tmp_path / "b.npy", np.ones((3, 4, 1), np.float32))])


# --- normalisation ----------------------------------------------------------------------------------------------------

PHOTO = Port("photo", OperandType(OperandCode.TENSOR_FLOAT32, (1, 3, 2, 2)), "FLOAT32", (1, 3, 2, 2))
CLASSES = Port("classes", OperandType(OperandCode.TENSOR_FLOAT32, (1, 1000)), "FLOAT32", (1, 1000))


@pytest.mark.parametrize(
    ("outputs", "said", "red"),
    [
        ((), "input 'photo': pixels are divided by 255, which is a guess", 200 / 255),
        (
            (CLASSES,),
            "input 'photo': pixels are normalised by ImageNet's mean and deviation, which is a guess",
            (200 - 123.675) / 58.395,
        ),
    ],
)
def test_a_guess_is_told_once(outputs: tuple[Port, ...], said: str, red: float) -> None:
    told: list[str] = []
    guessing = InputReader(ImportedModel(Model(), (PHOTO,), outputs), say=told.append)
    for _ in range(2):
        (array,) = guessing.arrays([Image.new("RGB", (2, 2), (200, 0, 0))])
        assert array[0, 0, 0, 0] == pytest.approx(red, rel=1e-5)
    assert len(told) == 1
    assert told[0].startswith(said)


def test_nothing_is_guessed_where_users_or_metadata_decide() -> None:
    told: list[str] = []
    image = Image.new("RGB", (2, 2), (200, 0, 0))
    known = Metadata(inputs=(TensorMetadata(mean=(100.0,), std=(50.0,)),))
    imported = ImportedModel(Model(), (PHOTO,), (CLASSES,), metadata=known)
    assert InputReader(imported, say=told.append).arrays([image])[0].max() == 2
    chosen = ImageOptions(Normalization((0.0,), (1.0,)))
    assert InputReader(imported, chosen, say=told.append).arrays([image])[0].max() == 200
    assert reader([PICTURE], say=told.append).arrays([image])[0].max() == 200
    assert told == []
