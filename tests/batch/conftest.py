"""The demo's digits, and the results that they must have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnvk
from nnvk.batch import Task
from nnvk.demo.assets import DATA
from nnvk.importers import tflite
from nnvk.inputs.images import load_image

INT8 = DATA / "digits_int8.tflite"


@pytest.fixture(scope="session")
def digits() -> list[Path]:
    return sorted(DATA.glob("*.png"))[:23]


@pytest.fixture(scope="session")
def wanted(digits: list[Path]) -> dict[str, np.ndarray]:
    """The scores of each picture, one execution each."""
    imported = tflite.load(INT8)
    compilation = nnvk.Compilation(imported.model, [nnvk.get_device("nnapi-reference")])
    compilation.finish()
    found = {}
    for path in digits:
        (scores,) = nnvk.run(compilation, [load_image(path, imported.inputs[0])])
        found[str(path)] = scores[0]
    return found


@pytest.fixture
def task() -> Task:
    return Task(INT8)
