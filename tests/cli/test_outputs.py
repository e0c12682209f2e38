"""The files that commands write: one word for the option, and checks before the work."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nnvk.api import Compilation
from nnvk.base.text import title
from nnvk.cli import output
from nnvk.cli.main import COMMANDS, _load
from nnvk.demo.assets import DATA

MODEL, SEVEN = str(DATA / "digits_float.tflite"), str(DATA / "0007_label7.png")
PROC = Path("/proc")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_option_is_out_everywhere(name: str) -> None:
    options = [option for param in _load(name).params for option in param.opts]
    assert not {"--output", "-o", "--out-dir", "--save"} & set(options)


@pytest.mark.skipif(not PROC.is_dir(), reason=f"there is no {PROC}")
@pytest.mark.parametrize(
    "words",
    [
        ["run", MODEL, "--out", "/proc/x.npz"],
        ["run", MODEL, "--trace", "/proc/x.json"],
        ["map", MODEL, SEVEN, "--out", "/proc/x"],
        ["bench", MODEL, "--json=/proc/x.json"],
        ["compare", MODEL, "--plot", "/proc/x.svg"],
        ["report", MODEL, "--out", "/proc/x.html"],
        ["graph", MODEL, "--html", "/proc/x.html"],
        ["graph", MODEL, "--dot", "/proc/x.dot"],
        ["tune", MODEL, "--json=/proc/x.json"],
        ["plan", MODEL, "--json=/proc/x.json"],
        ["check", "--json=/proc/x.json"],
        ["demo", "--out", "/proc/x.png"],
        ["quickstart", "--out", "/proc/x"],
    ],
    ids=lambda words: " ".join(word for word in words if not word.startswith("/")),
)
def test_a_folder_that_takes_no_files(nnvk_command: Any, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Not even root can write there, though permissions say so."""
    monkeypatch.setattr(Compilation, "finish", lambda _: pytest.fail("it compiles"))
    result = nnvk_command(*words)
    place = words[-1].removeprefix("--json=")
    assert result.exit_code == 2
    assert result.stderr in (
        f"nnvk: can't be written (the folder takes no new files): {place}\n",
        f"nnvk: can't be written (permission denied): {place}\n",
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["graph", MODEL, "--html", "x.pdf"], "the name of --html must end in .html or .htm: x.pdf"),
        (
            ["graph", MODEL, "--dot", "x.png"],
            "--dot writes text for Graphviz, not a png: x.png; `dot -Tpng x.dot -o x.png` draws it",
        ),
        (["report", MODEL, "--out", "x.pdf"], "the name of --out must end in .html or .htm: x.pdf"),
        (["run", MODEL, "--out", "x.npy"], "the name of --out must end in .npz: x.npy"),
        (["compare", MODEL, "--plot", "x.jpg"], "the name of --plot must end in .svg or .png: x.jpg"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_names_of_other_formats(nnvk_command: Any, words: list[str], error: str) -> None:
    result = nnvk_command(*words)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"nnvk: {error}\n")
    assert not Path(words[-1]).exists()


def test_a_note_beside_a_bar_is_cut_and_the_numbers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    console = Console(file=written, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "_moving", lambda: console)
    with output.progress("Checking vulkan-0", 1234) as advance:
        advance("1 failure, BIDIRECTIONAL_SEQUENCE_LSTM + QUANTIZED_16BIT_LSTM + 4 more")
    last = written.getvalue().rsplit("Checking", 1)[1]
    assert last.startswith(" vulkan-0 ")
    assert " 1/1234 0:00:00 1 failure, BIDIRECTIONAL_SEQUE" in last


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a/onnx/model.onnx", "b/onnx/model.onnx", "b/model.onnx", "c/other.onnx")]
    assert [title(path, paths) for path in paths] == [
        "a/onnx/model.onnx",
        "b/onnx/model.onnx",
        "b/model.onnx",
        "other.onnx",
    ]
    assert title(paths[0], paths[:1]) == "model.onnx"
