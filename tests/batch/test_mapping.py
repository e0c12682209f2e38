"""A model on many rows: all of them, once, whatever happens in the middle."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tflite_net import Net, T, write

import nnvk
from nnvk import NnapiError, ResultCode
from nnvk.batch import Task, map_files, mapping, read_results, results
from nnvk.batch.failures import KEPT
from nnvk.batch.input_rows import Rows
from nnvk.batch.results import Results
from nnvk.batch.task import Worker

CPU = [nnvk.get_device("nnapi-reference")]


def check(folder: Path, wanted: dict[str, np.ndarray]) -> None:
    """Every row is there once, with its result."""
    found = list(read_results(folder))
    assert sorted(name for name, _ in found) == sorted(wanted)
    for name, (array,) in found:
        np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.parametrize("device", nnvk.get_devices(), ids=lambda device: device.name)
@pytest.mark.parametrize("batch", [1, 5, 23, 64])
def test_results_are_those_of_single_executions(task, digits, wanted, tmp_path, device, batch) -> None:
    outcome = map_files(replace(task, batch=batch), digits, tmp_path / "out", devices=[device])
    assert (outcome.done, outcome.before, outcome.failures) == (len(digits), 0, ())
    check(tmp_path / "out", wanted)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_several_devices_share_the_work(task, digits, wanted, tmp_path, in_flight) -> None:
    counts = []

    def begin(total: int):
        counts.append(total)
        return counts.append

    map_files(task, digits, tmp_path / "out", devices=nnvk.get_devices(), in_flight=in_flight, begin=begin)
    assert counts == [len(digits), *[1] * len(digits)]
    assert [name for name, _ in read_results(tmp_path / "out")] == [str(path) for path in digits], "in their order"
    check(tmp_path / "out", wanted)


def test_what_is_done_is_not_done_again(task, digits, wanted, tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    map_files(task, digits[:10], out, devices=CPU)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    seen = []
    run = Worker.run
    monkeypatch.setattr(Worker, "run", lambda worker, rows: seen.extend(rows) or run(worker, rows))
    outcome = map_files(task, digits, out, devices=CPU)
    assert (outcome.done, outcome.before) == (len(digits) - 10, 10)
    assert sorted(row.path for row in seen) == digits[10:]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    check(out, wanted)
    assert map_files(task, digits, out, devices=CPU).done == 0


def test_a_bad_file_does_not_end_it(task, digits, wanted, tmp_path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for path in digits[:3]:
        shutil.copy(path, folder)
    (folder / "a.png").write_bytes(b"no image")
    (folder / "z.png").write_bytes(digits[4].read_bytes()[:100])
    (folder / "notes.txt").write_text("not for models")
    pairs = replace(task, batch=2)
    outcome = map_files(pairs, [folder, folder / "a.png"], out, devices=CPU)
    assert outcome.done == 3
    assert [failure.name for failure in outcome.failures] == [str(folder / "a.png"), str(folder / "z.png")]
    assert outcome.failures[0].reason == f"not an image: {folder}/a.png"
    with (out / "errors.csv").open(newline="") as file:
        assert list(csv.reader(file))[1:] == [[one.name, one.reason] for one in outcome.failures]
    shutil.copy(digits[5], folder / "a.png")
    (folder / "z.png").unlink()
    again = map_files(pairs, [folder], out, devices=CPU)
    assert (again.done, again.before, again.failures) == (1, 3, ())
    assert not (out / "errors.csv").exists()
    names = {str(folder / path.name): wanted[str(path)] for path in digits[:3]}
    check(out, {**names, str(folder / "a.png"): wanted[str(digits[5])]})


def test_failures_of_many_rows_are_not_kept_in_memory(task, tmp_path, monkeypatch) -> None:
    count, length = 20_000, 1_000
    np.save(tmp_path / "rows.npy", np.zeros((count, 2), np.int8))
    monkeypatch.setattr(mapping, "list_rows", lambda *_: [Rows(tmp_path / "rows.npy", count, True)])
    monkeypatch.setattr(Worker, "run", lambda worker, rows: [f"{row.name} {'x' * length}" for row in rows])
    tracemalloc.start()
    try:
        outcome = map_files(replace(task, batch=8), [tmp_path / "rows.npy"], tmp_path / "out", devices=CPU)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < count * length / 4
    assert (outcome.done, outcome.failed, len(outcome.failures)) == (0, count, KEPT)
    with (tmp_path / "out" / "errors.csv").open(newline="") as file:
        _, *lines = csv.reader(file)
    assert len(lines) == count and lines[:KEPT] == [[one.name, one.reason] for one in outcome.failures]
    assert lines[-1][0] == f"{tmp_path / 'rows.npy'}#{count - 1}"


def test_failures_before_an_error_are_not_the_last_runs(task, digits, tmp_path, monkeypatch) -> None:
    """The file says what a whole run came to."""
    (tmp_path / "a.png").write_bytes(b"no image")
    out = tmp_path / "out"
    map_files(task, [tmp_path / "a.png"], out, devices=CPU)
    said = (out / "errors.csv").read_bytes()

    def fail(worker: Worker, rows):
        if rows[0].path == digits[1]:
            raise NnapiError(ResultCode.DEAD_OBJECT, "it is gone")
        return ["it fails"]

    monkeypatch.setattr(Worker, "run", fail)
    with pytest.raises(NnapiError, match="it is gone"):
        map_files(task, digits[:3], out, devices=CPU)
    assert (out / "errors.csv").read_bytes() == said
    assert not list(out.glob(".*.tmp"))


def test_a_device_that_dies_is_no_rows_fault(task, digits, wanted, tmp_path, monkeypatch) -> None:
    run = Worker.run

    def fail(worker: Worker, rows):
        if rows[0].path == digits[7]:
            raise NnapiError(ResultCode.DEAD_OBJECT, "it is gone")
        return run(worker, rows)

    monkeypatch.setattr(Worker, "run", fail)
    with pytest.raises(NnapiError, match="it is gone"):
        map_files(task, digits, tmp_path / "out", devices=CPU)
    assert len(list(read_results(tmp_path / "out"))) == 7
    monkeypatch.setattr(Worker, "run", run)
    assert map_files(task, digits, tmp_path / "out", devices=CPU).before == 7
    check(tmp_path / "out", wanted)


SLOW = """
import sys, time
from pathlib import Path
from tflite_net import Net, T, write

