"""What every command prints: on a terminal of 80 columns and piped, whatever the environment says of colours."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import nnvk
from nnvk.cli.main import COMMANDS, EXIT_CODES
from nnvk.demo.assets import DATA

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
SEVEN = next(DATA.glob("*_label7.png"))
WIDTH = 80
CALLS = {
    "devices": [],
    "info": [INT8],
    "run": [INT8, "--input", SEVEN, "--top", 3],
    "bench": [FLOAT, INT8, "--runs", 1],
    "conformance": ["VECTORS", "--jobs", 0],
    "demo": ["--output", "OUT"],
}
"""A call of each command. ``VECTORS`` and ``OUT`` are files of the test."""
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "NO_COLOR": {"NO_COLOR": "1"},
    "FORCE_COLOR": {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "PY_COLORS": "1", "TTY_COMPATIBLE": "1"},
    "dumb": {"TERM": "dumb"},
}
RELU = {
    "spec": "relu",
    "tests": [
        {
            "name": "relu",
            "relaxed": False,
            "expect_failure": False,
            "multinomial_tolerance": 0,
            "main": {
                "operands": [
                    {
                        "type": "TENSOR_FLOAT32",
                        "dims": [1],
                        "scale": 0,
                        "zero_point": 0,
                        "data": "AAAAAA==",
                        "lifetime": f"SUBGRAPH_{way}",
                    }
                    for way in ("INPUT", "OUTPUT")
                ],
                "operations": [{"type": "RELU", "inputs": [0], "outputs": [1]}],
                "inputs": [0],
                "outputs": [1],
            },
            "referenced": [],
        }
    ],
}


def test_every_command_is_looked_at() -> None:
    assert list(CALLS) == list(COMMANDS)


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    cleared = {"NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "COLUMNS", "LINES"}
    own = {name: value for name, value in os.environ.items() if name not in cleared}
    return {**own, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", **changes}


def command(name: str, tmp_path: Path, *more: object) -> list[str]:
    (tmp_path / "vectors.json").write_text(json.dumps(RELU))
    files = {"VECTORS": tmp_path / "vectors.json", "OUT": tmp_path / "out"}
    arguments = [str(files.get(str(argument), argument)) for argument in CALLS[name]]
    return [sys.executable, "-m", "nnvk.cli", name, *arguments, *map(str, more)]


def piped(arguments: Sequence[str], changes: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, env=environment(changes), cwd="/", capture_output=True, text=True, check=False, timeout=120
    )


def on_a_terminal(arguments: Sequence[str], changes: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and what a terminal of 80 columns gets, from both streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    with subprocess.Popen(
        arguments, env=environment(changes), cwd="/", stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(ours)
    return process.returncode, b"".join(chunks).decode().replace("\r\n", "\n")


def without_numbers(text: str) -> str:
    """What stays the same from one run to the next: times differ, and with them the widths of columns."""
    return re.sub(r"\d[\d.]*|[ ─-]+", " ", text)


def words(text: str) -> list[str]:
    """A printed table's words in any order: folding changes it."""
    return sorted(without_numbers(text).split())


@pytest.mark.parametrize("name", CALLS)
def test_piped_it_is_plain_text_and_the_same_everywhere(name: str, tmp_path: Path) -> None:
    seen = {}
    for look, changes in ENVIRONMENTS.items():
        result = piped(command(name, tmp_path), changes)
        assert (result.returncode, result.stderr) == (0, ""), look
        assert all(line.isprintable() for line in result.stdout.split("\n")), look
        assert not re.search(r"[\u2500-\u257f]", result.stdout), "no lines are drawn"
        seen[look] = without_numbers(result.stdout)
    assert len(set(seen.values())) == 1


@pytest.mark.parametrize("name", CALLS)
def test_on_a_terminal_it_fits_80_columns(name: str, tmp_path: Path) -> None:
    expected = piped(command(name, tmp_path), {}).stdout
    for look in ("NO_COLOR", "FORCE_COLOR", "dumb"):
        status, text = on_a_terminal(command(name, tmp_path), ENVIRONMENTS[look])
        assert status == 0, text
        if look == "dumb":
            assert "\x1b" not in text
        lines = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text.rpartition("\x1b[2K")[2]).rpartition("\r")[2].split("\n")
        assert all(line.isprintable() for line in lines)
        assert max(len(line) for line in lines) <= WIDTH or name in ("run", "demo"), "paths may be longer"
        assert not re.search(r"\x1b\[[\d;]*m", "".join(lines))
        if "  " in expected and look == "dumb":
            assert set(words("\n".join(lines))) & set(words(expected))


