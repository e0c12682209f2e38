"""examples/photo_server: the interface of Immich's machine learning, the answers of onnxruntime, batches, errors."""

from __future__ import annotations

import importlib
import io
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnvk

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")
ImageFont = pytest.importorskip("PIL.ImageFont")

EXAMPLES = Path(__file__).parents[2] / "examples"
ENTRIES = {
    "clip": {"visual": {"modelName": "random"}},
    "facial-recognition": {
        "detection": {"modelName": "random", "options": {"minScore": 0.7}},
        "recognition": {"modelName": "random"},
    },
    "ocr": {
        "detection": {"modelName": "random", "options": {"minScore": 0.6, "maxResolution": 736}},
        "recognition": {"modelName": "random", "options": {"minScore": 0.1}},
    },
}
SIZES = (640, 480), (480, 640), (1000, 400), (300, 900), (64, 64), (31, 47), (2000, 1500)


class Onnxruntime:
    """A model in onnxruntime, on the CPU."""

    def __init__(self, path: Path) -> None:
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def compute(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return self._session.run(None, {"x": inputs[0]})

    def close(self) -> None:
        pass


class Servers:
    """The modules of the example, and a server of the same models on nnvk and on onnxruntime."""

    def __init__(self, folder: Path) -> None:
        self.server = importlib.import_module("server")
        importlib.import_module("make_models").make(folder)
        self.models = [self._models(folder, load) for load in (nnvk.load, Onnxruntime)]
        self._running = [self.server.PhotoServer(("127.0.0.1", 0), each) for each in self.models]
        self._threads = [threading.Thread(target=each.serve_forever, args=(0.01,)) for each in self._running]
        for thread in self._threads:
            thread.start()

    def _models(self, folder: Path, load: Any) -> Any:
        return importlib.import_module("tasks").Models(folder, load)

    def request(self, path: str, body: bytes | None = None, kind: str = "", *, on: int = 0) -> tuple[int, Any]:
        """The status and the content of an answer."""
        address = f"http://127.0.0.1:{self._running[on].server_port}{path}"
        try:
            answer = urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": kind}), timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode()
            return answer.status, json.loads(text) if "json" in answer.headers["Content-Type"] else text

    def predict(self, entries: Any, *, on: int = 0, **fields: bytes) -> tuple[int, Any]:
        """The answer to a form."""
        lines = []
        for name, content in {"entries": json.dumps(entries).encode(), **fields}.items():
            lines += [b"--x-y", f'Content-Disposition: form-data; name="{name}"'.encode(), b"", content]
        return self.request(
            "/predict", b"\r\n".join([*lines, b"--x-y--", b""]), "multipart/form-data; boundary=x-y", on=on
        )

    def close(self) -> None:
        for server, thread, models in zip(self._running, self._threads, self.models, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
            models.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with pytest.MonkeyPatch.context() as patch:
        for folder in ("service", "photo_server"):
            patch.syspath_prepend(EXAMPLES / folder)
        made = Servers(tmp_path_factory.mktemp("models"))
        yield made
        made.close()


def photo(width: int, height: int) -> bytes:
    """A picture with two red circles and a line of text on a bright ground."""
    random = np.random.default_rng(width)
    noise = random.integers(200, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    image = Image.fromarray(noise).resize((width, height))
    draw, side = ImageDraw.Draw(image), min(width, height)
    for x, y in ((0.25, 0.3), (0.7, 0.6)):
        center, radius = (width * x, height * y), side / 10
        draw.ellipse([*(each - radius for each in center), *(each + radius for each in center)], fill=(250, 20, 20))
    draw.text((width / 10, height * 0.8), "Hello world", "black", ImageFont.load_default(max(6, side / 12)))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def same(one: Any, other: Any) -> None:
    """Answers with equal texts, whose numbers are equal up to rounding; embeddings are texts with numbers.

    Where a box differs in its last digit, pixels of what is cut out can differ by one level.
    """
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list) and one and not isinstance(one[0], int | float):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    elif isinstance(one, str) and one.startswith("["):
        same(json.loads(one), json.loads(other))
    elif isinstance(one, str):
        assert one == other
    else:
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_photos_of_any_size_have_the_answers_of_onnxruntime(servers: Servers, size: tuple[int, int]) -> None:
    (status, answer), (_, expected) = (servers.predict(ENTRIES, image=photo(*size), on=on) for on in (0, 1))
    assert status == 200
    assert (answer["imageWidth"], answer["imageHeight"]) == size
    assert np.shape(json.loads(answer["clip"])) == (512,)
    assert answer["facial-recognition"]
    for face in answer["facial-recognition"]:
        assert {*face} == {"boundingBox", "embedding", "score"}
        assert 0 <= face["boundingBox"]["x1"] < face["boundingBox"]["x2"] <= size[0]
        assert 0 <= face["boundingBox"]["y1"] < face["boundingBox"]["y2"] <= size[1]
    found = answer["ocr"]
    assert len(found["box"]) == 8 * len(found["text"]) == 8 * len(found["boxScore"]) == 8 * len(found["textScore"])
    assert all(0 <= share <= 1 for share in found["box"])
    same(answer, expected)


def test_boxes_are_where_the_faces_and_the_text_are(servers: Servers) -> None:
    _, answer = servers.predict(ENTRIES, image=photo(1000, 400))
    centers = [
        (box["x1"] + box["x2"], box["y1"] + box["y2"])
        for box in (face["boundingBox"] for face in answer["facial-recognition"])
    ]
    for x, y in ((500, 240), (1400, 480)):
        assert any(abs(x - left) < 80 and abs(y - top) < 80 for left, top in centers), centers
    boxes = np.reshape(answer["ocr"]["box"], (-1, 4, 2))
    assert any(box[0, 0] < 0.12 and box[0, 1] < 0.82 and box[2, 0] > 0.2 and box[2, 1] > 0.85 for box in boxes), boxes


def test_texts(servers: Servers) -> None:
    entries = {"clip": {"textual": {"modelName": "random", "options": {"language": "en"}}}}
    answers = [servers.predict(entries, text=text.encode()) for text in ("a dog", "ein Hund mit Mütze " * 10, "")]
    assert [status for status, _ in answers] == [200, 200, 200]
    assert all({*answer} == {"clip"} for _, answer in answers)
    assert len({answer["clip"] for _, answer in answers}) == 3
    same(answers[1][1], servers.predict(entries, text=("ein Hund mit Mütze " * 10).encode(), on=1)[1])


def test_ping_and_health(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert servers.request("/ping") == (200, "pong")
    assert servers.request("/health") == (200, {"ok": True})
    known = servers.models[0]._known[0]
    monkeypatch.setattr(servers.models[0], "_known", [type(known)(known.queue, known.inputs, [known.outputs[0] + 1])])
    assert servers.request("/health") == (503, {"ok": False})
    assert servers.request("/")[0] == 404


@pytest.mark.parametrize(
    ("entries", "fields", "says"),
    [
        ("none", {}, "entries must be JSON: "),
        ({"clip": {"visual": {}}}, {}, "entries must be JSON: "),
        ({"clip": {"visual": "random"}}, {}, "entries must be JSON: "),
        ({"sounds": {}}, {}, "no task 'sounds'"),
        ({"clip": {"visual": {"modelName": "random"}}}, {}, "'clip' needs an image"),
        ({"clip": {"visual": {"modelName": "random"}}}, {"image": b"GIF89a"}, "the image can't be read"),
        ({"clip": {"textual": {"modelName": "../../x"}}}, {}, "there is no model clip/../../x/textual"),
        ({"ocr": {}}, {"image": photo(20, 20)}, "there is no model ocr//detection"),
        *(
            (
                {"ocr": {"detection": {"modelName": "random", "options": {"maxResolution": value}}}},
                {"image": photo(20, 20)},
                "ocr: maxResolution must be a number of at least 1",
            )
            for value in ("large", 0, -1, float("nan"))
        ),
    ],
)
def test_wrong_requests_are_named(servers: Servers, entries: Any, fields: dict[str, bytes], says: str) -> None:
    status, answer = servers.predict(entries, **fields)
    assert (status, answer["detail"][: len(says)]) == (422, says)


def test_requests_that_are_no_form(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    status, answer = servers.request("/predict", b"{}", "application/json")
    assert (status, answer) == (422, {"detail": "expected multipart/form-data, got 'application/json'"})
    assert servers.request("/other", b"{}")[0] == 404
    monkeypatch.setattr(servers.server, "MOST_BYTES", 3)
    assert servers.request("/predict", b"{}  ")[0] == 413


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Length: abc", 411),
        ("Content-Length: -5", 411),
        ("Transfer-Encoding: chunked", 411),
        ("Content-Length: 99999999999", 413),
        ("Content-Length: 2", 422),
    ],
)
def test_lengths_of_requests(servers: Servers, header: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", servers._running[0].server_port), timeout=20) as connection:
        connection.sendall(f"POST /predict HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n{{}}".encode())
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("mode", "size"), [("RGB", (1, 1)), ("L", (2000, 1)), ("RGBA", (1, 2000)), ("P", (90, 30)), ("I;16", (64, 64))]
)
def test_pictures_of_any_kind(servers: Servers, mode: str, size: tuple[int, int]) -> None:
    file = io.BytesIO()
    Image.new(mode, size).save(file, "PNG")
    status, answer = servers.predict(ENTRIES, image=file.getvalue())
    assert (status, answer["imageWidth"], answer["imageHeight"]) == (200, *size)
    assert answer["facial-recognition"] == []


def test_a_form_with_any_bytes(servers: Servers) -> None:
    content = b"\r\n--\r\n\r\n\x00\xff--xy\n"
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="blob"\r\nContent-Type: image/png\r\n\r\n'
    assert servers.server.form('multipart/form-data; boundary="x"', body + content + b"\r\n--x--\r\n") == {
        "image": content
    }


def test_requests_that_wait_are_one_execution(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is computed, six others come: they are computed together, and have the answers that they have alone."""
    entries, photos = {"clip": ENTRIES["clip"]}, [photo(100 + each, 80) for each in range(7)]
    expected = [servers.predict(entries, image=each) for each in photos]
    (queue,) = servers.models[0]._queues["clip", "random", "visual"].values()
    compute, sizes, reached, is_open = queue._model.run, [], threading.Event(), threading.Event()

    def run(rows: Any) -> Any:
        sizes.append(len(rows))
        reached.set()
        assert is_open.wait(60)
        return compute(rows)

    monkeypatch.setattr(queue._model, "run", run)
    with ThreadPoolExecutor(7) as pool:
        first = pool.submit(servers.predict, entries, image=photos[0])
        assert reached.wait(60)
        others = [pool.submit(servers.predict, entries, image=each) for each in photos[1:]]
        for _ in range(6000):
            if queue._waiting.qsize() == 6:
                break
            threading.Event().wait(0.01)
        is_open.set()
        answers = [each.result() for each in (first, *others)]
    assert sizes == [1, 6]
    for (status, answer), (_, alone) in zip(answers, expected, strict=True):
        assert status == 200
        same(answer, alone)


def test_an_error_of_the_server_itself(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.models[0], "predict", lambda *_: [][0])
    assert servers.predict(ENTRIES, image=photo(20, 20)) == (500, {"detail": "the server has failed"})


def test_too_many_requests_are_refused(servers: Servers) -> None:
    under_way = servers._running[0].under_way
    for _ in range(servers.server.MOST_WAITING):
        under_way.acquire()  # the thread of a request that was answered before may still hold it
    try:
        assert servers.predict(ENTRIES)[0] == 503
    finally:
        under_way.release(servers.server.MOST_WAITING)
    assert servers.predict({})[0] == 200
