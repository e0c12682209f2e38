"""``device=auto`` of the provider: a device or onnxruntime computes a part, whichever is faster."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import ModelProto, helper
from onnx_net import model, op

from nnvk import get_device, get_devices
from nnvk.base.errors import op_failed
from nnvk.base.settings import override
from nnvk.importers import measured
from nnvk.importers.choosing import Choice
from nnvk.importers.onnx import provider
from nnvk.importers.onnx.backend import PreparedModel
from nnvk.importers.onnx.bound import BoundRun
from nnvk.importers.onnx.file import OnnxFile
from nnvk.importers.onnx.library import part_of_file
from nnvk.importers.onnx.part_choices import by_name, choices_of, without_faster
from nnvk.importers.onnx.stored import StoredTensor, stored

F = np.float32
X = np.random.default_rng(2).standard_normal((2, 3)).astype(F)
WEIGHTS = np.random.default_rng(1).standard_normal((3, 4)).astype(F)
CPU = [get_device("nnapi-reference")]
BOTH = ["device", "library"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of what is kept."""
    with override(cpu_libraries=True, cache_dir=str(tmp_path / "kept")):
        yield tmp_path / "kept"


class Clock:
    """A clock that only computing moves on, and what has computed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.device, self.library = 1e-3, 2e-3
        self.ran: list[str] = []
        self.fails = False
        self.sessions = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made, own = Clock(), BoundRun._on_device

    def on_device(self: BoundRun) -> Any:
        made.ran.append("device")
        made.now += made.device
        return own(self)

    monkeypatch.setattr(BoundRun, "_on_device", on_device)
    monkeypatch.setattr(measured, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def product(rows: int | str = 2) -> ModelProto:
    return model([op("MatMul", "x w", "p"), op("Tanh", "p", "y")], {"x": (F, [rows, 3])}, ["y"], {"w": WEIGHTS})


def prepared(clock: Clock, made: ModelProto) -> PreparedModel:
    file = OnnxFile(made.SerializeToString())
    names = [one.name for one in made.graph.input]

    class Library:
        def __init__(self) -> None:
            clock.sessions += 1
            self._part = part_of_file(file, names)

        def run(self, values: Sequence[Any]) -> list[Any]:
            clock.ran.append("library")
            clock.now += clock.library
            if clock.fails:
                raise op_failed("onnxruntime: no")
            return self._part.run(values)

    library: Callable[[], Any] = Library
    return PreparedModel(file, names, CPU, cpu=library, choices=choices_of(file, CPU, False))


def tensor(array: np.ndarray) -> StoredTensor:
    return StoredTensor(memoryview(bytearray(stored(array))), array.dtype, array.shape)


def computed(run: BoundRun, place: bytearray) -> np.ndarray:
    """The output of a run, which is in its place or comes with the reply."""
    place[:] = bytes(len(place))
    given = run.compute()
    return np.frombuffer(place, F).reshape(2, 4) if given is None else given[0]


def bound(model: PreparedModel) -> tuple[BoundRun, bytearray]:
    run, place = BoundRun(model, [tensor(X)]), bytearray(32)
    if run.outputs is not None:
        run.set_outputs([memoryview(place)])
    return run, place


@pytest.mark.parametrize("winner", BOTH)
def test_the_faster_one_stays_in_this_session_and_the_next(
    winner: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    setattr(clock, winner, 1e-4)
    model = prepared(clock, product())
    run = bound(model)
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        for _ in range(10):
            np.testing.assert_allclose(computed(*run), np.tanh(X @ WEIGHTS), rtol=1e-5)
        assert clock.ran == BOTH * 4 + [winner] * 2
        assert (model._faster is None) == (winner == "device")
        computes = "onnxruntime" if winner == "library" else CPU[0].name
        said = f"a part of 2 nodes: {computes} computes inputs of 2x3: it takes"
        assert [each.startswith(said) for each in caplog.messages if " computes " in each] == [True]
        clock.ran, clock.sessions = [], 0
        other = bound(prepared(clock, product()))
        assert (other[0].outputs is None) == (winner == "library")  # nothing was compiled
        np.testing.assert_allclose(computed(*other), np.tanh(X @ WEIGHTS), rtol=1e-5)
    assert clock.ran == [winner] and clock.sessions == (winner == "library")
    assert caplog.messages[-1] == f"a part of 2 nodes: {computes} computes inputs of 2x3, which was measured before"


def test_a_library_that_fails(clock: Clock, folder: Path) -> None:
    """The device computes, while they are measured and later."""
    clock.library, clock.fails = 1e-4, True
    run = bound(prepared(clock, product()))
    for _ in range(3):
        np.testing.assert_allclose(computed(*run), np.tanh(X @ WEIGHTS), rtol=1e-5)
    assert clock.ran == ["device", "library", "device", "device"] and not folder.exists()
    clock.fails = False
    run = bound(prepared(clock, product()))
    for _ in range(8):
        run[0].compute()
    for fails, ran in ((True, [*BOTH[::-1]]), (False, ["library"])):
        clock.fails, clock.ran = fails, []
        np.testing.assert_allclose(computed(*run), np.tanh(X @ WEIGHTS), rtol=1e-5)
        assert clock.ran == ran


def graph(names: str = "ab", rows: int | str = 2, weights: np.ndarray = WEIGHTS) -> ModelProto:
    """Two parts, with a node between them that stays, as onnxruntime has it: all types are known."""
    first, second = names
    nodes = [
        op("MatMul", "x w", first),
        op("Tanh", first, "t"),
        op("Inverse", "t", "i"),
        op("Neg", "i", second),
        op("Exp", second, "y"),
    ]
    made = model(nodes, {"x": (F, [rows, 3])}, ["y"], {"w": weights})
    made.graph.value_info.extend(helper.make_tensor_value_info(name, 1, [rows, 4]) for name in (*names, "t", "i"))
    return made


def test_parts_that_stay_in_the_next_session(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    choice = Choice(["", "", "no", "", ""], [[0, 1], [3, 4]])

    def after(made: ModelProto, relaxed: bool = False) -> Choice:
        return without_faster(choice, OnnxFile(made.SerializeToString()), CPU, relaxed)

    assert after(graph()) == choice
    clock.library = 1e-4
    nodes = [op("Tanh", "a", "t"), op("MatMul", "x w", "a")]  # the same ones in another order
    run = bound(prepared(clock, model(nodes, {"x": (F, [2, 3])}, ["t"], {"w": WEIGHTS})))
    for _ in range(8):
        run[0].compute()
    reason = "onnxruntime was measured to be faster: device=auto"
    assert after(graph()) == Choice([reason, reason, "no", "", ""], [[3, 4]])
    for other in (graph(rows=3), graph(rows="n"), graph("cb"), graph(weights=-WEIGHTS)):
        assert after(other) == choice
    assert after(graph(), relaxed=True) == choice


def test_weights_are_told_apart_wherever_they_are() -> None:
    """The elements of large ones are beside the graph, at places that differ between the whole and a part."""
    digests = []
    for place, elements in ((0, WEIGHTS), (64, WEIGHTS), (0, -WEIGHTS)):
        made = product()
        (weights,) = made.graph.initializer
        weights.ClearField("raw_data")
        weights.data_location = weights.EXTERNAL
        for key, value in {"location": "weights", "offset": place, "length": elements.nbytes}.items():
            weights.external_data.add(key=key, value=str(value))
        memory = memoryview(bytes(place) + elements.tobytes())
        digests.append(choices_of(OnnxFile(made.SerializeToString(), memory), CPU, False)._digest)
    assert digests[0] == digests[1] != digests[2]


def test_shapes_are_in_the_order_of_names() -> None:
    assert by_name({"b": (1,), "a": (2, 3)}) == by_name({"a": (2, 3), "b": (1,)}) == ((2, 3), (1,))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cpu_libraries": False}, "onnxruntime is not installed, or NNVK_CPU_LIBRARIES=0 switches it off"),
        ({"verified": "1"}, "only devices verify their results"),
        ({}, ""),
    ],
)
def test_where_the_device_computes_all(settings: dict[str, Any], reason: str) -> None:
    with override(**settings):
        assert provider._why_device() == reason


# --- sessions --------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
from onnxruntime import InferenceSession, SessionOptions
options = SessionOptions()
for path in sys.argv[2:]:
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", path)
session = InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
for _ in range(20):
    (y,) = session.run(None, {"x": np.ones((2, 3), np.float32)})
print(" ".join(f"{value:.4f}" for value in y.flat))
"""


