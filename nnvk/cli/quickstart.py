"""``nnvk quickstart``."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.base.files import make_folder, writing
from nnvk.cli.lines import print_line
from nnvk.demo.assets import DATA

MODEL, PICTURE = "digits_int8.tflite", "0007_label7.png"
WIDTH = 80
STEPS = (
    (
        ["devices"],
        "The first device is the one that nnvk prefers. A GPU is named vulkan-0; without a GPU, Mesa's llvmpipe takes "
        "that place and computes on the CPU. nnapi-reference is the reference in NumPy: slow, and always there.",
    ),
    (
        ["info", "MODEL"],
        "The model takes one picture of 16x16 grey pixels and gives ten probabilities. All numbers have 8 bits; the "
        "column 'real number' says which number a stored value q stands for. The last column of the operations says "
        "where each one runs.",
    ),
    (
        ["run", "MODEL", "--input", "PICTURE", "--top", "3"],
        "The picture shows a 7, and class 7 has the best score. nnvk resizes a picture and converts its pixels to the "
        "type of the input. Any .tflite or .onnx model can take the place of this one.",
    ),
    (
        ["bench", "MODEL", "--seconds", "1"],
        "The first execution is the slowest one, so bench warms up before it measures. The median is the time of a run "
        "as an application sees it.",
    ),
    (
        ["compare", "MODEL"],
        "The table has the largest difference between the first device and the reference, for each operation. The "
        "results of a quantised model agree exactly.",
    ),
)
"""Each command, and the text below its output. MODEL and PICTURE stand for files."""
NEXT = "Next: nnvk -h lists all commands. In Python, model = nnvk.load('model.tflite') loads a model, model(x) runs it."


def command(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where the model and the picture are copied to.")
    ] = Path("nnvk-quickstart"),
) -> None:
    """Run five commands on a small model, and explain them.

    The model recognises handwritten digits. It is copied to a folder with a picture of a digit, so that the commands
    can be repeated and changed.
    """
    make_folder(out)
    files = {"MODEL": out / MODEL, "PICTURE": out / PICTURE}
    for path in files.values():
        with writing(path):
            shutil.copyfile(DATA / path.name, path)
    group = ctx.find_root().command
    for number, (words, explanation) in enumerate(STEPS, 1):
        arguments = [str(files.get(word, word)) for word in words]
        _print_command(f"{number}. $ ", ["nnvk", *arguments])
        _run(group, arguments)
        typer.echo(f"\n{textwrap.fill(explanation, WIDTH)}\n")
    typer.echo(textwrap.fill(NEXT, WIDTH))


def _print_command(prompt: str, words: Sequence[str]) -> None:
    """Print a command behind a prompt, continued on more lines as a shell continues it, so that it can be pasted."""
    parts: list[str] = []
    for word, before in zip(words, ("", *words), strict=False):
        if before.startswith("--"):  # an option and its value stay together
            parts[-1] += f" {shlex.quote(word)}"
        else:
            parts.append(shlex.quote(word))
    lines = [prompt + parts[0]]
    for part in parts[1:]:
        if len(f"{lines[-1]} {part} \\") <= WIDTH:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(" " * len(prompt) + part)
    for line in lines:
        print_line(line)


def _run(group: object, arguments: list[str]) -> None:
    """Run one command of the group. Raises `typer.Exit` with its exit code where it fails."""
    try:
        group.main(arguments, prog_name="nnvk")  # type: ignore[attr-defined]
    except SystemExit as done:
        if done.code:
            raise typer.Exit(int(done.code)) from None
