"""`nnvk.load` with ``device="auto"``: the faster one of a device and of the library beside nnvk computes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnxruntime
from onnx import ModelProto
from onnx_net import model, op
from tflite_net import Net, T, write
from typer.testing import CliRunner

import nnvk
from nnvk import LoadedModel, NnapiError, ResultCode
from nnvk.base.errors import bad_data, op_failed
from nnvk.base.settings import override
from nnvk.batch.mapping import map_files
from nnvk.batch.task import Task
from nnvk.cli.main import app
from nnvk.importers import measured
from nnvk.importers.onnx.library import OnnxPart
from nnvk.loading.beside import CpuLibraryWarning
from nnvk.loading.mixed_plan import MixedPlan
from nnvk.loading.shaped_model import ShapedModel

F = np.float32
RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3)).astype(F)
WEIGHTS = RNG.standard_normal((3, 4)).astype(F)
DEVICE = nnvk.get_devices()[0].name
BOTH = ["device", "library"]


class Clock:
    """A clock that only computing moves on, and what has computed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.device, self.library = 1e-3, 2e-3
        self.ran: list[str] = []
        self.plans = 0
        self.sessions = 0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of what is kept."""
    with override(cpu_libraries=True, cache_dir=str(tmp_path / "kept")):
        yield tmp_path / "kept"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    def run_by(which: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: ShapedModel, arrays: Any) -> Any:
            is_part = isinstance(self, MixedPlan) and self.step_count > 1
            made.ran.append("device" if is_part else which)
            made.now += made.device if is_part else getattr(made, which)
            return own(self, arrays)

        return run

    def counted(what: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def count(self: Any, *arguments: Any) -> Any:
            setattr(made, what, getattr(made, what) + 1)
            return own(self, *arguments)

        return count

    monkeypatch.setattr(ShapedModel, "run", run_by("device", ShapedModel.run))
    monkeypatch.setattr(MixedPlan, "run", run_by("library", MixedPlan.run))
    monkeypatch.setattr(ShapedModel, "__init__", counted("plans", ShapedModel.__init__))
    monkeypatch.setattr(onnxruntime, "InferenceSession", counted_session(made))
    monkeypatch.setattr(measured, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def counted_session(clock: Clock) -> type[onnxruntime.InferenceSession]:
    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            clock.sessions += 1
            super().__init__(*arguments, **named)

    return Session


def product() -> ModelProto:
    """A product, for any number of rows."""
    return model([op("MatMul", "x w", "p"), op("Tanh", "p", "y")], {"x": (F, ["rows", 3])}, ["y"], {"w": WEIGHTS})


def auto(made: ModelProto | bytes | None = None, **options: Any) -> LoadedModel:
    made = made or product()
    return nnvk.load(made if isinstance(made, bytes) else made.SerializeToString(), device="auto", **options)


def by_onnxruntime(made: ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    return np.asarray(found)


def test_the_faster_one_stays(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    want = {"device": nnvk.load(product().SerializeToString())(X), "library": by_onnxruntime(product(), X)}
    for device, library, winner in ((2, 1, "library"), (1, 2, "device"), (1, 0.98, "device"), (1.04, 1, "device")):
        clock.device, clock.library, clock.ran = device * 1e-3, library * 1e-3, []
        with override(cache_dir="0"), caplog.at_level(logging.INFO, "nnvk.compilation"):
            loaded = auto()
            for _ in range(11):
                np.testing.assert_array_equal(loaded(X), want[(BOTH * 4 + [winner] * 3)[len(clock.ran) - 1]])
            assert clock.ran == BOTH * 4 + [winner] * 3
            name = DEVICE if winner == "device" else "onnxruntime"
            said = [each for each in caplog.messages if " computes inputs of 2x3" in each]
            assert [f"the model: {name} computes" in each for each in said] == [True]
            assert f"it takes {device:.3g} ms on {DEVICE} and {library:.3g} ms in onnxruntime" in said[0]
            assert {placed.device for placed in loaded.where()} == {name}
            assert f"2 operations on {name}" in loaded.placement and loaded.placement in repr(loaded)
            assert loaded.whole_library == ("" if winner == "device" else "onnxruntime")
            assert (loaded.nbytes > 0) == (winner == "device")
        caplog.clear()


def test_what_is_much_slower_is_not_computed_again(clock: Clock) -> None:
    for device, library, winner in ((1, 0.2, "library"), (0.2, 1, "device")):
        clock.device, clock.library, clock.ran = device, library, []
        with override(cache_dir="0"):
            loaded = auto()
            for _ in range(6):
                loaded(X)
        assert clock.ran == BOTH * 2 + [winner] * 2


@pytest.mark.parametrize("winner", BOTH)
def test_another_process_knows_it(winner: str, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    setattr(clock, winner, 1e-4)
    first = auto()
    assert f"operations on {DEVICE}" in first.placement
    first.settle(X)
    clock.ran, clock.plans, clock.sessions = [], 0, 0
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        second = auto()
        second.prepare(X)
        assert winner == "device" or {placed.device for placed in second.where()} == {"onnxruntime"}
        second(X)
        second(X)
    assert clock.ran == [winner] * 2
    assert (clock.plans, clock.sessions) == ((1, 0) if winner == "device" else (0, 1))
    name = DEVICE if winner == "device" else "onnxruntime"
    said = f"the model: {name} computes inputs of 2x3, which was measured before"
    assert [each for each in caplog.messages if "computes" in each] == [said]


@pytest.mark.parametrize("other", [{"relaxed": True}, {"shapes": {"rows": 2}}])
def test_other_options_are_measured_anew(other: dict[str, Any], clock: Clock) -> None:
    auto().settle(X)
    clock.ran = []
    auto(**other).settle(X)
    auto(model([op("Tanh", "x", "y")], {"x": (F, [2, 3])}, ["y"])).settle(X)
    assert clock.ran == BOTH * 8


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data[:-40] + b"else" + data[-36:]])
def test_a_damaged_file_is_measured_anew(damage: Callable[[bytes], bytes], folder: Path, clock: Clock) -> None:
    clock.library = 1e-4
    auto().settle(X)
    (file,) = folder.glob("faster-*")
    file.write_bytes(damage(file.read_bytes()))
    clock.ran = []
    again = auto()
    again.settle(X)
    assert clock.ran == BOTH * 4
    assert auto().whole_library == ""  # for other sizes
    kept = auto()
    kept.prepare(X)
    assert kept.whole_library == "onnxruntime"


def test_a_choice_that_is_none_is_measured_anew(folder: Path, clock: Clock) -> None:
    auto().settle(X)
    (path,) = folder.glob("faster-*")
    header, body = measured._KIND.read(path, most_header=1 << 16, most_body=1 << 16)
    measured._KIND.write(path, header, [bytes(body).replace(b'"device"', b'"else"')])
    clock.ran = []
    auto().settle(X)
    assert clock.ran == BOTH * 4


def test_sizes_decide_on_their_own(clock: Clock) -> None:
    loaded = auto()
    clock.device, clock.library = 1e-3, 2e-3
    loaded.settle(X)
    clock.device, clock.library = 3e-3, 2e-3
    loaded.settle(X[:1])
    clock.ran = []
    for x in (X, X[:1], X):
        np.testing.assert_allclose(loaded(x), np.tanh(x @ WEIGHTS), rtol=1e-5)
        assert loaded.whole_library == ("" if len(x) == 2 else "onnxruntime")
    assert clock.ran == ["device", "library", "device"]


def test_all_forms_of_calls(clock: Clock) -> None:
    loaded = auto()
    want = np.tanh(X @ WEIGHTS)
    for _ in range(2):
        for got in (
            loaded.start(X).result(),
            next(loaded.stream([X])),
            asyncio.run(loaded.run_async(X)),
            loaded(X.tolist()),
            loaded(X.astype(np.float64)),
            loaded({"x": X}, outputs="y"),
            loaded.compute([X])[0],
        ):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        assert loaded.profile(X).parts
        clock.library = 1e-5
        loaded.settle(X)
    assert loaded.whole_library == "onnxruntime"
    np.testing.assert_allclose(loaded.parts([X])[0][1][0], X)
    assert loaded.own_parts([X])[0][0].model is not None
    with pytest.raises(NnapiError, match="nnvk has compiled no part of the model"):
        _ = loaded.compilation
    loaded.reset()
    loaded.close()
    with pytest.raises(NnapiError, match="the model is closed"):
        loaded(X)


def test_a_part_of_a_model_in_a_library(clock: Clock) -> None:
    """The whole file in onnxruntime may be faster than the parts for which NNAPI has operations on a device."""
    made = model(
        [
            op("MatMul", "x w", "p"),
            op("SequenceConstruct", "p p", "s"),
            op("ConcatFromSequence", "s", "c", axis=1),
            op("Tanh", "c", "y"),
        ],
        {"x": (F, ["rows", 3])},
        ["y"],
        {"w": WEIGHTS},
    )
    clock.library = 1e-5
    with pytest.warns(CpuLibraryWarning):
        loaded = auto(made)
    assert loaded.is_mixed
    for _ in range(measured.MOST_CALLS):
        np.testing.assert_allclose(loaded(X), by_onnxruntime(made, X), rtol=1e-5)
    assert loaded.placement == "4 operations on onnxruntime"
    assert [imported.inputs[0].name for imported, _ in loaded.own_parts([X])] == ["x"]


def test_threads_share_it(clock: Clock) -> None:
    clock.library = 1e-5
    loaded = auto()
    inputs = [RNG.standard_normal((rows, 3)).astype(F) for rows in (1, 2, 3) * 40]
    with ThreadPoolExecutor(4) as pool:
        for x, y in zip(inputs, pool.map(loaded, inputs), strict=True):
            np.testing.assert_allclose(y, np.tanh(x @ WEIGHTS), rtol=1e-5, atol=1e-6)
    loaded.settle(X)
    assert loaded.whole_library == "onnxruntime"


def test_times_that_other_programs_disturb() -> None:
    times = measured.Times()
    spent = {"device": [9.0, 2.5, 2.4, 2.6, 2.5, 2.5, 2.5, 2.5], "library": [9.0, 0.6, 6.0, 5.0, 0.5, 0.6, 0.6, 0.6]}
    left = {which: iter(each) for which, each in spent.items()}
    known = []
    for which in BOTH * 8:
        turn = times.begin()
        assert turn[0] == which
        known.append(times.end(*turn, next(left[which]) * 1e-3))
    assert known == [False] * (measured.MOST_CALLS - 1) + [True]
    assert times.winner == "library"


def test_calls_at_once_are_not_measured() -> None:
    times = measured.Times()
    first, second = times.begin(), times.begin()
    assert (first[0], second[0]) == ("device", "device")
    assert not times.end(*second, 1) and not times.end(*first, 1)
    assert times.spent == {"device": [], "library": []}


def test_nothing_is_measured_while_a_driver_compiles_a_better_plan(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = auto()
    with monkeypatch.context() as patch:
        patch.setattr(measured, "is_compiling", lambda: True)
        loaded.settle(X)
    assert clock.ran == ["device"] * measured.MOST_CALLS
    loaded.settle(X)
    assert clock.ran[measured.MOST_CALLS :] == BOTH * 4


def test_the_device_computes_further_sizes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "_MOST_SIZES", 1)
    loaded = auto()
    loaded(X)
    clock.ran = []
    loaded.settle(X[:1])
    assert clock.ran == []
    loaded.settle(X)
    assert clock.ran == (BOTH * 4)[1:]


# --- without a choice ------------------------------------------------------------------------------------------------


def states() -> bytes:
    x, memory = T("FLOAT32", (1, 2), name="x"), T("FLOAT32", (1, 2), variable=True)
    net = Net([x], [T("FLOAT32", (1, 2))])
    net.op("RNN", [x, T(data=np.eye(2)), T(data=np.eye(2)), T(data=[0.0, 0.0]), memory], net.outputs[0], "RNNOptions")
    return write(net)


@pytest.mark.parametrize(
    ("made", "options", "reason"),
    [
        (product, {"fallback": False}, "fallback=False allows no library"),
        (product, {"verified": True}, "only devices verify their results"),
        (states, {}, "the model has states, or may have some"),
    ],
)
def test_no_choice(
    made: Callable[[], Any], options: dict[str, Any], reason: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        loaded = auto(made(), **options)
        x = loaded.random()
        for _ in range(3):
            loaded(*x)
    assert [each for each in caplog.messages if "computes" in each] == [f"the model: the device computes: {reason}"]
    assert clock.ran == ["device"] * 3


def test_no_library(clock: Clock, caplog: pytest.LogCaptureFixture, folder: Path) -> None:
    with override(cpu_libraries=False), caplog.at_level(logging.INFO, "nnvk.compilation"):
        loaded = auto()
        loaded.settle(X)
        loaded(X)
    assert ["onnxruntime is not installed, or NNVK_CPU_LIBRARIES=0" in each for each in caplog.messages] == [True]
    assert clock.ran == ["device"] and not list(folder.glob("faster-*"))


def test_a_library_that_refuses_the_file(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: OnnxPart) -> None:
        raise op_failed("onnxruntime: no such model")

    monkeypatch.setattr(OnnxPart, "prepare", refuse)
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        loaded = auto()
        for x in (X, X[:1], X):
            np.testing.assert_allclose(loaded(x), np.tanh(x @ WEIGHTS), rtol=1e-5)
    assert clock.ran == ["device"] * 3
    assert caplog.messages == [
        "the model: the device computes, onnxruntime can't: OP_FAILED: onnxruntime: no such model"
    ]


def test_a_file_that_is_gone(clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "product.onnx"
    path.write_bytes(product().SerializeToString())
    loaded = nnvk.load(path, device="auto")
    path.unlink()
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        loaded(X)
        loaded(X)
    assert clock.ran == ["device"] * 2
    assert ["No such file" in each for each in caplog.messages] == [True]


def test_a_library_that_fails_while_it_is_measured(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(OnnxPart, "run", fails)
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        loaded = auto()
        for _ in range(4):
            np.testing.assert_allclose(loaded(X), np.tanh(X @ WEIGHTS), rtol=1e-5)
    assert clock.ran == ["device", "library", "device", "device", "device"]
    assert [each for each in caplog.messages if "can't" in each] == [
        f"the model: {DEVICE} computes inputs of 2x3, onnxruntime can't: onnxruntime: no"
    ]
    assert not list(folder.glob("faster-*"))


def test_a_library_that_fails_later(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    clock.library = 1e-5
    loaded = auto()
    loaded.settle(X)
    with monkeypatch.context() as patch:
        patch.setattr(OnnxPart, "run", fails)
        np.testing.assert_allclose(loaded(X), np.tanh(X @ WEIGHTS), rtol=1e-5)
        np.testing.assert_allclose(loaded.start(X).result(), np.tanh(X @ WEIGHTS), rtol=1e-5)
    clock.ran = []
    loaded(X)
    assert clock.ran == ["library"]


def fails(*_: Any) -> Any:
    raise op_failed("onnxruntime: no")


@pytest.mark.filterwarnings("ignore::nnvk.loading.beside.CpuLibraryWarning")
def test_errors_are_those_without_a_choice(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors are those of inputs, of a device that is broken, and of data that neither computes."""
    clock.library = 1e-5
    plain, loaded = nnvk.load(product().SerializeToString()), auto()
    for _ in range(3):
        for wrong in (X[:, :2], "no file.npy", X * 1j):
            with pytest.raises(Exception) as one:
                plain(wrong)
            with pytest.raises(type(one.value)) as other:
                loaded(wrong)
            assert str(other.value) == str(one.value)
        loaded.settle(X)
    for error in (bad_data("of data"), NnapiError(ResultCode.DEAD_OBJECT, "gone")):

        def raises(*_: Any, error: NnapiError = error) -> Any:
            raise NnapiError(error.code, error.reason)

        with monkeypatch.context() as patch:
            patch.setattr(ShapedModel, "run", raises)
            patch.setattr(OnnxPart, "run", fails)
            for rows in (2, 1):  # known, and while it is measured
                found = []
                for each in (plain, loaded):
                    with pytest.raises(NnapiError) as caught:
                        each(X[:rows])
                    found.append(str(caught.value))
                assert found[0] == found[1]