def test_programs(tmp_path: Path, folder: Path) -> None:
    """A session leaves the nodes to onnxruntime where a session before has measured it to be faster."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "model.onnx").write_bytes(product().SerializeToString())
    expected = " ".join(f"{value:.4f}" for value in np.tanh(np.ones((2, 3), F) @ WEIGHTS).flat)

    def placement(*options: str, saved: Sequence[str] = (), **variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NNVK_CACHE_DIR": str(folder)}
        environment["NNVK_CPU_LIBRARIES"] = "1"
        command = [sys.executable, "-m", "nnvk.onnxruntime", *options, "program.py", "model.onnx", *saved]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**environment, **variables},
            cwd=tmp_path,
        )
        assert done.returncode == 0 and done.stdout.strip() == expected, done.stderr
        return done.stderr.partition("model.onnx: ")[2].partition(" on nnvk")[0]

    variable = {"NNVK_DEVICE": "auto"}
    assert placement() == "2 of 2 nodes" and not list(folder.glob("faster-*"))
    for options, variables in ((["--device", "Auto"], {}), ([], variable)):
        for file in folder.glob("faster-*"):
            file.unlink()
        assert placement(*options, **variables) == "2 of 2 nodes"
        (file,) = folder.glob("faster-*")
        header, body = measured._KIND.read(file, most_header=1 << 16, most_body=1 << 16)
        for winner, nodes in zip(BOTH, ("2 of 2 nodes", "0 of 2 nodes"), strict=True):
            changed = bytes(body).replace(b'"device"', b'"library"').replace(b'"library"', f'"{winner}"'.encode())
            measured._KIND.write(file, header, [changed])
            assert placement(*options, **variables) == nodes
    assert placement(saved=["saved.onnx"], **variable) == "2 of 2 nodes" and (tmp_path / "saved.onnx").exists()
    assert placement("--device", get_devices()[0].name, **variable) == "2 of 2 nodes"