import nnvk
from nnvk.batch import Task, map_files, results
from nnvk.batch.task import Worker
results._ROWS = 2
run = Worker.run
seen = []
def slow(worker, rows):
    seen.extend(rows)
    time.sleep(0.02 if len(seen) < 11 else 2)  # whoever kills it is in time
    return run(worker, rows)
Worker.run = slow
print("ready", flush=True)
paths = [Path(word) for word in sys.argv[2:]]
map_files(Task(paths[0]), paths[1:], Path(sys.argv[1]), devices=[nnvk.get_device("nnapi-reference")])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_what_a_killed_process_leaves(task, digits, wanted, tmp_path, number) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", SLOW, out, task.model, *digits]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        end = time.monotonic() + 60
        while len(list(out.glob("*.npz"))) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(number)
    assert process.returncode != 0
    done = list(read_results(out))
    assert 6 <= len(done) < len(digits)
    (out / ".000099.npz.abcd.tmp").write_bytes(b"half a file")
    outcome = map_files(task, digits, out, devices=CPU)
    assert (outcome.done, outcome.before) == (len(digits) - len(done), len(done))
    assert not list(out.glob(".*"))
    check(out, wanted)


def test_a_folder_is_of_one_task(task, digits, tmp_path) -> None:
    out = tmp_path / "out"
    map_files(task, digits[:1], out, devices=CPU)
    other = replace(task, model=task.model.with_name("digits_float.tflite"))
    with pytest.raises(ValueError, match=r"has results of another model: .*out"):
        map_files(other, digits[:1], out, devices=CPU)
    with pytest.raises(ValueError, match="another round_hybrid and relaxed"):
        map_files(replace(task, round_hybrid=False, relaxed=True), digits[:1], out, devices=CPU)
    with Results(out, task.about()), pytest.raises(ValueError, match="another process writes"):
        map_files(task, digits[:1], out, devices=CPU)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("kept")
    with pytest.raises(ValueError, match="is not empty, and not one of results"):
        map_files(task, digits[:1], tmp_path / "mine", devices=CPU)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["precious.txt"]
    (out / "map.json").write_text("[]")
    with pytest.raises(ValueError, match="another model and"):
        map_files(task, digits[:1], out, devices=CPU)


