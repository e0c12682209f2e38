"""``nnvk demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnvk.base.files import make_folder, writing
from nnvk.cli.lines import CHECK_FAILED, print_line
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.demo import run_demo
from nnvk.loading.devices import find_device

SHEET = "nnvk-demo.png"


def command(
    output: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="PATH",
            help=f"The folder where {SHEET}, the contact sheet, goes; a name that ends in .png is the sheet itself.",
        ),
    ] = Path("demo-out"),
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Run on this device.", show_default="the preferred one"),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Recognise handwritten digits with the models of nnvk.

    One is float, one int8. Prints accuracy, devices, latency and where each operation ran, and draws a contact
    sheet. Exits with 1 where a model recognises fewer than nine in ten.
    """
    name = None if device is None else find_device(device).name  # fails before a folder is made
    sheet = output if output.suffix.lower() == ".png" else output / SHEET
    make_folder(sheet.parent)
    check_writable(sheet, json_file)
    with writing(sheet):
        demo = run_demo(sheet, name)

    def show() -> None:
        demo.show(print_table, print_line)
        print_line(f"contact sheet: {sheet}")

    deliver(json_file, {**demo.figures(), "sheet": str(sheet)}, show)
    if not demo.is_right:
        raise typer.Exit(CHECK_FAILED)
