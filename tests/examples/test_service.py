"""examples/service: the web service answers, batches, refuses and ends as docs/deploy.md says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nnvk
from nnvk.demo.assets import DATA, MODELS

fastapi = pytest.importorskip("fastapi")
pytest.importorskip("httpx")
testclient = pytest.importorskip("fastapi.testclient")

FOLDER = Path(__file__).parents[2] / "examples" / "service"
INT8 = next(model.path for model in MODELS if model.title == "int8")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The service as a module, for the int8 model, with one worker and room for eight requests."""
    monkeypatch.setenv("SERVICE_MODEL", str(INT8))
    monkeypatch.setenv("SERVICE_WORKERS", "1")
    monkeypatch.setenv("SERVICE_MOST_WAITING", "8")
    monkeypatch.syspath_prepend(FOLDER)  # where its module of batches is
    spec = importlib.util.spec_from_file_location("service", FOLDER / "service.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "service", module)  # where dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(service: ModuleType) -> Iterator[Any]:
    with testclient.TestClient(service.app) as client:
        yield client


def rows(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(-128, 128, (count, 1, 16, 16, 1), np.int8))


def post(client: Any, row: Any) -> Any:
    return client.post("/run", json={"image": np.asarray(row).tolist()})


class Gate:
    """A model that waits until the gate is open, and keeps the number of rows of each execution."""

    def __init__(self, model: Any) -> None:
        self._run = model.run
        self.is_open, self.is_reached = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        model.run = self.run

    def run(self, rows: Sequence[Any]) -> Any:
        self.sizes.append(len(rows))
        self.is_reached.set()
        assert self.is_open.wait(60)
        return self._run(rows)


def until_waiting(client: Any, count: int) -> None:
    """Wait until so many requests wait in the queue."""
    queue = client.app.state.queue
    for _ in range(6000):
        if queue._waiting.qsize() == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{queue._waiting.qsize()} requests wait, not {count}")


@pytest.mark.parametrize("demo", MODELS, ids=lambda model: model.title)
def test_it_computes_what_the_model_does(service: ModuleType, monkeypatch: pytest.MonkeyPatch, demo: Any) -> None:
    monkeypatch.setenv("SERVICE_MODEL", str(demo.path))
    with nnvk.load(demo.path) as model, testclient.TestClient(service.app) as client:
        described = client.get("/").json()
        (name,) = described["inputs"]
        assert described["inputs"][name] == {"shape": [1, 16, 16, 1], "type": str(model.inputs[0].dtype)}
        values = model.inputs[0].quantize(np.linspace(0, 1, 256).reshape(model.inputs[0].shape))
        answer = client.post("/run", json={name: values.tolist()})
        assert answer.status_code == 200
        np.testing.assert_array_equal(answer.json()[model.outputs[0].name], model(values))
        assert client.get("/health").json() == {"ok": True}


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "expected the inputs image, got none"),
        ({"image": [], "mask": []}, "expected the inputs image, got image, mask"),
        ({"image": [[1], [2, 3]]}, "input image: "),
        ({"image": [1, 2, 3]}, "input image: expected numbers of shape [1, 16, 16, 1]"),
        ({"image": "/etc/passwd"}, "input image: expected numbers of shape [1, 16, 16, 1]"),
        ({"image": {"a": 1}}, "input image: expected numbers of shape [1, 16, 16, 1]"),
        ({"image": np.full((1, 16, 16, 1), 300).tolist()}, "BAD_DATA: 'image' must have numbers of int8, got 300"),
        ({"image": np.full((1, 16, 16, 1), 10**30).tolist()}, "input image: "),
        ({"image": np.full((1, 16, 16, 1), np.nan).tolist()}, "input image: "),
        ({"image": [["x" * 4000] + ["y"] * 500]}, "input image: "),
        ({"\ud800\x1b": 1}, "expected the inputs image, got \\ud800\x1b"),
    ],
    ids=[
        *("none", "two", "ragged", "short", "a text", "an object", "no int8", "large"),
        *("no number", "texts of unequal lengths", "a name that is no Unicode"),
    ],
)
def test_wrong_requests_are_named(client: Any, inputs: dict[str, Any], says: str) -> None:
    answer = client.post("/run", content=json.dumps(inputs))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(says)


