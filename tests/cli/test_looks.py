"""Commands print plain text to a pipe and fit a terminal of 80 columns, whatever the environment says of colours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import SEPARATOR, WIDTH, apart, environment, on_a_terminal, together, what_is_left
from tflite_net import Net, T, write

import nnvk
from nnvk.cli.main import COMMANDS, EXIT_CODES
from nnvk.demo.assets import DATA

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
SEVEN = next(DATA.glob("*_label7.png"))
CALLS = {
    "quickstart": ["--out", "QUICK"],
    "devices": [],
    "info": [INT8],
    "graph": [INT8, "--html", "PAGE"],
    "run": [INT8, "--input", SEVEN, "--top", 3],
    "map": [INT8, SEVEN, "--out", "RESULTS", "--device", "cpu"],
    "bench": [FLOAT, INT8, "--runs", 1],
    "compare": [INT8],
    "evaluate": [FLOAT, INT8, "--inputs", DATA, "--labels", "TRUTH", "--scale", "1/255"],
    "report": [INT8, "--runs", 1, "--out", "PAGE"],
    "tune": ["DENSE"],
    "plan": [INT8],
    "check": ["--minutes", 0, "--in-process"],
    "conformance": ["VECTORS", "--jobs", 0],
    "demo": ["--out", "OUT"],
    "config": ["--pkg-config"],
}
"""Each command that is for people has one call. Words in capitals are files of the test.

