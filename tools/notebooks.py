"""Notebooks of ``examples/notebooks`` as pages: `executed` runs one, and `as_markdown` makes a page of it.

    python tools/notebooks.py               run all, and say how many seconds each took
    python tools/notebooks.py NAME...       run some

The packages are nbclient, nbconvert and ipykernel, and what the notebooks name.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
SECONDS = 120
"""The time limit of a cell."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs. Raises `nbclient.exceptions.CellExecutionError`, which names the cell."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    quiet = ["--log-level=ERROR", "--HistoryManager.enabled=False"]
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place, extra_arguments=quiet).execute()
    return notebook


def as_markdown(notebook: nbformat.NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, and its pictures by their names, which begin with ``name``."""
    resources: dict[str, Any] = {"unique_key": name}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources)
    return text, resources["outputs"]


def main() -> None:
    """Run the notebooks."""
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        begin = time.monotonic()
        executed(FOLDER / f"{name}.ipynb")
        print(f"{name}: {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
