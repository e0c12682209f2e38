"""``nnvk demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnvk.demo import run_demo

SHEET = "nnvk-demo.png"


def command(
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help=f"Where {SHEET}, the contact sheet, goes.")
    ] = Path("demo-out"),
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Run on this device (the preferred one).")
    ] = None,
) -> None:
    """Recognise handwritten digits with the models that nnvk ships.

    One is float, one int8. Prints the devices, accuracy, latency and where each operation ran, and draws a
    contact sheet.
    """
    if output.suffix == ".png":
        output.parent.mkdir(parents=True, exist_ok=True)
    else:
        output.mkdir(parents=True, exist_ok=True)
        output /= SHEET
    raise typer.Exit(run_demo(output, device, Console()))
