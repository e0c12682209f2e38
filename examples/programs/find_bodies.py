"""Finds parts of bodies in a photo with NudeNet: ``pip install nudenet==3.4.2``."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from nudenet import NudeDetector

photo = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
detector = NudeDetector()


def answer() -> list[str]:
    """The parts, their scores and boxes."""
    return [f"{one['class']} {one['score']:.2f} {one['box']}" for one in detector.detect(str(photo))]


if __name__ == "__main__":
    print(*answer(), sep="\n")