# --- LiteRT and commands ---------------------------------------------------------------------------------------------


def dense() -> bytes:
    x, y = T("FLOAT32", (2, 3), name="x"), T("FLOAT32", (2, 4), name="y")
    net = Net([x], [y])
    net.op("FULLY_CONNECTED", [x, T(data=WEIGHTS.T.copy())], y, "FullyConnectedOptions")
    return write(net)


def test_litert(clock: Clock) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=dense())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    want = {
        "device": nnvk.load(dense())(X),
        "library": interpreter.get_tensor(interpreter.get_output_details()[0]["index"]),
    }
    clock.library, clock.ran = 1e-5, []
    loaded = auto(dense())
    for _ in range(measured.MOST_CALLS + 2):
        result = loaded(X)
        np.testing.assert_array_equal(result, want[clock.ran[-1]])
    assert loaded.placement == "1 operation on LiteRT" and clock.ran[-1] == "library"


def test_commands(clock: Clock, tmp_path: Path) -> None:
    clock.library = 1e-5
    path = tmp_path / "product.onnx"
    path.write_bytes(product().SerializeToString())
    np.save(tmp_path / "x.npy", X[:1])
    shape = ["--shape", "rows=1"]

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [*map(str, arguments), *shape])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert f"2 on {DEVICE}" in run("info", path, "--device", "auto")
    assert f"2 operations on {DEVICE}" in run("run", path, "--device", "auto")
    assert "auto: onnxruntime" in run("bench", path, "--device", "AUTO", "--runs", 1)
    assert "step 0 on onnxruntime" in run("bench", path, "--device", "auto", "--profile", "--runs", 1)
    assert "2 on onnxruntime" in run("info", path, "--device", "auto")
    assert "2 operations on onnxruntime" in run("run", path, "--device", "auto", "--input", tmp_path / "x.npy")
    assert f"2 on {DEVICE}" in run("info", path)
    clock.ran = []
    run("map", path, tmp_path / "x.npy", "--out", tmp_path / "out", "--device", "auto")
    assert clock.ran == ["library"]
    refused = CliRunner().invoke(app, ["map", str(path), "x", "--out", "y", "--device", "auto", "--device", "cpu"])
    assert "--device auto is one device or a library" in refused.output


