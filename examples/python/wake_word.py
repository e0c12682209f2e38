"""Finds a wake word in a recording: openWakeWord's three models, and a table of when it was heard.

    .venv/bin/pip install pyopen-wakeword==1.1.0  # after scripts/install.sh
    python wake_word.py recording.wav --word alexa

The recording is a .wav of 16,000 samples a second, 16 bits, one channel. The models come with the package; ``--models``
takes another folder that has them.
"""

from __future__ import annotations

import argparse
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import nnvk

RATE = 16000
FRAME = 160
"""Samples of a frame of the spectrogram: 10 ms."""
WINDOW, STEP = 76, 8
"""Frames that become a feature, and from one feature to the next."""
FEATURES = 16
"""Of which the word is recognised: 1.28 s, and a window."""


def main() -> None:
    """Print the scores. The models of the spectrogram and the features run once, on the whole recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("--word", default="alexa")
    parser.add_argument("--models", type=Path, help="default: those in the package pyopen-wakeword")
    parser.add_argument("--threshold", type=float, default=0.5)
    arguments = parser.parse_args()
    folder = arguments.models or packaged()

    seconds, scores = listen(folder, arguments.word, read(arguments.recording))
    print("  until  score")
    for second, score in zip(seconds, scores, strict=True):
        mark = " <- heard" if score >= arguments.threshold else ""
        print(f"{second:5.2f} s  {score:5.3f}  {'#' * round(score * 30)}{mark}")
    print(f"{arguments.word}: best score {scores.max():.3f} at {seconds[scores.argmax()]:.2f} s")


def listen(folder: Path, word: str, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score of a word in each part of a recording, and the seconds at which the parts end."""
    windows = slices(spectrogram(folder, samples) / 10 + 2, WINDOW, STEP)[..., None]
    features = load(folder / "embedding_model.tflite", input_1=windows.shape)(windows)
    recognise = nnvk.load(folder / f"{word}.tflite")
    parts = slices(features.reshape(len(windows), -1), FEATURES, 1)
    scores = np.array([recognise(part[None]).item() for part in parts])
    seconds = ((np.arange(len(scores)) + FEATURES - 1) * STEP + WINDOW) * FRAME / RATE
    return seconds, scores


def spectrogram(folder: Path, samples: np.ndarray) -> np.ndarray:
    """The loudness of 32 bands of frequencies in each frame, in decibels: ``[frames, 32]``."""
    return load(folder / "melspectrogram.tflite", input=(1, len(samples)))(samples[None]).reshape(-1, 32)


def load(path: Path, **shapes: tuple[int, ...]) -> nnvk.LoadedModel:
    """A model for inputs of these shapes."""
    return nnvk.load(path, shapes={f"serving_default_{name}:0": shape for name, shape in shapes.items()})


def slices(array: np.ndarray, length: int, step: int) -> np.ndarray:
    """All pieces of so many rows, so far apart."""
    starts = range(0, len(array) - length + 1, step)
    if not starts:
        raise SystemExit("the recording is too short: it must have two seconds")
    return np.stack([array[start : start + length] for start in starts])


def read(path: Path) -> np.ndarray:
    """The samples, in steps of 16 bits."""
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
            raise SystemExit(f"{path} must have {RATE} samples a second, 16 bits, one channel")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)


def packaged() -> Path:
    """The folder of models in the package pyopen-wakeword, which is not imported."""
    found = find_spec("pyopen_wakeword")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install pyopen-wakeword==1.1.0, or give --models")
    return Path(found.submodule_search_locations[0]) / "models"


if __name__ == "__main__":
    main()