The call of tune takes another model than that of info, which would say something else the next time.
"""
SLOW = {"quickstart", "report", "check", "demo"}
"""Commands that print by what the others print by, and take most of the time: not every environment has them."""
ONLY_TEXT = {"quickstart", "serve"}
"""Commands without ``--json``."""
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "FORCE_COLOR": {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "PY_COLORS": "1", "TTY_COMPATIBLE": "1"},
    "dumb": {"TERM": "dumb", "NO_COLOR": "1"},
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
    assert [*CALLS, "serve"] == list(COMMANDS)


def dense() -> bytes:
    """A small model, since a device is tuned for each operation."""
    net = Net([T("FLOAT32", (1, 8))], [T("FLOAT32", (1, 4))])
    net.op("FULLY_CONNECTED", [net.inputs[0], T(data=np.ones((4, 8)))], net.outputs[0], "FullyConnectedOptions")
    return write(net)


def left_out(look: str) -> Collection[str]:
    """The commands that an environment does not have."""
    return SLOW if look == "dumb" else ()


def calls(tmp_path: Path, but: Collection[str] = ()) -> list[list[object]]:
    (tmp_path / "vectors.json").write_text(json.dumps(RELU))
    (tmp_path / "dense.tflite").write_bytes(dense())
    files = {"VECTORS": tmp_path / "vectors.json", "OUT": tmp_path / "out"}
    shutil.rmtree(tmp_path / "results", ignore_errors=True)  # or the rows there would not be computed again
    (tmp_path / "truth.csv").write_text("".join(f"{path.name},{path.stem[-1]}\n" for path in DATA.glob("*.png")))
    files |= {"DENSE": tmp_path / "dense.tflite", "QUICK": tmp_path / "quick", "TRUTH": tmp_path / "truth.csv"}
    files |= {"PAGE": tmp_path / "page.html", "RESULTS": tmp_path / "results"}
    return [[name, *(files.get(str(word), word) for word in words)] for name, words in CALLS.items() if name not in but]


def nnvk_process(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "nnvk.cli", *map(str, arguments)]


def piped(arguments: Sequence[str], changes: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, env=environment(changes), cwd="/", capture_output=True, text=True, check=False, timeout=120
    )


def without_numbers(text: str) -> str:
    """Remove what differs from one run to the next: times, and with them the widths of columns."""
    return re.sub(r"[ -]+", " ", re.sub(r"\d[\d.,]*", " ", text))


def test_piped_it_is_plain_text_and_the_same_everywhere(tmp_path: Path) -> None:
    seen = defaultdict(set)
    for look, changes in ENVIRONMENTS.items():
        made = calls(tmp_path, left_out(look))
        result = piped(together(made), changes)
        assert (result.returncode, result.stderr) == (0, ""), look
        assert all(line.isprintable() for line in result.stdout.split("\n")), look
        assert not re.search(r"[\u2500-\u257f]", result.stdout), "no lines are drawn"
        for (name, *_), text in zip(made, apart(result.stdout), strict=True):
            seen[name].add(tuple(sorted(without_numbers(text).strip().split("\n"))))  # a table is sorted by time
    assert seen.keys() == CALLS.keys()
    assert {name for name, texts in seen.items() if len(texts) > 1} == set()


@pytest.mark.parametrize("look", ["FORCE_COLOR", "dumb"])
def test_on_a_terminal_it_fits_80_columns(look: str, tmp_path: Path) -> None:
    made = calls(tmp_path, left_out(look))
    printed = on_a_terminal(together(made), ENVIRONMENTS[look])
    if look == "dumb":
        assert "\x1b" not in printed
    assert not re.search(r"\x1b\[[\d;]*m", printed), "nothing has colours"
    for (name, *_), text in zip(made, apart(what_is_left(printed)), strict=True):
        for line in text.split("\n"):
            assert line.isprintable()
            names_files = name == "config" or line.startswith(("contact sheet: ", "wrote ", "not available: "))
            # The folder of the test has a long name, which is not folded.
            names_files = names_files or (name == "quickstart" and str(tmp_path) in line)
            assert len(line) <= WIDTH or names_files, (name, line)


def test_json_on_standard_output_and_in_a_file_is_the_same(tmp_path: Path) -> None:
    """The file is named behind a sign of equality or apart, in turn."""
    for folder in ("direct", "named"):
        (tmp_path / folder).mkdir()
    with_json = calls(tmp_path / "named", ONLY_TEXT)
    files = [tmp_path / f"{call[0]}{'.json' * (number % 2)}" for number, call in enumerate(with_json)]
    named = [["--json", file] if number % 2 else [f"--json={file}"] for number, file in enumerate(files)]
    made = [[*call, "--json"] for call in calls(tmp_path / "direct", ONLY_TEXT)]
    made += [[*call, *words] for call, words in zip(with_json, named, strict=True)]
    texts = apart(piped(together(made), ENVIRONMENTS["FORCE_COLOR"]).stdout)
    for file, text, other in zip(files, texts[: len(files)], texts[len(files) :], strict=True):
        assert other.endswith(f"wrote {file}\n")
        contents = [json.loads(text), json.loads(file.read_text())]
        assert contents[0].keys() == contents[1].keys()
        for content in contents:
            assert content["version"] == nnvk.__version__
            assert [(one["name"], one["driver"]) for one in content["devices"]] == [
                (device.name, device.version) for device in nnvk.get_devices()
            ]


def types_and_dimensions(content: Any) -> list[tuple[str, list[int]]]:
    """All that a JSON document says of types and dimensions."""
    if isinstance(content, list):
        return [found for one in content for found in types_and_dimensions(one)]
    if not isinstance(content, dict):
        return []
    own = [(content["type"], content["dimensions"])] if {"type", "dimensions"} <= content.keys() else []
    return own + [found for one in content.values() for found in types_and_dimensions(one)]


def test_types_have_one_name_and_dimensions_one_form(tmp_path: Path) -> None:
    some = [call for call in calls(tmp_path) if call[0] in ("info", "run")]
    texts = apart(piped(together([*some, *([*call, "--json"] for call in some)]), {}).stdout)
    for text in texts[:2]:
        assert "int8 1x10" in text
        assert "TENSOR_" not in text
    for text in texts[2:]:
        assert ("int8", [1, 10]) in types_and_dimensions(json.loads(text))


def test_help(tmp_path: Path) -> None:
    asked = [[*name, option] for name in ([], *([name] for name in COMMANDS)) for option in ("-h", "--help")]
    versions = [["--version"], *([name, "--version"] for name in COMMANDS)]
    texts = apart(piped(together([*asked, *versions]), ENVIRONMENTS["FORCE_COLOR"]).stdout)
    assert set(texts[len(asked) :]) == {f"nnvk {nnvk.__version__}\n"}
    plain = texts[: len(asked)]
    assert apart(on_a_terminal(together(asked[::2]), {})) == plain[::2]
    assert plain[::2] == plain[1::2]
    assert not re.search(r"[^\]]\.\.\.", plain[0]), "no summary is cut"
    for text in plain:
        lines = text.split("\n")
        assert max(map(len, lines)) <= WIDTH
        assert all(line.isprintable() for line in lines)
        assert "<" not in text, "types have names in capitals, and flags none"
        assert "(default" not in text
        for shared in ("--version", "--traceback", "-h, --help"):
            assert f"\n  {shared} " in text
    for name, text in zip(COMMANDS, plain[2::2], strict=True):
        assert ("--json [FILE]" in text) == (name not in ONLY_TEXT), name


def test_exit_codes_are_documented(nnvk_command: Any) -> None:
    text = nnvk_command("-h").stdout
    for code in EXIT_CODES:
        assert re.search(rf"^  {code} +\S", text, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == list(EXIT_CODES)


ERRORS = {
    "nonsense": "nnvk: no such command 'nonsense' (nnvk -h)",
    "benhc": "nnvk: no such command 'benhc'; did you mean 'bench'? (nnvk -h)",
    "run x --devise cpu": "nnvk: no such option: --devise; did you mean --device? (nnvk run -h)",
    "info x --device nnapi-referense": "nnvk: there is no device 'nnapi-referense'; the devices are ",
    "devices --nonsense": "nnvk: no such option: --nonsense (nnvk devices -h)",
    "run": "nnvk: missing argument 'MODEL' (nnvk run -h)",
    "bench x --runs 0": "nnvk: invalid value for '--runs': it should be greater than or equal to 1 (nnvk bench -h)",
    "bench x --runs abc": "nnvk: invalid value for '--runs': it should be a valid integer (nnvk bench -h)",
    "run x --device cpu --device gpu": "nnvk: --device is given twice (nnvk run -h)",
    "info absent.tflite": "nnvk: no such file: absent.tflite",
    "info /": "nnvk: a folder, not a file of a model: /",
    "info absent.tflite --device abacus": "nnvk: there is no device 'abacus'; the devices are ",
    "run absent.tflite --device abacus": "nnvk: there is no device 'abacus'; the devices are ",
    "bench absent.tflite --device abacus": "nnvk: there is no device 'abacus'; the devices are ",
    "conformance absent": "nnvk: no such file or folder: absent",
}


def test_errors() -> None:
    result = piped(together([line.split() for line in ERRORS]), ENVIRONMENTS["FORCE_COLOR"])
    assert result.stdout == f"{SEPARATOR}2\n" * len(ERRORS)
    for printed, expected in zip(result.stderr.splitlines(), ERRORS.values(), strict=True):
        assert printed.startswith(expected)


def test_a_terminal_folds_errors_between_words(nnvk_command: Any) -> None:
    words = ["info", INT8, "--shape", "an_input_that_the_model_does_not_have=1x16x16x1", "--device", "cpu"]
    (error,) = nnvk_command(*words).stderr.splitlines()
    assert len(error) > WIDTH
    lines = on_a_terminal(nnvk_process(*words), {}, code=2).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(lines) == error


def test_an_error_stays_out_of_the_progress_bar(tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"no model")
    arguments = ["bench", FLOAT, tmp_path / "bad.tflite", INT8, "--runs", 1, "--device", "cpu"]
    printed = on_a_terminal(nnvk_process(*arguments), {}, code=2)
    (line,) = [line for line in printed.split("\n") if "not a .tflite file" in line]
    assert re.fullmatch(r"((.*\r)?(\x1b\[[\d;?]*[A-Za-z])*)*nnvk: not a \.tflite file:.*", line)


@pytest.mark.parametrize("command", ["run", "tune"])
def test_a_long_compilation_is_shown_until_it_is_over(command: str) -> None:
    slow = [sys.executable, "-m", "slow_compilation", command, str(INT8), "--device", "cpu"]
    printed = on_a_terminal(slow, {"NNVK_PROGRESS": "1"})
    name = re.escape(Path(INT8).name)
    assert re.search(rf"\r\x1b\[Knnvk: compiling {name}, once(: a model of \d+ operations)?, \d+ s[;\r]", printed)
    assert "compiling" not in what_is_left(printed)


def test_a_progress_bar_stands_in_for_standard_error() -> None:
    """A compilation is not shown then: its line would be written over the bar."""
    code = (
        "import sys\nfrom nnvk.cli.output import progress, working\n"
        "is_own = []\n"
        "for shown in progress('Working', 1), working('Working'):\n"
        "    with shown:\n"
        "        is_own.append(sys.stderr is sys.__stderr__)\n"
        "print(*is_own, sys.stderr is sys.__stderr__)\n"
    )
    assert what_is_left(on_a_terminal([sys.executable, "-c", code], {})).endswith("False False True\n")


def test_traceback_anywhere() -> None:
    result = piped(together([["--traceback", "info", "absent"], ["info", "absent", "--traceback"]]), {})
    assert result.stdout == f"{SEPARATOR}2\n" * 2
    end = "\nnnvk: no such file: absent\n"
    first, second, rest = result.stderr.split(end)
    assert rest == ""
    assert first.startswith("Traceback (most recent call last):\n")
    assert second.startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize(("typed", "wanted"), [("nnvk in", "info"), ("nnvk bench --sec", "--seconds")])
def test_shells_complete(typed: str, wanted: str) -> None:
    changes = {"_NNVK_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    code = "from nnvk.cli.main import app; app(prog_name='nnvk')"
    result = piped([sys.executable, "-c", code], changes)
    assert result.stdout.split() == [wanted], result.stderr


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [("graph", "--dot", "model.dot"), ("graph", "--html", "model.html"), ("info --device cpu", "--json", "model.json")],
)
def test_files_are_written_before_anything_is_printed(tmp_path: Path, command: str, option: str, name: str) -> None:
    """As with ``| head -1``: whoever reads the first line alone ends the program at the second."""
    arguments = nnvk_process(*command.split(), INT8, option, tmp_path / name)
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
    call = ["run", INT8, "--input", SEVEN, "--device", "cpu", "--mean", 0, "--std"]
    result = piped(together([[*call, 255], [*call, 1]]), {})
    apart(result.stdout)
    assert result.stderr == (
        "nnvk: note: input 'image': its pixels become 0 to 255, and it takes 0 to 1: what is beyond is cut off; "
        "without a normalisation it gets the pixels as int8; --mean, --std or --scale change it\n"
    )
