"""How likely each part of a sound is speech, with Silero's voice detector: ``pip install silero-vad==6.2.3``."""

from __future__ import annotations

import torch
from silero_vad import load_silero_vad

time = torch.arange(2 * 16000) / 16000
tones = sum(torch.sin(2 * torch.pi * 140 * k * time + torch.sin(9 * time)) / k for k in range(1, 12))
sound = 0.2 * tones * (torch.sin(12 * time) > 0)
model = load_silero_vad(onnx=True)


def answer() -> list[str]:
    """The scores of parts of 512 samples."""
    model.reset_states()
    return [f"{model(part, 16000).item():.3f}" for part in sound.split(512) if len(part) == 512]


if __name__ == "__main__":
    print(*answer(), sep="\n")