@pytest.fixture
def served(service: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Any], Any]:
    """A client of a model of one operator, whose input has three numbers."""
    onnx_net = pytest.importorskip("onnx_net")

    @contextmanager
    def started(kind: str, dtype: Any) -> Iterator[Any]:
        made = onnx_net.model([onnx_net.op(kind, "x", "y")], {"x": (dtype, [1, 3])}, ["y"])
        path = tmp_path / "model.onnx"
        path.write_bytes(made.SerializeToString())
        monkeypatch.setenv("SERVICE_MODEL", str(path))
        with testclient.TestClient(service.app, raise_server_exceptions=False) as client:
            yield client

    return started


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_floats_that_json_has_not_are_texts(served: Callable[[str, Any], Any], dtype: Any) -> None:
    """Programs read them as numbers: JavaScript's Number("-Infinity"), Python's float("-Infinity")."""
    with served("Reciprocal", dtype) as client:
        answer = client.post("/run", content='{"x": [[0, -0.0, 2]]}')
        assert (answer.status_code, answer.json()) == (200, {"y": [["Infinity", "-Infinity", 0.5]]})
        assert np.array(answer.json()["y"], np.float32).tolist() == [[np.inf, -np.inf, 0.5]]
    with served("Log", dtype) as client:
        assert client.post("/run", content='{"x": [[-1, 1, 1]]}').json() == {"y": [["NaN", 0.0, 0.0]]}


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (np.int64, f"{2**53 + 1}, {-(2**63)}, {2**63 - 1}"),
        (np.uint64, f"{2**53 + 1}, 0, {2**64 - 1}"),
        (np.float32, f"{2**100}, 1e-400, -1"),
        (np.bool_, "true, false, true"),
    ],
    ids=["int64", "uint64", "a float as an integer", "bool"],
)
@pytest.mark.usefixtures("libraries")
def test_numbers_come_back_as_they_are(served: Callable[[str, Any], Any], dtype: Any, numbers: str) -> None:
    """onnxruntime computes integers of 64 bits."""
    pytest.importorskip("onnxruntime")
    with served("Identity", dtype) as client:
        answer = client.post("/run", content=f'{{"x": [[{numbers}]]}}')
        assert (answer.status_code, answer.json()) == (200, {"y": [json.loads(f"[{numbers}]")]})


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "1e39", str(10**130), '"NaN"', "null"])
def test_floats_must_be_finite_in_the_type_of_the_input(served: Callable[[str, Any], Any], number: str) -> None:
    with served("Neg", np.float32) as client:
        answer = client.post("/run", content=f'{{"x": [[{number}, 1, 1]]}}')
        says = "input x: expected numbers of shape [1, 3], all finite in float32"
        assert (answer.status_code, answer.json()["detail"]) == (422, says)


@pytest.mark.parametrize("demo", MODELS, ids=lambda model: model.title)
def test_it_takes_an_image(service: ModuleType, monkeypatch: pytest.MonkeyPatch, demo: Any) -> None:
    monkeypatch.setenv("SERVICE_MODEL", str(demo.path))
    photo = DATA / "0007_label7.png"
    with nnvk.load(demo.path) as model, testclient.TestClient(service.app) as client:
        answer = client.post("/image", content=photo.read_bytes(), headers={"Content-Type": "image/png"})
        assert answer.status_code == 200
        np.testing.assert_array_equal(answer.json()[model.outputs[0].name], model(photo))


def test_wrong_images_are_named(service: ModuleType, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = client.post("/image", content=b"a text")
    assert (answer.status_code, answer.json()["detail"]) == (422, "not an image: the image")
    answer = client.post("/image", files={"file": (DATA / "0007_label7.png").read_bytes()})
    assert (answer.status_code, answer.json()["detail"].partition(": ")[0]) == (422, "the body is a form")
    monkeypatch.setattr(service, "MOST_IMAGE_BYTES", 5)
    answer = client.post("/image", content=b"a text")
    assert (answer.status_code, answer.json()["detail"]) == (413, "a request has at most 5 bytes")
    model = client.app.state.model
    model.inputs = model.inputs * 2
    answer = client.post("/image", content=b"")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "an image is for a model with one input, this one has 2: use /run",
    )


def test_more_bytes_than_the_inputs_have_are_not_read(client: Any) -> None:
    answer = client.post("/run", content=b"[" * 140_000)
    assert (answer.status_code, answer.json()["detail"].split()[:3]) == (413, ["a", "request", "has"])


@pytest.mark.parametrize(
    "body", [b"[" * 5000, b"\xff", b"[1]", b"1" * 5000], ids=["nested", "no text", "a list", "long"]
)
def test_what_is_no_object_of_json_is_refused(client: Any, body: bytes) -> None:
    assert client.post("/run", content=body).status_code == 422


def test_requests_that_wait_are_one_execution(client: Any) -> None:
    given = rows(6)
    expected = [post(client, row).json() for row in given]
    gate = Gate(client.app.state.model)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(post, client, given[0])
        assert gate.is_reached.wait(60)
        others = [pool.submit(post, client, row) for row in given[1:]]
        until_waiting(client, 5)
        gate.is_open.set()
        assert [each.result().json() for each in (first, *others)] == expected
    assert gate.sizes == [1, 5]


