"""Finding the models that the command line names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnvk.importers import formats

Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of random inputs.")]


def find_models(paths: Sequence[Path]) -> list[Path]:
    """The files among these paths, and the models in those that are folders, also deeper down, each once.

    Raises ValueError for a folder that has none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(formats.models_in(path) if path.is_dir() else [path]))
    return list(found)