def test_names_of_files_may_be_words(task, digits, wanted, tmp_path) -> None:
    words = replace(task, model=str(task.model))
    assert map_files(words, [str(path) for path in digits], str(tmp_path / "out"), devices=CPU).done == len(digits)
    check(tmp_path / "out", wanted)
    with pytest.raises(TypeError, match="the inputs"):
        map_files(words, str(digits[0]), tmp_path / "out", devices=CPU)


def test_inputs_that_are_not_there(task, tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        map_files(task, [tmp_path / "absent"], tmp_path / "out", devices=CPU)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="there are no images"):
        map_files(task, [tmp_path / "empty"], tmp_path / "out", devices=CPU)
    with pytest.raises(ValueError, match="no engine 'abacus'"):
        map_files(task, [], tmp_path / "out", engine="abacus")


def test_files_are_written_as_time_goes_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(results, "_SECONDS", 0.0)
    with Results(tmp_path / "out", {}) as folder:
        folder.add("a", [np.zeros(3)])
        assert [name for name, _ in read_results(tmp_path / "out")] == ["a"]
        monkeypatch.setattr(results, "_SECONDS", 1e9)
        folder.add("b", [np.zeros(3)])
        assert len(list(read_results(tmp_path / "out"))) == 1
        folder.add("c", [np.zeros(4)])
        assert len(list(read_results(tmp_path / "out"))) == 2, "another shape begins another file"
        monkeypatch.setattr(results, "_BYTES", 60)
        folder.add("d", [np.zeros(4)])
        assert len(list(read_results(tmp_path / "out"))) == 4
    shapes = [(name, array.shape) for name, (array,) in read_results(tmp_path / "out")]
    assert shapes == [("a", (3,)), ("b", (3,)), ("c", (4,)), ("d", (4,))]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "out" / "map.json").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("damage", ["empty", "cut off", "text", "of another kind", "without names", "a huge header"])
def test_damaged_results_are_named(task, digits, tmp_path, damage) -> None:
    out = tmp_path / "out"
    map_files(task, digits[:3], out, devices=CPU)
    (path,) = out.glob("*.npz")
    content = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut off":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "text":
        path.write_text("no archive")
    elif damage == "of another kind":
        with path.open("wb") as file:
            np.savez(file, name=np.array([{}], object))
    elif damage == "without names":
        with path.open("wb") as file:
            np.savez(file, **{"0": np.zeros(3)})
    else:
        head = b"{'descr': '<U9', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("name.npy", b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head)
    for use in (lambda: map_files(task, digits, out, devices=CPU), lambda: list(read_results(out))):
        with pytest.raises(ValueError, match=r"damaged results, without which the rows are computed again: .*\.npz"):
            use()
    path.unlink()
    assert map_files(task, digits[:3], out, devices=CPU).done == 3


def test_rows_are_not_listed_before_the_first_is_run(task, tmp_path, monkeypatch) -> None:
    """There may be more than fit into memory."""
    begun: list[int] = []

    def stop(*_: object) -> list[np.ndarray]:
        raise NnapiError(ResultCode.DEAD_OBJECT, "it has died")

    monkeypatch.setattr(mapping, "list_rows", lambda *_: [Rows(tmp_path / "many.npy", 10**15, has_places=True)])
    monkeypatch.setattr(Worker, "run", stop)
    with pytest.raises(NnapiError, match="it has died"):
        map_files(task, [], tmp_path / "out", devices=CPU, begin=lambda count: begun.append(count) or print)
    assert begun == [10**15]


