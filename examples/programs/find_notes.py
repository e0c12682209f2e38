"""Finds the notes of a recording with Basic Pitch: ``pip install basic-pitch==0.4.0``."""

from __future__ import annotations

import tempfile
import wave
from pathlib import Path

import numpy as np
from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
from basic_pitch.inference import Model, predict

time = np.arange(22050) / 22050
tones = sum(0.3 * np.sin(2 * np.pi * pitch * time) * (time % 0.5 < 0.4) for pitch in (220, 277.18, 329.63))
file = Path(tempfile.mkdtemp()) / "chord.wav"
with wave.open(str(file), "wb") as sound:
    sound.setparams((1, 2, 22050, 0, "NONE", ""))
    sound.writeframes((tones * 32000).astype("<i2").tobytes())
model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))


def answer() -> list[str]:
    """When notes begin and end, and their pitches."""
    _, _, notes = predict(file, model)
    return [f"{start:.2f} {end:.2f} {pitch}" for start, end, pitch, *_ in sorted(notes)]


if __name__ == "__main__":
    print(*answer(), sep="\n")