def test_the_variable_holds_where_no_device_is_named(clock: Clock, tmp_path: Path) -> None:
    clock.library = 1e-5
    path = tmp_path / "product.onnx"
    path.write_bytes(product().SerializeToString())
    np.save(tmp_path / "x.npy", X[:1])

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [*map(str, arguments), "--shape", "rows=1"])
        assert result.exit_code == 0, result.output
        return result.stdout

    with override(device="auto"):
        for named, ran in ((None, BOTH), (DEVICE, ["device"] * 2), ("auto", BOTH)):
            clock.ran = []
            loaded = nnvk.load(path, device=named)
            for _ in range(2):
                loaded(X)
            assert clock.ran == ran
        assert "auto: onnxruntime" in run("bench", path, "--runs", 1)
        assert "auto: onnxruntime" not in run("bench", path, "--device", DEVICE, "--runs", 1)
        assert "2 on onnxruntime" in run("info", path)
        assert f"2 on {DEVICE}" in run("info", path, "--device", DEVICE)
        assert "2 operations on onnxruntime" in run("run", path)
        for others, ran in ((["--device", DEVICE], ["device"]), ([], ["library"])):
            clock.ran = []
            run("map", path, tmp_path / "x.npy", "--out", tmp_path / f"out{len(others)}", *others)
            assert clock.ran == ran
    assert f"2 operations on {DEVICE}" in run("run", path)


def test_a_batch_is_measured_before_its_rows(clock: Clock, tmp_path: Path) -> None:
    clock.library = 1e-5
    made = model([op("MatMul", "x w", "y")], {"x": (F, [1, 3])}, ["y"], {"w": WEIGHTS})
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", RNG.standard_normal((20, 1, 3)).astype(F))
    outcome = map_files(Task(tmp_path / "m.onnx", auto=True), [tmp_path / "x.npy"], tmp_path / "out", in_flight=4)
    assert outcome.done == 20
    assert clock.ran == BOTH * 4 + ["library"] * 20
