"""``python -m nnvk.litert --device auto``: interpreters get the delegate only where they compute faster with it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert.interpreter")

from delegated import chain

from nnvk import get_devices
from nnvk.base.settings import override
from nnvk.importers import measured
from nnvk.litert.measuring import is_faster_without

BOTH = ["device", "library"]
PACKAGE = "ai_edge_litert"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of what is kept."""
    with override(cpu_libraries=True, cache_dir=str(tmp_path / "kept")):
        yield tmp_path / "kept"


class Interpreters:
    """Interpreters whose calls take times of a clock that nothing else moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = {"device": 1e-3, "library": 2e-3}
        self.ran: list[str] = []
        self.fails = ""

    def make(self, has_own: bool) -> Any:
        which = BOTH[not has_own]

        def invoke() -> None:
            if self.fails == which:
                raise RuntimeError("no")
            self.ran.append(which)
            self.now += self.takes[which]

        def set_tensor(index: int, array: np.ndarray) -> None:
            assert index == 5 and array.dtype == np.int32 and array.shape == (2, 3) and not array.any()

        inputs = [
            {"index": 5, "shape": np.array([2, 3]), "dtype": np.int32},
            {"index": 6, "shape": np.array([1]), "dtype": np.bytes_},
        ]
        return SimpleNamespace(
            allocate_tensors=lambda: None, get_input_details=lambda: inputs, set_tensor=set_tensor, invoke=invoke
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Interpreters:
    interpreters = Interpreters()
    monkeypatch.setattr(measured, "time", SimpleNamespace(perf_counter=lambda: interpreters.now))
    return interpreters


@pytest.mark.parametrize("winner", BOTH)
def test_the_faster_one_stays(
    winner: str, made: Interpreters, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made.takes[winner] = 1e-4
    (tmp_path / "model.tflite").write_bytes(b"model")
    with caplog.at_level(logging.INFO, "nnvk.compilation"):
        for model in (tmp_path / "model.tflite", str(tmp_path / "model.tflite"), b"model", bytearray(b"model")):
            assert is_faster_without(PACKAGE, model, ["0"], made.make) == (winner == "library")
    assert made.ran[:8] == BOTH * 4 and set(made.ran[8:]) == {winner}
    assert len(made.ran) == measured.MOST_CALLS
    computes = PACKAGE if winner == "library" else get_devices()[0].name
    assert caplog.messages[0].startswith(f"model.tflite: {computes} computes inputs of 2x3, 1: it takes")
    assert caplog.messages[-1] == f"a model: {computes} computes inputs of 2x3, 1, which was measured before"
    for other in ({"options": ["1"]}, {"model": b"other"}):
        made.ran = []
        is_faster_without(**{"package": PACKAGE, "model": b"model", "options": ["0"], "make": made.make, **other})
        assert made.ran[:8] == BOTH * 4


@pytest.mark.parametrize(
    ("settings", "fails", "why"),
    [
        ({}, "device", "no"),
        ({}, "library", "no"),
        ({"verified": "1"}, "", "only devices verify their results"),
        ({"cpu_libraries": False}, "", "NNVK_CPU_LIBRARIES=0 switches it off"),
    ],
)
def test_the_device_computes(
    settings: dict[str, Any], fails: str, why: str, made: Interpreters, caplog: pytest.LogCaptureFixture
) -> None:
    made.fails, made.takes["library"] = fails, 1e-5
    with override(**settings), caplog.at_level(logging.INFO, "nnvk.compilation"):
        assert not is_faster_without(PACKAGE, b"model", ["0"], made.make)
        assert not is_faster_without(PACKAGE, "there/is/no.tflite", ["0"], made.make)
    assert caplog.messages[0].startswith("a model: the device computes: ") and caplog.messages[0].endswith(why)
    assert caplog.messages[1].startswith("no.tflite: the device computes: ")


PROGRAM = """
import os
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter("chain.tflite", num_threads=1)
interpreter.allocate_tensors()
interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.float32([[0.5, 1, 2], [0.1, 0.25, 3]]))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(float).round(5).tolist())
print("device" in os.environ["NNVK_LITERT_OPTIONS"])
"""


def test_programs(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "chain.tflite").write_bytes(chain("NEG", "ABS"))

    def placement(*options: str, has_device: bool = False, **variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NNVK_CACHE_DIR": str(folder)}
        environment |= {"NNVK_CPU_LIBRARIES": "1", **variables}
        command = [sys.executable, "-m", "nnvk.litert", *options, "program.py"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=tmp_path
        )
        assert done.stdout == f"[[0.5, 1.0, 2.0], [0.1, 0.25, 3.0]]\n{has_device}\n", done.stderr
        return done.stderr.partition("chain.tflite: ")[2].partition(" on nnvk")[0]

    assert placement() == "2 of 2 operators" and not list(folder.glob("faster-*"))
    placement("--device", "Auto")
    (file,) = folder.glob("faster-*")
    header, body = measured._KIND.read(file, most_header=1 << 16, most_body=1 << 16)
    for winner, operators in zip(BOTH, ("2 of 2 operators", "0 of 2 operators"), strict=True):
        changed = bytes(body).replace(b'"device"', b'"library"').replace(b'"library"', f'"{winner}"'.encode())
        measured._KIND.write(file, header, [changed])
        assert placement("--device", "auto") == operators
        assert placement(NNVK_DEVICE="auto") == operators
    own = get_devices()[0].name
    assert placement("--device", own, has_device=True, NNVK_DEVICE="auto") == "2 of 2 operators"