@pytest.mark.parametrize("name", CALLS)
def test_json_on_standard_output_and_in_a_file_is_the_same(name: str, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    printed = piped(command(name, tmp_path, "--json"), ENVIRONMENTS["FORCE_COLOR"])
    written = piped(command(name, tmp_path, "--json", target), {})
    joined = piped(command(name, tmp_path, f"--json={target.with_suffix('.txt')}"), {})
    assert [result.returncode for result in (printed, written, joined)] == [0, 0, 0]
    assert written.stdout.endswith(f"wrote {target}\n")
    contents = [json.loads(printed.stdout), json.loads(target.read_text())]
    contents.append(json.loads(target.with_suffix(".txt").read_text()))
    for content in contents:
        assert content["version"] == nnvk.__version__
        assert [(one["name"], one["driver"]) for one in content["devices"]] == [
            (device.name, device.version) for device in nnvk.get_devices()
        ]
    assert len({tuple(content) for content in contents}) == 1


def types_and_dimensions(content: Any) -> list[tuple[str, list[int]]]:
    """All that a JSON document says of types and dimensions."""
    if isinstance(content, list):
        return [found for one in content for found in types_and_dimensions(one)]
    if not isinstance(content, dict):
        return []
    own = [(content["type"], content["dimensions"])] if {"type", "dimensions"} <= content.keys() else []
    return own + [found for one in content.values() for found in types_and_dimensions(one)]


def test_types_have_one_name_and_dimensions_one_form(tmp_path: Path) -> None:
    for name in ("info", "run"):
        text = piped(command(name, tmp_path), {}).stdout
        assert "int8 1x10" in text
        assert "TENSOR_" not in text
        found = types_and_dimensions(json.loads(piped(command(name, tmp_path, "--json"), {}).stdout))
        assert ("int8", [1, 10]) in found


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(name: str, option: str) -> None:
    arguments = [sys.executable, "-m", "nnvk.cli", name, option]
    result = piped(arguments, ENVIRONMENTS["FORCE_COLOR"])
    assert (result.returncode, result.stderr) == (0, "")
    assert on_a_terminal(arguments, {}) == (0, result.stdout)
    lines = result.stdout.split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert all(line.isprintable() for line in lines)
    assert "<" not in result.stdout, "types have names in capitals, and flags none"
    assert "(default" not in result.stdout
    for shared in ("--version", "--traceback", "-h, --help"):
        assert f"\n  {shared} " in result.stdout


def test_exit_codes_are_documented() -> None:
    text = piped([sys.executable, "-m", "nnvk.cli", "-h"], {}).stdout
    for code in EXIT_CODES:
        assert re.search(rf"^  {code} +\S", text, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == list(EXIT_CODES)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "nnvk: no such command 'nonsense' (nnvk -h)"),
        (["devices", "--nonsense"], "nnvk: no such option: --nonsense (nnvk devices -h)"),
        (["run"], "nnvk: missing argument 'MODEL' (nnvk run -h)"),
        (["run", "x", "--device", "cpu", "--device", "gpu"], "nnvk: --device is given twice (nnvk run -h)"),
        (["info", "absent.tflite"], "nnvk: no such file: absent.tflite"),
        (["info", "/"], "nnvk: a folder, not a .tflite file: /"),
        (["info", "absent.tflite", "--device", "abacus"], "nnvk: there is no device 'abacus'; the devices are "),
        (["run", "absent.tflite", "--device", "abacus"], "nnvk: there is no device 'abacus'; the devices are "),
        (["bench", "absent.tflite", "--device", "abacus"], "nnvk: there is no device 'abacus'; the devices are "),
        (["conformance", "absent"], "nnvk: no such file or folder: absent"),
    ],
)
@pytest.mark.parametrize("look", ENVIRONMENTS)
def test_errors(arguments: list[str], line: str, look: str, capfd: pytest.CaptureFixture[str]) -> None:
    result = piped([sys.executable, "-m", "nnvk.cli", *arguments], ENVIRONMENTS[look])
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(line)


@pytest.mark.parametrize("place", ["before", "after"])
def test_traceback_anywhere(place: str) -> None:
    arguments = ["--traceback", "info", "absent"] if place == "before" else ["info", "absent", "--traceback"]
    result = piped([sys.executable, "-m", "nnvk.cli", *arguments], {})
    assert result.returncode == 2
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nnnvk: no such file: absent\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_version_anywhere(name: str) -> None:
    result = piped([sys.executable, "-m", "nnvk.cli", name, "--version"], {})
    assert (result.returncode, result.stdout) == (0, f"nnvk {nnvk.__version__}\n")


@pytest.mark.parametrize(("typed", "wanted"), [("nnvk in", "info"), ("nnvk bench --sec", "--seconds")])
def test_shells_complete(typed: str, wanted: str) -> None:
    changes = {"_NNVK_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    code = "from nnvk.cli.main import app; app(prog_name='nnvk')"
    result = piped([sys.executable, "-c", code], changes)
    assert result.stdout.split() == [wanted], result.stderr


@pytest.mark.parametrize(("option", "name"), [("--dot", "model.dot"), ("--json", "model.json")])
def test_files_are_written_before_anything_is_printed(tmp_path: Path, option: str, name: str) -> None:
    """As with ``| head -1``: whoever reads the first line alone ends the program at the second."""
    arguments = [sys.executable, "-m", "nnvk.cli", "info", str(INT8), option, str(tmp_path / name)]
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        arguments, env=environment({}), cwd="/", stdout=writer, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writer)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141
    assert (tmp_path / name).stat().st_size > 100


def test_what_mean_and_std_mean_for_a_quantised_model(tmp_path: Path) -> None:
    """The model's input takes 0 to 1, and pixels without --std are 0 to 255."""
    base = [sys.executable, "-m", "nnvk.cli", "run", str(INT8), "--input", str(SEVEN)]
    result = piped([*base, "--mean", "0", "--std", "1"], {})
    assert result.returncode == 0
    assert result.stderr == (
        "nnvk: note: input 'image': --mean and --std make real numbers of pixels, 0 to 255, and it takes 0 to 1: "
        "what is beyond is cut off; without them it gets the pixels as int8\n"
    )
    assert piped([*base, "--mean", "0", "--std", "255"], {}).stderr == ""
