"""Rows of files, and what models make of them in batches."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tflite_net import Net, T, write

import nnvk
from nnvk.batch import Task, map_files, read_results

CPU = [nnvk.get_device("nnapi-reference")]
RECTANGLE = (1, 3)


def gather(path: Path) -> Path:
    """Picks one of five numbers by an index that is the input."""
    index = T("INT32", (1, 1), name="index")
    table = T("FLOAT32", data=np.arange(5, dtype=np.float32))
    net = Net([index], [T("FLOAT32", (1, 1))])
    net.op("GATHER", [table, index], net.outputs, "GatherOptions", Axis=0)
    path.write_bytes(write(net))
    return path


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_row_that_fails_to_execute(tmp_path, device, batch) -> None:
    np.save(tmp_path / "rows.npy", np.array([[3], [7], [0], [-9], [4]], np.int32))
    task = Task(gather(tmp_path / "gather.tflite"), batch)
    outcome = map_files(task, [tmp_path / "rows.npy"], tmp_path / "out", devices=[device])
    assert [failure.name.rpartition("#")[2] for failure in outcome.failures] == ["1", "3"]
    assert all("GATHER" in failure.reason for failure in outcome.failures)
    found = {name.rpartition("#")[2]: array.item() for name, (array,) in read_results(tmp_path / "out")}
    assert found == {"0": 3, "2": 0, "4": 4}


def negated(path: Path, shape: tuple[int, ...] = RECTANGLE) -> Path:
    net = Net([T("FLOAT32", shape, name="x")], [T("FLOAT32", shape, name="y")])
    net.op("NEG", net.inputs, net.outputs)
    path.write_bytes(write(net))
    return path


def mixing(path: Path) -> Path:
    """Takes the mean of all rows from each."""
    x, mean, y = T("FLOAT32", RECTANGLE, name="x"), T("FLOAT32", (1, 3)), T("FLOAT32", RECTANGLE, name="y")
    net = Net([x], [y])
    net.op("MEAN", [x, T("INT32", data=[0])], [mean], "ReducerOptions", KeepDims=True)
    net.op("SUB", [x, mean], [y], "SubOptions")
    path.write_bytes(write(net))
    return path


def turned(path: Path) -> Path:
    """Gives a column for a row."""
    net = Net([T("FLOAT32", RECTANGLE, name="x")], [T("FLOAT32", (3, 1), name="y")])
    net.op("TRANSPOSE", [*net.inputs, T("INT32", data=[1, 0])], net.outputs)
    path.write_bytes(write(net))
    return path


def test_models_that_take_no_batches(tmp_path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), np.float32))
    rows = [tmp_path / "rows.npy"]
    for path, said in (
        (negated(tmp_path / "flat.tflite", (3,)), r"first dimension is 1, 'x' is \[3\]"),
        (mixing(tmp_path / "mixing.tflite"), "rows depend on each other in output 'y'"),
        (turned(tmp_path / "turned.tflite"), r"of one row output 'y' is \[3, 1\], of 2 it is \[3, 2\]"),
    ):
        with pytest.raises(ValueError, match=said):
            map_files(Task(path, 2), rows, tmp_path / path.stem, devices=CPU)
    assert map_files(Task(tmp_path / "mixing.tflite"), rows, tmp_path / "single", devices=CPU).done == 4


def test_arrays(tmp_path) -> None:
    """One input, rows of inputs, and all inputs of a row."""
    model = negated(tmp_path / "negate.tflite")
    one, many = np.arange(3, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(4, 1, 3)
    np.save(tmp_path / "one.npy", one)
    np.save(tmp_path / "many.npy", many)
    np.save(tmp_path / "none.npy", np.zeros((0, 3), np.float32))
    np.savez(tmp_path / "named.npz", **{"0": one})
    np.save(tmp_path / "wrong.npy", np.zeros((2, 4), np.float32))
    np.save(tmp_path / "complex.npy", np.zeros((2, 3), np.complex64))
    names = ["one.npy", "many.npy", "none.npy", "named.npz", "wrong.npy", "complex.npy"]
    outcome = map_files(Task(model), [tmp_path / name for name in names], tmp_path / "out", devices=CPU)
    found = {Path(name).name: array for name, (array,) in read_results(tmp_path / "out")}
    assert list(found) == ["one.npy", *(f"many.npy#{place}" for place in range(4)), "named.npz"]
    np.testing.assert_array_equal(found["one.npy"], -one)
    np.testing.assert_array_equal(found["many.npy#2"], -many[2, 0])
    assert [Path(failure.name).name for failure in outcome.failures] == ["wrong.npy", "complex.npy#0", "complex.npy#1"]
    assert "got 2x4" in outcome.failures[0].reason
    assert "got complex64" in outcome.failures[1].reason


def test_a_header_that_lies_is_not_believed(tmp_path) -> None:
    """128 bytes that say that there are 1,000,000,000 rows behind them are one failure."""
    model = negated(tmp_path / "negate.tflite")
    for number, rows in enumerate((1_000_000_000, 1)):
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 1, 3), }}".encode().ljust(117) + b"\n"
        path = tmp_path / f"{number}.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
        outcome = map_files(Task(model), [path], tmp_path / f"out{number}", devices=CPU)
        (failure,) = outcome.failures
        assert failure.name == str(path)
        assert f"({12 * rows:,} bytes of an array, of which there are 0)" in failure.reason


def test_a_file_that_is_given_twice_has_its_rows_once(tmp_path) -> None:
    model = negated(tmp_path / "negate.tflite")
    np.save(tmp_path / "many.npy", np.zeros((4, 1, 3), np.float32))
    given = [tmp_path / "many.npy", tmp_path, tmp_path / "many.npy"]
    assert map_files(Task(model), given, tmp_path / "out", devices=CPU).done == 4


def added(path: Path) -> Path:
    net = Net([T("FLOAT32", RECTANGLE, name=name) for name in "xy"], [T("FLOAT32", RECTANGLE)])
    net.op("ADD", net.inputs, net.outputs, "AddOptions")
    path.write_bytes(write(net))
    return path


def test_several_inputs(tmp_path) -> None:
    model = added(tmp_path / "add.tflite")
    for number in range(5):
        np.savez(tmp_path / f"{number}.npz", **{"0": np.full(3, number, np.float32), "1": np.ones((1, 3), np.float32)})
    np.save(tmp_path / "alone.npy", np.ones((1, 3), np.float32))
    outcome = map_files(Task(model, 2), [tmp_path], tmp_path / "out", devices=CPU)
    assert [array.tolist() for _, (array,) in read_results(tmp_path / "out")] == [[n + 1.0] * 3 for n in range(5)]
    (failure,) = outcome.failures
    assert "2 inputs, give a .npz or Parquet" in failure.reason


# --- Parquet ----------------------------------------------------------------------------------------------------------


def parquet(path: Path, columns: dict, rows_of_a_group: int = 3) -> Path:
    arrow = pytest.importorskip("pyarrow")
    tables = pytest.importorskip("pyarrow.parquet")
    tables.write_table(arrow.table(columns), path, row_group_size=rows_of_a_group)
    return path


def test_columns_of_numbers(tmp_path) -> None:
    numbers = [float(number) for number in range(10)]
    columns = {"y": [[1.0, 2.0, n] for n in numbers], "id": numbers, "x": [[[n] * 3] for n in numbers]}
    path = parquet(tmp_path / "rows.parquet", columns)
    outcome = map_files(Task(added(tmp_path / "add.tflite"), 4), [path], tmp_path / "out", devices=CPU)
    assert (outcome.done, outcome.failures) == (10, ())
    for place, (name, (array,)) in enumerate(read_results(tmp_path / "out")):
        assert name == f"{path}#{place}"
        assert array.tolist() == [1.0 + place, 2.0 + place, 2.0 * place]


@pytest.mark.parametrize("form", ["bytes", "dictionary"])
def test_columns_of_images(task, digits, wanted, tmp_path, form) -> None:
    contents = [path.read_bytes() for path in digits]
    contents[3] = b"no image"
    values = contents if form == "bytes" else [{"bytes": content, "path": "x.png"} for content in contents]
    path = parquet(tmp_path / "rows.parquet", {"picture": values}, 5)
    outcome = map_files(task, [tmp_path], tmp_path / "out", devices=CPU)
    assert [failure.name for failure in outcome.failures] == [f"{path}#3"]
    assert "not an image" in outcome.failures[0].reason
    found = {name: array for name, (array,) in read_results(tmp_path / "out")}
    for place, digit in enumerate(digits):
        if place != 3:
            np.testing.assert_array_equal(found[f"{path}#{place}"], wanted[str(digit)])


def test_what_columns_can_not_be(tmp_path) -> None:
    model = Task(negated(tmp_path / "negate.tflite"))
    bad = {
        "text": ({"x": ["a"]}, "expected numbers or the bytes of an image, got str"),
        "short": ({"x": [[1.0, 2.0]]}, "expected 1x3, got 2"),
        "ragged": ({"x": [[[1.0], [2.0, 3.0]]]}, "unequal lengths"),
        "null": ({"x": [None, [1.0, 2.0, 3.0]]}, "got NoneType"),
        "other": ({"a": [[1.0, 2.0, 3.0]], "b": [1]}, r"the columns must be x: .* \(found a, b\)"),
    }
    for name, (columns, said) in bad.items():
        path = parquet(tmp_path / f"{name}.parquet", columns)
        outcome = map_files(model, [path], tmp_path / name, devices=CPU)
        assert outcome.done == len(next(iter(columns.values()))) - 1
        (failure,) = outcome.failures
        assert failure.name == f"{path}#0"
        assert re.search(said, failure.reason)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    (failure,) = map_files(model, [tmp_path / "broken.parquet"], tmp_path / "out", devices=CPU).failures
    assert "not a Parquet file that can be read" in failure.reason


def test_whole_numbers_that_do_not_fit(tmp_path) -> None:
    path = parquet(tmp_path / "rows.parquet", {"index": [[2], [2**40], [1]]})
    outcome = map_files(Task(gather(tmp_path / "gather.tflite")), [path], tmp_path / "out", devices=CPU)
    (failure,) = outcome.failures
    assert failure.reason.endswith(f"expected numbers of int32, got {2**40} to {2**40}")
    assert [array.item() for _, (array,) in read_results(tmp_path / "out")] == [2, 1]


def test_a_picture_as_its_bytes_is_the_one_in_a_file(tmp_path) -> None:
    """Also where it is turned, or transparent."""
    net = Net([T("FLOAT32", (1, 4, 6, 3), name="x")], [T("FLOAT32", (1, 4, 6, 3))])
    net.op("NEG", net.inputs, net.outputs)
    (tmp_path / "negate.tflite").write_bytes(write(net))
    pixels = np.random.default_rng(0).integers(0, 256, (8, 5, 4), np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(content, "PNG")
    (tmp_path / "x.png").write_bytes(content.getvalue())
    parquet(tmp_path / "y.parquet", {"x": [content.getvalue()]})
    task = Task(tmp_path / "negate.tflite")
    assert map_files(task, [tmp_path], tmp_path / "out", devices=CPU).done == 2
    first, second = (array for _, (array,) in read_results(tmp_path / "out"))
    np.testing.assert_array_equal(first, second)