def test_too_many_requests_are_refused_at_once(client: Any) -> None:
    gate = Gate(client.app.state.model)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(post, client, rows(1)[0])
        assert gate.is_reached.wait(60)
        others = [pool.submit(post, client, row) for row in rows(8)]
        until_waiting(client, 8)
        refused = post(client, rows(1)[0])
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        gate.is_open.set()
        assert {each.result().status_code for each in (first, *others)} == {200}


def test_a_bad_row_does_not_fail_the_others(client: Any) -> None:
    gate = Gate(client.app.state.model)
    bad, compute = np.full((1, 16, 16, 1), 99, np.int8), gate._run

    def run(given: Sequence[Any]) -> Any:
        if any((row[0] == 99).all() for row in given):
            raise nnvk.NnapiError(nnvk.ResultCode.BAD_DATA, "an index is out of range")
        return compute(given)

    gate._run = run
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(post, client, rows(1)[0])
        assert gate.is_reached.wait(60)
        others = [pool.submit(post, client, row) for row in (*rows(2), bad)]
        until_waiting(client, 3)
        gate.is_open.set()
        answers = [each.result() for each in (first, *others)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 422]
    assert answers[3].json()["detail"] == "BAD_DATA: an index is out of range"
    assert gate.sizes[:2] == [1, 3]


def test_health(client: Any) -> None:
    model = client.app.state.model
    compute = model.run
    model.run = lambda rows: [[array + 1 for array in row] for row in compute(rows)]
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"ok": False})

    def lost(rows: Sequence[Any]) -> Any:
        raise nnvk.NnapiError(nnvk.ResultCode.DEAD_OBJECT, "the device is lost")

    model.run = lost
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"detail": "DEAD_OBJECT: the device is lost"})


def test_a_model_that_takes_no_batches_is_refused(service: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = nnvk.load(INT8)
    monkeypatch.setattr(nnvk, "load", lambda path, shapes=None: loaded)
    with pytest.raises(ValueError, match=r"takes no batches: for 4 rows, probabilities is \(1, 10\)"):
        service.BatchedModel(str(INT8), (1, 4))


def test_a_model_of_open_sizes_is_refused(service: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open sizes are 1 in a batch, but not in a model that onnxruntime computes a part of."""
    port = SimpleNamespace(name="samples", shape=(1, -1))
    monkeypatch.setattr(nnvk, "load", lambda path: SimpleNamespace(inputs=[port], outputs=[port]))
    with pytest.raises(ValueError, match=r"takes no batches: the size of samples is open, \(1, -1\)"):
        service.BatchedModel("speech.onnx", (1, 4))


def test_it_answers_what_it_has_and_ends() -> None:
    """SIGTERM comes when half of a request is sent."""
    pytest.importorskip("uvicorn")
    paths = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))), "SERVICE_MODEL": str(INT8)}
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "service:app", "--port", "0"]
    command += ["--timeout-graceful-shutdown", "30"]
    body = json.dumps({"image": rows(1)[0].tolist()}).encode()
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    head = f"POST /run HTTP/1.1\r\nHost: a\r\n{about}\r\n\r\n".encode()
    with subprocess.Popen(command, env={**os.environ, **paths}, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            port = next(int(found[1]) for line in lines if (found := re.search(r"running on http://\S+:(\d+)", line)))
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(head + body[:100])
                # Its thread has read the half when it has answered another request.
                with socket.create_connection(("127.0.0.1", port), timeout=60) as other:
                    other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    assert b" 200 OK" in b"".join(iter(lambda: other.recv(4096), b""))
                process.send_signal(signal.SIGTERM)
                assert any("Waiting for connections to close" in line for line in lines)
                connection.sendall(body[100:])
                assert b" 200 OK" in b"".join(iter(lambda: connection.recv(4096), b""))
            assert any("Application shutdown complete" in line for line in lines)
            # systemd takes an end by SIGTERM as a success.
            assert process.wait(60) in (0, -signal.SIGTERM)
        finally:
            process.kill()


UNIT = (FOLDER / "nnvk-service.service").read_text(encoding="utf-8")


def test_the_unit_starts_the_service() -> None:
    assert re.search(r"^Environment=SERVICE_MODEL=\S+$", UNIT, re.MULTILINE)
    assert "uvicorn --app-dir /opt/nnvk service:app " in UNIT
    assert re.search(r"^ExecStartPre=\S+/nnvk check ", UNIT, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With programs that are here in place of those in /opt."""
    (tmp_path / "nnvk-service.service").write_text(re.sub(r"/opt/nnvk/bin/\w+", "/bin/true", UNIT))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "nnvk-service.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "nnvk-service" in line]) == (0, [])
