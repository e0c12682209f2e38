"""Options of the delegate: what each does, and what is said of wrong ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from delegated import VALUES, Delegated, chain, invoke, plain, taken

import nnvk
from nnvk.serve.installed import DELEGATE

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"
Log = pytest.CaptureFixture[str]
LOAD = f"""
import ctypes, sys
import ai_edge_litert.interpreter as litert
if sys.argv[1:]:
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
try:
    litert.load_delegate({str(DELEGATE)!r}, {{"no_fallback": True}})
except ValueError as error:
    print(error)
else:
    print("loaded")
"""


@pytest.mark.parametrize(
    ("options", "data_error"),
    [
        ({"devise": "x"}, "there is no option 'devise'; there are device, no_fallback, relaxed"),
        ({"": ""}, "there is no option ''"),
        ({"relaxed": "maybe"}, "the option relaxed must be true or false, got 'maybe'"),
        ({"no_fallback": ""}, "the option no_fallback must be true or false, got ''"),
        ({"verbosity": "loud"}, "the option verbosity must be a number from 0 to 1, got 'loud'"),
        ({"verbosity": 2}, "the option verbosity must be a number from 0 to 1, got '2'"),
        ({"verbosity": ""}, "the option verbosity must be a number from 0 to 1, got ''"),
        ({"max_partitions": -1}, "the option max_partitions must be a number from 0 to 1000000, got '-1'"),
        ({"max_partitions": "9" * 99}, "the option max_partitions must be a number"),
        ({"device": "vulkan-77"}, r"there is no device vulkan-77; there are: .*nnapi-reference"),
        ({"device": "%s%n" * 500}, "there is no device %s%n"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_options_are_checked(options: dict[str, object], data_error: str) -> None:
    with pytest.raises(ValueError, match=data_error):
        Delegated(chain("NEG"), **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("relaxed", [True, False, "1", "0", "TRUE"])
def test_relaxed(relaxed: object, device: str) -> None:
    model = Delegated(chain("NEG", "EXP"), device=device, relaxed=relaxed, no_fallback=True)
    np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-2)


def test_cache_dir(tmp_path: Path) -> None:
    device = DEVICES[0]
    for _ in range(2):
        model = Delegated(chain("NEG", "EXP"), device=device, cache_dir=tmp_path, relaxed=False)
        np.testing.assert_allclose(model(VALUES), [np.exp(-VALUES)], rtol=1e-5)
    if device != CPU:
        assert list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="compiling a partition failed"):
        Delegated(chain("NEG"), cache_dir=tmp_path / "absent")


@pytest.mark.parametrize(
    ("options", "operators", "partitions"),
    [({}, 6, 3), ({"max_partitions": 0}, 7, 4), ({"max_partitions": 1}, 3, 1), ({"max_partitions": 9}, 7, 4)],
)
def test_max_partitions(options: dict[str, int], operators: int, partitions: int, capfd: Log) -> None:
    data = chain("NEG", "FLOAT64", "ABS", "EXP", "NEG", "FLOAT64", "ABS", "NEG", "FLOAT64", "NEG")
    model = Delegated(data, device=CPU, **options)
    log = capfd.readouterr().err
    assert taken(log) == {"taken": operators, "operators": 13, "partitions": partitions}
    assert log.count("their partition is not among the ") == 4 - partitions
    np.testing.assert_allclose(model(VALUES), invoke(plain(data), [VALUES]), rtol=1e-5)


def test_verbosity(capfd: Log) -> None:
    Delegated(chain("FLOAT64", "NEG"), verbosity=0)
    assert "nnvk" not in capfd.readouterr().err
    Delegated(chain("FLOAT64", "NEG"), verbosity=1)
    assert taken(capfd.readouterr().err)["taken"] == 1


def test_no_fallback_where_there_are_only_cpus() -> None:
    environment = {**os.environ, "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, env=environment, timeout=120)
    assert "there is no device but CPUs; there are: nnapi-reference" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("version", "is_refused"), [("2.13.1", True), ("1.15.0", True), ("2.14.0", False), ("x", False)]
)
def test_versions_of_tensorflow_lite(version: str, is_refused: bool, tmp_path: Path) -> None:
    """Where the C functions are there to be asked. LiteRT's wheel exports none."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler")
    if len(DEVICES) == 1:
        pytest.skip("needs a Vulkan device")
    (tmp_path / "version.c").write_text(f'const char *TfLiteVersion(void) {{ return "{version}"; }}\n')
    subprocess.run([compiler, "-shared", "-fPIC", "version.c", "-o", "version.so"], cwd=tmp_path, check=True)
    command = [sys.executable, "-c", LOAD, tmp_path / "version.so"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    wanted = f"TensorFlow Lite must be 2.14 or later, got {version}" if is_refused else "loaded"
    assert wanted in done.stdout, done.stderr