def test_names_of_rows() -> None:
    places = ["a#0", "a#2", "a#70", "b#c#1"]
    others = ["a", "a#", "a#-1", "a#01", "#3", "a#٣", "a#1.npy", f"a#{10**30}", "no\udcffname#x"]
    names = results.Names([*places, *others])
    assert all(name in names for name in (*places, *others))
    assert not any(name in names for name in ("a#1", "a#71", "b", "b#c", "b#c#2", "c#0", "#4", "", "a#1e2"))
    assert [names.count(Rows(Path("a"), count, has_places=True)) for count in (0, 1, 3, 70, 71)] == [0, 1, 2, 2, 3]
    assert names.count(Rows(Path("c"), 5, has_places=True)) == 0
    assert [names.count(Rows(Path(name), 1, has_places=False)) for name in ("a", "b", "a#2")] == [1, 0, 1]


RAY = """
class exceptions:
    class RayError(Exception): pass
def is_initialized(): return False
def init(**_): raise {error}
"""


@pytest.mark.parametrize("error", ["ConnectionError('a long story\\nno cluster at 1.2.3.4')", "RuntimeError()"])
def test_a_ray_that_does_not_start(task, digits, tmp_path, monkeypatch, error) -> None:
    package = tmp_path / "packages" / "ray"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(RAY.format(error=error))
    (package / "data.py").touch()
    (package / "exceptions.py").write_text("class RayError(Exception): pass\n")
    monkeypatch.syspath_prepend(package.parent)
    for name in [name for name in sys.modules if name.split(".")[0] == "ray" or name == "nnvk.batch.on_ray"]:
        monkeypatch.delitem(sys.modules, name)
    said = "no cluster at 1.2.3.4" if "story" in error else "RuntimeError"
    with pytest.raises(NnapiError, match=f"Ray does not start: {said}") as raised:
        map_files(task, digits, tmp_path / "out", engine="ray")
    assert raised.value.code is ResultCode.UNAVAILABLE_DEVICE
    monkeypatch.delitem(sys.modules, "nnvk.batch.on_ray")


def test_names_that_are_no_unicode(task, digits, tmp_path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))
    shutil.copy(digits[0], path)
    (tmp_path / '\x1b[2J\n,".png').write_bytes(b"no image")
    for _ in range(2):  # the second time there are results in it, which are no rows
        outcome = map_files(task, [tmp_path], tmp_path / "out", devices=CPU)
        assert len(outcome.failures) == 1
    assert outcome.before == 1
    assert [name for name, _ in read_results(tmp_path / "out")] == [str(path)]


def test_photos_for_a_model_that_takes_none_end_it_at_once(digits, tmp_path, monkeypatch) -> None:
    x, y = T("FLOAT32", (1, 640), name="x"), T("FLOAT32", (1, 640))
    net = Net([x], [y])
    net.op("NEG", [x], y)
    (tmp_path / "vector.tflite").write_bytes(write(net))
    monkeypatch.setattr(nnvk.Compilation, "finish", lambda _: pytest.fail("it compiles"))
    with pytest.raises(ValueError, match=r"an image fits an input of .*, the model's is float32 1x640: .*\.png"):
        map_files(Task(tmp_path / "vector.tflite"), digits, tmp_path / "out", devices=CPU)


def test_a_remark_is_made_once(digits, tmp_path) -> None:
    """The first row is read before devices compile, and each device has a reader of its own."""
    x, y = T("FLOAT32", (1, 3, 5, 7), name="x"), T("FLOAT32", (1, 3, 5, 7))
    net = Net([x], [y])
    net.op("NEG", [x], y)
    (tmp_path / "photo.tflite").write_bytes(write(net))
    said: list[str] = []
    task = Task(tmp_path / "photo.tflite", say=said.append)
    map_files(task, digits, tmp_path / "out", devices=[*CPU, *CPU])
    assert len(said) == 1
    assert "which is a guess" in said[0]
